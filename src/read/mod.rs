//! Reading: points, many points of a partition, pages, estimates (R-E11 to R-E16, R-E23).
//!
//! Invariant: a read at a version shows, for every key, its newest entry at or before that
//! version, unless that entry is a deletion or a range tombstone at or before that version and
//! newer than the entry covers it. A read takes no lock and keeps nobody waiting. This room calls
//! levels, merge, sst, memtable and what is below.

mod builder;
mod estimate;
mod limits;
mod multi;
mod page;
mod point;
mod range;
mod scan;
mod shadow;
mod sources;
#[cfg(test)]
mod tests;

pub(crate) use builder::ScanHooks;
pub use estimate::Estimate;
pub(crate) use estimate::{estimate, split_points};
pub(crate) use limits::{PartitionStop, ScanLimits};
pub(crate) use multi::multi_get;
pub(crate) use page::PageData;
pub use page::{RowRef, StopReason};
pub(crate) use point::{get, get_raw};
pub(crate) use range::{Direction, ScanRange};

use crate::entry::Cursor;
use crate::env::Clock;
use crate::error::Result;
use crate::levels::View;
use crate::merge::Merge;
use crate::version::Version;
use range::Continuation;
use scan::{Scan, ScanContext};
use sources::{Tombstones, sources};

/// A page of the entities in a range at `at`, from `start` on: where the page before ended.
pub(crate) fn scan(
    view: &View,
    range: &ScanRange,
    start: Option<Continuation>,
    limits: &ScanLimits,
    hooks: ScanHooks<'_>,
    at: Version,
    clock: &dyn Clock,
) -> Result<PageData> {
    let Some(span) = range.span(start) else { return Ok(PageData::empty()) };
    let tombstones = Tombstones::of(view);
    let shadow = tombstones.shadow(&span.low, &span.high, at);
    let context = ScanContext { sources: sources(view, &span)?, shadow, at, clock };
    Scan::new(context, span, range.direction, *limits, hooks).run()
}

/// Whether nothing at all is stored in a range: no entry of whatever version, no deletion.
pub(crate) fn is_blank(view: &View, range: &ScanRange) -> Result<bool> {
    let Some(span) = range.span(None) else { return Ok(true) };
    let mut merge = Merge::new(sources(view, &span)?, &span.shared);
    merge.seek(&span.low)?;
    Ok(!merge.valid() || *merge.key() >= *span.high)
}
