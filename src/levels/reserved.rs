//! [`Reserved`]: ranges of keys that no file reaches across, kept free for tables that are being
//! loaded.
//!
//! The files of a load are to fit into any level, whose files are disjoint, whatever is at work there. The
//! table's id is new, so no file holds keys of it. That none reaches across them either, from a table before
//! to one after, takes a [`Reservation`], made before a later id is given out:
//! * files that were begun before it hold keys of earlier tables only,
//! * files that are begun while it lasts end before its keys and begin anew after them; it lasts as well for
//!   each compaction that was chosen before it ended,
//! * and compactions chosen later find the load's own files there.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::tree::Tree;

/// Where a range begins.
pub(super) type Start = Arc<[u8]>;

/// Where the ranges begin that somebody holds.
#[derive(Debug, Default)]
pub(super) struct Reserved(Mutex<Vec<Weak<[u8]>>>);

impl Reserved {
    /// All of them, in order; who has them holds them.
    pub(super) fn hold(&self) -> Vec<Start> {
        let mut starts: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        starts.sort();
        starts
    }

    fn add(&self, start: &Start) {
        let mut starts = self.0.lock();
        starts.retain(|start| start.strong_count() > 0);
        starts.push(Arc::downgrade(start));
    }
}

/// Keys that no file reaches across for as long as this lives.
pub(crate) struct Reservation {
    pub(super) tree: Arc<Tree>,
    _start: Start,
}

impl Reservation {
    /// Reserves the keys that begin with `prefix`. There are none of them, and no later ones.
    pub(crate) fn new(tree: &Arc<Tree>, prefix: &[u8]) -> Self {
        let start = Start::from(prefix);
        tree.reserved.add(&start);
        Self { tree: Arc::clone(tree), _start: start }
    }
}
