//! What Unix does in its own way; `windows.rs` has the same functions.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use memmap2::{Advice, Mmap};

/// Fills the whole buffer; `UnexpectedEof` if the file ends before.
pub(super) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buf, offset)
}

/// Writes all bytes.
pub(super) fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// Makes created, renamed and removed names of a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Renames a file, replacing an existing one atomically.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Removes a name of a file; who has it open or mapped keeps its bytes.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Whether an open file has a name, as far as the system counts them.
pub(super) fn has_name(file: &File) -> bool {
    file.metadata().map_or(true, |found| found.nlink() > 0)
}

/// A second name for a file.
pub(super) fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)
}

/// How many bytes more the files of a directory may take: without what is kept for the superuser, also for the
/// superuser.
#[cfg(target_os = "linux")]
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(dir).ok()?;
    // Where there is no limit, or none that is told, it has no blocks at all.
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn free_bytes(_dir: &Path) -> Option<u64> {
    None
}

/// How much memory the process may have, with the pages of files.
#[cfg(target_os = "linux")]
pub(super) fn memory_bytes() -> Option<u64> {
    super::memory::limit()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn memory_bytes() -> Option<u64> {
    None
}

/// Has nothing read ahead of a map that is read here and there.
pub(super) fn read_scattered(map: &Mmap) -> io::Result<()> {
    map.advise(Advice::Random)
}

/// Has part of a map read at once, if the system will.
pub(super) fn will_need(map: &Mmap, start: usize, len: usize) {
    let _ = map.advise_range(Advice::WillNeed, start, len);
}

/// How a file is opened that is to be locked.
pub(super) fn lock_options() -> OpenOptions {
    OpenOptions::new()
}

/// Ends the lock of a file.
pub(super) fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}

/// A lock of a directory, until it is released.
#[derive(Debug)]
pub(super) struct DirLock(File);

impl DirLock {
    /// None where directories have no locks.
    pub(super) fn take(dir: &Path) -> io::Result<Option<Self>> {
        Self::by(File::try_lock, dir)
    }

    /// The same, for one of many who only read.
    pub(super) fn take_shared(dir: &Path) -> io::Result<Option<Self>> {
        Self::by(File::try_lock_shared, dir)
    }

    pub(super) fn release(&self) -> io::Result<()> {
        unlock(&self.0)
    }

    /// Whether a path leads to it.
    pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let (own, found) = (self.0.metadata()?, fs::metadata(path)?);
        Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
    }

    fn by(lock: fn(&File) -> Result<(), TryLockError>, dir: &Path) -> io::Result<Option<Self>> {
        let Ok(dir) = File::open(dir) else { return Ok(None) };
        match lock(&dir) {
            Ok(()) => Ok(Some(Self(dir))),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }
}
