//! Waiting for the device where commits do not: what a write that is to be durable adds to one that is
//! published, under the durabilities that leave syncs for later (R-E10).
//!
//! Invariant: a version counts as durable once a sync has ended that was begun after its record was
//! written. Syncs are begun one at a time, each for all that is written by then, and commits go on
//! meanwhile: so whoever waits for one shares it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;

use super::pipeline::Pipeline;
use super::relay::Relay;
use super::waiters::{WaiterKey, Waiters, Woken};
use crate::env::{Background, JobClass, Queued};
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::version::Version;
use crate::wal::Writeback;

/// How far commits are durable that were acknowledged before they were.
#[derive(Debug, Default)]
pub(super) struct Synced {
    upto: AtomicU64,
    /// Held by who syncs for itself; the next to have it finds what that covered, or syncs for all who came.
    turn: Mutex<()>,
    /// A background job that syncs is queued, and has not begun.
    queued: Queued,
    /// Tasks; threads wait for their turn.
    waiters: Waiters,
}

impl Synced {
    /// Everything up to `version` is durable; who waits for it is to be woken.
    fn note(&self, version: Version) -> Woken {
        self.upto.fetch_max(version.ticks(), Ordering::AcqRel);
        self.waiters.wake_through(version)
    }

    /// Nothing changes any more; whoever waits is to be woken, to hear of it.
    pub(super) fn wake_all(&self) -> Woken {
        self.waiters.wake_through(Version::MAX)
    }

    pub(super) fn deregister(&self, key: WaiterKey) {
        self.waiters.deregister(key);
    }
}

impl Pipeline {
    /// Makes every commit so far durable, whatever the durability.
    pub(crate) fn sync(&self) -> Result<()> {
        self.check_writable()?;
        self.wait_durable(self.sequencer.last())
    }

    /// Blocks until everything up to `version` is published and durable.
    pub(crate) fn wait_durable(&self, version: Version) -> Result<()> {
        self.wait(version)?;
        if self.is_durable(version)? {
            return Ok(());
        }
        let turn = self.synced.turn.lock();
        if self.is_durable(version)? {
            return Ok(());
        }
        let (synced, woken) = self.sync_written();
        drop(turn);
        drop(woken);
        synced
    }

    /// Like [`wait_durable`](Self::wait_durable), for a task, of what is published.
    pub(super) fn poll_durable(
        &self,
        version: Version,
        waiter: &mut Option<WaiterKey>,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let waiters = &self.synced.waiters;
        let polled = waiters.poll(version, waiter, context, || self.is_durable(version));
        if polled.is_pending() {
            self.sync_in_background();
        }
        polled
    }

    /// Whether a version that is published is durable: under [`Durability::Sync`] it is, else if a sync covered it or
    /// the log was closed. An error if it never will be, because the log failed.
    fn is_durable(&self, version: Version) -> Result<bool> {
        let sealed = self.sealed.load(Ordering::Acquire);
        if self.options.durability == Durability::Sync
            || self.synced.upto.load(Ordering::Acquire) >= version.ticks()
        {
            return Ok(true);
        }
        self.check_not_poisoned()?;
        Ok(sealed)
    }

    fn sync_in_background(&self) {
        let sync = |this: &Self| {
            let turn = this.synced.turn.lock();
            // Who queued this has waited for what is published; the sync before it may have had all of that.
            if matches!(this.is_durable(this.visible()), Ok(true)) {
                return;
            }
            // What fails is told to who waits: the log is poisoned.
            let (_, woken) = this.sync_written();
            drop(turn);
            drop(woken);
        };
        self.once_in_background(
            |this| &this.synced.queued,
            JobClass::Segment,
            Duration::ZERO,
            sync,
        );
    }

    /// Syncs what is written, while others write. The caller has the turn, and wakes without it.
    fn sync_written(&self) -> (Result<()>, Woken) {
        let mut log = self.log.lock();
        if self.sealed.load(Ordering::Acquire) {
            return (self.check_not_poisoned(), Woken::default());
        }
        let begun = log.writer.begin_writeback();
        drop(log);
        self.hand_over();
        begun.map_or_else(|error| self.failed(&error), |begun| self.settle(&begun))
    }

    /// Has one job settle the newest, which settles those before: a job for each would only wait for
    /// the one before, and keep a thread from preparing segments.
    pub(super) fn settle_in_background(&self, begun: Arc<Writeback>) {
        *self.unsettled.lock() = Some(begun);
        let settle = |this: &Self| {
            let newest = this.unsettled.lock().take();
            if let Some(newest) = newest {
                drop(this.settle(&newest));
            }
        };
        self.once_in_background(
            |this| &this.settle_queued,
            JobClass::Segment,
            Duration::ZERO,
            settle,
        );
    }

    fn settle(&self, begun: &Writeback) -> (Result<()>, Woken) {
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        match begun.settle() {
            Ok(()) => (Ok(()), self.synced.note(begun.last())),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) -> (Result<()>, Woken) {
        let woken = self.poison(error);
        (self.check_not_poisoned(), woken)
    }
}
