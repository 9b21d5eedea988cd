//! [`Batch`]: an entity group transaction in the making.

use std::fmt;
use std::ops::RangeBounds;

use super::view::cut_bounds;
use crate::commit::{Draft, Precondition};
use crate::error::{MergeRefusal, Result};
use crate::key::SHORT_PREFIX_BYTES;

/// Operations on entities of one partition that are done all or none (R-E07).
///
/// Up to 100 operations and 4 MiB by default, each RowKey at most once. Limits are checked when
/// the batch is committed with [`Table::commit`](crate::Table::commit).
///
/// ```
/// use tablestone::{Batch, Precondition};
/// let mut batch = Batch::new("customer-17");
/// batch.insert("order-1", "two chairs").delete("draft-1", Precondition::Exists);
/// assert_eq!(batch.len(), 2);
/// ```
///
/// A commit takes the batch, which cannot be cloned, as its [merges](Self::merge) cannot. Who may have to commit the
/// same again has a function that makes it:
///
/// ```
/// # use tablestone::{Batch, Database, Options};
/// # fn main() -> Result<(), tablestone::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let database = Database::open(dir.path(), Options::default())?;
/// # let orders = database.create_table("orders").wait()?;
/// let order = || {
///     let mut batch = Batch::new("customer-17");
///     batch.insert("order-1", "two chairs").insert("order-2", "a table");
///     batch
/// };
/// let version = loop {
///     match orders.commit(order()).wait() {
///         // It has waited for `Options::busy_timeout` already.
///         Err(error) if error.is_busy() => println!("once more: {error}"),
///         outcome => break outcome?,
///     }
/// };
/// # assert_eq!(orders.query().page()?.version(), version);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Batch {
    draft: Draft,
    merged_bytes: usize,
}

impl Batch {
    /// An empty batch on one partition.
    #[must_use]
    pub fn new(partition_key: impl AsRef<[u8]>) -> Self {
        let partition_key = partition_key.as_ref();
        // With room for what is put around it.
        let mut copy = Vec::with_capacity(partition_key.len() + SHORT_PREFIX_BYTES);
        copy.extend_from_slice(partition_key);
        Self { draft: Draft::new(copy), merged_bytes: 0 }
    }

    /// Number of operations on entities; [ranges](Self::delete_range) are none.
    #[must_use]
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// Whether there are no operations, nor ranges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.draft.len() == 0 && self.draft.ranges() == 0
    }

    /// Stores an entity that must not exist: [`put`](Self::put) with [`Precondition::Absent`].
    pub fn insert(&mut self, row_key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.put(row_key, Precondition::Absent, value)
    }

    /// Stores an entity whether or not it exists: insert-or-replace.
    pub fn upsert(&mut self, row_key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.put(row_key, Precondition::None, value)
    }

    /// Stores an entity in place of what is there.
    pub fn put(
        &mut self,
        row_key: impl AsRef<[u8]>,
        precondition: Precondition,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.draft.put(row_key.as_ref(), precondition, [value.as_ref(), &[]]);
        self
    }

    /// Stores what `merge` makes of the value that is there, or of `None` if there is no entity
    /// (which [`Precondition::None`] and [`Precondition::Absent`] allow). It runs under the
    /// partition's latch, for which others wait that write there, and all writers while a table is dropped, so it
    /// should be short; a refusal fails the batch. It may read, but a write to this
    /// database, which would wait for the latch, is [`Error::InvalidArgument`](crate::Error::InvalidArgument); it
    /// must not wait for a write of another thread either. Merges of a batch run in any order, and one may run
    /// though the batch fails for another operation.
    pub fn merge(
        &mut self,
        row_key: impl AsRef<[u8]>,
        precondition: Precondition,
        merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, MergeRefusal> + Send + 'static,
    ) -> &mut Self {
        self.draft.merge(row_key.as_ref(), precondition, Box::new(merge));
        self
    }

    /// Raises the limit on the batch's bytes of keys and values that holds once its merges have run, 1 GiB at
    /// most; before they run it is [`Options::batch_bytes`](crate::Options), and less than that it never is. A
    /// merge of some bytes may store an entity of a mebibyte: all that is stored is in memory, twice, until it
    /// is written. [`Error::LimitExceeded`](crate::Error::LimitExceeded) says what would have been needed.
    ///
    /// ```
    /// # fn main() -> Result<(), tablestone::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use tablestone::{Batch, Database, Error, Options, Precondition};
    /// let database = Database::open(dir.path(), Options::default().batch_bytes(1000))?;
    /// let table = database.create_table_if_missing("t").wait()?;
    /// let batch = |merged| {
    ///     let mut batch = Batch::new("p");
    ///     batch.merged_bytes(merged).merge("r", Precondition::None, |_| Ok(vec![7; 5000]));
    ///     batch
    /// };
    /// let refused = table.commit(batch(0)).wait();
    /// let Err(Error::LimitExceeded { size, limit: 1000, .. }) = refused else { panic!() };
    /// table.commit(batch(size as usize)).wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn merged_bytes(&mut self, bytes: usize) -> &mut Self {
        self.merged_bytes = bytes;
        self
    }

    /// Deletes an entity. With [`Precondition::None`] it need not exist.
    pub fn delete(&mut self, row_key: impl AsRef<[u8]>, precondition: Precondition) -> &mut Self {
        self.draft.delete(row_key.as_ref(), precondition);
        self
    }

    /// Deletes the entities of the partition whose RowKey is in a range, as they were before the batch, at a cost that
    /// does not depend on their number: what the batch itself stores in the range stays, whether it was added before
    /// or after. Conditions and merges see what was there before, as they always do. A range may name a RowKey
    /// that an operation names too. It counts for [`Options::batch_operations`](crate::Options::batch_operations),
    /// but has no position among the operations that errors name.
    ///
    /// ```
    /// use tablestone::{Batch, Database, Options, Precondition};
    ///
    /// # fn main() -> Result<(), tablestone::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let log = database.create_table("log").wait()?;
    /// for entry in ["0001", "0002", "0003"] {
    ///     log.insert("node-1", entry, "of term 1").wait()?;
    /// }
    /// // What a new leader sends takes the place of all that follows the first entry.
    /// let mut batch = Batch::new("node-1");
    /// batch.delete_range("0002"..).upsert("0002", "of term 2");
    /// log.commit(batch).wait()?;
    /// let page = log.query().page()?;
    /// let left: Vec<_> = page.iter().map(|row| (row.row_key, row.value)).collect();
    /// assert_eq!(left, [(&b"0001"[..], &b"of term 1"[..]), (b"0002", b"of term 2")]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, row_keys: impl RangeBounds<K>) -> &mut Self {
        self.draft.delete_range(cut_bounds(&row_keys));
        self
    }

    /// As [`put`](Self::put), with a value in two parts.
    pub(super) fn put_parts(
        &mut self,
        row_key: &str,
        precondition: Precondition,
        value: [&[u8]; 2],
    ) {
        self.draft.put(row_key.as_bytes(), precondition, value);
    }

    /// What is put: the operation's index, the RowKey and the value.
    pub(super) fn puts(&self) -> impl Iterator<Item = (usize, Vec<u8>, &[u8])> {
        self.draft.puts()
    }

    /// What it has so far, and what merges may make of it.
    pub(super) fn into_draft(self) -> (Draft, usize) {
        (self.draft, self.merged_bytes)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("operations", &self.len()).finish_non_exhaustive()
    }
}
