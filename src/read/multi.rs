//! [`multi_get`]: many entities of one partition, cheaper than one by one (R-E16).
//!
//! Invariant: as for single reads, sources are asked from the newest to the oldest, each only for
//! the keys that no newer one had. A file is asked for its partition once and then for its keys
//! in order, with one cursor that stays in a block while the keys do.

use std::sync::Arc;

use super::point::{file_of, resolved, shadowed};
use super::sources::covering;
use crate::entry::{Cursor, Found, Kind};
use crate::error::Result;
use crate::key;
use crate::levels::{TableFile, View};
use crate::memtable::Memtable;
use crate::sst::SstCursor;
use crate::version::Version;

/// Shows those entities of a partition, given by its encoded prefix, that exist at `at` to
/// `visit`, each with the index of its RowKey, in no order. Sorted RowKeys are the fastest.
pub(crate) fn multi_get(
    view: &View,
    partition: &[u8],
    row_keys: &[&[u8]],
    at: Version,
    mut visit: impl FnMut(usize, Found<'_>),
) -> Result<()> {
    multi_get_raw(view, partition, row_keys, at, |index, found| {
        if found.kind == Kind::Reference {
            return resolved(&view.levels.values, found, |found| visit(index, found));
        }
        visit(index, found);
        Ok(())
    })
}

/// The same, with references as they are. An error of `visit` ends it.
pub(super) fn multi_get_raw(
    view: &View,
    partition: &[u8],
    row_keys: &[&[u8]],
    at: Version,
    visit: impl FnMut(usize, Found<'_>) -> Result<()>,
) -> Result<()> {
    let mut missing = Missing::new(view, partition, row_keys, at, visit);
    missing.ask_memtable(&view.active)?;
    for frozen in &view.frozen {
        missing.ask_memtable(&frozen.memtable)?;
    }
    let mut levels = view.levels.levels();
    for file in levels.next().unwrap_or_default() {
        missing.ask_files(std::slice::from_ref(file))?;
    }
    for files in levels {
        missing.ask_files(files)?;
    }
    Ok(())
}

/// The keys that no source asked so far had, ascending.
struct Missing<V> {
    keys: Vec<Key>,
    partition_hash: u64,
    at: Version,
    visit: V,
}

struct Key {
    bytes: Vec<u8>,
    hash: u64,
    /// Its index among the RowKeys.
    index: usize,
    /// The newest range tombstone that covers it.
    cover: Version,
}

impl<V: FnMut(usize, Found<'_>) -> Result<()>> Missing<V> {
    fn new(view: &View, partition: &[u8], row_keys: &[&[u8]], at: Version, visit: V) -> Self {
        let keys = row_keys.iter().enumerate().map(|(index, row_key)| {
            let mut bytes = Vec::with_capacity(partition.len() + row_key.len() + 4);
            bytes.extend_from_slice(partition);
            key::push_component(&mut bytes, row_key);
            Key { hash: key::hash(&bytes), index, cover: covering(view, &bytes, at), bytes }
        });
        let mut keys: Vec<Key> = keys.collect();
        if !row_keys.is_sorted() {
            keys.sort_by(|a, b| a.bytes.cmp(&b.bytes));
        }
        Self { keys, partition_hash: key::hash(partition), at, visit }
    }

    fn ask_memtable(&mut self, memtable: &Memtable) -> Result<()> {
        let at = self.at;
        self.ask(|key, visit| match memtable.get_hashed(&key.bytes, key.hash, at) {
            Some(found) => show(key, found, visit).map(|()| true),
            None => Ok(false),
        })
    }

    /// Asks files in key order that do not overlap.
    fn ask_files(&mut self, files: &[Arc<TableFile>]) -> Result<()> {
        let (partition_hash, at) = (self.partition_hash, self.at);
        let mut reading: Option<Reading<'_>> = None;
        self.ask(|key, visit| {
            let Some(file) = file_of(files, &key.bytes) else { return Ok(false) };
            let reading = open(&mut reading, file, partition_hash)?;
            match reading.find(key, at)? {
                Some(found) => show(key, found, visit).map(|()| true),
                None => Ok(false),
            }
        })
    }

    /// Leaves out the keys that `find` finds, up to its first error.
    fn ask(&mut self, mut find: impl FnMut(&Key, &mut V) -> Result<bool>) -> Result<()> {
        let Self { keys, visit, .. } = self;
        let mut failed = Ok(());
        keys.retain(|key| {
            if failed.is_err() {
                return true;
            }
            let found = find(key, visit);
            found.map(|found| !found).unwrap_or_else(|error| {
                failed = Err(error);
                true
            })
        });
        failed
    }
}

/// Shows what a source has, if it is an entity.
fn show(
    key: &Key,
    found: Found<'_>,
    visit: &mut impl FnMut(usize, Found<'_>) -> Result<()>,
) -> Result<()> {
    let found = shadowed(found, key.cover);
    if found.kind == Kind::Delete { Ok(()) } else { visit(key.index, found) }
}

/// A file that is asked for several keys.
struct Reading<'a> {
    file: &'a TableFile,
    has_partition: bool,
    cursor: SstCursor<'a>,
}

/// The reading of `file`, which goes on if it is the one that is under way.
fn open<'r, 'a>(
    reading: &'r mut Option<Reading<'a>>,
    file: &'a TableFile,
    partition_hash: u64,
) -> Result<&'r mut Reading<'a>> {
    let other = reading.take().filter(|reading| std::ptr::eq(reading.file, file));
    let reading_file = match other {
        Some(reading) => reading,
        None => Reading {
            file,
            has_partition: file.reader.may_contain_partition(partition_hash)?,
            cursor: file.reader.cursor(),
        },
    };
    Ok(reading.insert(reading_file))
}

impl Reading<'_> {
    /// The newest entry of the key at or before `at`.
    fn find(&mut self, key: &Key, at: Version) -> Result<Option<Found<'_>>> {
        if !self.has_partition || !self.file.reader.may_contain(key.hash)? {
            return Ok(None);
        }
        let cursor = &mut self.cursor;
        cursor.seek(&key.bytes)?;
        while cursor.valid() && cursor.key() == key.bytes {
            if cursor.version() <= at {
                let (version, kind, value) = (cursor.version(), cursor.kind(), cursor.value());
                return Ok(Some(Found { version, kind, value }));
            }
            cursor.next()?;
        }
        Ok(None)
    }
}
