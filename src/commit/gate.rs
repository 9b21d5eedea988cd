//! The gate in front of the latches: writers wait here while the engine is behind with flushing
//! and compacting, never longer than the busy timeout (R-E24).
//!
//! Invariant: a write holds no latch and has changed nothing while it waits.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use super::pipeline::Pipeline;
use super::waiters::thread_waker;
use crate::env::JobClass;
use crate::error::{Error, Result};
use crate::levels::Admission;

/// Longest sleep between two looks at the debt; a wake-up normally comes before.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One write's wait for admission.
#[derive(Debug)]
pub(super) struct Gate {
    bytes: usize,
    since: Duration,
    /// The delay was served: go, unless writes have stopped altogether.
    not_before: Option<Duration>,
}

enum Step {
    Go,
    /// Look again after this long at the latest.
    Wait(Duration),
}

impl Gate {
    /// The gate for a write of `bytes` that was told to wait.
    pub(super) fn new(pipeline: &Pipeline, bytes: usize, told: &Admission) -> Self {
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
        Self { bytes, since, not_before }
    }

    fn step(&mut self, pipeline: &Pipeline) -> Result<Step> {
        pipeline.check_writable()?;
        let now = pipeline.clock().monotonic();
        if let Some(not_before) = self.not_before {
            if now >= not_before {
                return Ok(Step::Go);
            }
            return Ok(Step::Wait(not_before - now));
        }
        match pipeline.tree().admit(self.bytes) {
            Admission::Go => Ok(Step::Go),
            Admission::Wait(delay) => {
                self.not_before = Some(now + delay);
                Ok(Step::Wait(delay))
            }
            Admission::Blocked(reason) => self.blocked(pipeline, now, reason),
        }
    }

    fn blocked(&self, pipeline: &Pipeline, now: Duration, reason: Arc<str>) -> Result<Step> {
        let waited = now.saturating_sub(self.since);
        let timeout = pipeline.options().busy_timeout;
        if waited >= timeout {
            return Err(Error::Busy { waited, reason });
        }
        pipeline.relieve();
        Ok(Step::Wait((timeout - waited).min(LOOK_AGAIN)))
    }

    pub(super) fn wait(&mut self, pipeline: &Pipeline) -> Result<()> {
        while let Step::Wait(delay) = self.step(pipeline)? {
            if pipeline.jobs().assist() {
                continue;
            }
            if pipeline.jobs().stepped() {
                return self.nothing_left_to_step(pipeline);
            }
            pipeline.tree().waiters().register(&thread_waker());
            thread::park_timeout(delay);
        }
        Ok(())
    }

    /// With stepped jobs and none queued, waiting would be forever: a delay counts as served, and
    /// a stop as having waited in vain.
    fn nothing_left_to_step(&mut self, pipeline: &Pipeline) -> Result<()> {
        match pipeline.tree().admit(self.bytes) {
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
        match self.step(pipeline) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(Step::Go) => Poll::Ready(Ok(())),
            Ok(Step::Wait(delay)) => {
                let waker = context.waker().clone();
                pipeline.tree().waiters().register(&waker);
                let wake = Box::new(move || waker.wake());
                pipeline.jobs().spawn_after(JobClass::Log, delay, wake);
                Poll::Pending
            }
        }
    }
}
