//! The arena: memory for leaves, records and inner nodes that is given out from many threads and
//! returned as a whole when the arena is dropped.
//!
//! Invariant: a block that was given out overlaps no other, never moves, and stays until the
//! arena is dropped. Threads are spread over shards, each with a chunk from which blocks are cut
//! by one `fetch_add`; a lock is taken only to start the next chunk.
//!
//! The largest chunks are of a [`ChunkPool`], and go back there.
//!
//! ```text
//! shard ─► current chunk  [ header │ block │ block │ block │ free ... ]
//!          chunks before it, and blocks too large to share one, each in a chunk of its own
//! ```

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as StdAtomicUsize;

use super::pool::{ChunkPool, POOLED_BYTES};
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering};

const SHARDS: usize = if cfg!(loom) { 1 } else { 8 };
/// A memtable of a few entries should be small, and one of many should not call the allocator
/// often: chunks of a shard double from the first size to the last.
const FIRST_CHUNK_BYTES: usize = 4 << 10;
const LAST_CHUNK_BYTES: usize = POOLED_BYTES - MOST_HEADER_BYTES;
/// Room for the header of a chunk of the pool, whatever the alignment of blocks.
const MOST_HEADER_BYTES: usize = 64;
/// A block larger than the chunk divided by this has a chunk of its own, so that the rest of a
/// chunk that is given up for lack of room stays a small part of it.
const LARGE_PART_OF_CHUNK: usize = 4;

/// Gives out blocks whose addresses and sizes are multiples of `ALIGN`.
pub(super) struct Arena<const ALIGN: usize> {
    shards: [Shard<ALIGN>; SHARDS],
    /// Bytes of all chunks.
    room: AtomicUsize,
    pool: Arc<ChunkPool>,
}

/// Padded so that threads of different shards do not share a cache line.
#[repr(align(128))]
struct Shard<const ALIGN: usize> {
    current: AtomicPtr<Chunk>,
    /// Bytes of all chunks but the current one.
    retired_bytes: AtomicUsize,
    chunks: Mutex<Chunks>,
}

struct Chunks {
    /// All chunks of the shard, the current one among them.
    all: Vec<NonNull<Chunk>>,
    next_bytes: usize,
}

/// The header of a chunk; its blocks follow.
struct Chunk {
    /// Bytes asked for so far, which may be more than `capacity`: then the chunk is full. Above
    /// [`BYTES`], the number of blocks; both in one word, so that one operation changes both.
    used: AtomicU64,
    /// Bytes after the header.
    capacity: usize,
}

/// The part of [`Chunk::used`] that counts bytes.
const BYTES: u64 = ONE_BLOCK - 1;
const ONE_BLOCK: u64 = 1 << 44;
const _: () = assert!(LAST_CHUNK_BYTES / 8 < (u64::MAX / ONE_BLOCK) as usize, "all blocks count");

// SAFETY: a chunk is reached through `current` and `all` alone; its header is an atomic and a
// number that never changes, and its blocks are handed to one caller each.
unsafe impl<const ALIGN: usize> Send for Arena<ALIGN> {}
// SAFETY: as above; `all` is behind a lock.
unsafe impl<const ALIGN: usize> Sync for Arena<ALIGN> {}

impl<const ALIGN: usize> Arena<ALIGN> {
    pub(super) fn new(pool: Arc<ChunkPool>) -> Self {
        let shards = std::array::from_fn(|_| Shard::new());
        Self { shards, room: AtomicUsize::new(0), pool }
    }

    /// A block of `bytes` bytes, aligned to `ALIGN`, uninitialised, valid as long as the arena.
    pub(super) fn alloc(&self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGN);
        let shard = self.shard();
        let current = shard.current.load(Ordering::Acquire);
        // SAFETY: chunks live as long as the arena.
        match unsafe { current.as_ref() }.and_then(|_| cut::<ALIGN>(current, bytes)) {
            Some(block) => block,
            None => shard.alloc_slowly(bytes, &self.room, &self.pool),
        }
    }

    /// Bytes of all blocks, and of the room that was left at the end of chunks.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(Shard::bytes).sum()
    }

    /// At least as many as [`bytes`](Self::bytes) says, for less: that reads of every shard what its
    /// threads write with each block.
    pub(super) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// Number of blocks. While blocks are being given out, it may count some of them twice.
    pub(super) fn blocks(&self) -> u64 {
        self.shards.iter().map(Shard::blocks).sum()
    }

    fn shard(&self) -> &Shard<ALIGN> {
        let slot = SLOT.with(Cell::get);
        self.shards.get(slot % SHARDS).unwrap_or(&self.shards[0])
    }
}

static NEXT_SLOT: StdAtomicUsize = StdAtomicUsize::new(0);

thread_local! {
    /// Which shard this thread uses, in every arena.
    static SLOT: Cell<usize> = Cell::new(NEXT_SLOT.fetch_add(1, Ordering::Relaxed));
}

impl<const ALIGN: usize> Shard<ALIGN> {
    fn new() -> Self {
        Self {
            current: AtomicPtr::new(ptr::null_mut()),
            retired_bytes: AtomicUsize::new(0),
            chunks: Mutex::new(Chunks { all: Vec::new(), next_bytes: FIRST_CHUNK_BYTES }),
        }
    }

    fn bytes(&self) -> usize {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: chunks live as long as the arena.
        let in_current = unsafe { current.as_ref() }.map_or(0, |chunk| {
            used_bytes(chunk.used.load(Ordering::Relaxed)).min(chunk.capacity as u64)
        });
        self.retired_bytes.load(Ordering::Relaxed) + in_current as usize
    }

    fn blocks(&self) -> u64 {
        let chunks = self.chunks.lock();
        // SAFETY: chunks live as long as the arena.
        let used = chunks.all.iter().map(|c| unsafe { c.as_ref() }.used.load(Ordering::Relaxed));
        used.map(|used| used / ONE_BLOCK).sum()
    }

    #[cold]
    fn alloc_slowly(&self, bytes: usize, room: &AtomicUsize, pool: &ChunkPool) -> NonNull<u8> {
        let mut chunks = self.chunks.lock();
        if bytes > chunks.next_bytes / LARGE_PART_OF_CHUNK {
            // The next of its size share a chunk, if any chunk has room for them.
            if bytes <= LAST_CHUNK_BYTES / LARGE_PART_OF_CHUNK {
                chunks.next_bytes = (chunks.next_bytes * 2).min(LAST_CHUNK_BYTES);
            }
            room.fetch_add(bytes, Ordering::Relaxed);
            let own = new_chunk::<ALIGN>(bytes, bytes, pool);
            chunks.all.push(own);
            self.retired_bytes.fetch_add(bytes, Ordering::Relaxed);
            return first_block::<ALIGN>(own);
        }
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: chunks live as long as the arena.
        if let Some(full) = unsafe { current.as_ref() } {
            // Another thread may have started this chunk while this one waited for the lock.
            if let Some(block) = cut::<ALIGN>(current, bytes) {
                return block;
            }
            self.retired_bytes.fetch_add(full.capacity, Ordering::Relaxed);
        }
        let capacity = chunks.next_bytes;
        chunks.next_bytes = (capacity * 2).min(LAST_CHUNK_BYTES);
        room.fetch_add(capacity, Ordering::Relaxed);
        let next = new_chunk::<ALIGN>(capacity, bytes, pool);
        chunks.all.push(next);
        self.current.store(next.as_ptr(), Ordering::Release);
        first_block::<ALIGN>(next)
    }
}

/// Cuts a block from a chunk that has room for it.
#[inline]
fn cut<const ALIGN: usize>(chunk: *mut Chunk, bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the caller has the pointer from its shard; chunks live as long as the arena.
    let header = unsafe { chunk.as_ref() }?;
    if bytes > header.capacity / LARGE_PART_OF_CHUNK {
        return None;
    }
    let start = used_bytes(header.used.fetch_add(ONE_BLOCK + bytes as u64, Ordering::Relaxed));
    if start + bytes as u64 > header.capacity as u64 {
        header.used.fetch_sub(ONE_BLOCK, Ordering::Relaxed);
        return None;
    }
    // SAFETY: `start + bytes` is within the chunk's allocation, after its header.
    NonNull::new(unsafe { chunk.cast::<u8>().add(header_bytes::<ALIGN>() + start as usize) })
}

fn used_bytes(used: u64) -> u64 {
    used & BYTES
}

fn first_block<const ALIGN: usize>(chunk: NonNull<Chunk>) -> NonNull<u8> {
    // SAFETY: a chunk is at least its header and one block.
    unsafe { chunk.cast::<u8>().add(header_bytes::<ALIGN>()) }
}

const fn header_bytes<const ALIGN: usize>() -> usize {
    const {
        assert!(align_of::<Chunk>() <= ALIGN && ALIGN.is_power_of_two());
        let bytes = size_of::<Chunk>().next_multiple_of(ALIGN);
        assert!(bytes <= MOST_HEADER_BYTES);
        bytes
    }
}

/// Whether a chunk is one of the pool's.
const fn is_pooled(capacity: usize) -> bool {
    capacity == LAST_CHUNK_BYTES
}

fn chunk_layout<const ALIGN: usize>(capacity: usize) -> Layout {
    // SAFETY: the alignment is a power of two; a capacity is the length of a slice in memory and
    // a few words, or a constant, which rounded up is below `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(header_bytes::<ALIGN>() + capacity, ALIGN) }
}

/// A new chunk whose first `first` bytes are given out, as one block.
fn new_chunk<const ALIGN: usize>(
    capacity: usize,
    first: usize,
    pool: &ChunkPool,
) -> NonNull<Chunk> {
    let chunk = if is_pooled(capacity) {
        pool.take().cast::<Chunk>()
    } else {
        let layout = chunk_layout::<ALIGN>(capacity);
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc(layout) };
        NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
    };
    let used = AtomicU64::new(ONE_BLOCK + first as u64);
    // SAFETY: the memory is nobody else's, aligned, and large enough for a header.
    unsafe { chunk.write(Chunk { used, capacity }) };
    chunk
}

impl<const ALIGN: usize> Drop for Arena<ALIGN> {
    fn drop(&mut self) {
        for shard in &self.shards {
            for chunk in shard.chunks.lock().all.drain(..) {
                // SAFETY: the chunk came from `new_chunk`, from the pool or with this layout; `&mut self`
                // says that no block of it is borrowed any more.
                unsafe {
                    let capacity = chunk.as_ref().capacity;
                    chunk.drop_in_place();
                    if is_pooled(capacity) {
                        self.pool.give_back(chunk.cast());
                    } else {
                        dealloc(chunk.as_ptr().cast(), chunk_layout::<ALIGN>(capacity));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn arena() -> Arena<8> {
        Arena::new(Arc::default())
    }

    #[test]
    fn blocks_are_aligned_and_do_not_overlap() {
        let arena = arena();
        let mut blocks = Vec::new();
        for i in 0..5_000usize {
            let len = [1, 8, 33, 200, 3_000, 70_000][i % if i % 100 == 0 { 6 } else { 4 }];
            let block = arena.alloc(len);
            assert_eq!(block.as_ptr() as usize % 8, 0);
            // SAFETY: the block has that many bytes.
            unsafe { block.write_bytes(i as u8, len) };
            blocks.push((block, len, i as u8));
        }
        for (block, len, byte) in blocks {
            // SAFETY: written above, and the arena lives.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), len) };
            assert!(bytes.iter().all(|&b| b == byte));
        }
    }

    #[test]
    fn bytes_counts_large_blocks_exactly_and_small_ones_closely() {
        let arena = arena();
        assert_eq!(arena.bytes(), 0);
        arena.alloc(1 << 20);
        assert_eq!((arena.bytes(), arena.blocks()), (1 << 20, 1));
        for _ in 0..1_000 {
            arena.alloc(100);
        }
        let small = arena.bytes() - (1 << 20);
        assert!((104_000..120_000).contains(&small), "{small}");
        assert_eq!(arena.blocks(), 1_001);
        assert!((arena.bytes()..arena.bytes() + LAST_CHUNK_BYTES).contains(&arena.room()));
    }

    #[test]
    fn large_blocks_soon_share_chunks() {
        for len in [1_504, 40_000, LAST_CHUNK_BYTES / LARGE_PART_OF_CHUNK] {
            let arena = arena();
            let mut chunk_bytes = 0;
            for count in 1..=1_000usize {
                arena.alloc(len);
                chunk_bytes = arena.room() - count * len;
                assert!(arena.bytes() >= count * len && arena.bytes() <= arena.room());
            }
            assert!(chunk_bytes <= LAST_CHUNK_BYTES + 1_000 * len / 4, "{len}: {chunk_bytes}");
            let chunks: usize = arena.shards.iter().map(|s| s.chunks.lock().all.len()).sum();
            let full = 1_000 * len / LAST_CHUNK_BYTES;
            assert!(chunks <= full * 4 / 3 + 12, "{len}: {chunks} chunks");
        }
    }

    #[test]
    fn threads_get_blocks_of_their_own() {
        let arena = arena();
        std::thread::scope(|scope| {
            for thread in 0..2 * SHARDS as u8 {
                let arena = &arena;
                scope.spawn(move || {
                    let blocks: Vec<_> = (0..2_000).map(|_| arena.alloc(24)).collect();
                    for block in &blocks {
                        // SAFETY: the block has that many bytes.
                        unsafe { block.write_bytes(thread, 24) };
                    }
                    for block in &blocks {
                        // SAFETY: written above, by this thread alone.
                        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), 24) };
                        assert!(bytes.iter().all(|&b| b == thread));
                    }
                });
            }
        });
        assert_eq!(arena.blocks(), 2 * SHARDS as u64 * 2_000);
    }

    /// What one arena leaves the next one has, whatever the alignment of its blocks.
    #[test]
    fn the_largest_chunks_are_used_again() {
        fn fill<const ALIGN: usize>(pool: &Arc<ChunkPool>) -> Vec<NonNull<Chunk>> {
            let arena = Arena::<ALIGN>::new(Arc::clone(pool));
            for n in 0..200_000usize {
                let block = arena.alloc(64);
                // SAFETY: the block has that many bytes.
                unsafe { block.write_bytes(n as u8, 64) };
            }
            // One whose block is all of it is the pool's as well.
            let block = arena.alloc(LAST_CHUNK_BYTES);
            // SAFETY: as above.
            unsafe { block.write_bytes(1, LAST_CHUNK_BYTES) };
            let all = arena.shards.iter().flat_map(|shard| shard.chunks.lock().all.clone());
            // SAFETY: the arena lives.
            all.filter(|chunk| is_pooled(unsafe { chunk.as_ref() }.capacity)).collect()
        }
        let pool = Arc::new(ChunkPool::for_memtables(64 << 20));
        let (first, second) = (fill::<8>(&pool), fill::<64>(&pool));
        assert!(first.len() >= 6);
        assert!(second.iter().filter(|chunk| first.contains(chunk)).count() >= first.len() - 1);
    }
}
