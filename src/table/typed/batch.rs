//! [`EntityBatch`]: an entity group transaction of typed entities in the making.
//!
//! Invariant: entities are checked and encoded when they are added; the first that breaks a rule
//! fails the whole batch when it is committed. Limits are the database's, which is known by then. Until then
//! entities are held against those that most have, the defaults, and what is beyond them is encoded all the
//! same; if the database has others, rows are held against these.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, OnceLock};

use super::view::not_an_entity;
use crate::commit::Precondition;
use crate::entity::codec::{Encoder, MergeError, Patch, check_row};
use crate::entity::{Entity, EntityError, EntityLimits, ValueRef};
use crate::error::{Error, MergeRefusal, Result};
use crate::table::batch::Batch;

/// Operations on entities of one partition that are done all or none (R-E07), with typed
/// properties: a [`Batch`] of entities.
///
/// Rules of the data model and the database's limits are checked by the time the batch is committed with
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
    /// Has the limits that entities are held against when they are added.
    encoder: Encoder,
    /// Whether the database may have other limits.
    may_differ: bool,
    /// The first entity that broke a rule under the encoder's limits.
    refused: Option<Box<(usize, EntityError)>>,
    /// The first that breaks one under any limits.
    broken: Option<Box<(usize, EntityError)>>,
    /// Which the operations know by their places among them.
    merges: Vec<Merge>,
    /// If there are merges: what they are done with, once the batch is committed.
    target: Option<Arc<OnceLock<Target>>>,
}

impl EntityBatch {
    /// An empty batch on one partition.
    #[must_use]
    pub fn new(partition_key: impl Into<String>) -> Self {
        let batch = Self::within(&EntityLimits::default(), partition_key);
        Self { may_differ: true, ..batch }
    }

    /// An empty batch for a database of these limits.
    #[inline]
    pub(super) fn within(limits: &EntityLimits, partition_key: impl Into<String>) -> Self {
        let partition_key = partition_key.into();
        Self {
            batch: Batch::new(partition_key.as_str()),
            partition_key,
            encoder: Encoder::new(limits),
            may_differ: false,
            refused: None,
            broken: None,
            merges: Vec::new(),
            target: None,
        }
    }

    /// Number of operations on entities; [ranges](Self::delete_range) are none.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether there are no operations, nor ranges.
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
        if let Err(error) = check_partition(&self.partition_key, entity) {
            return self.refuse(entity.row_key(), error);
        }
        let properties = entity.properties().map(|(name, value)| (name, value.borrowed()));
        self.put_properties(entity.row_key(), properties, precondition)
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
        match encoder.encode_properties(partition_key, row_key, properties.clone(), put) {
            Ok(()) => self,
            Err(error) => {
                let properties: Vec<_> = properties.collect();
                self.put_beyond(row_key, &properties, precondition, error)
            }
        }
    }

    /// Puts what was refused with an error, if the database may have limits that allow it.
    #[cold]
    fn put_beyond(
        &mut self,
        row_key: &str,
        properties: &[(&str, ValueRef<'_>)],
        precondition: Precondition,
        error: EntityError,
    ) -> &mut Self {
        if !self.may_differ {
            return self.refuse(row_key, error);
        }
        self.refused.get_or_insert_with(|| Box::new((self.batch.len(), error)));
        let Self { batch, partition_key, .. } = self;
        let put = |parts: [&[u8]; 2]| batch.put_parts(row_key, precondition, parts);
        let mut encoder = Encoder::new(&EntityLimits::LARGEST);
        let properties = properties.iter().copied();
        match encoder.encode_properties(partition_key, row_key, properties, put) {
            Ok(()) => self,
            Err(error) => self.refuse(row_key, error),
        }
    }

    /// Sets an entity's properties, also to another type, and keeps its others (R-D09).
    pub fn merge(&mut self, entity: &Entity, precondition: Precondition) -> &mut Self {
        match self.patch(entity) {
            Ok(patch) => self.add_merge(entity.row_key(), precondition, patch),
            Err(error) => self.refuse(entity.row_key(), error),
        }
    }

    fn patch(&mut self, entity: &Entity) -> Result<Patch, EntityError> {
        check_partition(&self.partition_key, entity)?;
        match Patch::new(entity, self.encoder.limits()) {
            Err(error) if self.may_differ => {
                self.refused.get_or_insert_with(|| Box::new((self.batch.len(), error)));
                Patch::new(entity, &EntityLimits::LARGEST)
            }
            patch => patch,
        }
    }

    fn add_merge(&mut self, row_key: &str, precondition: Precondition, patch: Patch) -> &mut Self {
        let target = Arc::clone(self.target.get_or_insert_default());
        let place = self.merges.len();
        self.merges.push(Merge { index: self.batch.len(), row_key: row_key.to_owned(), patch });
        self.batch.merge(row_key, precondition, move |stored| match target.get() {
            Some(target) => target.merge(place, stored),
            None => Err("its batch was not committed".into()),
        });
        self
    }

    /// Deletes an entity. With [`Precondition::None`] it need not exist.
    pub fn delete(&mut self, row_key: impl AsRef<str>, precondition: Precondition) -> &mut Self {
        self.batch.delete(row_key.as_ref(), precondition);
        self
    }

    /// As [`Batch::delete_range`].
    pub fn delete_range<K: AsRef<str>>(&mut self, row_keys: impl RangeBounds<K>) -> &mut Self {
        let bytes = |bound: Bound<&K>| bound.map(|key| key.as_ref().as_bytes().to_vec());
        self.batch.delete_range((bytes(row_keys.start_bound()), bytes(row_keys.end_bound())));
        self
    }

    /// Adds a deletion in the place of an entity that breaks a rule, whatever limits the database may have.
    fn refuse(&mut self, row_key: &str, error: EntityError) -> &mut Self {
        let fault = Box::new((self.batch.len(), error));
        self.refused.get_or_insert_with(|| fault.clone());
        self.broken.get_or_insert(fault);
        self.batch.delete(row_key, Precondition::None);
        self
    }

    /// The batch of bytes, for a table of that name in a database of these limits; and what is wrong with an entity of
    /// it, in whose place it has something else.
    pub(super) fn encoded(self, table: &str, limits: &EntityLimits) -> (Batch, Option<Error>) {
        let beyond = self.first_beyond(limits);
        let beyond = beyond.map(|(index, it)| Error::Entity { index, source: Box::new(it) });
        let Self { partition_key, batch, merges, target, .. } = self;
        if let Some(target) = target {
            let (table, limits) = (table.into(), *limits);
            target.get_or_init(|| Target { table, partition_key, limits, merges });
        }
        (batch, beyond)
    }

    /// The first entity that breaks a rule under these limits.
    fn first_beyond(&self, limits: &EntityLimits) -> Option<(usize, EntityError)> {
        let expected = self.encoder.limits();
        if limits == expected || self.refused.is_none() && limits.allow(expected) {
            return self.refused.as_deref().cloned();
        }
        let fault = |index, row_key: &str, row: &[u8]| {
            Some((index, check_row(&self.partition_key, row_key, row, limits).err()?))
        };
        let put = self.batch.puts().find_map(|(index, row_key, row)| {
            fault(index, &String::from_utf8_lossy(&row_key), row)
        });
        let mut merges = self.merges.iter();
        let merge = merges.find_map(|it| fault(it.index, &it.row_key, it.patch.row()));
        let found = [put, merge, self.broken.as_deref().cloned()];
        found.into_iter().flatten().min_by_key(|(index, _)| *index)
    }
}

/// An entity to be merged with what is stored: which operation of its batch that is.
struct Merge {
    index: usize,
    row_key: String,
    patch: Patch,
}

/// The merges of a batch, and where it is committed to.
struct Target {
    table: Box<str>,
    partition_key: String,
    limits: EntityLimits,
    merges: Vec<Merge>,
}

impl Target {
    fn merge(&self, place: usize, stored: Option<&[u8]>) -> Result<Vec<u8>, MergeRefusal> {
        let Some(Merge { row_key, patch, .. }) = self.merges.get(place) else {
            return Err("its batch has no such merge".into());
        };
        patch.apply(stored, &self.limits).map_err(|error| match error {
            MergeError::Entity(error) => error.into(),
            MergeError::Row(error) => {
                let keys = (self.partition_key.as_bytes(), row_key.as_bytes());
                not_an_entity(&self.table, keys.0, keys.1, error).into()
            }
        })
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

impl fmt::Debug for EntityBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityBatch")
            .field("partition_key", &self.partition_key)
            .field("operations", &self.len())
            .finish_non_exhaustive()
    }
}
