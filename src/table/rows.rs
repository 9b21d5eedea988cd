//! [`KeyedRow`]: what a query gives one by one, to an iterator or to a stream.

use std::fmt;
use std::iter::FusedIterator;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::database::Inner;
use super::items::{ItemPage, ItemStream, Items};
use super::page::Page;
use super::query::Pages;
use crate::error::Result;
use crate::read::RowRef;
use crate::text::Shown;
use crate::version::Version;

/// One entity with its keys, owned: a [`RowRef`] to keep, or an item of [`KeyedRows`].
///
/// ```
/// use tablestone::{Database, KeyedRow, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.import(["anna", "karl", "paul"].map(|row| ("de", row, "born 1854")))?;
/// let page = table.query().limit(2).page()?;
/// let last = page.iter().next_back().map(KeyedRow::from).ok_or("there are two")?;
/// drop(page);
/// assert_eq!((&last.partition_key[..], &last.row_key[..]), (&b"de"[..], &b"karl"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedRow {
    /// Its PartitionKey.
    pub partition_key: Vec<u8>,
    /// Its RowKey.
    pub row_key: Vec<u8>,
    /// When it was last written: its Timestamp and ETag.
    pub version: Version,
    /// Its value, or what the query's projection made of it.
    pub value: Vec<u8>,
}

impl From<RowRef<'_>> for KeyedRow {
    fn from(row: RowRef<'_>) -> Self {
        Self {
            partition_key: row.partition_key.to_vec(),
            row_key: row.row_key.to_vec(),
            version: row.version,
            value: row.value.to_vec(),
        }
    }
}

impl ItemPage for Page {
    type Item = KeyedRow;

    fn item(&self, index: usize) -> Option<Result<KeyedRow>> {
        self.get(index).map(|row| Ok(row.into()))
    }
}

/// Iterator over the entities of a query with their keys; ends after the last or the first error.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.import(["anna", "karl", "paul"].map(|row| ("de", row, "born 1854")))?;
/// for row in table.query().partition("de").keyed_rows() {
///     let row = row?;
///     println!("{} at {}", row.row_key.escape_ascii(), row.version);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "pages are read as they are asked for"]
pub struct KeyedRows(Items<Pages, Page>);

impl KeyedRows {
    pub(super) fn new(pages: Pages) -> Self {
        Self(Items::new(pages))
    }
}

impl Iterator for KeyedRows {
    type Item = Result<KeyedRow>;

    fn next(&mut self) -> Option<Result<KeyedRow>> {
        self.0.next()
    }
}

impl FusedIterator for KeyedRows {}

/// Stream of the entities of a query with their keys; ends after the last or the first error. Dropping
/// it gives up the page that is being read.
///
/// ```
/// use futures_util::TryStreamExt;
/// use tablestone::{Database, Options, Result, Table};
///
/// /// How many bytes of values are in a partition: from an async function, on no runtime in particular.
/// async fn bytes(table: &Table, partition_key: &str) -> Result<usize> {
///     let rows = table.query().partition(partition_key).stream();
///     rows.try_fold(0, async |sum, row| Ok(sum + row.value.len())).await
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// # let table = database.create_table("people").wait()?;
/// # table.import(["anna", "karl", "paul"].map(|row| ("de", row, "12345")))?;
/// # assert_eq!(futures_executor::block_on(bytes(&table, "de"))?, 15);
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct KeyedRowStream(ItemStream<Pages, Page>);

impl KeyedRowStream {
    pub(super) fn new(inner: Arc<Inner>, pages: Pages) -> Self {
        Self(ItemStream::new(inner, pages))
    }
}

impl Stream for KeyedRowStream {
    type Item = Result<KeyedRow>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<KeyedRow>>> {
        self.0.poll_next(context)
    }
}

impl fmt::Debug for KeyedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRows").finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyedRowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRowStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRow")
            .field("partition_key", &Shown(&self.partition_key))
            .field("row_key", &Shown(&self.row_key))
            .field("version", &self.version)
            .field("value", &Shown(&self.value))
            .finish()
    }
}
