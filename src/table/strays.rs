//! Tables whose names a salvage lost.
//!
//! Invariant: once a salvage has opened, whatever rows it has left are in a table that has a name, durably, and
//! no id that a table has, or under which anything is stored, is given out again: no new table shows rows of an old
//! one. Until then nothing but another salvage opens the database.

use std::collections::HashSet;
use std::sync::Arc;

use super::catalog::{Catalog, NAMES};
use super::database::Inner;
use super::view::{by_id, catalog};
use crate::error::{Corruption, Error, Result};
use crate::key::TableId;
use crate::read;
use crate::salvage::is_mark;

/// Gives names to what has lost its own, and returns them; where an earlier salvage was cut off, and nobody was told,
/// those that it gave, too. The caller makes them durable.
pub(super) fn name_strays(inner: &Arc<Inner>, lost: &[Corruption]) -> Result<Vec<String>> {
    let known = names(inner)?;
    let pipeline = inner.pipeline();
    let last = read::last_table(&pipeline.tree().view());
    let stored = stored_ids(inner, last)?;
    let highest = known.iter().map(|(_, id)| *id).fold(last, TableId::max);
    Catalog::skip_ids(pipeline, highest)?;
    let named: HashSet<_> = known.iter().map(|(_, id)| *id).collect();
    let mut names = if lost.iter().any(is_mark) { given(known) } else { Vec::new() };
    for id in stored.into_iter().filter(|id| !named.contains(id)) {
        if has_rows(inner, id)? {
            let name = Catalog::name_stray(pipeline, id)?;
            tracing::warn!(%name, "the name of a table is lost");
            names.push(name);
        }
    }
    Ok(names)
}

/// The names of those that a salvage named.
fn given(known: Vec<(String, TableId)>) -> Vec<String> {
    let given = known.into_iter().filter(|(name, id)| Catalog::is_of_stray(name, *id));
    given.map(|(name, _)| name).collect()
}

/// The names that the catalog still has, and the ids that they stand for.
fn names(inner: &Arc<Inner>) -> Result<Vec<(String, TableId)>> {
    let mut names = Vec::new();
    // The first RowKey is "", which holds the next id and is no name.
    for page in catalog(inner).query().partition(NAMES).rows("\0"..).pages() {
        names.extend(page?.iter().filter_map(|row| {
            let name = String::from_utf8_lossy(row.row_key).into_owned();
            Some((name, Catalog::id_of(row.value)?))
        }));
    }
    Ok(names)
}

/// The ids of tables under which something is stored; none of them is above `last`.
fn stored_ids(inner: &Arc<Inner>, last: TableId) -> Result<Vec<TableId>> {
    let view = inner.pipeline().tree().view();
    let (mut ids, mut from) = (Vec::new(), TableId::FIRST);
    loop {
        match read::next_table(&view, from) {
            Ok(Some(id)) => {
                ids.push(id);
                from = id.next();
            }
            Ok(None) => return Ok(ids),
            // It is reported to whoever reads there; the tables behind it can still be found.
            Err(Error::Corruption(_)) if from < last => from = from.next(),
            Err(Error::Corruption(_)) => return Ok(ids),
            Err(error) => return Err(error),
        }
    }
}

/// Whether there are rows that are not deleted. What cannot be read is not given up.
fn has_rows(inner: &Arc<Inner>, id: TableId) -> Result<bool> {
    match by_id(inner, id, "a table without a name").query().limit(1).page() {
        Ok(page) => Ok(!page.is_empty()),
        Err(Error::Corruption(_)) => Ok(true),
        Err(error) => Err(error),
    }
}
