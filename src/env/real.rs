//! [`RealEnv`]: the machine this process runs on.
//!
//! Files are plain descriptors with positioned reads and writes; a sync is `fdatasync`, which
//! also commits a changed length, and on macOS, for directories as for files, `F_FULLFSYNC`, without
//! which the device keeps what it has in its cache, or what else the system has for it. What a method
//! reports as done is done as far as the operating system says so. A file that somebody removed is not
//! synced: nobody would find it again. No name changes in a directory that was put in the place of the locked one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::real_lock::{LockedDir, RealLock};
use super::reserved::Reserved;
use super::threads::Threads;
use super::{Clock, Disk, DiskFile, Env, Jobs, LockGuard, Mapping, system, write_back};
use crate::version::Version;

/// The machine this process runs on: its file system, its clock, threads of this process.
///
/// ```
/// use std::sync::Arc;
/// use tablestone::{Options, env::RealEnv};
///
/// // What options have anyway; tests put a `SimEnv` in its place.
/// let options = Options::default().env(Arc::new(RealEnv::new()));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RealEnv {
    _private: (),
}

impl RealEnv {
    /// The machine.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl Env for RealEnv {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk::default())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(RealClock)
    }

    fn start_jobs(&self, compaction_threads: usize) -> io::Result<Arc<dyn Jobs>> {
        Ok(Arc::new(Threads::start(compaction_threads)?))
    }
}

#[derive(Debug)]
struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Version {
        Version::from_system_time(SystemTime::now())
    }

    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

#[derive(Debug, Default)]
struct RealDisk {
    /// The directory that was locked last, as long as it is.
    locked: Mutex<Weak<LockedDir>>,
}

impl RealDisk {
    /// Refuses to change a name in another directory than the one that is locked.
    fn check(&self, name: &Path) -> io::Result<()> {
        let locked = self.locked.lock().upgrade();
        locked.map_or(Ok(()), |dir| dir.check(name))
    }
}

impl Disk for RealDisk {
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        path::absolute(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        match fs::metadata(dir) {
            Ok(found) if found.is_dir() => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let parent = match dir.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
            parent => parent,
        };
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        match fs::create_dir(dir) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            result => result?,
        }
        parent.map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        system::sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let lock = RealLock::take(path)?;
        *self.locked.lock() = Arc::downgrade(lock.locked_dir());
        Ok(Box::new(lock))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        Ok(Box::new(RealLock::take_shared(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check(path)?;
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Arc::new(RealFile::new(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile::new(file)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::new(File::open(path)?)))
    }

    #[cfg(target_os = "linux")]
    fn open_for_blocks(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // Many a file system that cannot says so here, others when they are written to.
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let direct = OpenOptions::new().write(true).custom_flags(flags).open(path).ok();
        Ok(Arc::new(RealFile { direct, ..RealFile::new(file) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(to)?;
        system::rename(from, to)
    }

    fn share(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(to)?;
        match system::hard_link(from, to) {
            Err(error) if has_no_links(&error) => self.copy(from, to),
            linked => linked,
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        system::remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        system::free_bytes(dir)
    }

    fn memory_bytes(&self) -> Option<u64> {
        system::memory_bytes()
    }
}

/// Whether a second name was refused as there are none there, or no more of that file.
fn has_no_links(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

#[derive(Debug)]
struct RealFile {
    file: File,
    /// The file system counts names, as most do.
    counts_names: bool,
    /// The same file past the page cache.
    direct: Option<File>,
    reserved: Mutex<Option<Reserved>>,
}

impl RealFile {
    fn new(file: File) -> Self {
        let counts_names = system::has_name(&file);
        Self { file, counts_names, direct: None, reserved: Mutex::new(None) }
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        system::read_exact_at(&self.file, buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if self.reserved.lock().as_mut().is_some_and(|reserved| reserved.write(data, offset)) {
            return Ok(());
        }
        system::write_all_at(&self.file, data, offset)
    }

    fn write_blocks_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let written = self.direct.as_ref().map(|direct| system::write_all_at(direct, data, offset));
        match written {
            Some(Err(error)) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            Some(Ok(())) => Ok(()),
            // The file system wants larger blocks, or none at all.
            _ => self.write_at(data, offset),
        }
    }

    fn reserve(&self, from: u64, to: u64) {
        let mut reserved = self.reserved.lock();
        let extended = reserved.take().and_then(|reserved| reserved.extended(&self.file, to));
        *reserved = extended.or_else(|| Reserved::of(&self.file, from, to).ok());
    }

    fn begin_write_back(&self, from: u64, to: u64) {
        write_back::begin(&self.file, from, to);
    }

    #[cfg(target_os = "linux")]
    fn write_durably_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        use rustix::io::{Errno, ReadWriteFlags, pwritev2};
        let slices = [io::IoSlice::new(data)];
        match pwritev2(&self.file, &slices, offset, ReadWriteFlags::DSYNC) {
            Ok(written) if written == data.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.counts_names && !system::has_name(&self.file) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "somebody removed the file"));
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut reserved = self.reserved.lock();
        *reserved = None;
        self.file.set_len(len)
    }

    fn map(&self) -> io::Result<Mapping> {
        Mapping::of(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::BLOCK_BYTES;

    fn disk() -> (tempfile::TempDir, Arc<dyn Disk>) {
        (tempfile::tempdir().unwrap(), RealEnv::new().disk())
    }

    #[test]
    fn files_are_written_read_renamed_listed_and_removed() {
        let (dir, disk) = disk();
        let nested = dir.path().join("a/b");
        disk.create_dir_all(&nested).unwrap();
        disk.create_dir_all(&nested).unwrap();
        let file = disk.create(&nested.join("one")).unwrap();
        file.write_at(b"world", 6).unwrap();
        file.write_at(b"hello", 0).unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 11);
        let mut bytes = [0; 11];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"hello\0world");
        assert_eq!(&*file.map().unwrap(), b"hello\0world");
        let past_the_end = file.read_at(&mut bytes, 1).unwrap_err();
        assert_eq!(past_the_end.kind(), io::ErrorKind::UnexpectedEof);

        disk.rename(&nested.join("one"), &nested.join("two")).unwrap();
        disk.sync_dir(&nested).unwrap();
        assert_eq!(disk.list(&nested).unwrap(), ["two"]);
        assert!(disk.list(dir.path()).unwrap().is_empty(), "directories are not listed");
        drop(file);
        disk.remove(&nested.join("two")).unwrap();
        let gone = disk.open(&nested.join("two")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn free_bytes_are_told_where_there_is_a_limit() {
        let (dir, disk) = disk();
        assert!(disk.free_bytes(dir.path()).is_some());
        assert_eq!(disk.free_bytes(Path::new("/proc")), None, "it has no blocks");
        assert_eq!(disk.free_bytes(&dir.path().join("missing")), None);
    }

    #[test]
    fn blocks_are_written_beside_what_else_is_and_read_by_who_opened_the_file_before() {
        let (dir, disk) = disk();
        let path = dir.path().join("blocks");
        let before = disk.create(&path).unwrap();
        before.write_at(&[1; 3 * BLOCK_BYTES], 0).unwrap();
        let file = disk.open_for_blocks(&path).unwrap();
        let memory = [2; 3 * BLOCK_BYTES];
        let block = memory.as_ptr().align_offset(BLOCK_BYTES)..;
        let aligned = &memory[block][..BLOCK_BYTES];
        file.write_blocks_at(aligned, BLOCK_BYTES as u64).unwrap();
        file.write_at(&[3], 2 * BLOCK_BYTES as u64).unwrap();
        // Where the file system refuses what is no block, it is written as anything else.
        file.write_blocks_at(&[4], 1).unwrap();
        file.sync().unwrap();
        let mut expected = vec![1; 3 * BLOCK_BYTES];
        expected[BLOCK_BYTES..2 * BLOCK_BYTES].fill(2);
        expected[2 * BLOCK_BYTES] = 3;
        expected[1] = 4;
        for reader in [&before, &file] {
            let mut bytes = vec![0; 3 * BLOCK_BYTES];
            reader.read_at(&mut bytes, 0).unwrap();
            assert!(bytes == expected);
        }
        let missing = disk.open_for_blocks(&dir.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_written_where_room_was_made_is_like_anything_else() {
        let (dir, disk) = disk();
        let file = disk.create(&dir.path().join("log")).unwrap();
        let mut expected = Vec::new();
        for round in 1..=100_u8 {
            if round % 9 == 1 {
                let end = expected.len() as u64;
                file.reserve(end, end + 9_000);
            }
            let data = vec![round; 37 * usize::from(round)];
            file.write_at(&data, expected.len() as u64).unwrap();
            expected.extend(data);
        }
        // Cut and written again, in what had been room.
        expected.truncate(expected.len() - 3_600);
        file.set_len(expected.len() as u64).unwrap();
        file.write_at(&[101; 8_000], expected.len() as u64).unwrap();
        expected.extend([101; 8_000]);
        file.sync().unwrap();
        let mut bytes = vec![0; expected.len()];
        file.read_at(&mut bytes, 0).unwrap();
        assert!(bytes == expected);
        assert_eq!(file.len().unwrap(), expected.len() as u64);
    }

    #[test]
    fn what_is_written_durably_is_in_the_file_with_the_rest() {
        let (dir, disk) = disk();
        let file = disk.create(&dir.path().join("log")).unwrap();
        file.write_at(&[1; 10_000], 0).unwrap();
        file.reserve(10_000, 20_000);
        file.write_at(&[2; 100], 10_000).unwrap();
        if file.write_durably_at(&[3; 80], 0).is_err_and(|e| e.kind() == io::ErrorKind::Unsupported)
        {
            return;
        }
        file.write_durably_at(&[4; 80], 10_050).unwrap();
        let mut expected = vec![1; 20_000];
        expected[10_000..10_100].fill(2);
        expected[10_100..].fill(0);
        expected[..80].fill(3);
        expected[10_050..10_130].fill(4);
        let mut bytes = vec![0; 20_000];
        file.read_at(&mut bytes[..file.len().unwrap() as usize], 0).unwrap();
        assert!(bytes == expected);
    }

    /// Each thread has its own part of the file; another makes room again and again.
    #[test]
    fn threads_write_beside_each_other_where_room_was_made() {
        const PART: usize = 9_000;
        let (dir, disk) = disk();
        let file = disk.create(&dir.path().join("log")).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for at in 0..PART {
                        file.write_at(&[thread as u8 + 1], (thread * PART + at) as u64).unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for round in 0..100 {
                    file.reserve(round * 300, 4 * PART as u64);
                }
            });
        });
        let mut bytes = vec![0; 4 * PART];
        file.read_at(&mut bytes, 0).unwrap();
        let expected =
            |thread: usize| bytes[thread * PART..][..PART].iter().all(|b| *b == thread as u8 + 1);
        assert!((0..4).all(expected));
    }

    #[test]
    fn an_empty_file_maps_to_no_bytes() {
        let (dir, disk) = disk();
        assert!(disk.create(&dir.path().join("empty")).unwrap().map().unwrap().is_empty());
    }

    #[test]
    fn the_clock_is_in_this_century_and_goes_on() {
        let clock = RealEnv::new().clock();
        let first = clock.monotonic();
        assert!(clock.now() > Version::from_ticks(133_000_000_000_000_000));
        assert!(clock.monotonic() >= first);
    }
}
