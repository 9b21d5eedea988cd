//! The gate in front of the latches: writers wait here while the engine is behind with flushing
//! and compacting, or the disk has no room for them, never longer than the busy timeout (R-E24).
//!
//! Invariant: a write holds no latch and has changed nothing while it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use super::pipeline::Pipeline;
use super::waiters::thread_waker;
use crate::env::JobClass;
use crate::error::{Error, Result};
use crate::levels::{Admission, WaitKey};

/// Longest sleep between two looks at the debt; a wake-up normally comes before.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a write asks for at the gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// About what it takes of memory.
    pub(super) bytes: usize,
    /// About what it takes of the disk, if it is to be refused where there is no room.
    pub(super) room: usize,
}

/// One write's wait for admission.
#[derive(Debug)]
pub(super) struct Gate {
    wanted: Wanted,
    since: Duration,
    /// Since when somebody waits for it.
    waiting_since: Option<Duration>,
    /// Its turn: then it goes, unless writes have stopped altogether.
    not_before: Option<Duration>,
    /// How often debt had fallen when it was last told to wait.
    falls: u64,
    /// Its place among those who are woken when debt falls.
    place: Option<WaitKey>,
    /// The newest timer that was set for it.
    timer: Option<Timer>,
}

/// A timer that wakes who has the place in the list, by the waker that is there by then.
#[derive(Debug)]
struct Timer {
    due: Duration,
    /// Set before it wakes.
    has_fired: Arc<AtomicBool>,
}

enum Step {
    Go,
    /// Look again at this instant at the latest.
    WaitUntil(Duration),
}

impl Gate {
    /// The gate for a write that was told to wait.
    pub(super) fn new(pipeline: &Pipeline, wanted: Wanted, told: &Admission) -> Self {
        let since = pipeline.clock().monotonic();
        let not_before = match told {
            Admission::Wait(delay) => Some(since + *delay),
            Admission::Go => None,
            Admission::Blocked(_) => {
                // The time that the caller takes before it waits counts: nothing may idle in it.
                pipeline.relieve();
                None
            }
        };
        let falls = pipeline.tree().waiters().falls();
        Self { wanted, since, waiting_since: None, not_before, falls, place: None, timer: None }
    }

    fn step(&mut self, pipeline: &Pipeline) -> Result<Step> {
        pipeline.check_writable()?;
        let now = pipeline.clock().monotonic();
        self.waiting_since.get_or_insert(now);
        let falls = pipeline.tree().waiters().falls();
        if let Some(not_before) = self.not_before {
            if now >= not_before {
                return match pipeline.tree().stopped_by() {
                    None => Ok(Step::Go),
                    Some(reason) => self.blocked(pipeline, now, reason),
                };
            }
            if falls == self.falls {
                return self.turn(pipeline, now, not_before);
            }
        }
        self.falls = falls;
        match pipeline.admit(self.wanted) {
            Admission::Go => Ok(Step::Go),
            Admission::Wait(delay) => {
                // Nobody waits longer for having asked again.
                let turn = (now + delay).min(self.not_before.unwrap_or(Duration::MAX));
                self.not_before = Some(turn);
                self.turn(pipeline, now, turn)
            }
            Admission::Blocked(reason) => {
                self.not_before = None;
                self.blocked(pipeline, now, reason)
            }
        }
    }

    /// Waits for its turn, if that comes within the timeout.
    fn turn(&self, pipeline: &Pipeline, now: Duration, turn: Duration) -> Result<Step> {
        let last = self.since.saturating_add(pipeline.options().busy_timeout);
        if now >= last {
            let waited = now.saturating_sub(self.since);
            return Err(Error::Busy { waited, reason: pipeline.tree().held_back_by() });
        }
        Ok(Step::WaitUntil(turn.min(last)))
    }

    fn blocked(&self, pipeline: &Pipeline, now: Duration, reason: Arc<str>) -> Result<Step> {
        let waited = now.saturating_sub(self.since);
        let timeout = pipeline.options().busy_timeout;
        if waited >= timeout {
            return Err(Error::Busy { waited, reason });
        }
        pipeline.relieve();
        Ok(Step::WaitUntil(now + (timeout - waited).min(LOOK_AGAIN)))
    }

    pub(super) fn wait(&mut self, pipeline: &Pipeline) -> Result<()> {
        let opened = self.wait_until_open(pipeline);
        self.leave(pipeline);
        opened
    }

    /// Nobody waits any more, and it counts for how long somebody did; to be called before it is dropped.
    pub(super) fn leave(&mut self, pipeline: &Pipeline) {
        pipeline.tree().waiters().deregister(&mut self.place);
        if let Some(since) = self.waiting_since.take() {
            let now = pipeline.clock().monotonic();
            pipeline.tree().count_wait(now.saturating_sub(since));
        }
    }

    fn wait_until_open(&mut self, pipeline: &Pipeline) -> Result<()> {
        if pipeline.jobs().stepped() {
            return self.step_until_open(pipeline);
        }
        loop {
            // Registered before the look, so that it is woken if the debt falls right after.
            pipeline.tree().waiters().register(&mut self.place, &thread_waker());
            let Step::WaitUntil(instant) = self.step(pipeline)? else {
                return Ok(());
            };
            thread::park_timeout(instant.saturating_sub(pipeline.clock().monotonic()));
        }
    }

    fn step_until_open(&mut self, pipeline: &Pipeline) -> Result<()> {
        let mut published = None;
        loop {
            let Step::WaitUntil(_) = self.step(pipeline)? else {
                return Ok(());
            };
            if pipeline.jobs().assist() {
                continue;
            }
            // What other threads publish may be to flush: only if nothing was published between
            // two looks is nothing left to do.
            let now = Some(pipeline.publish_all());
            if std::mem::replace(&mut published, now) == now {
                return self.nothing_left_to_step(pipeline);
            }
        }
    }

    /// With stepped jobs and none queued, waiting would be forever: a delay counts as served, and
    /// a stop as having waited in vain.
    fn nothing_left_to_step(&mut self, pipeline: &Pipeline) -> Result<()> {
        match pipeline.admit(self.wanted) {
            Admission::Blocked(reason) => {
                Err(Error::Busy { waited: pipeline.options().busy_timeout, reason })
            }
            Admission::Go | Admission::Wait(_) => Ok(()),
        }
    }

    pub(super) fn poll(
        &mut self,
        pipeline: &Pipeline,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        pipeline.tree().waiters().register(&mut self.place, context.waker());
        let outcome = match self.step(pipeline) {
            Ok(Step::WaitUntil(instant)) => {
                self.set_timer(pipeline, instant);
                return Poll::Pending;
            }
            Ok(Step::Go) => Ok(()),
            Err(error) => Err(error),
        };
        self.leave(pipeline);
        Poll::Ready(outcome)
    }

    /// Has the task, which is registered, woken at `due` at the latest: however often it is polled, by
    /// one timer.
    fn set_timer(&mut self, pipeline: &Pipeline, due: Duration) {
        // If it fires right after this look, it finds the waker that was registered before.
        let serves = |t: &Timer| t.due <= due && !t.has_fired.load(Ordering::Acquire);
        let Some(place) = self.place.filter(|_| !self.timer.as_ref().is_some_and(serves)) else {
            return;
        };
        let has_fired = Arc::new(AtomicBool::new(false));
        self.timer = Some(Timer { due, has_fired: Arc::clone(&has_fired) });
        let tree = Arc::downgrade(pipeline.tree());
        let wake = Box::new(move || {
            has_fired.store(true, Ordering::Release);
            if let Some(tree) = tree.upgrade() {
                tree.waiters().wake(place);
            }
        });
        let delay = due.saturating_sub(pipeline.clock().monotonic());
        pipeline.jobs().spawn_after(JobClass::Log, delay, wake);
    }
}
