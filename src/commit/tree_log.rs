//! What the tree asks of the log: the segments of large values, and to give back space.
//!
//! Invariant: nothing here keeps the pipeline alive, which owns the tree.

use std::sync::{Arc, Weak};

use super::driver::report_segments;
use super::pipeline::Pipeline;
use super::relay::Relay;
use crate::error::Result;
use crate::levels::{Flushed, FlushedLog, TreeLog};
use crate::version::Version;
use crate::wal::{SealedSegment, SegmentId, Segments};

/// The log of a pipeline, as its tree has it.
pub(super) struct PipelineLog {
    pipeline: Weak<Pipeline>,
    segments: Arc<Segments>,
}

impl PipelineLog {
    pub(super) fn new(pipeline: &Arc<Pipeline>) -> Self {
        let segments = Arc::clone(&pipeline.segments);
        Self { pipeline: Arc::downgrade(pipeline), segments }
    }
}

impl TreeLog for PipelineLog {
    fn end_segment(&self, last: Version) -> FlushedLog {
        let sealed = self.pipeline.upgrade().map(|pipeline| pipeline.durable_segments(last));
        FlushedLog { start: self.segments.first_needed(last), sealed: sealed.unwrap_or_default() }
    }

    fn release_segment(&self, last: Version) -> Option<SegmentId> {
        self.pipeline.upgrade()?.release_segment(last);
        Some(self.segments.first_needed(last))
    }

    fn keep(&self, segment: SegmentId) {
        report_segments(self.segments.keep(segment));
    }

    fn flushed(&self, flushed: Flushed) {
        report_segments(self.segments.remove_before(flushed.log_start));
    }

    fn make_room(&self) {
        if let Some(pipeline) = self.pipeline.upgrade() {
            pipeline.make_room();
        }
    }
}

impl Pipeline {
    /// Ends the log's segment if nothing later than `last` is in it, and gives those that are sealed and
    /// durable. Commits wait for none of their syncs.
    fn durable_segments(&self, last: Version) -> Vec<SealedSegment> {
        self.give_back_if_idle(last);
        let ended = self.end_segment(last);
        let durable = ended.and_then(|()| self.segments.durable_through(last));
        durable.inspect_err(|error| self.poison_under_lock(error)).unwrap_or_default()
    }

    /// Gives back what the log takes, unless something later than `last` is in it.
    fn release_segment(&self, last: Version) {
        if self.give_back_if_idle(last)
            && let Err(error) = self.end_segment(last)
        {
            self.poison_under_lock(&error);
        }
    }

    /// Gives back what is there for later segments, if nothing later than `last` is in the log. Says whether to
    /// end the one that is written gives back much, too.
    fn give_back_if_idle(&self, last: Version) -> bool {
        let log = self.log.lock();
        let is_idle = log.writer.is_idle_after(last);
        let is_long = log.writer.is_long();
        drop(log);
        self.hand_over();
        if is_idle {
            report_segments(self.segments.give_space_back(last));
        }
        is_idle && is_long
    }

    /// Ends the log's segment if nothing later than `last` is in it. If that fails, so will the next
    /// commit.
    fn end_segment(&self, last: Version) -> Result<()> {
        // Else it would be made while commits wait.
        report_segments(self.segments.prepare());
        let mut log = self.log.lock();
        let ended = if self.has_ended() { Ok(()) } else { log.writer.end_segment(last) };
        drop(log);
        self.hand_over();
        ended
    }
}
