//! [`ChunkPool`]: the largest chunks of arenas, which one memtable leaves to the next.
//!
//! A memtable that fills lives for a fraction of a second, and the system takes as long to make its memory,
//! page by page, as it takes to insert a third of what is in it. So as many chunks as a full memtable has are kept,
//! and each is a huge page if the system has one: that is one page fault instead of 512, and fewer misses of the
//! translation of addresses on the way through a tree.
//!
//! Invariant: a chunk in the pool is nobody else's. The pool frees those it has when it is dropped; each of the
//! others is given back by the arena that took it.

use std::alloc::{Layout, handle_alloc_error};
#[cfg(not(target_os = "linux"))]
use std::alloc::{alloc, dealloc};
use std::ptr::NonNull;

use crate::sync::Mutex;

/// Bytes of a chunk, and what its address is a multiple of: a huge page.
pub(super) const POOLED_BYTES: usize = 2 << 20;

/// Without any, or by default, none are kept.
#[derive(Default)]
pub(crate) struct ChunkPool {
    spare: Mutex<Vec<Chunk>>,
    /// So many are kept at most.
    most: usize,
}

/// Memory of [`layout`].
struct Chunk(NonNull<u8>);

// SAFETY: it is memory that its owner alone refers to.
unsafe impl Send for Chunk {}

fn layout() -> Layout {
    const { assert!(POOLED_BYTES.is_power_of_two()) };
    // SAFETY: the size is not zero and not large, the alignment is a power of two.
    unsafe { Layout::from_size_align_unchecked(POOLED_BYTES, POOLED_BYTES) }
}

impl ChunkPool {
    /// Keeps as much as one memtable has that is frozen at `bytes`.
    pub(crate) fn for_memtables(bytes: usize) -> Self {
        Self { spare: Mutex::new(Vec::new()), most: bytes / POOLED_BYTES }
    }

    /// Memory of [`POOLED_BYTES`], aligned to as many, uninitialised, to be [given back](Self::give_back).
    pub(super) fn take(&self) -> NonNull<u8> {
        let spare = self.spare.lock().pop();
        spare.map_or_else(new_chunk, |Chunk(memory)| memory)
    }

    /// # Safety
    /// The memory is from [`take`](Self::take) of a pool, and nothing refers to it any more.
    pub(super) unsafe fn give_back(&self, memory: NonNull<u8>) {
        let mut spare = self.spare.lock();
        if spare.len() < self.most {
            spare.push(Chunk(memory));
            return;
        }
        drop(spare);
        free(Chunk(memory));
    }
}

impl Drop for ChunkPool {
    fn drop(&mut self) {
        self.spare.lock().drain(..).for_each(free);
    }
}

/// From the system itself: once malloc has freed a buffer of its own, it keeps what is as large in its arenas, where 64
/// writers left 102 MB after a database with a budget of 64 MiB was closed for the fourth time, instead of 26.
#[cfg(target_os = "linux")]
fn new_chunk() -> NonNull<u8> {
    // Twice as much as is wanted has a chunk at a multiple of its length.
    let (bytes, access) = (2 * POOLED_BYTES, libc::PROT_READ | libc::PROT_WRITE);
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: it is new memory, wherever there is room.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    let Some(mapped) = NonNull::new(mapped.cast()).filter(|_| mapped != libc::MAP_FAILED) else {
        handle_alloc_error(layout())
    };
    let before = mapped.align_offset(POOLED_BYTES);
    // SAFETY: all of it is mapped, and of that whole pages go that are not the chunk's. The advice changes nothing
    // of what is in the chunk. It may be refused, then these are small pages.
    unsafe {
        let memory = mapped.add(before);
        if before > 0 {
            unmap(mapped, before);
        }
        unmap(memory.add(POOLED_BYTES), POOLED_BYTES - before);
        libc::madvise(memory.as_ptr().cast(), POOLED_BYTES, libc::MADV_HUGEPAGE);
        memory
    }
}

/// # Safety
/// These are whole pages that were mapped, and nothing refers to them.
#[cfg(target_os = "linux")]
unsafe fn unmap(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: by the caller's word. Where it is refused, as for want of memory, they stay mapped in vain.
    unsafe { libc::munmap(memory.as_ptr().cast(), bytes) };
}

#[cfg(not(target_os = "linux"))]
fn new_chunk() -> NonNull<u8> {
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc(layout()) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout()))
}

#[cfg(target_os = "linux")]
fn free(Chunk(memory): Chunk) {
    // SAFETY: a chunk is mapped by `new_chunk`, in this length, and it is consumed here.
    unsafe { unmap(memory, POOLED_BYTES) };
}

#[cfg(not(target_os = "linux"))]
fn free(Chunk(memory): Chunk) {
    // SAFETY: a chunk is from `new_chunk`, by this layout, and it is consumed here.
    unsafe { dealloc(memory.as_ptr(), layout()) }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_a_memtable_has_is_used_again() {
        let pool = ChunkPool::for_memtables(3 * POOLED_BYTES - 1);
        let chunks = [(); 4].map(|()| pool.take());
        for chunk in chunks {
            assert!((chunk.as_ptr() as usize).is_multiple_of(POOLED_BYTES));
            // SAFETY: it has so many bytes.
            unsafe { chunk.write_bytes(7, POOLED_BYTES) };
        }
        for chunk in chunks {
            // SAFETY: taken above, and not used below unless taken again.
            unsafe { pool.give_back(chunk) };
        }
        assert_eq!(pool.spare.lock().len(), 2);
        let again = [(); 2].map(|()| pool.take());
        assert!(again.iter().all(|chunk| chunks.contains(chunk)));
        for chunk in again {
            // SAFETY: as above.
            unsafe { pool.give_back(chunk) };
        }
    }

    #[test]
    fn pools_of_small_memtables_keep_nothing() {
        let pool = ChunkPool::for_memtables(POOLED_BYTES - 1);
        let chunk = pool.take();
        // SAFETY: taken above, and not used below.
        unsafe { pool.give_back(chunk) };
        assert!(pool.spare.lock().is_empty());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use super::*;

    /// Between taking and giving back a chunk has one owner, who leaves it to the next.
    #[test]
    fn loom_a_chunk_has_one_owner() {
        loom::model(|| {
            let pool = Arc::new(ChunkPool::for_memtables(POOLED_BYTES));
            let threads = [1, 2].map(|byte| {
                let pool = Arc::clone(&pool);
                loom::thread::spawn(move || {
                    let chunk = pool.take();
                    // SAFETY: it is this thread's until it is given back, which is the last that is done.
                    unsafe {
                        chunk.write(byte);
                        loom::thread::yield_now();
                        assert_eq!(chunk.read(), byte);
                        pool.give_back(chunk);
                    }
                })
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(pool.spare.lock().len(), 1);
        });
    }
}
