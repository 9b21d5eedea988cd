//! Blocks of entries: their format, and the view that finds and reads entries in place.
//!
//! ```text
//! entry* | restart prefix u64 * | restart offset u32 * | common prefix of all keys
//!        | base version u64 | length of the common prefix u32 | number of restarts u32
//! entry = shared | unshared | body length << 1 | kind || key suffix || version delta | value
//!         \_________ varints _______________________/                 \____ body ________/
//! kind  = 1: put; 0: deletion, or a reference to a value if there are bytes of it
//! ```
//!
//! Invariant: entries are ordered by key ascending, then version descending. A key is stored as
//! the number of bytes it shares with the key before and the rest; an entry at a restart offset
//! shares none, so it can be read alone. The version is a zigzag difference from the base version,
//! that of the first entry. Index partitions are blocks as well, with a restart at every entry.
//!
//! A restart prefix is what follows the common prefix in the restart's key, its first eight bytes
//! as a big-endian number (zeros where the key is shorter). A lookup searches these numbers, which
//! lie side by side, and touches a key only where they are equal, then walks from the restart
//! found: two or three places in memory instead of one for each step of the search.
//!
//! A view never trusts what it reads: bytes that passed their checksum but are no block give
//! [`Damage`], whose offset is that within the payload.

use std::cmp::Ordering;
use std::ops::Range;

use crate::entry::{Found, Kind};
use crate::error::Damage;
use crate::key::{common_prefix, first_eight};
use crate::varint::{read_varint, read_wide_varint};
use crate::version::Version;

/// Bytes after the common prefix.
pub(super) const TAIL_BYTES: usize = 16;
/// Prefix and offset.
pub(super) const RESTART_BYTES: usize = 12;

/// After so many equal prefixes, the end of them is searched for.
const SAME_WALKED: usize = 4;

/// Of at most so many prefixes, all are looked at: more than most blocks have.
const COUNTED: usize = 24;

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

impl RawEntry<'_> {
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
struct EntryHead {
    shared: usize,
    unshared: usize,
    tag: usize,
}

impl EntryHead {
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

/// An entry that was looked for.
struct SearchHit<'a> {
    entry: RawEntry<'a>,
    offset: usize,
    /// Its version and value, if it has the key that was looked for.
    body: Option<(Version, &'a [u8])>,
}

impl<'a> SearchHit<'a> {
    #[inline]
    fn found(&self) -> Option<Found<'a>> {
        let found = |(version, value)| Found { version, kind: self.entry.kind(value), value };
        self.body.map(found)
    }
}

/// A block to read, over its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    entries: &'a [u8],
    prefixes: &'a [[u8; 8]],
    offsets: &'a [[u8; 4]],
    common: &'a [u8],
    base: u64,
}

/// What of a block's end is needed to walk its entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Offset after the last entry.
    pub(super) end: usize,
    /// How many bytes all keys begin with.
    pub(super) common: usize,
    base: u64,
}

impl<'a> Block<'a> {
    #[inline]
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Damage> {
        Self::parse_parts(payload)
            .ok_or_else(|| Damage::new(0, "a block", "too few bytes for its restarts"))
    }

    #[inline]
    fn parse_parts(payload: &'a [u8]) -> Option<Self> {
        let (rest, count) = payload.split_last_chunk::<4>()?;
        let (rest, common_len) = rest.split_last_chunk::<4>()?;
        let (rest, base) = rest.split_last_chunk::<8>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (rest, common) = split_end(rest, u32::from_le_bytes(*common_len) as usize)?;
        let (rest, offsets) = split_end(rest, count.checked_mul(4)?)?;
        let (entries, prefixes) = split_end(rest, count.checked_mul(8)?)?;
        let (prefixes, offsets) = (prefixes.as_chunks().0, offsets.as_chunks().0);
        Some(Self { entries, prefixes, offsets, common, base: u64::from_le_bytes(*base) })
    }

    /// What [`walk`](Self::walk) needs to know.
    #[inline]
    pub(super) fn shape(&self) -> Shape {
        Shape { end: self.entries.len(), common: self.common.len(), base: self.base }
    }

    /// The block of this shape, for reading entries only: it has no restarts.
    #[inline]
    pub(super) fn walk(payload: &'a [u8], shape: Shape) -> Self {
        let entries = payload.get(..shape.end).unwrap_or_default();
        Self { entries, prefixes: &[], offsets: &[], common: &[], base: shape.base }
    }

    /// Number of restarts; in an index partition, of entries.
    #[inline]
    pub(super) fn restarts(&self) -> usize {
        self.offsets.len()
    }

    /// Offset of a restart; the end of the entries if there is no such restart.
    #[inline]
    pub(super) fn restart(&self, number: usize) -> usize {
        self.offsets.get(number).map_or(self.end(), |bytes| u32::from_le_bytes(*bytes) as usize)
    }

    /// Offset after the last entry.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.entries.len()
    }

    /// The entry at an offset.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Result<RawEntry<'a>, Damage> {
        self.entry_parts(at).ok_or_else(|| no_entry(at))
    }

    #[inline]
    pub(super) fn entry_parts(&self, at: usize) -> Option<RawEntry<'a>> {
        let bytes = self.entries.get(at..)?;
        let (EntryHead { shared, unshared, tag }, onward) = EntryHead::split(bytes)?;
        let (suffix, bytes) = onward.split_at_checked(unshared)?;
        let (body, after) = bytes.split_at_checked(tag >> 1)?;
        Some(RawEntry {
            shared,
            suffix,
            onward,
            bit: (tag & 1) as u8,
            body,
            next: self.entries.len() - after.len(),
        })
    }

    /// The key of the entry at a restart offset.
    #[inline]
    fn restart_key(&self, offset: usize) -> Result<&'a [u8], Damage> {
        let key = self.entries.get(offset..).and_then(EntryHead::split);
        key.and_then(|(head, rest)| rest.get(..head.unshared)).ok_or_else(|| no_entry(offset))
    }

    /// Version and value of an entry.
    #[inline]
    pub(super) fn body(&self, entry: &RawEntry<'a>) -> Result<(Version, &'a [u8]), Damage> {
        self.body_parts(entry)
            .ok_or_else(|| Damage::new(entry.next as u64, "an entry with a version", "none"))
    }

    // Always: it is a handful of instructions at the end of every search and step.
    #[inline(always)]
    pub(super) fn body_parts(&self, entry: &RawEntry<'a>) -> Option<(Version, &'a [u8])> {
        // Tombstones have few bytes of their own.
        let (delta, len) = read_wide_varint(entry.onward.get(entry.suffix.len()..)?)?;
        let version = Version::from_ticks(self.base.wrapping_add(unzigzag(delta)));
        Some((version, entry.body.get(len..)?))
    }

    /// The first entry at or after (`key`, `at`), if there is one: its key begins with the first
    /// `shared` bytes of `key`, which makes its key known without any entry before it.
    pub(super) fn find(&self, key: &[u8], at: Version) -> Result<Option<RawEntry<'a>>, Damage> {
        self.find_from(self.walk_start(key, at)?, key, at)
    }

    /// The same from the restart that [`walk_start`](Self::walk_start) gives.
    pub(super) fn find_from(
        &self,
        restart: usize,
        key: &[u8],
        at: Version,
    ) -> Result<Option<RawEntry<'a>>, Damage> {
        Ok(self.search_from(restart, key, at)?.map(|hit| hit.entry))
    }

    /// The newest entry of `key` at or before `at`, looked for from the restart with this number,
    /// which [`walk_start`](Self::walk_start) gives.
    #[inline]
    pub(super) fn get_from(
        &self,
        restart: usize,
        key: &[u8],
        at: Version,
    ) -> Result<Option<Found<'a>>, Damage> {
        Ok(self.search_from(restart, key, at)?.and_then(|hit| hit.found()))
    }

    /// The same from any restart, if the entry there is before (`key`, `at`): then no newer one is
    /// before the restart. `None` says nothing.
    #[inline]
    pub(super) fn get_after(
        &self,
        restart: usize,
        key: &[u8],
        at: Version,
    ) -> Result<Option<Found<'a>>, Damage> {
        let Some(hit) = self.search_from(restart, key, at)? else { return Ok(None) };
        Ok(hit.found().filter(|found| hit.offset > self.restart(restart) && found.version <= at))
    }

    /// The restart from which a search for (`key`, `at`) walks.
    #[inline]
    pub(super) fn walk_start(&self, key: &[u8], at: Version) -> Result<usize, Damage> {
        Ok(self.restarts_before(key, at)?.saturating_sub(1))
    }

    /// The first entry at or after (`key`, `at`), and its body if its key is `key`, if the restart
    /// is the last before that.
    ///
    /// No key is put together on the way: it is enough to know how many bytes the entry before
    /// has in common with `key`. If an entry shares more than that with it, it is on the same
    /// side of `key`; if fewer, it is after `key`; only if as many, bytes are compared.
    #[inline]
    fn search_from(
        &self,
        restart: usize,
        key: &[u8],
        at: Version,
    ) -> Result<Option<SearchHit<'a>>, Damage> {
        let mut offset = self.restart(restart);
        let mut matched = 0;
        while offset < self.end() {
            let entry = self.entry(offset)?;
            match entry.shared.cmp(&matched) {
                Ordering::Greater => {}
                Ordering::Less => {
                    // A restart shares nothing, and may be the key's all the same.
                    let is_key = entry.has_key(key);
                    let body = if is_key { Some(self.body(&entry)?) } else { None };
                    return Ok(Some(SearchHit { entry, offset, body }));
                }
                Ordering::Equal => {
                    let rest = key.get(matched..).unwrap_or_default();
                    let common = match (entry.suffix.first(), rest.first()) {
                        (Some(a), Some(b)) if a != b => 0,
                        _ => common_prefix(entry.suffix, rest),
                    };
                    match (entry.suffix.get(common), rest.get(common)) {
                        (None, None) => {
                            let body = self.body(&entry)?;
                            if body.0 <= at {
                                return Ok(Some(SearchHit { entry, offset, body: Some(body) }));
                            }
                        }
                        (Some(after), rest) if rest.is_none_or(|rest| after > rest) => {
                            return Ok(Some(SearchHit { entry, offset, body: None }));
                        }
                        _ => {}
                    }
                    matched += common;
                }
            }
            offset = entry.next;
        }
        Ok(None)
    }

    /// Number of restarts whose entry is before (`key`, `at`).
    #[inline]
    pub(super) fn restarts_before(&self, key: &[u8], at: Version) -> Result<usize, Damage> {
        let same = find_prefix(self.prefixes, self.common, key);
        if same.is_empty() {
            return Ok(same.start);
        }
        self.restarts_before_in(same.start, same.end, key, at)
    }

    /// The same, where it is known to be from `low` to `high`.
    fn restarts_before_in(
        &self,
        mut low: usize,
        mut high: usize,
        key: &[u8],
        at: Version,
    ) -> Result<usize, Damage> {
        while low < high {
            let middle = low.midpoint(high);
            let offset = self.restart(middle);
            let before = match self.restart_key(offset)?.cmp(key) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => self.body(&self.entry(offset)?)?.0 > at,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

#[cold]
fn no_entry(offset: usize) -> Damage {
    Damage::new(offset as u64, "an entry", "one longer than its block")
}

#[inline]
fn split_end(bytes: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(bytes.len().checked_sub(len)?)
}

/// What follows the first `common` bytes of a key, as [`find_prefix`] searches for it.
#[inline]
pub(super) fn prefix_of(key: &[u8], common: usize) -> [u8; 8] {
    first_eight(key.get(common..).unwrap_or_default()).to_le_bytes()
}

/// Of ascending keys that all begin with `common`, given by their [prefixes](prefix_of): those
/// that only a comparison in full tells from `key`. Those before are before it, those after are
/// after it.
#[inline]
pub(super) fn find_prefix(prefixes: &[[u8; 8]], common: &[u8], key: &[u8]) -> Range<usize> {
    let Some(rest) = after_common(key, common) else {
        let end = if *key < *common { 0 } else { prefixes.len() };
        return end..end;
    };
    let target = first_eight(rest);
    let number = |prefix: &[u8; 8]| u64::from_le_bytes(*prefix);
    // Halves, until there are few enough to look at all of them.
    let (mut start, mut few) = (0, prefixes);
    while few.len() > COUNTED {
        let (left, right) = few.split_at(few.len() / 2);
        match right.first() {
            Some(middle) if number(middle) < target => {
                start += left.len();
                few = right;
            }
            _ => few = left,
        }
    }
    // All at once: where one step of a search waits for the one before, these wait for memory together.
    let low = start + few.iter().filter(|prefix| number(prefix) < target).count();
    let mut high = low;
    while prefixes.get(high).is_some_and(|prefix| number(prefix) == target) {
        high += 1;
        // Few keys have all eight bytes in common, as a rule.
        if high - low == SAME_WALKED {
            let rest = prefixes.get(high..).unwrap_or_default();
            return low..high + rest.partition_point(|prefix| number(prefix) == target);
        }
    }
    low..high
}

/// What follows `common` in a key that begins with it, without a call.
#[inline]
fn after_common<'k>(key: &'k [u8], common: &[u8]) -> Option<&'k [u8]> {
    let (front, rest) = key.split_at_checked(common.len())?;
    (common_prefix(front, common) == common.len()).then_some(rest)
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

    use super::super::block_builder::{BlockBuilder, RestartInterval};
    use super::*;

    type Row = (Vec<u8>, u64, bool, Vec<u8>);

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let key = proptest::collection::vec(prop_oneof![0u8..2, Just(255)], 0..12);
        let version = prop_oneof![0u64..4, any::<u64>()];
        let value = proptest::collection::vec(any::<u8>(), 0..9);
        proptest::collection::vec((key, version, any::<bool>(), value), 1..60).prop_map(
            |mut rows| {
                rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
                rows.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
                rows
            },
        )
    }

    fn build(rows: &[Row], entries: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new(RestartInterval { entries, bytes: 60 });
        for (key, version, put, value) in rows {
            let kind = if *put { Kind::Put } else { Kind::Delete };
            builder.add(key, Version::from_ticks(*version), kind, value);
        }
        builder.finish().to_vec()
    }

    fn read(payload: &[u8]) -> Result<Vec<Row>, Damage> {
        let block = Block::parse(payload)?;
        let (mut at, mut key, mut rows) = (0, Vec::new(), Vec::new());
        while at < block.end() {
            let entry = block.entry(at)?;
            key.truncate(entry.shared);
            key.extend_from_slice(entry.suffix);
            let (version, value) = block.body(&entry)?;
            rows.push((
                key.clone(),
                version.ticks(),
                entry.kind(value) == Kind::Put,
                value.to_vec(),
            ));
            at = entry.next;
        }
        Ok(rows)
    }

    proptest! {
        #[test]
        fn a_block_gives_back_its_entries(rows in rows(), interval in 1usize..20) {
            prop_assert_eq!(read(&build(&rows, interval)).unwrap(), rows);
        }

        #[test]
        fn find_agrees_with_a_linear_search(
            rows in rows(),
            interval in 1usize..20,
            key in proptest::collection::vec(prop_oneof![0u8..2, Just(255)], 0..12),
            at in prop_oneof![0u64..5, any::<u64>()],
        ) {
            let payload = build(&rows, interval);
            let block = Block::parse(&payload).unwrap();
            let targets = rows.iter().map(|r| (r.0.clone(), r.1)).chain([(key, at)]);
            for (key, at) in targets {
                let found = block.find(&key, Version::from_ticks(at)).unwrap();
                let expected =
                    rows.iter().find(|r| r.0 > key || (r.0 == key && r.1 <= at));
                let row = |f: Found<'_>| (f.version.ticks(), f.kind == Kind::Put, f.value.to_vec());
                let (version, newest) = (Version::from_ticks(at), expected.filter(|r| r.0 == key));
                let newest = newest.map(|r| (r.1, r.2, r.3.clone()));
                let start = block.walk_start(&key, version).unwrap();
                let got = block.get_from(start, &key, version).unwrap();
                prop_assert_eq!(got.map(row), newest.clone());
                for restart in 0..block.restarts() {
                    let got = block.get_after(restart, &key, version).unwrap().map(row);
                    prop_assert!(got.is_none() || got == newest, "{got:?}, {newest:?}");
                    // From where it is looked for it is found, unless it is the first of all.
                    let is_first = rows.first().is_some_and(|r| r.0 == key && r.1 <= at);
                    prop_assert!(restart != start || is_first || got == newest);
                }
                prop_assert_eq!(found.is_some(), expected.is_some());
                if let (Some(entry), Some(row)) = (found, expected) {
                    let mut whole = key[..entry.shared].to_vec();
                    whole.extend_from_slice(entry.suffix);
                    prop_assert_eq!(&whole, &row.0);
                    prop_assert_eq!(entry.has_key(&key), row.0 == key);
                    prop_assert_eq!(block.body(&entry).unwrap().0.ticks(), row.1);
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            key in proptest::collection::vec(any::<u8>(), 0..4),
        ) {
            let _ = read(&bytes);
            if let Ok(block) = Block::parse(&bytes) {
                let _ = block.find(&key, Version::MAX);
                for restart in 0..=block.restarts() {
                    let _ = block.get_after(restart, &key, Version::MAX);
                }
            }
        }

        #[test]
        fn a_changed_block_never_panics(rows in rows(), at in any::<usize>(), bit in 0u8..8) {
            let mut payload = build(&rows, 3);
            let at = at % payload.len();
            payload[at] ^= 1 << bit;
            let _ = read(&payload);
            if let Ok(block) = Block::parse(&payload) {
                for row in &rows {
                    let _ = block.find(&row.0, Version::from_ticks(row.1));
                }
            }
        }

        #[test]
        fn zigzag_is_reversible(number in any::<u64>()) {
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }
    }
}
