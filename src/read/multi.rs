//! [`multi_get`]: many entities of one partition, cheaper than one by one (R-E16).
//!
//! Invariant: as for single reads, sources are asked from the newest to the oldest, each only for
//! the keys that no newer one had. A source is asked for its keys in order, some at a time: for each
//! step of a lookup, what all of them read in it is brought near before the first reads it. A block is
//! held as long as the keys stay in it.

use std::sync::Arc;

use super::point::{resolved, shadowed};
use super::sources::covering;
use crate::entry::{Found, Kind};
use crate::error::Result;
use crate::key;
use crate::levels::{TableFile, View};
use crate::memtable::Memtable;
use crate::sst::{Asked, Lookup, Lookups};
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
    let encoded = Encoded::new(partition, row_keys);
    let mut missing = Missing::new(view, partition, &encoded, at, visit);
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

/// So many keys are looked up side by side: what a step reads of the last is on its way while it is read
/// of the first.
const GROUP: usize = 16;

/// From so many keys of a file on, it is asked for their partition first.
const PARTITION_WORTH: usize = 4;

/// The keys of the entities, ascending.
struct Encoded {
    /// One after the other.
    bytes: Vec<u8>,
    /// The index of each among the RowKeys, and where it ends.
    places: Vec<(usize, usize)>,
}

impl Encoded {
    fn new(partition: &[u8], row_keys: &[&[u8]]) -> Self {
        let rows: usize = row_keys.iter().map(|row_key| row_key.len() + 1).sum();
        let mut bytes = Vec::with_capacity(partition.len() * row_keys.len() + rows);
        let mut place = |index, row_key: &[u8]| {
            bytes.extend_from_slice(partition);
            key::push_component(&mut bytes, row_key);
            (index, bytes.len())
        };
        let places = if row_keys.is_sorted() {
            row_keys.iter().enumerate().map(|(index, row_key)| place(index, row_key)).collect()
        } else {
            sorted(row_keys).iter().map(|&(_, row_key, index)| place(index, row_key)).collect()
        };
        Self { bytes, places }
    }

    /// Each with its index.
    fn keys(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.places.iter().map(move |&(index, end)| {
            let key = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            (index, key)
        })
    }
}

/// The RowKeys in order, each with its index, and with the number that most comparisons end at.
fn sorted<'k>(row_keys: &[&'k [u8]]) -> Vec<(u64, &'k [u8], usize)> {
    let first = row_keys.first().copied().unwrap_or_default();
    let common = row_keys.iter().fold(first.len(), |common, row_key| {
        key::common_prefix(first.get(..common).unwrap_or_default(), row_key)
    });
    let number = |row_key: &[u8]| key::first_eight(row_key.get(common..).unwrap_or_default());
    let numbered = row_keys.iter().enumerate().map(|(index, key)| (number(key), *key, index));
    let mut sorted: Vec<_> = numbered.collect();
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    sorted
}

/// The keys that no source asked so far had, ascending.
struct Missing<'k, V> {
    keys: Vec<Key<'k>>,
    partition_hash: u64,
    at: Version,
    visit: V,
}

struct Key<'k> {
    lookup: Lookup<'k>,
    /// Its index among the RowKeys.
    index: usize,
    /// The newest range tombstone that covers it.
    cover: Version,
    is_found: bool,
}

impl<'k, V: FnMut(usize, Found<'_>) -> Result<()>> Missing<'k, V> {
    fn new(view: &View, partition: &[u8], keys: &'k Encoded, at: Version, visit: V) -> Self {
        let key = |(index, key)| Key {
            lookup: Lookup::ahead(key),
            index,
            cover: covering(view, key, at),
            is_found: false,
        };
        let keys = keys.keys().map(key).collect();
        Self { keys, partition_hash: key::hash(partition), at, visit }
    }

    fn ask_memtable(&mut self, memtable: &Memtable) -> Result<()> {
        if !memtable.has_entries() {
            return Ok(());
        }
        for group in self.keys.chunks_mut(GROUP) {
            for key in &*group {
                memtable.prefetch_hashed(key.lookup.key_hash);
            }
            for key in group {
                let Lookup { key: bytes, key_hash, .. } = key.lookup;
                if let Some(found) = memtable.get_hashed(bytes, key_hash, self.at) {
                    key.show(found, &mut self.visit)?;
                }
            }
        }
        self.leave_out_found();
        Ok(())
    }

    /// Asks files in key order that do not overlap.
    fn ask_files(&mut self, files: &[Arc<TableFile>]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let mut reading = Reading::new(files, self.partition_hash, self.at);
        for group in self.keys.chunks_mut(GROUP) {
            reading.ask(group, &mut self.visit)?;
        }
        self.leave_out_found();
        Ok(())
    }

    fn leave_out_found(&mut self) {
        self.keys.retain(|key| !key.is_found);
    }
}

impl Key<'_> {
    /// Shows what a source has, if it is an entity.
    fn show(
        &mut self,
        found: Found<'_>,
        visit: &mut impl FnMut(usize, Found<'_>) -> Result<()>,
    ) -> Result<()> {
        self.is_found = true;
        let found = shadowed(found, self.cover);
        if found.kind == Kind::Delete { Ok(()) } else { visit(self.index, found) }
    }
}

/// What files of a group's keys may have them.
type Places<'a> = [Option<&'a TableFile>; GROUP];

/// Files that are asked for ascending keys.
struct Reading<'a> {
    /// Those that are not before the last key, in key order.
    files: &'a [Arc<TableFile>],
    partition_hash: u64,
    at: Version,
    lookups: Lookups<'a>,
    /// The file that was asked for the partition, and whether it may have it.
    partition: Option<(&'a TableFile, bool)>,
}

impl<'a> Reading<'a> {
    fn new(files: &'a [Arc<TableFile>], partition_hash: u64, at: Version) -> Self {
        Self { files, partition_hash, at, lookups: Lookups::default(), partition: None }
    }

    fn ask(
        &mut self,
        group: &mut [Key<'_>],
        visit: &mut impl FnMut(usize, Found<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut places = [None; GROUP];
        for (key, place) in group.iter().zip(&mut places) {
            *place = self.file_of(key);
        }
        // Keys that lie close together need no more than the block that they are in.
        let mut asked = Asked::Nothing;
        if !self.lookups.is_near() {
            if self.lacks_partition(&places, group.len())? {
                return Ok(());
            }
            approach(group, &mut places)?;
            asked = Asked::FirstProbes;
        }
        for (key, file) in group.iter_mut().zip(places) {
            let Some(file) = file else { continue };
            let lookup = key.lookup;
            let show = |found: Found<'_>| key.show(found, visit);
            self.lookups.get(&file.reader, &lookup, self.at, asked, show)?.transpose()?;
        }
        Ok(())
    }

    /// The file that may have the key.
    fn file_of(&mut self, key: &Key<'_>) -> Option<&'a TableFile> {
        let is_before = |file: &Arc<TableFile>| *file.meta.largest < *key.lookup.key;
        if self.files.first().is_some_and(is_before) {
            let before = self.files.partition_point(is_before);
            self.files = self.files.get(before..).unwrap_or_default();
        }
        let file = &**self.files.first()?;
        // Of what is older than its tombstone nothing is shown.
        let may_have = *file.meta.smallest <= *key.lookup.key && file.meta.max_version >= key.cover;
        may_have.then_some(file)
    }

    /// Whether all of so many places are in one file, which does not have the partition.
    fn lacks_partition(&mut self, places: &Places<'a>, len: usize) -> Result<bool> {
        let places = places.get(..len).unwrap_or_default();
        let Some(&Some(file)) = places.first().filter(|_| len >= PARTITION_WORTH) else {
            return Ok(false);
        };
        if !places.iter().all(|place| place.is_some_and(|other| std::ptr::eq(other, file))) {
            return Ok(false);
        }
        match self.partition {
            Some((asked, has)) if std::ptr::eq(asked, file) => Ok(!has),
            _ => {
                let has = file.reader.may_contain_partition(self.partition_hash)?;
                self.partition = Some((file, has));
                Ok(!has)
            }
        }
    }
}

/// Asks the first probes of the filters of a group's keys, and leaves the places of those that have them,
/// with all that their hints lead to on its way.
fn approach(group: &[Key<'_>], places: &mut Places<'_>) -> Result<()> {
    for (key, file) in group.iter().zip(&*places) {
        if let Some(file) = file {
            file.reader.prefetch(&key.lookup);
        }
    }
    for (key, place) in group.iter().zip(places) {
        if let Some(file) = *place {
            if file.reader.passes(&key.lookup)? {
                file.reader.prefetch_hinted(&key.lookup);
            } else {
                *place = None;
            }
        }
    }
    Ok(())
}
