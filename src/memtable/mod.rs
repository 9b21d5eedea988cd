//! The memtable: the newest entries, in memory, ordered, until they are flushed to table files.
//!
//! Invariant: once `insert` has returned, every reader that starts finds the entry; nothing is
//! changed or removed before the memtable is dropped, so what a reader borrows stays.
//! May call entry, key, version, tombstone and error.

#![allow(dead_code)]

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::entry::{Cursor, Found, Kind};
use crate::error::Result;
use crate::tombstone::{RangeTombstone, RangeTombstones};
use crate::version::Version;

/// An ordered set of entries that many threads insert into and read at once.
pub(crate) struct Memtable {
    range_tombstones: ArcSwap<RangeTombstones>,
}

impl Memtable {
    pub(crate) fn new() -> Self {
        Self { range_tombstones: ArcSwap::default() }
    }

    /// Inserts an entry of the key `prefix ++ suffix`. Inserts of one key must be serialised by
    /// the caller and have increasing versions; those of different keys may run at once.
    pub(crate) fn insert(
        &self,
        prefix: &[u8],
        suffix: &[u8],
        version: Version,
        kind: Kind,
        value: &[u8],
    ) {
        let _ = (prefix, suffix, version, kind, value);
        std::process::abort()
    }

    /// The newest entry of `key` at or before `at`.
    pub(crate) fn get(&self, key: &[u8], at: Version) -> Option<Found<'_>> {
        let _ = (key, at);
        std::process::abort()
    }

    /// A cursor, not yet positioned. It sees every entry inserted before it was positioned, and
    /// perhaps some inserted later.
    pub(crate) fn cursor(&self) -> MemtableCursor<'_> {
        MemtableCursor { memtable: self }
    }

    /// Memory in use for entries, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        0
    }

    /// Number of entries: versions, not keys.
    pub(crate) fn entries(&self) -> u64 {
        0
    }

    /// Whether there is neither an entry nor a range tombstone.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0 && !self.has_range_tombstones()
    }

    pub(crate) fn add_range_tombstone(&self, tombstone: RangeTombstone) {
        self.range_tombstones.rcu(|set| Arc::new(set.with(tombstone.clone())));
    }

    /// Whether there is a range tombstone: the check to make before `range_tombstones`.
    pub(crate) fn has_range_tombstones(&self) -> bool {
        !self.range_tombstones.load().is_empty()
    }

    /// The range tombstones; `Guard::into_inner` or `Arc::clone` keeps them.
    pub(crate) fn range_tombstones(&self) -> Guard<Arc<RangeTombstones>> {
        self.range_tombstones.load()
    }
}

/// A [`Cursor`] over a memtable.
pub(crate) struct MemtableCursor<'a> {
    memtable: &'a Memtable,
}

impl Cursor for MemtableCursor<'_> {
    fn seek(&mut self, _key: &[u8]) -> Result<()> {
        std::process::abort()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        std::process::abort()
    }

    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        std::process::abort()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        std::process::abort()
    }

    fn valid(&self) -> bool {
        self.memtable.is_empty()
    }

    fn key(&self) -> &[u8] {
        &[]
    }

    fn version(&self) -> Version {
        Version::ZERO
    }

    fn kind(&self) -> Kind {
        Kind::Delete
    }

    fn value(&self) -> &[u8] {
        &[]
    }

    fn next(&mut self) -> Result<()> {
        std::process::abort()
    }

    fn next_key(&mut self) -> Result<()> {
        std::process::abort()
    }

    fn previous_key(&mut self) -> Result<()> {
        std::process::abort()
    }
}
