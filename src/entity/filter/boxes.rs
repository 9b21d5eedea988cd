//! [`KeyBoxes`]: a set of entity keys as boxes, PartitionKeys by RowKeys.
//!
//! Invariant: boxes ascend, their PartitionKeys are disjoint, and none is empty, so walking them in
//! order walks the keys in order and meets none twice.

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use super::intervals::Interval;
use crate::key::KeyBounds;

/// Intervals that a set may have before it is replaced by a simpler one around it. A scan has all of
/// them in memory, RowKeys for each partition. Lists of 10,000 keys, which have two each at most,
/// are well below; a product of two such lists is not.
pub(super) const MAX_INTERVALS: usize = 1 << 15;

/// A set of keys: boxes in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyBoxes<'a>(Boxes<'a>);

/// Most sets are of one box.
pub(super) type Boxes<'a> = SmallVec<[KeyBox<'a>; 1]>;

/// The entities of an interval of PartitionKeys whose RowKeys are in one of a list of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyBox<'a> {
    pub(super) partitions: Interval<'a>,
    pub(super) rows: Rows<'a>,
}

/// A list of intervals of RowKeys, one at least but while sets are joined.
#[derive(Clone, Debug)]
pub(super) enum Rows<'a> {
    One(Interval<'a>),
    /// Boxes of one origin share it.
    Many(Arc<[Interval<'a>]>),
}

impl<'a> Deref for Rows<'a> {
    type Target = [Interval<'a>];

    fn deref(&self) -> &[Interval<'a>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(list) => list,
        }
    }
}

impl<'a> FromIterator<Interval<'a>> for Rows<'a> {
    fn from_iter<I: IntoIterator<Item = Interval<'a>>>(list: I) -> Self {
        let mut list = list.into_iter();
        match (list.next(), list.next()) {
            (Some(one), None) => Self::One(one),
            (first, second) => Self::Many(first.into_iter().chain(second).chain(list).collect()),
        }
    }
}

impl PartialEq for Rows<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.are(other) || **self == **other
    }
}

impl Eq for Rows<'_> {}

impl Rows<'_> {
    pub(super) const ALL: Self = Self::One(Interval::EVERYTHING);

    /// Whether both are one list that is shared.
    pub(super) fn are(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Many(a), Self::Many(b)) if Arc::ptr_eq(a, b))
    }

    /// Whether all RowKeys are in it.
    pub(super) fn are_all(&self) -> bool {
        self.first().is_some_and(Interval::is_everything)
    }

    /// The smallest single interval around the list.
    pub(super) fn hull(&self) -> Self {
        match &**self {
            [first, .., last] => Self::One(first.extended_to(last)),
            _ => self.clone(),
        }
    }
}

impl<'a> KeyBoxes<'a> {
    /// The keys within both bounds.
    pub(super) fn between(partition: &'a KeyBounds, row: &'a KeyBounds) -> Self {
        Self::of(Interval::between(partition), &Interval::between(row).into_iter().collect())
    }

    pub(super) fn nothing() -> Self {
        Self(Boxes::new())
    }

    pub(super) fn of(partitions: impl IntoIterator<Item = Interval<'a>>, rows: &Rows<'a>) -> Self {
        if rows.is_empty() {
            return Self::nothing();
        }
        let boxes = partitions.into_iter();
        Self(boxes.map(|partitions| KeyBox { partitions, rows: rows.clone() }).collect())
    }

    pub(super) fn from_ascending(boxes: Boxes<'a>) -> Self {
        Self(boxes)
    }

    /// The boxes, in key order.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, KeyBox<'a>> {
        self.0.iter()
    }

    /// The only box, if there is only one.
    pub(super) fn single(&self) -> Option<&KeyBox<'a>> {
        match &self.0[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all keys are in it.
    pub(super) fn is_everything(&self) -> bool {
        self.single().is_some_and(|only| only.partitions.is_everything() && only.rows.are_all())
    }

    /// Number of intervals: of PartitionKeys, and of RowKeys in each.
    pub(super) fn intervals(&self) -> usize {
        self.0.iter().map(|boxed| 1 + boxed.rows.len()).sum()
    }

    /// The set, or one around it if it has more intervals than `limit`, which is 2 at least; true if
    /// it is such a one.
    pub(super) fn bounded(self, limit: usize) -> (Self, bool) {
        if self.intervals() <= limit {
            return (self, false);
        }
        let coarse = self.0.into_iter().map(|boxed| KeyBox { rows: boxed.rows.hull(), ..boxed });
        let coarse = Self(coarse.collect());
        if coarse.intervals() <= limit { (coarse, true) } else { (coarse.hull(), true) }
    }

    /// The smallest single box around the set.
    fn hull(&self) -> Self {
        let partitions = match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => Some(first.partitions.extended_to(&last.partitions)),
            _ => None,
        };
        let rows = self.0.iter().flat_map(|boxed| boxed.rows.iter().copied());
        Self::of(partitions, &rows.reduce(|hull, next| hull.around(&next)).into_iter().collect())
    }
}
