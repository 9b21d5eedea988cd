//! [`Task`]: reads that run on the database's reader threads, to wait for or to await.
//!
//! Invariant: the work is taken out of its place under the lock, so it runs once at most, wherever
//! that is; and whoever ends it (by running it, or by dropping the job unrun) leaves an outcome
//! there and wakes the waiter that registered under the same lock. So no waiter is forgotten.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::commit::thread_waker;
use crate::env::{JobClass, Jobs};
use crate::error::{Error, Result};
use crate::wake::wake_each;

/// Reads on their way: [`wait`](Task::wait) blocks the thread, `.await` does not need one. See
/// [`Database::run`](crate::Database::run).
///
/// Polled again after its outcome was taken it gives [`Error::InvalidArgument`]. Dropping it gives up the
/// reads: if they have not begun they never will, else they run to their end and what they made is dropped.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.insert("de", "karl", "born 1854").wait()?;
/// // Several reads, on a thread that may wait for a disk. `.await` does as well.
/// let task = database.run(move || Ok((table.get("de", "karl")?, table.estimate()?.entries)));
/// let (karl, entries) = task.wait()?;
/// assert!(karl.is_some() && entries == 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped before it began, it never runs"]
pub struct Task<T> {
    shared: Arc<Shared<T>>,
}

type Work<T> = Box<dyn FnOnce() -> Result<T> + Send>;

struct Shared<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    /// Not begun.
    Queued(Work<T>, Option<Waker>),
    Running(Option<Waker>),
    Ended(Outcome<T>),
    /// The outcome was taken, or the work was given up.
    Gone,
}

enum Outcome<T> {
    Returned(Result<T>),
    Panicked(Box<dyn Any + Send>),
}

impl<T> Outcome<T> {
    /// What the caller gets of it: the work's panic is the caller's.
    fn get(self) -> Result<T> {
        match self {
            Self::Returned(result) => result,
            Self::Panicked(panic) => resume_unwind(panic),
        }
    }
}

impl<T: Send + 'static> Task<T> {
    /// Queues the work with the jobs of a database.
    pub(super) fn spawn(
        jobs: &dyn Jobs,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Self {
        let state = Mutex::new(State::Queued(Box::new(work), None));
        let shared = Arc::new(Shared { state });
        let job = Job(Arc::clone(&shared));
        jobs.spawn_after(JobClass::Read, Duration::ZERO, Box::new(move || job.run()));
        Self { shared }
    }

    /// Blocks until the work is done, which it does itself if no reader thread has begun it.
    ///
    /// # Errors
    /// What the work returned; [`Error::Closed`] if the database was closed before it began.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn wait(self) -> Result<T> {
        self.shared.run();
        loop {
            if let Some(outcome) = self.shared.take(&thread_waker()) {
                return outcome.get();
            }
            thread::park();
        }
    }
}

impl<T> Shared<T> {
    /// Does the work, unless it was begun or given up.
    fn run(&self) {
        let Some(work) = self.begin() else { return };
        let outcome = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => Outcome::Returned(result),
            Err(panic) => Outcome::Panicked(panic),
        };
        self.end(outcome);
    }

    /// Takes the work: who has it must run it or drop it, and then say how it ended.
    fn begin(&self) -> Option<Work<T>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Queued(work, waker) => {
                *state = State::Running(waker);
                Some(work)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// Leaves the outcome and wakes who waits for it.
    fn end(&self, outcome: Outcome<T>) {
        let mut state = self.state.lock();
        if let State::Running(waker) = std::mem::replace(&mut *state, State::Ended(outcome)) {
            drop(state);
            wake_each(waker);
        }
    }

    /// The outcome, if it is there; else the waker is woken once it is.
    fn take(&self, waker: &Waker) -> Option<Outcome<T>> {
        // Wakers are cloned before the lock is taken, and dropped when it is let go, after the guard: they may own the
        // last handle on the database.
        let mut waker = Some(waker.clone());
        let mut state = self.state.lock();
        match &mut *state {
            State::Queued(_, waiting) | State::Running(waiting) => {
                std::mem::swap(waiting, &mut waker);
                None
            }
            State::Ended(_) | State::Gone => match std::mem::replace(&mut *state, State::Gone) {
                State::Ended(outcome) => Some(outcome),
                _ => Some(Outcome::Returned(Err(taken()))),
            },
        }
    }
}

fn taken() -> Error {
    Error::InvalidArgument("the outcome of this task was taken already".into())
}

/// The work's place in the queue.
struct Job<T>(Arc<Shared<T>>);

thread_local! {
    /// Whether this thread runs a job.
    static RUNS_JOB: Cell<bool> = const { Cell::new(false) };
}

impl<T> Job<T> {
    fn run(self) {
        let before = RUNS_JOB.replace(true);
        self.0.run();
        RUNS_JOB.set(before);
    }
}

impl<T> Drop for Job<T> {
    /// A queue drops its jobs when the database closes.
    fn drop(&mut self) {
        if let Some(work) = self.0.begin() {
            // Without the lock: what it owns may be the last handle of the database.
            drop(work);
            self.0.end(Outcome::Returned(Err(Error::Closed)));
        }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        // Work that blocks on other work would keep it from a thread, if all of them do so.
        if RUNS_JOB.get() {
            self.shared.run();
        }
        self.shared
            .take(context.waker())
            .map_or(Poll::Pending, |outcome| Poll::Ready(outcome.get()))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let given_up = match &*state {
            State::Running(_) => return,
            _ => std::mem::replace(&mut *state, State::Gone),
        };
        drop(state);
        drop(given_up);
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.shared.state.lock() {
            State::Queued(..) => "queued",
            State::Running(_) => "running",
            State::Ended(_) => "ended",
            State::Gone => "gone",
        };
        f.debug_struct("Task").field("state", &state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::env::{Env, RealEnv, SimEnv};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll<T>(task: &mut Task<T>, waker: &Arc<Count>) -> Poll<Result<T>> {
        let waker = Waker::from(Arc::clone(waker));
        Pin::new(task).poll(&mut Context::from_waker(&waker))
    }

    /// Waits as a task does, never running the work itself.
    fn block_on<T>(mut task: Task<T>) -> Result<T> {
        let waker = thread_waker();
        loop {
            match Pin::new(&mut task).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// A machine whose jobs run when it is stepped.
    fn stepped() -> (SimEnv, Arc<dyn Jobs>) {
        let env = SimEnv::new(1);
        let jobs = env.start_jobs(1).unwrap();
        (env, jobs)
    }

    #[test]
    fn the_waker_of_the_last_poll_is_woken_when_the_work_is_done() {
        let (env, jobs) = stepped();
        let mut task = Task::spawn(&*jobs, || Ok(7));
        let (first, last) = (Arc::default(), Arc::default());
        assert!(poll(&mut task, &first).is_pending());
        assert!(poll(&mut task, &last).is_pending());
        assert!(env.step());
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
        assert!(matches!(poll(&mut task, &last), Poll::Ready(Ok(7))));
        let again = poll(&mut task, &last);
        assert!(matches!(again, Poll::Ready(Err(Error::InvalidArgument(_)))), "{again:?}");
    }

    #[test]
    fn waiting_for_work_that_was_not_begun_does_it() {
        let (env, jobs) = stepped();
        let here = thread::current().id();
        let task = Task::spawn(&*jobs, move || Ok(thread::current().id() == here));
        assert!(task.wait().unwrap());
        assert!(env.step(), "its place in the queue is left");
    }

    /// As all threads may block on what has not begun.
    #[test]
    fn work_that_polls_work_does_it() {
        let (env, jobs) = stepped();
        let inner = Arc::clone(&jobs);
        let task = Task::spawn(&*jobs, move || {
            let mut within = Task::spawn(&*inner, || Ok(7));
            Ok(matches!(poll(&mut within, &Arc::default()), Poll::Ready(Ok(7))))
        });
        assert!(env.step());
        assert!(task.wait().unwrap());
        assert!(poll(&mut Task::spawn(&*jobs, || Ok(7)), &Arc::default()).is_pending());
    }

    #[test]
    fn dropped_work_does_not_begin_and_lets_go_of_what_it_owns() {
        let (env, jobs) = stepped();
        let owned = Arc::new(());
        let held: Weak<()> = Arc::downgrade(&owned);
        let task = Task::<()>::spawn(&*jobs, move || panic!("{owned:?} was given up"));
        drop(task);
        assert_eq!(held.strong_count(), 0);
        assert!(env.step());
    }

    #[test]
    fn a_panic_is_the_waiters() {
        let (env, jobs) = stepped();
        let spawn = || Task::<()>::spawn(&*jobs, || panic!("in the work"));
        let (awaited, waited) = (spawn(), spawn());
        while env.step() {}
        let unbegun = spawn();
        let awaited = catch_unwind(AssertUnwindSafe(|| block_on(awaited)));
        let waited = catch_unwind(AssertUnwindSafe(|| waited.wait()));
        let unbegun = catch_unwind(AssertUnwindSafe(|| unbegun.wait()));
        for panic in [awaited, waited, unbegun].map(Result::unwrap_err) {
            assert_eq!(panic.downcast_ref(), Some(&"in the work"));
        }
    }

    #[test]
    fn a_queue_that_stops_ends_what_was_not_begun() {
        let (_env, jobs) = stepped();
        let mut task = Task::spawn(&*jobs, || Ok(7));
        let waker = Arc::default();
        assert!(poll(&mut task, &waker).is_pending());
        jobs.stop();
        assert_eq!(waker.0.load(Ordering::SeqCst), 1);
        assert!(matches!(poll(&mut task, &waker), Poll::Ready(Err(Error::Closed))));
        let late = Task::spawn(&*jobs, || Ok(7));
        assert!(matches!(late.wait(), Err(Error::Closed)));
    }

    /// A waker may own what closes the database when it is dropped.
    #[test]
    fn a_waker_is_dropped_without_the_lock() {
        struct Caller(Arc<Shared<i32>>);
        impl Wake for Caller {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Caller {
            fn drop(&mut self) {
                assert!(self.0.state.try_lock().is_some());
            }
        }
        let (env, jobs) = stepped();
        let mut task = Task::spawn(&*jobs, || Ok(7));
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(Caller(Arc::clone(&task.shared))));
            let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        while env.step() {}
        assert!(matches!(poll(&mut task, &Arc::default()), Poll::Ready(Ok(7))));
        assert_eq!(Arc::strong_count(&task.shared), 1, "all were dropped");
    }

    #[test]
    fn a_waker_that_panics_keeps_no_queue_from_stopping() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("in the waker");
            }
        }
        let (_env, jobs) = stepped();
        let (mut first, mut second) =
            (Task::spawn(&*jobs, || Ok(1)), Task::spawn(&*jobs, || Ok(2)));
        let waker = Waker::from(Arc::new(Panics));
        assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
        jobs.stop();
        for task in [&mut first, &mut second] {
            assert!(matches!(poll(task, &Arc::default()), Poll::Ready(Err(Error::Closed))));
        }
    }

    /// Work that waits for work needs no thread but its own, however many do so at once.
    #[test]
    fn work_may_wait_for_work() {
        let jobs = RealEnv::new().start_jobs(1).unwrap();
        let tasks: Vec<_> = (0..200u64)
            .map(|n| {
                let inner = Arc::clone(&jobs);
                Task::spawn(&*jobs, move || {
                    Task::spawn(&*inner, move || Ok(n)).wait().map(|n| n + 1)
                })
            })
            .collect();
        let sum: u64 = tasks.into_iter().map(|task| block_on(task).unwrap()).sum();
        assert_eq!(sum, (1..=200).sum::<u64>());
        jobs.stop();
    }

    /// Whoever waits is woken, however waiting, running and giving up fall together.
    #[test]
    fn no_waiter_is_forgotten() {
        let jobs = RealEnv::new().start_jobs(1).unwrap();
        thread::scope(|scope| {
            for mode in 0..4u64 {
                let jobs = &jobs;
                scope.spawn(move || {
                    for n in 0..500u64 {
                        let task = Task::spawn(&**jobs, move || Ok(n));
                        let kept = Task::spawn(&**jobs, move || Ok(n));
                        match mode {
                            0 => assert_eq!(block_on(task).unwrap(), n),
                            1 => assert_eq!(task.wait().unwrap(), n),
                            _ => drop(task),
                        }
                        assert_eq!(block_on(kept).unwrap(), n);
                    }
                });
            }
        });
        jobs.stop();
    }
}
