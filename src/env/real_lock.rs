//! [`RealLock`]: who has a directory open, by locks of the operating system.
//!
//! Invariant: of one directory there is one lock that is taken alone, or any number that are shared, over all
//! processes. They are released when their guard is dropped, or their process ends. The lock is of the directory, not
//! of its path: it says whether that still leads there.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LockGuard;
use super::system::{self, DirLock};

/// The guard. Closing the descriptors releases the locks, also when the process is killed. A process that is being
/// started has copies of them for a moment, so it is not left to that.
#[derive(Debug)]
pub(super) struct RealLock(Arc<LockedDir>);

/// What is locked.
#[derive(Debug)]
pub(super) struct LockedDir {
    path: PathBuf,
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
        Self::new(path, Some(file), DirLock::take)
    }

    /// The same for reading alone, with others. Nothing is made: a directory that has no such file is locked
    /// by itself.
    pub(super) fn take_shared(path: &Path) -> io::Result<Self> {
        let file = match system::lock_options().read(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file?),
        };
        file.as_ref().map_or(Ok(()), |file| locked(file.try_lock_shared()))?;
        Self::new(path, file, DirLock::take_shared)
    }

    fn new(
        path: &Path,
        file: Option<File>,
        take: impl FnOnce(&Path) -> io::Result<Option<DirLock>>,
    ) -> io::Result<Self> {
        let path = path.parent().unwrap_or(path).to_owned();
        let (dir, taken) = match take(&path) {
            Ok(dir) => (dir, Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Whatever came of the directory's, the file's is released in order.
        let lock = Self(Arc::new(LockedDir { path, file, dir }));
        taken.map(|()| lock)
    }

    /// What is locked, which whoever holds it keeps no longer locked than the guard does.
    pub(super) fn locked_dir(&self) -> &Arc<LockedDir> {
        &self.0
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
        let LockedDir { file, dir, .. } = &*self.0;
        let dir = dir.as_ref().map_or(Ok(()), DirLock::release);
        let file = file.as_ref().map_or(Ok(()), system::unlock);
        for error in [dir, file].into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a lock is held until its file is closed");
        }
    }
}

impl LockGuard for RealLock {}

impl LockedDir {
    /// Refuses a name in the directory where its path leads to another one by now.
    pub(super) fn check(&self, name: &Path) -> io::Result<()> {
        if name.parent() != Some(&self.path) {
            return Ok(());
        }
        match &self.dir {
            Some(dir) if !dir.is_at(&self.path)? => Err(io::Error::other(
                "another directory has taken the place of the one that is open",
            )),
            _ => Ok(()),
        }
    }
}

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
        drop(RealLock::new(&path, Some(file), |_| Ok(None)));
        RealLock::take(&path).unwrap();
    }
}
