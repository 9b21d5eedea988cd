//! Intersection and union of [`KeyBoxes`].
//!
//! Both walk the boxes of two sets in order, once. Invariant: the result holds every key of the
//! exact result, in [`MAX_INTERVALS`] intervals at most. Once there are as many while it is made,
//! lists of RowKeys are replaced by the intervals around them before they are put together.

use std::sync::Arc;

use super::boxes::{KeyBox, KeyBoxes, MAX_INTERVALS, hull};
use super::intervals::{self, Interval};

type Rows = Arc<[Interval]>;

impl KeyBoxes {
    /// Keys that are in both sets, or a set around them; true if it is such a one.
    pub(super) fn intersection(&self, other: &Self) -> (Self, bool) {
        self.intersection_in(other, MAX_INTERVALS)
    }

    fn intersection_in(&self, other: &Self, limit: usize) -> (Self, bool) {
        let mut join = Join { limit, boxes: Vec::new(), intervals: 0 };
        let (mut a, mut b) = (self.iter().peekable(), other.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if let Some(partitions) = x.partitions.intersection(&y.partitions) {
                let rows = join.in_both(&x.rows, &y.rows);
                join.push(partitions, &rows);
            }
            let shorter = if x.partitions.ends_before(&y.partitions) { &mut a } else { &mut b };
            shorter.next();
        }
        join.finish()
    }

    /// Keys that are in one set at least, or a set around them; true if it is such a one.
    pub(super) fn union(&self, other: &Self) -> (Self, bool) {
        self.union_in(other, MAX_INTERVALS)
    }

    fn union_in(&self, other: &Self, limit: usize) -> (Self, bool) {
        let mut join = Join { limit, boxes: Vec::new(), intervals: 0 };
        let (mut a, mut b) = (self.iter().cloned(), other.iter().cloned());
        let (mut x, mut y) = (a.next(), b.next());
        loop {
            match (x.take(), y.take()) {
                (Some(first), Some(second)) => {
                    let (first, second) = join.push_first(first, second);
                    x = first.or_else(|| a.next());
                    y = second.or_else(|| b.next());
                }
                (Some(last), None) | (None, Some(last)) => {
                    join.push(last.partitions, &last.rows);
                    x = a.next();
                    y = b.next();
                }
                (None, None) => return join.finish(),
            }
        }
    }
}

/// A set that is made in key order.
struct Join {
    limit: usize,
    boxes: Vec<KeyBox>,
    intervals: usize,
}

impl Join {
    fn finish(self) -> (KeyBoxes, bool) {
        KeyBoxes::from_ascending(self.boxes).bounded(self.limit)
    }

    fn in_both(&self, a: &Rows, b: &Rows) -> Rows {
        if Arc::ptr_eq(a, b) || is_everything(b) {
            Arc::clone(a)
        } else if is_everything(a) {
            Arc::clone(b)
        } else if self.is_full() {
            intervals::intersection(&hull(a), &hull(b)).into()
        } else {
            intervals::intersection(a, b).into()
        }
    }

    fn in_one(&self, a: &Rows, b: &Rows) -> Rows {
        if Arc::ptr_eq(a, b) || is_everything(a) {
            Arc::clone(a)
        } else if is_everything(b) {
            Arc::clone(b)
        } else if self.is_full() {
            hull(&intervals::union(&hull(a), &hull(b)).into())
        } else {
            intervals::union(a, b).into()
        }
    }

    /// Whether the exact result has too many intervals, whatever is still to come.
    fn is_full(&self) -> bool {
        self.intervals > self.limit
    }

    /// Adds what comes first in one of two boxes, or in both; what is left of them.
    fn push_first(&mut self, x: KeyBox, y: KeyBox) -> (Option<KeyBox>, Option<KeyBox>) {
        if x.partitions.low > y.partitions.low {
            let (y, x) = self.push_first(y, x);
            return (x, y);
        }
        if x.partitions.low < y.partitions.low {
            let until = &y.partitions.low;
            if x.partitions.ends_by(until) {
                self.push(x.partitions, &x.rows);
                return (None, Some(y));
            }
            let low = Arc::clone(&x.partitions.low);
            self.push(Interval { low, high: Some(Arc::clone(until)) }, &x.rows);
            return (x.from(until), Some(y));
        }
        let rows = self.in_one(&x.rows, &y.rows);
        let shorter = if x.partitions.ends_before(&y.partitions) { &x } else { &y };
        self.push(shorter.partitions.clone(), &rows);
        match shorter.partitions.high.clone() {
            Some(end) => (x.from(&end), y.from(&end)),
            None => (None, None),
        }
    }

    /// Adds a box after all others, joined with the last if that makes one box.
    fn push(&mut self, partitions: Interval, rows: &Rows) {
        if rows.is_empty() {
            return;
        }
        match self.boxes.last_mut() {
            Some(last)
                if last.partitions.high.as_ref() == Some(&partitions.low) && last.rows == *rows =>
            {
                last.partitions.high = partitions.high;
            }
            _ => {
                self.intervals += 1 + rows.len();
                self.boxes.push(KeyBox { partitions, rows: Arc::clone(rows) });
            }
        }
    }
}

impl KeyBox {
    /// What of it has PartitionKeys that are not before `key`.
    fn from(self, key: &Arc<[u8]>) -> Option<Self> {
        Some(Self { partitions: self.partitions.from(key)?, rows: self.rows })
    }
}

fn is_everything(rows: &Rows) -> bool {
    rows.first().is_some_and(Interval::is_everything)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"b", b"c", b"d"];

    fn interval() -> impl Strategy<Value = Option<Interval>> {
        let bound = || {
            let key = prop::sample::select(&KEYS[..]).prop_map(<[u8]>::to_vec);
            prop_oneof![
                1 => Just(std::ops::Bound::Unbounded),
                2 => key.clone().prop_map(std::ops::Bound::Included),
                2 => key.prop_map(std::ops::Bound::Excluded),
            ]
        };
        (bound(), bound()).prop_map(|bounds| Interval::between(&bounds))
    }

    /// Few partitions with long lists of rows, so that lists are what there is too much of.
    fn boxes() -> impl Strategy<Value = KeyBoxes> {
        let point = prop::sample::select(&KEYS[..]).prop_map(|key| Some(Interval::point(key)));
        let rows = prop::collection::vec(prop_oneof![3 => point, 1 => interval()], 1..6);
        let one = (interval(), rows).prop_map(|(partitions, rows)| {
            let list = rows.into_iter().flatten();
            let list = list.fold(Vec::new(), |list, rows| intervals::union(&list, &[rows]));
            KeyBoxes::of(partitions, list)
        });
        prop::collection::vec(one, 0..4)
            .prop_map(|list| list.iter().fold(KeyBoxes::nothing(), |all, one| all.union(one).0))
    }

    fn has(boxes: &KeyBoxes, partition_key: &[u8], row_key: &[u8]) -> bool {
        let within =
            |key: &[u8], interval: &Interval| Interval::point(key).intersection(interval).is_some();
        let in_rows = |boxed: &KeyBox| boxed.rows.iter().any(|rows| within(row_key, rows));
        boxes.iter().any(|boxed| within(partition_key, &boxed.partitions) && in_rows(boxed))
    }

    proptest! {
        /// R-D10: exact where there is room, else too large, never too small.
        #[test]
        fn sets_grow_and_never_shrink(a in boxes(), b in boxes(), limit in 2usize..16) {
            for (joined, is_union) in
                [(a.union_in(&b, limit), true), (a.intersection_in(&b, limit), false)]
            {
                let (joined, grown) = joined;
                prop_assert!(joined.intervals() <= limit, "{:?}", joined);
                for (partition_key, row_key) in KEYS.iter().flat_map(|pk| KEYS.map(|rk| (pk, rk))) {
                    let found = has(&joined, partition_key, row_key);
                    let (in_a, in_b) = (has(&a, partition_key, row_key), has(&b, partition_key, row_key));
                    let expected = if is_union { in_a || in_b } else { in_a && in_b };
                    prop_assert!(found == expected || grown && found, "{:?}", joined);
                }
            }
        }
    }
}
