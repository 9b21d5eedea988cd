//! Intersection and union of [`KeyBoxes`].
//!
//! Both walk the boxes of two sets in order, once. Invariant: the result holds every key of the
//! exact result, in [`MAX_INTERVALS`] intervals at most. Once there are as many while it is made,
//! lists of RowKeys are replaced by the intervals around them before they are put together.

use super::boxes::{Boxes, KeyBox, KeyBoxes, MAX_INTERVALS, Rows};
use super::intervals::{self, Interval, Place};

impl<'a> KeyBoxes<'a> {
    /// Keys that are in both sets, or a set around them; true if it is such a one.
    pub(super) fn intersection(&self, other: &Self) -> (Self, bool) {
        self.intersection_in(other, MAX_INTERVALS)
    }

    fn intersection_in(&self, other: &Self, limit: usize) -> (Self, bool) {
        let mut join = Join { limit, boxes: Boxes::new(), intervals: 0 };
        let (mut a, mut b) = (self.iter().peekable(), other.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if let Some(partitions) = x.partitions.intersection(&y.partitions) {
                let rows = join.in_both(&x.rows, &y.rows);
                join.push(partitions, rows);
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
        let mut join = Join { limit, boxes: Boxes::new(), intervals: 0 };
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
                    join.push(last.partitions, last.rows);
                    x = a.next();
                    y = b.next();
                }
                (None, None) => return join.finish(),
            }
        }
    }
}

/// A set that is made in key order.
struct Join<'a> {
    limit: usize,
    boxes: Boxes<'a>,
    intervals: usize,
}

impl<'a> Join<'a> {
    fn finish(self) -> (KeyBoxes<'a>, bool) {
        KeyBoxes::from_ascending(self.boxes).bounded(self.limit)
    }

    fn in_both(&self, a: &Rows<'a>, b: &Rows<'a>) -> Rows<'a> {
        if a.are(b) || b.are_all() {
            a.clone()
        } else if a.are_all() {
            b.clone()
        } else if let (Rows::One(a), Rows::One(b)) = (a, b) {
            a.intersection(b).into_iter().collect()
        } else if self.is_full() {
            intervals::intersection(&a.hull(), &b.hull()).into_iter().collect()
        } else {
            intervals::intersection(a, b).into_iter().collect()
        }
    }

    fn in_one(&self, a: &Rows<'a>, b: &Rows<'a>) -> Rows<'a> {
        if a.are(b) || a.are_all() {
            a.clone()
        } else if b.are_all() {
            b.clone()
        } else if self.is_full() {
            Rows::from_iter(intervals::union(a.hull().iter().chain(&*b.hull()).copied())).hull()
        } else {
            intervals::union(a.iter().chain(&**b).copied()).into_iter().collect()
        }
    }

    /// Whether the exact result has too many intervals, whatever is still to come.
    fn is_full(&self) -> bool {
        self.intervals > self.limit
    }

    /// Adds what comes first in one of two boxes, or in both; what is left of them.
    fn push_first(
        &mut self,
        x: KeyBox<'a>,
        y: KeyBox<'a>,
    ) -> (Option<KeyBox<'a>>, Option<KeyBox<'a>>) {
        if x.partitions.low > y.partitions.low {
            let (y, x) = self.push_first(y, x);
            return (x, y);
        }
        if x.partitions.low < y.partitions.low {
            let until = y.partitions.low;
            if x.partitions.ends_by(until) {
                self.push(x.partitions, x.rows);
                return (None, Some(y));
            }
            self.push(Interval { high: Some(until), ..x.partitions }, x.rows.clone());
            return (x.from(until), Some(y));
        }
        let rows = self.in_one(&x.rows, &y.rows);
        let ends_first = x.partitions.ends_before(&y.partitions);
        let shorter = if ends_first { x.partitions } else { y.partitions };
        self.push(shorter, rows);
        match shorter.high {
            Some(end) => (x.from(end), y.from(end)),
            None => (None, None),
        }
    }

    /// Adds a box after all others, joined with the last if that makes one box.
    fn push(&mut self, partitions: Interval<'a>, rows: Rows<'a>) {
        if rows.is_empty() {
            return;
        }
        match self.boxes.last_mut() {
            Some(last) if last.partitions.high == Some(partitions.low) && last.rows == rows => {
                last.partitions.high = partitions.high;
            }
            _ => {
                self.intervals += 1 + rows.len();
                self.boxes.push(KeyBox { partitions, rows });
            }
        }
    }
}

impl<'a> KeyBox<'a> {
    /// What of it has PartitionKeys that are not before a place.
    fn from(self, place: Place<'a>) -> Option<Self> {
        Some(Self { partitions: self.partitions.from(place)?, rows: self.rows })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"b", b"c", b"d"];

    fn place() -> impl Strategy<Value = Place<'static>> {
        let key = prop::sample::select(&KEYS[..]);
        (key, any::<bool>()).prop_map(|(key, behind)| match behind {
            true => Place::behind(key),
            false => Place::before(key),
        })
    }

    fn interval() -> impl Strategy<Value = Option<Interval<'static>>> {
        (place(), prop::option::of(place())).prop_map(|(low, high)| match high {
            Some(high) => Interval::up_to(high)?.from(low),
            None => Some(Interval::from_place(low)),
        })
    }

    /// Few partitions with long lists of rows, so that lists are what there is too much of.
    fn boxes() -> impl Strategy<Value = KeyBoxes<'static>> {
        let point = prop::sample::select(&KEYS[..]).prop_map(|key| Some(Interval::point(key)));
        let rows = prop::collection::vec(prop_oneof![3 => point, 1 => interval()], 1..6);
        let one = (interval(), rows).prop_map(|(partitions, rows)| {
            let list = intervals::union(rows.into_iter().flatten());
            KeyBoxes::of(partitions, &list.into_iter().collect())
        });
        prop::collection::vec(one, 0..4)
            .prop_map(|list| list.iter().fold(KeyBoxes::nothing(), |all, one| all.union(one).0))
    }

    fn has(boxes: &KeyBoxes<'_>, partition_key: &[u8], row_key: &[u8]) -> bool {
        let within = |key: &[u8], interval: &Interval<'_>| {
            Interval::point(key).intersection(interval).is_some()
        };
        let in_rows = |boxed: &KeyBox<'_>| boxed.rows.iter().any(|rows| within(row_key, rows));
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
