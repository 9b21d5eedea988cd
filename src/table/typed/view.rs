//! [`EntityView`]: the reads of a table of entities.

use std::fmt;

use crate::entity::{Entity, EntityRef, NotAnEntity, RowError};
use crate::error::{Error, Result};
use crate::table::view::TableView;
use crate::version::Version;

/// The reads of a table of entities: of its newest state through
/// [`EntityTable`](crate::EntityTable), or of a snapshot's.
///
/// What a table holds need not have been written through its entity calls. A row that is no entity
/// is [`Error::NotAnEntity`], whichever call comes upon it.
///
/// ```
/// use tablestone::{Database, Entity, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table_if_missing("people").wait()?.entities();
/// people.insert(&Entity::new("Sales", "1").with("Name", "Ann")).wait()?;
/// let before = people.at(&database.snapshot())?;
/// people.insert(&Entity::new("Sales", "2").with("Name", "Bob")).wait()?;
/// assert_eq!(before.query().page()?.len(), 1);
/// assert_eq!(people.query().page()?.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EntityView {
    pub(super) view: TableView,
}

impl TableView {
    /// The same reads, of entities with typed properties.
    #[must_use]
    pub fn entities(&self) -> EntityView {
        EntityView { view: self.clone() }
    }
}

impl EntityView {
    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.view.name()
    }

    /// The same table, as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &TableView {
        &self.view
    }

    /// One entity, or `None` if there is none.
    ///
    /// # Errors
    /// [`Error::TableNotFound`] if the table was dropped, [`Error::NotAnEntity`],
    /// [`Error::Corruption`], [`Error::Io`].
    pub fn get(
        &self,
        partition_key: impl AsRef<str>,
        row_key: impl AsRef<str>,
    ) -> Result<Option<Entity>> {
        self.read(partition_key, row_key, |entity| entity.to_entity())
    }

    /// What `read` makes of one entity where it is stored, so that only the properties asked for
    /// are decoded; `None` if there is no entity.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tablestone::{Database, Entity, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let stock = database.create_table("stock").wait()?.entities();
    /// stock.insert(&Entity::new("chairs", "oak").with("Count", 12)).wait()?;
    /// let count = stock.read("chairs", "oak", |entity| entity.get_as::<i32>("Count"))?;
    /// assert_eq!(count, Some(Some(12)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get); a [`RowError`] of `read` is [`Error::NotAnEntity`].
    pub fn read<T>(
        &self,
        partition_key: impl AsRef<str>,
        row_key: impl AsRef<str>,
        read: impl FnOnce(EntityRef<'_>) -> Result<T, RowError>,
    ) -> Result<Option<T>> {
        let (partition_key, row_key) = (partition_key.as_ref(), row_key.as_ref());
        let read = |version: Version, value: &[u8]| {
            EntityRef::new(partition_key.as_bytes(), row_key.as_bytes(), version, value)
                .and_then(read)
        };
        let found = self.view.read(partition_key, row_key, read)?;
        let not_an_entity = |source| self.not_an_entity(partition_key, row_key, source);
        found.transpose().map_err(not_an_entity)
    }

    /// Whether an entity exists.
    ///
    /// # Errors
    /// As [`get`](Self::get), but for [`Error::NotAnEntity`].
    pub fn exists(&self, partition_key: impl AsRef<str>, row_key: impl AsRef<str>) -> Result<bool> {
        self.view.exists(partition_key.as_ref(), row_key.as_ref())
    }

    /// Many entities of one partition at one version, in the order of `row_keys` (R-E16).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<str>>(
        &self,
        partition_key: impl AsRef<str>,
        row_keys: &[K],
    ) -> Result<Vec<Option<Entity>>> {
        let partition_key = partition_key.as_ref();
        let keys: Vec<&[u8]> = row_keys.iter().map(|key| key.as_ref().as_bytes()).collect();
        let decode = |row_key: &[u8], version, value: &[u8]| {
            EntityRef::new(partition_key.as_bytes(), row_key, version, value)?.to_entity()
        };
        let entities = self.view.read_many(partition_key.as_bytes(), &keys, decode)?;
        let checked = entities.into_iter().zip(row_keys).map(|(entity, row_key)| {
            let row_key = row_key.as_ref();
            entity.transpose().map_err(|source| self.not_an_entity(partition_key, row_key, source))
        });
        checked.collect()
    }

    pub(super) fn not_an_entity(
        &self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        source: RowError,
    ) -> Error {
        let (table, partition_key) = (self.name(), partition_key.as_ref());
        Error::NotAnEntity(Box::new(not_an_entity(table, partition_key, row_key.as_ref(), source)))
    }
}

pub(super) fn not_an_entity(
    table: &str,
    partition_key: &[u8],
    row_key: &[u8],
    source: RowError,
) -> NotAnEntity {
    let (partition_key, row_key) = (partition_key.into(), row_key.into());
    NotAnEntity { table: table.into(), partition_key, row_key, source }
}

impl fmt::Debug for EntityView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EntityView").field(&self.view).finish()
    }
}
