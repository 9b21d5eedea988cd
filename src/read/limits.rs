//! [`ScanLimits`]: what ends a page before its ranges do (R-E12); and [`Work`], what a page has
//! cost so far.

use std::time::Duration;

use super::page::StopReason;
use crate::env::Clock;

/// Keys examined between two looks at the clock: a look costs about as much as a key.
const KEYS_PER_LOOK: u64 = 64;

/// How much a page may hold, and how much work it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLimits {
    /// Entities that match; one is taken in any case.
    pub(crate) entities: usize,
    /// Stored bytes of keys and values; the first entity may be larger.
    pub(crate) bytes: usize,
    /// Keys looked at, deleted ones included; one is looked at in any case.
    pub(crate) examined: Option<u64>,
    /// Monotonic time.
    pub(crate) deadline: Option<Duration>,
    pub(crate) partition: PartitionStop,
    pub(crate) when_full: WhenFull,
}

/// What a page does once it has as many entities as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It looks for the next that matches, so that it has a continuation only if there is more.
    LookOn,
    /// It is the last one: nobody wants more.
    End,
}

/// What a page does where the next partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionStop {
    Continue,
    Stop,
}

impl Default for ScanLimits {
    /// No limits.
    fn default() -> Self {
        Self {
            entities: usize::MAX,
            bytes: usize::MAX,
            examined: None,
            deadline: None,
            partition: PartitionStop::Continue,
            when_full: WhenFull::LookOn,
        }
    }
}

/// What a page has examined, and when that is enough.
pub(super) struct Work<'a> {
    pub(super) examined: u64,
    /// How many of them were deletions, or rows that a range tombstone deletes.
    pub(super) deletions: u64,
    /// After how many it may be enough.
    look_at: u64,
    most_examined: u64,
    deadline: Option<Duration>,
    clock: &'a dyn Clock,
}

impl<'a> Work<'a> {
    pub(super) fn new(limits: &ScanLimits, clock: &'a dyn Clock) -> Self {
        let most_examined = limits.examined.unwrap_or(u64::MAX).max(1);
        let look_at = most_examined.min(KEYS_PER_LOOK);
        Self { examined: 0, deletions: 0, look_at, most_examined, deadline: limits.deadline, clock }
    }

    /// Why no more may be examined, if so; never before anything was.
    #[inline]
    pub(super) fn is_over(&mut self) -> Option<StopReason> {
        if self.examined < self.look_at { None } else { self.look() }
    }

    #[cold]
    fn look(&mut self) -> Option<StopReason> {
        if self.examined >= self.most_examined {
            return Some(StopReason::Examined);
        }
        // Who is late and cannot stop here hears it again at the next key.
        if self.deadline.is_some_and(|deadline| self.clock.monotonic() >= deadline) {
            return Some(StopReason::Deadline);
        }
        self.look_at = self.examined.saturating_add(KEYS_PER_LOOK).min(self.most_examined);
        None
    }

    /// How many more may be examined.
    pub(super) fn left(&self) -> u64 {
        self.most_examined.saturating_sub(self.examined)
    }
}
