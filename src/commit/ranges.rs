//! Deleting ranges of a partition, by themselves or with the operations of a batch, and what a table has.
//!
//! Invariant: what is deleted is older than the commit: a row that has the version of a range tombstone is not. So
//! what a batch stores stays, wherever its ranges are.

use std::collections::BTreeSet;

use super::batch::Incarnation;
use super::draft::Rows;
use super::handle::Applied;
use super::payload::Payload;
use super::pipeline::Pipeline;
use crate::error::Result;
use crate::key::{self, KeyBounds, TableId};
use crate::levels::View;
use crate::read::{
    self, Direction, HookResult, RowRef, ScanHooks, ScanLimits, ScanRange, ScanRequest, Span,
    StopReason, Take,
};
use crate::version::Version;

/// About what deleting one entity takes of a memtable. A range is deleted one by one where that takes less
/// than a range tombstone counts as: the tombstone costs every read of the database a little until it is applied
/// to each file in its range, which is rewritten for it if compactions do not come by.
const DELETION_BYTES: usize = 128;

/// A table that is dropped has its entities deleted one by one if they are no more than these, tombstones that are met
/// included, as all writers wait meanwhile,
const MOST_OF_TABLE: usize = 64;
/// and if their encoded keys have no more bytes than this, so that a drop is small, for which there is always room.
const MOST_OF_TABLE_BYTES: usize = 8 << 10;

/// What ranges come to.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// The encoded RowKeys of the few entities that they have.
    pub(super) row_keys: BTreeSet<Vec<u8>>,
    /// Encoded keys, the second of each beyond the range, of those that have many, or may have.
    pub(super) spans: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Deletions {
    /// Of the ranges of a partition, under its latch.
    pub(super) fn of(pipeline: &Pipeline, table: TableId, ranges: &[ScanRange]) -> Self {
        let mut deletions = Self::default();
        let view = pipeline.tree().view();
        let mut few = Few::of(pipeline, &view);
        for range in ranges {
            let Some(Span { low, high, .. }) = range.span(table) else { continue };
            match few.rows(pipeline, &view, table, range) {
                Ok(Some(row_keys)) => deletions.row_keys.extend(row_keys),
                // By its range also where damage is in the way: what is deleted need not be read.
                Ok(None) | Err(_) => deletions.spans.push((low, high)),
            }
        }
        deletions
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row_keys.is_empty() && self.spans.is_empty()
    }

    /// To be called once they are in the memtable.
    pub(super) fn are_made(&self, pipeline: &Pipeline) {
        if !self.spans.is_empty() {
            pipeline.note_range_deletions(self.spans.iter().map(|(low, high)| (&**low, &**high)));
        } else if !self.row_keys.is_empty() {
            pipeline.note_deletion();
        }
    }
}

/// Deletes the entities of a partition whose RowKey is within bounds.
pub(crate) fn delete_rows(
    pipeline: &Pipeline,
    incarnation: &Incarnation,
    partition_key: &[u8],
    rows: &KeyBounds,
) -> Applied<Version> {
    let prefix = key::encode_partition(incarnation.id, partition_key);
    let _latch = pipeline.latches().lock(key::hash(&prefix));
    if let Some(refused) = incarnation.refuse_if_dropped() {
        return refused;
    }
    let range = ScanRange::in_partition(partition_key, rows.clone());
    let deletions = Deletions::of(pipeline, incarnation.id, &[range]);
    if deletions.is_empty() {
        return pipeline.nothing_done();
    }
    let version = pipeline.submit(&Rows::default().prepare(&prefix, &[], Some(&deletions)));
    deletions.are_made(pipeline);
    incarnation.tally.write(0, 0);
    Applied::done(version, version)
}

/// The entities of a table, where they are few and in memory.
#[derive(Debug, Default)]
pub(crate) struct FewRows {
    /// Of each partition, by its encoded prefix, the encoded RowKeys.
    partitions: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    bytes: usize,
}

impl FewRows {
    /// Those of a table with keys in [low, high), if all are in memory and a short look finds them. Nobody may write
    /// to it from then on until they are deleted. Where files may have some, a range has these go unread.
    pub(crate) fn in_memory(
        pipeline: &Pipeline,
        table: TableId,
        low: &[u8],
        high: &[u8],
    ) -> Option<Self> {
        let view = pipeline.tree().view();
        if view.levels.may_have(low, high) {
            return None;
        }
        let few = MOST_OF_TABLE.min(view.active.range_tombstone_bytes() / DELETION_BYTES);
        let mut rows = Self::default();
        let mut note = |row: RowRef<'_>| {
            rows.note(key::encode_partition(table, row.partition_key), encoded(row.row_key));
            Ok(())
        };
        let are_all = look(pipeline, &view, table, &ScanRange::all(), few, &mut note);
        (are_all.unwrap_or(false) && rows.bytes <= MOST_OF_TABLE_BYTES).then_some(rows)
    }

    fn note(&mut self, prefix: Vec<u8>, row_key: Vec<u8>) {
        self.bytes += prefix.len() + row_key.len();
        match self.partitions.last_mut() {
            Some((last, row_keys)) if *last == prefix => row_keys.push(row_key),
            _ => self.partitions.push((prefix, vec![row_key])),
        }
    }

    /// Has them deleted by a payload.
    pub(crate) fn delete(&self, payload: &mut Payload) {
        for (prefix, row_keys) in &self.partitions {
            payload.rows(prefix, row_keys.len());
            row_keys.iter().for_each(|row_key| payload.delete_encoded(row_key));
        }
    }
}

/// How many entities more are deleted one by one.
struct Few {
    entities: usize,
    /// Of their encoded RowKeys.
    bytes: usize,
}

impl Few {
    /// Their keys take less of the memtable than a range, and of what may go to the log of a full disk: there is
    /// always room for a deletion.
    fn of(pipeline: &Pipeline, view: &View) -> Self {
        let bytes = view.active.range_tombstone_bytes();
        let room = usize::try_from(pipeline.reserve.unasked_bytes()).unwrap_or(usize::MAX);
        Self { entities: bytes / DELETION_BYTES, bytes: bytes.min(room) }
    }

    /// The encoded RowKeys in the range, if a short look finds them all and they are few.
    fn rows(
        &mut self,
        pipeline: &Pipeline,
        view: &View,
        table: TableId,
        range: &ScanRange,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let (mut row_keys, mut bytes) = (Vec::new(), 0);
        let mut note = |row: RowRef<'_>| {
            row_keys.push(encoded(row.row_key));
            bytes += row_keys.last().map_or(0, Vec::len);
            Ok(())
        };
        let are_all = look(pipeline, view, table, range, self.entities, &mut note)?;
        if !are_all || bytes > self.bytes {
            return Ok(None);
        }
        self.entities = self.entities.saturating_sub(row_keys.len());
        self.bytes -= bytes;
        Ok(Some(row_keys))
    }
}

/// Notes the entities in the range that a short look finds, and says whether it finds them all.
fn look(
    pipeline: &Pipeline,
    view: &View,
    table: TableId,
    range: &ScanRange,
    few: usize,
    note: &mut dyn FnMut(RowRef<'_>) -> HookResult<()>,
) -> Result<bool> {
    let limits = ScanLimits { examined: Some(few.max(1) as u64), ..ScanLimits::default() };
    let ranges = std::slice::from_ref(range);
    let request = ScanRequest { table, ranges, direction: Direction::Forward, start: None };
    let hooks = ScanHooks { predicate: None, take: Take::Keys(note) };
    let page = read::scan(view, request, &limits, hooks, Version::MAX, pipeline.clock())?;
    Ok(page.stop == StopReason::End)
}

fn encoded(row_key: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(row_key.len() + 1);
    key::push_component(&mut encoded, row_key);
    encoded
}
