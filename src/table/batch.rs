//! [`Batch`]: an entity group transaction in the making.

use std::collections::HashMap;
use std::fmt;

use crate::commit::{Action, Operation, Precondition, batch_bytes, check_limit};
use crate::error::{Error, Limit, MergeRefusal, Result};
use crate::options::Options;

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
    partition_key: Vec<u8>,
    operations: Vec<Operation>,
}

impl Batch {
    /// An empty batch on one partition.
    #[must_use]
    pub fn new(partition_key: impl Into<Vec<u8>>) -> Self {
        Self { partition_key: partition_key.into(), operations: Vec::new() }
    }

    /// Number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Stores an entity that must not exist: [`put`](Self::put) with [`Precondition::Absent`].
    pub fn insert(&mut self, row_key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Self {
        self.put(row_key, Precondition::Absent, value)
    }

    /// Stores an entity whether or not it exists: insert-or-replace.
    pub fn upsert(&mut self, row_key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Self {
        self.put(row_key, Precondition::None, value)
    }

    /// Stores an entity in place of what is there.
    pub fn put(
        &mut self,
        row_key: impl Into<Vec<u8>>,
        precondition: Precondition,
        value: impl Into<Vec<u8>>,
    ) -> &mut Self {
        self.push(row_key.into(), precondition, Action::Put(value.into()))
    }

    /// Stores what `merge` makes of the value that is there, or of `None` if there is no entity
    /// (which [`Precondition::None`] and [`Precondition::Absent`] allow). It runs under the
    /// partition's latch, so it should be short; a refusal fails the batch.
    pub fn merge(
        &mut self,
        row_key: impl Into<Vec<u8>>,
        precondition: Precondition,
        merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, MergeRefusal> + Send + 'static,
    ) -> &mut Self {
        self.push(row_key.into(), precondition, Action::Merge(Box::new(merge)))
    }

    /// Deletes an entity. With [`Precondition::None`] it need not exist.
    pub fn delete(&mut self, row_key: impl Into<Vec<u8>>, precondition: Precondition) -> &mut Self {
        self.push(row_key.into(), precondition, Action::Delete)
    }

    fn push(&mut self, row_key: Vec<u8>, precondition: Precondition, action: Action) -> &mut Self {
        self.operations.push(Operation { row_key, precondition, action });
        self
    }

    /// The partition and operations, if they keep the limits; and their size in bytes.
    pub(super) fn checked(self, options: &Options) -> Result<(Vec<u8>, Vec<Operation>, usize)> {
        let Self { partition_key, operations } = self;
        check_limit(Limit::PartitionKey, partition_key.len(), options.key_bytes)?;
        check_limit(Limit::BatchOperations, operations.len(), options.batch_operations)?;
        for operation in &operations {
            check_limit(Limit::RowKey, operation.row_key.len(), options.key_bytes)?;
            check_limit(Limit::Value, operation.value_len(), options.value_bytes)?;
        }
        let bytes = batch_bytes(partition_key.len(), &operations);
        check_limit(Limit::BatchBytes, bytes, options.batch_bytes)?;
        refuse_duplicates(&operations)?;
        Ok((partition_key, operations, bytes))
    }
}

fn refuse_duplicates(operations: &[Operation]) -> Result<()> {
    // Many come in order.
    if operations.is_sorted_by(|a, b| a.row_key < b.row_key) {
        return Ok(());
    }
    let mut first_at = HashMap::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        if let Some(first) = first_at.insert(&operation.row_key, index) {
            return Err(Error::DuplicateRowKey { index, first });
        }
    }
    Ok(())
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("operations", &self.len()).finish_non_exhaustive()
    }
}
