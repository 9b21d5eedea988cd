//! [`EntityPage`]: the entities that a query returns at a time.
//!
//! Invariant: every row of the page was seen to be an entity when it was read.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use crate::entity::{Entity, EntityRef, NotAnEntity, RowError};
use crate::error::{Error, Result};
use crate::read::{RowRef, Rows, StopReason};
use crate::table::continuation::Continuation;
use crate::table::items::ItemPage;
use crate::table::page::Page;
use crate::version::Version;

use super::view::not_an_entity;

/// Entities of one query in key order, as they are stored, in one buffer.
///
/// ```
/// use tablestone::{Database, Entity, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table_if_missing("people").wait()?.entities();
/// for (row, age) in [("1", 34), ("2", 17), ("3", 51)] {
///     people.insert(&Entity::new("Sales", row).with("Age", age)).wait()?;
/// }
/// let page = people.query().filter("Age ge 18".parse()?).limit(1).page()?;
/// for person in &page {
///     assert_eq!(person.get_as::<i32>("Age")?, Some(34));
/// }
/// let next = page.continuation().unwrap().clone();
/// let rest = people.query().filter("Age ge 18".parse()?).continue_from(next).page()?;
/// assert_eq!(rest.to_entities()?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct EntityPage {
    page: Page,
    table: Box<str>,
    selected: Option<Arc<[String]>>,
}

/// The entity that a row is.
#[inline]
pub(super) fn entity(row: RowRef<'_>) -> Result<EntityRef<'_>, RowError> {
    EntityRef::new(row.partition_key, row.row_key, row.version, row.value)
}

impl EntityPage {
    /// A page of entities, if all its rows are.
    pub(super) fn new(
        page: Page,
        table: &str,
        selected: Option<Arc<[String]>>,
    ) -> Result<Self, NotAnEntity> {
        for row in &page {
            entity(row).map_err(|e| not_an_entity(table, row.partition_key, row.row_key, e))?;
        }
        Ok(Self { page, table: table.into(), selected })
    }

    /// Number of entities; may be 0 though there is a continuation.
    #[must_use]
    pub fn len(&self) -> usize {
        self.page.len()
    }

    /// Whether the page has no entities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.page.is_empty()
    }

    /// The entities in order, where they lie in the page.
    pub fn iter(&self) -> EntityRows<'_> {
        EntityRows(self.page.iter())
    }

    /// The entities in order, decoded.
    ///
    /// # Errors
    /// [`Error::NotAnEntity`] if a property is damaged.
    pub fn to_entities(&self) -> Result<Vec<Entity>> {
        self.page.iter().map(|row| self.decode(row)).collect()
    }

    fn decode(&self, row: RowRef<'_>) -> Result<Entity> {
        entity(row).and_then(|entity| entity.to_entity()).map_err(|source| {
            let error = not_an_entity(&self.table, row.partition_key, row.row_key, source);
            Error::NotAnEntity(Box::new(error))
        })
    }

    /// The properties that the query selected, in the order it named them; `None` if it wanted
    /// all. One that an entity of the page does not have is null there (R-D07).
    #[must_use]
    pub fn selected(&self) -> Option<&[String]> {
        self.selected.as_deref()
    }

    /// Where the query goes on; `None` if there is no more, or no more is wanted.
    #[must_use]
    pub fn continuation(&self) -> Option<&Continuation> {
        self.page.continuation()
    }

    /// Why the page ended.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.page.stop_reason()
    }

    /// Number of entries that were looked at, deleted and filtered ones included.
    #[must_use]
    pub fn examined(&self) -> u64 {
        self.page.examined()
    }

    /// The version of the database that every entity of the page was read at (R-E11).
    #[must_use]
    pub fn version(&self) -> Version {
        self.page.version()
    }
}

/// How it ended, not what it holds, which may be mebibytes.
impl fmt::Debug for EntityPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityPage")
            .field("table", &self.table)
            .field("selected", &self.selected)
            .field("page", &self.page)
            .finish()
    }
}

impl ItemPage for EntityPage {
    type Item = Entity;

    fn item(&self, index: usize) -> Option<Result<Entity>> {
        self.page.get(index).map(|row| self.decode(row))
    }
}

/// The entities of an [`EntityPage`], in its order.
#[derive(Clone, Debug)]
pub struct EntityRows<'a>(Rows<'a>);

/// The page was made of entities alone.
#[inline]
fn seen(row: RowRef<'_>) -> EntityRef<'_> {
    entity(row).unwrap_or_else(|_| EntityRef::empty())
}

impl<'a> Iterator for EntityRows<'a> {
    type Item = EntityRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<EntityRef<'a>> {
        self.0.next().map(seen)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for EntityRows<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(seen)
    }
}

impl ExactSizeIterator for EntityRows<'_> {}
impl FusedIterator for EntityRows<'_> {}

impl<'a> IntoIterator for &'a EntityPage {
    type Item = EntityRef<'a>;
    type IntoIter = EntityRows<'a>;

    fn into_iter(self) -> EntityRows<'a> {
        self.iter()
    }
}
