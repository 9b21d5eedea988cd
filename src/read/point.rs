//! Reads of single entities: [`get`] and [`get_raw`].
//!
//! Invariant: sources are asked from the newest to the oldest, and of two versions of a key the
//! newer is never in an older source; so the first entry found at or before the version read is
//! the newest there is.

use super::files::Files;
use super::sources::covering;
use crate::entry::{Found, Kind};
use crate::error::Result;
use crate::levels::{Values, View};
use crate::memtable::Memtable;
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
    prefetch_memtables(view, lookup);
    let mut files = Files::new(view, lookup, cover);
    if lookup.is_likely_absent {
        files.approach();
    }
    if let Some(found) = in_memtables(view, lookup, at) {
        return Ok(Some(visit(found)));
    }
    // Handed to the first file that has the key; a file without it leaves it.
    let mut visit = Some(visit);
    if let Some(shown) = files.get(at, |found| visit.take().map(|visit| visit(found)))? {
        return Ok(shown);
    }
    let deletion = (cover > Version::ZERO).then_some(deleted_at(cover));
    Ok(deletion.and_then(|found| visit.take().map(|visit| visit(found))))
}

/// Brings near what memtables are asked first.
#[inline]
fn prefetch_memtables(view: &View, lookup: &Lookup<'_>) {
    view.active.prefetch_hashed(lookup.key_hash);
    for frozen in &view.frozen {
        frozen.memtable.prefetch_hashed(lookup.key_hash);
    }
}

/// The newest entry of a key at or before `at` that is in a memtable.
#[inline]
fn in_memtables<'a>(view: &'a View, lookup: &Lookup<'_>, at: Version) -> Option<Found<'a>> {
    let get = |memtable: &'a Memtable| memtable.get_hashed(lookup.key, lookup.key_hash, at);
    get(&view.active).or_else(|| view.frozen.iter().find_map(|frozen| get(&frozen.memtable)))
}

/// What a read sees of an entry that tombstones cover up to `cover`.
pub(super) fn shadowed(found: Found<'_>, cover: Version) -> Found<'_> {
    if found.version < cover { deleted_at(cover) } else { found }
}

pub(super) fn deleted_at(version: Version) -> Found<'static> {
    Found { version, kind: Kind::Delete, value: &[] }
}
