//! [`EntityBatch`]: an entity group transaction of typed entities in the making.
//!
//! Invariant: entities are checked and encoded when they are added; the first that breaks a rule
//! fails the whole batch when it is committed.

use std::fmt;
use std::sync::{Arc, OnceLock};

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
    /// Has a deletion for what broke a rule.
    batch: Batch,
    /// The first entity that broke a rule.
    broken: Option<(usize, EntityError)>,
    encoder: Encoder,
    /// If there are merges, for their errors: the table, once it is known.
    table: Option<Arc<OnceLock<Box<str>>>>,
}

impl EntityBatch {
    /// An empty batch on one partition.
    #[must_use]
    pub fn new(partition_key: impl Into<String>) -> Self {
        let partition_key = partition_key.into();
        Self {
            batch: Batch::new(partition_key.as_str()),
            partition_key,
            broken: None,
            encoder: Encoder::default(),
            table: None,
        }
    }

    /// Number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// As [`Batch::merged_bytes`].
    pub fn merged_bytes(&mut self, bytes: usize) -> &mut Self {
        self.batch.merged_bytes(bytes);
        self
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
        let Self { encoder, batch, .. } = self;
        let row_key = entity.row_key();
        let put = |parts: [&[u8]; 2]| batch.put_parts(row_key, precondition, parts);
        let checked = check_partition(&self.partition_key, entity);
        let done = checked.and_then(|()| encoder.encode(entity, put));
        self.note(row_key, done)
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
        let Self { encoder, batch, partition_key, .. } = self;
        let put = |parts: [&[u8]; 2]| batch.put_parts(row_key, precondition, parts);
        let done = encoder.encode_properties(partition_key, row_key, properties, put);
        self.note(row_key, done)
    }

    /// Sets an entity's properties, also to another type, and keeps its others (R-D09).
    pub fn merge(&mut self, entity: &Entity, precondition: Precondition) -> &mut Self {
        let row_key = entity.row_key();
        let patch = check_partition(&self.partition_key, entity).and_then(|()| Patch::new(entity));
        let done = patch.map(|patch| {
            let table = Arc::clone(self.table.get_or_insert_default());
            let keys = (table, self.partition_key.clone(), row_key.to_owned());
            self.batch.merge(row_key, precondition, move |stored| {
                patch.apply(stored).map_err(|error| refusal(error, &keys))
            });
        });
        self.note(row_key, done)
    }

    /// Deletes an entity. With [`Precondition::None`] it need not exist.
    pub fn delete(&mut self, row_key: impl AsRef<str>, precondition: Precondition) -> &mut Self {
        self.batch.delete(row_key.as_ref(), precondition);
        self
    }

    fn note(&mut self, row_key: &str, done: Result<(), EntityError>) -> &mut Self {
        if let Err(error) = done {
            self.broken.get_or_insert((self.batch.len(), error));
            self.batch.delete(row_key, Precondition::None);
        }
        self
    }

    /// The batch of bytes, for a table of that name.
    pub(super) fn encoded(self, table: &str) -> Result<Batch> {
        let Self { batch, broken, table: name, .. } = self;
        if let Some((index, source)) = broken {
            return Err(Error::Entity { index, source: Box::new(source) });
        }
        if let Some(name) = name {
            name.get_or_init(|| table.into());
        }
        Ok(batch)
    }
}

fn check_partition(expected: &str, entity: &Entity) -> Result<(), EntityError> {
    if entity.partition_key() == expected {
        return Ok(());
    }
    Err(EntityError::OtherPartition {
        expected: expected.into(),
        found: entity.partition_key().into(),
    })
}

/// The table, once it is known, PartitionKey and RowKey of an entity that is merged.
type Keys = (Arc<OnceLock<Box<str>>>, String, String);

fn refusal(error: MergeError, (table, partition, row): &Keys) -> MergeRefusal {
    match error {
        MergeError::Entity(error) => error.into(),
        MergeError::Row(error) => {
            let table = table.get().map_or("", |name| &**name);
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
