//! [`RealLock`]: who has a directory open, by locks of the operating system.
//!
//! Invariant: of one directory there is one lock that is taken alone, or any number that are shared, over all
//! processes. They are released when their guard is dropped, or their process ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use super::LockGuard;
use super::system::{self, DirLock};

/// Closing the descriptors releases the locks, also when the process is killed. A process that is being started
/// has copies of them for a moment, so it is not left to that.
#[derive(Debug)]
pub(super) struct RealLock {
    /// The file that stands for the directory, if it is there.
    file: Option<File>,
    /// The directory itself, which stays locked if somebody removes the file, which another process would then make
    /// anew. None where directories have no locks.
    dir: Option<DirLock>,
}

impl RealLock {
    /// Locks a file, which is made if it is missing, and its directory.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let file = system::lock_options().write(true).create(true).truncate(false).open(path)?;
        locked(file.try_lock())?;
        // Whatever comes of the other, this one is released in order.
        let mut lock = Self { file: Some(file), dir: None };
        lock.dir = path.parent().map_or(Ok(None), DirLock::take)?;
        Ok(lock)
    }

    /// The same for reading alone, with others. Nothing is made: a directory that has no such file is locked
    /// by itself.
    pub(super) fn take_shared(path: &Path) -> io::Result<Self> {
        let file = match system::lock_options().read(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file?),
        };
        file.as_ref().map_or(Ok(()), |file| locked(file.try_lock_shared()))?;
        let mut lock = Self { file, dir: None };
        lock.dir = path.parent().map_or(Ok(None), DirLock::take_shared)?;
        Ok(lock)
    }
}

fn locked(tried: Result<(), TryLockError>) -> io::Result<()> {
    match tried {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        let dir = self.dir.as_ref().map_or(Ok(()), DirLock::release);
        let file = self.file.as_ref().map_or(Ok(()), system::unlock);
        for error in [dir, file].into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a lock is held until its file is closed");
        }
    }
}

impl LockGuard for RealLock {}

#[cfg(test)]
mod tests {
    use super::*;

    fn would_block(taken: io::Result<RealLock>) -> bool {
        taken.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn a_lock_is_exclusive_until_its_guard_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let guard = RealLock::take(&path).unwrap();
        assert!(would_block(RealLock::take(&path)) && would_block(RealLock::take_shared(&path)));
        drop(guard);
        RealLock::take(&path).unwrap();
    }

    #[test]
    fn a_shared_lock_keeps_out_who_wants_it_alone_until_the_last_guard_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for makes_file in [false, true] {
            if makes_file {
                drop(RealLock::take(&path).unwrap());
            }
            let guards =
                [RealLock::take_shared(&path).unwrap(), RealLock::take_shared(&path).unwrap()];
            assert_eq!(path.exists(), makes_file);
            for guard in guards {
                assert!(would_block(RealLock::take(&path)));
                drop(guard);
            }
        }
        RealLock::take(&path).unwrap();
    }

    #[test]
    fn a_lock_ends_with_its_guard_though_another_process_has_a_copy_of_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let file = File::create(&path).unwrap();
        file.try_lock().unwrap();
        let _copy = file.try_clone().unwrap();
        drop(RealLock { file: Some(file), dir: None });
        RealLock::take(&path).unwrap();
    }
}
