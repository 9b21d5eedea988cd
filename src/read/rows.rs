//! [`RowSpan`]: intervals of RowKeys, which a scan goes through in each partition.
//!
//! Invariant: intervals are ascending and disjoint, none is empty, and there is one at least. Each
//! is an interval of what follows the partition's prefix in an encoded key, so a partition is
//! entered by remembering its prefix.

use std::ops::Bound;

use super::range::{KeyBounds, successor};
use crate::key;

/// Intervals of RowKeys, and the partition whose keys are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    intervals: Vec<Interval>,
    /// The first interval that ends after the key looked at last.
    at: usize,
    /// The partition entered: the prefix of its keys.
    partition: Vec<u8>,
    /// A key that was given out.
    bound: Vec<u8>,
}

/// An interval of what follows a partition's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interval {
    /// The first key; empty if unbounded.
    low: Vec<u8>,
    /// The first key no longer in it; `None` if unbounded.
    high: Option<Vec<u8>>,
}

impl Interval {
    /// `None` if it is empty.
    fn new(bounds: &KeyBounds) -> Option<Self> {
        let component = |rk: &Vec<u8>| {
            let mut out = Vec::with_capacity(rk.len() + 2);
            key::push_component(&mut out, rk);
            out
        };
        // No key is a prefix of another, so an encoded key and a byte is the first key after it.
        let low = match &bounds.0 {
            Bound::Included(rk) => component(rk),
            Bound::Excluded(rk) => successor(&component(rk)),
            Bound::Unbounded => Vec::new(),
        };
        let high = match &bounds.1 {
            Bound::Included(rk) => Some(successor(&component(rk))),
            Bound::Excluded(rk) => Some(component(rk)),
            Bound::Unbounded => None,
        };
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

impl RowSpan {
    /// `None` if there is no RowKey in the ranges, which are ascending and disjoint.
    pub(super) fn new(ranges: &[KeyBounds]) -> Option<Self> {
        let intervals: Vec<Interval> = ranges.iter().filter_map(Interval::new).collect();
        debug_assert!(intervals.is_sorted_by(|a, b| !a.ends_after(&b.low)), "{ranges:?}");
        let none = intervals.is_empty();
        (!none).then_some(Self { intervals, at: 0, partition: Vec::new(), bound: Vec::new() })
    }

    pub(super) fn is_one(&self) -> bool {
        self.intervals.len() == 1
    }

    /// Whether every RowKey is in it.
    pub(super) fn is_unbounded(&self) -> bool {
        matches!(&*self.intervals, [Interval { low, high: None }] if low.is_empty())
    }

    /// The first possible key in a partition.
    pub(super) fn low_in(&self, prefix: &[u8]) -> Vec<u8> {
        let low = self.intervals.first().map_or(&[][..], |first| &first.low);
        [prefix, low].concat()
    }

    /// The first key after all possible ones in a partition.
    pub(super) fn high_in(&self, prefix: &[u8]) -> Vec<u8> {
        match self.intervals.last() {
            Some(Interval { high: Some(high), .. }) => [prefix, high].concat(),
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
