//! What readers may still see: the visible version and the versions held by live snapshots.
//!
//! Invariant: a version returned by [`Snapshots::register`] is in every [`Horizon`] taken from then
//! on until it is released, or is at or after the `visible` of one taken before. Both go through
//! one mutex, so a snapshot is never registered "behind" a horizon already taken: what a flush or
//! compaction drops under its horizon, no later snapshot can ask for.

use std::collections::BTreeMap;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::version::Version;

/// The visible watermark and the registry of live snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    visible: CachePadded<AtomicU64>,
    live: Mutex<BTreeMap<Version, usize>>,
}

impl Snapshots {
    /// Every commit at or before this version is visible.
    #[inline]
    pub(crate) fn visible(&self) -> Version {
        Version::from_ticks(self.visible.load(Ordering::Acquire))
    }

    /// Makes commits up to `version` visible; never steps back.
    #[inline]
    pub(crate) fn publish(&self, version: Version) {
        self.visible.fetch_max(version.ticks(), Ordering::AcqRel);
    }

    /// Holds the state that is visible now until [`release`](Snapshots::release).
    pub(crate) fn register(&self) -> Version {
        let mut live = self.live.lock();
        let version = self.visible();
        *live.entry(version).or_default() += 1;
        version
    }

    /// Ends one registration; says whether it was the last of the oldest version held, so that
    /// there may now be something to reclaim.
    pub(crate) fn release(&self, version: Version) -> bool {
        let mut live = self.live.lock();
        let was_oldest = live.first_key_value().is_some_and(|(&oldest, _)| oldest == version);
        match live.get_mut(&version) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => {
                live.remove(&version);
                was_oldest
            }
            None => false,
        }
    }

    /// How many distinct versions are held.
    pub(crate) fn len(&self) -> usize {
        self.live.lock().len()
    }

    /// What a flush or compaction that starts now has to keep.
    pub(crate) fn horizon(&self) -> Horizon {
        let live = self.live.lock();
        Horizon { snapshots: live.keys().copied().collect(), visible: self.visible() }
    }
}

/// The versions at which readers may look, as of one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Live snapshots, oldest first.
    pub(crate) snapshots: Vec<Version>,
    /// Other readers look at this version or a later one.
    pub(crate) visible: Version,
}

impl Horizon {
    /// The oldest version at which anybody may look.
    pub(crate) fn oldest(&self) -> Version {
        self.snapshots.first().map_or(self.visible, |&s| s.min(self.visible))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(ticks: u64) -> Version {
        Version::from_ticks(ticks)
    }

    #[test]
    fn a_snapshot_is_held_until_its_last_release() {
        let snapshots = Snapshots::default();
        snapshots.publish(v(5));
        assert_eq!((snapshots.register(), snapshots.register()), (v(5), v(5)));
        snapshots.publish(v(9));
        snapshots.publish(v(7));
        assert_eq!(snapshots.register(), v(9), "visible never steps back");
        assert_eq!(snapshots.horizon(), Horizon { snapshots: vec![v(5), v(9)], visible: v(9) });
        assert!(!snapshots.release(v(5)));
        assert_eq!(snapshots.horizon().oldest(), v(5));
        assert!(snapshots.release(v(5)));
        assert!(!snapshots.release(v(5)), "nothing left to release");
        assert_eq!((snapshots.horizon().oldest(), snapshots.len()), (v(9), 1));
    }
}
