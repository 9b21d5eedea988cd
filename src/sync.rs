//! Atomics, locks and parking of the code that is model-checked: the usual ones, or loom's under
//! `cfg(loom)`.

#[cfg(loom)]
pub(crate) use loom::hint::spin_loop;
#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(loom)]
pub(crate) use loom::thread_local;
#[cfg(loom)]
pub(crate) use parking::{Thread, current, park};

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(crate) use std::thread::{Thread, current, park, yield_now};
#[cfg(not(loom))]
pub(crate) use std::thread_local;

/// loom's mutex in the form of `parking_lot`'s.
#[cfg(loom)]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Parking by loom's mutex and condition variable: loom's own forgets that a thread was unparked if
/// it was waiting for a mutex meanwhile.
#[cfg(loom)]
mod parking {
    // Not loom's, whose drop is a step of the model: thread locals are dropped in random order.
    use std::sync::Arc;

    use loom::sync::{Condvar, Mutex};

    #[derive(Clone, Debug)]
    pub(crate) struct Thread(Arc<(Mutex<bool>, Condvar)>);

    loom::thread_local! {
        static CURRENT: Thread = Thread(Arc::new((Mutex::new(false), Condvar::new())));
    }

    pub(crate) fn current() -> Thread {
        CURRENT.with(Thread::clone)
    }

    pub(crate) fn park() {
        let (unparked, changed) = &*current().0;
        let mut unparked = unparked.lock().unwrap();
        while !std::mem::take(&mut *unparked) {
            unparked = changed.wait(unparked).unwrap();
        }
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            let (unparked, changed) = &*self.0;
            *unparked.lock().unwrap() = true;
            changed.notify_one();
        }
    }
}
