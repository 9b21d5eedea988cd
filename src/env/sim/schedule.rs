//! [`Schedule`]: simulated time, and the background jobs that wait for it and for being stepped.
//!
//! A job runs on the thread that steps, without any lock held. Jobs that are due run by class,
//! then in the order they were queued.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::env::{Clock, Job, JobClass, Jobs};
use crate::version::Version;

/// 2026-01-01T00:00:00Z, so that the Timestamps of a test look like some.
const START: Version = Version::from_ticks(134_116_992_000_000_000);
const NANOS_PER_TICK: u128 = 100;

#[derive(Clone, Debug)]
pub(super) struct Schedule(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    job_ended: Condvar,
}

#[derive(Debug)]
struct State {
    now: Version,
    monotonic: Duration,
    queued: Vec<SimJob>,
    queued_ever: u64,
    owners_ever: u64,
    /// Those that were neither stopped nor ended by a crash.
    owners: Vec<Owner>,
    running: Vec<(Owner, ThreadId)>,
}

/// One call of `start_jobs`: the jobs of one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(u64);

struct SimJob {
    owner: Owner,
    class: JobClass,
    due: Duration,
    sequence: u64,
    job: Job,
}

impl fmt::Debug for SimJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} job {} due at {:?}", self.class, self.sequence, self.due)
    }
}

impl Schedule {
    pub(super) fn new() -> Self {
        let state = Mutex::new(State {
            now: START,
            monotonic: Duration::ZERO,
            queued: Vec::new(),
            queued_ever: 0,
            owners_ever: 0,
            owners: Vec::new(),
            running: Vec::new(),
        });
        Self(Arc::new(Shared { state, job_ended: Condvar::new() }))
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SimClock(self.clone()))
    }

    pub(super) fn jobs(&self) -> Arc<dyn Jobs> {
        let mut state = self.0.state.lock();
        state.owners_ever += 1;
        let owner = Owner(state.owners_ever);
        state.owners.push(owner);
        Arc::new(SimJobs { schedule: self.clone(), owner })
    }

    pub(super) fn set_now(&self, now: Version) {
        self.0.state.lock().now = now;
    }

    pub(super) fn advance(&self, by: Duration) {
        let mut state = self.0.state.lock();
        let ticks = u64::try_from(by.as_nanos() / NANOS_PER_TICK).unwrap_or(u64::MAX);
        state.now = Version::from_ticks(state.now.ticks().saturating_add(ticks));
        state.monotonic = state.monotonic.saturating_add(by);
    }

    /// Runs the next job that is due, of any owner.
    pub(super) fn step(&self) -> bool {
        let job = self.0.state.lock().take_due(None);
        job.map(|job| self.run(job)).is_some()
    }

    /// Runs the next job of that owner that is due; if there is none, waits until one ends that
    /// another thread runs, which may queue more. Says whether there was either.
    fn assist(&self, owner: Owner) -> bool {
        let mut state = self.0.state.lock();
        if let Some(job) = state.take_due(Some(owner)) {
            drop(state);
            self.run(job);
            return true;
        }
        let runs = state.runs_elsewhere(owner);
        if runs {
            self.0.job_ended.wait(&mut state);
        }
        runs
    }

    fn run(&self, job: SimJob) {
        // Also when the job panics, which the test that steps should see.
        let _ended = Running { schedule: self, owner: job.owner };
        (job.job)();
    }

    /// What a crash does: no job runs any more, and none can be queued by handles from before.
    pub(super) fn drop_jobs(&self) {
        let mut state = self.0.state.lock();
        state.owners.clear();
        let dropped = std::mem::take(&mut state.queued);
        // What jobs own may use the schedule when dropped.
        drop(state);
        drop(dropped);
    }

    fn queue(&self, owner: Owner, class: JobClass, delay: Duration, job: Job) {
        let mut state = self.0.state.lock();
        if !state.owners.contains(&owner) {
            drop(state);
            drop(job);
            return;
        }
        state.queued_ever += 1;
        let (sequence, due) = (state.queued_ever, state.monotonic.saturating_add(delay));
        state.queued.push(SimJob { owner, class, due, sequence, job });
    }

    fn stop(&self, owner: Owner) {
        let mut state = self.0.state.lock();
        state.owners.retain(|other| *other != owner);
        let queued = std::mem::take(&mut state.queued);
        let (dropped, kept) = queued.into_iter().partition::<Vec<_>, _>(|job| job.owner == owner);
        state.queued = kept;
        drop(state);
        drop(dropped);
        let mut state = self.0.state.lock();
        while state.runs_elsewhere(owner) {
            self.0.job_ended.wait(&mut state);
        }
    }
}

impl State {
    fn take_due(&mut self, owner: Option<Owner>) -> Option<SimJob> {
        let wanted = |job: &SimJob| {
            job.due <= self.monotonic && owner.is_none_or(|owner| owner == job.owner)
        };
        let due = self.queued.iter().enumerate().filter(|(_, job)| wanted(job));
        let (index, _) = due.min_by_key(|(_, job)| (job.class, job.sequence))?;
        let job = self.queued.remove(index);
        self.running.push((job.owner, thread::current().id()));
        Some(job)
    }

    /// Whether a thread other than this one runs a job of that owner.
    fn runs_elsewhere(&self, owner: Owner) -> bool {
        let this_thread = thread::current().id();
        self.running.iter().any(|(who, at)| *who == owner && *at != this_thread)
    }
}

/// Says that a job ended, when dropped.
struct Running<'a> {
    schedule: &'a Schedule,
    owner: Owner,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let this = (self.owner, thread::current().id());
        let mut state = self.schedule.0.state.lock();
        if let Some(index) = state.running.iter().rposition(|running| *running == this) {
            state.running.swap_remove(index);
        }
        drop(state);
        self.schedule.0.job_ended.notify_all();
    }
}

#[derive(Debug)]
struct SimClock(Schedule);

impl Clock for SimClock {
    fn now(&self) -> Version {
        self.0.0.state.lock().now
    }

    fn monotonic(&self) -> Duration {
        self.0.0.state.lock().monotonic
    }
}

#[derive(Debug)]
struct SimJobs {
    schedule: Schedule,
    owner: Owner,
}

impl Jobs for SimJobs {
    fn spawn_after(&self, class: JobClass, delay: Duration, job: Job) {
        self.schedule.queue(self.owner, class, delay, job);
    }

    fn assist(&self) -> bool {
        self.schedule.assist(self.owner)
    }

    fn stepped(&self) -> bool {
        true
    }

    fn stop(&self) {
        self.schedule.stop(self.owner);
    }
}
