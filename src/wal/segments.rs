//! [`Segments`]: makes the files of a log ahead of its writer, and lets go of them.
//!
//! Invariant: a file with a segment's name has a whole, synced header, and its name is durable,
//! before a record is written to it. Such a file is made under another name, so a crash while it
//! is made leaves nothing that replay would look at. A file is a spare once it has the name of one.
//!
//! Commits take the lock of `Files` when they freeze a memtable or end a segment: no file system is called
//! under it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::record::TERMINATOR;
use super::segment::{
    HEADER_BYTES, Header, NEW_EXTENSION, SPARE_EXTENSION, SealedSegment, SegmentId,
};
use super::writeback::Writeback;
use crate::env::{BLOCK_BYTES, Disk, DiskFile};
use crate::error::{Error, Result};
use crate::version::Version;

/// Spare files to keep where zeros are written ahead. The writer needs one at a time; the others are
/// for a flush that lets go of several segments at once. Where they are not, a spare spares nothing
/// but the space that it takes.
const MAX_SPARES: usize = 8;
/// Zeros are written in pieces of up to this.
const ZEROS_PIECE_BYTES: usize = 256 << 10;
static ZEROS: Zeros = Zeros([0; ZEROS_PIECE_BYTES]);

/// Blocks of zeros.
#[repr(align(4096))]
struct Zeros([u8; ZEROS_PIECE_BYTES]);
const _: () = assert!(align_of::<Zeros>() == BLOCK_BYTES);

impl Zeros {
    fn first(&self, bytes: u64) -> &[u8] {
        self.0.get(..bytes as usize).unwrap_or(&self.0)
    }
}

/// Zeros that a segment starts with that gets any; the writer goes on from there.
pub(super) const FIRST_ZEROS_BYTES: usize = 256 << 10;
/// How far the first segment that is prepared is written with zeros.
const PREPARED_BYTES: u64 = 4 << 20;
/// How far later ones are at most. The writer goes on with the next where they end, and who opens the log
/// after a crash has to look through what is left of the last one.
const MAX_PREPARED_BYTES: u64 = 8 << 20;
/// Zeros of a segment that is prepared are synced in steps of this. The writer may have to wait for
/// one; a sync of commits meanwhile takes its share of each, so that fewer are better for them.
const ZEROS_STEP_BYTES: u64 = 4 << 20;

/// A segment ready to be written.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) header: Header,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: PathBuf,
    /// Up to here the file's blocks are allocated and written, with zeros or an earlier life's bytes, or there
    /// is room for what is not synced.
    pub(super) prewritten: u64,
}

/// How segments are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentPlan {
    /// At most this long, but for a single record that is longer.
    pub(crate) bytes: u64,
    pub(crate) ahead: Ahead,
    /// What nobody asks to sync is left to the operating system, which writes what has been there for long:
    /// most is flushed and let go of before, and never written to the device.
    pub(crate) left_to_system: bool,
}

/// What there is in a segment before its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Zeros, which a background job writes to the next one, and files are used again: where commits are
    /// synced, that is time that they do not wait; where they are not, it is writing, and space, for nothing.
    Zeros,
    /// [Room](DiskFile::reserve), in which a commit is written without a system call.
    Room,
    Nothing,
}

impl SegmentPlan {
    pub(super) fn zeros_ahead(self) -> bool {
        self.ahead == Ahead::Zeros
    }

    /// How far a segment is written with zeros ahead at most, where it then ends.
    fn most_zeros(self) -> u64 {
        MAX_PREPARED_BYTES.min(self.bytes + TERMINATOR.len() as u64)
    }

    /// Whether a file of so many bytes is too long to be used again: large commits made it so, and its
    /// space is better given back.
    fn is_too_long(self, bytes: u64) -> bool {
        bytes > 2 * self.most_zeros()
    }

    fn max_spares(self) -> usize {
        if self.zeros_ahead() { MAX_SPARES } else { 0 }
    }

    /// Zeros that a new file begins with.
    fn first_zeros(self) -> usize {
        let most = if self.zeros_ahead() { self.bytes } else { 0 };
        most.clamp(TERMINATOR.len() as u64, FIRST_ZEROS_BYTES as u64) as usize
    }
}

/// The segment files of a log. Shared by the writer, which takes the next one when one is full,
/// and by background jobs, which prepare that and let go of old ones.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    plan: SegmentPlan,
    /// The writer waits for the segment that is being prepared.
    is_awaited: AtomicBool,
    /// Commits are mostly large of late: zeros ahead of them would be written in vain.
    mostly_large: AtomicBool,
    /// Held while a segment is prepared, so that the writer waits for it and makes no second one.
    next: Mutex<Next>,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Next {
    /// The id of the next segment that is made.
    id: SegmentId,
    prepared: Option<OpenSegment>,
    /// How far the next one that is prepared is written with zeros. Twice as far each time, so that
    /// a log takes space in proportion to what it has held.
    zeros_to: u64,
}

#[derive(Debug)]
struct Files {
    /// Oldest first; versions ascend.
    sealed: VecDeque<Ended>,
    /// What the writer writes; no sealed segment yet.
    active: SegmentId,
    last: Version,
    spares: Vec<PathBuf>,
    /// How many segments are being renamed to spares.
    spares_to_come: usize,
}

impl Files {
    /// Counts another spare that is to come, if there is room for it.
    fn expect_spare(&mut self, max: usize) -> bool {
        let has_room = self.spares.len() + self.spares_to_come < max;
        self.spares_to_come += usize::from(has_room);
        has_room
    }
}

/// A segment that gets no more records, and its sync, if this life of the log ended it.
#[derive(Clone, Debug)]
struct Ended {
    sealed: SealedSegment,
    sync: Option<Arc<Writeback>>,
}

impl Ended {
    /// Waits until the segment is durable.
    fn settle(&self) -> Result<()> {
        self.sync.as_ref().map_or(Ok(()), |sync| sync.settle())
    }

    /// Needs no sync any more. No file begins another life while one is under way: one would hear of the
    /// other's failure.
    fn give_up(&self) -> Result<()> {
        self.sync.as_ref().map_or(Ok(()), |sync| sync.give_up())
    }
}

impl Segments {
    /// The files of a log whose next segment has this id; `older` as replay found them. Removes
    /// what a crash left of segments in the making, and keeps spare files.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        id: SegmentId,
        last: Version,
        plan: SegmentPlan,
        older: Vec<SealedSegment>,
    ) -> Result<Self> {
        let mut spares = Vec::new();
        for name in disk.list(dir).map_err(|e| Error::io("list", dir, e))? {
            let path = dir.join(&name);
            let spare = SegmentId::from_name_with(&name, SPARE_EXTENSION).is_some();
            if spare && spares.len() < plan.max_spares() {
                spares.push(path);
            } else if spare || SegmentId::from_name_with(&name, NEW_EXTENSION).is_some() {
                disk.remove(&path).map_err(|e| Error::io("remove", &path, e))?;
            }
        }
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            plan,
            is_awaited: AtomicBool::new(false),
            mostly_large: AtomicBool::new(false),
            next: Mutex::new(Next { id, prepared: None, zeros_to: PREPARED_BYTES }),
            files: Mutex::new(Files {
                sealed: older.into_iter().map(|sealed| Ended { sealed, sync: None }).collect(),
                active: id,
                last,
                spares,
                spares_to_come: 0,
            }),
        })
    }

    pub(super) fn plan(&self) -> SegmentPlan {
        self.plan
    }

    /// Whether zeros are written ahead to the next segment.
    pub(super) fn zeros_ahead(&self) -> bool {
        self.plan.zeros_ahead() && !self.mostly_large.load(Ordering::Relaxed)
    }

    pub(super) fn set_mostly_large(&self, mostly_large: bool) {
        self.mostly_large.store(mostly_large, Ordering::Relaxed);
    }

    /// Makes the next segment ready, unless it is, with zeros for as long as it is likely to be
    /// in use. For a background job: the writer does it itself, with few zeros, when it comes to
    /// the end of a segment first.
    pub(crate) fn prepare(&self) -> Result<()> {
        let mut next = self.next.lock();
        if next.prepared.is_none() {
            let most = if self.zeros_ahead() { self.plan.most_zeros() } else { 0 };
            let zeros_to = next.zeros_to.min(most);
            next.prepared = Some(self.make(&mut next.id, zeros_to)?);
            next.zeros_to = next.zeros_to.max(zeros_to.saturating_mul(2));
        }
        Ok(())
    }

    /// Whether the next segment is ready.
    pub(super) fn has_prepared(&self) -> bool {
        self.next.try_lock().is_some_and(|next| next.prepared.is_some())
    }

    /// Whether the next segment is ready or being made so.
    pub(crate) fn is_prepared(&self) -> bool {
        self.next.try_lock().is_none_or(|next| next.prepared.is_some())
    }

    /// The next segment, made now if need be.
    pub(super) fn take_next(&self) -> Result<OpenSegment> {
        self.is_awaited.store(true, Ordering::Relaxed);
        let mut next = self.next.lock();
        self.is_awaited.store(false, Ordering::Relaxed);
        match next.prepared.take() {
            Some(segment) => Ok(segment),
            None => self.make(&mut next.id, 0),
        }
    }

    /// The writer ended its segment at this version, to be durable by that sync, and goes on with
    /// another.
    pub(super) fn rotated(&self, last: Version, sync: Arc<Writeback>, active: SegmentId) {
        let mut files = self.files.lock();
        let sealed = SealedSegment { id: files.active, last, bytes: sync.upto() };
        files.sealed.push_back(Ended { sealed, sync: Some(sync) });
        files.active = active;
        files.last = last;
    }

    /// The oldest segment that is needed once all commits up to `flushed` are in table files.
    pub(crate) fn first_needed(&self, flushed: Version) -> SegmentId {
        let files = self.files.lock();
        let sealed = files.sealed.iter().map(|ended| ended.sealed);
        let needed = sealed.into_iter().find(|sealed| sealed.last > flushed);
        needed.map_or(files.active, |sealed| sealed.id)
    }

    /// The sealed segments with nothing later than `last` in them whose end is known. Waits until
    /// they are durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if one is not.
    pub(crate) fn durable_through(&self, last: Version) -> Result<Vec<SealedSegment>> {
        let files = self.files.lock();
        let ended = files.sealed.iter().take_while(|ended| ended.sealed.last <= last);
        let ended: Vec<_> = ended.filter(|ended| ended.sealed.bytes > 0).cloned().collect();
        drop(files);
        ended.iter().map(|ended| ended.settle().map(|()| ended.sealed)).collect()
    }

    /// Makes a sealed segment a file of values, which is no longer the log's: it is neither used
    /// again nor removed. Table files must refer to it durably, and replay begin behind it. If a crash
    /// takes the name back, the next opening gives it again.
    pub(crate) fn keep(&self, id: SegmentId) -> Result<()> {
        let mut files = self.files.lock();
        let before = files.sealed.len();
        files.sealed.retain(|ended| ended.sealed.id != id);
        let was_sealed = files.sealed.len() < before;
        drop(files);
        if !was_sealed {
            return Ok(());
        }
        let (path, values) = (id.path(&self.dir), id.values_path(&self.dir));
        // Where it has that name already, salvage has filled its place in the log.
        if self.disk.open(&values).is_ok() {
            return Ok(());
        }
        self.disk.rename(&path, &values).map_err(|e| Error::io("rename", &path, e))
    }

    /// Lets go of segments before `first`, which must be durable in the manifest as the
    /// [first needed](Self::first_needed). Others stay even if all in them is in table files by
    /// now: a segment that ended since then may be the very one that the manifest names.
    pub(crate) fn remove_before(&self, first: SegmentId) -> Result<()> {
        let mut files = self.files.lock();
        let count = files.sealed.partition_point(|ended| ended.sealed.id < first);
        let obsolete: Vec<_> = files.sealed.drain(..count).collect();
        drop(files);
        // One that cannot be removed does not keep the others; the next opening lists it again.
        let let_go = |ended: &Ended| ended.give_up().and_then(|()| self.let_go(ended.sealed));
        obsolete.iter().map(let_go).fold(Ok(()), Result::and)
    }

    fn let_go(&self, SealedSegment { id, bytes, .. }: SealedSegment) -> Result<()> {
        let path = id.path(&self.dir);
        let max_spares = self.plan.max_spares();
        if self.plan.is_too_long(bytes) || !self.files.lock().expect_spare(max_spares) {
            return self.disk.remove(&path).map_err(|e| Error::io("remove", &path, e));
        }
        let spare = id.named(&self.dir, SPARE_EXTENSION);
        let renamed = self.disk.rename(&path, &spare);
        let mut files = self.files.lock();
        files.spares_to_come -= 1;
        files.spares.extend(renamed.is_ok().then_some(spare));
        drop(files);
        renamed.map_err(|e| Error::io("rename", &path, e))
    }

    /// Makes a segment with zeros up to there, and some in any case.
    fn make(&self, id: &mut SegmentId, zeros_to: u64) -> Result<OpenSegment> {
        let after = self.files.lock().last;
        let header = Header::new(*id, after);
        let new = id.named(&self.dir, NEW_EXTENSION);
        let (file, prewritten) = match self.recycle(&new)? {
            Some((file, len)) => {
                self.write_start(&*file, &header, TERMINATOR.len(), &new)?;
                (file, len)
            }
            None => {
                self.disk.create(&new).map_err(|e| Error::io("create", &new, e))?;
                let file = self.open(&new)?;
                let zeros = self.plan.first_zeros();
                self.write_start(&*file, &header, zeros, &new)?;
                (file, (HEADER_BYTES + zeros) as u64)
            }
        };
        let prewritten = self.write_zeros_ahead(&*file, prewritten, zeros_to, &new)?;
        let path = id.path(&self.dir);
        self.disk.rename(&new, &path).map_err(|e| Error::io("rename", &new, e))?;
        self.disk.sync_dir(&self.dir).map_err(|e| Error::io("sync", &self.dir, e))?;
        *id = id.next();
        Ok(OpenSegment { header, file, path, prewritten })
    }

    /// Writes and syncs a header and that many zeros.
    fn write_start(
        &self,
        file: &dyn DiskFile,
        header: &Header,
        zeros: usize,
        path: &Path,
    ) -> Result<()> {
        let end = (HEADER_BYTES + zeros) as u64;
        file.write_at(&header.encode(), 0)
            .and_then(|()| write_zeros(file, HEADER_BYTES as u64, end))
            .map_err(|e| Error::io("write to", path, e))?;
        file.sync().map_err(|e| Error::io("sync", path, e))
    }

    /// Writes and syncs zeros, if there is room for them and nobody waits; says up to where the file
    /// is written then.
    fn write_zeros_ahead(
        &self,
        file: &dyn DiskFile,
        from: u64,
        end: u64,
        path: &Path,
    ) -> Result<u64> {
        let mut at = from;
        while at < end && !self.is_awaited.load(Ordering::Relaxed) {
            let to = end.min(at + ZEROS_STEP_BYTES);
            if let Err(error) = write_zeros(file, at, to) {
                tracing::debug!(%error, "no room for a whole log segment ahead");
                file.set_len(from).map_err(|e| Error::io("set the length of", path, e))?;
                return Ok(from);
            }
            file.sync().map_err(|e| Error::io("sync", path, e))?;
            at = to;
        }
        Ok(at)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn DiskFile>> {
        self.disk.open_for_blocks(path).map_err(|e| Error::io("open", path, e))
    }

    /// A spare file under this name, with its length.
    fn recycle(&self, new: &Path) -> Result<Option<(Arc<dyn DiskFile>, u64)>> {
        let Some(spare) = self.files.lock().spares.pop() else { return Ok(None) };
        let file = self.open(&spare)?;
        let len = file.len().map_err(|e| Error::io("read the length of", &spare, e))?;
        if self.plan.is_too_long(len) {
            self.disk.remove(&spare).map_err(|e| Error::io("remove", &spare, e))?;
            return Ok(None);
        }
        self.disk.rename(&spare, new).map_err(|e| Error::io("rename", &spare, e))?;
        Ok(Some((file, len)))
    }
}

/// Writes zeros, whole blocks of them past the page cache, where records are written so too.
pub(super) fn write_zeros(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    let block = BLOCK_BYTES as u64;
    let mut at = from;
    while at < to {
        let whole_blocks = ((to - at) / block * block).min(ZEROS_PIECE_BYTES as u64);
        if at.is_multiple_of(block) && whole_blocks > 0 {
            file.write_blocks_at(ZEROS.first(whole_blocks), at)?;
            at += whole_blocks;
        } else {
            let part = (block - at % block).min(to - at);
            file.write_at(ZEROS.first(part), at)?;
            at += part;
        }
    }
    Ok(())
}
