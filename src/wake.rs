//! Waking those who wait: their wakers are the callers' code, which may come back here, and may panic.
//!
//! Invariant: each is woken, even if another's waker panics. To be called with no lock held, nor one be held where
//! a waker is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes all of them.
pub(crate) fn wake_each(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
            tracing::error!("the waker of a waiting task panicked");
        }
    }
}
