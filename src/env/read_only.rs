//! [`ReadOnly`]: a disk that is only looked at.
//!
//! Invariant: nothing on the disk changes by way of it. What would change something is refused, before the
//! disk hears of it; what would only make a change durable has nothing to do.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile, LockGuard};

/// A disk like another, of which nothing can be changed. Its locks are shared.
#[derive(Debug)]
pub(crate) struct ReadOnly {
    disk: Arc<dyn Disk>,
}

impl ReadOnly {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "the database was opened to be read only",
    ))
}

impl Disk for ReadOnly {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.list(dir).map(|_| ())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.disk.lock_shared(path)
    }

    fn create(&self, _path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        refused()
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open_to_read(path)
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn share(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn copy(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }
}
