//! Partition latches: a commit holds the latch of its partition from checking its conditions to
//! being in the memtable, so check and write are one atomic step (R-E05, R-E09).
//!
//! Latches are striped: partitions share one by hash. Invariant: who holds several took them in
//! ascending order of stripe, so there is no deadlock. Of the code that runs under a latch only merges are
//! the caller's: while one runs, its thread is known, and may not write.

use std::cell::Cell;
use std::ptr;

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

/// More than the commits that can run at once on any machine of today, and small enough that
/// taking all (a table is dropped) costs microseconds.
const STRIPES: usize = 256;

/// The latches of a database, each on a line of memory of its own: who takes one does not wait for the
/// processor that had another.
pub(crate) struct Latches {
    stripes: Box<[CachePadded<Mutex<()>>]>,
}

thread_local! {
    /// The latches one of which this thread holds while it runs a merge.
    static MERGING: Cell<*const Latches> = const { Cell::new(ptr::null()) };
}

/// Latches held until dropped.
pub(crate) type Held<'a> = Vec<MutexGuard<'a, ()>>;

impl Latches {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| CachePadded::new(Mutex::new(()))).collect() }
    }

    /// The latch of the partition with this hash.
    pub(crate) fn lock(&self, partition_hash: u64) -> MutexGuard<'_, ()> {
        let stripe = partition_hash as usize % STRIPES;
        #[expect(clippy::indexing_slicing, reason = "the remainder is below the length")]
        self.stripes[stripe].lock()
    }

    /// The latches of many partitions.
    pub(crate) fn lock_many(&self, partition_hashes: impl IntoIterator<Item = u64>) -> Held<'_> {
        let mut wanted = [false; STRIPES];
        for hash in partition_hashes {
            if let Some(wanted) = wanted.get_mut(hash as usize % STRIPES) {
                *wanted = true;
            }
        }
        self.stripes.iter().zip(wanted).filter(|(_, w)| *w).map(|(s, _)| s.lock()).collect()
    }

    /// All latches: no commit is between its check and the memtable.
    pub(crate) fn lock_all(&self) -> Held<'_> {
        self.stripes.iter().map(|stripe| stripe.lock()).collect()
    }

    /// Runs a caller's code under a latch that the caller of this holds.
    pub(crate) fn merging<T>(&self, merge: impl FnOnce() -> T) -> T {
        let _restore = Restore(MERGING.replace(self));
        merge()
    }

    /// Whether this thread runs a merge under one of these: to take another could be to wait for itself.
    pub(crate) fn are_merging(&self) -> bool {
        ptr::eq(MERGING.get(), self)
    }
}

/// Puts back what was, also where a merge panics.
struct Restore(*const Latches);

impl Drop for Restore {
    fn drop(&mut self) {
        MERGING.set(self.0);
    }
}
