//! A machine whose files are created with something done before: an error, a wait, a panic.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tablestone::env::{Clock, Disk, DiskFile, Env, Jobs, LockGuard};

type Hook = dyn Fn(&Path) -> io::Result<()> + Send + Sync;

/// A machine on which creating a file does something else first.
#[derive(Clone)]
pub struct HookedEnv {
    machine: Arc<dyn Env>,
    before_create: Arc<Hook>,
}

impl HookedEnv {
    pub fn new(
        machine: impl Env,
        before_create: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { machine: Arc::new(machine), before_create: Arc::new(before_create) }
    }
}

impl fmt::Debug for HookedEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.machine.fmt(f)
    }
}

impl Env for HookedEnv {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(HookedDisk { disk: self.machine.disk(), env: self.clone() })
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.machine.clock()
    }
    fn start_jobs(&self, compaction_threads: usize) -> io::Result<Arc<dyn Jobs>> {
        self.machine.start_jobs(compaction_threads)
    }
}

#[derive(Debug)]
struct HookedDisk {
    disk: Arc<dyn Disk>,
    env: HookedEnv,
}

impl Disk for HookedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.disk.lock(path)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        (self.env.before_create)(path)?;
        self.disk.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
}
