//! Which keys a scan is about: [`ScanRange`] as the caller says it, [`Span`] and [`RowSpan`] as
//! encoded keys.
//!
//! Invariant: every key of the range is in its span, `low <= key < high`; where the span holds
//! other keys too (a RowKey range in several partitions), the row span tells them apart and says
//! where to go on.

use std::ops::Bound;

use crate::key::{self, TableId};

/// Which way a page goes through the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Reverse,
}

/// Both ends of a range of PartitionKeys or RowKeys.
pub(crate) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The entities of one table whose PartitionKey and RowKey each are in a range (R-E14).
#[derive(Clone, Debug)]
pub(crate) struct ScanRange {
    pub(crate) table: TableId,
    pub(crate) partition: KeyBounds,
    pub(crate) row: KeyBounds,
    pub(crate) direction: Direction,
}

/// PartitionKey and RowKey of the first key not yet examined (R-E12, R-E13).
pub(crate) type Continuation = (Vec<u8>, Vec<u8>);

/// The smallest interval of encoded keys around a range, from where a page starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: Vec<u8>,
    /// Exclusive.
    pub(crate) high: Vec<u8>,
    /// A prefix of all keys of the span.
    pub(crate) shared: Vec<u8>,
    /// The encoded partition, if the range is about a single one.
    pub(crate) partition: Option<Vec<u8>>,
    /// For a RowKey range in several partitions.
    pub(crate) rows: Option<RowSpan>,
    /// Length of the encoded table id.
    pub(crate) table_len: usize,
}

impl ScanRange {
    /// The span from `start` on; `None` if it is empty.
    pub(crate) fn span(&self, start: Option<Continuation>) -> Option<Span> {
        let rows = RowSpan::new(&self.row)?;
        let mut table = Vec::new();
        key::push_table(&mut table, self.table);
        let prefix = |pk: &Vec<u8>| key::encode_partition(self.table, pk);

        let mut low = match &self.partition.0 {
            Bound::Included(pk) => rows.low_in(&prefix(pk)),
            Bound::Excluded(pk) => key::prefix_end(&prefix(pk)),
            Bound::Unbounded => table.clone(),
        };
        let mut high = match &self.partition.1 {
            Bound::Included(pk) => rows.high_in(&prefix(pk)),
            Bound::Excluded(pk) => prefix(pk),
            Bound::Unbounded => key::prefix_end(&table),
        };
        if let Some((pk, rk)) = start {
            let start = key::encode(self.table, &pk, &rk);
            match self.direction {
                Direction::Forward => low = low.max(start),
                Direction::Reverse => high = high.min(after(start)),
            }
        }
        if low >= high {
            return None;
        }
        let partition = match &self.partition {
            (Bound::Included(from), Bound::Included(to)) if from == to => Some(prefix(from)),
            _ => None,
        };
        let shared = match &partition {
            Some(partition) => partition.clone(),
            None => low.iter().zip(&high).take_while(|(a, b)| a == b).map(|(a, _)| *a).collect(),
        };
        let rows = (partition.is_none() && !rows.is_unbounded()).then_some(rows);
        Some(Span { low, high, shared, partition, rows, table_len: table.len() })
    }
}

/// The first possible key after an encoded key: no key is a prefix of another.
fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// Where a key lies in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before the RowKey range.
    Before,
    /// In it.
    Within,
    /// After it.
    After,
}

/// A RowKey range, and its interval of encoded keys in the partition last entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    /// What follows the partition's prefix in the first key; empty if unbounded.
    suffix_low: Vec<u8>,
    /// What follows it in the first key no longer in the range; `None` if unbounded.
    suffix_high: Option<Vec<u8>>,
    /// The partition entered: the prefix of its keys.
    partition: Vec<u8>,
    partition_low: Vec<u8>,
    partition_high: Vec<u8>,
    partition_end: Vec<u8>,
}

impl RowSpan {
    /// `None` if the range is empty.
    fn new(bounds: &KeyBounds) -> Option<Self> {
        let component = |rk: &Vec<u8>| {
            let mut out = Vec::with_capacity(rk.len() + 2);
            key::push_component(&mut out, rk);
            out
        };
        let suffix_low = match &bounds.0 {
            Bound::Included(rk) => component(rk),
            Bound::Excluded(rk) => after(component(rk)),
            Bound::Unbounded => Vec::new(),
        };
        let suffix_high = match &bounds.1 {
            Bound::Included(rk) => Some(after(component(rk))),
            Bound::Excluded(rk) => Some(component(rk)),
            Bound::Unbounded => None,
        };
        if suffix_high.as_ref().is_some_and(|high| suffix_low >= *high) {
            return None;
        }
        Some(Self {
            suffix_low,
            suffix_high,
            partition: Vec::new(),
            partition_low: Vec::new(),
            partition_high: Vec::new(),
            partition_end: Vec::new(),
        })
    }

    fn is_unbounded(&self) -> bool {
        self.suffix_low.is_empty() && self.suffix_high.is_none()
    }

    fn low_in(&self, prefix: &[u8]) -> Vec<u8> {
        [prefix, &self.suffix_low].concat()
    }

    fn high_in(&self, prefix: &[u8]) -> Vec<u8> {
        match &self.suffix_high {
            Some(high) => [prefix, high].concat(),
            None => key::prefix_end(prefix),
        }
    }

    /// Where the key lies in its partition, which becomes the one entered.
    pub(crate) fn place(&mut self, key: &[u8]) -> Place {
        if self.partition.is_empty() || !key.starts_with(&self.partition) {
            self.enter(key);
        }
        if *key < *self.partition_low {
            Place::Before
        } else if *key < *self.partition_high {
            Place::Within
        } else {
            Place::After
        }
    }

    #[cold]
    fn enter(&mut self, key: &[u8]) {
        let prefix = key.get(..key::partition_len(key)).unwrap_or_default();
        self.partition.clear();
        self.partition.extend_from_slice(prefix);
        self.partition_low.clear();
        self.partition_low.extend_from_slice(prefix);
        self.partition_low.extend_from_slice(&self.suffix_low);
        self.partition_end = key::prefix_end(prefix);
        self.partition_high.clear();
        match &self.suffix_high {
            Some(high) => {
                self.partition_high.extend_from_slice(prefix);
                self.partition_high.extend_from_slice(high);
            }
            None => self.partition_high.extend_from_slice(&self.partition_end),
        }
    }

    /// The first key of the range in the partition entered.
    pub(crate) fn low(&self) -> &[u8] {
        &self.partition_low
    }

    /// The first key after the range in the partition entered.
    pub(crate) fn high(&self) -> &[u8] {
        &self.partition_high
    }

    /// The first key after the partition entered.
    pub(crate) fn end(&self) -> &[u8] {
        &self.partition_end
    }

    /// The prefix of all keys of the partition entered.
    pub(crate) fn partition(&self) -> &[u8] {
        &self.partition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(partition: KeyBounds, row: KeyBounds) -> ScanRange {
        ScanRange { table: TableId::new(7), partition, row, direction: Direction::Forward }
    }

    /// R-E14: empty and inverted ranges are empty, whichever end is excluded.
    #[test]
    fn empty_and_inverted_ranges_have_no_span() {
        use Bound::{Excluded, Included, Unbounded};
        let key = |key: &str| key.as_bytes().to_vec();
        let all = || (Unbounded, Unbounded);
        let empty = [
            (Included(key("b")), Included(key("a"))),
            (Excluded(key("a")), Included(key("a"))),
            (Included(key("a")), Excluded(key("a"))),
            (Excluded(key("a")), Excluded(key("a"))),
        ];
        for bounds in empty {
            assert_eq!(range(bounds.clone(), all()).span(None), None, "{bounds:?}");
            let one = (Included(key("p")), Included(key("p")));
            assert_eq!(range(all(), bounds.clone()).span(None), None, "{bounds:?}");
            assert_eq!(range(one, bounds.clone()).span(None), None, "{bounds:?}");
        }
        assert!(range(all(), all()).span(None).is_some());
        let point = (Included(key("a")), Included(key("a")));
        assert!(range(point.clone(), point).span(None).is_some());
    }
}
