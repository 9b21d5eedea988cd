//! What hints say of the keys of a file, and where they lead to.
//!
//! Invariant: a hint leads only to a block that was found right before it was noted.

use super::frame::Frame;
use super::held::Held;
use super::source::{Access, Mapped, Source, part};
use crate::cache::{BlockOffset, Hint};
use crate::prefetch::LINE_BYTES;

/// What a lookup by a hint reads of the end of a block: one restart, and what follows them all.
const HINTED_END_BYTES: usize = 2 * LINE_BYTES;

impl Source {
    /// Brings near what [`recall`](Self::recall) reads.
    #[inline]
    pub(super) fn prefetch_hints(&self, key_hash: u64) {
        self.cache.hints().prefetch(key_hash);
    }

    /// Where the key with this hash may be.
    #[inline]
    pub(super) fn recall(&self, key_hash: u64) -> Option<Hint> {
        self.cache.hints().recall(self.number.as_ref()?, key_hash)
    }

    /// Brings near what a hint leads to, if that is read in place.
    #[inline]
    pub(super) fn prefetch_hinted(&self, hint: &Hint) {
        if !hint.is_cached {
            let at = |offset: usize| hint.offset + offset as u64;
            self.prefetch(at(hint.len.saturating_sub(HINTED_END_BYTES))..at(hint.len));
            self.prefetch(at(hint.walked.start)..at(hint.walked.end));
        }
    }

    /// Notes where the key with this hash is: in a block of this file that was loaded.
    pub(super) fn note(&self, key_hash: u64, hint: &Hint) {
        if let Some(number) = &self.number {
            self.cache.hints().note(number, key_hash, hint);
        }
    }

    /// The payload of the block that a hint names, if it can be had at once.
    #[inline]
    pub(super) fn load_hinted(&self, hint: &Hint) -> Option<Held<'_>> {
        if hint.is_cached {
            let held = Held::Shared(self.cache.block(self.id, BlockOffset(hint.offset))?);
            held.prefetch_shared_end(HINTED_END_BYTES);
            held.prefetch(hint.walked.clone());
            return Some(held);
        }
        // What is read in place was checked before it was noted.
        let Access::Mapped(Mapped { map, .. }) = &self.access else { return None };
        Frame::plain_payload(part(map, hint.offset, hint.len)?).map(Held::Mapped)
    }
}
