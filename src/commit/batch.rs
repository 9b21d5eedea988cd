//! Conditional batches: the one form of write (R-E05, R-E07).
//!
//! Invariant: conditions are checked and operations applied under the partition's latch, against the
//! newest state; one that fails makes the whole batch fail unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check_limit;
use super::conditions::Conditions;
use super::draft::{BatchLimits, Draft, Finished, Operation, Rows, batch_bytes};
use super::handle::Applied;
use super::latch::Latches;
use super::pipeline::Pipeline;
use super::ranges::Deletions;
use crate::activity::Tally;
use crate::error::{Error, Limit, Result};
use crate::key::{self, TableId};
use crate::levels::View;
use crate::memtable::Memtable;
use crate::read::ScanRange;
use crate::version::Version;
use crate::wal;

/// One life of a table, from its creation to its drop.
#[derive(Debug)]
pub(crate) struct Incarnation {
    pub(crate) id: TableId,
    pub(crate) name: Box<str>,
    /// The version that gave it its name: before, there is nothing to see of it.
    named_at: Version,
    /// The version that dropped it; `u64::MAX` while it lives.
    dropped_at: AtomicU64,
    /// What was done through handles on it.
    pub(crate) tally: Arc<Tally>,
}

impl Incarnation {
    pub(crate) fn new(id: TableId, name: &str, named_at: Version, tally: Arc<Tally>) -> Arc<Self> {
        let dropped_at = AtomicU64::new(u64::MAX);
        Arc::new(Self { id, name: name.into(), named_at, dropped_at, tally })
    }

    pub(crate) fn drop_at(&self, version: Version) {
        self.dropped_at.store(version.ticks(), Ordering::Release);
    }

    pub(crate) fn dropped_at(&self) -> Version {
        Version::from_ticks(self.dropped_at.load(Ordering::Acquire))
    }

    /// The version to read for a read at `at`: nothing is there before the table has its name,
    /// though rows that were loaded are older. Fails if the table no longer exists.
    pub(crate) fn read_at(&self, at: Version) -> Result<Version> {
        if self.dropped_at() <= at {
            return Err(self.not_found());
        }
        Ok(if at < self.named_at { Version::ZERO } else { at })
    }

    pub(crate) fn not_found(&self) -> Error {
        Error::TableNotFound(self.name.clone())
    }

    /// Under a latch: the outcome of a write to a dropped table.
    pub(super) fn refuse_if_dropped<T>(&self) -> Option<Applied<T>> {
        let dropped_at = self.dropped_at();
        (dropped_at < Version::MAX).then(|| Applied::failed(dropped_at, self.not_found()))
    }
}

/// Whether operations are what makes room, as deletions of ranges are.
fn only_delete(operations: &[Operation]) -> bool {
    operations.iter().all(Operation::is_deletion)
}

/// A batch with its payload, built outside the latch where no merge is in it.
pub(crate) struct BatchWrite {
    prefix: Vec<u8>,
    operations: Vec<Operation>,
    rows: Rows,
    ranges: Option<Box<[ScanRange]>>,
    partition_key_bytes: usize,
    limits: BatchLimits,
}

impl BatchWrite {
    /// A batch on one partition, which was [checked](Draft::check).
    pub(crate) fn new(table: TableId, draft: Draft, limits: BatchLimits) -> Self {
        let partition_key_bytes = draft.partition_key().len();
        let Finished { prefix, operations, rows, ranges } = draft.finish(table);
        Self { prefix, operations, rows, ranges, partition_key_bytes, limits }
    }

    /// Checks the batch and applies it to its table; gives its one version.
    pub(crate) fn run(self, pipeline: &Pipeline, table: &Incarnation) -> Applied<Version> {
        let applied = self.apply(pipeline, table);
        if applied.result.is_err() {
            table.tally.failed_write();
        }
        applied
    }

    fn apply(mut self, pipeline: &Pipeline, table: &Incarnation) -> Applied<Version> {
        let has_conditions = self.has_conditions();
        if self.operations.len() > 1 || !has_conditions {
            self.prefetch(&pipeline.tree().view().active);
        }
        let known_room = pipeline.known_room(self.rows.buffer().len());
        let _latch = pipeline.latches().lock(key::hash(&self.prefix));
        if let Some(refused) = table.refuse_if_dropped() {
            return refused;
        }
        let mut found = Version::ZERO;
        if has_conditions {
            found = match self.check(&pipeline.tree().view(), pipeline.latches()) {
                Ok(found) => found,
                Err(failed) => return failed,
            };
        }
        let deletions = self.deletions(pipeline, table.id);
        if self.operations.is_empty() && deletions.is_none() {
            return pipeline.nothing_done();
        }
        let Self { prefix, operations, rows, partition_key_bytes, .. } = self;
        let bytes = batch_bytes(partition_key_bytes, &operations);
        let prepared = rows.prepare(&prefix, &operations, deletions.as_ref());
        // Keys may take twice as much as they have, of what the options allow.
        let encoded =
            check_limit(Limit::BatchBytes, prepared.payload_len(), wal::MAX_PAYLOAD_BYTES);
        if let Err(error) = encoded {
            return Applied::failed(found, error);
        }
        let makes_room = || only_delete(&operations);
        let version = match pipeline.submit_if_room(&prepared, known_room, makes_room) {
            Ok(version) => version,
            Err(error) => return Applied::failed(Version::ZERO, error),
        };
        table.tally.write(operations.len(), bytes);
        deletions.iter().for_each(|deletions| deletions.are_made(pipeline));
        if operations.iter().any(Operation::is_deletion) {
            pipeline.note_deletion();
        }
        Applied::done(version, version)
    }

    /// The outcome where these are followed by an operation that cannot be done: its error, unless a condition of theirs
    /// is not met (R-E07).
    pub(crate) fn refuse(
        mut self,
        pipeline: &Pipeline,
        table: &Incarnation,
        error: Error,
    ) -> Applied<Version> {
        table.tally.failed_write();
        let _latch = pipeline.latches().lock(key::hash(&self.prefix));
        if let Some(refused) = table.refuse_if_dropped() {
            return refused;
        }
        match self.check(&pipeline.tree().view(), pipeline.latches()) {
            Ok(found) => Applied::failed(found, error),
            Err(failed) => failed,
        }
    }

    /// What its ranges come to, but for what it writes itself.
    fn deletions(&self, pipeline: &Pipeline, table: TableId) -> Option<Deletions> {
        let mut deletions = Deletions::of(pipeline, table, self.ranges.as_deref()?);
        for operation in &self.operations {
            deletions.row_keys.remove(operation.row_key(self.rows.buffer()));
        }
        (!deletions.is_empty()).then_some(deletions)
    }

    /// How many ranges it deletes.
    pub(super) fn ranges(&self) -> usize {
        self.ranges.as_ref().map_or(0, |ranges| ranges.len())
    }

    /// Whether it is what makes room.
    pub(super) fn only_deletes(&self) -> bool {
        only_delete(&self.operations)
    }

    /// Whether what is stored is looked at, under the latch.
    fn has_conditions(&self) -> bool {
        self.operations.iter().any(Operation::looks)
    }

    /// Has brought near what the memtable reads first for each key: so the batch waits for memory about
    /// once, not once for each operation. A condition by itself would read it at once.
    fn prefetch(&self, memtable: &Memtable) {
        for operation in &self.operations {
            memtable.prefetch(&self.prefix, operation.row_key(self.rows.buffer()));
        }
    }

    /// Checks every condition and runs merges; gives the newest version that was found.
    fn check(&mut self, view: &View, latches: &Latches) -> Result<Version, Applied<Version>> {
        let (prefix, buffer) = (&*self.prefix, self.rows.buffer());
        let value_limit = self.limits.value_bytes;
        let upto = Conditions { view, latches, prefix, buffer, value_limit }
            .check(&mut self.operations)
            .map_err(|(upto, error)| Applied::failed(upto, error))?;
        if self.rows.are_ready() {
            return Ok(upto);
        }
        let bytes = batch_bytes(self.partition_key_bytes, &self.operations);
        check_limit(Limit::BatchBytes, bytes, self.limits.merged_bytes)
            .map_err(|error| Applied::failed(upto, error))?;
        Ok(upto)
    }
}
