//! What flushes ask of the log about the large values in it.

use std::sync::{Arc, Weak};

use super::driver::report_segments;
use super::pipeline::Pipeline;
use super::relay::Relay;
use crate::levels::{FlushedLog, ValueLog};
use crate::version::Version;
use crate::wal::{SegmentId, Segments};

/// The log of a pipeline, which the tree must not keep alive.
pub(super) struct LargeValues {
    pipeline: Weak<Pipeline>,
    segments: Arc<Segments>,
}

impl LargeValues {
    pub(super) fn new(pipeline: &Arc<Pipeline>) -> Self {
        let segments = Arc::clone(&pipeline.segments);
        Self { pipeline: Arc::downgrade(pipeline), segments }
    }
}

impl ValueLog for LargeValues {
    fn end_segment(&self, last: Version) -> FlushedLog {
        if let Some(pipeline) = self.pipeline.upgrade() {
            pipeline.end_segment(last);
        }
        let sealed = self.segments.sealed_through(last);
        FlushedLog { start: self.segments.first_needed(last), sealed }
    }

    fn keep(&self, segment: SegmentId) {
        report_segments(self.segments.keep(segment));
    }
}

impl Pipeline {
    /// Ends the log's segment if nothing later than `last` is in it. If that fails, so will the next
    /// commit.
    fn end_segment(&self, last: Version) {
        let mut log = self.log.lock();
        if self.has_ended() {
            return;
        }
        let ended = log.writer.end_segment(last);
        drop(log);
        self.hand_over();
        if let Err(error) = ended {
            self.poison(&error);
        }
    }
}
