//! Everything that touches the machine: files, the clock, background jobs.
//!
//! [`RealEnv`] is the machine. [`SimEnv`] is a simulated one for tests: files whose unsynced bytes
//! a crash loses, tears or reorders, a clock that the test sets, jobs that the test steps. The
//! engine reaches neither file system, clock nor threads except through these traits. Of
//! other rooms it calls version and sync alone.

mod addresses;
mod aside;
mod deferred;
mod mapping;
#[cfg(target_os = "linux")]
mod memory;
mod once;
mod read_around;
mod read_only;
mod real;
mod real_lock;
mod reserved;
mod sim;
#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;
mod threads;
mod write_back;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use aside::damaged_name;
pub(crate) use deferred::{Deferred, InOrder};
pub use mapping::Mapping;
pub(crate) use mapping::{Backing, map};
pub(crate) use once::{Background, Queued};
pub(crate) use read_around::{ReadAround, Unreadable};
pub(crate) use read_only::ReadOnly;
pub use real::RealEnv;
pub use sim::{CrashStyle, Fault, Operation, SimEnv};

use crate::version::Version;

/// The size of blocks that any device takes whole.
pub const BLOCK_BYTES: usize = 4 << 10;

/// No number in the name of a file gets so far: one who counts on from the last in a directory comes to no end.
pub(crate) const NO_FILE_NUMBER: u64 = 1 << 62;

/// So much of a file is copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Opens a file, if there is one of that name.
pub(crate) fn open_if_there(disk: &dyn Disk, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
    match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether the disk is full, or what the user may have of it.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A machine to run on.
pub trait Env: Send + Sync + fmt::Debug + 'static {
    /// Its file system.
    fn disk(&self) -> Arc<dyn Disk>;
    /// Its clock.
    fn clock(&self) -> Arc<dyn Clock>;
    /// Starts the background jobs of one database, with up to that many threads for compactions.
    ///
    /// # Errors
    /// What the operating system says if it has no thread to give.
    fn start_jobs(&self, compaction_threads: usize) -> io::Result<Arc<dyn Jobs>>;
}

/// A file system. Paths are used as given; nothing is buffered above the operating system.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The same path, whatever working directory the process changes to; as it is, where there is none.
    ///
    /// # Errors
    /// What the operating system says of the working directory.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }
    /// Creates a directory and its missing parents, durably; fine if it exists.
    ///
    /// # Errors
    /// What the file system refuses.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Names of the files in a directory, in no order.
    ///
    /// # Errors
    /// What the file system refuses; `NotFound` if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes created, renamed and removed names of a directory durable.
    ///
    /// # Errors
    /// What the file system refuses.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a file, creating it if missing, until the guard is dropped.
    ///
    /// # Errors
    /// `WouldBlock` if another handle or process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
    /// Takes a lock that others may share, until the guard is dropped: nobody takes the [exclusive](Self::lock)
    /// one meanwhile. The file need not be there, and is not created.
    ///
    /// # Errors
    /// `WouldBlock` if another handle or process holds the exclusive one.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.lock(path)
    }
    /// Creates an empty file for reading and writing; an existing one is emptied.
    ///
    /// # Errors
    /// What the file system refuses.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading alone, which the caller may not be allowed to write to.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }
    /// Opens an existing file for reading and writing, of [blocks](DiskFile::write_blocks_at) among others.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    fn open_for_blocks(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }
    /// Renames a file, replacing an existing one atomically.
    ///
    /// # Errors
    /// What the file system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Has a file that nobody writes to any more in another directory, too: under a second name, or a durable
    /// copy where the file system has no such names. The name is durable as those of created files are.
    ///
    /// # Errors
    /// `NotFound` if there is none; `AlreadyExists` if there is one of the other name; what else the file system
    /// refuses.
    fn share(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.copy(from, to)
    }
    /// Copies a file, replacing an existing one; the content is durable.
    ///
    /// # Errors
    /// `NotFound` if there is none; what else the file system refuses.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let source = self.open(from)?;
        let (len, target) = (source.len()?, self.create(to)?);
        let mut buffer = vec![0; len.min(COPY_BYTES) as usize];
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(COPY_BYTES) as usize;
            let piece = buffer.get_mut(..piece).unwrap_or_default();
            source.read_at(piece, at)?;
            target.write_at(piece, at)?;
            at += piece.len() as u64;
        }
        target.sync()
    }
    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// How many bytes more the files of a directory may take, as far as the file system can tell. It may be
    /// asked often, and is right only at that moment. `None` if it is not known: that counts as enough.
    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        let _ = dir;
        None
    }
    /// How many bytes of memory the process may have, with the pages of files that it reads. It is asked when a
    /// database is opened. `None` if it is not known: that counts as enough.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// Holds a lock until dropped.
pub trait LockGuard: Send + Sync + fmt::Debug {}

/// An open file, addressed by offset; usable from many threads.
#[expect(clippy::len_without_is_empty, reason = "an emptiness test would be one more system call")]
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Fills the whole buffer.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all bytes, extending the file if need be (a gap reads as zeros).
    ///
    /// # Errors
    /// `StorageFull` when the disk is; what else the file system refuses.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// Writes whole blocks, past the page cache if the file was [opened for it](Disk::open_for_blocks) and
    /// the file system can: `data`'s address and length and `offset` are multiples of [`BLOCK_BYTES`].
    /// Durable after a [`sync`](Self::sync), as what was written otherwise.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    fn write_blocks_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)
    }
    /// Has room made for bytes that are about to be [written](Self::write_at) between two offsets, and for
    /// writing few of them at a time, if it can; what the file does not have there reads as zeros until then.
    /// For a file that is never mapped meanwhile. On the real machine they are written to a map where the
    /// file system writes in place, so what fails there ends the process with SIGBUS.
    fn reserve(&self, from: u64, to: u64) {
        let _ = (from, to);
    }
    /// Has what was written between two offsets begin to be written to the device, if the system can, so
    /// that a later [`sync`](Self::sync) waits for less. Nothing is durable by it, and what fails is that
    /// sync's to tell.
    fn begin_write_back(&self, from: u64, to: u64) {
        let _ = (from, to);
    }
    /// Writes all bytes within the file and makes them durable, but not all that was written elsewhere in it.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at) and [`sync`](Self::sync); `Unsupported` where only a sync of the
    /// whole file makes anything durable, which is what this does by itself.
    fn write_durably_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let _ = (data, offset);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes the file's content and length durable.
    ///
    /// # Errors
    /// What the file system refuses; afterwards the content is unknown.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    ///
    /// # Errors
    /// What the file system refuses.
    fn len(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeros) the file.
    ///
    /// # Errors
    /// What the file system refuses.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Maps the whole file for reading; nobody writes to it while the map is there, nor cuts, replaces or removes
    /// it, which Windows refuses.
    ///
    /// # Errors
    /// What the operating system refuses. After `OutOfMemory`, which says that there are no more maps to be
    /// had, or `Unsupported`, which says that there is none of this file, it is read by [`read_at`](Self::read_at).
    fn map(&self) -> io::Result<Mapping>;
}

/// A clock.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall-clock time in version ticks; may step back.
    fn now(&self) -> Version;
    /// Time since some fixed instant; never steps back.
    fn monotonic(&self) -> Duration;
}

/// A piece of background work.
pub type Job = Box<dyn FnOnce() + Send>;

/// Which queue a job waits in. Each class has threads of its own, so a long compaction never
/// keeps the log or a flush waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobClass {
    /// Writing and syncing the log, timers; short.
    Log,
    /// Flushing memtables.
    Flush,
    /// Making segments of the log ready, and syncing those that nobody waits for.
    Segment,
    /// Compactions and removal of files.
    Compaction,
    /// Reads whose callers have no thread to wait on; many at once.
    Read,
    /// Parts of a load, and half of a large compaction, beside the rest. Queued only where there are
    /// [helpers](Jobs::helpers).
    Help,
}

/// The background jobs of one database.
pub trait Jobs: Send + Sync + fmt::Debug {
    /// Queues a job to run once `delay` has passed. After [`stop`](Jobs::stop) it is dropped.
    fn spawn_after(&self, class: JobClass, delay: Duration, job: Job);
    /// Threads that help with loads and large compactions; without any, each of these does all itself.
    fn helpers(&self) -> usize {
        0
    }
    /// Where jobs are stepped by a test: runs the next one on this thread, or waits for one that
    /// another thread runs, and says whether there was one. Where they have threads: does nothing,
    /// `false`.
    fn assist(&self) -> bool;
    /// Whether jobs run only when [`assist`](Jobs::assist) is called or a test steps them.
    fn stepped(&self) -> bool;
    /// Called by a long job after each part of it: who waits for its processor may have that meanwhile.
    fn give_way(&self) {}
    /// Drops queued jobs and waits for running ones to end.
    fn stop(&self);
}
