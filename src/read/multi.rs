//! [`multi_get`]: many entities of one partition, cheaper than one by one (R-E16).
//!
//! Invariant: as for single reads, sources are asked from the newest to the oldest, each only for
//! the keys that no newer one had. A source is asked for its keys in order, some at a time: for each
//! step of a lookup, what all of them read in it is brought near before the first reads it. A block is
//! held as long as the keys stay in it.

use std::ops::Range;
use std::sync::Arc;

use super::point::{deleted_at, resolved, shadowed};
use super::sources::covering;
use crate::entry::{Found, Kind};
use crate::error::Result;
use crate::key;
use crate::levels::{TableFile, View};
use crate::memtable::Memtable;
use crate::sst::{Asked, Lookup, Lookups, Probes};
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
    multi_get_unresolved(view, partition, row_keys, at, |index, found| {
        if found.kind == Kind::Reference {
            return resolved(&view.levels.values, found, |found| visit(index, found));
        }
        visit(index, found);
        Ok(())
    })
}

/// The same, with references as they are. An error of `visit` ends it.
pub(super) fn multi_get_unresolved(
    view: &View,
    partition: &[u8],
    row_keys: &[&[u8]],
    at: Version,
    mut visit: impl FnMut(usize, Found<'_>) -> Result<()>,
) -> Result<()> {
    let visit = |index, found: Found<'_>| {
        if found.kind == Kind::Delete { Ok(()) } else { visit(index, found) }
    };
    Missing::new(view, partition, row_keys, key::push_component, at, visit).ask_all(view)
}

/// The same for RowKeys that are encoded, deletions included, as [`get_raw`](super::get_raw) shows them.
pub(crate) fn multi_get_raw(
    view: &View,
    partition: &[u8],
    row_keys: &[&[u8]],
    at: Version,
    visit: impl FnMut(usize, Found<'_>) -> Result<()>,
) -> Result<()> {
    let push = |key: &mut Vec<u8>, row_key: &[u8]| key.extend_from_slice(row_key);
    Missing::new(view, partition, row_keys, push, at, visit).ask_all(view)
}

/// So many keys are looked up side by side: what a step reads of the last is on its way while it is read
/// of the first.
const GROUP: usize = 12;

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
struct Missing<V> {
    keys: Vec<Key>,
    /// The bytes of all that were asked for, one after the other.
    encoded: Vec<u8>,
    partition_hash: u64,
    at: Version,
    visit: V,
}

struct Key {
    /// Where its bytes are.
    place: Range<usize>,
    hash: u64,
    probes: Probes,
    /// Its index among the RowKeys.
    index: usize,
    /// The newest range tombstone that covers it.
    cover: Version,
    is_found: bool,
}

impl<V: FnMut(usize, Found<'_>) -> Result<()>> Missing<V> {
    /// `push` adds a RowKey to an encoded partition.
    fn new(
        view: &View,
        partition: &[u8],
        row_keys: &[&[u8]],
        push: impl Fn(&mut Vec<u8>, &[u8]),
        at: Version,
        visit: V,
    ) -> Self {
        let rows: usize = row_keys.iter().map(|row_key| row_key.len() + 1).sum();
        let mut encoded = Vec::with_capacity(partition.len() * row_keys.len() + rows);
        let mut keys = Vec::with_capacity(row_keys.len());
        let mut add = |index, row_key: &[u8]| {
            let start = encoded.len();
            encoded.extend_from_slice(partition);
            push(&mut encoded, row_key);
            let key = encoded.get(start..).unwrap_or_default();
            let (hash, cover) = (key::hash(key), covering(view, key, at));
            let (place, probes) = (start..encoded.len(), Probes::of(hash));
            keys.push(Key { place, hash, probes, index, cover, is_found: false });
        };
        if row_keys.is_sorted() {
            row_keys.iter().enumerate().for_each(|(index, row_key)| add(index, row_key));
        } else {
            sorted(row_keys).iter().for_each(|&(_, row_key, index)| add(index, row_key));
        }
        Self { keys, encoded, partition_hash: key::hash(partition), at, visit }
    }

    fn ask_all(mut self, view: &View) -> Result<()> {
        self.ask_memtable(&view.active)?;
        for frozen in &view.frozen {
            self.ask_memtable(&frozen.memtable)?;
        }
        let mut levels = view.levels.levels();
        for file in levels.next().unwrap_or_default() {
            self.ask_files(std::slice::from_ref(file))?;
        }
        for files in levels {
            self.ask_files(files)?;
        }
        self.show_covered()
    }

    fn ask_memtable(&mut self, memtable: &Memtable) -> Result<()> {
        if !memtable.has_entries() {
            return Ok(());
        }
        for group in self.keys.chunks_mut(GROUP) {
            for key in &*group {
                memtable.prefetch_hashed(key.hash);
            }
            for key in group {
                let bytes = key.bytes(&self.encoded);
                if let Some(found) = memtable.get_hashed(bytes, key.hash, self.at) {
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
        let mut reading = Reading::new(files, &self.encoded, self.partition_hash, self.at);
        for group in self.keys.chunks_mut(GROUP) {
            reading.ask(group, &mut self.visit)?;
        }
        self.leave_out_found();
        Ok(())
    }

    /// Shows what deleted the keys that no source had.
    fn show_covered(mut self) -> Result<()> {
        let covered = self.keys.iter().filter(|key| key.cover > Version::ZERO);
        covered.into_iter().try_for_each(|key| (self.visit)(key.index, deleted_at(key.cover)))
    }

    fn leave_out_found(&mut self) {
        self.keys.retain(|key| !key.is_found);
    }
}

impl Key {
    #[inline]
    fn bytes<'k>(&self, encoded: &'k [u8]) -> &'k [u8] {
        encoded.get(self.place.clone()).unwrap_or_default()
    }

    #[inline]
    fn lookup<'k>(&self, encoded: &'k [u8]) -> Lookup<'k> {
        Lookup { key: self.bytes(encoded), key_hash: self.hash, is_likely_absent: false }
    }

    /// Shows what a source has.
    fn show(
        &mut self,
        found: Found<'_>,
        visit: &mut impl FnMut(usize, Found<'_>) -> Result<()>,
    ) -> Result<()> {
        self.is_found = true;
        visit(self.index, shadowed(found, self.cover))
    }
}

/// Files that are asked for ascending keys.
struct Reading<'a> {
    /// Those that are not before the last key, in key order.
    files: &'a [Arc<TableFile>],
    encoded: &'a [u8],
    partition_hash: u64,
    /// A file that had no key of a group, and whether it has none of the partition.
    lacking: Option<(&'a TableFile, bool)>,
    at: Version,
    lookups: Lookups<'a>,
}

impl<'a> Reading<'a> {
    fn new(
        files: &'a [Arc<TableFile>],
        encoded: &'a [u8],
        partition_hash: u64,
        at: Version,
    ) -> Self {
        Self { files, encoded, partition_hash, lacking: None, at, lookups: Lookups::default() }
    }

    fn ask(
        &mut self,
        group: &mut [Key],
        visit: &mut impl FnMut(usize, Found<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut places = self.places(group);
        // Keys that lie close together need no more than the block that they are in.
        let is_near = self.lookups.is_near();
        let asked = if is_near { Asked::Nothing } else { Asked::FirstProbes };
        if !is_near && !approach(group, &mut places)? {
            return self.note_lacking(group);
        }
        for (key, file) in group.iter_mut().zip(places) {
            let Some(file) = file else { continue };
            let lookup = key.lookup(self.encoded);
            let show = |found: Found<'_>| key.show(found, visit);
            self.lookups.get(&file.reader, &lookup, self.at, asked, show)?.transpose()?;
        }
        Ok(())
    }

    /// The files that may have the keys of a group.
    fn places(&mut self, group: &[Key]) -> Places<'a> {
        let mut places = [None; GROUP];
        let encoded = self.encoded;
        let first = group.first().and_then(|key| self.file_of(key.bytes(encoded)));
        // It mostly has room for all of them.
        let last = group.last().map_or(&[][..], |key| key.bytes(encoded));
        let only = first.filter(|file| *last <= *file.meta.largest);
        for (key, place) in group.iter().zip(&mut places) {
            let file = only.or_else(|| self.file_of(key.bytes(encoded)));
            // Of what is older than its tombstone nothing is shown.
            *place = file.filter(|file| file.meta.max_version >= key.cover && !self.lacks(file));
        }
        places
    }

    /// The file whose keys the key is among.
    fn file_of(&mut self, key: &[u8]) -> Option<&'a TableFile> {
        let is_before = |file: &Arc<TableFile>| *file.meta.largest < *key;
        if self.files.first().is_some_and(is_before) {
            let before = self.files.partition_point(is_before);
            self.files = self.files.get(before..).unwrap_or_default();
        }
        self.files.first().map(|file| &**file).filter(|file| *file.meta.smallest <= *key)
    }

    fn lacks(&self, file: &TableFile) -> bool {
        self.lacking.is_some_and(|(lacking, lacks)| lacks && std::ptr::eq(lacking, file))
    }

    /// Asks a file that has none of a whole group for the partition, once: it may have nothing of it.
    fn note_lacking(&mut self, group: &[Key]) -> Result<()> {
        let Some(file) = self.files.first().filter(|_| group.len() == GROUP) else { return Ok(()) };
        if !self.lacking.is_some_and(|(asked, _)| std::ptr::eq(asked, &**file)) {
            let lacks = !file.reader.may_contain_partition(self.partition_hash)?;
            self.lacking = Some((file, lacks));
        }
        Ok(())
    }
}

/// For each key of a group, a file that may have it.
type Places<'a> = [Option<&'a TableFile>; GROUP];

/// Asks the first probes of filters, and leaves the places of those keys that pass, with what their hints
/// lead to on its way. `false`: there are none.
fn approach(group: &[Key], places: &mut Places<'_>) -> Result<bool> {
    let mut questions = [const { None }; GROUP];
    for ((key, place), question) in group.iter().zip(&*places).zip(&mut questions) {
        if let Some(file) = place {
            *question = file.reader.question(key.hash, key.probes);
            file.reader.prefetch_hints(key.hash);
        }
    }
    let mut any = false;
    for ((key, place), question) in group.iter().zip(places).zip(&questions) {
        if let Some(file) = *place {
            // Where there is nothing to ask, looking the key up says why.
            let passes = match question {
                Some(question) => file.reader.passes(key.hash, question)?,
                None => true,
            };
            *place = passes.then_some(file);
            any |= passes;
        }
    }
    Ok(any)
}
