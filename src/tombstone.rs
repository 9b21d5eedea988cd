//! Range tombstones: "every key in [start, end) written before this version is deleted".
//!
//! Invariant of [`RangeTombstones`]: an immutable set, cut into disjoint fragments in key order,
//! each with the versions that cover it, newest first. Sets are small: tables dropped, partitions
//! and ranges deleted, since the last compaction that applied them everywhere.

use std::ops::Range;
use std::sync::Arc;

use crate::version::Version;

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
    /// Where its versions are, newest first.
    versions: Range<usize>,
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
}

impl Stretch<'_> {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && self.end.is_none_or(|end| *key < *end)
    }
}

/// An immutable set of range tombstones, searchable by key and version. Each one that is added makes another
/// set, which has keys in common with this one.
#[derive(Debug, Default)]
pub(crate) struct RangeTombstones {
    all: Vec<RangeTombstone>,
    fragments: Vec<Fragment>,
    /// Of all fragments, one after the other.
    versions: Vec<Version>,
}

impl RangeTombstones {
    pub(crate) fn new(mut all: Vec<RangeTombstone>) -> Self {
        all.retain(|t| t.start < t.end);
        all.sort();
        all.dedup();
        let (fragments, versions) = fragment(&all);
        Self { all, fragments, versions }
    }

    /// This set with one more.
    pub(crate) fn with(&self, tombstone: RangeTombstone) -> Self {
        let mut all = self.all.clone();
        all.push(tombstone);
        Self::new(all)
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
        self.find(key).map_or(Version::ZERO, |f| self.newest_at(f, at))
    }

    /// The keys around `key` that share its fate at `at`, for walks in key order.
    pub(crate) fn stretch_at(&self, key: &[u8], at: Version) -> Stretch<'_> {
        let after = self.fragments.partition_point(|f| *f.start <= *key);
        let before = after.checked_sub(1).and_then(|before| self.fragments.get(before));
        match before {
            Some(f) if *key < *f.end => {
                Stretch { start: &f.start, end: Some(&*f.end), version: self.newest_at(f, at) }
            }
            _ => Stretch {
                start: before.map_or(&[], |f| &*f.end),
                end: self.fragments.get(after).map(|f| &*f.start),
                version: Version::ZERO,
            },
        }
    }

    /// Whether a key in [start, end) is covered by any of the tombstones.
    pub(crate) fn touches(&self, start: &[u8], end: &[u8]) -> bool {
        let first = self.fragments.partition_point(|f| *f.end <= *start);
        *start < *end && self.fragments.get(first).is_some_and(|f| *f.start < *end)
    }

    fn find(&self, key: &[u8]) -> Option<&Fragment> {
        let after = self.fragments.partition_point(|f| *f.start <= *key);
        let fragment = self.fragments.get(after.checked_sub(1)?)?;
        (*key < *fragment.end).then_some(fragment)
    }

    fn newest_at(&self, fragment: &Fragment, at: Version) -> Version {
        let versions = self.versions.get(fragment.versions.clone()).unwrap_or_default();
        versions.iter().copied().find(|&v| v <= at).unwrap_or(Version::ZERO)
    }
}

/// Cuts overlapping ranges at every start and end, sweeping over them in key order. Gives the fragments and
/// their versions.
fn fragment(all: &[RangeTombstone]) -> (Vec<Fragment>, Vec<Version>) {
    let mut cuts: Vec<&Arc<[u8]>> = all.iter().flat_map(|t| [&t.start, &t.end]).collect();
    cuts.sort();
    cuts.dedup();
    let mut fragments = Vec::with_capacity(all.len());
    let mut versions = Vec::with_capacity(all.len());
    let mut active: Vec<&RangeTombstone> = Vec::new();
    let mut upcoming = all.iter().peekable();
    for (&start, &end) in cuts.iter().zip(cuts.iter().skip(1)) {
        active.retain(|t| t.end > *start);
        while let Some(t) = upcoming.next_if(|t| t.start <= *start) {
            active.push(t);
        }
        if active.is_empty() {
            continue;
        }
        let first = versions.len();
        versions.extend(active.iter().map(|t| t.version));
        if let Some(these) = versions.get_mut(first..) {
            these.sort_unstable_by(|a, b| b.cmp(a));
        }
        let (start, end) = (Arc::clone(start), Arc::clone(end));
        fragments.push(Fragment { start, end, versions: first..versions.len() });
    }
    (fragments, versions)
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

    proptest! {
        #[test]
        fn covering_agrees_with_a_linear_search(
            all in proptest::collection::vec(tombstone(), 0..12),
            key in 0u8..22,
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
            for other in (0..22).filter(|&other| stretch.contains(&[other])) {
                prop_assert_eq!(set.covering(&[other], at), expected);
            }
            let touched = (3..key).any(|k| set.covering(&[k], Version::MAX) > Version::ZERO);
            prop_assert_eq!(set.touches(&[3], &[key.max(3)]), touched);
        }
    }
}
