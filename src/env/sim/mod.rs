//! [`SimEnv`]: a simulated machine for tests of crashes, faults, time and background jobs.
//!
//! Everything it does follows from its seed and the calls made, so a failing test repeats.
//! Invariant: what was synced survives every crash, and nothing else is promised to.

mod disk;
mod file;
mod inode;
mod locks;
mod power;
mod schedule;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::Storage;
use schedule::Schedule;

pub use power::{Fault, Operation};

use super::{Clock, Disk, Env, Jobs};
use crate::version::Version;

/// A simulated machine: a disk that forgets what was not synced, a clock that stands still unless
/// told, and jobs that wait to be stepped. Clones are handles of one machine.
///
/// A file's content is durable once the file is synced, its name once its directory is: a crash
/// treats the rest as [`CrashStyle`] says. Handles from before a crash fail for good, as those of
/// a process that died with the machine would.
///
/// ```
/// use std::path::Path;
/// use tablestone::env::{CrashStyle, Env, SimEnv};
///
/// # fn main() -> std::io::Result<()> {
/// let env = SimEnv::new(42);
/// let (dir, path) = (Path::new("/db"), Path::new("/db/file"));
/// env.disk().create_dir_all(dir)?;
/// let file = env.disk().create(path)?;
/// file.write_at(b"kept", 0)?;
/// file.sync()?;
/// env.disk().sync_dir(dir)?;
/// file.write_at(b"lost", 4)?;
///
/// env.crash(CrashStyle::LoseUnsynced);
///
/// assert!(file.sync().is_err());
/// assert_eq!(env.read_file(path)?, b"kept");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SimEnv {
    storage: Storage,
    schedule: Schedule,
}

/// What a crash does to what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashStyle {
    /// All of it is lost.
    LoseUnsynced,
    /// All of it happened to reach the disk.
    KeepAll,
    /// A random part of it reached the disk, in any order: of each file some of the writes, some
    /// of those only in part (whole sectors of 512 bytes), and maybe a length without its bytes;
    /// of the creations, renames and removals a prefix.
    Torn,
}

impl SimEnv {
    /// A machine with an empty disk. The seed decides what a crash tears.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { storage: Storage::new(seed), schedule: Schedule::new() }
    }

    /// Ends everything that runs on the machine and starts it again: handles from before fail,
    /// locks are free, queued jobs are gone; power is on. Faults stay, and so does the time.
    pub fn crash(&self, style: CrashStyle) {
        self.storage.crash(style);
        self.schedule.drop_jobs();
    }

    /// Cuts the power once this many more operations have changed the disk: from then on all
    /// operations fail, until [`crash`](Self::crash). With every count in turn, a test crashes
    /// at every point that its workload has.
    pub fn crash_after(&self, operations: u64) {
        self.storage.cut_power_after(operations);
    }

    /// How many operations have changed the disk since the machine was made, syncs included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.storage.operations()
    }

    /// Injects an error; several faults may be pending.
    ///
    /// A write that fails so leaves a random prefix of its bytes. After a failed sync each write
    /// it was to make durable either is or never will be, although reads still show it.
    pub fn fail(&self, fault: Fault) {
        self.storage.fail(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.storage.clear_faults();
    }

    /// Has all files together take no more than that many bytes; `None`, as at first, is without limit. What goes
    /// beyond fails of a full disk, and a write leaves what there was room for. Bytes count from when they are
    /// written, up to the file's length, until the file loses its name.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use std::path::Path;
    /// use tablestone::env::{Env, SimEnv};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let (env, dir) = (SimEnv::new(42), Path::new("/db"));
    /// env.set_capacity(Some(5));
    /// env.disk().create_dir_all(dir)?;
    /// let file = env.disk().create(&dir.join("file"))?;
    /// assert!(file.write_at(b"too much", 0).is_err_and(|e| e.kind() == ErrorKind::StorageFull));
    /// assert_eq!((env.read_file(&dir.join("file"))?, env.disk().free_bytes(dir)), (b"too m".into(), Some(0)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.storage.set_capacity(bytes);
    }

    /// Says how much memory there is, with the pages of files; `None`, as at first, is not known. Databases ask as
    /// they are opened.
    ///
    /// ```
    /// use tablestone::env::{Env, SimEnv};
    ///
    /// let env = SimEnv::new(42);
    /// env.set_memory(Some(512 << 20));
    /// assert_eq!(env.disk().memory_bytes(), Some(512 << 20));
    /// ```
    pub fn set_memory(&self, bytes: Option<u64>) {
        self.storage.set_memory(bytes);
    }

    /// Sets the wall clock, forth or back. Timers go by the monotonic one, which this leaves.
    pub fn set_now(&self, now: Version) {
        self.schedule.set_now(now);
    }

    /// Lets time pass on both clocks. Timers that become due run when jobs are stepped.
    pub fn advance(&self, by: Duration) {
        self.schedule.advance(by);
    }

    /// Runs the next background job that is due, of any database, and says whether there was one.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn step(&self) -> bool {
        self.schedule.step()
    }

    /// Runs background jobs until none is due, and says how many ran.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn run_all(&self) -> usize {
        std::iter::from_fn(|| self.step().then_some(())).count()
    }

    /// The bytes of a file as a reader would see them now.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    pub fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.storage.read_file(path)
    }

    /// Replaces or creates a file, durably, with its directory.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) {
        self.storage.write_file(path, bytes);
    }

    /// Removes a file, durably; fine if there is none.
    pub fn remove_file(&self, path: &Path) {
        self.storage.remove_file(path);
    }

    /// Flips one bit of the byte at `offset` of a file, durably.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `UnexpectedEof` if it ends before.
    pub fn flip(&self, path: &Path, offset: u64) -> io::Result<()> {
        self.storage.flip(path, offset)
    }

    /// Has the block of that offset of a file fail to be read, until it is written to.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `UnexpectedEof` if it ends before.
    pub fn spoil(&self, path: &Path, offset: u64) -> io::Result<()> {
        self.spoil_after(path, offset, 0)
    }

    /// Has the block of that offset of a file be read so many times more, whole or in part, and then fail to be
    /// read, until it is written to.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `UnexpectedEof` if it ends before.
    pub fn spoil_after(&self, path: &Path, offset: u64, reads: u32) -> io::Result<()> {
        self.storage.spoil(path, offset, reads)
    }

    /// Names of the files in a directory, sorted.
    #[must_use]
    pub fn list(&self, dir: &Path) -> Vec<String> {
        self.storage.list(dir)
    }
}

impl Env for SimEnv {
    fn disk(&self) -> Arc<dyn Disk> {
        self.storage.disk()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.schedule.clock()
    }

    fn start_jobs(&self, _compaction_threads: usize) -> io::Result<Arc<dyn Jobs>> {
        Ok(self.schedule.jobs())
    }
}
