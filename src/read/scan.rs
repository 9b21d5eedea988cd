//! [`Scan`]: one page's walk over the merged sources.
//!
//! Invariant: before a key is examined the page may stop at it, and it is then where the next
//! page starts; a page examines at least one key. So pages put together are the whole result,
//! and a page always makes progress, even over a million deleted keys (R-E12, R-E19).
//!
//! ```text
//!   seek ──► key ──► beyond the span? ──► end
//!             ▲      work limit? ───────► stop, next = key
//!             │      beside the RowKey range ──► seek there ───────┐
//!             │      newer than the view ──► its older version     │
//!             │      deleted ────────────────────────────────┐     │
//!             │      live: offered to the page; refused ─────┼─────┼──► stop, next = key
//!             └────────────── next key ◄─────────────────────┴─────┘
//! ```

use std::time::Duration;

use super::builder::{Offered, PageBuilder, ScanHooks};
use super::limits::ScanLimits;
use super::page::{PageData, StopReason};
use super::range::{Direction, Place, Span};
use super::shadow::Shadow;
use crate::entry::{Cursor, Kind};
use crate::env::Clock;
use crate::error::Result;
use crate::merge::{Merge, SortedFile, Source};
use crate::tombstone::Stretch;
use crate::version::Version;

/// Keys examined between two looks at the clock: a look costs about as much as a key.
const KEYS_PER_LOOK: u64 = 64;

/// Keys beside the RowKey range that are stepped over before a seek, which costs about as much as
/// twenty steps: gaps in small partitions end before, and large ones lose little.
pub(super) const STEPS_BEFORE_SEEK: u32 = 3;

/// What a page is read from.
pub(crate) struct ScanContext<'a, F: SortedFile + 'a> {
    /// Newest first.
    pub(crate) sources: Vec<Source<'a, F>>,
    pub(crate) shadow: Shadow<'a>,
    pub(crate) at: Version,
    pub(crate) clock: &'a dyn Clock,
}

/// A page being made.
pub(crate) struct Scan<'a, 'p, F: SortedFile + 'a> {
    merge: Merge<'a, F>,
    span: Span,
    direction: Direction,
    at: Version,
    shadow: Shadow<'a>,
    clock: &'a dyn Clock,
    most_examined: u64,
    deadline: Option<Duration>,
    page: PageBuilder<'p>,
    examined: u64,
    /// Keys stepped over since the last seek or the last key in the RowKey range.
    gap_steps: u32,
    /// The key whose versions are looked through.
    key: Vec<u8>,
}

impl<'a, 'p, F: SortedFile> Scan<'a, 'p, F> {
    /// A page of what `context` shows of `span`, which is of the keys in `direction`.
    pub(crate) fn new(
        context: ScanContext<'a, F>,
        span: Span,
        direction: Direction,
        limits: ScanLimits,
        hooks: ScanHooks<'p>,
    ) -> Self {
        let ScanContext { sources, shadow, at, clock } = context;
        Self {
            merge: Merge::new(sources, &span.shared),
            most_examined: limits.examined.unwrap_or(u64::MAX),
            deadline: limits.deadline,
            page: PageBuilder::new(limits, span.table_len, hooks),
            span,
            direction,
            at,
            shadow,
            clock,
            examined: 0,
            // A page that begins in a gap seeks at once: pages of few examined entries get across.
            gap_steps: STEPS_BEFORE_SEEK,
            key: Vec::new(),
        }
    }

    /// Makes the page.
    pub(crate) fn run(mut self) -> Result<PageData> {
        match self.direction {
            Direction::Forward => self.merge.seek(&self.span.low)?,
            Direction::Reverse => self.merge.seek_before(&self.span.high)?,
        }
        let stop = self.walk()?;
        let next = (stop != StopReason::End).then(|| self.merge.key());
        Ok(self.page.finish(stop, next, self.examined))
    }

    /// Fills the page; the merge is left at the key that was not taken.
    fn walk(&mut self) -> Result<StopReason> {
        loop {
            if self.is_past_the_end() {
                return Ok(StopReason::End);
            }
            if let Some(stop) = self.out_of_work() {
                return Ok(stop);
            }
            self.examined += 1;
            if self.span.rows.is_some() && self.leave_gap()? {
                continue;
            }
            if self.merge.version() > self.at && !self.find_visible_version()? {
                continue;
            }
            if self.merge.kind() == Kind::Delete {
                self.step()?;
                continue;
            }
            if let Some(stretch) = self.shadow.over(self.merge.key(), self.merge.version()) {
                self.skip(stretch)?;
                continue;
            }
            let merge = &self.merge;
            match self.page.offer(merge.key(), merge.version(), merge.value())? {
                Offered::Taken => self.step()?,
                Offered::Refused(stop) => return Ok(stop),
            }
        }
    }

    #[inline]
    fn is_past_the_end(&self) -> bool {
        !self.merge.valid()
            || match self.direction {
                Direction::Forward => *self.merge.key() >= *self.span.high,
                Direction::Reverse => *self.merge.key() < *self.span.low,
            }
    }

    #[inline]
    fn out_of_work(&self) -> Option<StopReason> {
        if self.examined == 0 {
            return None;
        }
        let stop = if self.examined >= self.most_examined {
            StopReason::Examined
        } else if self.examined.is_multiple_of(KEYS_PER_LOOK) && self.is_late() {
            StopReason::Deadline
        } else {
            return None;
        };
        Some(if self.page.is_full() { StopReason::Entities } else { stop })
    }

    #[cold]
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.clock.monotonic() >= deadline)
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.merge.next_key(),
            Direction::Reverse => self.merge.previous_key(),
        }
    }

    /// Where the key is beside the RowKey range: goes on to where the range begins, in this
    /// partition or beyond it, so that a partition costs seeks and not rows (R-E15).
    fn leave_gap(&mut self) -> Result<bool> {
        let Some(rows) = &mut self.span.rows else { return Ok(false) };
        let place = rows.place(self.merge.key());
        if place == Place::Within {
            self.gap_steps = 0;
            return Ok(false);
        }
        if self.gap_steps < STEPS_BEFORE_SEEK {
            self.gap_steps += 1;
            self.step()?;
            return Ok(true);
        }
        self.gap_steps = 0;
        match (place, self.direction) {
            (Place::Before, Direction::Forward) => self.merge.seek_onward(rows.low())?,
            (_, Direction::Forward) => self.merge.seek_onward(rows.end())?,
            (Place::After, Direction::Reverse) => self.merge.seek_back(rows.high())?,
            (_, Direction::Reverse) => self.merge.seek_back(rows.partition())?,
        }
        Ok(true)
    }

    /// Goes to the newest version of the key that the view shows. Where there is none, goes on
    /// to the next key and says `false`.
    #[cold]
    fn find_visible_version(&mut self) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(self.merge.key());
        while self.merge.valid() && self.merge.version() > self.at && self.merge.key() == self.key {
            self.merge.next()?;
        }
        if self.merge.valid() && self.merge.key() == self.key {
            return Ok(true);
        }
        if self.direction == Direction::Reverse {
            self.merge.seek_before(&self.key)?;
        }
        Ok(false)
    }

    /// Goes on from a key that a range tombstone deletes. Where a source holds nothing newer than
    /// the tombstone, the whole stretch is passed in one seek (R-E19).
    #[cold]
    fn skip(&mut self, stretch: Stretch<'_>) -> Result<()> {
        match self.direction {
            Direction::Forward => {
                let high = &*self.span.high;
                let end = stretch.end.map_or(high, |end| end.min(high));
                self.merge.skip_forward(stretch.version, end)
            }
            Direction::Reverse => self.merge.skip_backward(stretch.version, stretch.start),
        }
    }
}
