//! [`Relay`]: how the log is passed on among those who wait for it.
//!
//! A thread that finds the log busy looks for a while whether its commit is published or the log
//! free, and only then sleeps: without a sync the log is free again sooner than anybody can be
//! woken.
//!
//! Invariant, which the loom model below checks: while a thread waits for a record in the queue,
//! somebody has the log, or is about to look whether it is free. So whoever lets go of the log
//! wakes a thread that sleeps, unless somebody looks; who ends to look tries the log once more
//! after saying so; and a thread that may have been woken to take the log, or that was relied upon
//! because it looked, hands it over when it leaves without: its own commit may have been published
//! meanwhile. Who does not wait as a thread, a task or the drop of a handle, has a background job
//! drive the log.

use super::waiters::{Role, WaiterKey, Waiters, thread_waker};
use crate::error::Result;
use crate::sync::{park, spin_loop, yield_now};
use crate::version::Version;

/// So many looks with nothing but a pause between them; then others get the processor in between.
const SPINS: u32 = if cfg!(loom) { 0 } else { 16 };

/// A log that is driven by those who wait for it.
pub(super) trait Relay {
    fn waiters(&self) -> &Waiters;

    /// Whether `version` is published; an error if it never will be.
    fn is_settled(&self, version: Version) -> Result<bool>;

    /// Writes and publishes what is queued if the log is free; says whether it was.
    fn drive_if_free(&self) -> bool;

    /// Whether anything is queued, and can still be written.
    fn has_queued(&self) -> bool;

    /// How often a thread looks again before it sleeps.
    fn looks(&self) -> u32;

    /// Drives the log if it is free; says whether it was.
    fn try_drive(&self) -> bool {
        let was_free = self.drive_if_free();
        if was_free {
            self.hand_over();
        }
        was_free
    }

    /// After the log was released: more may have been queued by somebody who found it busy, and
    /// sleeps by now. Who looks finds the log free by itself.
    fn hand_over(&self) {
        if self.has_queued() && !self.waiters().is_somebody_looking() {
            self.waiters().wake_a_driver();
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
        let looking = self.waiters().look();
        let looked = self.look(version);
        if !matches!(looked, Ok(false)) {
            drop(looking);
            self.hand_over();
            return looked.map(|_| ());
        }
        let key = self.waiters().register(version, thread_waker(), Role::Thread);
        drop(looking);
        // Whoever released the log meanwhile may have left what is queued to who looked, even if
        // this commit is published by now.
        self.try_drive();
        self.sleep(version, key)
    }

    /// Looks for a while whether `version` is published or the log free; says whether it is
    /// published.
    fn look(&self, version: Version) -> Result<bool> {
        for look in 0..self.looks() {
            if look < SPINS {
                spin_loop();
            } else {
                yield_now();
            }
            if self.is_settled(version)? {
                return Ok(true);
            }
            if self.try_drive() {
                return self.is_settled(version);
            }
        }
        Ok(false)
    }

    /// Sleeps until `version` is published, or the log is free to be driven.
    fn sleep(&self, version: Version, key: WaiterKey) -> Result<()> {
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

    use super::super::sequence::{Sequencer, Spare};
    use super::super::waiters::Woken;
    use super::*;

    /// A log that keeps nothing.
    struct Log {
        sequencer: Sequencer<Version>,
        free: Mutex<Spare<Version>>,
        visible: AtomicU64,
        looks: u32,
        waiters: Waiters,
    }

    impl Log {
        fn queue(&self) -> Version {
            let next = self.sequencer.next(0, Version::ZERO, |_| (), |version, ()| version);
            let (ticket, ()) = next.unwrap();
            let version = ticket.version;
            ticket.applied();
            version
        }

        fn drive(&self, spare: &mut Spare<Version>) -> Woken {
            let Some(taken) = self.sequencer.take(spare) else { return Woken::default() };
            self.visible.store(taken.last.ticks(), Ordering::Release);
            let woken = self.waiters.wake_through(taken.last);
            spare.keep(taken);
            woken
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
            let Ok(mut log) = self.free.try_lock() else { return false };
            let woken = self.drive(&mut log);
            drop(log);
            drop(woken);
            true
        }

        fn has_queued(&self) -> bool {
            !self.sequencer.is_empty()
        }

        fn looks(&self) -> u32 {
            self.looks
        }
    }

    /// One thread drives a commit, another waits for it, a third commits after it and waits: all get
    /// there. loom finds it if one sleeps for ever.
    fn check_that_everybody_is_woken(looks: u32) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(4);
        model.check(move || {
            let log = Arc::new(Log {
                sequencer: Sequencer::new(Version::ZERO),
                free: Mutex::new(Spare::default()),
                visible: AtomicU64::new(0),
                looks,
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

    #[test]
    fn loom_everybody_who_sleeps_is_woken() {
        check_that_everybody_is_woken(0);
    }

    #[test]
    fn loom_everybody_who_looks_and_sleeps_is_woken() {
        check_that_everybody_is_woken(1);
    }
}
