//! [`Deferred`]: work that another thread does, or whoever needs its result.
//!
//! Invariant: nobody waits for a thread to be free. Work that no thread has begun when its result
//! is needed is done by who needs it, so queueing it is never slower than doing it by much, and
//! cannot deadlock. Where no thread helps ([`Jobs::helpers`] is 0) it is done at once, in place.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{JobClass, Jobs};

/// Work under way, or its result. Dropped, it is not begun any more.
pub(crate) struct Deferred<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

enum State<T> {
    Waiting(Box<dyn FnOnce() -> T + Send>),
    Running,
    Done(T),
    /// It panicked, or nobody wants it.
    Gone,
}

impl<T> Deferred<T> {
    /// What is done already.
    pub(crate) fn done(result: T) -> Self {
        Self::in_state(State::Done(result))
    }

    fn in_state(state: State<T>) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(state), ended: Condvar::new() }))
    }
}

impl<T: Send + 'static> Deferred<T> {
    /// Leaves work to a thread that helps, if there is any.
    pub(crate) fn new(jobs: &dyn Jobs, work: impl FnOnce() -> T + Send + 'static) -> Self {
        if jobs.helpers() == 0 {
            return Self::done(work());
        }
        let deferred = Self::in_state(State::Waiting(Box::new(work)));
        let shared = Arc::clone(&deferred.0);
        let job = Box::new(move || {
            shared.work_if_waiting();
        });
        jobs.spawn_after(JobClass::Help, Duration::ZERO, job);
        deferred
    }

    /// Does the work here if nobody has begun it, and says so.
    pub(crate) fn help(&self) -> bool {
        self.0.work_if_waiting()
    }

    fn is_running(&self) -> bool {
        matches!(*self.0.state.lock(), State::Running)
    }

    /// The result, once there is one; `None` if the work panicked on another thread.
    pub(crate) fn finish(self) -> Option<T> {
        self.0.work_if_waiting();
        let mut state = self.0.state.lock();
        while matches!(*state, State::Running) {
            self.0.ended.wait(&mut state);
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::Done(result) => Some(result),
            _ => None,
        }
    }
}

impl<T> Shared<T> {
    fn work_if_waiting(&self) -> bool {
        let mut state = self.state.lock();
        let work = match std::mem::replace(&mut *state, State::Running) {
            State::Waiting(work) => work,
            other => {
                *state = other;
                return false;
            }
        };
        drop(state);
        let mut end = End { shared: self, result: None };
        end.result = Some(work());
        true
    }
}

/// Says that the work ended, however it did.
struct End<'a, T> {
    shared: &'a Shared<T>,
    result: Option<T>,
}

impl<T> Drop for End<'_, T> {
    fn drop(&mut self) {
        *self.shared.state.lock() = self.result.take().map_or(State::Gone, State::Done);
        self.shared.ended.notify_all();
    }
}

impl<T> Drop for Deferred<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Waiting(_)) {
            let work = std::mem::replace(&mut *state, State::Gone);
            drop(state);
            drop(work);
        }
    }
}

impl<T> fmt::Debug for Deferred<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deferred")
    }
}

/// Work of one kind, whose results are asked for in the order in which it was queued.
#[derive(Debug)]
pub(crate) struct InOrder<T>(VecDeque<Deferred<T>>);

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Send + 'static> InOrder<T> {
    /// Queues work behind the others.
    pub(crate) fn push(&mut self, work: Deferred<T>) {
        self.0.push_back(work);
    }

    /// How many results were not asked for.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The result of the oldest, if there is any; in it, `None` if it panicked on another thread.
    pub(crate) fn pop(&mut self) -> Option<Option<T>> {
        let oldest = self.0.pop_front()?;
        if oldest.is_running() {
            // Instead of only waiting.
            self.0.iter().any(Deferred::help);
        }
        Some(oldest.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::env::Job;

    const LONG: Duration = Duration::from_secs(120);

    /// Keeps jobs until the test runs them.
    #[derive(Default)]
    struct Queue(Mutex<Vec<Job>>);

    impl fmt::Debug for Queue {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Queue")
        }
    }

    impl Jobs for Queue {
        fn spawn_after(&self, class: JobClass, _delay: Duration, job: Job) {
            assert_eq!(class, JobClass::Help);
            self.0.lock().push(job);
        }

        fn helpers(&self) -> usize {
            1
        }

        fn assist(&self) -> bool {
            false
        }

        fn stepped(&self) -> bool {
            false
        }

        fn stop(&self) {}
    }

    fn run(queue: &Queue) {
        let jobs = std::mem::take(&mut *queue.0.lock());
        jobs.into_iter().for_each(|job| job());
    }

    #[test]
    fn work_that_nobody_began_is_done_by_who_needs_it_and_only_once() {
        let queue = Queue::default();
        let (sender, receiver) = mpsc::channel();
        let work = move || sender.send(thread::current().id()).unwrap();
        let deferred = Deferred::new(&queue, work);
        assert!(receiver.try_recv().is_err(), "it was left to a thread");
        assert_eq!(deferred.finish(), Some(()));
        assert_eq!(receiver.try_recv().unwrap(), thread::current().id());
        run(&queue);
        assert!(receiver.try_recv().is_err());

        let deferred = Deferred::new(&queue, || 7);
        assert!(deferred.help());
        assert!(!deferred.help());
        assert_eq!(deferred.finish(), Some(7));
    }

    #[test]
    fn who_needs_the_result_waits_for_a_thread_that_has_begun() {
        let queue = Queue::default();
        let (begun, wait_begun) = mpsc::channel();
        let (release, wait_release) = mpsc::channel::<()>();
        let deferred = Deferred::new(&queue, move || {
            begun.send(()).unwrap();
            let _ = wait_release.recv_timeout(LONG);
            thread::sleep(Duration::from_millis(20));
            7
        });
        thread::scope(|scope| {
            scope.spawn(|| run(&queue));
            wait_begun.recv_timeout(LONG).unwrap();
            assert!(!deferred.help(), "somebody else does it");
            drop(release);
            assert_eq!(deferred.finish(), Some(7));
        });
    }

    #[test]
    fn who_waits_for_the_oldest_does_another_meanwhile() {
        let queue = Queue::default();
        let (begun, wait_begun) = mpsc::channel();
        let (release, wait_release) = mpsc::channel();
        let mut results = InOrder::default();
        results.push(Deferred::new(&queue, move || {
            begun.send(()).unwrap();
            // Ends once the other has run, which the thread that runs this does not do.
            wait_release.recv_timeout(LONG).is_ok()
        }));
        let first = queue.0.lock().pop().unwrap();
        results.push(Deferred::new(&queue, move || release.send(()).is_ok()));
        thread::scope(|scope| {
            scope.spawn(first);
            wait_begun.recv_timeout(LONG).unwrap();
            assert_eq!((results.pop(), results.pop()), (Some(Some(true)), Some(Some(true))));
            assert_eq!((results.pop(), results.len()), (None, 0));
        });
    }

    #[test]
    fn a_panic_on_another_thread_leaves_no_result_and_nobody_waiting() {
        let queue = Queue::default();
        let deferred = Deferred::<u8>::new(&queue, || panic!("as the test wants"));
        let jobs = std::mem::take(&mut *queue.0.lock());
        for job in jobs {
            assert!(thread::spawn(job).join().is_err());
        }
        assert_eq!(deferred.finish(), None);
    }

    #[test]
    fn what_nobody_wants_is_not_begun_and_what_it_holds_is_released() {
        let queue = Queue::default();
        let held = Arc::new(());
        let other = Arc::clone(&held);
        drop(Deferred::new(&queue, move || drop(other)));
        assert_eq!(Arc::strong_count(&held), 1);
        run(&queue);
    }
}
