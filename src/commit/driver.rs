//! Driving the log: the second half of the [`pipeline`](super::pipeline), by whoever has the log.
//!
//! Invariant: one driver at a time holds the log's mutex; it takes what is queued as one group,
//! and publishes the group only once it is written, synced if durability says so, and in the
//! memtables. Who is the next to have it is the [`Relay`]'s.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::gather::Gather;
use super::pipeline::{Pipeline, Record};
use super::relay::Relay;
use super::sequence::{Spare, Taken};
use super::waiters::{Waiters, Woken};
use crate::env::{Background, JobClass};
use crate::error::{Error, Result};
use crate::levels;
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::reference::LogPlace;
use crate::version::Version;
use crate::wal::{self, RecordRef};

/// How often a thread looks whether the log is free, after a microsecond or two if nothing is
/// synced: with pauses in between, then giving way to who may have the log.
const LOOKS: u32 = 80;

/// The log, and what is decided by who has it.
pub(super) struct Log {
    pub(super) writer: wal::Writer,
    pub(super) gather: Gather,
    pub(super) spare: Spare<Record>,
}

/// What the pipeline counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) log_bytes: AtomicU64,
    pub(super) largest_group: AtomicU64,
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

impl Relay for Pipeline {
    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn is_settled(&self, version: Version) -> Result<bool> {
        // Read first: what was published before it was set must be found.
        let sealed = self.sealed.load(Ordering::Acquire);
        if self.visible() >= version {
            return Ok(true);
        }
        match self.poisoned.get() {
            Some(cause) => Err(Error::Poisoned(Arc::clone(cause))),
            None if sealed => Err(Error::Closed),
            None => Ok(false),
        }
    }

    fn drive_if_free(&self) -> bool {
        let Some(mut log) = self.log.try_lock() else {
            return false;
        };
        let woken = self.drive(&mut log);
        drop(log);
        drop(woken);
        true
    }

    fn has_queued(&self) -> bool {
        !self.sequencer.is_empty() && !self.has_ended()
    }

    /// A sync takes longer than anybody should look; without one, the log is free again soon.
    fn looks(&self) -> u32 {
        if self.options.durability == Durability::Sync { 0 } else { LOOKS }
    }
}

impl Pipeline {
    /// Has a background job drive the log, unless such a job is queued already.
    pub(super) fn drive_in_background(&self) {
        let drive = |this: &Self| {
            let woken = this.drive(&mut this.log.lock());
            drop(woken);
            this.hand_over();
        };
        self.once_in_background(|this| &this.drive_queued, JobClass::Log, Duration::ZERO, drive);
    }

    /// Has everything up to `version` published by somebody, if only a background job.
    pub(crate) fn publish_soon(&self, version: Version) {
        if version > self.visible() {
            self.drive_in_background();
        }
    }

    /// Writes one group, if anything is queued, and publishes it. Who waits for it is to be woken without
    /// the log.
    fn drive(&self, log: &mut Log) -> Woken {
        if self.has_ended() {
            return Woken::default();
        }
        if self.options.durability == Durability::Sync {
            log.gather.wait(|| self.sequencer.len(), || self.clock.monotonic());
        }
        let Some(taken) = self.sequencer.take(&mut log.spare) else {
            return Woken::default();
        };
        let unfinished = Unfinished(self);
        let written = self.write_group(log, &taken).and_then(|places| {
            taken.wait_applied()?;
            places.into_iter().for_each(Placed::note);
            Ok(())
        });
        std::mem::forget(unfinished);
        match written {
            Ok(()) => {
                self.tree.publish(taken.last);
                let woken = self.waiters.wake_through(taken.last);
                log.spare.keep(taken);
                self.freeze_if_full();
                self.tree.on_published();
                woken
            }
            Err(error) => self.poison(&error),
        }
    }

    /// Nothing is published any more.
    pub(super) fn has_ended(&self) -> bool {
        self.sealed.load(Ordering::Acquire) || self.poisoned.get().is_some()
    }

    /// Writes and syncs a group; says where the payloads are in which large values may be.
    fn write_group<'a>(
        &self,
        log: &mut Log,
        taken: &'a Taken<'_, Record>,
    ) -> Result<Vec<Placed<'a>>> {
        let records = taken.records.iter().map(|record| {
            let Record { version, payload_crc, ref payload, .. } = *record;
            (RecordRef { version, payload, payload_crc }, record)
        });
        if self.log_boundary.load(Ordering::Acquire) < u64::MAX {
            let boundary = self.log_boundary.swap(u64::MAX, Ordering::Acquire);
            log.writer.end_segment_after(Version::from_ticks(boundary));
        }
        let mut places = Vec::new();
        log.writer.append_placed(records, |record, place| {
            if let Some(memtable) = &record.large {
                places.push(Placed { version: record.version, memtable, place });
            }
        })?;
        let is_queued = self.prepare_queued.load(Ordering::Acquire);
        if !is_queued && log.writer.wants_next_segment() {
            self.prepare_queued.store(true, Ordering::Release);
            let this = Weak::clone(&self.this);
            let prepare = Box::new(move || Self::prepare_segment(&this));
            self.jobs.spawn_after(JobClass::Segment, Duration::ZERO, prepare);
        }
        let count = taken.records.len() as u64;
        let bytes: usize = taken.records.iter().map(|record| record.payload.len()).sum();
        self.counters.commits.fetch_add(count, Ordering::Relaxed);
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        self.counters.largest_group.fetch_max(count, Ordering::Relaxed);
        self.counters.log_bytes.fetch_add(bytes as u64, Ordering::Release);
        // A flush leaves the large values where they are, in a segment that is to be durable then.
        if places.last().is_some_and(|placed| levels::is_mostly_large(placed.memtable)) {
            log.writer.keep_segment();
        }
        match self.options.durability {
            Durability::Sync => self.sync_group(log, taken.records.len())?,
            Durability::Interval(_) => {
                self.sync_after_interval();
                self.write_back(log)?;
            }
            Durability::Os => self.write_back(log)?,
        }
        Ok(places)
    }

    /// Has synced in the background what nobody waits for, if it is much.
    fn write_back(&self, log: &mut Log) -> Result<()> {
        if let Some(begun) = log.writer.due_writeback()? {
            self.settle_in_background(begun);
        }
        Ok(())
    }

    fn prepare_segment(this: &Weak<Self>) {
        if let Some(this) = this.upgrade() {
            report_segments(this.segments.prepare());
            this.prepare_queued.store(false, Ordering::Release);
        }
    }

    fn sync_group(&self, log: &mut Log, group: usize) -> Result<()> {
        let begun = self.clock.monotonic();
        self.sync_log(log)?;
        let took = self.clock.monotonic().saturating_sub(begun);
        log.gather.synced(group, took, self.sequencer.len());
        Ok(())
    }

    fn sync_log(&self, log: &mut Log) -> Result<()> {
        if self.sealed.load(Ordering::Acquire) {
            return self.check_not_poisoned();
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        log.writer.sync()
    }

    fn interval_sync(&self) {
        let mut log = self.log.lock();
        let outcome = if self.has_ended() { Ok(()) } else { self.interval_ended(&mut log) };
        drop(log);
        if let Err(error) = outcome {
            drop(self.poison(&error));
        }
        self.hand_over();
    }

    /// Has synced what is in the log, unless a sync is under way: then there is another interval.
    fn interval_ended(&self, log: &mut Log) -> Result<()> {
        match log.writer.next_writeback()? {
            Some(begun) => self.settle_in_background(begun),
            None => self.sync_after_interval(),
        }
        Ok(())
    }

    fn sync_after_interval(&self) {
        let Durability::Interval(interval) = self.options.durability else { return };
        let sync = Self::interval_sync;
        self.once_in_background(|this| &this.sync_queued, JobClass::Log, interval, sync);
    }

    /// Who waits is to be woken, to hear of it.
    pub(super) fn poison(&self, error: &Error) -> Woken {
        let cause = match error {
            Error::Poisoned(cause) => Arc::clone(cause),
            other => other.chain(),
        };
        tracing::error!(%cause, "the log failed: the database is read-only until it is reopened");
        let _ = self.poisoned.set(cause);
        self.waiters.wake_through(Version::MAX).and(self.synced.wake_all())
    }

    /// The same for who holds a lock that those may want who are woken: a job wakes them.
    pub(super) fn poison_under_lock(&self, error: &Error) {
        let woken = self.poison(error);
        self.jobs.spawn_after(JobClass::Log, Duration::ZERO, Box::new(move || drop(woken)));
    }

    /// Publishes what is queued, and what another thread is about to publish. Gives the last version
    /// that is visible then; what became ready to be flushed is queued.
    pub(super) fn publish_all(&self) -> Version {
        let mut log = self.log.lock();
        let woken = self.drive(&mut log);
        let visible = self.visible();
        drop(log);
        drop(woken);
        self.hand_over();
        visible
    }

    /// Publishes what is queued, in the background: memtables are flushed once all they hold is
    /// published, and it may be that nobody waits for those commits.
    pub(super) fn relieve(&self) {
        if !self.sequencer.is_empty() {
            self.drive_in_background();
        }
    }

    /// Writes what is queued, seals the log, and refuses writes from here on. Who calls it again, or
    /// meanwhile, hears what came of it.
    pub(crate) fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        let mut log = self.log.lock();
        if self.sealed.load(Ordering::Acquire) {
            return self.check_not_poisoned();
        }
        let woken = self.drive(&mut log);
        let mut poisoned = Woken::default();
        let sealed = self
            .check_not_poisoned()
            .and_then(|()| log.writer.close().inspect_err(|error| poisoned = self.poison(error)));
        self.sealed.store(true, Ordering::Release);
        drop(log);
        drop((woken, poisoned));
        // Those whose commit came too late, and those who wait to be let in: no job will.
        drop(self.waiters.wake_through(Version::MAX).and(self.synced.wake_all()));
        self.tree.waiters().wake_all();
        match sealed {
            Ok(last) if !self.options.read_only => self.tree.log_closed(last),
            sealed => sealed.map(drop),
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
}

/// Where the log has the payload of a commit that may have large values, and who is to know.
struct Placed<'a> {
    version: Version,
    memtable: &'a Memtable,
    place: LogPlace,
}

impl Placed<'_> {
    fn note(self) {
        self.memtable.place_large(self.version, self.place);
    }
}

/// Poisons the pipeline when dropped, which a panic does: a group is lost that nobody will write.
struct Unfinished<'a>(&'a Pipeline);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let error = Error::Poisoned("a thread panicked while it wrote the log".into());
        self.0.poison_under_lock(&error);
    }
}

/// Segments that could not be prepared are made when they are needed; those that could not be let
/// go of take space until the database is opened again.
pub(super) fn report_segments(outcome: Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(cause = %error.chain(), "a log segment could not be prepared or released");
    }
}
