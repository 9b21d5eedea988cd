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

impl ImportRow {
    fn key(&self) -> (&[u8], &[u8]) {
        (&self.partition_key, &self.row_key)
    }
}

/// Writes rows of any partitions of a table unconditionally, as one commit; of rows with the same
/// key the last is kept.
pub(crate) fn import(
    pipeline: &Pipeline,
    incarnation: &Arc<Incarnation>,
    rows: &[ImportRow],
) -> Applied<Version> {
    let row_bytes = |row: &ImportRow| row.row_key.len() + row.value.len() + 16;
    let mut payload = Payload::with_capacity(rows.iter().map(row_bytes).sum());
    let mut hashes = Vec::new();
    for section in in_key_order(rows).chunk_by(|a, b| a.partition_key == b.partition_key) {
        let partition_key = section.first().map_or(&[][..], |row| &row.partition_key);
        let prefix = key::encode_partition(incarnation.id, partition_key);
        hashes.push(key::hash(&prefix));
        payload.rows(&prefix, section.len());
        for row in section {
            payload.put(&row.row_key, &row.value);
        }
    }
    let prepared = Prepared::new(payload);
    let _latches = pipeline.latches().lock_many(hashes);
    if let Some(refused) = incarnation.refuse_if_dropped() {
        return refused;
    }
    let version = pipeline.submit(&prepared);
    Applied::done(version, version)
}

/// Rows in key order, of equal keys the last. What tells most PartitionKeys apart, eight bytes behind what
/// all of them begin with, moves with the rows, so that few comparisons go where a key is.
fn in_key_order(rows: &[ImportRow]) -> Vec<&ImportRow> {
    let Some((first, others)) = rows.split_first() else { return Vec::new() };
    let first = &first.partition_key;
    let common = others
        .iter()
        .fold(first.len(), |common, row| common.min(key::common_prefix(first, &row.partition_key)));
    // Reversed, and the sort is stable: the last of equal keys comes first, and is the one dedup keeps.
    let mut ordered: Vec<(u64, &ImportRow)> = rows
        .iter()
        .rev()
        .map(|row| (key::first_eight(row.partition_key.get(common..).unwrap_or_default()), row))
        .collect();
    ordered
        .sort_by(|(a_head, a), (b_head, b)| a_head.cmp(b_head).then_with(|| a.key().cmp(&b.key())));
    let mut rows: Vec<&ImportRow> = ordered.into_iter().map(|(_, row)| row).collect();
    rows.dedup_by(|a, b| a.key() == b.key());
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn import_keeps_the_last_of_equal_keys() {
        let row = |pk: &str, rk: &str, value: &str| ImportRow {
            partition_key: pk.into(),
            row_key: rk.into(),
            value: value.into(),
        };
        let rows =
            [row("b", "1", "x"), row("a", "2", "old"), row("a", "1", "y"), row("a", "2", "new")];
        let values: Vec<_> = in_key_order(&rows).iter().map(|row| &row.value[..]).collect();
        assert_eq!(values, [b"y", &b"new"[..], b"x"]);
    }

    proptest! {
        #[test]
        fn import_is_in_key_order(
            common in vec(0..2u8, 0..3),
            keys in vec((vec(0..2u8, 0..12), vec(0..2u8, 0..2)), 0..40),
        ) {
            let rows: Vec<_> = keys
                .into_iter()
                .zip(0u8..)
                .map(|((rest, row_key), value)| ImportRow {
                    partition_key: [&common[..], &rest].concat(),
                    row_key,
                    value: vec![value],
                })
                .collect();
            let key = |row: &ImportRow| (row.partition_key.clone(), row.row_key.clone());
            let model: BTreeMap<_, _> = rows.iter().map(|row| (key(row), row.value.clone())).collect();
            let ordered = in_key_order(&rows);
            let ordered: Vec<_> = ordered.iter().map(|row| (key(row), row.value.clone())).collect();
            prop_assert_eq!(ordered, model.into_iter().collect::<Vec<_>>());
        }
    }
}
