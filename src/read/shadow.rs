//! [`Shadow`]: which range tombstone covers the keys that a scan walks over.
//!
//! Invariant: what it says of a key is what all sets of the view together say of it at the scan's
//! version. A walk in key order stays in one stretch of keys for long, so a set is searched once
//! a stretch, from the stretch before.

use crate::tombstone::{RangeTombstones, Stretch};
use crate::version::Version;

/// The range tombstones that matter to one scan.
pub(crate) struct Shadow<'a> {
    at: Version,
    walks: Vec<Walk<'a>>,
}

struct Walk<'a> {
    set: &'a RangeTombstones,
    stretch: Stretch<'a>,
}

impl<'a> Shadow<'a> {
    /// Of those sets what touches [low, high), at `at`.
    pub(crate) fn new(
        sets: impl Iterator<Item = &'a RangeTombstones>,
        low: &[u8],
        high: &[u8],
        at: Version,
    ) -> Self {
        let walks = sets
            .filter(|set| set.touches(low, high))
            .map(|set| Walk { set, stretch: set.stretch_at(low, at) })
            .collect();
        Self { at, walks }
    }

    /// The newest stretch around `key` that deletes an entry of that version.
    #[inline]
    pub(crate) fn over(&mut self, key: &[u8], version: Version) -> Option<Stretch<'a>> {
        if self.walks.is_empty() { None } else { self.search(key, version) }
    }

    fn search(&mut self, key: &[u8], version: Version) -> Option<Stretch<'a>> {
        let at = self.at;
        let stretches = self.walks.iter_mut().map(|walk| {
            if !walk.stretch.contains(key) {
                walk.stretch = walk.set.stretch_near(&walk.stretch, key, at);
            }
            walk.stretch
        });
        stretches.max_by_key(|stretch| stretch.version).filter(|stretch| stretch.version > version)
    }
}
