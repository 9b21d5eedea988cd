//! [`Ahead`]: what a walk over data blocks brings near before it comes there.
//!
//! Invariant: it changes nothing but the time that later reads take. It reads no file: it looks at
//! the index partition at hand and at what the cache has.

use super::held::Held;
use super::index::BlockHandle;
use super::reader::Place;
use crate::prefetch::{LINE_BYTES, prefetch};

/// How far before it is read memory is asked for.
const AHEAD_BYTES: usize = 1 << 10;

/// What most rows take, and some more.
const USUAL_LINES: usize = 4;

/// How far a walk over a block has looked.
#[derive(Debug, Default)]
pub(super) struct Ahead<'a> {
    /// Offset in the block up to where all was asked for; beyond all, once the next block was.
    near: usize,
    next: Option<Next<'a>>,
}

/// The data block after this one, and its contents if they were found in the cache.
type Next<'a> = (BlockHandle, Option<Held<'a>>);

impl<'a> Ahead<'a> {
    /// For a block whose first bytes were asked for before.
    pub(super) fn of_near_block() -> Self {
        Self { near: AHEAD_BYTES, next: None }
    }

    /// Asks for what a walk from an offset begins with.
    #[inline]
    pub(super) fn begin(&mut self, payload: &[u8], at: usize) {
        self.near = self.near.max(at);
        while self.near < payload.len().min(at + AHEAD_BYTES) {
            prefetch(payload.as_ptr().wrapping_add(self.near));
            self.near += LINE_BYTES;
        }
    }

    /// Asks for what is ahead of an offset in the block at `place`.
    #[inline(always)]
    pub(super) fn go(&mut self, payload: &[u8], at: usize, place: &Place<'a>) {
        let from = at + AHEAD_BYTES;
        if from < payload.len() {
            // As many for every row: no processor foresees where a loop over the lines of each ends. The
            // rest of a long one it brings near by itself.
            for number in 0..USUAL_LINES {
                prefetch(payload.as_ptr().wrapping_add(from + number * LINE_BYTES));
            }
            self.near = from + USUAL_LINES * LINE_BYTES;
        } else if self.near != usize::MAX {
            self.look_beyond(place);
        }
    }

    #[inline(never)]
    fn look_beyond(&mut self, place: &Place<'a>) {
        self.near = usize::MAX;
        self.next = place.next_at_hand().map(|handle| {
            let held = place.source().approach(&handle, AHEAD_BYTES);
            (handle, held)
        });
    }

    /// The next block, if the walk came near it: it is at the next position of the same partition.
    #[inline]
    pub(super) fn take_next(&mut self) -> Option<Next<'a>> {
        self.next.take()
    }
}
