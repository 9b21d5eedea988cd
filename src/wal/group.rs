//! [`Group`]: the records that are written next, as the device can take them.
//!
//! Invariant: in memory they are as far behind the beginning of a block as in the file they will be, and
//! what the block begins with is what the file has there. So the blocks in which they lie can be
//! written whole, past the page cache.

use super::record::{self, ALIGNMENT, Header, Place, TERMINATOR};
use crate::env::BLOCK_BYTES;

/// Memory that is kept for the next group; more is given back.
const KEPT_BYTES: usize = 4 << 20;

/// Records that are written behind one another.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Something, blocks from `start` to `end`, padding.
    memory: Vec<u8>,
    /// At the beginning of a block of memory.
    start: usize,
    /// Bytes behind `start` which are in the file already.
    before: usize,
    end: usize,
}

impl Group {
    /// Begins anew: records are written behind `before`, which ends at offset `end` of the file and
    /// reaches back to the beginning of a block.
    pub(super) fn begin(&mut self, before: &[u8], end: u64) {
        self.before = (end % BLOCK_BYTES as u64) as usize;
        debug_assert!(before.len() >= self.before, "what the block begins with is known");
        self.end = self.start;
        self.push(before.get(before.len().saturating_sub(self.before)..).unwrap_or_default());
    }

    /// Length of the records.
    pub(super) fn len(&self) -> usize {
        self.end - self.start - self.before
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a record, with its padding.
    pub(super) fn push_record(&mut self, header: Header, place: Place, payload: &[u8]) {
        self.reserve(record::record_bytes(payload.len()));
        record::push_record(&mut self.memory, header, place, payload);
        self.end = self.memory.len();
    }

    /// Appends part of a record.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.memory.extend_from_slice(bytes);
        self.end = self.memory.len();
    }

    /// Appends what is missing to where a record may begin.
    pub(super) fn push_padding(&mut self) {
        let len = self.end - self.start;
        self.pad(len.next_multiple_of(ALIGNMENT) - len);
        self.end = self.memory.len();
    }

    /// The records.
    pub(super) fn records(&self) -> &[u8] {
        self.memory.get(self.start + self.before..self.end).unwrap_or_default()
    }

    /// The records, and a terminator.
    pub(super) fn terminated(&mut self) -> &[u8] {
        self.pad(TERMINATOR.len());
        self.memory.get(self.start + self.before..).unwrap_or_default()
    }

    /// The blocks in which the records lie, and a terminator; zeros follow.
    pub(super) fn blocks(&mut self) -> &[u8] {
        self.pad(self.bytes_to_end_of_blocks());
        self.memory.get(self.start..).unwrap_or_default()
    }

    /// From the end of the records to that of their [blocks](Self::blocks).
    pub(super) fn bytes_to_end_of_blocks(&self) -> usize {
        let len = self.end - self.start;
        (len + TERMINATOR.len()).next_multiple_of(BLOCK_BYTES) - len
    }

    /// The records are in the file; others follow.
    pub(super) fn written(&mut self) {
        let len = self.end - self.start;
        self.before = len % BLOCK_BYTES;
        self.memory.copy_within(self.end - self.before..self.end, self.start);
        self.end = self.start + self.before;
        if self.memory.capacity() > KEPT_BYTES {
            self.grow(0);
        }
    }

    fn pad(&mut self, bytes: usize) {
        self.reserve(bytes);
        self.memory.resize(self.end + bytes, 0);
    }

    /// Makes room for so many bytes behind the records, where nothing else is.
    fn reserve(&mut self, bytes: usize) {
        self.memory.truncate(self.end);
        if self.memory.capacity() - self.memory.len() < bytes {
            self.grow(self.memory.len() + bytes);
        }
    }

    /// Moves to memory of its own that has room for that many bytes; vectors that grow move as they like.
    fn grow(&mut self, bytes: usize) {
        let mut memory = Vec::<u8>::with_capacity(2 * (bytes + BLOCK_BYTES));
        let start = memory.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        memory.resize(start, 0);
        memory.extend_from_slice(self.memory.get(self.start..self.end).unwrap_or_default());
        self.end = memory.len();
        self.start = start;
        self.memory = memory;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn aligned(bytes: &[u8]) -> bool {
        bytes.as_ptr().align_offset(BLOCK_BYTES) == 0 && bytes.len().is_multiple_of(BLOCK_BYTES)
    }

    /// A file that is written by groups has what one written piece by piece has, and zeros behind it.
    #[test]
    fn blocks_hold_what_was_there_what_is_new_and_zeros() {
        for whole_blocks in [true, false] {
            let mut file = vec![7; 64];
            let mut expected = file.clone();
            let mut group = Group::default();
            group.begin(&file, 64);
            for round in 0..200_usize {
                for piece in 0..round % 4 {
                    let bytes = vec![round as u8 + 1; round * 17 + piece];
                    group.push(&bytes);
                    expected.extend(bytes);
                }
                let at = expected.len() - group.len();
                assert_eq!(group.records(), &expected[at..]);
                if whole_blocks {
                    let (from, behind) = (at - at % BLOCK_BYTES, group.bytes_to_end_of_blocks());
                    let blocks = group.blocks();
                    assert!(aligned(blocks));
                    assert_eq!(from + blocks.len(), expected.len() + behind);
                    file.truncate(from);
                    file.extend(blocks);
                } else {
                    file.truncate(at);
                    file.extend(group.terminated());
                }
                group.written();
                assert!(group.is_empty());
                assert_eq!(file[..expected.len()], expected);
                let behind = &file[expected.len()..];
                assert!(behind.len() >= TERMINATOR.len() && behind.iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn it_begins_anew_behind_what_others_wrote() {
        let mut group = Group::default();
        group.push(&[1; 100]);
        let value = vec![2; 3 * BLOCK_BYTES];
        group.begin(&value, 10 * BLOCK_BYTES as u64 + 5);
        group.push(&[3; 2]);
        group.push_padding();
        assert_eq!(group.records(), [3, 3, 0]);
        assert_eq!(group.blocks()[..9], [2, 2, 2, 2, 2, 3, 3, 0, 0]);
        group.written();
        group.begin(&[], 2 * BLOCK_BYTES as u64);
        assert_eq!((group.len(), group.blocks().len()), (0, BLOCK_BYTES));
    }

    #[test]
    fn memory_of_a_large_group_is_given_back() {
        let mut group = Group::default();
        group.begin(&[9; 10], 10);
        group.push(&vec![1; 2 * KEPT_BYTES]);
        group.written();
        assert!(group.memory.capacity() < KEPT_BYTES);
        assert_eq!(group.blocks()[..11], [[1; 10].as_slice(), &[0]].concat());
    }
}
