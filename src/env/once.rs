//! [`once`]: work that need not be queued twice.
//!
//! Invariant, which the loom model below checks: work that is wanted after its last run began is queued, or its owner
//! is gone; and a run sees what was done before anybody wanted it who found it queued.

use std::sync::Weak;
use std::time::Duration;

use super::{JobClass, Jobs};
use crate::sync::{AtomicBool, Ordering};

/// Whether work is queued and has not begun.
#[derive(Debug, Default)]
pub(crate) struct Queued(AtomicBool);

impl Queued {
    /// Says whether it was not queued: then it is for the caller to queue it.
    fn set(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The work begins. Not a store: only who reads what others set sees what they had done before.
    fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// A look that orders nothing: after it, the work may have begun before what the caller did.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Queues work of an owner's, to whom `weak` leads, unless it is queued and has not begun, which the owner notes.
pub(crate) fn once<T: Send + Sync + 'static>(
    jobs: &dyn Jobs,
    owner: &T,
    weak: &Weak<T>,
    queued: fn(&T) -> &Queued,
    class: JobClass,
    delay: Duration,
    work: fn(&T),
) {
    if !queued(owner).set() {
        return;
    }
    let weak = Weak::clone(weak);
    let job = Box::new(move || {
        if let Some(owner) = weak.upgrade() {
            // First, so that what there is to do from here on queues another job.
            queued(&owner).clear();
            work(&owner);
        }
    });
    jobs.spawn_after(class, delay, job);
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::sync::AtomicU64;

    /// Whoever wants work for what was done finds that none is queued, or the one that is sees it.
    #[test]
    fn loom_work_that_is_queued_sees_what_was_done_before_it_was_wanted() {
        loom::model(|| {
            let shared = Arc::new((Queued::default(), AtomicU64::new(0)));
            let (queued, done) = &*shared;
            assert!(queued.set());
            let there = Arc::clone(&shared);
            let wanting = thread::spawn(move || {
                let (queued, done) = &*there;
                done.store(1, Ordering::Relaxed);
                queued.set()
            });
            queued.clear();
            let is_seen = done.load(Ordering::Relaxed) == 1;
            let is_queued_again = wanting.join().unwrap();
            assert!(is_seen || is_queued_again);
        });
    }
}
