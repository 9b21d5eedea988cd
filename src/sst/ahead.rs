//! [`Ahead`]: what a walk over data blocks brings near before it comes there.
//!
//! Invariant: it changes nothing but the time that later reads take. It reads no file: it looks at
//! the index partition at hand and at what the cache has.

use super::index::BlockHandle;
use super::reader::Place;
use super::source::{Caching, Held};
use crate::prefetch::{LINE_BYTES, prefetch};

/// How far before it is read memory is asked for.
pub(super) const AHEAD_BYTES: usize = 1 << 10;

/// How far a walk over a block has looked.
#[derive(Debug, Default)]
pub(super) struct Ahead<'a> {
    /// Offset in the block up to where all was asked for; beyond all, once the next block was.
    near: usize,
    next: Option<Next<'a>>,
}

/// The data block to go on with.
#[derive(Debug)]
pub(super) struct Next<'a> {
    pub(super) place: Place<'a>,
    pub(super) handle: BlockHandle,
    /// The block, if it was found in the cache.
    pub(super) held: Option<Held<'a>>,
}

impl<'a> Ahead<'a> {
    /// For a block whose first bytes were asked for, or not.
    pub(super) fn new(is_near: bool) -> Self {
        Self { near: if is_near { AHEAD_BYTES } else { 0 }, next: None }
    }

    /// Begins to walk at an offset.
    #[inline]
    pub(super) fn begin(&mut self, at: usize) {
        self.near = self.near.max(at);
    }

    /// Asks for what is ahead of an offset in the block at `place`.
    #[inline(always)]
    pub(super) fn go(&mut self, payload: &[u8], at: usize, place: &Place<'a>, caching: Caching) {
        while self.near < at + AHEAD_BYTES {
            if self.near >= payload.len() {
                self.look_beyond(place, caching);
                return;
            }
            prefetch(payload.as_ptr().wrapping_add(self.near));
            self.near += LINE_BYTES;
        }
    }

    #[inline(never)]
    fn look_beyond(&mut self, place: &Place<'a>, caching: Caching) {
        self.near = usize::MAX;
        self.next = place.next_at_hand().map(|(place, handle)| {
            let held = place.source().approach(&handle, caching, AHEAD_BYTES);
            Next { place, handle, held }
        });
    }

    /// The next block, if the walk came near it.
    pub(super) fn next(self) -> Option<Next<'a>> {
        self.next
    }
}
