//! Conditional batches: the one form of write (R-E05, R-E07).
//!
//! Invariant: conditions are checked and operations applied under the partition's latch, in
//! order, against the newest state; the first that fails makes the whole batch fail unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check_limit;
use super::handle::Applied;
use super::payload::Payload;
use super::pipeline::{Pipeline, Prepared};
use crate::entry::{Found, Kind};
use crate::error::{Error, Limit, MergeRefusal, Result};
use crate::key::{self, TableId};
use crate::levels::View;
use crate::memtable::Memtable;
use crate::read;
use crate::sst::Lookup;
use crate::version::Version;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
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

/// Makes the new value of an entity from the stored one, if there is one.
pub(crate) type MergeFn = Box<dyn FnOnce(Option<&[u8]>) -> Result<Vec<u8>, MergeRefusal> + Send>;

/// What one operation does.
pub(crate) enum Action {
    Put(Vec<u8>),
    Merge(MergeFn),
    Delete,
}

/// One operation of a batch.
pub(crate) struct Operation {
    pub(crate) row_key: Vec<u8>,
    pub(crate) precondition: Precondition,
    pub(crate) action: Action,
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
}

impl Incarnation {
    pub(crate) fn new(id: TableId, name: &str, named_at: Version) -> Arc<Self> {
        let dropped_at = AtomicU64::new(u64::MAX);
        Arc::new(Self { id, name: name.into(), named_at, dropped_at })
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

/// A batch with its payload, built outside the latch where no merge is in it.
pub(crate) struct BatchWrite {
    incarnation: Arc<Incarnation>,
    prefix: Vec<u8>,
    operations: Vec<Operation>,
    partition_key_bytes: usize,
    limits: BatchLimits,
    prepared: Option<Prepared>,
}

/// What merges may grow to; of everything else the size was checked before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    pub(crate) value_bytes: usize,
    pub(crate) batch_bytes: usize,
}

/// Bytes of keys and values of a batch, as its limit counts them.
pub(crate) fn batch_bytes(partition_key_bytes: usize, operations: &[Operation]) -> usize {
    let bytes = |op: &Operation| partition_key_bytes + op.row_key.len() + op.value_len();
    operations.iter().map(bytes).sum()
}

impl BatchWrite {
    /// A batch on one partition. Limits and duplicates were checked.
    pub(crate) fn new(
        incarnation: Arc<Incarnation>,
        partition_key: &[u8],
        operations: Vec<Operation>,
        limits: BatchLimits,
    ) -> Self {
        let prefix = key::encode_partition(incarnation.id, partition_key);
        let partition_key_bytes = partition_key.len();
        let mut batch =
            Self { incarnation, prefix, operations, partition_key_bytes, limits, prepared: None };
        if !batch.operations.iter().any(|op| matches!(op.action, Action::Merge(_))) {
            batch.prepared = Some(Prepared::new(batch.payload()));
        }
        batch
    }

    /// The payload of puts and deletes; merges have become puts by now.
    fn payload(&self) -> Payload {
        let size = |op: &Operation| op.row_key.len() + op.value_len() + 16;
        let bytes = self.operations.iter().map(size).sum::<usize>() + self.prefix.len() + 16;
        let mut payload = Payload::with_capacity(bytes);
        payload.rows(&self.prefix, self.operations.len());
        for operation in &self.operations {
            match &operation.action {
                Action::Put(value) => payload.put(&operation.row_key, value),
                Action::Delete | Action::Merge(_) => payload.delete(&operation.row_key),
            }
        }
        payload
    }

    /// Checks and applies the batch; gives its one version.
    pub(crate) fn run(mut self, pipeline: &Pipeline) -> Applied<Version> {
        if self.operations.len() > 1 {
            self.prefetch(&pipeline.tree().active_memtable());
        }
        let _latch = pipeline.latches().lock(key::hash(&self.prefix));
        if let Some(refused) = self.incarnation.refuse_if_dropped() {
            return refused;
        }
        if let Err(failed) = self.check(&pipeline.tree().view()) {
            return failed;
        }
        let prepared = self.prepared.take().unwrap_or_else(|| Prepared::new(self.payload()));
        let version = pipeline.submit(&prepared);
        Applied::done(version, version)
    }

    /// Has brought near what the memtable reads first for each key: so the batch waits for memory about
    /// once, not once for each operation.
    fn prefetch(&self, memtable: &Memtable) {
        let mut key = self.prefix.clone();
        for operation in &self.operations {
            key.truncate(self.prefix.len());
            key::push_component(&mut key, &operation.row_key);
            memtable.prefetch(key::hash(&key));
        }
    }

    /// Checks every condition and turns merges into puts.
    fn check(&mut self, view: &View) -> Result<(), Applied<Version>> {
        let mut key = self.prefix.clone();
        for (index, operation) in self.operations.iter_mut().enumerate() {
            let merges = matches!(operation.action, Action::Merge(_));
            if operation.precondition == Precondition::None && !merges {
                continue;
            }
            key.truncate(self.prefix.len());
            key::push_component(&mut key, &operation.row_key);
            let newest = read_newest(view, &key, merges)
                .map_err(|error| Applied::failed(Version::ZERO, error))?;
            check_precondition(index, operation.precondition, &newest)
                .and_then(|()| operation.resolve_merge(index, &newest, self.limits.value_bytes))
                .map_err(|error| Applied::failed(newest.version, error))?;
        }
        let bytes = batch_bytes(self.partition_key_bytes, &self.operations);
        check_limit(Limit::BatchBytes, bytes, self.limits.batch_bytes)
            .map_err(|error| Applied::failed(Version::ZERO, error))
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

fn read_newest(view: &View, key: &[u8], with_value: bool) -> Result<Newest> {
    let newest = |found: Found<'_>| {
        let value = if with_value { found.value.to_vec() } else { Vec::new() };
        let exists = found.kind != Kind::Delete;
        (found.kind, Newest { version: found.version, exists, value })
    };
    let found = match read::get_raw(view, &Lookup::new(key), Version::MAX, newest)? {
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

impl Operation {
    /// Bytes of the value, as far as it is known before a merge has run.
    pub(crate) fn value_len(&self) -> usize {
        match &self.action {
            Action::Put(value) => value.len(),
            Action::Merge(_) | Action::Delete => 0,
        }
    }

    fn resolve_merge(&mut self, index: usize, newest: &Newest, value_limit: usize) -> Result<()> {
        match std::mem::replace(&mut self.action, Action::Delete) {
            Action::Merge(merge) => {
                let old = newest.exists.then_some(&*newest.value);
                let value = merge(old).map_err(|source| Error::refused(index, source))?;
                check_limit(Limit::Value, value.len(), value_limit)?;
                self.action = Action::Put(value);
            }
            other => self.action = other,
        }
        Ok(())
    }
}
