//! [`RowSpan`]: intervals of RowKeys, which a scan goes through in each partition.
//!
//! Invariant: intervals are ascending and disjoint, none is empty, and there is one at least. Each
//! is an interval of what follows the partition's prefix in an encoded key, so a partition is
//! entered by remembering its prefix.

use std::ops::Bound;

use crate::key::{self, KeyBounds};

/// Intervals of RowKeys, and the partition whose keys are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    intervals: Vec<RowInterval>,
    /// The first interval that ends after the key looked at last.
    at: usize,
    /// The partition entered: the prefix of its keys.
    partition: Vec<u8>,
    /// A key that was given out.
    bound: Vec<u8>,
}

/// An interval of what follows a partition's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RowInterval {
    /// The first key; empty if unbounded.
    low: Vec<u8>,
    /// The first key no longer in it; `None` if unbounded.
    high: Option<Vec<u8>>,
}

impl RowInterval {
    /// `None` if it is empty.
    fn new(bounds: &KeyBounds) -> Option<Self> {
        let mut low = Vec::new();
        push_start(&mut low, &bounds.0);
        let bounded = !matches!(bounds.1, Bound::Unbounded);
        let high = bounded.then(|| before_end(&[], &bounds.1));
        let is_empty = high.as_ref().is_some_and(|high| low >= *high);
        (!is_empty).then_some(Self { low, high })
    }

    #[inline]
    fn ends_after(&self, suffix: &[u8]) -> bool {
        self.high.as_ref().is_none_or(|high| *suffix < **high)
    }

    #[inline]
    fn contains(&self, suffix: &[u8]) -> bool {
        *self.low <= *suffix && self.ends_after(suffix)
    }
}

/// Appends to a prefix what makes it the first key whose RowKey is not before `from`.
pub(super) fn push_start(prefix: &mut Vec<u8>, from: &Bound<Vec<u8>>) {
    match from {
        Bound::Included(rk) => push_row(prefix, rk, None),
        Bound::Excluded(rk) => push_row(prefix, rk, Some(0)),
        Bound::Unbounded => {}
    }
}

/// The first key after those with a prefix whose RowKey is not after `to`.
pub(super) fn before_end(prefix: &[u8], to: &Bound<Vec<u8>>) -> Vec<u8> {
    let (rk, more) = match to {
        Bound::Included(rk) => (rk, Some(0)),
        Bound::Excluded(rk) => (rk, None),
        Bound::Unbounded => return key::prefix_end(prefix),
    };
    let mut key = Vec::with_capacity(prefix.len() + rk.len() + 2);
    key.extend_from_slice(prefix);
    push_row(&mut key, rk, more);
    key
}

/// Length of the RowKey that a bound names.
pub(super) fn key_len(bound: &Bound<Vec<u8>>) -> usize {
    match bound {
        Bound::Included(rk) | Bound::Excluded(rk) => rk.len(),
        Bound::Unbounded => 0,
    }
}

/// Appends a RowKey. No key is a prefix of another, so with a byte more it is the first after it.
fn push_row(prefix: &mut Vec<u8>, row_key: &[u8], more: Option<u8>) {
    key::push_component(prefix, row_key);
    prefix.extend(more);
}

impl RowSpan {
    /// `None` if there is no RowKey in the ranges, which are ascending and disjoint.
    pub(super) fn new(ranges: &[KeyBounds]) -> Option<Self> {
        let intervals: Vec<RowInterval> = ranges.iter().filter_map(RowInterval::new).collect();
        debug_assert!(intervals.is_sorted_by(|a, b| !a.ends_after(&b.low)), "{ranges:?}");
        let none = intervals.is_empty();
        (!none).then_some(Self { intervals, at: 0, partition: Vec::new(), bound: Vec::new() })
    }

    pub(super) fn is_one(&self) -> bool {
        self.intervals.len() == 1
    }

    /// Whether every RowKey is in it.
    pub(super) fn is_unbounded(&self) -> bool {
        matches!(&*self.intervals, [RowInterval { low, high: None }] if low.is_empty())
    }

    /// The first possible key in a partition.
    pub(super) fn low_in(&self, prefix: &[u8]) -> Vec<u8> {
        let low = self.intervals.first().map_or(&[][..], |first| &first.low);
        [prefix, low].concat()
    }

    /// The first key after all possible ones in a partition.
    pub(super) fn high_in(&self, prefix: &[u8]) -> Vec<u8> {
        match self.intervals.last() {
            Some(RowInterval { high: Some(high), .. }) => [prefix, high].concat(),
            _ => key::prefix_end(prefix),
        }
    }

    /// Whether a key is in one of the intervals. Its partition becomes the one entered.
    #[inline]
    pub(super) fn contains(&mut self, key: &[u8]) -> bool {
        let suffix = key.strip_prefix(&*self.partition).filter(|_| !self.partition.is_empty());
        let suffix = suffix.unwrap_or_else(|| self.enter(key));
        let same = self.intervals.get(self.at).is_some_and(|interval| interval.contains(suffix));
        same || self.search(suffix)
    }

    fn search(&mut self, suffix: &[u8]) -> bool {
        self.at = self.intervals.partition_point(|interval| !interval.ends_after(suffix));
        self.intervals.get(self.at).is_some_and(|interval| interval.contains(suffix))
    }

    #[cold]
    fn enter<'k>(&mut self, key: &'k [u8]) -> &'k [u8] {
        let (prefix, suffix) = key.split_at(key::partition_len(key));
        self.partition.clear();
        self.partition.extend_from_slice(prefix);
        suffix
    }

    /// Where the keys go on after one that is in no interval: the start of the next interval, or
    /// the end of the partition.
    pub(super) fn onward(&mut self) -> &[u8] {
        match self.intervals.get(self.at) {
            Some(next) => {
                self.bound.clear();
                self.bound.extend_from_slice(&self.partition);
                self.bound.extend_from_slice(&next.low);
            }
            None => self.bound = key::prefix_end(&self.partition),
        }
        &self.bound
    }

    /// Before which key they go on the other way: the end of the interval before, or the start of
    /// the partition.
    pub(super) fn back(&mut self) -> &[u8] {
        let before = self.at.checked_sub(1).and_then(|before| self.intervals.get(before));
        self.bound.clear();
        self.bound.extend_from_slice(&self.partition);
        self.bound.extend_from_slice(before.and_then(|b| b.high.as_deref()).unwrap_or_default());
        &self.bound
    }
}
