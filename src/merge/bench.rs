//! Merging as a benchmark of this package sees it.

use super::MergeCursor;
use crate::entry::{Cursor, Kind};
use crate::error::Result;
use crate::key;
use crate::memtable::Memtable;
use crate::memtable::bench::BenchKey;
use crate::version::Version;

/// Memtables that are read as one, newest first.
pub struct BenchMerge(Vec<Memtable>);

impl BenchMerge {
    /// So many empty sources.
    #[must_use]
    pub fn new(sources: usize) -> Self {
        Self((0..sources).map(|_| Memtable::with_budget(16 << 20)).collect())
    }

    /// Inserts into one of the sources.
    pub fn insert(&self, source: usize, key: &BenchKey, version: u64, value: &[u8]) {
        let (prefix, suffix) = key.bytes().split_at(key::partition_len(key.bytes()));
        if let Some(memtable) = self.0.get(source) {
            memtable.insert(prefix, suffix, Version::from_ticks(version), Kind::Put, value);
        }
    }

    /// Walks over all keys, each at its newest version; the sum of their lengths and their values'.
    ///
    /// # Errors
    /// None: it reads memory.
    pub fn walk(&self) -> Result<usize> {
        let mut merge = self.cursor();
        merge.seek_to_first()?;
        let mut bytes = 0;
        while merge.valid() {
            bytes += merge.key().len() + merge.value().len();
            merge.next_key()?;
        }
        Ok(bytes)
    }

    /// Finds the first key from this one on, in all sources; its length.
    ///
    /// # Errors
    /// None: it reads memory.
    pub fn seek(&self, key: &BenchKey) -> Result<usize> {
        let mut merge = self.cursor();
        merge.seek(key.bytes())?;
        Ok(if merge.valid() { merge.key().len() } else { 0 })
    }

    fn cursor(&self) -> impl Cursor {
        MergeCursor::new(self.0.iter().map(Memtable::cursor).collect(), &[])
    }
}
