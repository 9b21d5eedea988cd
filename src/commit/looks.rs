//! [`Looks`]: at which memtables there is a look for their deletions.
//!
//! Invariant, which a model in `model.rs` checks: after a deletion a look is queued until the memtable that has it was
//! looked at, or frozen.

use std::sync::{Arc, Weak};

use arc_swap::Guard;

use crate::env::Queued;
use crate::levels::View;
use crate::memtable::Memtable;
use crate::sync::{Mutex, Ordering, fence};

/// Looks that were, and the one to come.
#[derive(Default)]
pub(super) struct Looks {
    /// One is queued, and has not begun.
    pub(super) queued: Queued,
    /// The memtable that was active at the last one.
    last_active: Mutex<Weak<Memtable>>,
}

impl Looks {
    /// Once a deletion is in the memtable: whether a look is to be queued for it.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        // Either this sees that the look has begun, or the look sees the deletion.
        fence(Ordering::SeqCst);
        !self.queued.is_set()
    }

    /// A look has begun. Gives the view, if its active memtable was active at the last look, too: else all its
    /// deletions may have come while this one was queued.
    pub(super) fn begin(
        &self,
        view: impl FnOnce() -> Guard<Arc<View>>,
    ) -> Option<Guard<Arc<View>>> {
        fence(Ordering::SeqCst);
        let view = view();
        let last = std::mem::replace(&mut *self.last_active.lock(), Arc::downgrade(&view.active));
        (last.as_ptr() == Arc::as_ptr(&view.active)).then_some(view)
    }
}
