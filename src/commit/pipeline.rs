//! The commit pipeline: order, log, publication.
//!
//! A commit runs in four steps. Under the latch of its partition it is (1) checked against the
//! newest state, durable or not, (2) given a version and queued for the log in one short lock, and
//! (3) put into the memtable ([`submit`](super::submit)); then the latch is released. (4) Whoever
//! drives the log takes all that is queued as one group, writes it, syncs it if durability says so,
//! and only then advances the visible version over the whole group and wakes who waits.
//!
//! Invariants: log order is version order. A reader never sees a version that is not durable
//! under [`Durability::Sync`](crate::Durability::Sync). A hot partition pays no sync per writer: the latch is free again
//! before the sync begins. A failed write or sync poisons the pipeline: nothing unsynced is ever
//! published, later writes are refused, reads go on.
//!
//! The log is driven by whoever needs it: a thread that waits and finds the log free drives it
//! itself (no hand-off on an uncontended commit); tasks and dropped handles leave it to a
//! background job. A driver that is done wakes the next waiting thread if more is queued.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};

use arc_swap::Guard;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::batch::{BatchWrite, Incarnation};
use super::driver::{Counters, Log, report_segments};
use super::durable::Synced;
use super::gate::{Gate, Wanted};
use super::gather::Gather;
use super::handle::{Applied, Commit};
use super::latch::Latches;
use super::looks::Looks;
use super::payload::Shared;
use super::relay::Relay;
use super::reserve::Reserve;
use super::sequence::{Sequencer, Spare};
use super::tree_log::PipelineLog;
use super::waiters::{WaiterKey, Waiters};
use crate::env::{Background, Clock, Jobs, Queued};
use crate::error::{Error, Result};
use crate::levels::{self, Admission, Tree, View};
use crate::memtable::Memtable;
use crate::options::Options;
use crate::version::Version;
use crate::wal;

/// A commit queued for the log.
pub(crate) struct Record {
    pub(super) version: Version,
    pub(super) payload: Shared,
    pub(super) payload_crc: u32,
    /// Where it is inserted, if large values may be in it.
    pub(super) large: Option<Arc<Memtable>>,
}

/// The commit pipeline of a database.
pub(crate) struct Pipeline {
    pub(super) tree: Arc<Tree>,
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) jobs: Arc<dyn Jobs>,
    pub(super) latches: Latches,
    pub(super) sequencer: Sequencer<Record>,
    pub(super) log: CachePadded<Mutex<Log>>,
    pub(super) segments: Arc<wal::Segments>,
    pub(super) memtable_bytes: usize,
    pub(super) waiters: CachePadded<Waiters>,
    pub(super) poisoned: OnceLock<Arc<str>>,
    /// Writes are refused.
    pub(super) closed: AtomicBool,
    /// The log takes no more: what is not published never will be. Set by who has the log.
    pub(super) sealed: AtomicBool,
    /// A background drive is queued.
    pub(super) drive_queued: Queued,
    /// A background job that prepares a log segment is queued.
    pub(super) prepare_queued: AtomicBool,
    /// A log segment is to end after this version; `u64::MAX` if none is.
    pub(super) log_boundary: AtomicU64,
    pub(super) synced: Synced,
    /// The newest sync that a background job is to settle.
    pub(super) unsettled: Mutex<Option<Arc<wal::Writeback>>>,
    /// Such a job is queued, and has not begun.
    pub(super) settle_queued: Queued,
    /// An interval sync is queued.
    pub(super) sync_queued: Queued,
    pub(super) reserve: Reserve,
    /// A try to make it again is queued.
    pub(super) restore_queued: Queued,
    pub(super) looks: Looks,
    /// Deletions that pages have stepped over since there was a try to be rid of them.
    pub(super) passed: AtomicU64,
    /// Such a try is queued.
    pub(super) shedding_queued: Queued,
    pub(super) counters: CachePadded<Counters>,
    pub(super) this: Weak<Pipeline>,
}

impl Background for Pipeline {
    fn background(&self) -> (&dyn Jobs, &Weak<Self>) {
        (&*self.jobs, &self.this)
    }
}

impl Pipeline {
    /// The pipeline over a tree that holds everything up to `last`.
    pub(super) fn new(
        tree: Arc<Tree>,
        options: Options,
        jobs: Arc<dyn Jobs>,
        log: wal::Writer,
        reserve: Reserve,
        last: Version,
    ) -> Arc<Self> {
        let pipeline = Arc::new_cyclic(|this| Self {
            tree,
            clock: options.env.clock(),
            jobs,
            latches: Latches::new(),
            sequencer: Sequencer::new(last),
            segments: log.segments(),
            closed: AtomicBool::new(options.read_only),
            memtable_bytes: options.sizing().memtable_bytes,
            options,
            log: CachePadded::new(Mutex::new(Log {
                writer: log,
                gather: Gather::default(),
                spare: Spare::default(),
            })),
            waiters: CachePadded::default(),
            poisoned: OnceLock::new(),
            sealed: AtomicBool::new(false),
            drive_queued: Queued::default(),
            prepare_queued: AtomicBool::new(false),
            synced: Synced::default(),
            unsettled: Mutex::new(None),
            settle_queued: Queued::default(),
            sync_queued: Queued::default(),
            log_boundary: AtomicU64::new(u64::MAX),
            reserve,
            restore_queued: Queued::default(),
            looks: Looks::default(),
            passed: AtomicU64::new(0),
            shedding_queued: Queued::default(),
            counters: CachePadded::default(),
            this: Weak::clone(this),
        });
        pipeline.tree.set_log(Box::new(PipelineLog::new(&pipeline)));
        let this = Weak::clone(&pipeline.this);
        pipeline.segments.set_last_resort(Box::new(move || {
            if let Some(pipeline) = this.upgrade() {
                pipeline.use_reserve();
            }
        }));
        pipeline
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn jobs(&self) -> &dyn Jobs {
        &*self.jobs
    }

    pub(crate) fn latches(&self) -> &Latches {
        &self.latches
    }

    pub(crate) fn visible(&self) -> Version {
        self.tree.visible()
    }

    /// Why writes are refused, if they are.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_not_closed()?;
        if self.latches.are_merging() {
            return Err(Error::InvalidArgument(
                "a merge writes to the database it is part of".into(),
            ));
        }
        self.check_not_poisoned()
    }

    /// Refuses what changes files, though it commits nothing.
    pub(super) fn check_not_closed(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true if self.options.read_only => Err(Error::ReadOnly),
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    pub(super) fn check_not_poisoned(&self) -> Result<()> {
        match self.poisoned.get() {
            Some(cause) => Err(Error::Poisoned(Arc::clone(cause))),
            None => Ok(()),
        }
    }

    /// Runs a write of about `bytes`, of memory and of the log: at once if the gate is open, else when somebody waits.
    pub(crate) fn begin<T: 'static>(
        self: &Arc<Self>,
        bytes: usize,
        work: impl FnOnce(&Pipeline) -> Applied<T> + Send + 'static,
    ) -> Commit<T> {
        self.begin_wanting(Wanted { bytes, room: bytes }, work)
    }

    fn begin_wanting<T: 'static>(
        self: &Arc<Self>,
        wanted: Wanted,
        work: impl FnOnce(&Pipeline) -> Applied<T> + Send + 'static,
    ) -> Commit<T> {
        match self.gate(wanted) {
            Ok(None) => Commit::applied(Arc::clone(self), work(self)),
            Ok(Some(gate)) => Commit::gated(Arc::clone(self), gate, Box::new(work)),
            Err(error) => Commit::refused(Arc::clone(self), error),
        }
    }

    /// As [`begin`](Self::begin), of a batch. Only one that has to wait keeps its table: the count of
    /// references to it would be every writer's.
    pub(crate) fn begin_batch(
        self: &Arc<Self>,
        bytes: usize,
        table: &Arc<Incarnation>,
        write: BatchWrite,
    ) -> Commit<Version> {
        let room = if write.only_deletes() { 0 } else { bytes };
        let bytes = match write.ranges() {
            0 => bytes,
            ranges => bytes + ranges * self.tree.view().active.range_tombstone_bytes(),
        };
        match self.gate(Wanted { bytes, room }) {
            Ok(None) => Commit::applied(Arc::clone(self), write.run(self, table)),
            Ok(Some(gate)) => {
                let table = Arc::clone(table);
                let work = Box::new(move |pipeline: &Self| write.run(pipeline, &table));
                Commit::gated(Arc::clone(self), gate, work)
            }
            Err(error) => Commit::refused(Arc::clone(self), error),
        }
    }

    /// The gate that a write has to wait at, if it has to.
    fn gate(&self, wanted: Wanted) -> Result<Option<Gate>> {
        self.check_writable()?;
        Ok(match self.admit(wanted) {
            Admission::Go => None,
            told => Some(Gate::new(self, wanted, &told)),
        })
    }

    /// As [`begin`](Self::begin), of a deletion of a range, which counts as more than it takes.
    pub(crate) fn begin_deletion<T: 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Pipeline) -> Applied<T> + Send + 'static,
    ) -> Commit<T> {
        let bytes = self.tree.view().active.range_tombstone_bytes();
        self.begin_wanting(Wanted { bytes, room: 0 }, work).urgent()
    }

    /// The view whose memtable takes the commit that follows `last`; the caller holds the sequencer. It is
    /// not the memtable itself, whose count of references would be every writer's.
    pub(super) fn view_after(&self, last: Version) -> Guard<Arc<View>> {
        let view = self.tree.view();
        if !view.is_full() {
            return view;
        }
        self.freeze_at(last, &view.active);
        self.tree.view()
    }

    /// Freezes the active memtable, whose newest commit is `last`; the caller holds the sequencer. What
    /// comes later goes to another log segment, if its values may stay in this one.
    fn freeze_at(&self, last: Version, active: &Memtable) {
        if levels::is_mostly_large(active) {
            self.log_boundary.store(last.ticks(), Ordering::Release);
        }
        self.tree.freeze(last, self.segments.first_needed(last));
    }

    /// Freezes a full memtable. The next commit would do so as well, but there may be none: the
    /// full memtable may be what all writes wait for.
    pub(super) fn freeze_if_full(&self) {
        if self.tree.view().is_full() {
            self.sequencer.paused(|last| drop(self.view_after(last)));
        }
    }

    /// The outcome of a write that changes nothing: it is not logged, and its version is the newest there is.
    pub(super) fn nothing_done(&self) -> Applied<Version> {
        let last = self.sequencer.last();
        Applied::done(last, last)
    }

    /// Blocks until everything up to `version` is published.
    pub(crate) fn wait(&self, version: Version) -> Result<()> {
        Relay::wait(self, version)
    }

    /// Like [`wait`](Self::wait), for a task.
    pub(super) fn poll(
        &self,
        version: Version,
        waiter: &mut Option<WaiterKey>,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let polled = self.waiters.poll(version, waiter, context, || self.is_settled(version));
        if polled.is_pending() {
            self.drive_in_background();
        }
        polled
    }

    /// Puts the tree [in order](Tree::put_in_order), with all that was replayed.
    pub(super) fn put_in_order(&self) -> Result<()> {
        let last = self.freeze_active();
        self.tree.put_in_order(self.segments.first_needed(last))
    }

    /// Freezes the memtable, if it holds anything, and publishes all it holds.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.check_not_closed()?;
        self.wait(self.freeze_active())
    }

    fn freeze_active(&self) -> Version {
        self.sequencer.paused(|last| {
            let view = self.tree.view();
            if !view.active.is_empty() {
                self.freeze_at(last, &view.active);
            }
            last
        })
    }

    /// Gives up, on a full disk, what is ready for later log segments, and files that are deleted whole. Range
    /// tombstones in the active memtable are frozen, so that the next flush has them and leaves out what they delete.
    pub(super) fn make_room(&self) {
        report_segments(self.segments.give_way());
        if self.tree.view().active.has_range_tombstones() {
            self.freeze_for_deletions();
        }
        // Nothing is synced for nothing.
        if !self.tree.view().memtables().any(|memtable| memtable.has_range_tombstones()) {
            return;
        }
        let visible = self.visible();
        let dropped = self.wait_durable(visible).and_then(|()| self.tree.drop_deleted(visible));
        if let Err(error) = dropped {
            tracing::warn!(cause = %error.chain(), "files that are deleted whole stay for now");
        }
    }

    pub(super) fn freeze_for_deletions(&self) {
        self.freeze_active();
        // All of it may be published already, and nothing be written for long.
        self.tree.on_published();
    }

    pub(crate) fn poisoned(&self) -> Option<Arc<str>> {
        self.poisoned.get().cloned()
    }
}
