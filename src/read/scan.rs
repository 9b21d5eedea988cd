//! [`Scan`]: a page's walk over the merged sources of one span.
//!
//! Invariant: before a key is examined the page may stop at it, and it is then where the next
//! page starts; a page examines at least one key. So pages put together are the whole result,
//! and a page always makes progress, even over a million deleted keys (R-E12, R-E19).
//!
//! ```text
//!   seek ──► key ──► beyond the span? ──► end
//!             ▲      work limit? ───────► stop, next = key
//!             │      beside the RowKeys ──► seek to the next ──────┐
//!             │      newer than the view ──► its older version     │
//!             │      deleted ────────────────────────────────┐     │
//!             │      live: offered to the page; refused ─────┼─────┼──► stop, next = key
//!             └────────────── next key ◄─────────────────────┴─────┘
//! ```

use super::builder::{Offered, PageBuilder};
use super::limits::Work;
use super::page::StopReason;
use super::range::{Direction, Span};
use super::shadow::Shadow;
use crate::entry::{Cursor, Kind};
use crate::error::Result;
use crate::key::common_prefix;
use crate::merge::{Merge, SortedFile, Source};
use crate::tombstone::Stretch;
use crate::version::Version;

/// Keys beside the RowKey intervals that are stepped over before a seek, which costs about as much
/// as twenty steps: gaps in small partitions end before, and large ones lose little.
pub(super) const STEPS_BEFORE_SEEK: u32 = 3;

/// What a span is read from.
pub(super) struct ScanContext<'a, F: SortedFile + 'a> {
    /// Newest first.
    pub(super) sources: Vec<Source<'a, F>>,
    pub(super) shadow: Shadow<'a>,
    pub(super) at: Version,
}

/// A walk over one span, which goes on with a page.
pub(super) struct Scan<'a, 's, 'p, F: SortedFile + 'a> {
    merge: Merge<'a, F>,
    span: Span,
    direction: Direction,
    at: Version,
    shadow: Shadow<'a>,
    work: &'s mut Work<'a>,
    page: &'s mut PageBuilder<'p>,
    /// Keys stepped over since the last seek or the last key in a RowKey interval.
    gap_steps: u32,
    /// The key whose versions are looked through.
    key: Vec<u8>,
    end: End,
    /// As far as it is known, how many the current key has with the one offered last.
    common_with_offered: usize,
}

/// The end of the span that a walk goes to.
struct End {
    direction: Direction,
    /// How many bytes at its front the key compared last has in common with it.
    common: usize,
}

impl End {
    /// Whether `key` is beyond. If it has `kept` bytes of the key before and that parted from the
    /// end within these, both are on the same side.
    #[inline]
    fn is_passed(&mut self, key: &[u8], kept: usize, span: &Span) -> bool {
        kept <= self.common && self.compare(key, span)
    }

    #[inline(never)]
    fn compare(&mut self, key: &[u8], span: &Span) -> bool {
        let (end, passed) = match self.direction {
            Direction::Forward => (&*span.high, *key >= *span.high),
            Direction::Reverse => (&*span.low, *key < *span.low),
        };
        self.common = common_prefix(key, end);
        passed
    }
}

/// How a walk ended.
#[derive(Debug)]
pub(super) enum Walked {
    /// At the end of its span: the page goes on.
    Through,
    /// The page stops before this encoded key.
    Stopped(StopReason, Vec<u8>),
    /// The page has all that is wanted.
    Complete,
}

impl<'a, 's, 'p, F: SortedFile> Scan<'a, 's, 'p, F> {
    /// Over what `context` shows of `span`, in `direction`.
    pub(super) fn new(
        context: ScanContext<'a, F>,
        span: Span,
        direction: Direction,
        work: &'s mut Work<'a>,
        page: &'s mut PageBuilder<'p>,
    ) -> Self {
        let ScanContext { sources, shadow, at } = context;
        Self {
            merge: Merge::new(sources, span.shared()),
            span,
            direction,
            at,
            shadow,
            work,
            page,
            // A page that begins in a gap seeks at once: pages of few examined entries get across.
            gap_steps: STEPS_BEFORE_SEEK,
            key: Vec::new(),
            end: End { direction, common: usize::MAX },
            common_with_offered: 0,
        }
    }

    /// Walks until the page or the span ends.
    pub(super) fn run(mut self) -> Result<Walked> {
        match self.direction {
            Direction::Forward => self.merge.seek(&self.span.low)?,
            Direction::Reverse => self.merge.seek_before(&self.span.high)?,
        }
        loop {
            let kept = self.merge.kept();
            self.common_with_offered = self.common_with_offered.min(kept);
            let Some(mut entry) = self.merge.entry() else { return Ok(Walked::Through) };
            if self.end.is_passed(entry.key, kept, &self.span) {
                return Ok(Walked::Through);
            }
            if let Some(stop) = self.work.is_over() {
                return Ok(self.stopped(self.page.reason_or_full(stop)));
            }
            self.work.examined += 1;
            if self.span.rows.is_some() || entry.version > self.at {
                if self.leave_gap()? || !self.find_visible_version()? {
                    continue;
                }
                let Some(found) = self.merge.entry() else { continue };
                entry = found;
            }
            if entry.kind == Kind::Delete {
                self.step()?;
                continue;
            }
            if let Some(stretch) = self.shadow.over(entry.key, entry.version) {
                self.skip(stretch)?;
                continue;
            }
            match self.page.offer(entry, self.common_with_offered)? {
                Offered::Taken => {
                    self.common_with_offered = usize::MAX;
                    self.step()?;
                }
                Offered::Last => return Ok(Walked::Complete),
                Offered::Refused(stop) => return Ok(self.stopped(stop)),
            }
        }
    }

    fn stopped(&self, stop: StopReason) -> Walked {
        Walked::Stopped(stop, self.merge.key().to_vec())
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.merge.next_key(),
            Direction::Reverse => self.merge.previous_key(),
        }
    }

    /// Where the key is beside the RowKey intervals: goes on to where the next begins, in this
    /// partition or beyond it, so that a partition costs seeks and not rows (R-E15).
    fn leave_gap(&mut self) -> Result<bool> {
        let Some(rows) = &mut self.span.rows else { return Ok(false) };
        if rows.contains(self.merge.key()) {
            self.gap_steps = 0;
            return Ok(false);
        }
        if self.gap_steps < STEPS_BEFORE_SEEK {
            self.gap_steps += 1;
            self.step()?;
            return Ok(true);
        }
        self.gap_steps = 0;
        match self.direction {
            Direction::Forward => self.merge.seek_onward(rows.onward())?,
            Direction::Reverse => self.merge.seek_back(rows.back())?,
        }
        Ok(true)
    }

    /// Goes to the newest version of the key that the view shows. Where there is none, goes on
    /// to the next key and says `false`.
    fn find_visible_version(&mut self) -> Result<bool> {
        if self.merge.version() <= self.at {
            return Ok(true);
        }
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
