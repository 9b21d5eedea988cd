//! Where a read looks: the memtables and table files of a view that may hold keys of a span.
//!
//! Invariant: sources stand newest first, and what is left out holds no key of the span.

use std::sync::Arc;

use super::range::Span;
use super::shadow::Shadow;
use crate::error::Result;
use crate::key;
use crate::levels::{TableFile, View};
use crate::merge::{CacheUse, Source};
use crate::tombstone::RangeTombstones;
use crate::version::Version;

/// All range tombstones of a view. What is held keeps them while a scan walks.
pub(super) struct Tombstones(Vec<Arc<RangeTombstones>>);

impl Tombstones {
    pub(super) fn of(view: &View) -> Self {
        let in_memory = view
            .memtables()
            .filter(|memtable| memtable.has_range_tombstones())
            .map(|memtable| Arc::clone(&memtable.range_tombstones()));
        let in_state = Some(&view.levels.range_tombstones).filter(|set| !set.is_empty()).cloned();
        Self(in_memory.chain(in_state).collect())
    }

    pub(super) fn shadow(&self, low: &[u8], high: &[u8], at: Version) -> Shadow<'_> {
        Shadow::new(self.0.iter().map(|set| &**set), low, high, at)
    }
}

/// The newest version of the tombstones that cover `key` at `at`.
#[inline]
pub(super) fn covering(view: &View, key: &[u8], at: Version) -> Version {
    let in_state = &view.levels.range_tombstones;
    let mut newest = if in_state.is_empty() { Version::ZERO } else { in_state.covering(key, at) };
    for memtable in view.memtables() {
        if memtable.has_range_tombstones() {
            newest = newest.max(memtable.range_tombstones().covering(key, at));
        }
    }
    newest
}

/// What to merge for a scan of the span.
pub(super) fn sources<'a>(view: &'a View, span: &Span) -> Result<Vec<Source<'a, TableFile>>> {
    let memtables = usize::from(view.active.has_entries()) + view.frozen.len();
    let levels = view.levels.levels().skip(1).filter(|files| !files.is_empty()).count();
    // A cursor is large: a list that grows is a twelfth of the instructions of a short page.
    let mut sources = Vec::with_capacity(memtables + levels);
    // What is inserted from now on is newer than what the scan reads.
    if view.active.has_entries() {
        sources.push(Source::memtable(&view.active, Version::MAX));
    }
    for frozen in &view.frozen {
        sources.push(Source::memtable(&frozen.memtable, frozen.last));
    }
    let partition_hash = span.prefix().map(key::hash);
    let may_hold = |file: &TableFile| match partition_hash {
        Some(hash) => file.reader.may_contain_partition(hash),
        None => Ok(true),
    };
    let mut levels = view.levels.levels();
    for file in levels.next().unwrap_or_default() {
        if *file.meta.smallest < *span.high && *span.low <= *file.meta.largest && may_hold(file)? {
            sources.push(Source::file(&**file, CacheUse::Keep));
        }
    }
    for level in levels {
        match within(level, &span.low, &span.high) {
            [] => {}
            [file] if !may_hold(file)? => {}
            files => sources.push(Source::level(files, CacheUse::Keep)),
        }
    }
    Ok(sources)
}

/// The files of a level other than 0 that may hold keys in [low, high).
pub(super) fn within<'a>(
    files: &'a [Arc<TableFile>],
    low: &[u8],
    high: &[u8],
) -> &'a [Arc<TableFile>] {
    let start = files.partition_point(|file| *file.meta.largest < *low);
    let rest = files.get(start..).unwrap_or_default();
    let len = rest.partition_point(|file| *file.meta.smallest < *high);
    rest.get(..len).unwrap_or_default()
}
