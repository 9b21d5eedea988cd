//! Where the log goes on: what is made ready ahead of its end, and when it goes on with the next segment.
//!
//! Invariant: a segment is sealed before the next one has a record. What cannot be made ready, or a segment that cannot
//! be begun, never fails a commit: the last segment then grows.

use std::sync::Arc;

use super::plan::{Ahead, FIRST_ZEROS_BYTES};
use super::prepare::OpenSegment;
use super::record::{HEADER_BYTES, TERMINATOR};
use super::segment;
use super::writer::Writer;
use super::zeros::write_zeros;
use crate::error::Result;
use crate::version::Version;

/// A segment that would have to grow and has so many bytes is given up for one that was prepared with
/// more zeros: those that the writer writes itself are time that commits wait for.
const GIVE_UP_BYTES: u64 = 1 << 20;
/// The next segment, if it needs no zeros, is prepared once this part of one is full: it takes a few
/// syncs, of a device that large commits keep busy.
const PREPARED_AFTER_PART: u64 = 8;
/// Each time that the writer has zeros or room made ahead it is twice as much as before, up to this: an idle
/// log does not hold much space.
const MAX_STRIDE_BYTES: usize = 4 << 20;
/// After a failed attempt to make the next segment, this much more, or a segment's worth, is appended before
/// the next attempt: each waits for the file system while it holds the log.
const RETRY_BYTES: u64 = 1 << 20;

impl Writer {
    /// Whether a background job should call [`Segments::prepare`](super::Segments::prepare) now. Once it has
    /// said so, it does not again before some more is written.
    pub(crate) fn wants_next_segment(&mut self) -> bool {
        if self.end < self.wanted_again {
            return false;
        }
        let bytes = self.usual_bytes();
        let enough = match self.active.prewritten {
            prewritten if self.segments.zeros_ahead() && prewritten < bytes => {
                GIVE_UP_BYTES.max(prewritten / 2)
            }
            _ if self.segments.zeros_ahead() => bytes / 2,
            _ => bytes / PREPARED_AFTER_PART,
        };
        let wanted = self.end > enough && !self.segments.is_prepared();
        if wanted {
            self.wanted_again = self.end + self.retry_bytes();
        }
        wanted
    }

    /// Has the segment end before the first record after `version`, which is not appended yet: so what
    /// is flushed together is in segments of its own.
    pub(crate) fn end_segment_after(&mut self, version: Version) {
        self.boundary = version;
    }

    /// Ends the segment now, if it has records and none of them is later than `version`; it is not
    /// synced.
    ///
    /// # Errors
    /// What the operating system refuses; and from then on [`Error::Poisoned`](crate::error::Error::Poisoned).
    pub(crate) fn end_segment(&mut self, version: Version) -> Result<()> {
        self.check_usable()?;
        if self.last > version || self.is_empty() {
            return Ok(());
        }
        let outcome = self.rotate();
        self.remember_failure(outcome)
    }

    /// Writes zeros ahead of what is written, or has room made there. Records do without: where there is
    /// no room for them, or a fault, writing or syncing them says so.
    pub(super) fn go_ahead(&mut self) {
        let ahead = self.segments.plan().ahead;
        let from = self.active.prewritten;
        let to = from + self.next_ahead(from) as u64;
        if ahead == Ahead::Nothing || from == to {
            return;
        }
        let OpenSegment { file, path, .. } = &self.active;
        if ahead == Ahead::Room {
            file.reserve(self.end, to);
        } else if let Err(error) = write_zeros(&**file, from, to) {
            tracing::debug!(%error, path = %path.display(), "no zeros could be written ahead");
            return;
        }
        self.active.prewritten = to;
    }

    /// How many bytes to make ready behind that offset; not beyond the segment's end.
    fn next_ahead(&mut self, offset: u64) -> usize {
        self.stride = (2 * self.stride).min(MAX_STRIDE_BYTES);
        let ends = [self.usual_bytes(), self.segments.plan().bytes];
        let room = ends.iter().find(|end| **end > offset).map_or(0, |end| end - offset);
        usize::try_from(room).unwrap_or(MAX_STRIDE_BYTES).min(self.stride)
    }

    /// Goes on with the next segment if a record of that size and the seal do not fit this one, or
    /// not as it is to be while the next one is ready: not without growing, or beyond its usual length.
    pub(super) fn rotate_if_full(&mut self, record: usize) -> Result<()> {
        let end = self.end + self.group.len() as u64;
        let needed = end + (record + HEADER_BYTES) as u64;
        let ends_early = match self.segments.zeros_ahead() {
            true => needed + TERMINATOR.len() as u64 > self.active.prewritten,
            false => needed > self.usual_bytes(),
        };
        let full = needed > self.segments.plan().bytes;
        let full = full || ends_early && self.segments.has_prepared();
        if full && end >= self.tried_again { self.rotate() } else { Ok(()) }
    }

    /// How long the segment becomes if the next one is ready then.
    fn usual_bytes(&self) -> u64 {
        let plan = self.segments.plan();
        if self.syncs.keeps_segment() { plan.bytes } else { plan.usual_bytes() }
    }

    fn retry_bytes(&self) -> u64 {
        self.segments.plan().bytes.min(RETRY_BYTES)
    }

    /// Goes on with the next segment, unless this one is empty.
    pub(super) fn rotate(&mut self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let next = match self.segments.take_next() {
            Ok(next) => next,
            // A segment may be longer than it should; commits need not fail for it.
            Err(error) => {
                tracing::warn!(cause = %error.chain(), "cannot begin a log segment, going on with the last");
                self.tried_again = self.end + self.group.len() as u64 + self.retry_bytes();
                return Ok(());
            }
        };
        self.syncs.bound_ended()?;
        self.seal()?;
        let ended = self.new_writeback();
        let before = std::mem::replace(&mut self.active, next);
        let active = self.active.header.id;
        self.segments.rotated(self.last, before.file, Arc::clone(&ended), active);
        self.end = segment::HEADER_BYTES as u64;
        self.group.begin(&self.active.header.encode(), self.end);
        self.syncs.segment_ended(ended, self.end);
        self.stride = FIRST_ZEROS_BYTES;
        self.large_bytes = 0;
        (self.wanted_again, self.tried_again) = (0, 0);
        Ok(())
    }
}
