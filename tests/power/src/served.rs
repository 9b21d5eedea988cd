//! [`Served`]: a disk as a file of a FUSE mount, for a loop device to take for a disk.
//!
//! Invariant: requests are served one after the other, each when the one before is done, and nothing
//! of the file is cached before this: what the log of the disk says is what the system asked for, in
//! that order. A second file says how long the log is.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, FileAttr, FileType, Filesystem, MountOption, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
};

use crate::disk::Disk;

/// The file that is the disk.
pub const DISK: &str = "disk";
/// The file that says how much was done to it.
pub const EVENTS: &str = "events";

const ROOT_NODE: u64 = fuser::FUSE_ROOT_ID;
const DISK_NODE: u64 = 2;
const EVENTS_NODE: u64 = 3;
const FOREVER: Duration = Duration::from_secs(1 << 20);

/// A disk that is served until this is dropped.
pub struct Served {
    disk: Arc<Mutex<Disk>>,
    session: Option<BackgroundSession>,
}

impl Served {
    /// Serves a disk at a directory. Takes root.
    pub fn start(disk: Disk, at: &Path) -> Result<Self> {
        let disk = Arc::new(Mutex::new(disk));
        let options = [MountOption::FSName("tablestone-power".into()), MountOption::NoAtime];
        let session = fuser::spawn_mount2(Server { disk: Arc::clone(&disk) }, at, &options)
            .with_context(|| format!("mounting a FUSE file system at {}", at.display()))?;
        Ok(Self { disk, session: Some(session) })
    }

    /// Has some of the writes fail that come, counted from now on.
    pub fn fail(&self, writes: Range<usize>) {
        lock(&self.disk).fail(writes);
    }

    /// Ends the service, and gives the disk back.
    pub fn stop(mut self) -> Result<Disk> {
        self.session.take().context("a disk that is served")?.join();
        let disk = Arc::into_inner(self.disk).context("the disk is served still")?;
        Ok(disk.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Server {
    disk: Arc<Mutex<Disk>>,
}

impl Server {
    fn attributes(&self, node: u64) -> FileAttr {
        let size = if node == DISK_NODE { lock(&self.disk).len() as u64 } else { 0 };
        let kind = if node == ROOT_NODE { FileType::Directory } else { FileType::RegularFile };
        let never = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: node,
            size,
            blocks: size.div_ceil(512),
            atime: never,
            mtime: never,
            ctime: never,
            crtime: never,
            kind,
            perm: 0o600,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Server {
    fn lookup(&mut self, _: &Request<'_>, _: u64, name: &OsStr, reply: ReplyEntry) {
        let node = match name.to_str() {
            Some(DISK) => DISK_NODE,
            Some(EVENTS) => EVENTS_NODE,
            _ => return reply.error(libc::ENOENT),
        };
        reply.entry(&FOREVER, &self.attributes(node), 0);
    }

    fn getattr(&mut self, _: &Request<'_>, node: u64, _: Option<u64>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(node));
    }

    /// Nothing that there is to be set changes.
    fn setattr(
        &mut self,
        _: &Request<'_>,
        node: u64,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<u64>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<u32>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOREVER, &self.attributes(node));
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        reply.opened(0, fuser::consts::FOPEN_DIRECT_IO);
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        node: u64,
        _: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let disk = lock(&self.disk);
        if node == EVENTS_NODE {
            return reply.data(disk.events().to_string().as_bytes());
        }
        reply.data(disk.read(offset as usize, size as usize));
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        node: u64,
        _: u64,
        offset: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        if node != DISK_NODE {
            return reply.error(libc::EPERM);
        }
        match lock(&self.disk).write(offset as usize, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    fn fsync(&mut self, _: &Request<'_>, _: u64, _: u64, _: bool, reply: ReplyEmpty) {
        lock(&self.disk).flush();
        reply.ok();
    }

    fn flush(&mut self, _: &Request<'_>, _: u64, _: u64, _: u64, reply: ReplyEmpty) {
        reply.ok();
    }
}
