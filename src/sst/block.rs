//! Blocks of entries: their format, and the view that finds and reads entries in place.
//!
//! ```text
//! entry* | restart prefix u64 * | restart offset u32 * | common prefix of all keys
//!        | base version u64 | length of the common prefix u32 | number of restarts u32
//! ```
//!
//! Invariant: [entries](RawEntry) are ordered by key ascending, then version descending. One at a
//! restart offset shares no bytes with the key before, so it can be read alone. The base version is
//! that of the first entry. Index partitions are blocks as well, with a restart at every entry.
//!
//! A lookup searches the [prefixes](super::prefixes) of the restarts' keys, touches a key only where
//! they are equal, and walks from the restart found.
//!
//! A view never trusts what it reads: bytes that passed their checksum but are no block give
//! [`Damage`], whose offset is that within the payload.

use std::cmp::Ordering;

use super::prefixes::find_prefix;
use super::raw_entry::{RawEntry, suffix_at};
use crate::entry::Found;
use crate::error::Damage;
use crate::key::common_prefix;
use crate::version::Version;

/// Bytes after the common prefix.
pub(super) const TAIL_BYTES: usize = 16;
/// Prefix and offset.
pub(super) const RESTART_BYTES: usize = 12;

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
        Shape { end: self.entries.len(), base: self.base }
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
        RawEntry::read(self.entries, at)
    }

    /// The key of the entry at a restart offset.
    #[inline]
    fn restart_key(&self, offset: usize) -> Result<&'a [u8], Damage> {
        suffix_at(self.entries, offset).ok_or_else(|| no_entry(offset))
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
        entry.body(self.base)
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

    /// The same from the last restart before (`key`, `at`), if an entry after it shows that no other block
    /// has any.
    #[inline]
    pub(super) fn get_between(
        &self,
        restart: usize,
        key: &[u8],
        at: Version,
    ) -> Result<Option<Option<Found<'a>>>, Damage> {
        Ok(self.search_from(restart, key, at)?.map(|hit| hit.found()))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::block_builder::{BlockBuilder, RestartInterval};
    use super::*;
    use crate::entry::{Entry, Kind};

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
            let entry = Entry { key, version: Version::from_ticks(*version), kind, value };
            builder.add(&entry, builder.common(key));
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
    }
}
