//! [`EntityBatch`]: an entity group transaction of typed entities in the making.
//!
//! Invariant: entities are checked and encoded when they are added; the first that breaks a rule
//! fails the whole batch when it is committed.

use std::fmt;

use super::view::not_an_entity;
use crate::commit::Precondition;
use crate::entity::codec::{Encoder, MergeError, Patch};
use crate::entity::{Entity, EntityError, ValueRef};
use crate::error::{Error, MergeRefusal, Result};
use crate::table::batch::Batch;

/// Operations on entities of one partition that are done all or none (R-E07), with typed
/// properties: a [`Batch`] of entities.
///
/// Rules of the data model and limits are checked by the time the batch is committed with
/// [`EntityTable::commit`](crate::EntityTable::commit); the error names the operation.
///
/// ```
/// use tablestone::{Entity, EntityBatch, Precondition};
/// let mut batch = EntityBatch::new("customer-17");
/// batch
///     .insert(&Entity::new("customer-17", "order-1").with("Item", "chair").with("Count", 2))
///     .delete("draft-1", Precondition::Exists);
/// assert_eq!(batch.len(), 2);
/// ```
pub struct EntityBatch {
    partition_key: String,
    operations: Vec<(String, Precondition, Action)>,
    /// The first entity that broke a rule.
    broken: Option<(usize, EntityError)>,
    encoder: Encoder,
}

enum Action {
    Put(Vec<u8>),
    Merge(Patch),
    Delete,
}

impl EntityBatch {
    /// An empty batch on one partition.
    #[must_use]
    pub fn new(partition_key: impl Into<String>) -> Self {
        Self {
            partition_key: partition_key.into(),
            operations: Vec::new(),
            broken: None,
            encoder: Encoder::default(),
        }
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

    /// Stores an entity that must not exist.
    pub fn insert(&mut self, entity: &Entity) -> &mut Self {
        self.put(entity, Precondition::Absent)
    }

    /// Stores an entity whether or not it exists.
    pub fn insert_or_replace(&mut self, entity: &Entity) -> &mut Self {
        self.put(entity, Precondition::None)
    }

    /// Sets an entity's properties and keeps its others; stores it if it does not exist.
    pub fn insert_or_merge(&mut self, entity: &Entity) -> &mut Self {
        self.merge(entity, Precondition::None)
    }

    /// Stores an entity in place of what is there: properties that it does not have are dropped
    /// (R-D09).
    pub fn put(&mut self, entity: &Entity, precondition: Precondition) -> &mut Self {
        let row = self.encoder.encode(entity);
        let action = self.check_partition(entity).and(row.map(Action::Put));
        self.push(entity.row_key(), precondition, action)
    }

    /// Like [`put`](Self::put), for an entity of the batch's partition that need not be made: its
    /// properties are taken from wherever they are. Two of one name are an error, as is one called
    /// `Timestamp`.
    ///
    /// ```
    /// use tablestone::{Database, EntityBatch, Options, Precondition, ValueRef};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// # let orders = database.create_table("orders").wait()?.entities();
    /// let line = "order-1,chair,2";
    /// let fields: Vec<_> = line.split(',').map(ValueRef::String).collect();
    /// let properties = ["Item", "Count"].into_iter().zip(fields.iter().skip(1).copied());
    /// let mut batch = EntityBatch::new("customer-17");
    /// batch.put_properties("order-1", properties, Precondition::Absent);
    /// orders.commit(batch).wait()?;
    /// let stored = orders.get("customer-17", "order-1")?.ok_or("it was stored")?;
    /// assert_eq!(stored.get_as("Item"), Some("chair"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_properties<'p>(
        &mut self,
        row_key: &str,
        properties: impl ExactSizeIterator<Item = (&'p str, ValueRef<'p>)> + Clone,
        precondition: Precondition,
    ) -> &mut Self {
        let row = self.encoder.encode_properties(&self.partition_key, row_key, properties);
        self.push(row_key, precondition, row.map(Action::Put))
    }

    /// Sets an entity's properties, also to another type, and keeps its others (R-D09).
    pub fn merge(&mut self, entity: &Entity, precondition: Precondition) -> &mut Self {
        let action = self.check_partition(entity).and(Patch::new(entity).map(Action::Merge));
        self.push(entity.row_key(), precondition, action)
    }

    /// Deletes an entity. With [`Precondition::None`] it need not exist.
    pub fn delete(&mut self, row_key: impl Into<String>, precondition: Precondition) -> &mut Self {
        self.operations.push((row_key.into(), precondition, Action::Delete));
        self
    }

    fn push(
        &mut self,
        row_key: &str,
        precondition: Precondition,
        action: Result<Action, EntityError>,
    ) -> &mut Self {
        let action = action.unwrap_or_else(|error| {
            self.broken.get_or_insert((self.operations.len(), error));
            Action::Delete
        });
        self.operations.push((row_key.to_owned(), precondition, action));
        self
    }

    fn check_partition(&self, entity: &Entity) -> Result<(), EntityError> {
        if entity.partition_key() == self.partition_key {
            return Ok(());
        }
        Err(EntityError::OtherPartition {
            expected: self.partition_key.as_str().into(),
            found: entity.partition_key().into(),
        })
    }

    /// The batch of bytes, for a table of that name.
    pub(super) fn encoded(self, table: &str) -> Result<Batch> {
        let Self { partition_key, operations, broken, .. } = self;
        if let Some((index, source)) = broken {
            return Err(Error::Entity { index, source: Box::new(source) });
        }
        let mut batch = Batch::new(partition_key.as_str());
        for (row_key, precondition, action) in operations {
            match action {
                Action::Put(row) => batch.put(row_key, precondition, row),
                Action::Delete => batch.delete(row_key, precondition),
                Action::Merge(patch) => {
                    let keys = (table.to_owned(), partition_key.clone(), row_key.clone());
                    batch.merge(row_key, precondition, move |stored| {
                        patch.apply(stored).map_err(|error| refusal(error, &keys))
                    })
                }
            };
        }
        Ok(batch)
    }
}

fn refusal(error: MergeError, (table, partition, row): &(String, String, String)) -> MergeRefusal {
    match error {
        MergeError::Entity(error) => error.into(),
        MergeError::Row(error) => {
            not_an_entity(table, partition.as_bytes(), row.as_bytes(), error).into()
        }
    }
}

impl fmt::Debug for EntityBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityBatch")
            .field("partition_key", &self.partition_key)
            .field("operations", &self.len())
            .finish_non_exhaustive()
    }
}
