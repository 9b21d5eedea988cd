//! [`Batch`]: an entity group transaction in the making.

use std::fmt;

use crate::commit::{Draft, Precondition};
use crate::error::{MergeRefusal, Result};

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
#[derive(Default)]
pub struct Batch {
    draft: Draft,
}

impl Batch {
    /// An empty batch on one partition.
    #[must_use]
    pub fn new(partition_key: impl Into<Vec<u8>>) -> Self {
        Self { draft: Draft::new(partition_key.into()) }
    }

    /// Number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.draft.len() == 0
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
    /// partition's latch, so it should be short; a refusal fails the batch.
    pub fn merge(
        &mut self,
        row_key: impl AsRef<[u8]>,
        precondition: Precondition,
        merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, MergeRefusal> + Send + 'static,
    ) -> &mut Self {
        self.draft.merge(row_key.as_ref(), precondition, Box::new(merge));
        self
    }

    /// Deletes an entity. With [`Precondition::None`] it need not exist.
    pub fn delete(&mut self, row_key: impl AsRef<[u8]>, precondition: Precondition) -> &mut Self {
        self.draft.delete(row_key.as_ref(), precondition);
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

    /// What it has so far.
    pub(super) fn into_draft(self) -> Draft {
        self.draft
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("operations", &self.len()).finish_non_exhaustive()
    }
}
