//! Table files as a benchmark of this package sees them.

use std::path::Path;
use std::sync::Arc;

use super::{FileId, Lookup, Reader, Writer, WriterOptions, file_name};
use crate::cache::BlockCache;
use crate::entry::{Cursor, Entry, Kind};
use crate::env::{Env, RealEnv};
use crate::error::Result;
use crate::options::ReadMode;
use crate::version::Version;

/// An open table file.
#[derive(Debug)]
pub struct BenchTable(Reader);

impl BenchTable {
    /// Writes a file of these keys, which ascend, and opens it with a cache of that size.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn write<'a>(
        dir: &Path,
        entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        compression: Option<i32>,
        block_bytes: usize,
        mode: ReadMode,
        cache_bytes: usize,
    ) -> Result<Self> {
        let disk = RealEnv::new().disk();
        let id = FileId::new(1);
        let path = dir.join(file_name(id));
        let file =
            disk.create(&path).map_err(|error| crate::error::Error::io("create", &path, error))?;
        let options = WriterOptions { compression, block_bytes };
        let mut writer = Writer::new(file, path.clone(), id, options);
        for (i, (key, value)) in entries.enumerate() {
            let version = Version::from_ticks(133_000_000_000_000_000 + i as u64 * 7919 % 100_003);
            writer.add(Entry { key, version, kind: Kind::Put, value })?;
        }
        let meta = writer.finish()?;
        let cache = Arc::new(BlockCache::new(cache_bytes));
        Reader::open(&*disk, &path, &meta, cache, mode).map(Self)
    }

    /// Length of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.meta().bytes
    }

    /// Length of a key's value.
    ///
    /// # Errors
    /// Damage; what the file system refuses.
    pub fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        self.0.get(&Lookup::new(key), None, Version::MAX, |found| found.value.len())
    }

    /// Reads up to `limit` entries from a key on; the sum of the lengths of keys and values.
    ///
    /// # Errors
    /// Damage; what the file system refuses.
    pub fn scan(&self, from: &[u8], limit: usize) -> Result<usize> {
        let mut cursor = self.0.cursor();
        cursor.seek(from)?;
        let mut bytes = 0;
        for _ in 0..limit {
            if !cursor.valid() {
                break;
            }
            bytes += cursor.key().len() + cursor.value().len();
            cursor.next()?;
        }
        Ok(bytes)
    }

    /// Reads up to `limit` keys from a key back.
    ///
    /// # Errors
    /// Damage; what the file system refuses.
    pub fn scan_back(&self, from: &[u8], limit: usize) -> Result<usize> {
        let mut cursor = self.0.cursor();
        cursor.seek_before(from)?;
        let mut bytes = 0;
        for _ in 0..limit {
            if !cursor.valid() {
                break;
            }
            bytes += cursor.key().len() + cursor.value().len();
            cursor.previous_key()?;
        }
        Ok(bytes)
    }
}
