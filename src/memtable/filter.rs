//! The filter before the tree: says that a key is absent, mostly without a cache miss.
//!
//! Every conditional insert looks for its key first, in every memtable, and most do not find it.
//!
//! Invariant: a key that was added is never said to be absent to whoever comes after. The hash of
//! a key chooses a word and some bits in it; adding sets them, and nothing clears them. A filter
//! with too many keys says ever less, but nothing wrong. The memtable's models have two writers of one word.

#[cfg(not(loom))]
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
#[cfg(not(loom))]
use std::ptr::{self, NonNull};

use crate::prefetch::prefetch;
use crate::sync::{AtomicU64, Ordering};

pub(super) struct Filter {
    /// A power of two of them.
    words: Box<[AtomicU64]>,
}

/// The bits of a key in its word. Four bits of 64, where four keys share a word, let one absent
/// key in thirty through.
#[inline]
fn bits(hash: u64) -> u64 {
    1 << (hash >> 58) | 1 << (hash >> 52 & 63) | 1 << (hash >> 46 & 63) | 1 << (hash >> 40 & 63)
}

impl Filter {
    /// A filter of at least `bytes` bytes; it is meant for half as many keys.
    pub(super) fn new(bytes: usize) -> Self {
        Self { words: zeroed((bytes / size_of::<AtomicU64>()).next_power_of_two()) }
    }

    #[inline]
    fn word(&self, hash: u64) -> Option<&AtomicU64> {
        self.words.get(hash as usize & (self.words.len() - 1))
    }

    /// Whether the key with that hash may have been added.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let word = self.word(hash).map_or(u64::MAX, |word| word.load(Ordering::Relaxed));
        word & bits(hash) == bits(hash)
    }

    /// Has the word of the key with that hash brought near.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(word) = self.word(hash) {
            prefetch(word);
        }
    }

    /// Adds a key by its hash. It needs no ordering of its own: whoever is to see the key learns
    /// of it by something ordered after its insert.
    #[inline]
    pub(super) fn add(&self, hash: u64) {
        if let Some(word) = self.word(hash) {
            word.fetch_or(bits(hash), Ordering::Relaxed);
        }
    }
}

/// loom's words are more than their bits.
#[cfg(loom)]
fn zeroed(len: usize) -> Box<[AtomicU64]> {
    std::iter::repeat_with(|| AtomicU64::new(0)).take(len).collect()
}

/// Words of zeros, from an allocation that the system clears only where it is touched.
#[cfg(not(loom))]
fn zeroed(len: usize) -> Box<[AtomicU64]> {
    let Ok(layout) = Layout::array::<AtomicU64>(len) else { return Box::default() };
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    let Some(first) = NonNull::new(memory.cast()) else { handle_alloc_error(layout) };
    // SAFETY: the memory has the layout of the boxed slice and is from the allocator that a box
    // uses; zero is a valid value of every word in it.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first.as_ptr(), len)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;

    fn hash(i: u64) -> u64 {
        key::hash(&i.to_le_bytes())
    }

    #[test]
    fn what_was_added_is_never_absent_however_full_the_filter_is() {
        for (keys, bytes) in [(0, 0), (100, 0), (1, 8 << 10), (4_000, 8 << 10), (40_000, 8 << 10)] {
            let filter = Filter::new(bytes);
            for i in 0..keys {
                filter.add(hash(i));
            }
            assert!((0..keys).all(|i| filter.may_contain(hash(i))));
        }
    }

    #[test]
    fn what_was_not_added_is_mostly_absent_while_there_is_room() {
        let filter = Filter::new(8 << 10);
        for i in 0..4_096 {
            filter.add(hash(i));
        }
        let wrong = (10_000..20_000).filter(|&i| filter.may_contain(hash(i))).count();
        assert!(wrong < 500, "{wrong} of 10000");
    }

    #[test]
    fn adding_from_many_threads_loses_nothing() {
        let filter = Filter::new(8 << 10);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let filter = &filter;
                scope.spawn(move || {
                    for i in 0..1_500 {
                        filter.add(hash(i * 4 + thread));
                        assert!(filter.may_contain(hash(i * 4 + thread)));
                    }
                });
            }
        });
        assert!((0..6_000).all(|i| filter.may_contain(hash(i))));
    }
}
