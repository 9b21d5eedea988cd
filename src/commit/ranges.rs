//! Deleting a range of a partition.
//!
//! Invariant: like any commit, it takes its latch, then a version, and is all or nothing.

use std::ops::Bound;

use super::batch::Incarnation;
use super::handle::Applied;
use super::payload::{Payload, Prepared};
use super::pipeline::Pipeline;
use crate::error::Result;
use crate::key::{self, TableId};
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
    let mut payload = Payload::default();
    let version = match (few_rows(pipeline, incarnation.id, &range), range.span(incarnation.id)) {
        // By its range also where damage is in the way: what is deleted need not be read.
        (Ok(None) | Err(_), Some(Span { low, high, .. })) => {
            payload.delete_range(&low, &high);
            pipeline.submit_deletion(&Prepared::new(payload), &low, &high)
        }
        (row_keys, _) => {
            let row_keys = row_keys.ok().flatten().unwrap_or_default();
            if row_keys.is_empty() {
                return pipeline.nothing_done();
            }
            payload.rows(&prefix, row_keys.len());
            for row_key in &row_keys {
                payload.delete(row_key);
            }
            let version = pipeline.submit(&Prepared::new(payload));
            pipeline.note_deletion();
            version
        }
    };
    incarnation.tally.write(0, 0);
    Applied::done(version, version)
}

/// The RowKeys in the range, if a short look finds them all.
fn few_rows(
    pipeline: &Pipeline,
    table: TableId,
    range: &ScanRange,
) -> Result<Option<Vec<Vec<u8>>>> {
    let view = pipeline.tree().view();
    let few = view.active.range_tombstone_bytes() / DELETION_BYTES;
    let limits = ScanLimits { examined: Some(few.max(1) as u64), ..ScanLimits::default() };
    let ranges = std::slice::from_ref(range);
    let request = ScanRequest { table, ranges, direction: Direction::Forward, start: None };
    let mut row_keys = Vec::new();
    let mut note = |row: RowRef<'_>| {
        row_keys.push(row.row_key.to_vec());
        Ok(())
    };
    let hooks = ScanHooks { predicate: None, take: Take::Keys(&mut note) };
    let page = read::scan(&view, request, &limits, hooks, Version::MAX, pipeline.clock())?;
    Ok((page.stop == StopReason::End).then_some(row_keys))
}
