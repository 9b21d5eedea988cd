//! [`Tree`]: the owner of everything below the commit path.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::Guard;
use parking_lot::{Condvar, Mutex};

use super::compression::CompressionRule;
use super::edit::Edit;
use super::file::Janitor;
use super::manifest::{Manifest, ManifestId, Tail};
use super::pressure::{Turnstile, WaitList};
use super::reserved::Reserved;
use super::schedule::Schedule;
use super::snapshots::Snapshots;
use super::state::{Change, LevelState};
use super::view::{View, Views};
use crate::cache::BlockCache;
use crate::env::{Background, Clock, Disk, Jobs, Queued, damaged_name};
use crate::error::{Corruption, Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Metrics;
use crate::options::{Options, ReadMode, Sizing};
use crate::sst::FileId;
use crate::version::Version;
use crate::wal::{SealedSegment, SegmentId};

/// What a tree is opened with.
pub(crate) struct OpenContext<'a> {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) dir: PathBuf,
    pub(crate) options: &'a Options,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) metrics: Arc<Metrics>,
}

/// A tree, open, and what had to be left out of it.
pub(crate) struct Opened {
    pub(crate) tree: Arc<Tree>,
    /// The log has everything up to this version that is not flushed; zero if nothing says so.
    pub(crate) log_end: Version,
    /// Only under [`Recovery::Salvage`](crate::Recovery::Salvage): what could not be read, and what
    /// is lost with it.
    pub(crate) lost: Vec<Corruption>,
}

/// How far the table files reach, after a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// Commits up to this one are in table files.
    pub(crate) version: Version,
    /// Log segments before this one are no longer needed; this one and later ones are.
    pub(crate) log_start: SegmentId,
}

/// What a tree asks of the log whose commits it flushes. Without one all values go to table files.
pub(crate) trait TreeLog: Send + Sync {
    /// Ends the segment that is written, if nothing in it is later than `last`, which is published.
    /// Waits until what ended is durable.
    fn end_segment(&self, last: Version) -> FlushedLog;
    /// As [`end_segment`](Self::end_segment) for who keeps nothing of it, if that gives back space; what is
    /// kept for later commits goes then, too. Waits for no sync; gives the first segment that is still needed.
    fn release_segment(&self, last: Version) -> Option<SegmentId>;
    /// From now on a segment is a file of values.
    fn keep(&self, segment: SegmentId);
    /// A flush has ended: called on the thread that flushed, with no lock held.
    fn flushed(&self, flushed: Flushed);
    /// Background work found the disk full: gives back what can be spared.
    fn make_room(&self);
}

/// The log up to a version that is being flushed.
pub(crate) struct FlushedLog {
    /// The first segment that is still needed afterwards.
    pub(crate) start: SegmentId,
    /// Segments before it, oldest first; all of them are durable.
    pub(crate) sealed: Vec<SealedSegment>,
}

/// Memtables, table files, and the background work that moves entries from the ones to the others.
pub(crate) struct Tree {
    pub(super) this: Weak<Self>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) jobs: Arc<dyn Jobs>,
    pub(crate) dir: PathBuf,
    pub(super) cache: Arc<BlockCache>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) sizing: Sizing,
    pub(super) compression: CompressionRule,
    pub(super) read_mode: ReadMode,
    pub(super) compaction_threads: usize,
    pub(super) views: Views,
    pub(super) snapshots: Snapshots,
    pub(super) janitor: Arc<Janitor>,
    pub(super) next_file: AtomicU64,
    /// The first file id that was free when the tree was opened.
    pub(super) first_new_file: FileId,
    pub(super) manifest: Mutex<Manifest>,
    pub(super) schedule: Mutex<Schedule>,
    pub(super) task_ended: Condvar,
    pub(super) reserved: Reserved,
    pub(super) flush_lock: Mutex<()>,
    /// Held to tell the cache what it may hold.
    pub(super) sharing: Mutex<()>,
    pub(super) flush_queued: Queued,
    pub(super) release_look_queued: Queued,
    /// Flushes and compactions under way give up: the log still has what was not flushed.
    pub(super) closing: AtomicBool,
    pub(super) out_of_room: AtomicBool,
    pub(super) log: OnceLock<Box<dyn TreeLog>>,
    pub(super) waiters: WaitList,
    pub(super) turnstile: Turnstile,
    /// Writes were stopped when last asked; for messages only.
    pub(super) is_stalled: AtomicBool,
    is_new: bool,
    is_damaged: bool,
    /// The newest manifest that was there, if something was left out.
    kept_manifest: Option<PathBuf>,
    /// The files are in no order until [`put_in_order`](Tree::put_in_order).
    pub(super) is_unordered: bool,
}

/// What opening found, from which a tree is built.
pub(super) struct Found {
    pub(super) levels: LevelState,
    pub(super) newest_manifest: ManifestId,
    /// Of that manifest, if it can be written to.
    pub(super) manifest_tail: Option<Tail>,
    pub(super) next_file: FileId,
    pub(super) janitor: Arc<Janitor>,
    pub(super) is_new: bool,
    pub(super) is_damaged: bool,
    pub(super) is_unordered: bool,
}

impl Background for Tree {
    fn background(&self) -> (&dyn Jobs, &Weak<Self>) {
        (&*self.jobs, &self.this)
    }
}

impl Tree {
    pub(super) fn new(context: OpenContext<'_>, found: Found) -> Arc<Self> {
        let OpenContext { disk, clock, jobs, dir, options, cache, metrics } = context;
        let (newest, tail) = (found.newest_manifest, found.manifest_tail);
        let manifest = Manifest::new(Arc::clone(&disk), dir.clone(), newest).with_tail(tail);
        let kept_manifest = found.is_damaged.then(|| dir.join(newest.file_name()));
        let snapshots = Snapshots::default();
        snapshots.publish(found.levels.flushed);
        let compression = CompressionRule::of(options, disk.memory_bytes());
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            disk,
            clock,
            jobs,
            dir,
            cache,
            metrics,
            sizing: options.sizing(),
            compression,
            read_mode: options.read_mode,
            compaction_threads: options.background_threads,
            views: Views::new(Arc::new(found.levels), options.sizing().memtable_bytes),
            snapshots,
            janitor: found.janitor,
            next_file: AtomicU64::new(found.next_file.get()),
            first_new_file: found.next_file,
            manifest: Mutex::new(manifest),
            schedule: Mutex::default(),
            task_ended: Condvar::new(),
            reserved: Reserved::default(),
            flush_lock: Mutex::new(()),
            sharing: Mutex::new(()),
            flush_queued: Queued::default(),
            release_look_queued: Queued::default(),
            closing: AtomicBool::new(false),
            out_of_room: AtomicBool::new(false),
            log: OnceLock::new(),
            waiters: WaitList::default(),
            turnstile: Turnstile::default(),
            is_stalled: AtomicBool::new(false),
            is_new: found.is_new,
            is_damaged: found.is_damaged,
            kept_manifest,
            is_unordered: found.is_unordered,
        })
    }

    /// Whether the directory held no database.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether something was left out of the tree when it was opened.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// The log segment that replay begins at. In a new database it need not exist.
    pub(crate) fn log_start(&self) -> SegmentId {
        self.views.load().levels.log_start
    }

    /// No version up to this one is to be given out again: files have it.
    pub(crate) fn newest(&self) -> Version {
        let levels = &self.views.load().levels;
        let in_files = levels.files().map(|(_, file)| file.meta.max_version).max();
        levels.flushed.max(in_files.unwrap_or(Version::ZERO))
    }

    /// Commits up to this one are in table files: replay skips them.
    pub(crate) fn flushed(&self) -> Version {
        self.views.load().levels.flushed
    }

    /// To be called once, before [`start`](Tree::start).
    pub(crate) fn set_log(&self, log: Box<dyn TreeLog>) {
        let _ = self.log.set(log);
    }

    /// The newest view; good for reads at the version of a live snapshot, and at
    /// [`Version::MAX`] for what no reader may see yet.
    #[inline]
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.views.load()
    }

    /// A view and the newest version to read in it: every commit up to it is there.
    #[inline]
    pub(crate) fn read_point(&self) -> (Guard<Arc<View>>, Version) {
        self.views.read_point(&self.snapshots)
    }

    /// Commits up to this one are visible.
    #[inline]
    pub(crate) fn visible(&self) -> Version {
        self.snapshots.visible()
    }

    /// Makes commits up to `version` visible; all their entries are in memtables.
    #[inline]
    pub(crate) fn publish(&self, version: Version) {
        self.snapshots.publish(version);
    }

    /// Freezes the active memtable, whose newest commit is `last`. The caller holds the lock under
    /// which versions are assigned; later versions go to log segments from `log_start` on.
    pub(crate) fn freeze(&self, last: Version, log_start: SegmentId) {
        self.views.freeze(last, log_start);
    }

    /// Holds what is visible now until it is released.
    pub(crate) fn register_snapshot(&self) -> Version {
        self.snapshots.register()
    }

    /// Ends a registration.
    pub(crate) fn release_snapshot(&self, version: Version) {
        // Of what files have, one of the flushed version or a later one holds nothing back.
        if self.snapshots.release(version) && version < self.flushed() {
            self.look_at_released();
        }
    }

    /// The memtable that takes commits; to be used under the lock under which versions are
    /// assigned.
    pub(crate) fn active_memtable(&self) -> Arc<Memtable> {
        Arc::clone(&self.views.load().active)
    }

    pub(crate) fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// Makes flushes and compactions under way give up, and later ones not begin, so that closing
    /// does not wait for them.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn check_not_closing(&self) -> Result<()> {
        if self.closing.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Removes files that nothing refers to, of which no job will: all have ended.
    pub(crate) fn clean_up(&self) {
        self.janitor.run();
    }

    /// A manifest that is no longer current, or a file of an edit that failed. The manifest that salvage
    /// could not read, or that told of files which it could not, is kept.
    fn leave_behind(&self, path: PathBuf) {
        if self.kept_manifest.as_ref() != Some(&path) {
            self.janitor.remove(path);
            return;
        }
        let name = damaged_name(&*self.disk, &path);
        if let Err(error) = name.and_then(|name| self.disk.rename(&path, &name)) {
            tracing::warn!(?path, %error, "a file that was replaced keeps its name");
        }
    }

    /// Notes that the log was closed, durably, with everything up to a version in it: an opening that finds less
    /// of it knows that something is missing.
    ///
    /// # Errors
    /// What the manifest reports: nothing is lost, but it would not be known.
    pub(crate) fn log_closed(&self, log_end: Version) -> Result<()> {
        self.install(Change { log_end, ..Change::default() })
    }

    /// The manifest refers to these log segments: they are the log's no longer.
    pub(super) fn keep_segments(&self, segments: impl Iterator<Item = SegmentId>) {
        if let Some(log) = self.log.get() {
            segments.for_each(|segment| log.keep(segment));
        }
    }

    /// Has a manifest that can be written to: after a failure a new one, before files are written that take
    /// the room for it. It also gives back the room of files that were to become part of the tree.
    pub(super) fn ensure_manifest(&self) -> Result<()> {
        if self.manifest.lock().is_open() { Ok(()) } else { self.install(Change::default()) }
    }

    /// Has the last edit of a manifest that goes on be followed by its proof, which power or a kill may have taken.
    pub(super) fn prove_manifest(&self) {
        let mut manifest = self.manifest.lock();
        let log_end = manifest.reaches(Version::ZERO);
        let next_file = FileId::new(self.next_file.load(Ordering::Relaxed));
        let levels = &self.views.load().levels;
        manifest.prove(&Edit::unchanged(levels.flushed, levels.log_start, log_end, next_file));
    }

    /// Makes a change of the files durable, then visible to readers. Whoever holds no lock any more says that
    /// [debt fell](Tree::debt_fell).
    ///
    /// On an error the state is as it was; the files that were added stay in the directory until
    /// it is certain that no manifest names them.
    pub(super) fn install(&self, mut change: Change) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let base = Arc::clone(&self.views.load().levels);
        let next = base.with(&mut change);
        let next_file = FileId::new(self.next_file.load(Ordering::Relaxed));
        let edit = (!change.is_addition()).then(|| change.to_edit(&next, next_file));
        // A file that is moved is part of the tree whatever becomes of the edit.
        let new_files =
            change.added.iter().filter(|(_, file)| !change.removed.contains(&file.id()));
        let added = || new_files.map(|(_, file)| file.path().to_owned()).collect();
        let log_end = manifest.reaches(change.log_end);
        let whole = || Edit { log_end, ..next.to_edit(next_file) };
        let left_behind = manifest.commit(edit.as_ref(), whole, added)?;
        // Before anybody can find that nothing refers to them any more.
        self.keep_segments(change.values_added.iter().map(|file| file.id()));
        let values = Arc::clone(&next.values);
        self.views.install(Arc::new(next));
        drop(manifest);
        // Of what a flush keeps, too, its files may refer to nothing.
        let all_values = base.values.files().chain(&change.values_added);
        for file in all_values.filter(|file| !values.contains(file.id())) {
            file.set_obsolete();
        }
        left_behind.into_iter().for_each(|path| self.leave_behind(path));
        // From here on the last reader of these files removes them.
        for file in base.files().map(|(_, file)| file).filter(|file| change.removes(file.id())) {
            file.set_obsolete();
        }
        self.share_memory();
        Ok(())
    }
}
