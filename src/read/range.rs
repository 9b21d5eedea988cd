//! Which keys a scan is about: [`ScanRange`] as the caller says it, [`Span`] as encoded keys.
//!
//! Invariant: every key of the range is in its span, `low <= key < high`; where the span holds
//! other keys too (RowKeys of several partitions, or several intervals of RowKeys), its row span
//! tells them apart and says where to go on.

use std::ops::{Bound, Deref};
use std::sync::Arc;

use super::rows::{self, RowSpan};
use crate::key::{self, ALL_KEYS, KeyBounds, TableId};

/// Which way a page goes through the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Reverse,
}

/// The entities whose PartitionKey is in a range and whose RowKey is in one of several (R-E14,
/// R-E15).
#[derive(Clone, Debug)]
pub(crate) struct ScanRange {
    pub(super) partition: Partitions,
    pub(super) rows: Rows,
}

/// The PartitionKeys of a range. A single one is told from bounds, as most pages are about one.
#[derive(Clone, Debug)]
pub(crate) enum Partitions {
    One(Vec<u8>),
    Within(KeyBounds),
}

/// The RowKeys of a range.
#[derive(Clone, Debug)]
pub(super) enum Rows {
    One(KeyBounds),
    /// Ascending and disjoint; many ranges may share one list.
    Many(Arc<[KeyBounds]>),
}

/// PartitionKey and RowKey of the first key not yet examined (R-E12, R-E13).
pub(crate) type Continuation = (Vec<u8>, Vec<u8>);

/// The smallest interval of encoded keys around a range, from where a page starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: Vec<u8>,
    /// Exclusive.
    pub(crate) high: Vec<u8>,
    /// How long the encoded partition at the front of `low` is, if the range is about a single one.
    pub(crate) partition: Option<usize>,
    /// Where some keys of the span are not in the range.
    pub(crate) rows: Option<RowSpan>,
}

impl From<KeyBounds> for Partitions {
    fn from(bounds: KeyBounds) -> Self {
        match bounds {
            (Bound::Included(from), Bound::Included(to)) if from == to => Self::One(from),
            bounds => Self::Within(bounds),
        }
    }
}

impl Partitions {
    pub(crate) const ALL: Self = Self::Within(ALL_KEYS);

    fn start(&self) -> Bound<&Vec<u8>> {
        match self {
            Self::One(key) => Bound::Included(key),
            Self::Within((from, _)) => from.as_ref(),
        }
    }

    fn end(&self) -> Bound<&Vec<u8>> {
        match self {
            Self::One(key) => Bound::Included(key),
            Self::Within((_, to)) => to.as_ref(),
        }
    }

    pub(crate) fn bounds(&self) -> KeyBounds {
        (self.start().cloned(), self.end().cloned())
    }
}

impl Deref for Rows {
    type Target = [KeyBounds];

    fn deref(&self) -> &[KeyBounds] {
        match self {
            Self::One(row) => std::slice::from_ref(row),
            Self::Many(rows) => rows,
        }
    }
}

impl ScanRange {
    /// RowKeys of one range in each of the partitions.
    pub(crate) fn new(partition: impl Into<Partitions>, row: KeyBounds) -> Self {
        Self { partition: partition.into(), rows: Rows::One(row) }
    }

    /// RowKeys of several ranges, ascending and disjoint, in each of the partitions.
    pub(crate) fn of_many(partition: impl Into<Partitions>, rows: Arc<[KeyBounds]>) -> Self {
        Self { partition: partition.into(), rows: Rows::Many(rows) }
    }

    /// Everything in a table.
    pub(crate) fn all() -> Self {
        Self::new(Partitions::ALL, ALL_KEYS)
    }

    /// RowKeys of one range in one partition.
    pub(crate) fn in_partition(partition_key: &[u8], row: KeyBounds) -> Self {
        Self::new(Partitions::One(partition_key.to_vec()), row)
    }

    /// The span in a table; `None` if it is empty.
    pub(crate) fn span(&self, table: TableId) -> Option<Span> {
        if let Partitions::One(pk) = &self.partition {
            return self.span_in(table, pk);
        }
        let prefix = |pk: &Vec<u8>| key::encode_partition(table, pk);
        let rows = RowSpan::new(&self.rows)?;
        let low = match self.partition.start() {
            Bound::Included(pk) => rows.low_in(&prefix(pk)),
            Bound::Excluded(pk) => key::prefix_end(&prefix(pk)),
            Bound::Unbounded => key::encode_table(table),
        };
        let high = match self.partition.end() {
            Bound::Included(pk) => rows.high_in(&prefix(pk)),
            Bound::Excluded(pk) => prefix(pk),
            Bound::Unbounded => key::prefix_end(&key::encode_table(table)),
        };
        let rows = (!rows.is_unbounded()).then_some(rows);
        (low < high).then_some(Span { low, high, partition: None, rows })
    }

    /// The span in a partition.
    fn span_in(&self, table: TableId, pk: &[u8]) -> Option<Span> {
        // Most pages are about one interval, whose ends are all there is to it.
        if let [(from, to)] = &*self.rows {
            let mut low = key::encode_partition_before(table, pk, rows::key_len(from));
            let (partition, high) = (Some(low.len()), rows::before_end(&low, to));
            rows::push_start(&mut low, from);
            return (low < high).then_some(Span { low, high, partition, rows: None });
        }
        let rows = RowSpan::new(&self.rows)?;
        let prefix = key::encode_partition(table, pk);
        let (low, high) = (rows.low_in(&prefix), rows.high_in(&prefix));
        let rows = (!rows.is_one()).then_some(rows);
        Some(Span { low, high, partition: Some(prefix.len()), rows })
    }

    /// The PartitionKey and the RowKeys, if the range names each of its entities.
    pub(crate) fn points(&self) -> Option<(&[u8], Vec<&[u8]>)> {
        let Partitions::One(partition_key) = &self.partition else { return None };
        let row_keys = self.rows.iter().map(|row| key::single(row));
        Some((partition_key, row_keys.collect::<Option<_>>()?))
    }

    /// Whether all its partitions are before this one.
    pub(super) fn ends_before(&self, partition_key: &[u8]) -> bool {
        match self.partition.end() {
            Bound::Included(last) => **last < *partition_key,
            Bound::Excluded(end) => **end <= *partition_key,
            Bound::Unbounded => false,
        }
    }

    /// Whether all its partitions are after this one.
    pub(super) fn begins_after(&self, partition_key: &[u8]) -> bool {
        match self.partition.start() {
            Bound::Included(first) => **first > *partition_key,
            Bound::Excluded(before) => **before >= *partition_key,
            Bound::Unbounded => false,
        }
    }

    /// The first possible key.
    pub(super) fn first_key(&self) -> Continuation {
        let first = |low: Bound<&Vec<u8>>| match low {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        let row = self.rows.first().map_or_else(Vec::new, |row| first(row.0.as_ref()));
        (first(self.partition.start()), row)
    }

    /// A key at or after the last possible one, as near to it as a key can be said: there is no
    /// last string before another. `None` where every key is possible.
    pub(super) fn last_key(&self) -> Option<Continuation> {
        match self.partition.end() {
            Bound::Included(pk) => match self.rows.last().map(|row| &row.1) {
                Some(Bound::Included(rk) | Bound::Excluded(rk)) => Some((pk.clone(), rk.clone())),
                Some(Bound::Unbounded) | None => Some((successor(pk), Vec::new())),
            },
            Bound::Excluded(pk) => Some((pk.clone(), Vec::new())),
            Bound::Unbounded => None,
        }
    }
}

impl Span {
    /// What is left of it from an encoded key on, inclusive; `None` if that is nothing. Keys within the
    /// span of a partition all begin as `low` does, so `partition` stays true of a later `low`.
    pub(super) fn from(mut self, start: &[u8], direction: Direction) -> Option<Self> {
        match direction {
            Direction::Forward if *start > *self.low => self.low = start.to_vec(),
            Direction::Reverse if *start < *self.high => self.high = successor(start),
            Direction::Forward | Direction::Reverse => {}
        }
        (self.low < self.high).then_some(self)
    }

    /// What all keys of the span begin with, if they are of a single partition.
    pub(super) fn prefix(&self) -> Option<&[u8]> {
        self.low.get(..self.partition?)
    }

    /// A prefix of all keys of the span.
    pub(super) fn shared(&self) -> &[u8] {
        let same = || self.low.get(..key::common_prefix(&self.low, &self.high));
        self.prefix().or_else(same).unwrap_or_default()
    }
}

/// The first string after another.
pub(super) fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId::new(7);

    /// R-E14: empty and inverted ranges are empty, whichever end is excluded.
    #[test]
    fn empty_and_inverted_ranges_have_no_span() {
        use Bound::{Excluded, Included, Unbounded};
        let key = |key: &str| key.as_bytes().to_vec();
        let all = || (Unbounded, Unbounded);
        let is_empty = |partition, row| ScanRange::new(partition, row).span(TABLE).is_none();
        let empty = [
            (Included(key("b")), Included(key("a"))),
            (Excluded(key("a")), Included(key("a"))),
            (Included(key("a")), Excluded(key("a"))),
            (Excluded(key("a")), Excluded(key("a"))),
        ];
        for bounds in empty {
            assert!(is_empty(bounds.clone(), all()), "{bounds:?}");
            let one = (Included(key("p")), Included(key("p")));
            assert!(is_empty(all(), bounds.clone()), "{bounds:?}");
            assert!(is_empty(one, bounds.clone()), "{bounds:?}");
        }
        assert!(ScanRange::of_many(all(), Arc::from([])).span(TABLE).is_none());
        assert!(!is_empty(all(), all()));
        let point = (Included(key("a")), Included(key("a")));
        assert!(!is_empty(point.clone(), point));
    }
}
