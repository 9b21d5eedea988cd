//! [`Table`]: one table; its writes, and through [`TableView`] its reads.

use std::fmt;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use super::batch::Batch;
use super::database::Inner;
use super::import::{ImportReport, Importer};
use super::snapshot::Snapshot;
use super::view::{TableView, cut_bounds};
use crate::commit::{
    BatchLimits, BatchWrite, Commit, Draft, Incarnation, Precondition, check_limit, delete_rows,
};
use crate::entity::EntityLimits;
use crate::error::{Error, Limit, MergeRefusal, Result};
use crate::key::{ALL_KEYS, KeyBounds};
use crate::options::{MOST_BATCH_BYTES, Options};
use crate::version::Version;

/// A table: reads through [`TableView`], whose methods it has, and writes.
///
/// Every write returns a [`Commit`] to wait for or to await. PartitionKeys and RowKeys are byte
/// strings of up to 2 KiB each, unless [`Options`] say otherwise, ordered by their bytes (for UTF-8 text
/// that is code point order); both may be empty (R-E01, R-E02). Values are opaque bytes of up to 2 MiB by default.
///
/// ```
/// use tablestone::{Database, Error, Options, Precondition};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let stock = database.create_table("stock").wait()?;
/// let first = stock.insert("chairs", "oak", "12").wait()?;
/// stock.replace("chairs", "oak", Precondition::Version(first), "11").wait()?;
/// // Somebody else read version `first` too, and comes late:
/// let late = stock.replace("chairs", "oak", Precondition::Version(first), "11").wait();
/// assert!(matches!(late, Err(Error::VersionMismatch { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Table {
    view: TableView,
}

impl Deref for Table {
    type Target = TableView;

    fn deref(&self) -> &TableView {
        &self.view
    }
}

impl Table {
    pub(super) fn new(inner: Arc<Inner>, incarnation: Arc<Incarnation>) -> Self {
        Self { view: TableView { inner, incarnation, snapshot: None } }
    }

    /// The table as a snapshot sees it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the snapshot is of another database.
    pub fn at(&self, snapshot: &Snapshot) -> Result<TableView> {
        if !snapshot.is_of(&self.view.inner) {
            return Err(Error::InvalidArgument("the snapshot is of another database".into()));
        }
        Ok(TableView { snapshot: Some(snapshot.clone()), ..self.view.clone() })
    }

    /// Does all operations of a batch or none (R-E07).
    ///
    /// The outcome is the version that every entity of the batch now has, or the error of the
    /// first operation, in order, that could not be done. That a batch is too large as a whole is told before conditions
    /// are looked at.
    pub fn commit(&self, batch: Batch) -> Commit<Version> {
        let TableView { inner, incarnation, .. } = &self.view;
        let pipeline = inner.pipeline();
        let (draft, limits) = self.with_limits(batch);
        if let Err(error) = draft.check(&limits) {
            return self.refuse_draft(draft, limits, error);
        }
        let bytes = draft.bytes();
        let write = BatchWrite::new(incarnation.id, draft, limits);
        pipeline.begin_batch(bytes, incarnation, write)
    }

    #[inline]
    fn with_limits(&self, batch: Batch) -> (Draft, BatchLimits) {
        let Options { key_bytes, value_bytes, batch_operations, batch_bytes, .. } =
            *self.view.inner.pipeline().options();
        let (draft, merged_bytes) = batch.into_draft();
        let limits = BatchLimits {
            key_bytes,
            value_bytes,
            operations: batch_operations,
            batch_bytes,
            merged_bytes: merged_bytes.clamp(batch_bytes, MOST_BATCH_BYTES),
        };
        (draft, limits)
    }

    /// The outcome of a batch of which an operation cannot be done, whatever is stored.
    #[cold]
    pub(super) fn refuse(&self, batch: Batch, error: Error) -> Commit<Version> {
        let (draft, limits) = self.with_limits(batch);
        let error = match draft.check(&limits) {
            Err(first) if first.operation().is_some_and(|at| Some(at) < error.operation()) => first,
            _ => error,
        };
        self.refuse_draft(draft, limits, error)
    }

    /// The same: the conditions of the operations before it come first.
    #[cold]
    fn refuse_draft(&self, mut draft: Draft, limits: BatchLimits, error: Error) -> Commit<Version> {
        let TableView { inner, incarnation, .. } = &self.view;
        let pipeline = inner.pipeline();
        if !draft.truncate(error.operation().unwrap_or(0)) {
            return Commit::refused(Arc::clone(pipeline), error);
        }
        let (table, write) =
            (Arc::clone(incarnation), BatchWrite::new(incarnation.id, draft, limits));
        pipeline.begin(0, move |pipeline| write.refuse(pipeline, &table, error))
    }

    /// What entities that are written are held against.
    pub(super) fn entity_limits(&self) -> &EntityLimits {
        &self.view.inner.pipeline().options().entity_limits
    }

    fn commit_one(
        &self,
        partition_key: impl AsRef<[u8]>,
        operation: impl FnOnce(&mut Batch),
    ) -> Commit<Version> {
        let mut batch = Batch::new(partition_key);
        operation(&mut batch);
        self.commit(batch)
    }

    /// Stores an entity that must not exist; [`Error::EntityExists`] if it does.
    pub fn insert(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Commit<Version> {
        self.commit_one(partition_key, |batch| {
            batch.insert(row_key.as_ref(), value);
        })
    }

    /// Stores an entity in place of one that must exist, or be at a version; without
    /// precondition it is [`upsert`](Self::upsert).
    pub fn replace(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        precondition: Precondition,
        value: impl AsRef<[u8]>,
    ) -> Commit<Version> {
        self.commit_one(partition_key, |batch| {
            batch.put(row_key.as_ref(), precondition, value);
        })
    }

    /// Stores an entity whether or not it exists: insert-or-replace.
    pub fn upsert(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Commit<Version> {
        self.commit_one(partition_key, |batch| {
            batch.upsert(row_key.as_ref(), value);
        })
    }

    /// Stores what `merge` makes of the present value, atomically. With [`Precondition::None`] it
    /// is insert-or-merge: `merge` gets `None` if there is no entity. See [`Batch::merge`].
    pub fn merge(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        precondition: Precondition,
        merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, MergeRefusal> + Send + 'static,
    ) -> Commit<Version> {
        self.commit_one(partition_key, |batch| {
            batch.merge(row_key.as_ref(), precondition, merge);
        })
    }

    /// Deletes an entity; with [`Precondition::None`] it need not exist.
    pub fn delete(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        precondition: Precondition,
    ) -> Commit<Version> {
        self.commit_one(partition_key, |batch| {
            batch.delete(row_key.as_ref(), precondition);
        })
    }

    /// Deletes all entities of a partition, at a cost that does not depend on their number. Where there are none
    /// nothing is written; the outcome is the newest version there is.
    pub fn delete_partition(&self, partition_key: impl AsRef<[u8]>) -> Commit<Version> {
        self.delete_bounds(partition_key.as_ref(), ALL_KEYS)
    }

    /// Deletes the entities of a partition whose RowKey is in a range, at a cost that does not
    /// depend on their number. An empty or inverted range deletes nothing, see
    /// [`delete_partition`](Self::delete_partition). With other writes of the partition, all or none:
    /// [`Batch::delete_range`].
    pub fn delete_range<K: AsRef<[u8]>>(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_keys: impl RangeBounds<K>,
    ) -> Commit<Version> {
        self.delete_bounds(partition_key.as_ref(), cut_bounds(&row_keys))
    }

    fn delete_bounds(&self, partition_key: &[u8], rows: KeyBounds) -> Commit<Version> {
        let TableView { inner, incarnation, .. } = &self.view;
        let pipeline = inner.pipeline();
        let limit = pipeline.options().key_bytes;
        if let Err(error) = check_limit(Limit::PartitionKey, partition_key.len(), limit) {
            return Commit::refused(Arc::clone(pipeline), error);
        }
        let (incarnation, partition_key) = (Arc::clone(incarnation), partition_key.to_vec());
        pipeline.begin_deletion(move |pipeline| {
            delete_rows(pipeline, &incarnation, &partition_key, &rows)
        })
    }

    /// Stores rows of any partitions unconditionally, in commits of about a mebibyte each, and
    /// waits until all are acknowledged. Rows come as (PartitionKey, RowKey, value); of equal keys
    /// the last wins.
    ///
    /// # Errors
    /// As for any write. Rows before the error may have been stored, or are about to be; each commit is whole.
    pub fn import<P, R, V>(&self, rows: impl IntoIterator<Item = (P, R, V)>) -> Result<ImportReport>
    where
        P: AsRef<[u8]>,
        R: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let TableView { inner, incarnation, .. } = &self.view;
        let mut importer = Importer::new(inner.pipeline(), incarnation);
        for (partition_key, row_key, value) in rows {
            importer.push(partition_key.as_ref(), row_key.as_ref(), value.as_ref())?;
        }
        importer.finish()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}
