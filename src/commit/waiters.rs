//! Who waits for a version to become visible: threads and tasks alike, each a waker.
//!
//! Invariant: a waiter that registered before a version was published, or before the log stream
//! was released, is woken after it. So register first, then look, then sleep.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::error::Result;
use crate::sync::{AtomicUsize, Mutex, Ordering, Thread, current, thread_local};
use crate::version::Version;
use crate::wake::wake_each;

/// Identifies a registered waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterKey {
    version: Version,
    number: u64,
}

/// Whether a waiter can drive the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A blocked thread: it can, and does when it wakes and finds the log free.
    Thread,
    /// A task, which must not block.
    Task,
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    role: Role,
}

/// The waiters of a database, by the version they wait for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    state: Mutex<State>,
    /// Threads that look for the log to be free before they register.
    looking: AtomicUsize,
}

/// A thread that looks, until dropped.
#[derive(Debug)]
pub(crate) struct Looking<'a>(&'a AtomicUsize);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Tasks that are woken when this is dropped, each even if another's waker panics. To be dropped without the
/// log: a waker, and what it is the last to hold, is the caller's code, which may come back here.
#[must_use = "they are woken when it is dropped"]
#[derive(Debug, Default)]
pub(crate) struct Woken(Vec<Waker>);

impl Woken {
    /// These and those.
    pub(crate) fn and(mut self, mut those: Self) -> Self {
        self.0.append(&mut those.0);
        self
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        wake_each(std::mem::take(&mut self.0));
    }
}

#[derive(Debug, Default)]
struct State {
    next_number: u64,
    waiting: BTreeMap<WaiterKey, Waiter>,
}

impl Waiters {
    pub(crate) fn register(&self, version: Version, waker: Waker, role: Role) -> WaiterKey {
        let mut state = self.state.lock();
        state.next_number += 1;
        let key = WaiterKey { version, number: state.next_number };
        state.waiting.insert(key, Waiter { waker, role });
        key
    }

    pub(crate) fn look(&self) -> Looking<'_> {
        self.looking.fetch_add(1, Ordering::AcqRel);
        Looking(&self.looking)
    }

    /// Whether a thread looks that began before. Not a load: who ends to look after this one sees
    /// what happened before it, such as the log being released.
    pub(crate) fn is_somebody_looking(&self) -> bool {
        self.looking.fetch_add(0, Ordering::AcqRel) > 0
    }

    /// Polls for a task, whose place is `waiter`: it is registered before the look, so what makes it ready
    /// right after wakes it.
    pub(crate) fn poll(
        &self,
        version: Version,
        waiter: &mut Option<WaiterKey>,
        context: &Context<'_>,
        is_ready: impl FnOnce() -> Result<bool>,
    ) -> Poll<Result<()>> {
        if let Some(key) = waiter.take() {
            self.deregister(key);
        }
        let key = self.register(version, context.waker().clone(), Role::Task);
        match is_ready() {
            Ok(false) => {
                *waiter = Some(key);
                Poll::Pending
            }
            ready => {
                self.deregister(key);
                Poll::Ready(ready.map(drop))
            }
        }
    }

    /// Says whether the waiter was still there: it was not woken with all up to its version, but
    /// may have been to drive.
    pub(crate) fn deregister(&self, key: WaiterKey) -> bool {
        let waiter = self.state.lock().waiting.remove(&key);
        // Dropped without the lock: a task's waker is its own code, which may come back here.
        waiter.is_some()
    }

    /// Wakes everybody who waits for a version up to this one: threads at once, so that they come back with
    /// what the next group is to have before the log is released; tasks when what this gives is dropped.
    pub(crate) fn wake_through(&self, visible: Version) -> Woken {
        let woken = {
            let mut state = self.state.lock();
            let rest = state.waiting.split_off(&WaiterKey { version: visible.next(), number: 0 });
            std::mem::replace(&mut state.waiting, rest)
        };
        let mut tasks = Vec::new();
        for Waiter { waker, role } in woken.into_values() {
            match role {
                Role::Thread => waker.wake(),
                Role::Task => tasks.push(waker),
            }
        }
        Woken(tasks)
    }

    /// Wakes the first waiting thread, to drive the log; says whether there is one.
    pub(crate) fn wake_a_driver(&self) -> bool {
        let waker = {
            let state = self.state.lock();
            let first = state.waiting.values().find(|waiter| waiter.role == Role::Thread);
            first.map(|waiter| waiter.waker.clone())
        };
        waker.map(Waker::wake).is_some()
    }
}

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// The waker of this thread, made once: waiting allocates nothing, but where the thread ends and has dropped it.
pub(crate) fn thread_waker() -> Waker {
    fn new() -> Waker {
        Waker::from(Arc::new(Unpark(current())))
    }
    thread_local! {
        static WAKER: Waker = new();
    }
    WAKER.try_with(Waker::clone).unwrap_or_else(|_| new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    #[cfg(not(loom))]
    fn a_waker_is_dropped_without_the_lock() {
        struct Caller(Arc<Waiters>);
        impl Wake for Caller {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Caller {
            fn drop(&mut self) {
                assert!(self.0.state.try_lock().is_some());
            }
        }
        let waiters = Arc::new(Waiters::default());
        let waker = Waker::from(Arc::new(Caller(Arc::clone(&waiters))));
        let key = waiters.register(Version::from_ticks(1), waker, Role::Task);
        assert!(waiters.deregister(key));
        assert_eq!(Arc::strong_count(&waiters), 1, "it was dropped");
    }

    #[test]
    fn only_waiters_up_to_the_version_are_woken() {
        let waiters = Waiters::default();
        let counts: Vec<_> = (0..4).map(|_| Arc::new(Count::default())).collect();
        for (i, count) in counts.iter().enumerate() {
            let version = Version::from_ticks(i as u64);
            waiters.register(version, Waker::from(Arc::clone(count)), Role::Task);
        }
        drop(waiters.wake_through(Version::from_ticks(1)));
        let woken: Vec<_> = counts.iter().map(|c| c.0.load(Ordering::SeqCst)).collect();
        assert_eq!(woken, [1, 1, 0, 0]);
        assert!(!waiters.wake_a_driver(), "tasks cannot drive");
        let waker = Waker::from(Arc::clone(&counts[3]));
        let key = waiters.register(Version::from_ticks(9), waker, Role::Thread);
        assert!(waiters.wake_a_driver());
        waiters.deregister(key);
        assert!(!waiters.wake_a_driver());
    }
}
