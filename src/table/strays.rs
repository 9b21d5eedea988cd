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
use crate::error::{Error, Result};
use crate::key::TableId;
use crate::read;

/// Gives names to what has lost its own, and returns them. The caller makes them durable.
pub(super) fn name_strays(inner: &Arc<Inner>) -> Result<Vec<String>> {
    let named = named_ids(inner)?;
    let pipeline = inner.pipeline();
    let last = read::last_table(&pipeline.tree().view());
    let stored = stored_ids(inner, last)?;
    let highest = named.iter().copied().fold(last, TableId::max);
    Catalog::skip_ids(pipeline, highest)?;
    let mut names = Vec::new();
    for id in stored.into_iter().filter(|id| !named.contains(id)) {
        if has_rows(inner, id)? {
            let name = Catalog::name_stray(pipeline, id)?;
            tracing::warn!(%name, "the name of a table is lost");
            names.push(name);
        }
    }
    Ok(names)
}

/// The ids that the catalog still has names for.
fn named_ids(inner: &Arc<Inner>) -> Result<HashSet<TableId>> {
    let mut ids = HashSet::new();
    // The first RowKey is "", which holds the next id and is no name.
    for page in catalog(inner).query().partition(NAMES).rows("\0"..).pages() {
        ids.extend(page?.iter().filter_map(|row| Catalog::id_of(row.value)));
    }
    Ok(ids)
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
