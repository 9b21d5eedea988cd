//! [`EntityTable`]: the writes of a table of entities, and through [`EntityView`] its reads.

use std::fmt;
use std::ops::Deref;

use super::batch::EntityBatch;
use super::view::EntityView;
use crate::commit::{Commit, Precondition};
use crate::entity::codec::Encoder;
use crate::entity::{Entity, EntityLimits, IfMatch};
use crate::error::{Error, Result};
use crate::options::check_rules;
use crate::table::import::ImportReport;
use crate::table::snapshot::Snapshot;
use crate::table::table::Table;
use crate::version::Version;

/// A table of entities: reads through [`EntityView`], whose methods it has, and writes.
///
/// The six writes are those of the service (R-E05): insert, replace and merge of what must exist,
/// insert-or-replace, insert-or-merge, delete. Each returns a [`Commit`] to wait for or to await,
/// whose outcome is the entity's new version.
///
/// ```
/// use tablestone::{Database, Entity, Error, Options, Precondition};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table("people").wait()?.entities();
/// let ann = Entity::new("Sales", "00001").with("Name", "Ann").with("Age", 34);
/// let version = people.insert(&ann).wait()?;
///
/// // A merge sets what it names; the version is the ETag to insist on.
/// let birthday = Entity::new("Sales", "00001").with("Age", 35);
/// people.merge(&birthday, Precondition::Version(version)).wait()?;
/// let late = people.merge(&birthday, Precondition::Version(version)).wait();
/// assert!(matches!(late, Err(Error::VersionMismatch { .. })));
///
/// let ann = people.get("Sales", "00001")?.ok_or("she was stored")?;
/// assert_eq!((ann.get_as("Name"), ann.get_as("Age")), (Some("Ann"), Some(35)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EntityTable {
    table: Table,
    view: EntityView,
    /// What entities that are written are held against.
    limits: EntityLimits,
}

impl Table {
    /// The same table, of entities with typed properties.
    #[must_use]
    pub fn entities(&self) -> EntityTable {
        EntityTable {
            table: self.clone(),
            view: EntityView { view: (**self).clone() },
            limits: *self.entity_limits(),
        }
    }
}

/// A tag of another make is that of no entity, and so is [`Version::ZERO`].
impl From<IfMatch> for Precondition {
    fn from(tag: IfMatch) -> Self {
        match tag {
            IfMatch::Any => Self::Exists,
            IfMatch::Version(version) => Self::Version(version),
            IfMatch::Unknown => Self::Version(Version::ZERO),
        }
    }
}

impl Deref for EntityTable {
    type Target = EntityView;

    fn deref(&self) -> &EntityView {
        &self.view
    }
}

impl EntityTable {
    /// The same table, of bytes: also for what entities are no part of, as [`Table::delete_range`] and
    /// [`Table::delete_partition`].
    #[must_use]
    pub fn as_bytes(&self) -> &Table {
        &self.table
    }

    /// The same table, whose entities are held against these limits in place of the database's where they are
    /// written through this handle: for tables of the program's own, say, beside those of its clients.
    ///
    /// ```
    /// use tablestone::{Database, Entity, EntityLimits, Options};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let options = Options::default().entity_limits(EntityLimits::default().name_length(4));
    /// let database = Database::open(dir.path(), options)?;
    /// let table = database.create_table("people").wait()?.entities();
    /// let ann = Entity::new("p", "r").with("FirstName", "Ann");
    /// assert!(table.insert(&ann).wait().is_err());
    /// table.with_limits(EntityLimits::default())?.insert(&ann).wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if one of them is 0 or above [`EntityLimits::LARGEST`].
    pub fn with_limits(mut self, limits: EntityLimits) -> Result<Self> {
        check_rules(limits.rules())?;
        self.limits = limits;
        Ok(self)
    }

    /// An empty batch on one partition of this table. What is added to it is held against the table's limits at
    /// once; one of [`EntityBatch::new`] does not know them before it is committed.
    #[must_use]
    pub fn batch(&self, partition_key: impl Into<String>) -> EntityBatch {
        EntityBatch::within(&self.limits, partition_key)
    }

    /// The table as a snapshot sees it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the snapshot is of another database.
    pub fn at(&self, snapshot: &Snapshot) -> Result<EntityView> {
        Ok(EntityView { view: self.table.at(snapshot)? })
    }

    /// Stores an entity that must not exist; [`Error::EntityExists`] if it does.
    pub fn insert(&self, entity: &Entity) -> Commit<Version> {
        self.commit_one(entity.partition_key(), |batch| batch.insert(entity))
    }

    /// Stores an entity in place of one that must exist, or be at a version; properties that it
    /// does not have are dropped (R-D09).
    pub fn replace(&self, entity: &Entity, precondition: Precondition) -> Commit<Version> {
        self.commit_one(entity.partition_key(), |batch| batch.put(entity, precondition))
    }

    /// Sets an entity's properties and keeps its others (R-D09). A property may change its type.
    pub fn merge(&self, entity: &Entity, precondition: Precondition) -> Commit<Version> {
        self.commit_one(entity.partition_key(), |batch| batch.merge(entity, precondition))
    }

    /// Stores an entity whether or not it exists.
    pub fn insert_or_replace(&self, entity: &Entity) -> Commit<Version> {
        self.commit_one(entity.partition_key(), |batch| batch.insert_or_replace(entity))
    }

    /// Sets an entity's properties and keeps its others; stores it if it does not exist.
    pub fn insert_or_merge(&self, entity: &Entity) -> Commit<Version> {
        self.commit_one(entity.partition_key(), |batch| batch.insert_or_merge(entity))
    }

    /// Deletes an entity; with [`Precondition::None`] it need not exist.
    pub fn delete(
        &self,
        partition_key: impl AsRef<str>,
        row_key: impl AsRef<str>,
        precondition: Precondition,
    ) -> Commit<Version> {
        self.commit_one(partition_key.as_ref(), |batch| batch.delete(row_key, precondition))
    }

    /// Does all operations of a batch or none (R-E07).
    ///
    /// The outcome is the version that every entity of the batch now has, or the error of the
    /// first operation, in order, that could not be done, as that of an entity which breaks a rule
    /// ([`Error::Entity`]).
    pub fn commit(&self, batch: EntityBatch) -> Commit<Version> {
        match batch.encoded(self.name(), &self.limits) {
            (batch, None) => self.table.commit(batch),
            (batch, Some(error)) => self.table.refuse(batch, error),
        }
    }

    fn commit_one(
        &self,
        partition_key: &str,
        operation: impl FnOnce(&mut EntityBatch) -> &mut EntityBatch,
    ) -> Commit<Version> {
        let mut batch = self.batch(partition_key);
        operation(&mut batch);
        self.commit(batch)
    }

    /// Stores entities of any partitions unconditionally, as [`Table::import`] does.
    ///
    /// # Errors
    /// [`Error::Entity`] with the entity's place among `entities`; as for any write. Entities
    /// before the error may have been stored; each commit is whole.
    pub fn import(&self, entities: impl IntoIterator<Item = Entity>) -> Result<ImportReport> {
        let mut encoder = Encoder::new(&self.limits);
        let mut broken = None;
        let rows = entities.into_iter().enumerate().map_while(|(index, entity)| {
            match encoder.encode_whole(&entity) {
                Ok(row) => {
                    let (partition_key, row_key) = entity.into_keys();
                    Some((partition_key, row_key, row))
                }
                Err(source) => {
                    broken = Some(Error::Entity { index, source: Box::new(source) });
                    None
                }
            }
        });
        let report = self.table.import(rows)?;
        broken.map_or(Ok(report), Err)
    }
}

impl fmt::Debug for EntityTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EntityTable").field(&self.table).finish()
    }
}
