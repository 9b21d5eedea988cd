//! [`Table`] and [`TableView`]: the operations on the entities of one table.

use std::fmt;
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::Arc;

use arc_swap::Guard;

use super::batch::Batch;
use super::catalog::TableList;
use super::database::Inner;
use super::import::{ImportReport, Importer};
use super::page::Row;
use super::query::Query;
use super::snapshot::Snapshot;
use crate::commit::{
    BatchWrite, Commit, Incarnation, MergeRefusal, Precondition, check_limit, delete_rows,
};
use crate::error::{Error, Limit, Result};
use crate::key::{self, TableId};
use crate::levels::View;
use crate::read::{self, Estimate, RowRef};
use crate::sst::Lookup;
use crate::version::Version;

/// A table: reads through [`TableView`], whose methods it has, and writes.
///
/// Every write returns a [`Commit`] to wait for or to await. PartitionKeys and RowKeys are byte
/// strings of up to 2 KiB each, ordered by their bytes (for UTF-8 text that is code point order);
/// both may be empty (R-E01, R-E02). Values are opaque bytes of up to 1 MiB.
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

/// The reads of a table: of its newest state through [`Table`], or of a snapshot's.
#[derive(Clone)]
pub struct TableView {
    inner: Arc<Inner>,
    incarnation: Arc<Incarnation>,
    snapshot: Option<Snapshot>,
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
    /// first operation, in order, that could not be done.
    pub fn commit(&self, batch: Batch) -> Commit<Version> {
        let TableView { inner, incarnation, .. } = &self.view;
        let pipeline = inner.pipeline();
        let (partition_key, operations, bytes) = match batch.checked(pipeline.options()) {
            Ok(checked) => checked,
            Err(error) => return Commit::refused(Arc::clone(pipeline), error),
        };
        let value_limit = pipeline.options().value_bytes;
        let write =
            BatchWrite::new(Arc::clone(incarnation), &partition_key, operations, value_limit);
        pipeline.begin(bytes, move |pipeline| write.run(pipeline))
    }

    fn commit_one(
        &self,
        partition_key: impl AsRef<[u8]>,
        operation: impl FnOnce(&mut Batch),
    ) -> Commit<Version> {
        let mut batch = Batch::new(partition_key.as_ref());
        operation(&mut batch);
        self.commit(batch)
    }

    /// Stores an entity that must not exist; [`Error::EntityExists`] if it does.
    pub fn insert(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        value: impl Into<Vec<u8>>,
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
        value: impl Into<Vec<u8>>,
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
        value: impl Into<Vec<u8>>,
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

    /// Deletes all entities of a partition, at a cost that does not depend on their number.
    pub fn delete_partition(&self, partition_key: impl AsRef<[u8]>) -> Commit<Version> {
        self.delete_bounds(partition_key.as_ref(), (Bound::Unbounded, Bound::Unbounded))
    }

    /// Deletes the entities of a partition whose RowKey is in a range, at a cost that does not
    /// depend on their number. An empty or inverted range deletes nothing.
    pub fn delete_range<K: AsRef<[u8]>>(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_keys: impl RangeBounds<K>,
    ) -> Commit<Version> {
        self.delete_bounds(partition_key.as_ref(), owned_bounds(&row_keys))
    }

    fn delete_bounds(&self, partition_key: &[u8], rows: Bounds) -> Commit<Version> {
        let TableView { inner, incarnation, .. } = &self.view;
        let pipeline = inner.pipeline();
        let limit = pipeline.options().key_bytes;
        if let Err(error) = check_limit(Limit::PartitionKey, partition_key.len(), limit) {
            return Commit::refused(Arc::clone(pipeline), error);
        }
        let (incarnation, partition_key) = (Arc::clone(incarnation), partition_key.to_vec());
        pipeline.begin(partition_key.len(), move |pipeline| {
            delete_rows(pipeline, &incarnation, &partition_key, &rows)
        })
    }

    /// Stores rows of any partitions unconditionally, in commits of about a mebibyte each, and
    /// waits until all are acknowledged. Rows come as (PartitionKey, RowKey, value); of equal keys
    /// the last wins.
    ///
    /// # Errors
    /// As for any write. Rows before the error may have been stored; each commit is whole.
    pub fn import<P, R, V>(&self, rows: impl IntoIterator<Item = (P, R, V)>) -> Result<ImportReport>
    where
        P: Into<Vec<u8>>,
        R: Into<Vec<u8>>,
        V: Into<Vec<u8>>,
    {
        let TableView { inner, incarnation, .. } = &self.view;
        let mut importer = Importer::new(inner.pipeline(), incarnation);
        for (partition_key, row_key, value) in rows {
            importer.push(partition_key.into(), row_key.into(), value.into())?;
        }
        importer.finish()
    }
}

impl TableView {
    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.incarnation.name
    }

    /// One entity, or `None` if there is none.
    ///
    /// # Errors
    /// [`Error::TableNotFound`] if the table was dropped, [`Error::Corruption`], [`Error::Io`].
    pub fn get(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
    ) -> Result<Option<Row>> {
        self.read(partition_key, row_key, |version, value| Row { version, value: value.to_vec() })
    }

    /// What `read` makes of one entity's version and value, without copying the value; `None` if
    /// there is no entity.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn read<T>(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        read: impl FnOnce(Version, &[u8]) -> T,
    ) -> Result<Option<T>> {
        let key = key::encode(self.incarnation.id, partition_key.as_ref(), row_key.as_ref());
        let (view, at) = self.read_point()?;
        read::get(&view, &Lookup::new(&key), at, |found| read(found.version, found.value))
    }

    /// Whether an entity exists.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn exists(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
    ) -> Result<bool> {
        Ok(self.read(partition_key, row_key, |_, _| ())?.is_some())
    }

    /// Many entities of one partition at one version, in the order of `row_keys`: cheaper than
    /// getting each, most of all when the RowKeys are sorted (R-E16).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_keys: &[K],
    ) -> Result<Vec<Option<Row>>> {
        let mut rows = vec![None; row_keys.len()];
        let row_keys: Vec<&[u8]> = row_keys.iter().map(AsRef::as_ref).collect();
        let (view, at) = self.read_point()?;
        let partition = key::encode_partition(self.incarnation.id, partition_key.as_ref());
        read::multi_get(&view, &partition, &row_keys, at, |index, found| {
            if let Some(row) = rows.get_mut(index) {
                *row = Some(Row { version: found.version, value: found.value.to_vec() });
            }
        })?;
        Ok(rows)
    }

    /// A query over the table's entities in key order.
    pub fn query(&self) -> Query {
        Query::new(self.clone())
    }

    /// About how many entities the partitions in a range have, and how many bytes they take in
    /// files and memory (R-E23); `..` as the range, with any key type, means the whole table.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn estimate<K: AsRef<[u8]>>(&self, partitions: impl RangeBounds<K>) -> Result<Estimate> {
        let (view, _) = self.read_point()?;
        let id = self.incarnation.id;
        let (start, end) = encoded_partitions(id, &partitions);
        read::estimate(&view, &start, &end)
    }

    /// Up to `parts - 1` PartitionKeys that split the table into parts of about equal size
    /// (R-E23); each begins a part. Fewer if there are fewer partitions.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn split_points(&self, parts: usize) -> Result<Vec<Vec<u8>>> {
        let (view, _) = self.read_point()?;
        read::split_points(&view, self.incarnation.id, parts)
    }

    /// What to read and the version to read it at.
    pub(super) fn read_point(&self) -> Result<(Guard<Arc<View>>, Version)> {
        let (view, newest) = self.inner.pipeline().tree().read_point();
        let at = self.snapshot.as_ref().map_or(newest, Snapshot::version);
        self.incarnation.check_at(at)?;
        Ok((view, at))
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(super) fn id(&self) -> TableId {
        self.incarnation.id
    }
}

/// Bounds on keys, owned.
pub(super) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

pub(super) fn owned_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Bounds {
    let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (owned(range.start_bound()), owned(range.end_bound()))
}

/// The encoded keys [start, end) of a range of partitions.
fn encoded_partitions<K: AsRef<[u8]>>(
    id: TableId,
    partitions: &impl RangeBounds<K>,
) -> (Vec<u8>, Vec<u8>) {
    let mut table = Vec::new();
    key::push_table(&mut table, id);
    let first = |key: &K| key::encode_partition(id, key.as_ref());
    let after = |key: &K| key::prefix_end(&first(key));
    let start = match partitions.start_bound() {
        Bound::Included(key) => first(key),
        Bound::Excluded(key) => after(key),
        Bound::Unbounded => table.clone(),
    };
    let end = match partitions.end_bound() {
        Bound::Included(key) => after(key),
        Bound::Excluded(key) => first(key),
        Bound::Unbounded => key::prefix_end(&table),
    };
    (start, end)
}

/// Names in the catalog, which is a table as any other.
pub(super) fn list_names(
    inner: &Arc<Inner>,
    from: Option<&str>,
    limit: usize,
) -> Result<TableList> {
    let view = TableView {
        inner: Arc::clone(inner),
        incarnation: Incarnation::new(TableId::CATALOG, "the catalog"),
        snapshot: None,
    };
    // The first RowKey is "", which holds the next id and is no name.
    let from = from.filter(|name| !name.is_empty()).unwrap_or("\0");
    let mut list = TableList::default();
    let mut pages = view.query().partition("").rows(from..).pages();
    while list.next.is_none() {
        let Some(page) = pages.next().transpose()? else {
            break;
        };
        for name in page.iter().map(|row: RowRef<'_>| row.row_key) {
            let name = String::from_utf8_lossy(name).into_owned();
            if list.names.len() == limit {
                list.next = Some(name);
                break;
            }
            list.names.push(name);
        }
    }
    Ok(list)
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TableView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableView")
            .field("name", &self.name())
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}
