//! [`TableView`]: the reads of a table.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use arc_swap::Guard;

use super::catalog::{NAMES, TableList};
use super::database::Inner;
use super::page::Row;
use super::query::Query;
use super::snapshot::Snapshot;
use crate::activity::{Activity, Tally};
use crate::commit::Incarnation;
use crate::entry::Kind;
use crate::error::Result;
use crate::key::{self, ALL_KEYS, KeyBounds, TableId};
use crate::levels::View;
use crate::options::MOST_KEY_BYTES;
use crate::read::{self, Estimate, RowRef, ScanRange};
use crate::sst::Lookup;
use crate::version::Version;

/// The reads of a table: of its newest state through [`Table`](crate::Table), or of a snapshot's.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.insert("de", "karl", "born 1854").wait()?;
/// // Where the entity lies, without a copy.
/// let born = table.read("de", "karl", |_, value| value.ends_with(b"1854"))?;
/// assert_eq!(born, Some(true));
/// assert_eq!(table.get_many("de", &["karl", "nobody"])?.iter().flatten().count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TableView {
    pub(super) inner: Arc<Inner>,
    pub(super) incarnation: Arc<Incarnation>,
    pub(super) snapshot: Option<Snapshot>,
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
    /// [`Error::TableNotFound`](crate::Error::TableNotFound) if the table was dropped,
    /// [`Error::Corruption`](crate::Error::Corruption), [`Error::Io`](crate::Error::Io).
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
        let (partition_key, row_key) = (partition_key.as_ref(), row_key.as_ref());
        let mut value_bytes = 0;
        let found = self.look_up(partition_key, row_key, |view, lookup, at| {
            read::get(view, lookup, at, |found| {
                value_bytes = found.value.len();
                read(found.version, found.value)
            })
        })?;
        match found {
            Some(_) => self.tally().read(1, partition_key.len() + row_key.len() + value_bytes),
            None => self.tally().read(0, 0),
        }
        Ok(found)
    }

    /// Whether an entity exists. Its value is not read, if it is a large one.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn exists(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let (partition_key, row_key) = (partition_key.as_ref(), row_key.as_ref());
        let found = self.look_up(partition_key, row_key, |view, lookup, at| {
            read::get_raw(view, lookup, at, |found| found.kind != Kind::Delete)
        })?;
        let exists = found.unwrap_or(false);
        match exists {
            true => self.tally().read(1, partition_key.len() + row_key.len()),
            false => self.tally().read(0, 0),
        }
        Ok(exists)
    }

    fn look_up<T>(
        &self,
        partition_key: &[u8],
        row_key: &[u8],
        look: impl FnOnce(&View, &Lookup<'_>, Version) -> Result<T>,
    ) -> Result<T> {
        key::with_encoded(self.incarnation.id, partition_key, row_key, |key| {
            let lookup = Lookup::new(key);
            self.inner.pipeline().tree().cache().hints().prefetch(lookup.key_hash);
            let (view, at) = self.read_point()?;
            look(&view, &lookup, at)
        })
    }

    /// Many entities of one partition at one version, in the order of `row_keys`: cheaper than
    /// getting each, most of all when the RowKeys are sorted (R-E16), but for few that were read right before
    /// (DESIGN.md, 9.5).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_keys: &[K],
    ) -> Result<Vec<Option<Row>>> {
        let row_keys: Vec<&[u8]> = row_keys.iter().map(AsRef::as_ref).collect();
        let row = |_: &[u8], version, value: &[u8]| Row { version, value: value.to_vec() };
        self.read_many(partition_key.as_ref(), &row_keys, row)
    }

    /// What `read` makes of many entities of one partition, given their RowKeys, versions and
    /// values.
    pub(super) fn read_many<T>(
        &self,
        partition_key: &[u8],
        row_keys: &[&[u8]],
        read: impl Fn(&[u8], Version, &[u8]) -> T,
    ) -> Result<Vec<Option<T>>> {
        let mut made: Vec<Option<T>> = row_keys.iter().map(|_| None).collect();
        let (view, at) = self.read_point()?;
        let partition = key::encode_partition(self.incarnation.id, partition_key);
        let (mut rows, mut bytes) = (0, 0);
        read::multi_get(&view, &partition, row_keys, at, |index, found| {
            if let (Some(made), Some(row_key)) = (made.get_mut(index), row_keys.get(index)) {
                rows += 1;
                bytes += partition_key.len() + row_key.len() + found.value.len();
                *made = Some(read(row_key, found.version, found.value));
            }
        })?;
        self.tally().read(rows, bytes);
        Ok(made)
    }

    /// A query over the table's entities in key order.
    pub fn query(&self) -> Query {
        Query::new(self.clone())
    }

    /// About how many entities the table has, and how many bytes they take in files and memory
    /// (R-E23). What is overwritten or deleted counts until it is compacted.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn estimate(&self) -> Result<Estimate> {
        self.estimate_bounds(ALL_KEYS, ALL_KEYS)
    }

    /// Like [`estimate`](Self::estimate), for the partitions in a range.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn estimate_partitions<K: AsRef<[u8]>>(
        &self,
        partitions: impl RangeBounds<K>,
    ) -> Result<Estimate> {
        self.estimate_bounds(owned_bounds(&partitions), ALL_KEYS)
    }

    /// Like [`estimate`](Self::estimate), for the rows of one partition in a range.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn estimate_rows<K: AsRef<[u8]>>(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_keys: impl RangeBounds<K>,
    ) -> Result<Estimate> {
        let partition = Bound::Included(partition_key.as_ref().to_vec());
        self.estimate_bounds((partition.clone(), partition), owned_bounds(&row_keys))
    }

    fn estimate_bounds(&self, partition: KeyBounds, row: KeyBounds) -> Result<Estimate> {
        let (view, _) = self.read_point()?;
        match ScanRange::new(partition, row).span(self.incarnation.id) {
            Some(span) => read::estimate(&view, &span.low, &span.high),
            None => Ok(Estimate::default()),
        }
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

    /// What was read and written through all handles on the table (R-E23).
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.incarnation.tally.sum()
    }

    #[inline]
    pub(super) fn tally(&self) -> &Tally {
        &self.incarnation.tally
    }

    /// What to read and the version to read it at.
    pub(super) fn read_point(&self) -> Result<(Guard<Arc<View>>, Version)> {
        let (view, newest) = self.inner.pipeline().tree().read_point();
        let at = self.snapshot.as_ref().map_or(newest, Snapshot::version);
        Ok((view, self.incarnation.read_at(at)?))
    }

    /// The version of the database that a read at `at` shows: a snapshot may be older than the table.
    pub(super) fn database_version(&self, at: Version) -> Version {
        self.snapshot.as_ref().map_or(at, Snapshot::version)
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(super) fn id(&self) -> TableId {
        self.incarnation.id
    }
}

pub(super) fn owned_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyBounds {
    let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (owned(range.start_bound()), owned(range.end_bound()))
}

/// The same, but a bound that is longer than any key is cut to where it still lies between the same keys.
pub(super) fn cut_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyBounds {
    let cut = |bound: Bound<&K>| {
        bound.map(|key| key.as_ref().get(..=MOST_KEY_BYTES).unwrap_or(key.as_ref()).to_vec())
    };
    (cut(range.start_bound()), cut(range.end_bound()))
}

/// The catalog, which is a table as any other.
pub(super) fn catalog(inner: &Arc<Inner>) -> TableView {
    by_id(inner, TableId::CATALOG, "the catalog")
}

/// A table by its id alone.
pub(super) fn by_id(inner: &Arc<Inner>, id: TableId, name: &str) -> TableView {
    TableView {
        inner: Arc::clone(inner),
        incarnation: Incarnation::new(id, name, Version::ZERO, Arc::default()),
        snapshot: None,
    }
}

/// Names in the catalog.
pub(super) fn list_names(
    catalog: &TableView,
    from: Option<&str>,
    limit: usize,
) -> Result<TableList> {
    let limit = limit.max(1);
    // The first RowKey is "", which holds the next id and is no name.
    let from = from.filter(|name| !name.is_empty()).unwrap_or("\0");
    let mut list = TableList::default();
    let mut pages = catalog.query().partition(NAMES).rows(from..).pages();
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

impl fmt::Debug for TableView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableView")
            .field("name", &self.name())
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}
