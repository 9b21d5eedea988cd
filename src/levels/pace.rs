//! [`Pace`]: how a flush or a compaction, or a look at what one would bring, goes on beside those who write and read.
//!
//! Invariant: it ends at the next entry once the tree is closing. After each piece of some fifth of a
//! millisecond it gives way to whoever waits for its processor, as long as no write is held back until
//! flushes and compactions have caught up (R-E24); then they keep the share that the scheduler gives them.
//! A scheduler by itself takes a processor away from them at a tick, every few milliseconds, and so long a
//! writer would wait, and others for the log if it has that.

use super::tree::Tree;
use crate::error::Result;

/// Bytes of entries that a compaction reads, and a flush, which is several times as fast, before it gives way.
const COMPACTION_PIECE_BYTES: usize = 64 << 10;
const FLUSH_PIECE_BYTES: usize = 256 << 10;

/// How far a job is with the piece it is at.
pub(super) struct Pace<'a> {
    tree: &'a Tree,
    piece_bytes: usize,
    done_bytes: usize,
}

impl<'a> Pace<'a> {
    pub(super) fn flush(tree: &'a Tree) -> Self {
        Self { tree, piece_bytes: FLUSH_PIECE_BYTES, done_bytes: 0 }
    }

    pub(super) fn compaction(tree: &'a Tree) -> Self {
        Self { tree, piece_bytes: COMPACTION_PIECE_BYTES, done_bytes: 0 }
    }

    /// Before an entry of so many bytes.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) once the tree is closing.
    #[inline]
    pub(super) fn step(&mut self, bytes: usize) -> Result<()> {
        self.tree.check_not_closing()?;
        self.done_bytes += bytes;
        if self.done_bytes >= self.piece_bytes {
            self.end_piece();
        }
        Ok(())
    }

    #[cold]
    fn end_piece(&mut self) {
        self.done_bytes = 0;
        if !self.tree.holds_writes_back() {
            self.tree.jobs.give_way();
        }
    }
}
