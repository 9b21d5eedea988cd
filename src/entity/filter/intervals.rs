//! [`Interval`]: keys between two places; and lists of them, which are sets of keys.
//!
//! Invariant: an interval is not empty; the intervals of a list ascend and do not touch, so a set
//! of keys is one list only. Ends are places between keys, so an open or a closed end on either side
//! is exactly such a place. Keys are those of the filter and of the query, borrowed.

use std::ops::Bound;

use crate::key::KeyBounds;

/// A place between two keys that follow each other: right before a key, or right behind it. It is written in
/// one way only, as the first key after `k` is `k` with a zero byte behind it: no `key` that it is before
/// ends with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place<'a> {
    key: &'a [u8],
    behind: bool,
}

impl<'a> Place<'a> {
    /// Before all keys.
    pub(super) const FIRST: Self = Self { key: &[], behind: false };

    pub(super) fn before(key: &'a [u8]) -> Self {
        match key.split_last() {
            Some((0, front)) => Self { key: front, behind: true },
            _ => Self { key, behind: false },
        }
    }

    pub(super) fn behind(key: &'a [u8]) -> Self {
        Self { key, behind: true }
    }
}

/// From `low` to `high`, or on to the last key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval<'a> {
    pub(super) low: Place<'a>,
    pub(super) high: Option<Place<'a>>,
}

impl<'a> Interval<'a> {
    pub(super) const EVERYTHING: Self = Self { low: Place::FIRST, high: None };

    pub(super) fn point(key: &'a [u8]) -> Self {
        Self { low: Place::before(key), high: Some(Place::behind(key)) }
    }

    /// From `low` on.
    pub(super) fn from_place(low: Place<'a>) -> Self {
        Self { low, high: None }
    }

    /// Up to `high`; `None` if that is empty.
    pub(super) fn up_to(high: Place<'a>) -> Option<Self> {
        Self { low: Place::FIRST, high: Some(high) }.non_empty()
    }

    /// The keys between these ends; `None` if there are none.
    pub(super) fn between(bounds: &'a KeyBounds) -> Option<Self> {
        let low = match &bounds.0 {
            Bound::Included(key) => Place::before(key),
            Bound::Excluded(key) => Place::behind(key),
            Bound::Unbounded => Place::FIRST,
        };
        let high = match &bounds.1 {
            Bound::Included(key) => Some(Place::behind(key)),
            Bound::Excluded(key) => Some(Place::before(key)),
            Bound::Unbounded => None,
        };
        Self { low, high }.non_empty()
    }

    fn non_empty(self) -> Option<Self> {
        (!self.ends_by(self.low)).then_some(self)
    }

    pub(super) fn is_everything(&self) -> bool {
        *self == Self::EVERYTHING
    }

    /// Whether all keys are before a place.
    pub(super) fn ends_by(&self, place: Place<'_>) -> bool {
        self.high.is_some_and(|high| high <= place)
    }

    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        let high = if self.ends_before(other) { self.high } else { other.high };
        Self { low: self.low.max(other.low), high }.non_empty()
    }

    /// Whether it ends before `other` does.
    pub(super) fn ends_before(&self, other: &Self) -> bool {
        match (self.high, other.high) {
            (Some(high), Some(other)) => high < other,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// The smallest interval around both, of which `self` begins no later.
    pub(super) fn extended_to(&self, other: &Self) -> Self {
        Self { high: if self.ends_before(other) { other.high } else { self.high }, ..*self }
    }

    /// The smallest interval around both.
    pub(super) fn around(&self, other: &Self) -> Self {
        if self.low <= other.low { self.extended_to(other) } else { other.extended_to(self) }
    }

    /// What of it is not before a place.
    pub(super) fn from(self, place: Place<'a>) -> Option<Self> {
        Self { low: self.low.max(place), ..self }.non_empty()
    }

    /// Its ends, in the form that excludes keys rather than naming the ones after them.
    pub(super) fn bounds(&self) -> KeyBounds {
        let low = match self.low {
            Place::FIRST => Bound::Unbounded,
            Place { key, behind: true } => Bound::Excluded(key.to_vec()),
            Place { key, behind: false } => Bound::Included(key.to_vec()),
        };
        match self.high {
            // A single key.
            Some(Place { key, behind: true }) if Place::before(key) == self.low => {
                (Bound::Included(key.to_vec()), Bound::Included(key.to_vec()))
            }
            Some(Place { key, behind: true }) => (low, Bound::Included(key.to_vec())),
            Some(Place { key, behind: false }) => (low, Bound::Excluded(key.to_vec())),
            None => (low, Bound::Unbounded),
        }
    }
}

/// Keys that are in one of the intervals at least.
pub(super) fn union<'a>(intervals: impl Iterator<Item = Interval<'a>>) -> Vec<Interval<'a>> {
    let mut list = Vec::from_iter(intervals);
    // Mostly one or two lists that ascend, which it finds.
    list.sort_by_key(|interval| interval.low);
    list.dedup_by(|next, last| {
        let touch = last.high.is_none_or(|high| high >= next.low);
        if touch {
            *last = last.extended_to(next);
        }
        touch
    });
    list
}

/// Keys that are in both lists.
pub(super) fn intersection<'a>(a: &[Interval<'a>], b: &[Interval<'a>]) -> Vec<Interval<'a>> {
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut both = Vec::new();
    for interval in few {
        let first = many.partition_point(|other| other.ends_by(interval.low));
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

    fn set(list: &[Interval<'_>]) -> BTreeSet<Vec<u8>> {
        keys().into_iter().filter(|k| list.iter().any(|i| within(k, &i.bounds()))).collect()
    }

    fn list(all: &[KeyBounds]) -> Vec<Interval<'_>> {
        union(all.iter().filter_map(Interval::between))
    }

    fn is_canonical(list: &[Interval<'_>]) -> bool {
        list.iter().all(|i| !i.ends_by(i.low))
            && list.windows(2).all(|w| w[0].high.is_some_and(|high| high < w[1].low))
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
            let either = union(a.iter().chain(&b).copied());
            let both = intersection(&a, &b);
            prop_assert!(is_canonical(&a) && is_canonical(&either) && is_canonical(&both));
            prop_assert_eq!(set(&either), set(&a).union(&set(&b)).cloned().collect());
            prop_assert_eq!(set(&both), set(&a).intersection(&set(&b)).cloned().collect());
        }
    }

    /// Places are in the order of the keys that come next.
    #[test]
    fn places_are_in_order() {
        let next = |place: Place<'_>| [place.key, &[0][..usize::from(place.behind)]].concat();
        let keys = keys();
        let places: Vec<_> =
            keys.iter().flat_map(|k| [Place::before(k), Place::behind(k)]).collect();
        for (a, b) in places.iter().flat_map(|a| places.iter().map(move |b| (*a, *b))) {
            assert_eq!(a.cmp(&b), next(a).cmp(&next(b)), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_point_is_one_key() {
        for key in [&b""[..], b"a", b"a\0", b"\0"] {
            let end = || Bound::Included(key.to_vec());
            assert_eq!(Interval::point(key).bounds(), (end(), end()));
        }
        let first = || Bound::Included(Vec::new());
        assert_eq!(Interval::up_to(Place::behind(b"")).unwrap().bounds(), (first(), first()));
        assert_eq!(Interval::up_to(Place::before(b"")), None);
    }
}
