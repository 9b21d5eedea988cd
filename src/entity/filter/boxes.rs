//! [`KeyBoxes`]: a set of entity keys as boxes, PartitionKeys by RowKeys.
//!
//! Invariant: boxes ascend, their PartitionKeys are disjoint, and none is empty, so walking them in
//! order walks the keys in order and meets none twice.

use std::sync::Arc;

use super::intervals::Interval;
use crate::key::KeyBounds;

/// Intervals that a set may have before it is replaced by a simpler one around it. A scan has all of
/// them in memory, RowKeys for each partition. Lists of 10,000 keys, which have two each at most,
/// are well below; a product of two such lists is not.
pub(super) const MAX_INTERVALS: usize = 1 << 15;

/// A set of keys: boxes in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBoxes(Vec<KeyBox>);

/// The entities of an interval of PartitionKeys whose RowKeys are in one of a list of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBox {
    pub(super) partitions: Interval,
    /// Boxes of one origin share it.
    pub(super) rows: Arc<[Interval]>,
}

impl KeyBox {
    /// The bounds of its PartitionKeys.
    pub(crate) fn partition(&self) -> KeyBounds {
        self.partitions.bounds()
    }

    /// The bounds of its RowKeys: ranges that ascend and are disjoint, one at least.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = KeyBounds> + DoubleEndedIterator {
        self.rows.iter().map(Interval::bounds)
    }

    /// Whether both have one list of RowKeys, so that whoever copies it can do so once.
    pub(crate) fn shares_rows(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows)
    }

    /// Its PartitionKey, if it has a single one.
    pub(crate) fn single_partition(&self) -> Option<&[u8]> {
        self.partitions.as_point()
    }

    /// Whether all RowKeys are in it.
    pub(crate) fn has_all_rows(&self) -> bool {
        self.rows.first().is_some_and(Interval::is_everything)
    }
}

impl KeyBoxes {
    /// All keys.
    pub(crate) fn everything() -> Self {
        Self::of(Some(Interval::everything()), Some(Interval::everything()))
    }

    /// The keys within both bounds.
    pub(crate) fn between(partition: &KeyBounds, row: &KeyBounds) -> Self {
        Self::of(Interval::between(partition), Interval::between(row))
    }

    /// The boxes, in key order.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, KeyBox> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all keys are in it.
    pub(crate) fn is_everything(&self) -> bool {
        matches!(&self.0[..], [boxed] if boxed.partitions.is_everything() && boxed.has_all_rows())
    }

    /// Whether it is a list of single keys.
    pub(super) fn are_points(&self) -> bool {
        let is_point = |interval: &Interval| interval.as_point().is_some();
        self.0.iter().all(|boxed| is_point(&boxed.partitions) && boxed.rows.iter().all(is_point))
    }

    pub(super) fn nothing() -> Self {
        Self(Vec::new())
    }

    pub(super) fn of(
        partitions: impl IntoIterator<Item = Interval>,
        rows: impl IntoIterator<Item = Interval>,
    ) -> Self {
        let rows: Arc<[Interval]> = rows.into_iter().collect();
        if rows.is_empty() {
            return Self::nothing();
        }
        let boxes = partitions.into_iter();
        Self(boxes.map(|partitions| KeyBox { partitions, rows: Arc::clone(&rows) }).collect())
    }

    /// Number of intervals: of PartitionKeys, and of RowKeys in each.
    pub(super) fn intervals(&self) -> usize {
        self.0.iter().map(|boxed| 1 + boxed.rows.len()).sum()
    }

    pub(super) fn from_ascending(boxes: Vec<KeyBox>) -> Self {
        Self(boxes)
    }

    /// The set, or one around it if it has more intervals than `limit`, which is 2 at least; true if
    /// it is such a one.
    pub(super) fn bounded(self, limit: usize) -> (Self, bool) {
        if self.intervals() <= limit {
            return (self, false);
        }
        let coarse = self.0.into_iter().map(|boxed| KeyBox { rows: hull(&boxed.rows), ..boxed });
        let coarse = Self(coarse.collect());
        if coarse.intervals() <= limit { (coarse, true) } else { (coarse.hull(), true) }
    }

    /// The smallest single box around the set.
    fn hull(&self) -> Self {
        let partitions = match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => Some(first.partitions.extended_to(&last.partitions)),
            _ => None,
        };
        let rows = self.0.iter().flat_map(|boxed| boxed.rows.iter().cloned());
        Self::of(partitions, rows.reduce(|hull, next| hull.around(&next)))
    }
}

/// The smallest single interval around a list.
pub(super) fn hull(list: &Arc<[Interval]>) -> Arc<[Interval]> {
    match (list.first(), list.last()) {
        (Some(first), Some(last)) if list.len() > 1 => Arc::from([first.extended_to(last)]),
        _ => Arc::clone(list),
    }
}
