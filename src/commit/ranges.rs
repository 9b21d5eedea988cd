//! Writes that are not conditional: deleting a range of a partition, and import.
//!
//! Invariant: like any commit, each takes its latches, then a version, and is all or nothing.

use std::ops::Bound;
use std::sync::Arc;

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

/// A range of at most this many entries is deleted one by one: a range tombstone costs every
/// read of the database a little until compaction has applied it.
const DELETED_ONE_BY_ONE: u64 = 64;

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
        (Err(error), _) => return Applied::failed(Version::ZERO, error),
        (Ok(None), Some(Span { low, high, .. })) => {
            payload.delete_range(&low, &high);
            pipeline.submit_deletion(&Prepared::new(payload), &low, &high)
        }
        (Ok(row_keys), _) => {
            let row_keys = row_keys.unwrap_or_default();
            payload.rows(&prefix, row_keys.len());
            for row_key in &row_keys {
                payload.delete(row_key);
            }
            pipeline.submit(&Prepared::new(payload))
        }
    };
    Applied::done(version, version)
}

/// The RowKeys in the range, if a short look finds them all.
fn few_rows(
    pipeline: &Pipeline,
    table: TableId,
    range: &ScanRange,
) -> Result<Option<Vec<Vec<u8>>>> {
    let limits = ScanLimits { examined: Some(DELETED_ONE_BY_ONE), ..ScanLimits::default() };
    let view = pipeline.tree().view();
    let ranges = std::slice::from_ref(range);
    let request = ScanRequest { table, ranges, direction: Direction::Forward, start: None };
    let mut row_keys = Vec::new();
    let mut note = |row: RowRef<'_>| {
        row_keys.push(row.row_key.to_vec());
        Ok(())
    };
    let hooks = ScanHooks { predicate: None, take: Take::Lend(&mut note) };
    let page = read::scan(&view, request, &limits, hooks, Version::MAX, pipeline.clock())?;
    Ok((page.stop == StopReason::End).then_some(row_keys))
}

/// One row to import.
#[derive(Debug)]
pub(crate) struct ImportRow {
    pub(crate) partition_key: Vec<u8>,
    pub(crate) row_key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Writes rows of any partitions of a table unconditionally, as one commit; of rows with the same
/// key the last is kept.
pub(crate) fn import(
    pipeline: &Pipeline,
    incarnation: &Arc<Incarnation>,
    rows: Vec<ImportRow>,
) -> Applied<Version> {
    let sections = sections(incarnation, rows);
    let mut payload = Payload::default();
    for (prefix, rows) in &sections {
        payload.rows(prefix, rows.len());
        for row in rows {
            payload.put(&row.row_key, &row.value);
        }
    }
    let prepared = Prepared::new(payload);
    let hashes = sections.iter().map(|(prefix, _)| key::hash(prefix));
    let _latches = pipeline.latches().lock_many(hashes);
    if let Some(refused) = incarnation.refuse_if_dropped() {
        return refused;
    }
    let version = pipeline.submit(&prepared);
    Applied::done(version, version)
}

/// Rows in key order, once each, by partition.
fn sections(incarnation: &Incarnation, mut rows: Vec<ImportRow>) -> Vec<(Vec<u8>, Vec<ImportRow>)> {
    // Stable, and reversed: the last of equal keys comes first, and is the one dedup keeps.
    rows.reverse();
    rows.sort_by(|a, b| (&a.partition_key, &a.row_key).cmp(&(&b.partition_key, &b.row_key)));
    rows.dedup_by(|a, b| a.partition_key == b.partition_key && a.row_key == b.row_key);
    let mut sections: Vec<(Vec<u8>, Vec<ImportRow>)> = Vec::new();
    for row in rows {
        match sections.last_mut() {
            Some((_, same))
                if same.first().is_some_and(|r| r.partition_key == row.partition_key) =>
            {
                same.push(row);
            }
            _ => {
                let prefix = key::encode_partition(incarnation.id, &row.partition_key);
                sections.push((prefix, vec![row]));
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_keeps_the_last_of_equal_keys() {
        let row = |pk: &str, rk: &str, value: &str| ImportRow {
            partition_key: pk.into(),
            row_key: rk.into(),
            value: value.into(),
        };
        let rows = vec![
            row("b", "1", "x"),
            row("a", "2", "old"),
            row("a", "1", "y"),
            row("a", "2", "new"),
        ];
        let sections = sections(&Incarnation::new(TableId::FIRST, "t", Version::ZERO), rows);
        let flat: Vec<_> = sections
            .iter()
            .flat_map(|(_, rows)| rows)
            .map(|r| [&r.partition_key[..], &r.row_key, &r.value].concat())
            .collect();
        assert_eq!(flat, [b"a1y".to_vec(), b"a2new".to_vec(), b"b1x".to_vec()]);
        assert_eq!(sections.len(), 2);
    }
}
