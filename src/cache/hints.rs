//! [`Hints`]: where keys were found in table files, one word for each, which a lookup leaves for
//! the next one of its key.
//!
//! No invariant: a hint may be another key's. Who follows one finds the key after an entry that is
//! before it, which shows that the place is right whoever named it, or else looks the key up. So a
//! word is read and written without any order, and the later of two takes the place.
//!
//! ```text
//! word = tag 28 bits | index partition 14 | block in it 10 | restart in that 12
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use super::FileId;

const TAG_SHIFT: u32 = 36;
const PARTITION_SHIFT: u32 = 22;
const BLOCK_SHIFT: u32 = 12;
/// So many restarts, blocks and partitions there may be; beyond, nothing is noted.
const RESTARTS: usize = 1 << BLOCK_SHIFT;
const BLOCKS: usize = 1 << (PARTITION_SHIFT - BLOCK_SHIFT);
const PARTITIONS: usize = 1 << (TAG_SHIFT - PARTITION_SHIFT);

/// Where in a file a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Number of the index partition.
    pub(crate) partition: usize,
    /// Position of the data block in it.
    pub(crate) block: usize,
    /// Number of the restart in the block after which the key is.
    pub(crate) restart: usize,
}

/// Hints of all files.
#[derive(Debug)]
pub(crate) struct Hints {
    /// As many as a power of two.
    words: Box<[AtomicU64]>,
}

impl Hints {
    /// Hints that take at most so many bytes, or one word.
    pub(super) fn new(bytes: usize) -> Self {
        let words = bytes / size_of::<AtomicU64>();
        let words = words.checked_ilog2().map_or(1, |log| 1 << log);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Where the key with this hash may be in the file.
    #[inline]
    pub(crate) fn recall(&self, file: FileId, key_hash: u64) -> Option<Hint> {
        let mixed = mix(file, key_hash);
        let word = self.slot(mixed)?.load(Ordering::Relaxed);
        let field = |shift: u32, count: usize| (word >> shift) as usize & (count - 1);
        (word >> TAG_SHIFT == mixed >> TAG_SHIFT).then(|| Hint {
            partition: field(PARTITION_SHIFT, PARTITIONS),
            block: field(BLOCK_SHIFT, BLOCKS),
            restart: field(0, RESTARTS),
        })
    }

    /// Notes where it is.
    #[inline]
    pub(crate) fn note(&self, file: FileId, key_hash: u64, hint: Hint) {
        let Hint { partition, block, restart } = hint;
        let mixed = mix(file, key_hash);
        if partition >= PARTITIONS || block >= BLOCKS || restart >= RESTARTS {
            return;
        }
        if let Some(slot) = self.slot(mixed) {
            let place = partition << PARTITION_SHIFT | block << BLOCK_SHIFT | restart;
            slot.store(mixed >> TAG_SHIFT << TAG_SHIFT | place as u64, Ordering::Relaxed);
        }
    }

    #[inline]
    fn slot(&self, mixed: u64) -> Option<&AtomicU64> {
        self.words.get(mixed as usize & (self.words.len() - 1))
    }
}

/// The hash of a key in a file.
#[inline]
fn mix(file: FileId, key_hash: u64) -> u64 {
    key_hash ^ file.get().wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_that_of_the_file_and_the_hash_or_none() {
        let hints = Hints::new(1 << 12);
        let file = FileId::new(3);
        let hint = Hint { partition: PARTITIONS - 1, block: BLOCKS - 1, restart: RESTARTS - 1 };
        hints.note(file, 77, hint);
        assert_eq!(hints.recall(file, 77), Some(hint));
        assert_eq!(hints.recall(file, 77 | 1 << TAG_SHIFT), None);
        assert_eq!(hints.recall(FileId::new(4), 77), None);
        let later = Hint { partition: 0, block: 1, restart: 2 };
        hints.note(file, 77, later);
        assert_eq!(hints.recall(file, 77), Some(later));
    }

    #[test]
    fn what_has_no_room_in_a_word_is_not_noted() {
        let hints = Hints::new(0);
        let zero = Hint { partition: 0, block: 0, restart: 0 };
        for hint in [
            Hint { partition: PARTITIONS, ..zero },
            Hint { block: BLOCKS, ..zero },
            Hint { restart: RESTARTS, ..zero },
        ] {
            hints.note(FileId::new(1), u64::MAX, hint);
            assert_eq!(hints.recall(FileId::new(1), u64::MAX), None);
        }
    }
}
