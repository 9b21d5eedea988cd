//! The block cache: blocks of table files, uncompressed, within a budget of bytes; and beside them
//! [`Hints`] of where keys are.
//!
//! Invariant: what is cached was checked against its checksum, and never changes: a file is
//! written once and its id is never given again, so nothing needs to be removed when a file is.
//! Of other rooms this one calls prefetch only.

pub(crate) mod bench;
mod hints;

use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

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
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a block begins in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockOffset(pub(crate) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    file: FileId,
    offset: BlockOffset,
}

impl Hash for Slot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.file.0.rotate_left(40) ^ self.offset.0);
    }
}

/// Mixes the one number that a slot hashes to. Nobody outside chooses file ids and offsets, so a
/// keyed hash would only cost time.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The two halves of a 128-bit product by an odd constant, folded.
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Lifecycle = DefaultLifecycle<Slot, Arc<[u8]>>;

/// What a slot costs besides its content: the entry, its key and the reference count.
const SLOT_BYTES: u64 = 96;
/// The part of the budget that is for hints: at the default of 256 MiB for memory, 131,072 of them.
const HINTS_PART: usize = 64;
/// A first guess of an item's size, by which the cache sizes its tables.
const TYPICAL_ITEM_BYTES: usize = 8 << 10;

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
    capacity: u64,
    /// Bytes that were put into it so far.
    inserted: AtomicU64,
    hints: Hints,
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
            capacity: capacity as u64,
            inserted: AtomicU64::new(0),
            items: Cache::with(
                items,
                capacity as u64,
                Bytes,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            ),
        }
    }

    pub(crate) fn block(&self, file: FileId, offset: BlockOffset) -> Option<Arc<[u8]>> {
        self.items.get(&Slot { file, offset })
    }

    /// The same before it is needed: if it is not there, that is no miss yet.
    pub(crate) fn block_ahead(&self, file: FileId, offset: BlockOffset) -> Option<Arc<[u8]>> {
        let is_there = self.items.contains_key(&Slot { file, offset });
        is_there.then(|| self.block(file, offset)).flatten()
    }

    pub(crate) fn insert_block(&self, file: FileId, offset: BlockOffset, bytes: Arc<[u8]>) {
        self.inserted.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.items.insert(Slot { file, offset }, bytes);
    }

    /// Whether less was put into it so far than it holds: the database was opened not long ago, or
    /// is small.
    pub(crate) fn is_filling(&self) -> bool {
        self.inserted.load(Ordering::Relaxed) < self.capacity
    }

    /// Where keys were found.
    #[inline]
    pub(crate) fn hints(&self) -> &Hints {
        &self.hints
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.items.hits(),
            misses: self.items.misses(),
            bytes: self.items.weight(),
            capacity: self.capacity,
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
