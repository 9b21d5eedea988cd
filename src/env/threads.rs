//! [`Threads`]: background jobs on threads, one queue and its own threads for each [`JobClass`].
//!
//! Each queue but the helpers' has a thread from the start, so that no job waits for one that the
//! machine refuses; more start with the first jobs that need them. What helpers have not begun is
//! done by who needs it. They end at [`Jobs::stop`]. A queue is ordered
//! by the instant a job is due, then by arrival. Invariant: a queued job has a thread that waits
//! for it or that will look at the queue when its present job ends.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{Job, JobClass, Jobs};

/// Runs jobs on threads of this process.
pub(super) struct Threads {
    log: Arc<Queue>,
    flush: Arc<Queue>,
    segment: Arc<Queue>,
    compaction: Arc<Queue>,
    read: Arc<Queue>,
    help: Arc<Queue>,
}

/// Reads that run at once: more than there are processors, as some wait for the disk.
fn reader_threads(processors: usize) -> usize {
    2 * processors.max(4)
}

/// As many as compact, but for the processor that a load or a compaction has itself.
fn helper_threads(processors: usize, compaction_threads: usize) -> usize {
    compaction_threads.min(processors.saturating_sub(1))
}

struct Queue {
    name: &'static str,
    max_threads: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: BinaryHeap<Reverse<Queued>>,
    queued_ever: u64,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for a job.
    idle: usize,
    stopped: bool,
}

struct Queued {
    due: Instant,
    sequence: u64,
    job: Job,
}

impl Queued {
    const fn rank(&self) -> (Instant, u64) {
        (self.due, self.sequence)
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Threads {
    pub(super) fn start(compaction_threads: usize) -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = Self {
            log: Queue::new("tablestone-log", 1),
            flush: Queue::new("tablestone-flush", 1),
            // A segment is made ready while another is synced, and a second sync waits for that.
            segment: Queue::new("tablestone-segment", 3),
            compaction: Queue::new("tablestone-compaction", compaction_threads.max(1)),
            read: Queue::new("tablestone-read", reader_threads(processors)),
            help: Queue::new("tablestone-help", helper_threads(processors, compaction_threads)),
        };
        let [always @ .., _help] = threads.queues();
        for queue in always {
            queue.start_thread(&mut queue.state.lock())?;
        }
        Ok(threads)
    }

    /// Helpers last: who stops meanwhile may need what they do.
    fn queues(&self) -> [&Arc<Queue>; 6] {
        [&self.read, &self.compaction, &self.flush, &self.segment, &self.log, &self.help]
    }
}

impl Jobs for Threads {
    fn spawn_after(&self, class: JobClass, delay: Duration, job: Job) {
        let queue = match class {
            JobClass::Log => &self.log,
            JobClass::Flush => &self.flush,
            JobClass::Segment => &self.segment,
            JobClass::Compaction => &self.compaction,
            JobClass::Read => &self.read,
            JobClass::Help => &self.help,
        };
        queue.push(delay, job);
    }

    fn helpers(&self) -> usize {
        self.help.max_threads
    }

    fn assist(&self) -> bool {
        false
    }

    fn stepped(&self) -> bool {
        false
    }

    fn give_way(&self) {
        thread::yield_now();
    }

    fn stop(&self) {
        self.queues().into_iter().for_each(|queue| queue.stop());
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Threads")
    }
}

impl Queue {
    fn new(name: &'static str, max_threads: usize) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { name, max_threads, state, changed })
    }

    fn push(self: &Arc<Self>, delay: Duration, job: Job) {
        let now = Instant::now();
        let due = now.checked_add(delay).unwrap_or_else(|| now + Duration::from_secs(1 << 30));
        let mut state = self.state.lock();
        if state.stopped {
            // Whatever the job owns is dropped without the lock: that may queue another job.
            drop(state);
            drop(job);
            return;
        }
        state.queued_ever += 1;
        let sequence = state.queued_ever;
        state.jobs.push(Reverse(Queued { due, sequence, job }));
        if state.jobs.len() > state.idle
            && state.threads.len() < self.max_threads
            && let Err(error) = self.start_thread(&mut state)
        {
            tracing::warn!(%error, thread = self.name, "going on with fewer threads");
        }
        self.changed.notify_one();
    }

    fn start_thread(self: &Arc<Self>, state: &mut QueueState) -> io::Result<()> {
        let queue = Arc::clone(self);
        let named = thread::Builder::new().name(self.name.to_owned());
        state.threads.push(named.spawn(move || queue.work())?);
        Ok(())
    }

    fn work(&self) {
        while let Some(job) = self.next_job() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                let message = panic
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                    .unwrap_or("no message");
                tracing::error!(thread = self.name, message, "a background job panicked");
            }
        }
    }

    /// Waits for a job to be due; `None` once stopped.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            let due = state.jobs.peek().map(|Reverse(next)| next.due);
            match due {
                Some(due) if due <= Instant::now() => {
                    let Reverse(next) = state.jobs.pop()?;
                    // The thread woken for the rest may have been this one.
                    if !state.jobs.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(next.job);
                }
                Some(due) => {
                    state.idle += 1;
                    self.changed.wait_until(&mut state, due);
                    state.idle -= 1;
                }
                None => {
                    state.idle += 1;
                    self.changed.wait(&mut state);
                    state.idle -= 1;
                }
            }
        }
    }

    fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let jobs = std::mem::take(&mut state.jobs);
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.changed.notify_all();
        drop(jobs);
        for thread in threads {
            // A job may hold the last handle of the database; it cannot wait for itself.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!(thread = self.name, "a background thread panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    #[test]
    fn jobs_run_in_order_and_a_panic_does_not_stop_them() {
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        for n in 0..10 {
            let sender = sender.clone();
            let job: Job = Box::new(move || {
                sender.send(n).unwrap();
                assert!(n != 3, "job three fails");
            });
            threads.spawn_after(JobClass::Flush, Duration::ZERO, job);
        }
        for n in 0..10 {
            assert_eq!(receiver.recv_timeout(LONG).unwrap(), n);
        }
        assert!(!threads.assist() && !threads.stepped());
    }

    #[test]
    fn a_class_does_not_wait_for_another_and_compactions_run_in_parallel() {
        let threads = Threads::start(2).unwrap();
        let (arrive, arrived) = mpsc::channel();
        let (release, wait_release) = mpsc::channel::<()>();
        let wait_release = Arc::new(Mutex::new(wait_release));
        for class in [JobClass::Compaction, JobClass::Compaction, JobClass::Log] {
            let (arrive, wait_release) = (arrive.clone(), Arc::clone(&wait_release));
            let job: Job = Box::new(move || {
                arrive.send(()).unwrap();
                let _ = wait_release.lock().recv_timeout(LONG);
            });
            threads.spawn_after(class, Duration::ZERO, job);
        }
        // Each is there before any of them ends.
        (0..3).for_each(|_| arrived.recv_timeout(LONG).unwrap());
        drop(release);
    }

    #[test]
    fn a_timer_runs_when_due_and_a_later_shorter_one_overtakes_it() {
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        for (delay_ms, name) in [(3_600_000, "never"), (40, "second"), (5, "first")] {
            let sender = sender.clone();
            let job: Job = Box::new(move || sender.send(name).unwrap());
            threads.spawn_after(JobClass::Log, Duration::from_millis(delay_ms), job);
        }
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), "first");
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), "second");
        drop(sender);
        threads.stop();
        let stopped = receiver.recv_timeout(LONG);
        assert_eq!(stopped, Err(mpsc::RecvTimeoutError::Disconnected), "the queue is dropped");
    }

    #[test]
    fn stop_waits_for_the_running_job_and_drops_later_ones() {
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let (started, wait_started) = mpsc::channel();
        let late = sender.clone();
        let job: Job = Box::new(move || {
            started.send(()).unwrap();
            thread::sleep(Duration::from_millis(20));
            sender.send("ran").unwrap();
        });
        threads.spawn_after(JobClass::Compaction, Duration::ZERO, job);
        wait_started.recv_timeout(LONG).unwrap();
        threads.stop();
        assert_eq!(receiver.try_recv().unwrap(), "ran");
        let job: Job = Box::new(move || late.send("late").unwrap());
        threads.spawn_after(JobClass::Compaction, Duration::ZERO, job);
        let dropped = receiver.recv_timeout(LONG);
        assert_eq!(dropped, Err(mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn nobody_helps_where_there_is_one_processor() {
        assert_eq!(helper_threads(1, 2), 0);
        assert_eq!((helper_threads(2, 2), helper_threads(16, 2)), (1, 2));
    }

    #[test]
    fn the_last_handle_may_be_dropped_by_a_job() {
        let threads = Arc::new(Threads::start(1).unwrap());
        let (sender, receiver) = mpsc::channel();
        let handle = Arc::clone(&threads);
        let job: Job = Box::new(move || {
            handle.stop();
            sender.send(()).unwrap();
        });
        threads.spawn_after(JobClass::Flush, Duration::ZERO, job);
        receiver.recv_timeout(LONG).unwrap();
    }
}
