//! [`Relay`]: how the log is passed on among those who wait for it.
//!
//! Invariant, which the loom model below checks: while somebody waits for a record in the queue,
//! somebody has the log, or is about to look whether it is free, or a background job is. So
//! whoever lets go of the log hands it over; and so does a thread that may have been woken to
//! take it, when it leaves without: its own commit may have been published meanwhile.

use super::waiters::{Role, Waiters, thread_waker};
use crate::error::Result;
use crate::sync::park;
use crate::version::Version;

/// A log that is driven by those who wait for it.
pub(super) trait Relay {
    fn waiters(&self) -> &Waiters;

    /// Whether `version` is published; an error if it never will be.
    fn is_settled(&self, version: Version) -> Result<bool>;

    /// Writes and publishes what is queued if the log is free; says whether it was.
    fn drive_if_free(&self) -> bool;

    /// Whether anything is queued, and can still be written.
    fn has_queued(&self) -> bool;

    /// Has a background job drive the log.
    fn drive_in_background(&self);

    /// Drives the log if it is free; says whether it was.
    fn try_drive(&self) -> bool {
        let was_free = self.drive_if_free();
        if was_free {
            self.hand_over();
        }
        was_free
    }

    /// After the log was released: more may have been queued by somebody who found it busy.
    fn hand_over(&self) {
        if self.has_queued() && !self.waiters().wake_a_driver() {
            self.drive_in_background();
        }
    }

    /// Blocks until everything up to `version` is published, driving the log if nobody else does.
    fn wait(&self, version: Version) -> Result<()> {
        if self.is_settled(version)? {
            return Ok(());
        }
        self.try_drive();
        if self.is_settled(version)? {
            return Ok(());
        }
        let key = self.waiters().register(version, thread_waker(), Role::Thread);
        let outcome = loop {
            match self.is_settled(version) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
            // Registered first: if the log is busy now, its driver will look at the waiters.
            if !self.try_drive() {
                park();
            }
        };
        if self.waiters().deregister(key) {
            self.hand_over();
        }
        outcome
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::super::sequence::Sequencer;
    use super::*;

    /// A log that keeps nothing.
    struct Log {
        sequencer: Sequencer<Version>,
        free: Mutex<()>,
        visible: AtomicU64,
        waiters: Waiters,
    }

    impl Log {
        fn queue(&self) -> Version {
            let (ticket, ()) = self.sequencer.next(Version::ZERO, |_| (), |version| version);
            let version = ticket.version;
            ticket.applied();
            version
        }

        fn drive(&self) {
            if let Some(taken) = self.sequencer.take() {
                self.visible.store(taken.last.ticks(), Ordering::Release);
                self.waiters.wake_through(taken.last);
            }
        }
    }

    impl Relay for Log {
        fn waiters(&self) -> &Waiters {
            &self.waiters
        }

        fn is_settled(&self, version: Version) -> Result<bool> {
            Ok(self.visible.load(Ordering::Acquire) >= version.ticks())
        }

        fn drive_if_free(&self) -> bool {
            let Ok(_log) = self.free.try_lock() else { return false };
            self.drive();
            true
        }

        fn has_queued(&self) -> bool {
            !self.sequencer.is_empty()
        }

        fn drive_in_background(&self) {
            let log = self.free.lock().unwrap();
            self.drive();
            drop(log);
            self.hand_over();
        }
    }

    /// One thread drives a commit, another waits for it, a third commits after it and waits: all get
    /// there. loom finds it if one sleeps for ever.
    #[test]
    fn loom_everybody_who_waits_is_woken() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(4);
        model.check(|| {
            let log = Arc::new(Log {
                sequencer: Sequencer::new(Version::ZERO),
                free: Mutex::new(()),
                visible: AtomicU64::new(0),
                waiters: Waiters::default(),
            });
            let first = log.queue();
            let waiting = {
                let log = Arc::clone(&log);
                thread::spawn(move || log.wait(first).unwrap())
            };
            let committing = {
                let log = Arc::clone(&log);
                thread::spawn(move || log.wait(log.queue()).unwrap())
            };
            log.try_drive();
            waiting.join().unwrap();
            committing.join().unwrap();
        });
    }
}
