//! Deleting ranges of a partition, by themselves or with the operations of a batch.
//!
//! Invariant: what is deleted is older than the commit: a row that has the version of a range tombstone is not. So
//! what a batch stores stays, wherever its ranges are.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::batch::Incarnation;
use super::draft::Rows;
use super::handle::Applied;
use super::pipeline::Pipeline;
use crate::error::Result;
use crate::key::{self, TableId};
use crate::levels::View;
use crate::read::{
    self, Direction, RowRef, ScanHooks, ScanLimits, ScanRange, ScanRequest, Span, StopReason, Take,
};
use crate::version::Version;

/// About what deleting one entity takes of a memtable. A range is deleted one by one where that takes less
/// than a range tombstone counts as: the tombstone costs every read of the database a little until it is applied
/// to each file in its range, which is rewritten for it if compactions do not come by.
const DELETION_BYTES: usize = 128;

/// Bounds on the RowKeys of a partition.
pub(crate) type RowBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

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
        let few = view.active.range_tombstone_bytes() / DELETION_BYTES;
        for range in ranges {
            let Some(Span { low, high, .. }) = range.span(table) else { continue };
            let few = few.saturating_sub(deletions.row_keys.len());
            match few_rows(pipeline, &view, table, range, few) {
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
    rows: &RowBounds,
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

/// The encoded RowKeys in the range, if a short look finds them all.
fn few_rows(
    pipeline: &Pipeline,
    view: &View,
    table: TableId,
    range: &ScanRange,
    few: usize,
) -> Result<Option<Vec<Vec<u8>>>> {
    let limits = ScanLimits { examined: Some(few.max(1) as u64), ..ScanLimits::default() };
    let ranges = std::slice::from_ref(range);
    let request = ScanRequest { table, ranges, direction: Direction::Forward, start: None };
    let mut row_keys = Vec::new();
    let mut note = |row: RowRef<'_>| {
        let mut row_key = Vec::with_capacity(row.row_key.len() + 1);
        key::push_component(&mut row_key, row.row_key);
        row_keys.push(row_key);
        Ok(())
    };
    let hooks = ScanHooks { predicate: None, take: Take::Keys(&mut note) };
    let page = read::scan(view, request, &limits, hooks, Version::MAX, pipeline.clock())?;
    Ok((page.stop == StopReason::End).then_some(row_keys))
}
