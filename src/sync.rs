//! Atomics, locks and parking of the code that is model-checked: the usual ones, or loom's under
//! `cfg(loom)`.

#[cfg(loom)]
pub(crate) use arc_swaps::ArcSwap;
#[cfg(loom)]
pub(crate) use loom::hint::spin_loop;
#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(loom)]
pub(crate) use loom::thread_local;
#[cfg(loom)]
pub(crate) use parking::{Thread, current, park};

#[cfg(not(loom))]
pub(crate) use arc_swap::ArcSwap;
#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
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

/// `ArcSwap`, as weak as it could be: a load acquires what the store of its value released, and may be of any value
/// that is not yet known to be replaced. Values stay until it is dropped.
#[cfg(loom)]
mod arc_swaps {
    use std::sync::Arc;

    use arc_swap::Guard;

    use super::{AtomicUsize, Ordering};

    pub(crate) struct ArcSwap<T> {
        /// Which of the values it is.
        current: AtomicUsize,
        // Not loom's, whose lock would order what readers do.
        values: std::sync::Mutex<Vec<Arc<T>>>,
    }

    impl<T> ArcSwap<T> {
        pub(crate) fn from_pointee(value: T) -> Self {
            let values = std::sync::Mutex::new(vec![Arc::new(value)]);
            Self { current: AtomicUsize::new(0), values }
        }

        fn add(&self, value: Arc<T>) -> usize {
            let mut values = self.values.lock().unwrap();
            values.push(value);
            values.len() - 1
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            let current = self.current.load(Ordering::Acquire);
            Arc::clone(&self.values.lock().unwrap()[current])
        }

        pub(crate) fn load(&self) -> Guard<Arc<T>> {
            Guard::from_inner(self.load_full())
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            self.current.swap(self.add(value), Ordering::AcqRel);
        }

        pub(crate) fn rcu(&self, mut change: impl FnMut(&Arc<T>) -> Arc<T>) {
            let mut current = self.current.load(Ordering::Acquire);
            loop {
                let value = Arc::clone(&self.values.lock().unwrap()[current]);
                let next = self.add(change(&value));
                let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                match self.current.compare_exchange(current, next, success, failure) {
                    Ok(_) => return,
                    Err(found) => current = found,
                }
            }
        }
    }

    impl<T: Default> Default for ArcSwap<T> {
        fn default() -> Self {
            Self::from_pointee(T::default())
        }
    }
}
