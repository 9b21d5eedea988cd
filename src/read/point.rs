//! Reads of single entities: [`get`] and [`get_raw`].
//!
//! Invariant: sources are asked from the newest to the oldest, and of two versions of a key the
//! newer is never in an older source; so the first entry found at or before the version read is
//! the newest there is.

use std::sync::Arc;

use super::sources::covering;
use crate::entry::{Found, Kind};
use crate::error::Result;
use crate::levels::{TableFile, Values, View};
use crate::sst::Lookup;
use crate::version::Version;

/// Shows the entity of the key at `at` to `visit`, if there is one.
pub(crate) fn get<R>(
    view: &View,
    lookup: &Lookup<'_>,
    at: Version,
    visit: impl FnOnce(Found<'_>) -> R,
) -> Result<Option<R>> {
    let live = get_raw(view, lookup, at, |found| match found.kind {
        Kind::Put => Ok(Some(visit(found))),
        Kind::Reference => resolved(&view.levels.values, found, visit).map(Some),
        Kind::Delete => Ok(None),
    });
    live?.transpose().map(Option::flatten)
}

/// Shows what was found with the value that it refers to.
#[cold]
pub(super) fn resolved<R>(
    values: &Values,
    found: Found<'_>,
    visit: impl FnOnce(Found<'_>) -> R,
) -> Result<R> {
    let value = values.read(found.value)?;
    Ok(visit(Found { kind: Kind::Put, value: &value, ..found }))
}

/// Shows the newest entry of the key at or before `at` to `visit`, deletions included, and references
/// as they are. A range tombstone over the key is such an entry too, whether it found anything to
/// delete or not.
pub(crate) fn get_raw<R>(
    view: &View,
    lookup: &Lookup<'_>,
    at: Version,
    visit: impl FnOnce(Found<'_>) -> R,
) -> Result<Option<R>> {
    let cover = covering(view, lookup.key, at);
    let visit = |found: Found<'_>| visit(shadowed(found, cover));
    if let Some(found) = view.active.get_hashed(lookup.key, lookup.key_hash, at) {
        return Ok(Some(visit(found)));
    }
    for frozen in &view.frozen {
        if let Some(found) = frozen.memtable.get_hashed(lookup.key, lookup.key_hash, at) {
            return Ok(Some(visit(found)));
        }
    }
    // Handed to the first file that has the key; a file without it leaves it.
    let mut visit = Some(visit);
    let mut ask = |file: &TableFile| {
        if file.meta.max_version < cover {
            return Ok(None); // All it has of the key is covered.
        }
        file.reader.get(lookup, at, |found| visit.take().map(|visit| visit(found)))
    };
    let mut levels = view.levels.levels();
    for file in levels.next().unwrap_or_default() {
        if spans(file, lookup.key)
            && let Some(shown) = ask(file)?
        {
            return Ok(shown);
        }
    }
    for files in levels {
        if let Some(file) = file_of(files, lookup.key)
            && let Some(shown) = ask(file)?
        {
            return Ok(shown);
        }
    }
    let deletion = (cover > Version::ZERO).then_some(deleted_at(cover));
    Ok(deletion.and_then(|found| visit.take().map(|visit| visit(found))))
}

/// What a read sees of an entry that tombstones cover up to `cover`.
pub(super) fn shadowed(found: Found<'_>, cover: Version) -> Found<'_> {
    if found.version < cover { deleted_at(cover) } else { found }
}

fn deleted_at(version: Version) -> Found<'static> {
    Found { version, kind: Kind::Delete, value: &[] }
}

fn spans(file: &TableFile, key: &[u8]) -> bool {
    *file.meta.smallest <= *key && *key <= *file.meta.largest
}

/// The file of a level other than 0 that may hold the key.
#[inline]
fn file_of<'a>(files: &'a [Arc<TableFile>], key: &[u8]) -> Option<&'a Arc<TableFile>> {
    if files.is_empty() {
        return None;
    }
    let at = files.partition_point(|file| *file.meta.largest < *key);
    files.get(at).filter(|file| *file.meta.smallest <= *key)
}
