//! Conditional batches: the one form of write (R-E05, R-E07).
//!
//! Invariant: conditions are checked and operations applied under the partition's latch, in
//! order, against the newest state; the first that fails makes the whole batch fail unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check_limit;
use super::draft::{BatchLimits, Draft, Operation, Rows, batch_bytes};
use super::handle::Applied;
use super::latch::Latches;
use super::pipeline::Pipeline;
use crate::activity::Tally;
use crate::entry::{Found, Kind};
use crate::error::{Error, Limit, Result};
use crate::key::{self, TableId};
use crate::levels::View;
use crate::memtable::Memtable;
use crate::read;
use crate::sst::Lookup;
use crate::version::Version;
use crate::wal;

/// What must hold of the stored entity for an operation to apply.
///
/// ```
/// use tablestone::{Database, Error, Options, Precondition};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// let version = table.insert("de", "karl", "born 1854").wait()?;
/// // Only if nobody wrote it in between; `Exists` would do with any version of it.
/// table.replace("de", "karl", Precondition::Version(version), "born 1853").wait()?;
/// let late = table.delete("de", "karl", Precondition::Version(version)).wait();
/// assert!(matches!(late, Err(Error::VersionMismatch { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// It must not exist.
    Absent,
    /// It must exist.
    Exists,
    /// It must exist and be at this version: its ETag must match.
    Version(Version),
}

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

/// Whether operations are what makes room.
fn only_delete(operations: &[Operation]) -> bool {
    operations.iter().all(Operation::is_deletion)
}

/// A batch with its payload, built outside the latch where no merge is in it.
pub(crate) struct BatchWrite {
    prefix: Vec<u8>,
    operations: Vec<Operation>,
    rows: Rows,
    partition_key_bytes: usize,
    limits: BatchLimits,
}

impl BatchWrite {
    /// A batch on one partition, which was [checked](Draft::check).
    pub(crate) fn new(table: TableId, draft: Draft, limits: BatchLimits) -> Self {
        let partition_key_bytes = draft.partition_key().len();
        let (prefix, operations, rows) = draft.finish(table);
        Self { prefix, operations, rows, partition_key_bytes, limits }
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
        if self.operations.len() > 1 || !self.has_conditions() {
            self.prefetch(&pipeline.tree().view().active);
        }
        let _latch = pipeline.latches().lock(key::hash(&self.prefix));
        if let Some(refused) = table.refuse_if_dropped() {
            return refused;
        }
        if let Err(failed) = self.check(&pipeline.tree().view(), pipeline.latches()) {
            return failed;
        }
        if self.operations.is_empty() {
            return pipeline.nothing_done();
        }
        let Self { prefix, operations, rows, partition_key_bytes, .. } = self;
        let bytes = batch_bytes(partition_key_bytes, &operations);
        let prepared = rows.prepare(&prefix, &operations);
        // Keys may take twice as much as they have, of what the options allow.
        let encoded =
            check_limit(Limit::BatchBytes, prepared.payload_len(), wal::MAX_PAYLOAD_BYTES);
        if let Err(error) = encoded {
            return Applied::failed(Version::ZERO, error);
        }
        let version = match pipeline.submit_if_room(&prepared, || only_delete(&operations)) {
            Ok(version) => version,
            Err(error) => return Applied::failed(Version::ZERO, error),
        };
        table.tally.write(operations.len(), bytes);
        if operations.iter().any(Operation::is_deletion) {
            pipeline.note_deletion();
        }
        Applied::done(version, version)
    }

    /// Whether it is what makes room.
    pub(super) fn only_deletes(&self) -> bool {
        only_delete(&self.operations)
    }

    /// Whether what is stored is looked at, under the latch.
    fn has_conditions(&self) -> bool {
        let looks = |op: &Operation| op.precondition != Precondition::None || op.is_merge();
        self.operations.iter().any(looks)
    }

    /// Has brought near what the memtable reads first for each key: so the batch waits for memory about
    /// once, not once for each operation. A condition by itself would read it at once.
    fn prefetch(&self, memtable: &Memtable) {
        for operation in &self.operations {
            memtable.prefetch(&self.prefix, operation.row_key(self.rows.buffer()));
        }
    }

    /// Checks every condition and runs merges.
    fn check(&mut self, view: &View, latches: &Latches) -> Result<(), Applied<Version>> {
        let (mut key, mut upto) = (Vec::new(), Version::ZERO);
        for (index, operation) in self.operations.iter_mut().enumerate() {
            let merges = operation.is_merge();
            if operation.precondition == Precondition::None && !merges {
                continue;
            }
            let row_key = operation.row_key(self.rows.buffer());
            key.clear();
            key.reserve(self.prefix.len() + row_key.len());
            key.extend_from_slice(&self.prefix);
            key.extend_from_slice(row_key);
            let lookup = match operation.precondition {
                Precondition::Absent => Lookup::likely_absent(&key),
                _ => Lookup::new(&key),
            };
            let newest = read_newest(view, &lookup, merges)
                .map_err(|error| Applied::failed(Version::ZERO, error))?;
            upto = upto.max(newest.version);
            let stored = newest.exists.then_some(&*newest.value);
            let limit = self.limits.value_bytes;
            check_precondition(index, operation.precondition, &newest)
                .and_then(|()| operation.resolve_merge(index, stored, limit, latches))
                .map_err(|error| Applied::failed(newest.version, error))?;
        }
        if self.rows.are_ready() {
            return Ok(());
        }
        let bytes = batch_bytes(self.partition_key_bytes, &self.operations);
        check_limit(Limit::BatchBytes, bytes, self.limits.merged_bytes)
            .map_err(|error| Applied::failed(upto, error))
    }
}

/// The newest state of one entity, durable or not.
struct Newest {
    /// Of the entity, or of what deleted it; zero if it never was.
    version: Version,
    exists: bool,
    /// Only if asked for.
    value: Vec<u8>,
}

fn read_newest(view: &View, lookup: &Lookup<'_>, with_value: bool) -> Result<Newest> {
    let newest = |found: Found<'_>| {
        let value = if with_value { found.value.to_vec() } else { Vec::new() };
        let exists = found.kind != Kind::Delete;
        (found.kind, Newest { version: found.version, exists, value })
    };
    let found = match read::get_raw(view, lookup, Version::MAX, newest)? {
        Some((Kind::Reference, newest)) if with_value => {
            let value = view.levels.values.read(&newest.value)?.into_owned();
            Some(Newest { value, ..newest })
        }
        found => found.map(|(_, newest)| newest),
    };
    Ok(found.unwrap_or(Newest { version: Version::ZERO, exists: false, value: Vec::new() }))
}

fn check_precondition(index: usize, wanted: Precondition, newest: &Newest) -> Result<()> {
    match wanted {
        Precondition::None => Ok(()),
        Precondition::Absent if newest.exists => {
            Err(Error::EntityExists { index, version: newest.version })
        }
        Precondition::Absent => Ok(()),
        Precondition::Exists | Precondition::Version(_) if !newest.exists => {
            Err(Error::EntityNotFound { index })
        }
        Precondition::Version(expected) if expected != newest.version => {
            Err(Error::VersionMismatch { index, expected, found: newest.version })
        }
        Precondition::Exists | Precondition::Version(_) => Ok(()),
    }
}
