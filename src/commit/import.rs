//! Import: rows of any partitions, written unconditionally as one commit.
//!
//! Invariant: a commit has its rows in key order, and of rows with the same key the last that came.

use std::sync::Arc;

use super::batch::Incarnation;
use super::handle::Applied;
use super::payload::{Payload, Prepared};
use super::pipeline::Pipeline;
use crate::key;
use crate::version::Version;

/// Rows in the order in which they came: their bytes one behind the other, so that a row takes no
/// allocation of its own.
#[derive(Debug, Default)]
pub(crate) struct ImportRows {
    bytes: Vec<u8>,
    rows: Vec<Place>,
}

/// Where a row is: from `start` on, up to where its PartitionKey, its RowKey and its value end.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    partition_key: usize,
    row_key: usize,
    value: usize,
}

/// A row as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ImportRow<'a> {
    partition_key: &'a [u8],
    row_key: &'a [u8],
    value: &'a [u8],
}

impl ImportRow<'_> {
    fn key(&self) -> (&[u8], &[u8]) {
        (self.partition_key, self.row_key)
    }

    fn bytes(&self) -> usize {
        self.partition_key.len() + self.row_key.len() + self.value.len()
    }
}

impl ImportRows {
    /// None yet, with room for as many as `like` has.
    pub(crate) fn with_room_of(like: &Self) -> Self {
        Self {
            bytes: Vec::with_capacity(like.bytes.len()),
            rows: Vec::with_capacity(like.rows.len()),
        }
    }

    pub(crate) fn push(&mut self, partition_key: &[u8], row_key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        let mut put = |part: &[u8]| {
            self.bytes.extend_from_slice(part);
            self.bytes.len()
        };
        let (partition_key, row_key) = (put(partition_key), put(row_key));
        let value = put(value);
        self.rows.push(Place { start, partition_key, row_key, value });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of their keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn row(&self, place: &Place) -> ImportRow<'_> {
        let part = |start, end| self.bytes.get(start..end).unwrap_or_default();
        ImportRow {
            partition_key: part(place.start, place.partition_key),
            row_key: part(place.partition_key, place.row_key),
            value: part(place.row_key, place.value),
        }
    }

    /// Rows in key order, of equal keys the last. What tells most PartitionKeys apart, eight bytes
    /// behind what all of them begin with, moves with the rows, so that few comparisons go where a
    /// key is.
    fn in_key_order(&self) -> Vec<ImportRow<'_>> {
        let mut partition_keys = self.rows.iter().map(|place| self.row(place).partition_key);
        let first = partition_keys.next().unwrap_or_default();
        let common = partition_keys
            .fold(first.len(), |common, other| common.min(key::common_prefix(first, other)));
        let head = |row: &ImportRow<'_>| {
            key::first_eight(row.partition_key.get(common..).unwrap_or_default())
        };
        // Reversed, and the sort is stable: the last of equal keys comes first, and is the one
        // dedup keeps.
        let rows = self.rows.iter().rev();
        let mut ordered: Vec<(u64, &Place)> =
            rows.map(|place| (head(&self.row(place)), place)).collect();
        ordered.sort_by(|(a_head, a), (b_head, b)| {
            a_head.cmp(b_head).then_with(|| self.row(a).key().cmp(&self.row(b).key()))
        });
        let mut rows: Vec<_> = ordered.into_iter().map(|(_, place)| self.row(place)).collect();
        rows.dedup_by(|a, b| a.key() == b.key());
        rows
    }
}

/// Writes rows of any partitions of a table unconditionally, as one commit; of rows with the same
/// key the last is kept.
pub(crate) fn import(
    pipeline: &Pipeline,
    incarnation: &Arc<Incarnation>,
    rows: &ImportRows,
) -> Applied<Version> {
    let mut payload = Payload::with_capacity(rows.bytes() + 16 * rows.rows.len());
    let mut hashes = Vec::new();
    let rows = rows.in_key_order();
    for section in rows.chunk_by(|a, b| a.partition_key == b.partition_key) {
        let partition_key = section.first().map_or(&[][..], |row| row.partition_key);
        let prefix = key::encode_partition(incarnation.id, partition_key);
        hashes.push(key::hash(&prefix));
        payload.rows(&prefix, section.len());
        for row in section {
            payload.put(row.row_key, row.value);
        }
    }
    let prepared = Prepared::new(payload);
    let known_room = pipeline.known_room(prepared.payload_len());
    let _latches = pipeline.latches().lock_many(hashes);
    if let Some(refused) = incarnation.refuse_if_dropped() {
        return refused;
    }
    let version = match pipeline.submit_if_room(&prepared, known_room, || false) {
        Ok(version) => version,
        Err(error) => return Applied::failed(Version::ZERO, error),
    };
    let bytes = rows.iter().map(ImportRow::bytes).sum();
    incarnation.tally.write(rows.len(), bytes);
    Applied::done(version, version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn import_keeps_the_last_of_equal_keys() {
        let mut rows = ImportRows::default();
        for (pk, rk, value) in
            [("b", "1", "x"), ("a", "2", "old"), ("a", "1", "y"), ("a", "2", "new")]
        {
            rows.push(pk.as_bytes(), rk.as_bytes(), value.as_bytes());
        }
        let values: Vec<_> = rows.in_key_order().iter().map(|row| row.value).collect();
        assert_eq!(values, [b"y", &b"new"[..], b"x"]);
    }

    proptest! {
        #[test]
        fn import_is_in_key_order(
            common in vec(0..2u8, 0..3),
            keys in vec((vec(0..2u8, 0..12), vec(0..2u8, 0..2)), 0..40),
        ) {
            let (mut rows, mut model) = (ImportRows::default(), BTreeMap::new());
            for ((rest, row_key), value) in keys.into_iter().zip(0u8..) {
                let partition_key = [&common[..], &rest].concat();
                rows.push(&partition_key, &row_key, &[value]);
                model.insert((partition_key, row_key), value);
            }
            let ordered = rows.in_key_order();
            let model: Vec<_> = model.iter().map(|((partition_key, row_key), value)| {
                ImportRow { partition_key, row_key, value: std::slice::from_ref(value) }
            }).collect();
            prop_assert_eq!(ordered, model);
        }
    }
}
