//! Import: many rows of any partitions, written unconditionally and pipelined.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::commit::{self, Commit, ImportRows, Incarnation, Pipeline, check_limit};
use crate::error::{Limit, Result};
use crate::options::Options;
use crate::version::Version;

/// A commit is sent when its rows reach this size: large enough that a sync is a small part of
/// it, small enough that other writers are not held up by its latches.
const CHUNK_BYTES: usize = 1 << 20;
/// Commits under way at once, so that encoding goes on while the log syncs.
const UNDER_WAY: usize = 4;

/// What an import stored.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("readings").wait()?;
/// let rows = (0..5_000).map(|n| (format!("sensor-{}", n % 7), format!("{n:04}"), "21.5"));
/// let report = table.import(rows)?;
/// assert_eq!(report.rows, 5_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Number of rows given.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// The version of the last commit.
    pub version: Version,
}

/// An import under way.
pub(super) struct Importer<'a> {
    pipeline: &'a Arc<Pipeline>,
    incarnation: &'a Arc<Incarnation>,
    rows: ImportRows,
    under_way: VecDeque<Commit<Version>>,
    report: ImportReport,
}

/// Fails if the row at a position is over a limit.
pub(super) fn check_row(
    options: &Options,
    position: u64,
    partition_key: &[u8],
    row_key: &[u8],
    value: &[u8],
) -> Result<()> {
    check_limit(Limit::PartitionKey, partition_key.len(), options.key_bytes)
        .and_then(|()| check_limit(Limit::RowKey, row_key.len(), options.key_bytes))
        .and_then(|()| check_limit(Limit::Value, value.len(), options.value_bytes))
        .map_err(|error| error.at(usize::try_from(position).unwrap_or(usize::MAX)))
}

impl<'a> Importer<'a> {
    pub(super) fn new(pipeline: &'a Arc<Pipeline>, incarnation: &'a Arc<Incarnation>) -> Self {
        Self {
            pipeline,
            incarnation,
            rows: ImportRows::default(),
            under_way: VecDeque::new(),
            report: ImportReport::default(),
        }
    }

    pub(super) fn push(
        &mut self,
        partition_key: &[u8],
        row_key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let options = self.pipeline.options();
        check_row(options, self.report.rows, partition_key, row_key, value)?;
        self.rows.push(partition_key, row_key, value);
        self.report.rows += 1;
        self.report.bytes += (partition_key.len() + row_key.len() + value.len()) as u64;
        if self.rows.bytes() >= CHUNK_BYTES {
            self.send(ImportRows::with_room_of(&self.rows))?;
        }
        Ok(())
    }

    /// Sends the rows so far; the next ones go to `next`.
    fn send(&mut self, next: ImportRows) -> Result<()> {
        if self.under_way.len() == UNDER_WAY
            && let Some(oldest) = self.under_way.pop_front()
        {
            self.report.version = oldest.wait()?;
        }
        let rows = std::mem::replace(&mut self.rows, next);
        let (incarnation, bytes) = (Arc::clone(self.incarnation), rows.bytes());
        let import = move |pipeline: &Pipeline| commit::import(pipeline, &incarnation, &rows);
        let mut commit = self.pipeline.begin(bytes, import);
        // Else a later one could overtake it, and of equal keys the first would win; or go in though this does not.
        commit.order()?;
        if commit.is_refused() {
            return commit.wait().map(drop);
        }
        self.under_way.push_back(commit);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<ImportReport> {
        if !self.rows.is_empty() {
            self.send(ImportRows::default())?;
        }
        while let Some(oldest) = self.under_way.pop_front() {
            self.report.version = oldest.wait()?;
        }
        Ok(self.report)
    }
}
