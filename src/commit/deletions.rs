//! Deletions give their space back though nothing else is written (R-E19).
//!
//! What a deletion hides goes once the memtable that has the deletion is flushed, and that is when it is full.
//! So a memtable that has had deletions for a while is looked at, and frozen if they hide much more than it
//! has. Invariant: after a deletion such a look is queued until the memtable that has it was looked at, or frozen.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::pipeline::Pipeline;
use crate::env::JobClass;

/// Between two looks: a memtable that was active at one and still is at the next is looked at. Where much is
/// written none is, as each is full before.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// What its deletions must hide, as a part of what a memtable may have, for one to be frozen for them.
const WORTH_A_FLUSH_PART: usize = 8;

impl Pipeline {
    /// To be called once a deletion is in the memtable.
    #[inline]
    pub(super) fn note_deletion(&self) {
        // Either this sees that the look has begun, or the look sees the deletion.
        fence(Ordering::SeqCst);
        if !self.look_queued.load(Ordering::Relaxed) {
            self.look_later();
        }
    }

    #[cold]
    fn look_later(&self) {
        self.once_in_background(
            |this| &this.look_queued,
            JobClass::Compaction,
            LOOK_AFTER,
            Self::look_at_deletions,
        );
    }

    fn look_at_deletions(&self) {
        fence(Ordering::SeqCst);
        let view = self.tree.view();
        let was_active =
            std::mem::replace(&mut *self.looked_at.lock(), Arc::downgrade(&view.active));
        if was_active.as_ptr() != Arc::as_ptr(&view.active) {
            // All its deletions may have come while this was queued.
            return self.look_later();
        }
        let worth_it = (self.memtable_bytes / WORTH_A_FLUSH_PART) as u64;
        match self.tree.hides(&view.active, worth_it) {
            Ok(true) => self.freeze_for_deletions(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(cause = %error.chain(), "how much deletions hide is not known");
            }
        }
    }
}
