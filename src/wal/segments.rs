//! [`Segments`]: the files of a log. They are [made](super::prepare) ahead of its writer, and let go of once all in
//! them is in table files.
//!
//! Invariant: a sealed segment leaves the log, to be removed, used again or kept for its values, only after the
//! manifest has replay begin behind it. A file is a spare once it has the name of one.
//!
//! Commits take the lock of `Files` when they freeze a memtable or end a segment: no file system is called
//! under it.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::plan::SegmentPlan;
use super::prepare::Next;
use super::segment::{NEW_EXTENSION, SPARE_EXTENSION, SealedSegment, SegmentId};
use super::spares::{Spare, Spares};
use super::writeback::Writeback;
use crate::env::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::version::Version;

/// The segment files of a log. Shared by the writer, which takes the next one when one is full,
/// and by background jobs, which prepare that and let go of old ones.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) plan: SegmentPlan,
    /// The writer waits for the segment that is being prepared.
    pub(super) is_awaited: AtomicBool,
    /// Commits are mostly large of late: zeros ahead of them would be written in vain.
    mostly_large: AtomicBool,
    /// Held while a segment is prepared, so that the writer waits for it and makes no second one.
    pub(super) next: Mutex<Next>,
    pub(super) files: Mutex<Files>,
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
pub(super) struct Files {
    /// Oldest first; versions ascend.
    sealed: VecDeque<Ended>,
    /// What the writer writes; no sealed segment yet.
    active: SegmentId,
    pub(super) last: Version,
    pub(super) spares: Spares,
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

    /// The segment needs no sync any more; waits for one that is under way. Its file may begin another life now, and
    /// neither life is to hear of the other's failure.
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
            next: Mutex::new(Next::new(id)),
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
        // One from before the log's beginning may have been kept for its values under a name that a crash took back: a
        // checkpoint has the same file then. Only salvage reads these, and cannot tell them from others.
        let is_ours_alone = sealed.bytes > 0;
        let is_used_soon =
            self.plan.zeros_ahead() || file.is_some() && sealed.last > self.files.lock().given_back;
        is_ours_alone && is_used_soon && !self.plan.is_too_long(sealed.bytes)
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

    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path).map_err(|e| Error::io("remove", path, e))
    }

    /// Gives back all that waits to be used, but what is being made.
    pub(crate) fn give_way(&self) -> Result<()> {
        let removed = self.remove_spares();
        removed.and(self.next.try_lock().map_or(Ok(()), |mut next| next.shorten()))
    }
}
