//! [`once`]: work that need not be queued twice.
//!
//! Invariant: work that is wanted after its last run began is queued, or its owner is gone.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{JobClass, Jobs};

/// Queues work of an owner's, to whom `weak` leads, unless it is queued and has not begun, which a flag of the owner's says.
pub(crate) fn once<T: Send + Sync + 'static>(
    jobs: &dyn Jobs,
    owner: &T,
    weak: &Weak<T>,
    is_queued: fn(&T) -> &AtomicBool,
    class: JobClass,
    delay: Duration,
    work: fn(&T),
) {
    if is_queued(owner).swap(true, Ordering::AcqRel) {
        return;
    }
    let weak = Weak::clone(weak);
    let job = Box::new(move || {
        if let Some(owner) = weak.upgrade() {
            // First, so that what there is to do from here on queues another job.
            is_queued(&owner).store(false, Ordering::Release);
            work(&owner);
        }
    });
    jobs.spawn_after(class, delay, job);
}
