//! [`RawEntry`]: one entry of a block as it is stored.
//!
//! ```text
//! entry = shared | unshared | body length << 1 | kind || key suffix || version delta | value
//!         \_________ varints _______________________/                 \____ body ________/
//! kind  = 1: put; 0: deletion, or a reference to a value if there are bytes of it
//! ```
//!
//! A key is stored as the number of bytes it shares with the key before and the rest, a version as
//! its zigzag difference from the block's base version.
//!
//! Invariant: whatever the bytes are, an entry that is read lies within them.

use crate::entry::Kind;
use crate::varint::{push_varint, read_varint, read_wide_varint};
use crate::version::Version;

/// Most suffixes are not longer.
const FEW_BYTES: usize = 32;

/// One entry as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry<'a> {
    /// How many bytes the key shares with the key before.
    pub(super) shared: usize,
    /// The rest of the key.
    pub(super) suffix: &'a [u8],
    /// All that the block has from the suffix on.
    onward: &'a [u8],
    bit: u8,
    body: &'a [u8],
    /// Offset of the entry after.
    pub(super) next: usize,
}

impl<'a> RawEntry<'a> {
    /// The entry at an offset of a block's entries.
    #[inline]
    pub(super) fn read(entries: &'a [u8], at: usize) -> Option<Self> {
        let (EntryHead { shared, unshared, tag }, onward) = EntryHead::split(entries.get(at..)?)?;
        let (suffix, bytes) = onward.split_at_checked(unshared)?;
        let (body, after) = bytes.split_at_checked(tag >> 1)?;
        let next = entries.len() - after.len();
        Some(Self { shared, suffix, onward, bit: (tag & 1) as u8, body, next })
    }

    /// Version and value, in a block with that base version.
    // Always: it is a handful of instructions at the end of every search and step.
    #[inline(always)]
    pub(super) fn body(&self, base: u64) -> Option<(Version, &'a [u8])> {
        // Tombstones have few bytes of their own.
        let (delta, len) = read_wide_varint(self.onward.get(self.suffix.len()..)?)?;
        let version = Version::from_ticks(base.wrapping_add(unzigzag(delta)));
        Some((version, self.body.get(len..)?))
    }

    /// What kind of entry it is, with this value.
    #[inline]
    pub(super) fn kind(&self, value: &[u8]) -> Kind {
        Kind::of_stored(self.bit, value)
    }

    /// Makes `key` the entry's, which begins with the first `kept` bytes of it: with the shared
    /// bytes, or at a restart perhaps with more.
    #[inline]
    pub(super) fn put_key(&self, key: &mut Vec<u8>, kept: usize) {
        key.truncate(kept);
        let new = kept - self.shared;
        let len = self.suffix.len() - new;
        match self.onward.get(new..).and_then(|onward| onward.first_chunk::<FEW_BYTES>()) {
            // A copy of as many bytes as the compiler knows of is an instruction or two.
            Some(few) if len <= FEW_BYTES => {
                key.extend_from_slice(few);
                key.truncate(kept + len);
            }
            _ => key.extend_from_slice(self.suffix.get(new..).unwrap_or_default()),
        }
    }

    /// Whether the key is `key`, if the shared bytes are.
    #[inline]
    pub(super) fn has_key(&self, key: &[u8]) -> bool {
        // One byte settles it for neighbours, mostly the last, before what ends every key.
        let byte = |bytes: &[u8]| bytes.len().checked_sub(2).and_then(|at| bytes.get(at)).copied();
        let rest = key.get(self.shared..);
        rest.is_some_and(|rest| byte(rest) == byte(self.suffix) && rest == self.suffix)
    }
}

/// The three numbers that an entry begins with.
pub(super) struct EntryHead {
    pub(super) shared: usize,
    pub(super) unshared: usize,
    /// Length of the body, shifted left by one; the kind's bit.
    pub(super) tag: usize,
}

impl EntryHead {
    /// Appends it.
    #[inline]
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        let Self { shared, unshared, tag } = *self;
        if shared < 0x80 && unshared < 0x80 && (0x80..0x4000).contains(&tag) {
            let low = tag as u8 | 0x80;
            return out.extend_from_slice(&[shared as u8, unshared as u8, low, (tag >> 7) as u8]);
        }
        for number in [shared, unshared, tag] {
            push_varint(out, number as u64);
        }
    }

    /// The head at the front, and what follows it.
    #[inline]
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        // Nearly all take one, one, and one or two bytes.
        if let Some((four, after)) = bytes.split_first_chunk() {
            let word = u32::from_le_bytes(*four) as usize;
            let (shared, unshared, low) = (word & 0x7F, word >> 8 & 0x7F, word >> 16 & 0x7F);
            if word & 0x0080_8080 == 0 {
                return Some((Self { shared, unshared, tag: low }, bytes.get(3..)?));
            }
            if word & 0x8000_8080 == 0 {
                return Some((Self { shared, unshared, tag: low | word >> 24 << 7 }, after));
            }
        }
        Self::split_any(bytes)
    }

    #[cold]
    fn split_any(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (shared, a) = read_varint(bytes)?;
        let (unshared, b) = read_varint(bytes.get(a..)?)?;
        let (tag, c) = read_varint(bytes.get(a + b..)?)?;
        let number = |number: u64| usize::try_from(number).ok();
        let head = Self { shared: number(shared)?, unshared: number(unshared)?, tag: number(tag)? };
        Some((head, bytes.get(a + b + c..)?))
    }
}

/// The suffix of the entry at an offset: its key, if that is a restart.
#[inline]
pub(super) fn suffix_at(entries: &[u8], at: usize) -> Option<&[u8]> {
    let (head, rest) = EntryHead::split(entries.get(at..)?)?;
    rest.get(..head.unshared)
}

/// Small differences of either sign as small numbers.
pub(super) fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Three varints, which come back.
        #[test]
        fn a_head_round_trips(
            numbers in proptest::array::uniform3((0usize..usize::MAX / 2, 0..usize::BITS - 1)),
        ) {
            let [shared, unshared, tag] = numbers.map(|(number, shift)| number >> shift);
            let mut bytes = Vec::new();
            EntryHead { shared, unshared, tag }.push(&mut bytes);
            let mut plain = Vec::new();
            [shared, unshared, tag].iter().for_each(|n| push_varint(&mut plain, *n as u64));
            prop_assert_eq!(&bytes, &plain);
            bytes.push(7);
            let (head, after) = EntryHead::split(&bytes).unwrap();
            prop_assert_eq!((head.shared, head.unshared, head.tag), (shared, unshared, tag));
            prop_assert_eq!(after, [7]);
        }

        #[test]
        fn zigzag_is_reversible(number in any::<u64>()) {
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }
    }
}
