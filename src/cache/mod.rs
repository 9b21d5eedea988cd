//! The block cache: blocks of table files, uncompressed, and single rows of them, within one budget of
//! bytes that may change; and beside them [`Hints`] of where keys are.
//!
//! Invariant: what is cached was checked against its checksum, and never changes: a file is
//! written once and its id is never given again, so nothing needs to be removed when a file is.
//! Of other rooms this one calls prefetch only.

pub(crate) mod bench;
mod doorkeeper;
mod hints;
#[cfg(all(test, loom))]
mod model;

use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use doorkeeper::Doorkeeper;
pub(crate) use hints::{FileNumber, Hint, Hints};

/// The number of a table file: never given twice in the life of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(u64);

impl FileId {
    pub(crate) const fn new(id: u64) -> Self {
        Self(id)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// The one that is given out next.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a block begins in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockOffset(pub(crate) u64);

/// What an item is of: a block by its file and offset, or a row by its file and the hash of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    file: u64,
    at: u64,
}

impl Slot {
    /// No file has such an id: they are counted.
    const ROW: u64 = 1 << 63;

    fn of_block(file: FileId, offset: BlockOffset) -> Self {
        Self { file: file.0, at: offset.0 }
    }

    fn of_row(file: FileId, key_hash: u64) -> Self {
        Self { file: file.0 | Self::ROW, at: key_hash }
    }

    /// All of it in one number.
    fn folded(&self) -> u64 {
        self.file.rotate_left(40) ^ self.at
    }
}

impl Hash for Slot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.folded());
    }
}

/// Mixes the one number that a slot hashes to. Nobody outside chooses file ids and offsets, and keys with
/// the same hash share a slot, so a keyed hash would only cost time.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(self.0 ^ number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The two halves of a 128-bit product by an odd constant, folded.
fn mixed(number: u64) -> u64 {
    let product = u128::from(number) * 0x9E37_79B9_7F4A_7C15;
    (product as u64) ^ ((product >> 64) as u64)
}

type Lifecycle = DefaultLifecycle<Slot, Arc<[u8]>>;

/// What a slot costs besides its content: the entry, its key and the reference count.
const SLOT_BYTES: u64 = 96;
/// The part of the first capacity that is for hints: at the default of 256 MiB for memory, 131,072 of them.
const HINTS_PART: usize = 96;
/// The part that is filled with whole blocks by point reads, where it holds little of what is stored: they
/// warm it sooner than rows do, but once they are in use, they leave it later.
const BLOCKS_FIRST_PART: u64 = 2;
/// A first guess of an item's size, by which the cache sizes its tables: most are rows where there are
/// any.
const TYPICAL_ITEM_BYTES: usize = 1 << 10;

#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Weighter<Slot, Arc<[u8]>> for Bytes {
    fn weight(&self, _: &Slot, block: &Arc<[u8]>) -> u64 {
        SLOT_BYTES + block.len() as u64
    }
}

/// A scan-resistant cache, sharded so that readers seldom meet.
pub(crate) struct BlockCache {
    items: Cache<Slot, Arc<[u8]>, Bytes, BuildHasherDefault<Mixer>, Lifecycle>,
    /// Bytes that items may take.
    capacity: AtomicU64,
    /// Up to how many bytes point reads put whole blocks into it.
    blocks_first: AtomicU64,
    /// Bytes that were put into it so far.
    inserted: AtomicU64,
    /// Rows that were asked for and not there. Their block is asked for next, which counts.
    row_misses: AtomicU64,
    doorkeeper: Doorkeeper,
    hints: Hints,
    hint_bytes: u64,
}

/// How often the cache was asked, and for what it is holding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes: u64,
    pub(crate) capacity: u64,
}

impl BlockCache {
    /// A cache of at most about `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let hint_bytes = capacity / HINTS_PART;
        let capacity = capacity - hint_bytes;
        let items = (capacity / TYPICAL_ITEM_BYTES).max(16);
        Self {
            hints: Hints::new(hint_bytes),
            hint_bytes: hint_bytes as u64,
            capacity: AtomicU64::new(capacity as u64),
            blocks_first: AtomicU64::new(capacity as u64 / BLOCKS_FIRST_PART),
            inserted: AtomicU64::new(0),
            row_misses: AtomicU64::new(0),
            doorkeeper: Doorkeeper::default(),
            items: Cache::with(
                items,
                capacity as u64,
                Bytes,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            ),
        }
    }

    /// Has it take at most about so many bytes from now on, hints included, for tables of so many bytes. What
    /// it holds beyond that goes before this returns, which may take milliseconds.
    pub(crate) fn adapt(&self, bytes: usize, stored: u64) {
        let capacity = (bytes as u64).saturating_sub(self.hint_bytes);
        // Where it holds most of the blocks, few rows are left to be read one by one.
        let holds_most = stored <= capacity + capacity / 2;
        let blocks_first = if holds_most { capacity } else { capacity / BLOCKS_FIRST_PART };
        self.blocks_first.store(blocks_first, Ordering::Relaxed);
        if self.capacity.swap(capacity, Ordering::Relaxed) != capacity {
            self.items.set_capacity(capacity);
        }
    }

    fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    pub(crate) fn block(&self, file: FileId, offset: BlockOffset) -> Option<Arc<[u8]>> {
        self.items.get(&Slot::of_block(file, offset))
    }

    /// The same before it is needed: if it is not there, that is no miss yet.
    pub(crate) fn block_ahead(&self, file: FileId, offset: BlockOffset) -> Option<Arc<[u8]>> {
        let is_there = self.items.contains_key(&Slot::of_block(file, offset));
        is_there.then(|| self.block(file, offset)).flatten()
    }

    pub(crate) fn insert_block(&self, file: FileId, offset: BlockOffset, bytes: Arc<[u8]>) {
        self.insert(Slot::of_block(file, offset), bytes);
    }

    /// Whether a block that a point read had to read is to be kept whole, and not the row alone: there
    /// is memory to spare, or it was read not long ago, and so is about to be read again.
    pub(crate) fn wants_block(&self, file: FileId, offset: BlockOffset) -> bool {
        self.inserted() < self.blocks_first.load(Ordering::Relaxed)
            || self.doorkeeper.knows(mixed(Slot::of_block(file, offset).folded()))
    }

    /// The row of the key with this hash, or of another one with the same.
    pub(crate) fn row(&self, file: FileId, key_hash: u64) -> Option<Arc<[u8]>> {
        let row = self.items.get(&Slot::of_row(file, key_hash));
        if row.is_none() {
            self.row_misses.fetch_add(1, Ordering::Relaxed);
        }
        row
    }

    pub(crate) fn insert_row(&self, file: FileId, key_hash: u64, row: Arc<[u8]>) {
        self.insert(Slot::of_row(file, key_hash), row);
    }

    fn insert(&self, slot: Slot, bytes: Arc<[u8]>) {
        self.inserted.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.items.insert(slot, bytes);
    }

    /// Whether less was put into it so far than it holds: the database was opened not long ago, or
    /// is small.
    pub(crate) fn is_filling(&self) -> bool {
        self.inserted() < self.capacity()
    }

    fn inserted(&self) -> u64 {
        self.inserted.load(Ordering::Relaxed)
    }

    /// Where keys were found.
    #[inline]
    pub(crate) fn hints(&self) -> &Hints {
        &self.hints
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.items.hits(),
            misses: self.items.misses().saturating_sub(self.row_misses.load(Ordering::Relaxed)),
            bytes: self.items.weight(),
            capacity: self.capacity(),
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlockCache").field(&self.stats()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_it_was_given_within_its_budget() {
        let cache = BlockCache::new(1 << 20);
        let bytes: Arc<[u8]> = vec![7; 8 << 10].into();
        for file in 0..10 {
            for block in 0..100 {
                cache.insert_block(FileId::new(file), BlockOffset(block), Arc::clone(&bytes));
            }
        }
        let stats = cache.stats();
        assert!(stats.bytes <= 1 << 20 && stats.bytes > 512 << 10, "{stats:?}");
        cache.insert_block(FileId::new(99), BlockOffset(1), Arc::clone(&bytes));
        assert!(cache.block(FileId::new(99), BlockOffset(1)).is_some());
        assert!(cache.block(FileId::new(99), BlockOffset(2)).is_none());
    }

    #[test]
    fn gives_memory_back_when_it_may_hold_less() {
        let cache = BlockCache::new(1 << 20);
        let bytes: Arc<[u8]> = vec![7; 8 << 10].into();
        let fill = |file| {
            for block in 0..200 {
                cache.insert_block(FileId::new(file), BlockOffset(block), Arc::clone(&bytes));
            }
            cache.stats().bytes
        };
        let full = fill(1);
        cache.adapt(512 << 10, 0);
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity && stats.capacity < 512 << 10, "{stats:?}");
        assert!(stats.bytes > 256 << 10 && fill(2) <= 512 << 10);
        cache.adapt(1 << 20, 0);
        assert!(fill(3) > full * 9 / 10);
    }

    #[test]
    fn rows_and_blocks_are_told_apart_and_a_row_that_is_missing_is_no_miss() {
        let cache = BlockCache::new(1 << 20);
        let file = FileId::new(1);
        assert!(cache.row(file, 5).is_none());
        assert_eq!(cache.stats().misses, 0);
        cache.insert_block(file, BlockOffset(5), vec![1; 100].into());
        assert!(cache.row(file, 5).is_none());
        cache.insert_row(file, 5, vec![2; 10].into());
        assert_eq!(cache.row(file, 5).unwrap()[0], 2);
        assert_eq!(cache.block(file, BlockOffset(5)).unwrap()[0], 1);
        assert!(cache.row(FileId::new(2), 5).is_none());
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses), (2, 0));
    }

    #[test]
    fn a_block_is_wanted_while_there_is_memory_to_spare_and_when_it_was_read_before() {
        // Much more is stored than fits, or little more.
        for (stored, part) in [(10 << 20, BLOCKS_FIRST_PART), (1 << 20, 1)] {
            let cache = BlockCache::new(1 << 20);
            cache.adapt(1 << 20, stored);
            let (file, block) = (FileId::new(1), BlockOffset(5));
            while cache.inserted() < cache.capacity() / part {
                assert!(cache.wants_block(file, block));
                cache.insert_row(file, cache.inserted(), vec![7; 8 << 10].into());
            }
            assert!(!cache.wants_block(file, BlockOffset(6)));
            assert!(cache.wants_block(file, BlockOffset(6)));
            assert!(!cache.wants_block(FileId::new(2), BlockOffset(6)));
        }
    }

    #[test]
    fn is_filling_until_it_was_given_what_it_holds() {
        let cache = BlockCache::new(1 << 20);
        let held = cache.stats().capacity.div_ceil(8 << 10);
        for block in 0..held {
            assert!(cache.is_filling(), "{block} of {held}");
            cache.insert_block(FileId::new(1), BlockOffset(block), vec![7; 8 << 10].into());
        }
        assert!(!cache.is_filling());
    }
}
