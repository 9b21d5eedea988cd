//! Admission: whether writes may go on, by the [`Debt`] of background work and the room there is for the log.
//!
//! Invariant: nobody is told to go on while writes are stopped, but who makes room.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pressure::{Admission, Debt, SHORTEST_WAIT, Tolerance, WaitList, toll};
use super::state::Level;
use super::targets;
use super::tree::Tree;
use super::view::View;

/// What writes wait for on a full disk.
const LOG_ROOM: &str = "the log to find room";
pub(super) const DISK_FULL: &str = "the disk is full";

/// What a write waits for that there is no room for.
pub(crate) fn no_room() -> Arc<str> {
    reason(LOG_ROOM, DISK_FULL)
}

fn reason(waits_for: &str, error: &str) -> Arc<str> {
    format!("{waits_for}, which fails: {error}").into()
}

impl Tree {
    /// Whether a write of that many bytes may go on. Reserves its turn if it must wait for one.
    pub(crate) fn admit(&self, bytes: usize) -> Admission {
        let (share, reason) = self.worst_debt();
        if share <= 0.0 {
            self.note_stall(false, "");
            return Admission::Go;
        }
        let Some(toll) = toll(share, bytes) else {
            let reason = self.blocked_reason(reason);
            self.note_stall(true, &reason);
            return Admission::Blocked(reason);
        };
        self.note_stall(false, "");
        let wait = self.turnstile.reserve(self.clock.monotonic(), toll);
        if wait < SHORTEST_WAIT {
            return Admission::Go;
        }
        Admission::Wait(wait)
    }

    /// What all writes wait for, if they do.
    pub(crate) fn stopped_by(&self) -> Option<Arc<str>> {
        let (share, reason) = self.worst_debt();
        (share >= 1.0).then(|| self.blocked_reason(reason))
    }

    /// Whether writes that make room go in while others are held back: if background work fails, and memtables are at
    /// most a quarter larger than others may make them.
    pub(crate) fn lets_urgent_in(&self) -> bool {
        let most = self.sizing.memtables_bytes / 4 * 5;
        self.last_background_error().is_some()
            && self.debt(&self.views.load()).memtable_bytes < most
    }

    /// What writes that are held back wait for.
    pub(crate) fn held_back_by(&self) -> Arc<str> {
        self.blocked_reason(self.worst_debt().1)
    }

    /// Whether writes are made to wait for flushes and compactions.
    pub(super) fn holds_writes_back(&self) -> bool {
        self.worst_debt().0 > 0.0
    }

    /// Stops writes, or lets them go on, as there is no room for the log.
    pub(crate) fn set_out_of_room(&self, out_of_room: bool) {
        if self.out_of_room.swap(out_of_room, Ordering::AcqRel) && !out_of_room {
            self.debt_fell();
        }
    }

    pub(super) fn is_out_of_room(&self) -> bool {
        self.out_of_room.load(Ordering::Acquire)
    }

    fn worst_debt(&self) -> (f64, &'static str) {
        if self.is_out_of_room() {
            return (1.0, LOG_ROOM);
        }
        let tolerance = Tolerance {
            memtables_bytes: self.sizing.memtables_bytes,
            level_base_bytes: self.sizing.level_base_bytes,
        };
        self.debt(&self.views.load()).share(&tolerance)
    }

    /// A write waited that long, and then went on or gave up.
    pub(crate) fn count_wait(&self, waited: Duration) {
        self.metrics.stalls.add(1);
        self.metrics.stall_nanos.add_time(waited);
    }

    /// Says so when writes stop, and when they go on.
    fn note_stall(&self, stalled: bool, reason: &str) {
        if self.is_stalled.load(Ordering::Relaxed) == stalled
            || self.is_stalled.swap(stalled, Ordering::Relaxed) == stalled
        {
            return;
        }
        if stalled {
            tracing::warn!(reason, "writes stop");
        } else {
            tracing::info!("writes go on");
        }
    }

    fn blocked_reason(&self, waits_for: &str) -> Arc<str> {
        match self.last_background_error() {
            Some(error) => reason(waits_for, &error),
            None => waits_for.into(),
        }
    }

    /// Who is woken when debt falls.
    pub(crate) fn waiters(&self) -> &WaitList {
        &self.waiters
    }

    pub(super) fn debt(&self, view: &View) -> Debt {
        let room = view.memtable_room();
        // Every write asks, and up to a half they are too few to count.
        let counts = room > self.sizing.memtables_bytes / 2;
        Debt {
            memtable_bytes: if counts { view.memtable_bytes() } else { room },
            level_0_files: view.levels.level(Level::ZERO).len(),
            compaction_bytes: targets::debt(&view.levels, &self.sizing),
        }
    }

    /// To be called after [`install`](Tree::install), with no lock held and no compaction claimed: those whose
    /// writes are held back look again, and wakers of theirs are callers' code.
    pub(super) fn debt_fell(&self) {
        self.turnstile.reset();
        self.waiters.wake_all();
    }
}
