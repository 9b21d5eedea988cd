//! [`Syncs`]: what of the log is durable, and what is being made so beside its writer.
//!
//! A segment that ends is synced while records go to the next, by whoever settles its [`Writeback`].
//! Until that is known, records say that nothing is durable, and who syncs their own segment waits for it
//! first. So a record that says that anything is durable proves that all segments before its own are that the
//! log still begins with.
//!
//! Invariant: every byte below `synced` of the segment that is written is durable.

use std::collections::VecDeque;
use std::sync::Arc;

use super::record::NOTHING_DURABLE;
use super::writeback::Writeback;
use crate::error::Result;

/// So many bytes that nobody asked to sync are synced nevertheless, in the background: else all of a
/// segment is at once when it ends, and who then asks for a sync waits for that.
const WRITEBACK_BYTES: u64 = 4 << 20;
/// What is left to the operating system is synced in the background, too, in the segment in which somebody
/// asked for a sync, and so many after it: the next who asks waits for little.
const SEGMENTS_AFTER_ASKED: u8 = 2;
/// So many segments may have ended and not be synced yet, unless that is left to the operating system. With
/// more, the device does not keep up, and commits wait for it: what a crash may take has a limit.
const MAX_UNSYNCED_SEGMENTS: usize = 3;

/// The syncs of the segment that is written, and of those before it. The writer's alone.
#[derive(Debug)]
pub(super) struct Syncs {
    /// What nobody asks to sync is left to the operating system.
    left_to_system: bool,
    synced: u64,
    /// The last that was begun of this segment, unless what came of it is known.
    writeback: Option<Arc<Writeback>>,
    /// Those of the segments before, oldest first, unless what came of them is known.
    ended: VecDeque<Arc<Writeback>>,
    /// A segment ended that is to be synced, and [`take_ended`](Self::take_ended) did not say so yet.
    has_ended_one: bool,
    /// In so many segments, from this one on, what is left to the operating system is synced all the same.
    segments_asked: u8,
    /// The segment is kept for its large values once it is flushed.
    is_kept: bool,
}

impl Syncs {
    /// Of a log that is durable up to `start` of its only segment.
    pub(super) fn new(left_to_system: bool, start: u64) -> Self {
        Self {
            left_to_system,
            synced: start,
            writeback: None,
            ended: VecDeque::new(),
            has_ended_one: false,
            segments_asked: 0,
            is_kept: false,
        }
    }

    /// Up to where the segment is durable.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// What a record says of what is durable.
    pub(super) fn durable_end(&self) -> u64 {
        if self.ended.is_empty() { self.synced } else { NOTHING_DURABLE }
    }

    /// Whether a sync of the segment is begun, and what came of it is not known.
    pub(super) fn is_under_way(&self) -> bool {
        self.writeback.is_some()
    }

    /// Whether a background job syncs what nobody asks to sync.
    fn is_written_back(&self) -> bool {
        !self.left_to_system || self.segments_asked > 0 || self.is_kept
    }

    /// Whether a background job is to sync a segment that is written up to `end`.
    pub(super) fn is_due(&self, end: u64) -> bool {
        !self.is_under_way() && self.is_written_back() && end - self.synced >= WRITEBACK_BYTES
    }

    /// The segment that ended last, if a background job is to sync it; once.
    pub(super) fn take_ended(&mut self) -> Option<Arc<Writeback>> {
        let has_ended_one = std::mem::take(&mut self.has_ended_one);
        self.ended.back().filter(|_| has_ended_one).cloned()
    }

    /// Somebody asks for a sync.
    pub(super) fn asked(&mut self) {
        self.segments_asked = 1 + SEGMENTS_AFTER_ASKED;
    }

    /// The segment is to be kept for its large values once it is flushed, and has to be durable by then.
    pub(super) fn keep_segment(&mut self) {
        self.is_kept = true;
    }

    pub(super) fn keeps_segment(&self) -> bool {
        self.is_kept
    }

    /// The newest, which the next includes.
    pub(super) fn take_newest(&mut self) -> Option<Arc<Writeback>> {
        self.writeback.take().or_else(|| self.ended.back().cloned())
    }

    pub(super) fn begun(&mut self, begun: Arc<Writeback>) {
        self.writeback = Some(begun);
    }

    /// Before another segment ends: waits for the oldest, if too many are not synced.
    pub(super) fn bound_ended(&mut self) -> Result<()> {
        while self.is_written_back() && self.ended.len() >= MAX_UNSYNCED_SEGMENTS {
            self.settle_oldest()?;
        }
        Ok(())
    }

    /// The segment ended, to be durable by that sync; the next one is up to `start`.
    pub(super) fn segment_ended(&mut self, ended: Arc<Writeback>, start: u64) {
        self.ended.push_back(ended);
        self.has_ended_one = self.is_written_back();
        self.segments_asked = self.segments_asked.saturating_sub(1);
        self.is_kept = false;
        self.synced = start;
    }

    /// Takes note of what came of syncs, where that is known.
    pub(super) fn note_settled(&mut self) -> Result<()> {
        while self.ended.front().is_some_and(|ended| ended.is_settled()) {
            self.settle_oldest()?;
        }
        if self.writeback.as_ref().is_some_and(|begun| begun.is_settled()) {
            self.settle_writeback()?;
        }
        Ok(())
    }

    /// Waits for all that were begun, in the log's order.
    pub(super) fn settle_all(&mut self) -> Result<()> {
        while !self.ended.is_empty() {
            self.settle_oldest()?;
        }
        self.settle_writeback()
    }

    /// The segment was synced up to there.
    pub(super) fn synced_to(&mut self, end: u64) {
        self.synced = end;
    }

    fn settle_oldest(&mut self) -> Result<()> {
        if let Some(ended) = self.ended.front() {
            ended.settle()?;
            self.ended.pop_front();
        }
        Ok(())
    }

    fn settle_writeback(&mut self) -> Result<()> {
        if let Some(begun) = self.writeback.take() {
            begun.settle()?;
            self.synced = self.synced.max(begun.upto());
        }
        Ok(())
    }
}
