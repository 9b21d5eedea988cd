//! [`KeyBoxes`]: a set of entity keys as boxes, PartitionKeys by RowKeys.
//!
//! Invariant: boxes ascend, their PartitionKeys are disjoint, and none is empty, so walking them in
//! order walks the keys in order and meets none twice.

use std::sync::Arc;

use super::intervals::{self, Interval, KeyBounds};

/// Intervals, of PartitionKeys and of RowKeys, that a set may have before it is replaced by a simpler
/// one around it: lists of 10,000 keys, which have two each at most, are well below.
pub(super) const MAX_INTERVALS: usize = 1 << 15;

/// A set of keys: boxes in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBoxes(Vec<KeyBox>);

/// The entities of an interval of PartitionKeys whose RowKeys are in one of a list of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBox {
    partitions: Interval,
    /// Many boxes share one list.
    rows: Arc<[Interval]>,
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

    /// Its PartitionKey, if it has a single one.
    pub(crate) fn single_partition(&self) -> Option<&[u8]> {
        self.partitions.as_point()
    }

    /// Its RowKeys one by one, if it is a list of such.
    #[cfg(test)]
    pub(crate) fn row_keys(&self) -> Option<Vec<&[u8]>> {
        self.rows.iter().map(Interval::as_point).collect()
    }

    /// Whether all RowKeys are in it.
    pub(crate) fn has_all_rows(&self) -> bool {
        self.rows.first().is_some_and(Interval::is_everything)
    }

    pub(super) fn partition_interval(&self) -> &Interval {
        &self.partitions
    }

    pub(super) fn row_intervals(&self) -> &[Interval] {
        &self.rows
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
        let mut last: Option<&Arc<[Interval]>> = None;
        self.0.iter().all(|boxed| {
            let known =
                last.replace(&boxed.rows).is_some_and(|rows| Arc::ptr_eq(rows, &boxed.rows));
            let is_point = |interval: &Interval| interval.as_point().is_some();
            is_point(&boxed.partitions) && (known || boxed.rows.iter().all(is_point))
        })
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

    /// Number of intervals, lists that neighbours share counted once.
    pub(super) fn intervals(&self) -> usize {
        let mut last: Option<&Arc<[Interval]>> = None;
        let each = self.0.iter().map(|boxed| {
            let shared =
                last.replace(&boxed.rows).is_some_and(|rows| Arc::ptr_eq(rows, &boxed.rows));
            1 + if shared { 0 } else { boxed.rows.len() }
        });
        each.sum()
    }

    /// The set, or one around it if it has too many intervals; true if it is such a one.
    pub(super) fn bounded(self) -> (Self, bool) {
        if self.intervals() <= MAX_INTERVALS {
            return (self, false);
        }
        let hull = |rows: &Arc<[Interval]>| match (rows.first(), rows.last()) {
            (Some(first), Some(last)) if rows.len() > 1 => Arc::from([first.extended_to(last)]),
            _ => Arc::clone(rows),
        };
        let coarse: Vec<KeyBox> = self
            .0
            .iter()
            .map(|boxed| KeyBox { partitions: boxed.partitions.clone(), rows: hull(&boxed.rows) })
            .collect();
        let coarse = Self(coarse);
        if coarse.intervals() <= MAX_INTERVALS { (coarse, true) } else { (coarse.hull(), true) }
    }

    /// The smallest single box around the set.
    fn hull(&self) -> Self {
        let partitions = match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => Some(first.partitions.extended_to(&last.partitions)),
            _ => None,
        };
        let rows = self.0.iter().flat_map(|boxed| boxed.rows.iter());
        let rows = rows.fold(None, |hull: Option<Interval>, next| {
            Some(match hull {
                None => next.clone(),
                Some(hull) if hull.low <= next.low => hull.extended_to(next),
                Some(hull) => next.extended_to(&hull),
            })
        });
        Self::of(partitions, rows)
    }

    /// Keys that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::nothing();
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if let Some(partitions) = x.partitions.intersection(&y.partitions) {
                both.push(partitions, &rows_in_both(&x.rows, &y.rows));
            }
            if x.partitions.ends_before(&y.partitions) {
                a.next()
            } else {
                b.next()
            };
        }
        both
    }

    /// Keys that are in one set at least.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut all = Self::nothing();
        let (mut a, mut b) = (self.0.iter().cloned(), other.0.iter().cloned());
        let (mut x, mut y) = (a.next(), b.next());
        loop {
            match (x.take(), y.take()) {
                (Some(first), Some(second)) => {
                    let (first, second) = all.push_first(first, second);
                    x = first.or_else(|| a.next());
                    y = second.or_else(|| b.next());
                }
                (Some(last), None) | (None, Some(last)) => {
                    all.push(last.partitions, &last.rows);
                    x = a.next();
                    y = b.next();
                }
                (None, None) => return all,
            }
        }
    }

    /// Adds what comes first in one of two boxes, or in both; what is left of them.
    fn push_first(&mut self, x: KeyBox, y: KeyBox) -> (Option<KeyBox>, Option<KeyBox>) {
        if x.partitions.low > y.partitions.low {
            let (y, x) = self.push_first(y, x);
            return (x, y);
        }
        if x.partitions.low < y.partitions.low {
            let until = &y.partitions.low;
            let part =
                Interval { low: Arc::clone(&x.partitions.low), high: Some(Arc::clone(until)) };
            if x.partitions.ends_by(until) {
                self.push(x.partitions, &x.rows);
                return (None, Some(y));
            }
            self.push(part, &x.rows);
            return (x.from(until), Some(y));
        }
        let rows = rows_in_one(&x.rows, &y.rows);
        let shorter = if x.partitions.ends_before(&y.partitions) { &x } else { &y };
        self.push(shorter.partitions.clone(), &rows);
        match shorter.partitions.high.clone() {
            Some(end) => (x.from(&end), y.from(&end)),
            None => (None, None),
        }
    }

    /// Adds a box after all others, joined with the last if that makes one box.
    fn push(&mut self, partitions: Interval, rows: &Arc<[Interval]>) {
        if rows.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last)
                if last.partitions.high.as_ref() == Some(&partitions.low) && last.rows == *rows =>
            {
                last.partitions.high = partitions.high;
            }
            _ => self.0.push(KeyBox { partitions, rows: Arc::clone(rows) }),
        }
    }
}

impl KeyBox {
    /// What of it has PartitionKeys that are not before `key`.
    fn from(self, key: &Arc<[u8]>) -> Option<Self> {
        Some(Self { partitions: self.partitions.from(key)?, rows: self.rows })
    }
}

fn is_everything(rows: &[Interval]) -> bool {
    rows.first().is_some_and(Interval::is_everything)
}

fn rows_in_both(a: &Arc<[Interval]>, b: &Arc<[Interval]>) -> Arc<[Interval]> {
    if Arc::ptr_eq(a, b) || is_everything(b) {
        Arc::clone(a)
    } else if is_everything(a) {
        Arc::clone(b)
    } else {
        intervals::intersection(a, b).into()
    }
}

fn rows_in_one(a: &Arc<[Interval]>, b: &Arc<[Interval]>) -> Arc<[Interval]> {
    if Arc::ptr_eq(a, b) || is_everything(a) {
        Arc::clone(a)
    } else if is_everything(b) {
        Arc::clone(b)
    } else {
        intervals::union(a, b).into()
    }
}
