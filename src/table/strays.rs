//! Tables whose names a salvage lost.
//!
//! Invariant: after this, whatever rows a salvage has left are in a table that has a name, and no id under
//! which anything is stored is given out again: no new table shows rows of an old one.

use std::collections::HashSet;
use std::sync::Arc;

use super::catalog::{Catalog, NAMES};
use super::database::Inner;
use super::view::{by_id, catalog};
use crate::error::{Error, Result};
use crate::key::{self, TableId};
use crate::read;

/// Gives names to what has lost its own, and returns them.
pub(super) fn name_strays(inner: &Arc<Inner>) -> Result<Vec<String>> {
    let named = named_ids(inner)?;
    let (stored, highest) = stored_ids(inner)?;
    let highest = named.iter().copied().chain([highest]).max().unwrap_or(TableId::CATALOG);
    let pipeline = inner.pipeline();
    let mut upto = Catalog::skip_ids(pipeline, highest)?;
    let mut names = Vec::new();
    for id in stored.into_iter().filter(|id| !named.contains(id)) {
        if has_rows(inner, id)? {
            let (name, version) = Catalog::name_stray(pipeline, id)?;
            tracing::warn!(%name, "the name of a table is lost");
            names.push(name);
            upto = version;
        }
    }
    pipeline.wait(upto)?;
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

/// The ids of tables under which something is stored, and one that none of them is above.
fn stored_ids(inner: &Arc<Inner>) -> Result<(Vec<TableId>, TableId)> {
    let view = inner.pipeline().tree().view();
    let largest = view.levels.files().map(|(_, file)| key::table_of(&file.meta.largest));
    let in_files = largest.max().unwrap_or(TableId::CATALOG);
    let (mut ids, mut from) = (Vec::new(), TableId::FIRST);
    loop {
        match read::next_table(&view, from) {
            Ok(Some(id)) => {
                ids.push(id);
                from = id.next();
            }
            Ok(None) => break,
            // It is reported to whoever reads there; the tables behind it can still be found.
            Err(Error::Corruption(_)) if from < in_files => from = from.next(),
            Err(Error::Corruption(_)) => break,
            Err(error) => return Err(error),
        }
    }
    let highest = ids.last().copied().unwrap_or(TableId::CATALOG).max(in_files);
    Ok((ids, highest))
}

/// Whether there are rows that are not deleted. What cannot be read is not given up.
fn has_rows(inner: &Arc<Inner>, id: TableId) -> Result<bool> {
    match by_id(inner, id, "a table without a name").query().limit(1).page() {
        Ok(page) => Ok(!page.is_empty()),
        Err(Error::Corruption(_)) => Ok(true),
        Err(error) => Err(error),
    }
}
