//! [`Segments`]: makes the files of a log ahead of its writer, and lets go of them.
//!
//! Invariant: a file with a segment's name has a whole, synced header, and its name is durable,
//! before a record is written to it. Such a file is made under another name, so a crash while it
//! is made leaves nothing that replay would look at. A file is a spare once it has the name of one.
//!
//! Commits take the lock of `Files` when they freeze a memtable or end a segment: no file system is called
//! under it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::plan::SegmentPlan;
use super::record::TERMINATOR;
use super::segment::{
    HEADER_BYTES, Header, NEW_EXTENSION, SPARE_EXTENSION, SealedSegment, SegmentId,
};
use super::spares::{Spare, Spares, is_readable};
use super::writeback::Writeback;
use super::zeros::write_zeros;
use crate::env::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::version::Version;

/// How far the first segment that is prepared is written with zeros.
const PREPARED_BYTES: u64 = 4 << 20;
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
    /// How long the file was before its first record.
    pub(super) began_with: u64,
}

impl OpenSegment {
    /// Gives back the space behind the header; there are no records yet.
    fn shorten(&mut self) -> Result<()> {
        let len = (HEADER_BYTES + TERMINATOR.len()) as u64;
        if self.prewritten > len {
            let cut = self.file.set_len(len);
            cut.map_err(|e| Error::io("set the length of", &self.path, e))?;
            (self.prewritten, self.began_with) = (len, len);
        }
        Ok(())
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
    last_resort: LastResort,
}

/// What gives a log room that finds none.
#[derive(Default)]
struct LastResort(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for LastResort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LastResort").field(&self.0.get().is_some()).finish()
    }
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

impl Next {
    /// Gives back the space of what is prepared.
    fn shorten(&mut self) -> Result<()> {
        self.prepared.as_mut().map_or(Ok(()), OpenSegment::shorten)
    }
}

#[derive(Debug)]
struct Files {
    /// Oldest first; versions ascend.
    sealed: VecDeque<Ended>,
    /// What the writer writes; no sealed segment yet.
    active: SegmentId,
    last: Version,
    spares: Spares,
    /// No segment becomes a spare that has nothing later than this in it.
    given_back: Version,
}

/// A segment that gets no more records, and its sync, if this life of the log ended it.
#[derive(Clone, Debug)]
struct Ended {
    sealed: SealedSegment,
    sync: Option<Arc<Writeback>>,
    /// To be used again with what is in memory of it.
    file: Option<Arc<dyn DiskFile>>,
}

/// One of an earlier life of the log.
fn ended_before(sealed: SealedSegment) -> Ended {
    Ended { sealed, sync: None, file: None }
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
        let mut spares = Spares::new(plan.most_spares());
        for name in disk.list(dir).map_err(|e| Error::io("list", dir, e))? {
            let path = dir.join(&name);
            let spare = SegmentId::from_name_with(&name, SPARE_EXTENSION).is_some();
            if spare && plan.zeros_ahead() && spares.expect() {
                spares.came(Some(Spare { path, file: None, is_old: true }));
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
                sealed: older.into_iter().map(ended_before).collect(),
                active: id,
                last,
                spares,
                given_back: Version::ZERO,
            }),
            last_resort: LastResort::default(),
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
        if !self.is_prepared() {
            self.read_old_spare()?;
        }
        let mut next = self.next.lock();
        if next.prepared.is_none() {
            let most = if self.zeros_ahead() { self.plan.most_zeros() } else { 0 };
            let zeros_to = next.zeros_to.min(most);
            next.prepared = Some(self.make(&mut next.id, zeros_to)?);
            next.zeros_to = next.zeros_to.max(zeros_to.saturating_mul(2));
        }
        Ok(())
    }

    /// Reads an old spare through, if there is no other; one that cannot be read is removed.
    fn read_old_spare(&self) -> Result<()> {
        let Some(old) = self.files.lock().spares.take_old() else { return Ok(()) };
        let is_kept = is_readable(&self.disk, &old.path);
        let (kept, other) = if is_kept { (Some(old), None) } else { (None, Some(old)) };
        self.files.lock().spares.came(kept.map(|spare| Spare { is_old: false, ..spare }));
        other.map_or(Ok(()), |spare| self.remove(&spare.path))
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
    pub(super) fn rotated(
        &self,
        last: Version,
        file: Arc<dyn DiskFile>,
        sync: Arc<Writeback>,
        active: SegmentId,
    ) {
        let file = self.plan.reuses_memory().then_some(file);
        let mut files = self.files.lock();
        let sealed = SealedSegment { id: files.active, last, bytes: sync.upto() };
        files.sealed.push_back(Ended { sealed, sync: Some(sync), file });
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
        let at = files.sealed.iter().position(|ended| ended.sealed.id == id);
        let kept = at.and_then(|at| files.sealed.remove(at));
        drop(files);
        if kept.is_none() {
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
        let let_go = |ended: Ended| ended.give_up().and_then(|()| self.let_go(ended));
        obsolete.into_iter().map(let_go).fold(Ok(()), Result::and)
    }

    fn let_go(&self, ended: Ended) -> Result<()> {
        let is_spare = self.is_worth_keeping(&ended) && self.files.lock().spares.expect();
        let Ended { sealed, file, sync } = ended;
        let path = sealed.id.path(&self.dir);
        if !is_spare {
            return self.remove(&path);
        }
        let path_of_spare = sealed.id.named(&self.dir, SPARE_EXTENSION);
        let spare = Spare { path: path_of_spare, file, is_old: sync.is_none() };
        let renamed = self.disk.rename(&path, &spare.path);
        let mut files = self.files.lock();
        // Space may have been given back meanwhile.
        let is_given_back = self.plan.reuses_memory() && sealed.last <= files.given_back;
        let is_kept = renamed.is_ok() && !is_given_back;
        let (kept, other) = if is_kept { (Some(spare), None) } else { (None, Some(spare)) };
        files.spares.came(kept);
        drop(files);
        renamed.map_err(|e| Error::io("rename", &path, e))?;
        other.map_or(Ok(()), |spare| self.remove(&spare.path))
    }

    fn is_worth_keeping(&self, Ended { sealed, file, .. }: &Ended) -> bool {
        let is_used_soon =
            self.plan.zeros_ahead() || file.is_some() && sealed.last > self.files.lock().given_back;
        is_used_soon && !self.plan.is_too_long(sealed.bytes)
    }

    /// Gives back what is there for segments to come, and keeps no file that has nothing later than `last`:
    /// no commits are coming that would use it soon.
    pub(crate) fn give_space_back(&self, last: Version) -> Result<()> {
        self.files.lock().given_back = last;
        let removed = self.remove_spares();
        removed.and(self.next.lock().shorten())
    }

    /// To be called once: what is done where the log finds no room, when everything else was tried.
    pub(crate) fn set_last_resort(&self, last_resort: Box<dyn Fn() + Send + Sync>) {
        let _ = self.last_resort.0.set(last_resort);
    }

    /// Has room made by whoever knows of any.
    pub(super) fn resort(&self) {
        if let Some(last_resort) = self.last_resort.0.get() {
            last_resort();
        }
    }

    /// Removes the files that wait to become segments.
    pub(crate) fn remove_spares(&self) -> Result<()> {
        let spares = self.files.lock().spares.take_all();
        spares.iter().map(|spare| self.remove(&spare.path)).fold(Ok(()), Result::and)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path).map_err(|e| Error::io("remove", path, e))
    }

    /// Gives back all that waits to be used, but what is being made.
    pub(crate) fn give_way(&self) -> Result<()> {
        let removed = self.remove_spares();
        removed.and(self.next.try_lock().map_or(Ok(()), |mut next| next.shorten()))
    }

    /// Makes a segment with zeros up to there, and some in any case if there is room. Nothing is left of one that
    /// could not be made.
    fn make(&self, id: &mut SegmentId, zeros_to: u64) -> Result<OpenSegment> {
        let made = self.try_make(id, zeros_to);
        if made.is_err() {
            let _ = self.remove(&id.named(&self.dir, NEW_EXTENSION));
        }
        made
    }

    fn try_make(&self, id: &mut SegmentId, zeros_to: u64) -> Result<OpenSegment> {
        let after = self.files.lock().last;
        let header = Header::new(*id, after);
        let new = id.named(&self.dir, NEW_EXTENSION);
        let (file, prewritten) = match self.recycle(&header, &new)? {
            Some(recycled) => recycled,
            None => {
                self.disk.create(&new).map_err(|e| Error::io("create", &new, e))?;
                let file = self.open(&new)?;
                let zeros = self.write_first(&*file, &header, &new)?;
                (file, (HEADER_BYTES + zeros) as u64)
            }
        };
        let prewritten = self.write_zeros_ahead(&*file, prewritten, zeros_to, &new)?;
        let path = id.path(&self.dir);
        self.disk.rename(&new, &path).map_err(|e| Error::io("rename", &new, e))?;
        self.disk.sync_dir(&self.dir).map_err(|e| Error::io("sync", &self.dir, e))?;
        *id = id.next();
        Ok(OpenSegment { header, file, path, prewritten, began_with: prewritten })
    }

    /// Writes and syncs a header and the zeros that a file begins with, without room for them the fewest that do.
    /// Says how many.
    fn write_first(&self, file: &dyn DiskFile, header: &Header, path: &Path) -> Result<usize> {
        let (zeros, fewest) = (self.plan.first_zeros(), TERMINATOR.len());
        match self.write_start(file, header, zeros, path) {
            Err(error) if error.is_full() && zeros > fewest => {
                file.set_len(0).map_err(|e| Error::io("set the length of", path, e))?;
                self.write_start(file, header, fewest, path).map(|()| fewest)
            }
            written => written.map(|()| zeros),
        }
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

    /// A spare file under this name that begins with the header, with its length.
    fn recycle(&self, header: &Header, new: &Path) -> Result<Option<(Arc<dyn DiskFile>, u64)>> {
        let Some(Spare { path, file, .. }) = self.files.lock().spares.take() else {
            return Ok(None);
        };
        let file = file.map_or_else(|| self.open(&path), Ok)?;
        let len = file.len().map_err(|e| Error::io("read the length of", &path, e))?;
        if self.plan.is_too_long(len) {
            self.remove(&path)?;
            return Ok(None);
        }
        self.disk.rename(&path, new).map_err(|e| Error::io("rename", &path, e))?;
        if !self.plan.reuses_memory() {
            self.write_start(&*file, header, TERMINATOR.len(), new)?;
            return Ok(Some((file, len)));
        }
        let mut start = header.encode();
        start.extend(TERMINATOR);
        match file.write_durably_at(&start, 0) {
            Ok(()) => {
                file.reserve(HEADER_BYTES as u64, len);
                Ok(Some((file, len)))
            }
            // A sync of all of it would cost more than another file.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.remove(new)?;
                Ok(None)
            }
            Err(error) => Err(Error::io("write to", new, error)),
        }
    }
}
