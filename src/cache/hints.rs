//! [`Hints`]: where keys were found in table files, a word or two for each, which a lookup leaves
//! for the next one of its key.
//!
//! No invariant: a hint may be another key's. Who follows one finds the key after an entry that is
//! before it, which shows that the place is right whoever named it, or else looks the key up. So
//! words are read and written without any order, and one of a place may stand beside the extent of
//! another, by which memory is only fetched ahead.
//!
//! ```text
//! word   = tag 27 bits | used 1 | index partition 14 | block in it 10 | restart in that 12
//! extent = lines 4 bits | lines up to the block's last 12 | cached 1 | number of the first line 47
//! ```
//!
//! A key's hash chooses a bucket of four, which is one line of memory and so can be fetched before
//! it is known which file is asked. A new hint takes the place of one that was never used, if there
//! is any: most keys are asked for once.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::FileId;
use crate::prefetch::{LINE_BYTES, prefetch};

const TAG_SHIFT: u32 = 37;
const USED: u64 = 1 << 36;
const PARTITION_SHIFT: u32 = 22;
const BLOCK_SHIFT: u32 = 12;
/// So many restarts, blocks and partitions there may be; beyond, nothing is noted.
const RESTARTS: usize = 1 << BLOCK_SHIFT;
const BLOCKS: usize = 1 << (PARTITION_SHIFT - BLOCK_SHIFT);
const PARTITIONS: usize = 1 << (36 - PARTITION_SHIFT);

/// Hints of a bucket.
const WAYS: usize = 4;

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

/// Which bytes a lookup by a hint reads, about: of the file, or of the block where the cache has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent(u64);

const CACHED: u64 = 1 << CACHED_SHIFT;
const CACHED_SHIFT: u32 = 47;
const LAST_SHIFT: u32 = 48;
const LINES_SHIFT: u32 = 60;

impl Extent {
    /// From one offset in the file to another, and those before the end of the block; as much of it
    /// as can be said.
    pub(crate) fn in_file(start: u64, end: u64, block_end: u64) -> Self {
        Self::new(start, end, block_end).unwrap_or_default()
    }

    /// The same of a block in the cache, by offsets in the block.
    pub(crate) fn in_block(start: usize, end: usize, block_end: usize) -> Self {
        let extent = Self::new(start as u64, end as u64, block_end as u64);
        extent.map_or_else(Self::default, |Self(word)| Self(word | CACHED))
    }

    fn new(start: u64, end: u64, block_end: u64) -> Option<Self> {
        let line = |offset: u64| offset / LINE_BYTES as u64;
        let first = line(start);
        let lines = (line(end.saturating_sub(1)).saturating_sub(first) + 1).min(15);
        let last = line(block_end.saturating_sub(1)).saturating_sub(first);
        let fits = first >> CACHED_SHIFT == 0 && last >> (LINES_SHIFT - LAST_SHIFT) == 0;
        fits.then_some(Self(lines << LINES_SHIFT | last << LAST_SHIFT | first))
    }

    /// Whether it is one of a block in the cache.
    #[inline]
    pub(crate) fn is_cached(self) -> bool {
        self.0 & CACHED != 0
    }

    /// Offsets: of the end of the block, then of the rest.
    #[inline]
    pub(crate) fn ranges(self) -> [Range<u64>; 2] {
        let first = self.0 & (CACHED - 1);
        let last = first + (self.0 >> LAST_SHIFT & ((1 << (LINES_SHIFT - LAST_SHIFT)) - 1));
        let lines = self.0 >> LINES_SHIFT;
        let at = |line: u64| line * LINE_BYTES as u64;
        // What stands at the end of a block and is read is about two lines.
        let end = last.saturating_sub(1)..if lines > 0 { last + 1 } else { 0 };
        [end, first..first + lines].map(|lines| at(lines.start)..at(lines.end))
    }
}

#[derive(Debug, Default)]
struct Slot {
    word: AtomicU64,
    extent: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([Slot; WAYS]);

/// Hints of all files.
#[derive(Debug)]
pub(crate) struct Hints {
    /// As many as a power of two.
    buckets: Box<[Bucket]>,
}

impl Hints {
    /// Hints that take at most so many bytes, or one bucket.
    pub(super) fn new(bytes: usize) -> Self {
        let buckets = bytes / size_of::<Bucket>();
        let buckets = buckets.checked_ilog2().map_or(1, |log| 1 << log);
        Self { buckets: (0..buckets).map(|_| Bucket::default()).collect() }
    }

    /// Brings near what [`recall`](Self::recall) reads, whichever file it is asked about.
    #[inline]
    pub(crate) fn prefetch(&self, key_hash: u64) {
        if let Some(bucket) = self.bucket(key_hash) {
            prefetch(bucket);
        }
    }

    /// Where the key with this hash may be in the file.
    #[inline]
    pub(crate) fn recall(&self, file: FileId, key_hash: u64) -> Option<(Hint, Extent)> {
        let tag = tag(file, key_hash);
        for Slot { word: slot, extent } in &self.bucket(key_hash)?.0 {
            let word = slot.load(Ordering::Relaxed);
            if word >> TAG_SHIFT != tag {
                continue;
            }
            // Written only once: a line that is only read stays in the caches of all who read it.
            if word & USED == 0 {
                slot.store(word | USED, Ordering::Relaxed);
            }
            let field = |shift: u32, count: usize| (word >> shift) as usize & (count - 1);
            let hint = Hint {
                partition: field(PARTITION_SHIFT, PARTITIONS),
                block: field(BLOCK_SHIFT, BLOCKS),
                restart: field(0, RESTARTS),
            };
            return Some((hint, Extent(extent.load(Ordering::Relaxed))));
        }
        None
    }

    /// Notes where it is.
    #[inline]
    pub(crate) fn note(&self, file: FileId, key_hash: u64, hint: Hint, extent: Extent) {
        let Hint { partition, block, restart } = hint;
        if partition >= PARTITIONS || block >= BLOCKS || restart >= RESTARTS {
            return;
        }
        let tag = tag(file, key_hash);
        if let Some(slot) = self.bucket(key_hash).and_then(|bucket| bucket.room_for(tag)) {
            let place = partition << PARTITION_SHIFT | block << BLOCK_SHIFT | restart;
            slot.word.store(tag << TAG_SHIFT | place as u64, Ordering::Relaxed);
            slot.extent.store(extent.0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn bucket(&self, key_hash: u64) -> Option<&Bucket> {
        self.buckets.get(key_hash as usize & (self.buckets.len() - 1))
    }
}

impl Bucket {
    /// The slot with the tag, or else one to be given up.
    fn room_for(&self, tag: u64) -> Option<&Slot> {
        let word = |slot: &Slot| slot.word.load(Ordering::Relaxed);
        let slots = &self.0;
        let with_tag = slots.iter().find(|slot| word(slot) >> TAG_SHIFT == tag);
        if let Some(slot) = with_tag.or_else(|| slots.iter().find(|slot| word(slot) & USED == 0)) {
            return Some(slot);
        }
        for slot in slots {
            slot.word.store(word(slot) & !USED, Ordering::Relaxed);
        }
        slots.get(tag as usize % WAYS)
    }
}

/// What tells a key in a file from others of its bucket.
#[inline]
fn tag(file: FileId, key_hash: u64) -> u64 {
    (key_hash ^ file.get().wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> TAG_SHIFT
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: FileId = FileId::new(3);
    const NOWHERE: Extent = Extent(0);

    fn hint(restart: usize) -> Hint {
        Hint { partition: 5, block: 6, restart }
    }

    /// The hash of a key in the first bucket of any number of them.
    fn hash(key: u64) -> u64 {
        key << TAG_SHIFT
    }

    fn recalled(hints: &Hints, file: FileId, key_hash: u64) -> Option<Hint> {
        hints.recall(file, key_hash).map(|(hint, _)| hint)
    }

    #[test]
    fn a_hint_is_that_of_the_file_and_the_hash_or_none() {
        let hints = Hints::new(1 << 12);
        let most = Hint { partition: PARTITIONS - 1, block: BLOCKS - 1, restart: RESTARTS - 1 };
        let extent = Extent::in_file(1_000, 2_000, 9_000);
        hints.note(FILE, 77, most, extent);
        assert_eq!(hints.recall(FILE, 77), Some((most, extent)));
        assert_eq!(hints.recall(FILE, 77 | 1 << TAG_SHIFT), None);
        assert_eq!(hints.recall(FileId::new(4), 77), None);
        hints.note(FILE, 77, hint(2), NOWHERE);
        assert_eq!(hints.recall(FILE, 77), Some((hint(2), NOWHERE)));
        let tagged = hints.buckets[77 % hints.buckets.len()]
            .0
            .iter()
            .filter(|slot| slot.word.load(Ordering::Relaxed) != 0);
        assert_eq!(tagged.count(), 1, "a key has one hint");
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
            hints.note(FileId::new(1), u64::MAX, hint, NOWHERE);
            assert_eq!(hints.recall(FileId::new(1), u64::MAX), None);
        }
    }

    #[test]
    fn keys_that_are_asked_for_again_outlast_those_that_are_not() {
        let hints = Hints::new(0);
        for key in 1..WAYS {
            hints.note(FILE, hash(key as u64), hint(key), NOWHERE);
            assert_eq!(recalled(&hints, FILE, hash(key as u64)), Some(hint(key)));
        }
        for key in 100..200 {
            hints.note(FILE, hash(key), hint(0), NOWHERE);
        }
        for key in 1..WAYS {
            assert_eq!(recalled(&hints, FILE, hash(key as u64)), Some(hint(key)));
        }
        // The newest of the others, which is used now: nothing is left that never was, so that
        // one is given up all the same.
        assert_eq!(recalled(&hints, FILE, hash(199)), Some(hint(0)));
        hints.note(FILE, hash(200), hint(9), NOWHERE);
        assert_eq!(recalled(&hints, FILE, hash(200)), Some(hint(9)));
        let others = (1..WAYS as u64).chain([199]);
        let kept = others.filter(|&key| recalled(&hints, FILE, hash(key)).is_some());
        assert_eq!(kept.count(), WAYS - 1);
    }

    #[test]
    fn an_extent_that_cannot_be_said_is_empty() {
        for (start, end, block_end) in [(u64::MAX - 9, u64::MAX, u64::MAX), (0, 1, 1 << 40)] {
            let extent = Extent::in_file(start, end, block_end);
            assert!(extent.ranges().iter().all(Range::is_empty), "{extent:?}");
            assert!(!extent.is_cached(), "{extent:?}");
        }
        assert!(NOWHERE.ranges().iter().all(Range::is_empty));
    }

    proptest! {
        #[test]
        fn an_extent_has_the_front_of_what_is_walked_and_the_end_of_the_block(
            start in 0u64..1 << 40, walked in 1u64..2_000, rest in 0u64..100_000,
        ) {
            let (end, block_end) = (start + walked, start + walked + rest);
            let extent = Extent::in_file(start, end, block_end);
            prop_assert!(!extent.is_cached());
            let cached = Extent::in_block(start as usize, end as usize, block_end as usize);
            prop_assert!(cached.is_cached());
            prop_assert_eq!(cached.ranges(), extent.ranges());
            let [tail, front] = extent.ranges();
            prop_assert!(tail.contains(&(block_end - 1)) && tail.end - tail.start <= 128);
            prop_assert!(front.contains(&start));
            prop_assert!(walked > 800 || front.contains(&(end - 1)));
            prop_assert!(front.end - front.start <= 15 * 64 && front.end <= end + 64);
        }
    }
}
