//! [`SegmentPlan`]: how long segments become, what is ahead of their records, and which files are used again.

use super::record::TERMINATOR;

/// Spare files to keep where zeros are written ahead. The writer needs one at a time; the others are
/// for a flush that lets go of several segments at once.
const MAX_SPARES: usize = 8;
/// Where segments are used again for their pages in memory, each ends at this part of its greatest length, unless
/// it is kept for large values; and there are as many spares: what one flush lets go of.
const REUSED_PARTS: u64 = 4;
/// A segment is not made shorter for that.
const LEAST_REUSED_BYTES: u64 = 64 << 10;
/// How far a segment is written with zeros ahead at most. The writer goes on with the next where they end,
/// and who opens the log after a crash has to look through what is left of the last one.
const MAX_PREPARED_BYTES: u64 = 8 << 20;
/// Zeros that a segment starts with that gets any; the writer goes on from there.
pub(super) const FIRST_ZEROS_BYTES: usize = 256 << 10;

/// How segments are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentPlan {
    /// At most this long, but for a single record that is longer.
    pub(crate) bytes: u64,
    pub(crate) ahead: Ahead,
    /// What nobody asks to sync is left to the operating system, which writes what has been there for long:
    /// most is flushed and let go of before, and never written to the device.
    pub(crate) left_to_system: bool,
}

/// What there is in a segment before its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Zeros, which a background job writes to the next one, and files are used again: where commits are
    /// synced, that is time that they do not wait; where they are not, it is writing, and space, for nothing.
    Zeros,
    /// [Room](crate::env::DiskFile::reserve), in which a commit is written without a system call.
    Room,
    Nothing,
}

impl SegmentPlan {
    pub(super) fn zeros_ahead(self) -> bool {
        self.ahead == Ahead::Zeros
    }

    /// How far a segment is written with zeros ahead at most, where it then ends.
    pub(super) fn most_zeros(self) -> u64 {
        MAX_PREPARED_BYTES.min(self.bytes + TERMINATOR.len() as u64)
    }

    /// Whether a file of so many bytes is too long to be used again: large commits made it so, and its
    /// space is better given back.
    pub(super) fn is_too_long(self, bytes: u64) -> bool {
        let usual = if self.zeros_ahead() { self.most_zeros() } else { self.usual_bytes() };
        bytes > 2 * usual
    }

    /// Whether files are used again for what is in memory of them, mapped: the first store to a page of a
    /// new file takes ten times as long as filling it with records. Of a file that was synced, each page
    /// would have to be asked for again.
    pub(super) fn reuses_memory(self) -> bool {
        self.left_to_system && self.ahead == Ahead::Room
    }

    /// How long segments become that are not kept for large values, but for a single record that is longer.
    pub(super) fn usual_bytes(self) -> u64 {
        let parts = if self.reuses_memory() { REUSED_PARTS } else { 1 };
        (self.bytes / parts).max(LEAST_REUSED_BYTES).min(self.bytes)
    }

    /// How many files wait to be used again at most.
    pub(super) fn most_spares(self) -> usize {
        match self.ahead {
            Ahead::Zeros => MAX_SPARES,
            _ if self.reuses_memory() => REUSED_PARTS as usize,
            _ => 0,
        }
    }

    /// Zeros that a new file begins with.
    pub(super) fn first_zeros(self) -> usize {
        let most = if self.zeros_ahead() { self.bytes } else { 0 };
        most.clamp(TERMINATOR.len() as u64, FIRST_ZEROS_BYTES as u64) as usize
    }
}
