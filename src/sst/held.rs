//! [`Held`]: a block's payload, held for as long as it is needed.

use std::ops::Range;
use std::sync::Arc;

use super::frame::TRAILER_BYTES;
use crate::prefetch::{LINE_BYTES, prefetch};

/// A payload, held for as long as it is needed.
#[derive(Clone, Debug)]
pub(super) enum Held<'a> {
    /// In the mapping.
    Mapped(&'a [u8]),
    /// An uncompressed frame, shared with the cache.
    Shared(Arc<[u8]>),
    /// The same, read for this one alone.
    Read(Arc<[u8]>),
}

impl Held<'_> {
    /// Brings near a part of the payload.
    #[inline]
    pub(super) fn prefetch(&self, range: Range<usize>) {
        prefetch_lines(self.payload(), range);
    }

    /// The same of its last bytes, if it is the cache's: of what is read in place they are asked for
    /// [before](super::source::Source::prefetch_end) it is loaded, and what was just read is near.
    #[inline]
    pub(super) fn prefetch_shared_end(&self, bytes: usize) {
        if let Self::Shared(_) = self {
            let end = self.payload().len();
            self.prefetch(end.saturating_sub(bytes)..end);
        }
    }

    #[inline]
    pub(super) fn payload(&self) -> &[u8] {
        match self {
            Self::Mapped(payload) => payload,
            Self::Shared(frame) | Self::Read(frame) => {
                frame.get(..frame.len().saturating_sub(TRAILER_BYTES)).unwrap_or_default()
            }
        }
    }
}

/// Brings near the lines of a range of bytes, and the one of its last.
pub(super) fn prefetch_lines(bytes: &[u8], range: Range<usize>) {
    let last = range.end.saturating_sub(1);
    for at in range.step_by(LINE_BYTES).chain([last]) {
        prefetch(bytes.as_ptr().wrapping_add(at));
    }
}
