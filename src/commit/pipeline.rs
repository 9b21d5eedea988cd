//! The commit pipeline: order, log, publication.
//!
//! A commit runs in four steps. Under the latch of its partition it is (1) checked against the
//! newest state, durable or not, (2) given a version and queued for the log in one short lock,
//! and (3) put into the memtable; then the latch is released. (4) Whoever drives the log takes all
//! that is queued as one group, writes it, syncs it if durability says so, and only then advances
//! the visible version over the whole group and wakes who waits.
//!
//! Invariants: log order is version order. A reader never sees a version that is not durable
//! under [`Durability::Sync`]. A hot partition pays no sync per writer: the latch is free again
//! before the sync begins. A failed write or sync poisons the pipeline: nothing unsynced is ever
//! published, later writes are refused, reads go on.
//!
//! The log is driven by whoever needs it: a thread that waits and finds the log free drives it
//! itself (no hand-off on an uncontended commit); tasks and dropped handles leave it to a
//! background job. A driver that is done wakes the next waiting thread if more is queued.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::gate::Gate;
use super::handle::{Applied, Commit};
use super::latch::Latches;
use super::payload::{self, Origin};
use super::sequence::{Sequencer, Taken};
use super::waiters::{Role, WaiterKey, Waiters, thread_waker};
use crate::env::{Clock, JobClass, Jobs};
use crate::error::{Error, Result};
use crate::levels::{Admission, Flushed, Tree};
use crate::memtable::Memtable;
use crate::options::{Durability, Options};
use crate::version::Version;
use crate::wal::{self, RecordRef};

/// A commit queued for the log.
#[derive(Debug)]
pub(crate) struct Record {
    version: Version,
    payload: Arc<[u8]>,
    payload_crc: u32,
}

/// The commit pipeline of a database.
pub(crate) struct Pipeline {
    tree: Arc<Tree>,
    options: Options,
    clock: Arc<dyn Clock>,
    jobs: Arc<dyn Jobs>,
    latches: Latches,
    sequencer: Sequencer<Record>,
    log: Mutex<wal::Writer>,
    segments: Arc<wal::Segments>,
    memtable_bytes: usize,
    waiters: Waiters,
    poisoned: OnceLock<Arc<str>>,
    closed: AtomicBool,
    /// A background drive is queued.
    drive_queued: AtomicBool,
    /// A background job that prepares a log segment is queued.
    prepare_queued: AtomicBool,
    /// An interval sync is queued.
    sync_queued: AtomicBool,
    counters: Counters,
    this: Weak<Pipeline>,
}

/// What the pipeline counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    groups: AtomicU64,
    syncs: AtomicU64,
    log_bytes: AtomicU64,
    largest_group: AtomicU64,
}

/// A reading of [`Counters`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommitStats {
    pub(crate) commits: u64,
    pub(crate) groups: u64,
    pub(crate) syncs: u64,
    pub(crate) log_bytes: u64,
    pub(crate) largest_group: u64,
}

impl Pipeline {
    /// The pipeline over a tree that holds everything up to `last`.
    pub(crate) fn new(
        tree: Arc<Tree>,
        options: Options,
        jobs: Arc<dyn Jobs>,
        log: wal::Writer,
        last: Version,
    ) -> Arc<Self> {
        let pipeline = Arc::new_cyclic(|this| Self {
            tree,
            clock: options.env.clock(),
            jobs,
            latches: Latches::new(),
            sequencer: Sequencer::new(last),
            segments: log.segments(),
            memtable_bytes: options.sizing().memtable_bytes,
            options,
            log: Mutex::new(log),
            waiters: Waiters::default(),
            poisoned: OnceLock::new(),
            closed: AtomicBool::new(false),
            drive_queued: AtomicBool::new(false),
            prepare_queued: AtomicBool::new(false),
            sync_queued: AtomicBool::new(false),
            counters: Counters::default(),
            this: Weak::clone(this),
        });
        let segments = Arc::clone(&pipeline.segments);
        let release = move |flushed: Flushed| {
            report_segments(segments.remove_before(flushed.log_start));
        };
        pipeline.tree.set_on_flushed(Box::new(release));
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

    pub(super) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    pub(crate) fn visible(&self) -> Version {
        self.tree.visible()
    }

    /// Why writes are refused, if they are.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match self.poisoned.get() {
            Some(cause) => Err(Error::Poisoned(Arc::clone(cause))),
            None => Ok(()),
        }
    }

    /// Runs a write of about `bytes`: at once if the gate is open, else when somebody waits.
    pub(crate) fn begin<T: 'static>(
        self: &Arc<Self>,
        bytes: usize,
        work: impl FnOnce(&Pipeline) -> Applied<T> + Send + 'static,
    ) -> Commit<T> {
        if let Err(error) = self.check_writable() {
            return Commit::refused(Arc::clone(self), error);
        }
        match self.tree.admit(bytes) {
            Admission::Go => Commit::applied(Arc::clone(self), work(self)),
            admission => {
                let gate = Gate::new(self, bytes, &admission);
                Commit::gated(Arc::clone(self), gate, Box::new(work))
            }
        }
    }

    /// Steps 2 and 3 of a commit. The caller holds the latches of every partition in the payload.
    pub(crate) fn submit(&self, payload: &Prepared) -> Version {
        let Prepared { bytes, crc } = payload;
        let (ticket, memtable) = self.sequencer.next(
            self.clock.now(),
            |last| self.memtable_after(last),
            |version| Record { version, payload: Arc::clone(bytes), payload_crc: *crc },
        );
        let version = ticket.version;
        let applied = payload::apply(bytes, Origin::Commit, version, &memtable);
        debug_assert!(applied.is_ok(), "a payload built by this process decodes");
        ticket.applied();
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        version
    }

    /// The memtable for the commit that follows `last`; the caller holds the sequencer.
    fn memtable_after(&self, last: Version) -> Arc<Memtable> {
        let view = self.tree.view();
        if view.active.bytes() < self.memtable_bytes {
            return Arc::clone(&view.active);
        }
        self.tree.freeze(last, self.segments.first_needed(last));
        self.tree.active_memtable()
    }

    /// Freezes a full memtable. The next commit would do so as well, but there may be none: the
    /// full memtable may be what all writes wait for.
    pub(super) fn freeze_if_full(&self) {
        if self.tree.active_memtable().bytes() >= self.memtable_bytes {
            self.sequencer.paused(|last| drop(self.memtable_after(last)));
        }
    }

    /// Blocks until everything up to `version` is published, driving the log if nobody else does.
    pub(crate) fn wait(&self, version: Version) -> Result<()> {
        if self.is_settled(version)? {
            return Ok(());
        }
        self.try_drive();
        if self.is_settled(version)? {
            return Ok(());
        }
        let key = self.waiters.register(version, thread_waker(), Role::Thread);
        let outcome = loop {
            match self.is_settled(version) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
            // Registered first: if the log is busy now, its driver will look at the waiters.
            if !self.try_drive() {
                thread::park();
            }
        };
        self.waiters.deregister(key);
        outcome
    }

    /// Like [`wait`](Self::wait), for a task.
    pub(super) fn poll(
        &self,
        version: Version,
        waiter: &mut Option<WaiterKey>,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if let Some(key) = waiter.take() {
            self.waiters.deregister(key);
        }
        let key = self.waiters.register(version, context.waker().clone(), Role::Task);
        match self.is_settled(version) {
            Ok(false) => {
                *waiter = Some(key);
                self.drive_in_background();
                Poll::Pending
            }
            settled => {
                self.waiters.deregister(key);
                Poll::Ready(settled.map(|_| ()))
            }
        }
    }

    /// Whether `version` is published, or never will be.
    fn is_settled(&self, version: Version) -> Result<bool> {
        if self.visible() >= version {
            return Ok(true);
        }
        match self.poisoned.get() {
            Some(cause) => Err(Error::Poisoned(Arc::clone(cause))),
            None => Ok(false),
        }
    }

    /// Drives the log if it is free; says whether it was.
    fn try_drive(&self) -> bool {
        let Some(mut log) = self.log.try_lock() else {
            return false;
        };
        self.drive(&mut log);
        drop(log);
        self.hand_over();
        true
    }

    /// Writes one group, if anything is queued, and publishes it.
    fn drive(&self, log: &mut wal::Writer) {
        if self.poisoned.get().is_some() {
            return;
        }
        let Some(taken) = self.sequencer.take() else {
            return;
        };
        match self.write_group(log, &taken) {
            Ok(()) => {
                taken.wait_applied();
                self.tree.publish(taken.last);
                self.waiters.wake_through(taken.last);
                self.freeze_if_full();
                self.tree.on_published();
            }
            Err(error) => self.poison(&error),
        }
    }

    fn write_group(&self, log: &mut wal::Writer, taken: &Taken<Record>) -> Result<()> {
        let records = taken.records.iter().map(|record| RecordRef {
            version: record.version,
            payload: &record.payload,
            payload_crc: record.payload_crc,
        });
        log.append(records)?;
        if log.wants_next_segment() && !self.prepare_queued.swap(true, Ordering::AcqRel) {
            let this = Weak::clone(&self.this);
            let prepare = Box::new(move || Self::prepare_segment(&this));
            self.jobs.spawn_after(JobClass::Flush, Duration::ZERO, prepare);
        }
        let count = taken.records.len() as u64;
        let bytes: usize = taken.records.iter().map(|record| record.payload.len()).sum();
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        self.counters.largest_group.fetch_max(count, Ordering::Relaxed);
        self.counters.log_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        match self.options.durability {
            Durability::Sync => self.sync_log(log)?,
            Durability::Interval(interval) => {
                if !self.sync_queued.swap(true, Ordering::AcqRel) {
                    let this = Weak::clone(&self.this);
                    let sync = Box::new(move || Self::interval_sync(&this));
                    self.jobs.spawn_after(JobClass::Log, interval, sync);
                }
            }
            Durability::Os => {}
        }
        Ok(())
    }

    fn prepare_segment(this: &Weak<Self>) {
        if let Some(this) = this.upgrade() {
            report_segments(this.segments.prepare());
            this.prepare_queued.store(false, Ordering::Release);
        }
    }

    fn sync_log(&self, log: &mut wal::Writer) -> Result<()> {
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        log.sync()
    }

    fn interval_sync(this: &Weak<Self>) {
        let Some(this) = this.upgrade() else {
            return;
        };
        this.sync_queued.store(false, Ordering::Release);
        let synced = this.sync_log(&mut this.log.lock());
        if let Err(error) = synced {
            this.poison(&error);
        }
        this.hand_over();
    }

    /// After the log was released: more may have been queued by somebody who found it busy.
    fn hand_over(&self) {
        if !self.sequencer.is_empty()
            && self.poisoned.get().is_none()
            && !self.waiters.wake_a_driver()
        {
            self.drive_in_background();
        }
    }

    /// Queues a background job that drives the log, unless one is queued.
    pub(super) fn drive_in_background(&self) {
        if self.drive_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Weak::clone(&self.this);
        let job = Box::new(move || {
            let Some(this) = this.upgrade() else {
                return;
            };
            this.drive_queued.store(false, Ordering::Release);
            this.drive(&mut this.log.lock());
            this.hand_over();
        });
        self.jobs.spawn_after(JobClass::Log, Duration::ZERO, job);
    }

    fn poison(&self, error: &Error) {
        let cause = error.chain();
        tracing::error!(%cause, "the log failed: the database is read-only until it is reopened");
        let _ = self.poisoned.set(cause);
        self.waiters.wake_through(Version::MAX);
    }

    /// Makes every commit so far durable, whatever the durability.
    pub(crate) fn sync(&self) -> Result<()> {
        self.check_writable()?;
        let last = self.sequencer.last();
        self.wait(last)?;
        let synced = self.sync_log(&mut self.log.lock());
        self.hand_over();
        synced.inspect_err(|error| self.poison(error))
    }

    /// Freezes the memtable, if it holds anything, and publishes all it holds.
    pub(crate) fn freeze(&self) -> Result<()> {
        let last = self.sequencer.paused(|last| {
            if !self.tree.view().active.is_empty() {
                self.tree.freeze(last, self.segments.first_needed(last));
            }
            last
        });
        self.wait(last)
    }

    /// Publishes what is queued, in the background: memtables are flushed once all they hold is
    /// published, and it may be that nobody waits for those commits.
    pub(super) fn relieve(&self) {
        if !self.sequencer.is_empty() {
            self.drive_in_background();
        }
    }

    /// Writes what is queued, seals the log, and refuses writes from here on.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mut log = self.log.lock();
        self.drive(&mut log);
        match self.poisoned.get() {
            Some(cause) => Err(Error::Poisoned(Arc::clone(cause))),
            None => log.close(),
        }
    }

    pub(crate) fn stats(&self) -> CommitStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CommitStats {
            commits: read(&self.counters.commits),
            groups: read(&self.counters.groups),
            syncs: read(&self.counters.syncs),
            log_bytes: read(&self.counters.log_bytes),
            largest_group: read(&self.counters.largest_group),
        }
    }

    pub(crate) fn poisoned(&self) -> Option<Arc<str>> {
        self.poisoned.get().cloned()
    }
}

/// Segments that could not be prepared are made when they are needed; those that could not be let
/// go of take space until the database is opened again.
fn report_segments(outcome: Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(cause = %error.chain(), "a log segment could not be prepared or released");
    }
}

/// A payload that is ready for the log: its checksum is computed outside every lock.
#[derive(Debug)]
pub(crate) struct Prepared {
    bytes: Arc<[u8]>,
    crc: u32,
}

impl Prepared {
    pub(crate) fn new(payload: payload::Payload) -> Self {
        let bytes: Arc<[u8]> = payload.into_bytes().into();
        Self { crc: wal::payload_crc(&bytes), bytes }
    }
}
