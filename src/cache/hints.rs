//! [`Hints`]: where keys were found in table files, two words each, which a lookup leaves for the
//! next one of its key.
//!
//! Invariant: what a hint names as a block of a file is one, and was found right: whoever noted it had
//! read it. Which key it is of is not certain, as the two words are written one after the other and
//! other keys have the same tag. Who follows a hint finds the key after an entry that is before it,
//! which shows that the place is right whoever named it, or else looks the key up. The model beside this has
//! what is noted, asked for and forgotten at once.
//!
//! ```text
//! word  = tag 36 bits | used 1 | cached 1 | lines walked 4 | first of these in the block 10 | restart 12
//! place = number of the file 21 bits | offset of the block 27 | its stored bytes 16
//! ```
//!
//! A key's hash chooses a bucket of four, which is one line of memory and so can be fetched before
//! it is known which file is asked. A new hint takes the place of one that was never used, if there
//! is any: most keys are asked for once.
//!
//! Files are numbered as they are opened. Where a file was closed its hints stay, so its number is
//! given again only once all hints were forgotten, which is when many files have been closed.

use std::ops::Range;

use crate::prefetch::{LINE_BYTES, prefetch};
use crate::sync::{AtomicU64, Mutex, Ordering};

const RESTART_BITS: u32 = 12;
const FIRST_LINE_BITS: u32 = 10;
const LINES_BITS: u32 = 4;
const LINES_SHIFT: u32 = RESTART_BITS + FIRST_LINE_BITS;
const CACHED: u64 = 1 << (LINES_SHIFT + LINES_BITS);
const USED: u64 = CACHED << 1;
const TAG_SHIFT: u32 = LINES_SHIFT + LINES_BITS + 2;

/// No block is nearly as large, but for those of a single large entity.
const LEN_BITS: u32 = 16;
/// Files end at 64 MiB at most, or little after.
const OFFSET_BITS: u32 = 27;
const LAST_NUMBER: u64 = u64::MAX >> (OFFSET_BITS + LEN_BITS);
/// Files that are closed until all hints are forgotten: hours of heavy writing, and half a mebibyte.
pub(super) const MOST_CLOSED: usize = if cfg!(test) { 3 } else { 1 << 16 };

/// Hints of a bucket; in a model one, in which all keys meet.
const WAYS: usize = if cfg!(loom) { 1 } else { 4 };

/// Where in a file a key may be. What does not fit is not noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Offset of the data block in the file.
    pub(crate) offset: u64,
    /// Its stored bytes.
    pub(crate) len: usize,
    /// Whether it is read through the cache.
    pub(crate) is_cached: bool,
    /// Number of the restart in the block after which the key is.
    pub(crate) restart: usize,
    /// What a lookup walks over from there on, in the block: whole lines, and not more than a hint can
    /// say.
    pub(crate) walked: Range<usize>,
}

impl Hint {
    /// All but the tag.
    fn to_words(&self, file: u64) -> Option<(u64, u64)> {
        let fits = |number: u64, bits: u32| (number >> bits == 0).then_some(number);
        let Range { start, end } = self.walked;
        let first = start / LINE_BYTES;
        let lines = end.saturating_sub(first * LINE_BYTES).div_ceil(LINE_BYTES);
        let lines = lines.min((1 << LINES_BITS) - 1) as u64;
        let word = lines << LINES_SHIFT
            | fits(first as u64, FIRST_LINE_BITS)? << RESTART_BITS
            | fits(self.restart as u64, RESTART_BITS)?;
        let place = file << (OFFSET_BITS + LEN_BITS)
            | fits(self.offset, OFFSET_BITS)? << LEN_BITS
            | fits(self.len as u64, LEN_BITS)?;
        Some((if self.is_cached { word | CACHED } else { word }, place))
    }

    #[inline]
    fn of_words(word: u64, place: u64) -> Self {
        let low = |number: u64, bits: u32| number & ((1 << bits) - 1);
        let start = low(word >> RESTART_BITS, FIRST_LINE_BITS) as usize * LINE_BYTES;
        let lines = low(word >> LINES_SHIFT, LINES_BITS) as usize;
        Self {
            offset: low(place >> LEN_BITS, OFFSET_BITS),
            len: low(place, LEN_BITS) as usize,
            is_cached: word & CACHED != 0,
            restart: low(word, RESTART_BITS) as usize,
            walked: start..start + lines * LINE_BYTES,
        }
    }
}

/// By which hints name an open file.
#[derive(Debug)]
pub(crate) struct FileNumber(u64);

/// Which numbers files have.
#[derive(Debug, Default)]
struct Numbers {
    /// Those after this one no file had yet. None has 0: what is forgotten is nobody's.
    last: u64,
    free: Vec<u64>,
    /// Of files that were closed: there may be hints with them.
    closed: Vec<u64>,
}

#[derive(Debug)]
struct Slot {
    word: AtomicU64,
    place: AtomicU64,
}

/// One line of memory.
type Bucket = [Slot; WAYS];

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == LINE_BYTES);

/// Hints of all files.
#[derive(Debug)]
pub(crate) struct Hints {
    /// Buckets side by side, and as many more slots as may lie before the first line.
    slots: Box<[Slot]>,
    /// Where the first bucket begins.
    first: usize,
    /// A power of two less one.
    last_bucket: usize,
    numbers: Mutex<Numbers>,
}

impl Hints {
    /// Hints that take at most so many bytes, or one bucket, and a line of memory beside that.
    pub(super) fn new(bytes: usize) -> Self {
        let buckets = bytes / size_of::<Bucket>();
        let buckets = buckets.checked_ilog2().map_or(1_usize, |log| 1 << log);
        let slots = empty_slots((buckets + 1) * WAYS);
        // A model is to use the same slots each time.
        let first = if cfg!(loom) { 0 } else { slots.as_ptr().align_offset(LINE_BYTES).min(WAYS) };
        Self { slots, first, last_bucket: buckets - 1, numbers: Mutex::default() }
    }

    /// A number for a file that was opened, if there is one left.
    pub(crate) fn open_file(&self) -> Option<FileNumber> {
        let mut numbers = self.numbers.lock();
        if numbers.free.is_empty() && numbers.closed.len() >= MOST_CLOSED {
            // Nobody notes anything of files that were closed, and what was noted before is seen to be
            // forgotten by whoever gets their numbers under this lock.
            self.forget();
            numbers.free = std::mem::take(&mut numbers.closed);
        }
        if let Some(number) = numbers.free.pop() {
            return Some(FileNumber(number));
        }
        let number = numbers.last + 1;
        (number <= LAST_NUMBER).then(|| {
            numbers.last = number;
            FileNumber(number)
        })
    }

    /// How many files are open.
    #[cfg(test)]
    pub(crate) fn open_files(&self) -> usize {
        let numbers = self.numbers.lock();
        numbers.last as usize - numbers.free.len() - numbers.closed.len()
    }

    /// The file was closed: nobody reads it, or notes anything of it.
    pub(crate) fn close_file(&self, file: &FileNumber) {
        self.numbers.lock().closed.push(file.0);
    }

    fn forget(&self) {
        for slot in &self.slots {
            slot.word.store(0, Ordering::Relaxed);
            slot.place.store(0, Ordering::Relaxed);
        }
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
    pub(crate) fn recall(&self, file: &FileNumber, key_hash: u64) -> Option<Hint> {
        for slot in self.bucket(key_hash)? {
            let Some((word, place)) = slot.of(file.0, tag(key_hash)) else { continue };
            // Written only once: a line that is only read stays in the caches of all who read it.
            if word & USED == 0 {
                slot.word.store(word | USED, Ordering::Relaxed);
            }
            return Some(Hint::of_words(word, place));
        }
        None
    }

    /// Notes where it is: in a block that was found right.
    #[inline]
    pub(crate) fn note(&self, file: &FileNumber, key_hash: u64, hint: &Hint) {
        let tag = tag(key_hash);
        if let Some((word, place)) = hint.to_words(file.0)
            && let Some(slot) =
                self.bucket(key_hash).and_then(|bucket| room_in(bucket, file.0, tag))
        {
            slot.word.store(tag << TAG_SHIFT | word, Ordering::Relaxed);
            slot.place.store(place, Ordering::Relaxed);
        }
    }

    #[inline]
    fn bucket(&self, key_hash: u64) -> Option<&Bucket> {
        let start = self.first + (key_hash as usize & self.last_bucket) * WAYS;
        self.slots.get(start..)?.first_chunk()
    }
}

/// Slots without hints. The system's allocator has memory of zeros that nobody touched yet, and the
/// compiler sees that the iterator changes nothing: of a database that is opened it stays untouched.
fn empty_slots(count: usize) -> Box<[Slot]> {
    let zeros = vec![[0; 2]; count].into_iter();
    zeros.map(|[word, place]| Slot { word: word.into(), place: place.into() }).collect()
}

/// The slot of the tag in the file, or else one to be given up.
fn room_in(bucket: &Bucket, file: u64, tag: u64) -> Option<&Slot> {
    let word = |slot: &Slot| slot.word.load(Ordering::Relaxed);
    let same = bucket.iter().find(|slot| slot.of(file, tag).is_some());
    if let Some(slot) = same.or_else(|| bucket.iter().find(|slot| word(slot) & USED == 0)) {
        return Some(slot);
    }
    for slot in bucket {
        slot.word.store(word(slot) & !USED, Ordering::Relaxed);
    }
    bucket.get(tag as usize % WAYS)
}

impl Slot {
    /// Its words, if they are of this tag and this file.
    #[inline]
    fn of(&self, file: u64, tag: u64) -> Option<(u64, u64)> {
        let word = self.word.load(Ordering::Relaxed);
        if word >> TAG_SHIFT != tag {
            return None;
        }
        let place = self.place.load(Ordering::Relaxed);
        (place >> (OFFSET_BITS + LEN_BITS) == file).then_some((word, place))
    }
}

/// What tells a key from others of its bucket.
#[inline]
fn tag(key_hash: u64) -> u64 {
    key_hash >> TAG_SHIFT
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn hint(restart: usize) -> Hint {
        Hint { offset: 5_000, len: 8_000, is_cached: false, restart, walked: 64..192 }
    }

    /// The hash of a key in the first bucket of any number of them.
    fn hash(key: u64) -> u64 {
        key << TAG_SHIFT
    }

    #[test]
    fn a_hint_is_that_of_the_file_and_the_hash_or_none() {
        let hints = Hints::new(1 << 12);
        let file = hints.open_file().unwrap();
        let other = hints.open_file().unwrap();
        let most = Hint {
            offset: (1 << OFFSET_BITS) - 1,
            len: (1 << LEN_BITS) - 1,
            is_cached: true,
            restart: (1 << RESTART_BITS) - 1,
            walked: 65_472..66_432,
        };
        hints.note(&file, 77, &most);
        assert_eq!(hints.recall(&file, 77), Some(most));
        assert_eq!(hints.recall(&file, 77 | 1 << TAG_SHIFT), None);
        assert_eq!(hints.recall(&other, 77), None);
        for (file, restart) in [(&file, 2), (&other, 3)] {
            hints.note(file, 77, &hint(restart));
            assert_eq!(hints.recall(file, 77), Some(hint(restart)));
        }
        assert_eq!(hints.recall(&file, 77), Some(hint(2)), "a key has one in each file");
        let bucket = hints.bucket(77).unwrap();
        let noted = bucket.iter().filter(|slot| slot.word.load(Ordering::Relaxed) != 0);
        assert_eq!(noted.count(), 2);
    }

    #[test]
    fn what_has_no_room_in_a_hint_is_not_noted() {
        let hints = Hints::new(0);
        let file = hints.open_file().unwrap();
        for hint in [
            Hint { offset: 1 << OFFSET_BITS, ..hint(0) },
            Hint { len: 1 << LEN_BITS, ..hint(0) },
            Hint { restart: 1 << RESTART_BITS, ..hint(0) },
            Hint { walked: LINE_BYTES << FIRST_LINE_BITS..usize::MAX, ..hint(0) },
        ] {
            hints.note(&file, u64::MAX, &hint);
            assert_eq!(hints.recall(&file, u64::MAX), None, "{hint:?}");
        }
    }

    #[test]
    fn keys_that_are_asked_for_again_outlast_those_that_are_not() {
        let hints = Hints::new(0);
        let file = hints.open_file().unwrap();
        for key in 1..WAYS {
            hints.note(&file, hash(key as u64), &hint(key));
            assert_eq!(hints.recall(&file, hash(key as u64)), Some(hint(key)));
        }
        for key in 100..200 {
            hints.note(&file, hash(key), &hint(0));
        }
        for key in 1..WAYS {
            assert_eq!(hints.recall(&file, hash(key as u64)), Some(hint(key)));
        }
        // The newest of the others, which is used now: nothing is left that never was, so that
        // one is given up all the same.
        assert_eq!(hints.recall(&file, hash(199)), Some(hint(0)));
        hints.note(&file, hash(200), &hint(9));
        assert_eq!(hints.recall(&file, hash(200)), Some(hint(9)));
        let others = (1..WAYS as u64).chain([199]);
        let kept = others.filter(|&key| hints.recall(&file, hash(key)).is_some());
        assert_eq!(kept.count(), WAYS - 1);
    }

    /// A hint of a file that was closed would lead to bytes of another one that nobody checked.
    #[test]
    fn no_file_finds_a_hint_of_one_that_was_closed() {
        let hints = Hints::new(1 << 12);
        let kept = hints.open_file().unwrap();
        let mut given = HashSet::new();
        for round in 0..20 {
            let files = [(); MOST_CLOSED].map(|()| hints.open_file().unwrap());
            for file in &files {
                given.insert(file.0);
                assert_ne!(file.0, kept.0);
                assert_eq!(hints.recall(file, 77), None, "round {round}");
                hints.note(file, 77, &hint(round));
            }
            hints.note(&kept, 78, &hint(round));
            assert_eq!(hints.recall(&kept, 78), Some(hint(round)));
            files.iter().for_each(|file| hints.close_file(file));
        }
        assert_eq!(given.len(), MOST_CLOSED, "numbers come back");
    }

    #[test]
    fn no_more_files_have_numbers_than_there_are() {
        let hints = Hints::new(0);
        hints.numbers.lock().last = LAST_NUMBER - 1;
        let last = hints.open_file().unwrap();
        hints.note(&last, 77, &hint(1));
        assert_eq!(hints.recall(&last, 77), Some(hint(1)));
        assert!(hints.open_file().is_none());
    }

    proptest! {
        #[test]
        fn a_hint_says_which_lines_are_walked(
            offset in 0u64..1 << OFFSET_BITS, len in 0usize..1 << LEN_BITS, is_cached: bool,
            restart in 0usize..1 << RESTART_BITS, start in 0usize..60_000, bytes in 1usize..2_000,
        ) {
            let hints = Hints::new(0);
            let file = hints.open_file().unwrap();
            let walked = start..start + bytes;
            let noted = Hint { offset, len, is_cached, restart, walked };
            hints.note(&file, 7, &noted);
            let found = hints.recall(&file, 7).unwrap();
            let walked = found.walked.clone();
            prop_assert!(walked.start <= start && start < walked.start + LINE_BYTES);
            prop_assert!(walked.end >= start + bytes || walked.len() == 15 * LINE_BYTES);
            prop_assert!(walked.end < start + bytes + LINE_BYTES && walked.len() <= 15 * LINE_BYTES);
            prop_assert_eq!(Hint { walked, ..noted }, found);
        }
    }
}
