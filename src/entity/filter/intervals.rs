//! [`Interval`]: keys between two keys; and lists of them, which are sets of keys.
//!
//! Invariant: an interval is not empty; the intervals of a list ascend and do not touch, so a set
//! of keys is one list only. Ends are half-open: the first key after `k` is `k` with a zero byte
//! behind it, so an open or closed end on either side is exactly such an end.

use std::ops::Bound;
use std::sync::Arc;

use crate::key::KeyBounds;

/// From `low` to before `high`, or on to the last key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) low: Arc<[u8]>,
    pub(super) high: Option<Arc<[u8]>>,
}

/// The first key after `key`.
fn successor(key: &[u8]) -> Arc<[u8]> {
    key.iter().copied().chain([0]).collect()
}

/// The key that `key` is the first one after, if there is such a one.
fn predecessor(key: &[u8]) -> Option<&[u8]> {
    key.split_last().filter(|(last, _)| **last == 0).map(|(_, before)| before)
}

impl Interval {
    pub(super) fn everything() -> Self {
        Self { low: Arc::from([]), high: None }
    }

    pub(super) fn point(key: &[u8]) -> Self {
        Self { low: key.into(), high: Some(successor(key)) }
    }

    /// From `key` on, or from after it.
    pub(super) fn above(key: &[u8], inclusive: bool) -> Self {
        Self { low: if inclusive { key.into() } else { successor(key) }, high: None }
    }

    /// Up to before `key`, or to it; `None` if that is empty.
    pub(super) fn below(key: &[u8], inclusive: bool) -> Option<Self> {
        let high = if inclusive { successor(key) } else { key.into() };
        Self { low: Arc::from([]), high: Some(high) }.non_empty()
    }

    /// The keys between these ends; `None` if there are none.
    pub(super) fn between(bounds: &KeyBounds) -> Option<Self> {
        let low = match &bounds.0 {
            Bound::Included(key) => key[..].into(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Arc::from([]),
        };
        let high = match &bounds.1 {
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key[..].into()),
            Bound::Unbounded => None,
        };
        Self { low, high }.non_empty()
    }

    fn non_empty(self) -> Option<Self> {
        (!self.ends_by(&self.low)).then_some(self)
    }

    pub(super) fn is_everything(&self) -> bool {
        self.low.is_empty() && self.high.is_none()
    }

    /// The only key, if there is only one.
    pub(super) fn as_point(&self) -> Option<&[u8]> {
        let last = predecessor(self.high.as_deref()?)?;
        (*last == *self.low).then_some(last)
    }

    /// Whether all keys are before `key`.
    pub(super) fn ends_by(&self, key: &[u8]) -> bool {
        self.high.as_ref().is_some_and(|high| **high <= *key)
    }

    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        let low = if self.low >= other.low { &self.low } else { &other.low };
        let high = if self.ends_before(other) { &self.high } else { &other.high };
        Self { low: Arc::clone(low), high: high.clone() }.non_empty()
    }

    /// Whether it ends before `other` does.
    pub(super) fn ends_before(&self, other: &Self) -> bool {
        match (&self.high, &other.high) {
            (Some(high), Some(other)) => high < other,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// The smallest interval around both, of which `self` begins no later.
    pub(super) fn extended_to(&self, other: &Self) -> Self {
        let high = if self.ends_before(other) { &other.high } else { &self.high };
        Self { low: Arc::clone(&self.low), high: high.clone() }
    }

    /// The smallest interval around both.
    pub(super) fn around(&self, other: &Self) -> Self {
        if self.low <= other.low { self.extended_to(other) } else { other.extended_to(self) }
    }

    /// What of it is not before `key`.
    pub(super) fn from(self, key: &Arc<[u8]>) -> Option<Self> {
        if *key <= self.low {
            Some(self)
        } else {
            Self { low: Arc::clone(key), ..self }.non_empty()
        }
    }

    /// Its ends, in the form that excludes keys rather than naming the ones after them.
    pub(super) fn bounds(&self) -> KeyBounds {
        if let Some(key) = self.as_point() {
            return (Bound::Included(key.to_vec()), Bound::Included(key.to_vec()));
        }
        let low = match predecessor(&self.low) {
            Some(before) => Bound::Excluded(before.to_vec()),
            None if self.low.is_empty() => Bound::Unbounded,
            None => Bound::Included(self.low.to_vec()),
        };
        let high = match self.high.as_deref() {
            None => Bound::Unbounded,
            Some(high) => match predecessor(high) {
                Some(last) => Bound::Included(last.to_vec()),
                None => Bound::Excluded(high.to_vec()),
            },
        };
        (low, high)
    }
}

/// Keys that are in one list at least.
pub(super) fn union(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut all: Vec<Interval> = Vec::new();
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => {
                if x.low <= y.low {
                    a.next()
                } else {
                    b.next()
                }
            }
            (Some(_), None) => a.next(),
            (None, _) => b.next(),
        };
        let Some(next) = next else { return all };
        match all.last_mut() {
            // They touch or overlap.
            Some(last) if last.high.as_ref().is_none_or(|high| *high >= next.low) => {
                *last = last.extended_to(next);
            }
            _ => all.push(next.clone()),
        }
    }
}

/// Keys that are in both lists.
pub(super) fn intersection(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut both = Vec::new();
    for interval in few {
        let first = many.partition_point(|other| other.ends_by(&interval.low));
        let touched = many.iter().skip(first);
        both.extend(touched.map_while(|other| interval.intersection(other)));
    }
    both
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// All keys of up to three bytes of three: 0 makes neighbours that touch.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![]];
        for length in 0..3 {
            let longest: Vec<Vec<u8>> =
                keys.iter().filter(|k| k.len() == length).cloned().collect();
            keys.extend(longest.iter().flat_map(|k| [0, 1, 255].map(|b| [&k[..], &[b]].concat())));
        }
        keys
    }

    fn bounds() -> impl Strategy<Value = KeyBounds> {
        let bound = || {
            let key = prop::sample::select(keys());
            prop_oneof![
                1 => Just(Bound::Unbounded),
                3 => key.clone().prop_map(Bound::Included),
                3 => key.prop_map(Bound::Excluded),
            ]
        };
        (bound(), bound())
    }

    fn within(key: &[u8], bounds: &KeyBounds) -> bool {
        use std::ops::RangeBounds;
        let (low, high) = (bounds.0.as_ref().map(|b| &b[..]), bounds.1.as_ref().map(|b| &b[..]));
        RangeBounds::<[u8]>::contains(&(low, high), key)
    }

    fn set(list: &[Interval]) -> BTreeSet<Vec<u8>> {
        keys().into_iter().filter(|k| list.iter().any(|i| within(k, &i.bounds()))).collect()
    }

    fn list(all: &[KeyBounds]) -> Vec<Interval> {
        all.iter().filter_map(Interval::between).fold(Vec::new(), |list, i| union(&list, &[i]))
    }

    fn is_canonical(list: &[Interval]) -> bool {
        list.iter().all(|i| !i.ends_by(&i.low))
            && list.windows(2).all(|w| w[0].high.as_ref().is_some_and(|high| *high < w[1].low))
    }

    proptest! {
        /// R-E14: ends are inclusive or exclusive, empty ranges are no intervals.
        #[test]
        fn an_interval_has_the_keys_of_its_bounds(bounds in bounds()) {
            for key in keys() {
                let interval = Interval::between(&bounds);
                let found = interval.is_some_and(|i| within(&key, &i.bounds()));
                prop_assert_eq!(found, within(&key, &bounds), "{:?}", key);
            }
        }

        #[test]
        fn lists_are_sets(a in prop::collection::vec(bounds(), 0..6), b in prop::collection::vec(bounds(), 0..6)) {
            let (a, b) = (list(&a), list(&b));
            let (either, both) = (union(&a, &b), intersection(&a, &b));
            prop_assert!(is_canonical(&a) && is_canonical(&either) && is_canonical(&both));
            prop_assert_eq!(set(&either), set(&a).union(&set(&b)).cloned().collect());
            prop_assert_eq!(set(&both), set(&a).intersection(&set(&b)).cloned().collect());
        }
    }

    #[test]
    fn a_point_is_one_key() {
        for key in [&b""[..], b"a", b"a\0", b"\0"] {
            let point = Interval::point(key);
            assert_eq!(point.as_point(), Some(key));
            let end = || Bound::Included(key.to_vec());
            assert_eq!(point.bounds(), (end(), end()));
        }
        assert_eq!(Interval::above(b"a", true).as_point(), None);
        assert_eq!(Interval::below(b"", true).unwrap().as_point(), Some(&b""[..]));
        assert_eq!(Interval::below(b"", false), None);
    }
}
