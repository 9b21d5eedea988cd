//! The memtable as a benchmark of this package sees it.

use super::Memtable;
use crate::entry::{Cursor, Kind};
use crate::key::{self, TableId};
use crate::version::Version;

/// An encoded key in the two parts it is inserted as.
#[derive(Clone, Debug)]
pub struct BenchKey {
    whole: Vec<u8>,
    partition_len: usize,
}

impl BenchKey {
    /// The key of an entity of the first table.
    #[must_use]
    pub fn new(partition_key: &[u8], row_key: &[u8]) -> Self {
        let whole = key::encode(TableId::FIRST, partition_key, row_key);
        let partition_len = key::partition_len(&whole);
        Self { whole, partition_len }
    }

    /// The hash that filters, latches and point reads share.
    #[must_use]
    pub fn hash(&self) -> u64 {
        key::hash(&self.whole)
    }

    /// Puts the RowKey as it was given into `row_key`.
    pub fn decode_row(&self, row_key: &mut Vec<u8>) {
        let row = self.whole.get(key::partition_len(&self.whole)..).unwrap_or_default();
        row_key.clear();
        key::push_unescaped(row_key, row.strip_suffix(&[0]).unwrap_or(row));
    }

    /// The encoded key.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.whole
    }
}

/// A memtable.
pub struct BenchMemtable(Memtable);

impl Default for BenchMemtable {
    fn default() -> Self {
        Self(Memtable::with_budget(64 << 20))
    }
}

impl BenchMemtable {
    /// Inserts a value.
    pub fn insert(&self, key: &BenchKey, version: u64, value: &[u8]) {
        let (prefix, suffix) = key.whole.split_at(key.partition_len);
        self.0.insert(prefix, suffix, Version::from_ticks(version), Kind::Put, value);
    }

    /// The newest value of a key.
    #[must_use]
    pub fn get(&self, key: &BenchKey) -> Option<&[u8]> {
        self.0.get(&key.whole, Version::MAX).map(|found| found.value)
    }

    /// The value that a key had at a version.
    #[must_use]
    pub fn get_at(&self, key: &BenchKey, version: u64) -> Option<&[u8]> {
        self.0.get(&key.whole, Version::from_ticks(version)).map(|found| found.value)
    }

    /// Reads up to `limit` entries from a key on; the sum of the lengths of keys and values.
    #[must_use]
    pub fn scan(&self, from: &BenchKey, limit: usize) -> usize {
        let mut cursor = self.0.cursor();
        let mut bytes = 0;
        let mut moved = cursor.seek(&from.whole);
        for _ in 0..limit {
            if moved.is_err() || !cursor.valid() {
                break;
            }
            bytes += cursor.key().len() + cursor.value().len();
            moved = cursor.next();
        }
        bytes
    }

    /// As [`scan`](Self::scan), over the keys before `from`, backwards.
    #[must_use]
    pub fn scan_back(&self, from: &BenchKey, limit: usize) -> usize {
        let mut cursor = self.0.cursor();
        let mut bytes = 0;
        let mut moved = cursor.seek_before(&from.whole);
        for _ in 0..limit {
            if moved.is_err() || !cursor.valid() {
                break;
            }
            bytes += cursor.key().len() + cursor.value().len();
            moved = cursor.previous_key();
        }
        bytes
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.0.entries()
    }

    /// Memory in use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
