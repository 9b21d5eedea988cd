//! [`Registry`]: the incarnations that handles are open on, and what was done through handles.
//!
//! Invariants: all handles on an incarnation share one; what is counted for one is in the sum exactly once, whether it
//! is open, closed or forgotten. Ids are spread over parts with a lock each, because whoever drops a table waits for
//! one while every writer waits behind it: no hold of a lock is longer for all tables than a part of them takes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::activity::{Activity, Tally};
use crate::commit::Incarnation;
use crate::key::TableId;
use crate::version::Version;

/// Of 64,000 open tables, a part has a thousand: its tallies are noted in some 30 µs, and read in a millisecond.
const PARTS: usize = 64;

#[derive(Debug)]
pub(super) struct Registry {
    parts: [Mutex<Part>; PARTS],
}

/// The incarnations of some ids.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// An incarnation without handles costs nothing but its catalog entry (R-E03), once others take its place.
    incarnations: HashMap<TableId, (Weak<Incarnation>, Arc<Tally>)>,
    /// What was done through handles on those that are no longer here.
    before: Activity,
}

/// Where it is counted what was done through the handles of a part.
struct Counted {
    before: Activity,
    tallies: Vec<Arc<Tally>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Registry {
    /// Locks the part that this id is in.
    pub(super) fn lock(&self, id: TableId) -> MutexGuard<'_, Part> {
        #[expect(clippy::indexing_slicing, reason = "there are as many as `PARTS`")]
        self.parts[(id.get() % PARTS as u64) as usize].lock()
    }

    /// What was done through handles on any table. A tally is a cache line for each thread, so it is read without the
    /// lock: what is forgotten meanwhile was noted before.
    pub(super) fn activity(&self) -> Activity {
        let mut sum = Activity::default();
        for Counted { before, tallies } in self.counted() {
            sum += before;
            tallies.iter().for_each(|tally| sum += tally.sum());
        }
        sum
    }

    /// Locks one part after the other, each as long as it takes to note its tallies.
    fn counted(&self) -> impl Iterator<Item = Counted> {
        self.parts.iter().map(|part| part.lock().counted())
    }

    /// Holds up whoever needs the registry.
    #[cfg(test)]
    pub(super) fn lock_all(&self) -> Vec<MutexGuard<'_, Part>> {
        self.parts.iter().map(Mutex::lock).collect()
    }
}

impl Part {
    /// The incarnation with this id; all handles on a table share one.
    pub(super) fn enter(&mut self, id: TableId, name: &str, named_at: Version) -> Arc<Incarnation> {
        if let Some(incarnation) = self.get(id) {
            return incarnation;
        }
        if self.incarnations.len() == self.incarnations.capacity() {
            self.forget_closed();
        }
        let tally = Arc::default();
        let incarnation = Incarnation::new(id, name, named_at, Arc::clone(&tally));
        let entry = (Arc::downgrade(&incarnation), tally);
        if let Some((_, closed)) = self.incarnations.insert(id, entry) {
            self.before += closed.sum();
        }
        incarnation
    }

    pub(super) fn get(&self, id: TableId) -> Option<Arc<Incarnation>> {
        self.incarnations.get(&id).and_then(|(incarnation, _)| incarnation.upgrade())
    }

    fn forget_closed(&mut self) {
        let before = &mut self.before;
        self.incarnations.retain(|_, (incarnation, tally)| {
            let is_open = incarnation.strong_count() > 0;
            if !is_open {
                *before += tally.sum();
            }
            is_open
        });
    }

    fn counted(&self) -> Counted {
        let tallies = self.incarnations.values().map(|(_, tally)| Arc::clone(tally)).collect();
        Counted { before: self.before, tallies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(registry: &Registry, id: u64) -> Arc<Incarnation> {
        let id = TableId::new(id);
        registry.lock(id).enter(id, "t", Version::ZERO)
    }

    /// R-E23: who drops a table, and every writer with it, waits for no reading of all tallies.
    #[test]
    fn tallies_are_read_without_a_lock_and_noted_in_short_holds() {
        let registry = Registry::default();
        let tables = 100 * PARTS as u64;
        // Ids are given out one after the other.
        let open: Vec<_> = (1..=tables).map(|id| enter(&registry, id)).collect();
        open.iter().for_each(|incarnation| incarnation.tally.write(1, 2));
        let mut sum = Activity::default();
        for Counted { before, tallies } in registry.counted() {
            assert!(registry.parts.iter().all(|part| part.try_lock().is_some()));
            assert!(tallies.len() <= 100);
            sum += before;
            tallies.iter().for_each(|tally| sum += tally.sum());
        }
        assert_eq!((sum.writes, sum.bytes_written), (6_400, 12_800));
        assert_eq!(registry.activity(), sum);
    }

    /// R-E23: also what is forgotten while a reading is under way.
    #[test]
    fn what_was_done_is_counted_once_whether_a_table_is_open_or_not() {
        let registry = Registry::default();
        for id in 1..=1_000 {
            enter(&registry, id).tally.write(1, 2);
        }
        let (mut sum, mut next) = (0, 1_000);
        for Counted { before, tallies } in registry.counted() {
            sum += before.writes;
            // Those that were noted are forgotten before they are read.
            for _ in 0..PARTS * 40 {
                next += 1;
                enter(&registry, next);
            }
            sum += tallies.iter().map(|tally| tally.sum().writes).sum::<u64>();
        }
        assert_eq!((sum, registry.activity().writes), (1_000, 1_000));
        let noted = registry.counted().map(|counted| counted.tallies.len());
        assert!(noted.sum::<usize>() < 1_000, "those without handles are forgotten");
    }
}
