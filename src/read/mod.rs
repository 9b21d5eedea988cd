//! Reading: points, many points of a partition, pages, estimates (R-E11 to R-E16, R-E23).
//!
//! Invariant: a read at a version shows, for every key, its newest entry at or before that
//! version, unless that entry is a deletion or a range tombstone at or before that version and
//! newer than the entry covers it. A read takes no lock and keeps nobody waiting. This room calls
//! levels, merge, sst, memtable and what is below.

mod builder;
mod estimate;
mod files;
mod limits;
mod multi;
mod page;
mod point;
mod range;
mod request;
mod rows;
mod scan;
mod shadow;
mod sources;
#[cfg(test)]
mod tests;

pub(crate) use builder::{HookResult, ScanHooks, Take};
pub use estimate::Estimate;
pub(crate) use estimate::{estimate, split_points};
pub(crate) use limits::{PartitionStop, ScanLimits, WhenFull};
pub(crate) use multi::{multi_get, multi_get_raw};
pub(crate) use page::PageData;
pub use page::{RowRef, Rows, StopReason};
pub(crate) use point::{get, get_raw};
pub(crate) use range::{Direction, Partitions, ScanRange, Span};
pub(crate) use request::{ScanRequest, scan};

use crate::entry::Cursor;
use crate::error::Result;
use crate::key::{self, TableId};
use crate::levels::View;
use crate::merge::Merge;
use sources::sources;

/// Whether nothing at all is stored in a table: no entry of whatever version, no deletion.
pub(crate) fn is_blank(view: &View, table: TableId) -> Result<bool> {
    let Some(span) = ScanRange::all().span(table) else { return Ok(true) };
    Ok(first_table(view, &span)?.is_none())
}

/// The first table from an id on in which anything at all is stored.
pub(crate) fn next_table(view: &View, from: TableId) -> Result<Option<TableId>> {
    let (low, high) = (key::encode_table(from), key::encode_table(TableId::LAST));
    first_table(view, &Span { low, high, partition: None, rows: None })
}

/// The last table that has anything stored, be it deleted, or one above it. No file is read.
pub(crate) fn last_table(view: &View) -> TableId {
    let in_files = view.levels.files().map(|(_, file)| key::table_of(&file.meta.largest));
    let in_memory = view.memtables().filter_map(|memtable| {
        let mut cursor = memtable.cursor();
        cursor.seek_to_last().ok()?;
        cursor.valid().then(|| key::table_of(cursor.key()))
    });
    let given_out = in_files.chain(in_memory).filter(|table| *table < TableId::LAST);
    given_out.max().unwrap_or(TableId::CATALOG)
}

/// The table of the first key of a span, deleted or not.
fn first_table(view: &View, span: &Span) -> Result<Option<TableId>> {
    let mut merge = Merge::new(sources(view, span)?, span.shared());
    merge.seek(&span.low)?;
    Ok((merge.valid() && *merge.key() < *span.high).then(|| key::table_of(merge.key())))
}
