//! The index: which data block may hold a key, in two levels.
//!
//! ```text
//! top (in the directory, kept decoded):  fence → index partition
//! index partition (a block of its own):  fence → data block
//! ```
//!
//! Invariant: fences ascend as (key ascending, version descending); an entry is in the first block
//! whose fence is at or after it. Between two keys the fence is the shortest front of the second
//! that is not one of the first, at [`Version::MAX`], which no entry has: it is before all entries
//! of that front. Where one key's versions go on in the next block, and at the end of the file,
//! the fence is the block's last entry.

use std::ops::Range;

use super::block::Block;
use super::block_builder::{BlockBuilder, RestartInterval};
use super::prefixes::{find_prefix, prefix_of};
use super::raw_entry::RawEntry;
use crate::cache::BlockOffset;
use crate::entry::{Entry, Kind};
use crate::error::Damage;
use crate::key::common_prefix;
use crate::varint::{Decoder, push_slice, push_varint, read_varint};
use crate::version::Version;

/// A partition ends at about this size: a page of memory, read as a whole.
const PARTITION_BYTES: usize = 4 << 10;
/// But it has this many fences at least: the top level, which is in memory, has one of each partition, and where keys
/// of some kilobytes differ at their ends alone it would have nearly all.
const LEAST_FENCES: usize = 16;

/// The newest version an entry in a file can have, see the invariant above.
pub(super) const NEWEST: Version = Version::MAX.previous();

/// Where a stored block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHandle {
    pub(super) offset: BlockOffset,
    /// Stored bytes, with the trailer.
    pub(super) len: usize,
    /// Whether to look for it in the cache before the file is touched.
    pub(super) compressed: bool,
    /// Number of the block in its file: data blocks, then index partitions.
    pub(super) ordinal: usize,
    /// How many entries are in the blocks before.
    pub(super) entries_before: u64,
}

impl BlockHandle {
    /// Offset after the stored block.
    pub(super) fn end(&self) -> u64 {
        self.offset.0.saturating_add(self.len as u64)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.offset.0);
        push_varint(out, (self.len as u64) << 1 | u64::from(self.compressed));
        push_varint(out, self.ordinal as u64);
        push_varint(out, self.entries_before);
    }

    /// The handle at the front of `bytes`; `None` if [`decode`](Self::decode) has something to say
    /// against it.
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        let (offset, a) = read_varint(bytes)?;
        let bytes = bytes.get(a..)?;
        let (len, b) = read_varint(bytes)?;
        let bytes = bytes.get(b..)?;
        let (ordinal, c) = read_varint(bytes)?;
        let (entries_before, _) = read_varint(bytes.get(c..)?)?;
        Some(Self {
            offset: BlockOffset(offset),
            len: u32::try_from(len).ok()? as usize >> 1,
            compressed: len & 1 == 1,
            ordinal: u32::try_from(ordinal).ok()? as usize,
            entries_before,
        })
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Damage> {
        let offset = BlockOffset(decoder.varint("a block's offset")?);
        let len = decoder.length("a block's length", u32::MAX as usize)?;
        Ok(Self {
            offset,
            len: len >> 1,
            compressed: len & 1 == 1,
            ordinal: decoder.length("a block's ordinal", u32::MAX as usize)?,
            entries_before: decoder.varint("a number of entries")?,
        })
    }
}

/// Where a block ends in the order of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    key: Vec<u8>,
    version: Version,
}

impl Fence {
    /// Between the last key of a block and the first of the next, which is greater.
    pub(super) fn between(last: &[u8], next: &[u8]) -> Self {
        let len = common_prefix(last, next) + 1;
        Self { key: next.get(..len).unwrap_or(next).to_vec(), version: Version::MAX }
    }

    /// At an entry.
    pub(super) fn at(key: &[u8], version: Version) -> Self {
        Self { key: key.to_vec(), version }
    }
}

/// A finished partition, and what the top level says of it.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) payload: Vec<u8>,
    fence: Fence,
    entries_before: u64,
}

/// Builds the partitions while the data blocks are written.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    open: BlockBuilder,
    open_entries_before: u64,
    partitions: Vec<Partition>,
    /// Bytes of these.
    finished: usize,
    value: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        Self {
            open: BlockBuilder::new(RestartInterval { entries: 1, bytes: 0 }),
            open_entries_before: 0,
            partitions: Vec::new(),
            finished: 0,
            value: Vec::new(),
        }
    }

    /// Bytes the index will take.
    pub(super) fn len(&self) -> usize {
        self.open.len() + self.finished
    }

    pub(super) fn add(&mut self, fence: &Fence, handle: &BlockHandle) {
        if self.open.is_empty() {
            self.open_entries_before = handle.entries_before;
        }
        self.value.clear();
        handle.encode(&mut self.value);
        let (key, version) = (&*fence.key, fence.version);
        let entry = Entry { key, version, kind: Kind::Put, value: &self.value };
        self.open.add(&entry, self.open.common(key));
        if self.open.len() >= PARTITION_BYTES && self.open.restarts() >= LEAST_FENCES {
            self.end_partition();
        }
    }

    fn end_partition(&mut self) {
        let fence = Fence::at(self.open.last_key(), self.open.last_version());
        let payload = self.open.finish().to_vec();
        self.open.clear();
        self.finished += payload.len();
        let entries_before = self.open_entries_before;
        self.partitions.push(Partition { payload, fence, entries_before });
    }

    pub(super) fn finish(mut self) -> Vec<Partition> {
        if !self.open.is_empty() {
            self.end_partition();
        }
        self.partitions
    }
}

/// An index partition to read, over its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexPartition<'a>(Block<'a>);

impl<'a> IndexPartition<'a> {
    #[inline]
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Damage> {
        Block::parse(payload).map(Self)
    }

    /// Number of data blocks.
    pub(super) fn len(&self) -> usize {
        self.0.restarts()
    }

    /// Position of the first data block with a fence at or after (`key`, `at`).
    #[inline]
    pub(super) fn find(&self, key: &[u8], at: Version) -> Result<usize, Damage> {
        self.0.restarts_before(key, at)
    }

    /// The data block at a position.
    #[inline]
    pub(super) fn handle(&self, position: usize) -> Result<BlockHandle, Damage> {
        let entry = self.entry(position)?;
        let (_, value) = self.0.body(&entry)?;
        match BlockHandle::read(value) {
            Some(handle) => Ok(handle),
            None => BlockHandle::decode(&mut Decoder::new(value)),
        }
    }

    /// The fence of the data block at a position.
    #[inline]
    pub(super) fn fence(&self, position: usize) -> Result<(&'a [u8], Version), Damage> {
        let entry = self.entry(position)?;
        Ok((entry.suffix, self.0.body(&entry)?.0))
    }

    #[inline]
    fn entry(&self, position: usize) -> Result<RawEntry<'a>, Damage> {
        self.0.entry(self.0.restart(position))
    }
}

/// The top level, decoded: one item for each partition.
#[derive(Debug, Default)]
pub(super) struct TopIndex {
    /// All fence keys, one after the other.
    keys: Vec<u8>,
    items: Vec<TopItem>,
    /// How many bytes all fence keys begin with, and the eight that follow in each.
    common: usize,
    prefixes: Vec<[u8; 8]>,
}

#[derive(Clone, Copy, Debug)]
struct TopItem {
    key_end: usize,
    version: Version,
    handle: BlockHandle,
}

impl TopIndex {
    /// Number of partitions.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Appends a partition that was written at `offset` as a block of `len` bytes.
    pub(super) fn push(
        &mut self,
        partition: &Partition,
        offset: BlockOffset,
        len: usize,
        ordinal: usize,
    ) {
        let entries_before = partition.entries_before;
        let handle = BlockHandle { offset, len, compressed: false, ordinal, entries_before };
        self.push_item(&partition.fence.key, partition.fence.version, handle);
    }

    fn push_item(&mut self, key: &[u8], version: Version, handle: BlockHandle) {
        self.keys.extend_from_slice(key);
        self.items.push(TopItem { key_end: self.keys.len(), version, handle });
    }

    /// Makes it ready to be searched.
    fn index_prefixes(&mut self) {
        let last = self.items.len().saturating_sub(1);
        self.common = common_prefix(self.key(0), self.key(last));
        self.prefixes =
            (0..self.items.len()).map(|item| prefix_of(self.key(item), self.common)).collect();
    }

    /// The first partition with a fence at or after (`key`, `at`); [`len`](Self::len) if none.
    #[inline]
    pub(super) fn find(&self, key: &[u8], at: Version) -> usize {
        let common = self.keys.get(..self.common).unwrap_or_default();
        let Range { start: mut low, end: mut high } = find_prefix(&self.prefixes, common, key);
        while low < high {
            let middle = low.midpoint(high);
            if self.is_before(middle, key, at) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn is_before(&self, number: usize, key: &[u8], at: Version) -> bool {
        let version = self.items.get(number).map_or(Version::ZERO, |item| item.version);
        self.key(number).cmp(key).then(at.cmp(&version)).is_lt()
    }

    fn key(&self, number: usize) -> &[u8] {
        let end = |n: usize| self.items.get(n).map_or(0, |item| item.key_end);
        let start = number.checked_sub(1).map_or(0, end);
        self.keys.get(start..end(number)).unwrap_or_default()
    }

    #[inline]
    pub(super) fn handle(&self, number: usize) -> Option<&BlockHandle> {
        self.items.get(number).map(|item| &item.handle)
    }

    /// The fence of a partition.
    pub(super) fn fence(&self, number: usize) -> Option<(&[u8], Version)> {
        self.items.get(number).map(|item| (self.key(number), item.version))
    }

    /// Memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.keys.capacity() + self.items.capacity() * (size_of::<TopItem>() + size_of::<[u8; 8]>())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.items.len() as u64);
        for (number, item) in self.items.iter().enumerate() {
            push_slice(out, self.key(number));
            push_varint(out, item.version.ticks());
            item.handle.encode(out);
        }
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Damage> {
        // Every item takes bytes, so their number cannot exceed what is left.
        let count = decoder.length("a number of index partitions", decoder.rest().len())?;
        let mut top = Self::default();
        for number in 0..count {
            let at = *decoder;
            let key = decoder.slice("a fence key")?;
            let version = Version::from_ticks(decoder.varint("a fence version")?);
            let handle = BlockHandle::decode(decoder)?;
            if number > 0 && !top.is_before(number - 1, key, version) {
                return Err(at.damage("fences in order", "one out of order"));
            }
            top.push_item(key, version, handle);
        }
        top.index_prefixes();
        Ok(top)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let key = proptest::collection::vec(0u8..3, 0..8);
        proptest::collection::btree_set(key, 2..50).prop_map(|set| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_fence_is_between_its_blocks(keys in keys()) {
            for pair in keys.windows(2) {
                let fence = Fence::between(&pair[0], &pair[1]);
                let mut top = TopIndex::default();
                let handle = BlockHandle {
                    offset: BlockOffset(0), len: 0, compressed: false, ordinal: 0, entries_before: 0,
                };
                top.push_item(&fence.key, fence.version, handle);
                top.index_prefixes();
                prop_assert_eq!(top.find(&pair[0], Version::ZERO), 0);
                prop_assert_eq!(top.find(&pair[1], NEWEST), 1);
            }
        }

        #[test]
        fn the_top_level_round_trips(keys in keys()) {
            let mut top = TopIndex::default();
            for (number, key) in keys.iter().enumerate() {
                let handle = BlockHandle {
                    offset: BlockOffset(number as u64 * 1000),
                    len: 999,
                    compressed: number % 2 == 0,
                    ordinal: number,
                    entries_before: 7,
                };
                top.push_item(key, Version::from_ticks(5), handle);
            }
            let mut bytes = Vec::new();
            top.encode(&mut bytes);
            let mut decoder = Decoder::new(&bytes);
            let decoded = TopIndex::decode(&mut decoder).unwrap();
            decoder.finish().unwrap();
            for (number, key) in keys.iter().enumerate() {
                prop_assert_eq!(decoded.key(number), &key[..]);
                prop_assert_eq!(decoded.handle(number), top.handle(number));
                prop_assert_eq!(decoded.find(key, Version::from_ticks(5)), number);
                prop_assert_eq!(decoded.find(key, Version::from_ticks(4)), number + 1);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            super::super::fuzz::fuzz_index(&bytes);
        }
    }
}
