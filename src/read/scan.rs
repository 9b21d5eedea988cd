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

use std::borrow::Cow;

use super::builder::{Offered, PageBuilder};
use super::limits::Work;
use super::page::StopReason;
use super::range::{Continuation, Direction, Span};
use super::shadow::Shadow;
use crate::entry::{Cursor, Entry, Kind, Walker};
use crate::error::Result;
use crate::key::{self, common_prefix};
use crate::levels::Values;
use crate::merge::{Merge, SortedFile, Source};
use crate::tombstone::Stretch;
use crate::version::Version;

/// Keys beside the RowKey intervals that are stepped over before a seek, which costs about as much
/// as twenty steps: gaps in small partitions end before, and large ones lose little. To seek at once
/// from the first key behind a partition that was left by a seek takes 0.85 of the time of partitions
/// of 20 to 1,000 rows, but 1.3 times as long where the interval begins at their second row, and 2.4 times
/// where they are of one row, which is not in it.
pub(super) const STEPS_BEFORE_SEEK: u32 = 3;

/// What a span is read from.
pub(super) struct ScanContext<'a, F: SortedFile + 'a> {
    /// Newest first.
    pub(super) sources: Vec<Source<'a, F>>,
    pub(super) shadow: Shadow<'a>,
    pub(super) values: &'a Values,
    pub(super) at: Version,
}

/// A walk over one span, which goes on with a page.
pub(super) struct Scan<'a, 's, 'p, F: SortedFile + 'a> {
    merge: Merge<'a, F>,
    direction: Direction,
    /// The key whose versions are looked through.
    key: Vec<u8>,
    examiner: Examiner<'a, 's, 'p>,
}

/// Examines the keys that a walk comes to.
struct Examiner<'a, 's, 'p> {
    span: Span,
    at: Version,
    shadow: Shadow<'a>,
    values: &'a Values,
    work: &'s mut Work<'a>,
    page: &'s mut PageBuilder<'p>,
    /// Keys stepped over since the last seek or the last key in a RowKey interval.
    gap_steps: u32,
    end: End,
    /// As far as it is known, how many the current key has with the one offered last.
    common_with_offered: usize,
    /// Why the walk stopped where it did, if it was not at the end of the keys.
    pause: Result<Pause<'a>>,
}

/// Why a walk does not just step to the next key.
enum Pause<'a> {
    /// It is beside the RowKey intervals, and has stepped over some such keys.
    Gap,
    /// The entry is newer than the view.
    Newer,
    /// A range tombstone deletes it, and all in this stretch.
    Covered(Stretch<'a>),
    Over(Walked),
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
    /// The page stops before this key.
    Stopped(StopReason, Continuation),
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
        let ScanContext { sources, shadow, values, at } = context;
        let merge = Merge::new(sources, span.shared());
        let examiner = Examiner {
            span,
            at,
            shadow,
            values,
            work,
            page,
            // A page that begins in a gap seeks at once: pages of few examined entries get across.
            gap_steps: STEPS_BEFORE_SEEK,
            end: End { direction, common: usize::MAX },
            common_with_offered: 0,
            pause: Ok(Pause::Over(Walked::Through)),
        };
        Self { merge, direction, key: Vec::new(), examiner }
    }

    /// Walks until the page or the span ends.
    pub(super) fn run(mut self) -> Result<Walked> {
        let span = &self.examiner.span;
        match self.direction {
            Direction::Forward => self.merge.seek(&span.low)?,
            Direction::Reverse => self.merge.seek_before(&span.high)?,
        }
        loop {
            match self.walk()? {
                Pause::Over(walked) => return Ok(walked),
                Pause::Gap => self.leave_gap()?,
                Pause::Covered(stretch) => self.skip(stretch)?,
                Pause::Newer => {
                    if let Some(walked) = self.take_older()? {
                        return Ok(walked);
                    }
                }
            }
        }
    }

    /// Walks to the next key that wants more than a step.
    fn walk(&mut self) -> Result<Pause<'a>> {
        let Self { merge, examiner, .. } = self;
        examiner.pause = Ok(Pause::Over(Walked::Through));
        match self.direction {
            Direction::Forward => merge.walk(examiner)?,
            Direction::Reverse => walk_back(merge, examiner)?,
        }
        std::mem::replace(&mut examiner.pause, Ok(Pause::Over(Walked::Through)))
    }

    /// Takes what the view shows of the current key, whose newest entry is newer than it, and goes
    /// on to the next.
    #[cold]
    fn take_older(&mut self) -> Result<Option<Walked>> {
        if !self.find_visible_version()? {
            return Ok(None);
        }
        let Some(entry) = self.merge.entry() else { return Ok(None) };
        match self.examiner.take_one(entry)? {
            None => self.step()?,
            Some(Pause::Over(walked)) => return Ok(Some(walked)),
            Some(Pause::Covered(stretch)) => self.skip(stretch)?,
            // It is in the intervals, and no newer than the view.
            Some(Pause::Gap | Pause::Newer) => {}
        }
        Ok(None)
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.merge.next_key(),
            Direction::Reverse => self.merge.previous_key(),
        }
    }

    /// Goes on from beside the RowKey intervals to where the next begins, in this partition or
    /// beyond it, so that a partition costs seeks and not rows (R-E15).
    fn leave_gap(&mut self) -> Result<()> {
        let Some(rows) = &mut self.examiner.span.rows else { return Ok(()) };
        match self.direction {
            Direction::Forward => self.merge.seek_onward(rows.onward()),
            Direction::Reverse => self.merge.seek_back(rows.back()),
        }
    }

    /// Goes to the newest version of the key that the view shows. Where there is none, goes on
    /// to the next key and says `false`.
    fn find_visible_version(&mut self) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(self.merge.key());
        match self.direction {
            Direction::Forward => self.merge.next_at(self.examiner.at)?,
            Direction::Reverse => self.merge.previous_at(self.examiner.at)?,
        }
        Ok(self.merge.valid() && self.merge.key() == self.key)
    }

    /// Goes on from a key that a range tombstone deletes. Where a source holds nothing newer than
    /// the tombstone, the whole stretch is passed in one seek (R-E19).
    #[cold]
    fn skip(&mut self, stretch: Stretch<'_>) -> Result<()> {
        self.examiner.work.deletions += 1;
        match self.direction {
            Direction::Forward => {
                let high = &*self.examiner.span.high;
                let end = stretch.end.map_or(high, |end| end.min(high));
                self.merge.skip_forward(stretch.version, end)
            }
            Direction::Reverse => self.merge.skip_backward(stretch.version, stretch.start),
        }
    }
}

/// As [`Cursor::walk`], from the last key to the first.
fn walk_back(cursor: &mut impl Cursor, examiner: &mut Examiner<'_, '_, '_>) -> Result<()> {
    while let Some(entry) = cursor.entry() {
        if !examiner.meet(entry, cursor.kept()) {
            break;
        }
        cursor.previous_key()?;
    }
    Ok(())
}

impl Walker for Examiner<'_, '_, '_> {
    // Always: a call would cost a plain scan a tenth of a row.
    #[inline(always)]
    fn meet(&mut self, entry: Entry<'_>, kept: usize) -> bool {
        match self.examine(entry, kept) {
            Ok(None) => true,
            Ok(Some(pause)) => {
                self.pause = Ok(pause);
                false
            }
            Err(error) => {
                self.pause = Err(error);
                false
            }
        }
    }
}

impl<'a> Examiner<'a, '_, '_> {
    /// Examines the newest entry of a key of which `kept` bytes are those of the key before, and
    /// offers it to the page if it is a live row.
    #[inline(always)]
    fn examine(&mut self, entry: Entry<'_>, kept: usize) -> Result<Option<Pause<'a>>> {
        self.common_with_offered = self.common_with_offered.min(kept);
        if self.end.is_passed(entry.key, kept, &self.span) {
            return Ok(Some(Pause::Over(Walked::Through)));
        }
        if let Some(stop) = self.work.is_over() {
            return Ok(Some(stopped(stop, entry.key)));
        }
        self.work.examined += 1;
        if let Some(rows) = &mut self.span.rows {
            if !rows.contains(entry.key) {
                return Ok(self.pass_gap());
            }
            self.gap_steps = 0;
        }
        if entry.version > self.at {
            return Ok(Some(Pause::Newer));
        }
        self.take(entry)
    }

    /// Steps over a few keys beside the RowKey intervals, then wants a seek.
    fn pass_gap(&mut self) -> Option<Pause<'a>> {
        if self.gap_steps < STEPS_BEFORE_SEEK {
            self.gap_steps += 1;
            return None;
        }
        self.gap_steps = 0;
        Some(Pause::Gap)
    }

    #[inline(never)]
    fn take_one(&mut self, entry: Entry<'_>) -> Result<Option<Pause<'a>>> {
        self.take(entry)
    }

    /// Offers to the page what the view shows of a key, if it is a live row.
    #[inline(always)]
    fn take(&mut self, entry: Entry<'_>) -> Result<Option<Pause<'a>>> {
        if entry.kind == Kind::Delete {
            self.work.deletions += 1;
            return Ok(None);
        }
        if let Some(stretch) = self.shadow.over(entry.key, entry.version) {
            return Ok(Some(Pause::Covered(stretch)));
        }
        let offered = match entry.kind {
            // In parts, as in a whole it would be written to memory for each row.
            Kind::Reference => self.offer_reference(entry.key, entry.version, entry.value)?,
            Kind::Put | Kind::Delete => self.page.offer(entry, self.common_with_offered)?,
        };
        match offered {
            Offered::Taken => {
                self.common_with_offered = usize::MAX;
                Ok(None)
            }
            Offered::Last => Ok(Some(Pause::Over(Walked::Complete))),
            Offered::Refused(stop) => Ok(Some(stopped(stop, entry.key))),
        }
    }

    /// Offers a row with the value that it refers to.
    #[cold]
    fn offer_reference(
        &mut self,
        key: &[u8],
        version: Version,
        reference: &[u8],
    ) -> Result<Offered> {
        let value = match self.page.takes_keys_alone() {
            true => Cow::default(),
            false => self.values.read(reference)?,
        };
        let entry = Entry { key, version, kind: Kind::Put, value: &value };
        self.page.offer(entry, self.common_with_offered)
    }
}

#[cold]
fn stopped<'a>(stop: StopReason, key: &[u8]) -> Pause<'a> {
    Pause::Over(Walked::Stopped(stop, key::decode(key)))
}
