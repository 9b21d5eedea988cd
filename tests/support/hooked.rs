//! A machine whose files are created, renamed, synced or locked, or whose free space is told, with something done
//! before: an error, a wait, a panic.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tablestone::env::{Clock, Disk, DiskFile, Env, Jobs, LockGuard, Mapping, SimEnv};

type Hook = dyn Fn(&Path) -> io::Result<()> + Send + Sync;

/// A machine on which creating, renaming, syncing or locking a file, or telling what is free, does something else
/// first.
#[derive(Clone)]
pub struct HookedEnv {
    machine: Arc<dyn Env>,
    before_create: Arc<Hook>,
    before_rename: Arc<Hook>,
    before_sync: Arc<Hook>,
    before_lock: Arc<Hook>,
    before_free_bytes: Arc<dyn Fn() + Send + Sync>,
}

impl HookedEnv {
    pub fn new(
        machine: impl Env,
        before_create: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let nothing = Arc::new(|_: &Path| Ok(()));
        Self {
            machine: Arc::new(machine),
            before_create: Arc::new(before_create),
            before_rename: Arc::clone(&nothing) as Arc<Hook>,
            before_sync: Arc::clone(&nothing) as Arc<Hook>,
            before_lock: nothing,
            before_free_bytes: Arc::new(|| ()),
        }
    }

    /// Where who makes a second segment of the log panics.
    pub fn with_one_segment(machine: &SimEnv) -> Self {
        Self::new(machine.clone(), |path| {
            assert!(!path.ends_with("0000000000000002.log-new"), "no second segment");
            Ok(())
        })
    }

    /// With that done before a file gets another name, which it is given.
    pub fn before_rename(
        self,
        before_rename: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { before_rename: Arc::new(before_rename), ..self }
    }

    /// And before a file is synced.
    pub fn before_sync(
        self,
        before_sync: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { before_sync: Arc::new(before_sync), ..self }
    }

    /// And before a directory is locked by a file.
    pub fn before_lock(
        self,
        before_lock: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { before_lock: Arc::new(before_lock), ..self }
    }

    /// And before it is told how much is free.
    pub fn before_free_bytes(self, before: impl Fn() + Send + Sync + 'static) -> Self {
        Self { before_free_bytes: Arc::new(before), ..self }
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

impl HookedDisk {
    fn hooked(&self, file: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile { file, path: path.to_owned(), env: self.env.clone() })
    }
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
        (self.env.before_lock)(path)?;
        self.disk.lock(path)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        (self.env.before_create)(path)?;
        Ok(self.hooked(self.disk.create(path)?, path))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.hooked(self.disk.open(path)?, path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.env.before_rename)(to)?;
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        (self.env.before_free_bytes)();
        self.disk.free_bytes(dir)
    }
    fn memory_bytes(&self) -> Option<u64> {
        self.disk.memory_bytes()
    }
}

#[derive(Debug)]
struct HookedFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    env: HookedEnv,
}

impl DiskFile for HookedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }
    fn write_blocks_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_blocks_at(data, offset)
    }
    fn write_durably_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        (self.env.before_sync)(&self.path)?;
        self.file.write_durably_at(data, offset)
    }
    fn reserve(&self, from: u64, to: u64) {
        self.file.reserve(from, to);
    }
    fn begin_write_back(&self, from: u64, to: u64) {
        self.file.begin_write_back(from, to);
    }
    fn sync(&self) -> io::Result<()> {
        (self.env.before_sync)(&self.path)?;
        self.file.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn map(&self) -> io::Result<Mapping> {
        self.file.map()
    }
}
