//! Range tombstones: "every key in [start, end) written before this version is deleted".
//!
//! Invariant of [`RangeTombstones`]: an immutable set, cut into disjoint fragments in key order, and which
//! versions cover each, in no more space than the logarithm of their number for each tombstone, however they
//! overlap. Sets are small: tables dropped, partitions
//! and ranges deleted, since the last compaction that applied them everywhere.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::version::Version;

#[cfg(test)]
thread_local! {
    /// How many sets this thread has made.
    pub(crate) static MADE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// One deletion of a key range, over encoded keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RangeTombstone {
    /// First encoded key covered.
    pub(crate) start: Arc<[u8]>,
    /// First encoded key no longer covered.
    pub(crate) end: Arc<[u8]>,
    /// Entries in the range with a smaller version are deleted.
    pub(crate) version: Version,
}

#[derive(Debug)]
struct Fragment {
    start: Arc<[u8]>,
    end: Arc<[u8]>,
}

/// Keys that one version covers, or none does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    /// Its first key.
    pub(crate) start: &'a [u8],
    /// The first key after it; `None` if it has no end.
    pub(crate) end: Option<&'a [u8]>,
    /// Entries in it with a smaller version are deleted.
    pub(crate) version: Version,
    /// How many fragments start at or before it.
    fragments: usize,
}

impl Stretch<'_> {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && self.end.is_none_or(|end| *key < *end)
    }
}

/// An immutable set of range tombstones, searchable by key and version. What is added makes another set, which has
/// keys in common with this one.
#[derive(Debug, Default)]
pub(crate) struct RangeTombstones {
    all: Vec<RangeTombstone>,
    fragments: Vec<Fragment>,
    covers: Covers,
}

impl RangeTombstones {
    pub(crate) fn new(mut all: Vec<RangeTombstone>) -> Self {
        #[cfg(test)]
        MADE.with(|made| made.set(made.get() + 1));
        all.retain(|t| t.start < t.end);
        all.sort();
        all.dedup();
        let fragments = fragment(&all);
        let covers = Covers::new(&all, &fragments);
        Self { all, fragments, covers }
    }

    /// This set with more.
    pub(crate) fn with(&self, added: &[RangeTombstone]) -> Self {
        Self::new([&*self.all, added].concat())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.all.iter()
    }

    /// The newest tombstone at or before `at` that covers `key`; [`Version::ZERO`] if none does.
    /// An entry of the key with a smaller version is deleted for a read at `at`.
    pub(crate) fn covering(&self, key: &[u8], at: Version) -> Version {
        let after = self.fragments.partition_point(|f| *f.start <= *key);
        let Some(before) = after.checked_sub(1) else { return Version::ZERO };
        match self.fragments.get(before) {
            Some(f) if *key < *f.end => self.covers.newest_at(before, at),
            _ => Version::ZERO,
        }
    }

    /// The keys around `key` that share its fate at `at`, for walks in key order.
    pub(crate) fn stretch_at(&self, key: &[u8], at: Version) -> Stretch<'_> {
        self.stretch(key, at, self.fragments.partition_point(|f| *f.start <= *key))
    }

    /// The same, which takes a few comparisons if `key` is in a stretch beside `near`, whatever the number of them.
    pub(crate) fn stretch_near(&self, near: &Stretch<'_>, key: &[u8], at: Version) -> Stretch<'_> {
        let after = partition_point_near(&self.fragments, near.fragments, |f| *f.start <= *key);
        self.stretch(key, at, after)
    }

    /// The same; `after` fragments start at or before `key`.
    fn stretch(&self, key: &[u8], at: Version, after: usize) -> Stretch<'_> {
        let before = after.checked_sub(1).and_then(|at| Some((at, self.fragments.get(at)?)));
        match before {
            Some((fragment, f)) if *key < *f.end => {
                let version = self.covers.newest_at(fragment, at);
                Stretch { start: &f.start, end: Some(&*f.end), version, fragments: after }
            }
            _ => Stretch {
                start: before.map_or(&[], |(_, f)| &*f.end),
                end: self.fragments.get(after).map(|f| &*f.start),
                version: Version::ZERO,
                fragments: after,
            },
        }
    }

    /// The stretches with keys between two, both included, that are covered at `at`, in key order.
    pub(crate) fn covered_between<'a>(
        &'a self,
        first: &[u8],
        last: &'a [u8],
        at: Version,
    ) -> impl Iterator<Item = Stretch<'a>> {
        let from = self.fragments.partition_point(|f| *f.end <= *first);
        let fragments = self.fragments.iter().enumerate().skip(from);
        let stretches = fragments.take_while(move |(_, f)| *f.start <= *last).map(move |(i, f)| {
            let version = self.covers.newest_at(i, at);
            Stretch { start: &f.start, end: Some(&*f.end), version, fragments: i + 1 }
        });
        stretches.filter(|stretch| stretch.version > Version::ZERO)
    }

    /// Whether a key in [start, end) is covered by any of the tombstones.
    pub(crate) fn touches(&self, start: &[u8], end: &[u8]) -> bool {
        let first = self.fragments.partition_point(|f| *f.end <= *start);
        *start < *end && self.fragments.get(first).is_some_and(|f| *f.start < *end)
    }
}

/// As [`slice::partition_point`], by comparisons that grow with the logarithm of its distance from `near`.
fn partition_point_near<T>(
    items: &[T],
    near: usize,
    mut is_before: impl FnMut(&T) -> bool,
) -> usize {
    let (before, after) = items.split_at(near.min(items.len()));
    if before.last().is_none_or(&mut is_before) {
        let mut step = 1;
        while after.get(step - 1).is_some_and(&mut is_before) {
            step *= 2;
        }
        let between = after.get(step / 2..after.len().min(step - 1)).unwrap_or_default();
        return before.len() + step / 2 + between.partition_point(is_before);
    }
    let mut step = 2;
    while before.iter().nth_back(step - 1).is_some_and(|item| !is_before(item)) {
        step *= 2;
    }
    let from = (before.len() + 1).saturating_sub(step);
    let between = before.get(from..before.len() - step / 2).unwrap_or_default();
    from + between.partition_point(is_before)
}

/// Cuts overlapping ranges at every start and end, in key order, and leaves out what none covers. `all` is in
/// the order of their starts.
fn fragment(all: &[RangeTombstone]) -> Vec<Fragment> {
    let mut cuts: Vec<&Arc<[u8]>> = all.iter().flat_map(|t| [&t.start, &t.end]).collect();
    cuts.sort();
    cuts.dedup();
    let mut fragments = Vec::with_capacity(all.len());
    let mut upcoming = all.iter().peekable();
    // The last end of what begins at or before the cut.
    let mut end_of_cover = None;
    for (&start, &end) in cuts.iter().zip(cuts.iter().skip(1)) {
        while let Some(t) = upcoming.next_if(|t| t.start <= *start) {
            end_of_cover = end_of_cover.max(Some(&t.end));
        }
        if end_of_cover > Some(start) {
            fragments.push(Fragment { start: Arc::clone(start), end: Arc::clone(end) });
        }
    }
    fragments
}

/// Which versions cover each fragment: a segment tree, which has each tombstone at a few nodes that
/// have its fragments below them, however many these are. Node 1 is the root, nodes 2n and 2n + 1 are
/// below node n, and the fragments are the last nodes.
#[derive(Debug, Default)]
struct Covers {
    fragments: usize,
    /// The first node that has any, which is a fragment where no range is about several.
    first: usize,
    /// Of one node after the other, newest first.
    versions: Vec<Version>,
    /// How many versions are at nodes before each.
    starts: Vec<usize>,
}

impl Covers {
    fn new(all: &[RangeTombstone], fragments: &[Fragment]) -> Self {
        let mut placed: Vec<(usize, Reverse<Version>)> = Vec::with_capacity(all.len());
        let mut first = 0;
        for t in all {
            // The fragments of a tombstone follow one another, as they are cut at its start and end, and are
            // mostly one.
            while fragments.get(first).is_some_and(|f| f.start < t.start) {
                first += 1;
            }
            let rest = fragments.get(first + 1..).unwrap_or_default();
            let more = match rest.first() {
                Some(next) if next.start < t.end => rest.partition_point(|f| f.start < t.end),
                _ => 0,
            };
            let mut from = fragments.len() + first;
            let mut to = from + 1 + more;
            while from < to {
                if !from.is_multiple_of(2) {
                    placed.push((from, Reverse(t.version)));
                    from += 1;
                }
                if !to.is_multiple_of(2) {
                    to -= 1;
                    placed.push((to, Reverse(t.version)));
                }
                (from, to) = (from / 2, to / 2);
            }
        }
        placed.sort_unstable();
        let mut starts = Vec::with_capacity(2 * fragments.len() + 1);
        for (number, (node, _)) in placed.iter().enumerate() {
            starts.resize(starts.len().max(node + 1), number);
        }
        starts.resize(2 * fragments.len() + 1, placed.len());
        let first = placed.first().map_or(0, |(node, _)| *node);
        let versions = placed.into_iter().map(|(_, Reverse(version))| version).collect();
        Self { fragments: fragments.len(), first, versions, starts }
    }

    /// The newest version at or before `at` that covers a fragment; [`Version::ZERO`] if none does.
    fn newest_at(&self, fragment: usize, at: Version) -> Version {
        let mut newest = Version::ZERO;
        let mut node = self.fragments + fragment;
        while node >= self.first.max(1) {
            let versions = self.at_node(node);
            let newer = versions.partition_point(|version| *version > at);
            newest = newest.max(versions.get(newer).copied().unwrap_or_default());
            node /= 2;
        }
        newest
    }

    fn at_node(&self, node: usize) -> &[Version] {
        let range = self.starts.get(node).zip(self.starts.get(node + 1));
        range.and_then(|(start, end)| self.versions.get(*start..*end)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tombstone() -> impl Strategy<Value = RangeTombstone> {
        (0u8..20, 0u8..20, 1u64..10).prop_map(|(start, end, version)| RangeTombstone {
            start: [start].into(),
            end: [end].into(),
            version: Version::from_ticks(version),
        })
    }

    /// One in the other, the outermost first or last.
    #[test]
    fn nested_tombstones_take_little_space() {
        let of = |outer: u16, version: u16| RangeTombstone {
            start: outer.to_be_bytes().into(),
            end: (u16::MAX - outer).to_be_bytes().into(),
            version: Version::from_ticks(u64::from(version) + 1),
        };
        let count = 3_000;
        for newest in [0, count - 1] {
            let set = RangeTombstones::new((0..count).map(|i| of(i, newest.abs_diff(i))).collect());
            assert!(set.covers.versions.len() < usize::from(count) * 24);
            for (depth, at) in [(0, 1), (10, 2_000), (1_500, 1_000), (2_999, 5)] {
                let covering = (0..=depth).map(|i| u64::from(newest.abs_diff(i)) + 1);
                let expected = covering.filter(|version| *version <= at).max().unwrap_or_default();
                let found = set.covering(&u16::to_be_bytes(depth), Version::from_ticks(at));
                assert_eq!(found, Version::from_ticks(expected), "{newest} {depth} {at}");
            }
        }
    }

    /// A scan over partitions of which each was deleted by its range searches for each of them (R-E19).
    #[test]
    fn the_next_range_is_found_without_a_search_through_all() {
        let of = |number: u16| RangeTombstone {
            start: (2 * number).to_be_bytes().into(),
            end: (2 * number + 1).to_be_bytes().into(),
            version: Version::from_ticks(u64::from(number) + 1),
        };
        let set = RangeTombstones::new((0..16_000).map(of).collect());
        assert_eq!(set.covers.first, set.covers.fragments, "each is at its own node alone");
        let items: Vec<usize> = (0..16_000).collect();
        for (near, to, most) in
            [(7, 7, 2), (7, 8, 3), (8, 7, 3), (0, 1, 2), (15_999, 16_000, 2), (0, 16_000, 30)]
        {
            let mut looks = 0;
            let found = partition_point_near(&items, near, |item| {
                looks += 1;
                *item < to
            });
            assert_eq!(found, to);
            assert!(looks <= most, "{looks} from {near} to {to}");
        }
    }

    proptest! {
        #[test]
        fn a_partition_point_is_the_same_from_everywhere(
            len in 0usize..40,
            at in 0usize..41,
            near in 0usize..45,
        ) {
            let items: Vec<usize> = (0..len).collect();
            let expected = items.partition_point(|item| *item < at);
            prop_assert_eq!(partition_point_near(&items, near, |item| *item < at), expected);
        }

        #[test]
        fn covering_agrees_with_a_linear_search(
            all in proptest::collection::vec(tombstone(), 0..12),
            key in 0u8..22,
            near in 0u8..22,
            at in 0u64..12,
        ) {
            let at = Version::from_ticks(at);
            let set = RangeTombstones::new(all.clone());
            let expected = all
                .iter()
                .filter(|t| *t.start <= [key][..] && [key][..] < *t.end && t.version <= at)
                .map(|t| t.version)
                .max()
                .unwrap_or_default();
            prop_assert_eq!(set.covering(&[key], at), expected);
            let stretch = set.stretch_at(&[key], at);
            prop_assert_eq!(stretch.version, expected);
            prop_assert!(stretch.contains(&[key]));
            let near = set.stretch_near(&set.stretch_at(&[near], at), &[key], at);
            prop_assert_eq!((near.start, near.end, near.version), (stretch.start, stretch.end, expected));
            for other in (0..22).filter(|&other| stretch.contains(&[other])) {
                prop_assert_eq!(set.covering(&[other], at), expected);
            }
            let mut between = Vec::new();
            for stretch in set.covered_between(&[3], &[key], at) {
                let keys = (0..22).filter(|&k| stretch.contains(&[k]));
                between.extend(keys.map(|k| (k, stretch.version)));
            }
            between.retain(|(k, _)| (3..=key).contains(k));
            let expected = (3..=key).map(|k| (k, set.covering(&[k], at)));
            let expected: Vec<_> = expected.filter(|(_, v)| *v > Version::ZERO).collect();
            prop_assert_eq!(between, expected);
            let touched = (3..key).any(|k| set.covering(&[k], Version::MAX) > Version::ZERO);
            prop_assert_eq!(set.touches(&[3], &[key.max(3)]), touched);
        }
    }
}
