//! The rule by which flushes and compactions leave entries out.
//!
//! Readers look at live snapshots, and at the visible version or later ones. These versions cut
//! the history of a key into stripes; within a stripe only its newest entry can be seen:
//!
//! ```text
//!   versions   0 ──────── s1 ──────── s2 ──────── visible ──────►
//!   stripe          0           1            2        (all kept)
//! ```
//!
//! Left out is an entry that
//! * is not the newest of its stripe, or
//! * is a tombstone with nothing older of its key left for it to hide, or
//! * is older than a range tombstone that covers its key, is part of the state for good, and is in the same
//!   stripe, or at or before the oldest version anybody looks at.
//!
//! If nobody looks behind the range tombstone of the last rule, all older entries of the key go with the first, as it
//! covers them too.

use std::sync::Arc;

use super::snapshots::Horizon;
use crate::entry::Kind;
use crate::tombstone::RangeTombstones;
use crate::version::Version;

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// It is a tombstone, which goes unless an older entry of its key is kept.
    KeepOverOlder,
    Drop,
    /// A range tombstone at this version covers it.
    Covered(Version),
}

/// The rule, and where it stands within a key.
pub(crate) struct Rule {
    /// The last version of each stripe, oldest first.
    stripes: Vec<Version>,
    tombstones: Arc<RangeTombstones>,
    flushed: Version,
    bound: Version,
    /// Some of the range tombstones are newer than the bound.
    looks_behind: bool,
    cover: Version,
    last_kept: Option<usize>,
}

impl Rule {
    /// `tombstones` has every range tombstone up to the version that is flushed when the outputs
    /// become part of the tree.
    pub(crate) fn new(
        horizon: &Horizon,
        tombstones: Arc<RangeTombstones>,
        flushed: Version,
    ) -> Self {
        let below = horizon.snapshots.iter().copied().filter(|&s| s < horizon.visible);
        let stripes = below.chain([horizon.visible]).collect();
        let bound = bound(horizon, flushed);
        let looks_behind = tombstones.iter().any(|t| t.version > bound);
        let cover = Version::ZERO;
        Self { stripes, tombstones, flushed, bound, looks_behind, cover, last_kept: None }
    }

    /// Range tombstones up to this version have been applied to everything the rule has seen.
    pub(crate) fn bound(&self) -> Version {
        self.bound
    }

    /// Begins a key; its entries follow, newest first.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        self.cover = self.tombstones.covering(key, self.bound);
        self.last_kept = None;
    }

    /// The end of the range that is covered as `key` is.
    pub(crate) fn cover_end(&self, key: &[u8]) -> Option<&[u8]> {
        self.tombstones.stretch_at(key, self.bound).end
    }

    /// Decides on the next entry of `key`. `has_deeper` says whether entries of the key may be
    /// left that are older than all that are being rewritten.
    pub(crate) fn judge(
        &mut self,
        key: &[u8],
        version: Version,
        kind: Kind,
        has_deeper: impl FnOnce() -> bool,
    ) -> Verdict {
        if version < self.cover {
            return Verdict::Covered(self.cover);
        }
        let stripe = self.stripes.partition_point(|&last| last < version);
        let Some(&last) = self.stripes.get(stripe) else { return Verdict::Keep };
        let is_hidden = self.last_kept.replace(stripe) == Some(stripe);
        if is_hidden || self.is_covered_in_stripe(key, version, last) {
            return Verdict::Drop;
        }
        match kind {
            Kind::Delete if has_deeper() => Verdict::Keep,
            // There is no older stripe that may have something.
            Kind::Delete if stripe == 0 => Verdict::Drop,
            Kind::Delete => Verdict::KeepOverOlder,
            Kind::Put | Kind::Reference => Verdict::Keep,
        }
    }

    /// Whether a range tombstone covers an entry that is no newer than the last version of its stripe: who sees
    /// the entry sees the tombstone.
    fn is_covered_in_stripe(&self, key: &[u8], version: Version, last: Version) -> bool {
        self.looks_behind && self.tombstones.covering(key, last.min(self.flushed)) > version
    }
}

/// The newest range tombstone that may be applied for good.
pub(crate) fn bound(horizon: &Horizon, flushed: Version) -> Version {
    horizon.oldest().min(flushed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::tombstone::RangeTombstone;

    type Entry = (u8, u64, Kind);

    fn v(ticks: u64) -> Version {
        Version::from_ticks(ticks)
    }

    /// What a reader at `at` sees of a key: the version of a put, or nothing.
    fn read(entries: &[Entry], tombstones: &RangeTombstones, key: u8, at: u64) -> Option<u64> {
        let newest = entries.iter().filter(|e| e.0 == key && e.1 <= at).max_by_key(|e| e.1)?;
        let covered = tombstones.covering(&[key], v(at)) > v(newest.1);
        (newest.2 == Kind::Put && !covered).then_some(newest.1)
    }

    fn entries(versions: std::ops::Range<u64>) -> impl Strategy<Value = Vec<Entry>> {
        let kind = prop_oneof![Just(Kind::Put), Just(Kind::Delete)];
        let entry = (0u8..5, versions, kind);
        proptest::collection::vec(entry, 0..24).prop_map(|mut all| {
            all.sort_by_key(|e| (e.0, std::cmp::Reverse(e.1)));
            all.dedup_by_key(|e| (e.0, e.1));
            all
        })
    }

    fn tombstone() -> impl Strategy<Value = RangeTombstone> {
        (0u8..5, 1u8..6, 1u64..60).prop_map(|(start, end, version)| RangeTombstone {
            start: [start].into(),
            end: [end].into(),
            version: v(version),
        })
    }

    proptest! {
        /// R-E11, R-E17, R-E19: no reader, at a snapshot or at the visible version or later, sees
        /// anything else after the rule was applied, with the range tombstones still there and
        /// with those gone that are at or before the bound.
        #[test]
        fn no_reader_sees_a_difference(
            deeper in entries(1..30),
            young in entries(30..60),
            tombstones in proptest::collection::vec(tombstone(), 0..4),
            snapshots in proptest::collection::btree_set(1u64..60, 0..4),
            visible in 40u64..60,
            flushed in 30u64..60,
            all_at_once: bool,
        ) {
            let horizon = Horizon {
                snapshots: snapshots.iter().copied().filter(|&s| s <= visible).map(v).collect(),
                visible: v(visible),
            };
            let (rewritten, below) = if all_at_once {
                let mut all = [deeper, young].concat();
                all.sort_by_key(|e| (e.0, std::cmp::Reverse(e.1)));
                (all, Vec::new())
            } else {
                (young, deeper)
            };
            let tombstones = Arc::new(RangeTombstones::new(tombstones));
            let mut rule = Rule::new(&horizon, Arc::clone(&tombstones), v(flushed));
            let deeper_keys: BTreeSet<u8> = below.iter().map(|e| e.0).collect();
            let mut kept = Vec::new();
            let mut held = Vec::new();
            let mut last = None;
            for &(key, version, kind) in &rewritten {
                if last.replace(key) != Some(key) {
                    rule.begin(&[key]);
                    held.clear();
                }
                match rule.judge(&[key], v(version), kind, || deeper_keys.contains(&key)) {
                    Verdict::Keep => {
                        kept.append(&mut held);
                        kept.push((key, version, kind));
                    }
                    Verdict::KeepOverOlder => held.push((key, version, kind)),
                    Verdict::Drop | Verdict::Covered(_) => {}
                }
            }
            let later = tombstones.iter().filter(|t| t.version > rule.bound()).cloned().collect();
            let later = RangeTombstones::new(later);
            let before = [rewritten, below.clone()].concat();
            let after = [kept.clone(), below.clone()].concat();
            for key in 0..5 {
                for at in horizon.snapshots.iter().map(|s| s.ticks()).chain(visible..62) {
                    let expected = read(&before, &tombstones, key, at);
                    prop_assert_eq!(read(&after, &tombstones, key, at), expected, "{} {}", key, at);
                    if below.is_empty() {
                        prop_assert_eq!(read(&after, &later, key, at), expected);
                    }
                }
            }
            if below.is_empty() {
                let readers = || horizon.snapshots.iter().map(|s| s.ticks()).chain([visible]);
                for &(key, version, kind) in kept.iter().filter(|e| e.1 <= visible) {
                    let hides = kept.iter().any(|e| e.0 == key && e.1 < version);
                    let is_seen = readers().any(|at| {
                        let applied = tombstones.iter().filter(|t| t.version <= v(flushed)).cloned();
                        let applied = RangeTombstones::new(applied.collect());
                        read(&kept, &applied, key, at) == Some(version)
                    });
                    prop_assert!(if kind == Kind::Put { is_seen } else { hides }, "space comes back");
                }
            }
        }
    }
}
