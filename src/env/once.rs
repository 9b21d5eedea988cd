//! [`Background`]: work that need not be queued twice.
//!
//! Invariant, which the loom model below checks: work that is wanted after its last run began is queued, or its owner
//! is gone; and a run sees all that was done before by those who wanted it and found it queued.

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

/// Who has background jobs do work of theirs; what is queued keeps nobody alive.
pub(crate) trait Background: Send + Sync + Sized + 'static {
    /// The jobs, and what leads to the owner.
    fn background(&self) -> (&dyn Jobs, &Weak<Self>);

    /// Has a background job do something, unless one that has not begun is queued already: then that does
    /// it for who comes now, too.
    fn once_in_background(
        &self,
        queued: fn(&Self) -> &Queued,
        class: JobClass,
        delay: Duration,
        work: fn(&Self),
    ) {
        if !queued(self).set() {
            return;
        }
        let (jobs, this) = self.background();
        let this = Weak::clone(this);
        let job = Box::new(move || {
            if let Some(this) = this.upgrade() {
                // First, so that what there is to do from here on queues another job.
                queued(&this).clear();
                work(&this);
            }
        });
        jobs.spawn_after(class, delay, job);
    }
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
