//! [`Reserved`]: ranges of keys that no file reaches across, kept free for tables that are being
//! loaded.
//!
//! The files of a load are to fit into any level, whose files are disjoint. The table's id is new,
//! so no file holds keys of it. That none reaches across them either, from a table before to one
//! after, takes a [`Reservation`], made before a later id is given out:
//! * files that were begun before it hold keys of earlier tables only,
//! * files that are begun while it lasts end before its keys and begin anew after them,
//! * and once it ends the load's own files lie there, in the state that compactions are chosen
//!   from. Those that were chosen before and work in their levels were waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::tree::Tree;

/// Where the ranges begin.
#[derive(Debug, Default)]
pub(super) struct Reserved(Mutex<BTreeSet<Box<[u8]>>>);

impl Reserved {
    /// All of them, in order.
    pub(super) fn starts(&self) -> Vec<Box<[u8]>> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Keys that no file reaches across for as long as this lives.
pub(crate) struct Reservation {
    pub(super) tree: Arc<Tree>,
    start: Box<[u8]>,
}

impl Reservation {
    /// Reserves the keys that begin with `prefix`. There are none of them, and no later ones.
    pub(crate) fn new(tree: &Arc<Tree>, prefix: &[u8]) -> Self {
        tree.reserved.0.lock().insert(prefix.into());
        Self { tree: Arc::clone(tree), start: prefix.into() }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.tree.reserved.0.lock().remove(&self.start);
    }
}
