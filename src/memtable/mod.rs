//! The memtable: the newest entries, in memory, ordered, until they are flushed to table files.
//!
//! Invariant: once `insert` has returned, every reader that starts finds the entry; nothing is
//! changed or removed before the memtable is dropped, so what a reader borrows stays.
//! May call entry, key, version, tombstone, reference, prefetch and error.
//!
//! A [`tree`] finds and orders the leaves, one for each key; a [`leaf`] holds its key and its
//! versions, so that rewriting a row does not grow the tree; both are in memory of an [`arena`],
//! which goes as a whole when the memtable is dropped. A [`filter`] answers most questions for
//! absent keys. Rows of many partitions come as a [`group`]. The room's unsafe code is in `arena`,
//! `pool` and `filter`, which allocate, in `leaf` and `link`, which write and read what is in the arena,
//! and in `tree`, which keeps what leaves refer to.
//!
//! Measured beside crossbeam's skip list, with 100,000 entries of 32-byte values, on two shared
//! cores of a virtual machine with a slow third-level cache; nanoseconds of processor time:
//!
//! ```text
//!                           random 8 B   rows of 500    rows at     rows at    one row in
//!                           row keys     partitions     the end     the front  a partition
//! insert                    129 (741)    201 (806)      126 (171)   131 (139)  190 (760)
//! get, present               57 (845)    122 (962)      104 (783)   115 (797)  125 (925)
//! get, absent                 8           11             10          11          9
//! get, absent; then insert  138          219            140         146        210
//! next or previous entry     26 (45)      45 (45)        10 (40)     12 (41)    46 (47)
//! bytes per entry           118          166            141         141        149
//! ```
//!
//! In brackets: crossbeam. From one thread to eight, an insert's time grows by an eighth.
//!
//! The filter costs a present key 15 ns, an insert 15 ns if the key was looked for before it and
//! 40 ns if not; without it, an absent key costs 25 to 90 ns in each memtable that is asked.

mod arena;
pub(crate) mod bench;
mod cursor;
mod dense;
mod filter;
mod group;
mod inner;
mod large;
mod leaf;
mod link;
#[cfg(all(test, loom))]
mod model;
mod pool;
mod sparse;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod tree;

use std::ops::Range;
use std::sync::Arc;

use arc_swap::Guard;

pub(crate) use self::cursor::MemtableCursor;
use self::filter::Filter;
pub(crate) use self::group::{Inserts, NewRow};
pub(crate) use self::large::LargeRow;
use self::large::LargeRows;
use self::leaf::NewRecord;
pub(crate) use self::pool::ChunkPool;
use self::tree::Tree;
use crate::entry::{Found, Kind};
use crate::key;
use crate::reference::LogPlace;
use crate::sync::{ArcSwap, AtomicBool, Ordering};
use crate::tombstone::{RangeTombstone, RangeTombstones};
use crate::version::Version;

/// Keys up to this length are put together on the stack.
const KEY_ON_STACK_BYTES: usize = 128;
/// A memtable of short keys and values has an entry for every 120 bytes or more, so a filter of
/// this part of its budget has two bytes or so for each.
const BYTES_PER_FILTER_BYTE: usize = 64;
const SMALL_BUDGET_BYTES: usize = 1 << 20;
/// A range tombstone counts as so many bytes of entries, or as this part of the budget. It takes few, but each
/// one that is added has the set made anew, so a memtable gets a thousand or so; and what it deletes gives its space
/// back once it is flushed.
const RANGE_TOMBSTONE_BYTES: usize = 32 << 10;
const RANGE_TOMBSTONE_PART: usize = 16;

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the key `prefix ++ suffix`.
#[inline]
fn with_key(prefix: &[u8], suffix: &[u8], show: impl FnOnce(&[u8])) {
    let len = prefix.len() + suffix.len();
    let mut on_stack = [0; KEY_ON_STACK_BYTES];
    match on_stack.get_mut(..len) {
        Some(key) => {
            let (start, end) = key.split_at_mut(prefix.len());
            start.copy_from_slice(prefix);
            end.copy_from_slice(suffix);
            show(key);
        }
        None => show(&[prefix, suffix].concat()),
    }
}

/// An ordered set of entries that many threads insert into and read at once.
pub(crate) struct Memtable {
    tree: Tree,
    filter: Filter,
    large: LargeRows,
    /// Set before the first range tombstone is: most memtables never have one.
    any_range_tombstone: AtomicBool,
    range_tombstones: ArcSwap<RangeTombstones>,
    range_tombstone_bytes: usize,
}

impl Memtable {
    /// A memtable of any size; one that is known to grow large is better made with
    /// [`with_budget`](Self::with_budget).
    pub(crate) fn new() -> Self {
        Self::with_budget(SMALL_BUDGET_BYTES)
    }

    /// A memtable that is meant to be frozen when it has about `bytes` bytes.
    pub(crate) fn with_budget(bytes: usize) -> Self {
        Self::after_others(bytes, &Arc::default())
    }

    /// As [`with_budget`](Self::with_budget), of memory that others left, and that is left to others.
    pub(crate) fn after_others(bytes: usize, pool: &Arc<ChunkPool>) -> Self {
        Self {
            tree: Tree::new(pool),
            filter: Filter::new(bytes / BYTES_PER_FILTER_BYTE),
            large: LargeRows::default(),
            any_range_tombstone: AtomicBool::new(false),
            range_tombstones: ArcSwap::default(),
            range_tombstone_bytes: RANGE_TOMBSTONE_BYTES.min(bytes / RANGE_TOMBSTONE_PART),
        }
    }

    /// Inserts an entry of the key `prefix ++ suffix`. Inserts of one key must be serialised by
    /// the caller and have increasing versions; those of different keys may run at once.
    pub(crate) fn insert(
        &self,
        prefix: &[u8],
        suffix: &[u8],
        version: Version,
        kind: Kind,
        value: &[u8],
    ) {
        let new = NewRecord::new(version, kind, value);
        with_key(prefix, suffix, |key| {
            self.filter.add(key::hash(key));
            self.tree.insert(key, new);
        });
    }

    /// For rows of many partitions: each as by [`insert`](Self::insert), for less.
    pub(crate) fn inserts<'r>(&self) -> Inserts<'_, 'r> {
        Inserts::new(self)
    }

    /// The same for rows of one partition.
    pub(crate) fn inserts_in_turn<'r>(&self) -> Inserts<'_, 'r> {
        Inserts::in_turn(self)
    }

    /// As [`insert`](Self::insert), of a value that is a part of a payload: it is not copied, the
    /// payload is kept.
    #[cold]
    pub(crate) fn insert_kept(
        &self,
        prefix: &[u8],
        suffix: &[u8],
        version: Version,
        payload: &Arc<Vec<u8>>,
        value: Range<usize>,
    ) {
        with_key(prefix, suffix, |key| {
            self.filter.add(key::hash(key));
            self.tree.insert_kept(key, version, payload, value);
        });
    }

    /// The newest entry of `key` at or before `at`.
    pub(crate) fn get(&self, key: &[u8], at: Version) -> Option<Found<'_>> {
        self.get_hashed(key, key::hash(key), at)
    }

    /// As [`get`](Self::get), for who has the key's [`hash`](key::hash) already.
    pub(crate) fn get_hashed(&self, key: &[u8], hash: u64, at: Version) -> Option<Found<'_>> {
        if !self.filter.may_contain(hash) {
            return None;
        }
        Some(self.tree.get(key)?.newest_at(at)?.found())
    }

    /// Has brought near what is read first to find or insert the key `prefix ++ suffix`.
    pub(crate) fn prefetch(&self, prefix: &[u8], suffix: &[u8]) {
        with_key(prefix, suffix, |key| self.filter.prefetch(key::hash(key)));
    }

    /// The same for the key with that [`hash`](key::hash).
    #[inline]
    pub(crate) fn prefetch_hashed(&self, hash: u64) {
        self.filter.prefetch(hash);
    }

    /// A cursor, not yet positioned. It sees every entry inserted before it was positioned, and
    /// perhaps some inserted later.
    pub(crate) fn cursor(&self) -> MemtableCursor<'_> {
        MemtableCursor::new(&self.tree)
    }

    /// Memory in use for entries, in bytes, and what range tombstones count as; the filter, a 64th of the
    /// budget, is not counted.
    pub(crate) fn bytes(&self) -> usize {
        self.entry_bytes() + self.all_range_tombstone_bytes()
    }

    /// Memory in use for entries alone, in bytes.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.tree.bytes()
    }

    /// What one range tombstone counts as.
    pub(crate) fn range_tombstone_bytes(&self) -> usize {
        self.range_tombstone_bytes
    }

    fn all_range_tombstone_bytes(&self) -> usize {
        if self.has_range_tombstones() {
            self.range_tombstones.load().len() * self.range_tombstone_bytes
        } else {
            0
        }
    }

    /// Whether [`bytes`](Self::bytes) are at least so many, which mostly takes a glance.
    pub(crate) fn has_reached(&self, bytes: usize) -> bool {
        self.room() >= bytes && self.bytes() >= bytes
    }

    /// Memory that was taken for entries, in bytes: never less than is [in use](Self::bytes).
    pub(crate) fn room(&self) -> usize {
        self.tree.room() + self.all_range_tombstone_bytes()
    }

    /// Number of entries: versions, not keys. While others insert, it may be a few too high.
    pub(crate) fn entries(&self) -> u64 {
        self.tree.records()
    }

    /// Whether there is neither an entry nor a range tombstone.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_entries() && !self.has_range_tombstones()
    }

    /// Whether there is any entry.
    pub(crate) fn has_entries(&self) -> bool {
        self.tree.root().is_some()
    }

    /// Notes that a row that was inserted is large, and where in its commit's payload its value is.
    pub(crate) fn add_large(&self, version: Version, row: LargeRow) {
        self.large.add(version, row);
    }

    /// Bytes of the values noted as large.
    pub(crate) fn large_bytes(&self) -> u64 {
        self.large.bytes()
    }

    /// Says where the log has the payload of a commit, all of which is inserted.
    pub(crate) fn place_large(&self, version: Version, payload: LogPlace) {
        self.large.place(version, payload);
    }

    /// The log was written anew: nothing is known of places any more.
    pub(crate) fn forget_places(&self) {
        self.large.forget_places();
    }

    /// Shows each large row whose place in the log is known: its version, and where its value begins.
    pub(crate) fn each_placed(&self, visit: impl FnMut(&LargeRow, Version, LogPlace)) {
        self.large.each_placed(visit);
    }

    /// All those of a commit at once, as the set is made anew each time.
    pub(crate) fn add_range_tombstones(&self, added: &[RangeTombstone]) {
        if !added.is_empty() {
            self.any_range_tombstone.store(true, Ordering::Release);
            self.range_tombstones.rcu(|set| Arc::new(set.with(added)));
        }
    }

    /// Whether there is a range tombstone: the cheap check to make before `range_tombstones`.
    pub(crate) fn has_range_tombstones(&self) -> bool {
        self.any_range_tombstone.load(Ordering::Acquire)
    }

    /// The range tombstones; a clone of the `Arc` keeps them.
    pub(crate) fn range_tombstones(&self) -> Guard<Arc<RangeTombstones>> {
        self.range_tombstones.load()
    }
}
