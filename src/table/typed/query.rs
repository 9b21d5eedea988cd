//! [`EntityQuery`]: which entities to read and what of them, planned, in key order, a page at a
//! time.
//!
//! Invariant: the plan's ranges and what is asked of each row read together let pass what the
//! filter lets pass. A page is filled from stored rows; what does not pass, and what is not
//! selected, is never copied.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use super::page::{EntityPage, entity};
use super::stream::EntityStream;
use super::view::{EntityView, not_an_entity};
use crate::entity::codec::{EncodedRow, Projection};
use crate::entity::filter::{CompiledFilter, KeyRange, StoredRow};
use crate::entity::{Entity, EntityRef, Explain, Filter, RowError, is_system};
use crate::error::{Error, Result};
use crate::read::{RowRef, ScanRange};
use crate::table::continuation::Continuation;
use crate::table::items::Items;
use crate::table::page::PageEnd;
use crate::table::query::Query;

/// A query over the entities of one table.
///
/// What a [`Filter`] says of keys becomes the keys that are read (R-D10): see
/// [`explain`](Self::explain). The rest of it is evaluated on stored rows, before anything is
/// copied. Limits and pages are those of [`Query`].
///
/// ```
/// use tablestone::{Database, Entity, Filter, Options};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table("people").wait()?.entities();
/// for (row_key, name, age) in [("1", "Ann", 34), ("2", "Bob", 19), ("3", "Cy", 51)] {
///     let person = Entity::new("Sales", row_key).with("Name", name).with("Age", age);
///     people.insert(&person).wait()?;
/// }
/// let adults: Filter = "PartitionKey eq 'Sales' and Age ge 21".parse()?;
/// let page = people.query().filter(adults).select(["Name"]).page()?;
/// let names: Vec<_> = page.iter().map(|person| person.get_as("Name")).collect::<Result<_, _>>()?;
/// assert_eq!(names, [Some("Ann"), Some("Cy")]);
/// # Ok(())
/// # }
/// ```
#[must_use = "a query does nothing until a page is asked for"]
pub struct EntityQuery {
    view: EntityView,
    query: Query,
    filter: Filter,
    selected: Option<Arc<[String]>>,
    /// The plan, once a page was asked for.
    ranges: Option<Vec<ScanRange>>,
}

impl EntityView {
    /// A query over the table's entities in key order.
    pub fn query(&self) -> EntityQuery {
        EntityQuery {
            view: self.clone(),
            query: self.view.query(),
            filter: Filter::everything(),
            selected: None,
            ranges: None,
        }
    }
}

impl EntityQuery {
    /// Only entities that pass; of several filters, those that pass all.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = std::mem::take(&mut self.filter).and(filter);
        self
    }

    /// Of each entity only these properties, in this order, besides its keys and version, which it
    /// always has (R-D07). An entity without one of them does not have it in the page either; see
    /// [`EntityPage::selected`].
    pub fn select<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.selected = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// At most this many entities in all, over all pages, of those that pass the filter: see [`Query::top`].
    pub fn top(mut self, entities: u64) -> Self {
        self.query = self.query.top(entities);
        self
    }

    /// Only this partition, in place of partitions that were named before.
    pub fn partition(mut self, partition_key: impl AsRef<str>) -> Self {
        self.query = self.query.partition(partition_key.as_ref());
        self
    }

    /// Only partitions with a key in this range; each end inclusive or exclusive (R-E14). In place of
    /// partitions that were named before.
    pub fn partitions<K: AsRef<[u8]>>(mut self, range: impl RangeBounds<K>) -> Self {
        self.query = self.query.partitions(range);
        self
    }

    /// Only entities with a RowKey in this range; each end inclusive or exclusive (R-E14). In place of rows
    /// that were named before.
    pub fn rows<K: AsRef<[u8]>>(mut self, range: impl RangeBounds<K>) -> Self {
        self.query = self.query.rows(range);
        self
    }

    /// Only entities whose RowKey starts with `prefix`, in place of rows that were named before.
    pub fn row_prefix(mut self, prefix: impl AsRef<str>) -> Self {
        self.query = self.query.row_prefix(prefix.as_ref());
        self
    }

    /// From the last key to the first.
    pub fn reverse(mut self) -> Self {
        self.query = self.query.reverse();
        self
    }

    /// At most this many entities in a page: see [`Query::limit`].
    pub fn limit(mut self, entities: usize) -> Self {
        self.query = self.query.limit(entities);
        self
    }

    /// Ends a page at this many bytes: see [`Query::byte_limit`].
    pub fn byte_limit(mut self, bytes: usize) -> Self {
        self.query = self.query.byte_limit(bytes);
        self
    }

    /// Ends a page when this many entries were examined: see [`Query::examine_at_most`].
    pub fn examine_at_most(mut self, entries: u64) -> Self {
        self.query = self.query.examine_at_most(entries);
        self
    }

    /// Ends a page when it has taken this long.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.query = self.query.time_limit(time);
        self
    }

    /// Ends a page at the end of a partition.
    pub fn stop_at_partition_end(mut self) -> Self {
        self.query = self.query.stop_at_partition_end();
        self
    }

    /// Goes on where a page ended, in the direction of the query.
    pub fn continue_from(mut self, continuation: Continuation) -> Self {
        self.query = self.query.continue_from(continuation);
        self
    }

    /// Which keys the query reads, and what it asks of each entity there.
    #[must_use]
    pub fn explain(&self) -> Explain {
        let (partitions, rows) = self.query.key_bounds();
        self.filter.explain_within(&partitions, rows)
    }

    /// One page.
    ///
    /// # Errors
    /// [`Error::TableNotFound`] if the table was dropped, [`Error::NotAnEntity`] if it came upon
    /// a row that is none, [`Error::Corruption`], [`Error::Io`].
    pub fn page(mut self) -> Result<EntityPage> {
        self.read_page()
    }

    /// One page whose entities are lent to `each` where they are stored, in order, and not copied.
    /// All properties are lent, whatever is [selected](Self::select).
    ///
    /// ```
    /// # use tablestone::{Database, Entity, Options};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let stock = database.create_table("stock").wait()?.entities();
    /// stock.insert(&Entity::new("chairs", "ash").with("Count", 5)).wait()?;
    /// stock.insert(&Entity::new("chairs", "oak").with("Count", 12)).wait()?;
    /// let mut sum = 0;
    /// let end = stock.query().visit(|entity| {
    ///     sum += entity.get_as::<i32>("Count")?.unwrap_or(0);
    ///     Ok(())
    /// })?;
    /// assert_eq!((sum, end.entities(), end.continuation()), (17, 2, None));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`page`](Self::page); a [`RowError`] of `each` is [`Error::NotAnEntity`].
    pub fn visit(
        mut self,
        mut each: impl FnMut(EntityRef<'_>) -> Result<(), RowError>,
    ) -> Result<PageEnd> {
        let ranges = self.plan();
        let broken = self.broken_row();
        let mut lend =
            |row: RowRef<'_>| entity(row).and_then(&mut each).map_err(|source| broken(row, source));
        self.query.visit_ranges(&ranges, &mut lend)
    }

    /// All pages, one after the other, each at a version of its own unless the query is of a
    /// snapshot.
    pub fn pages(self) -> EntityPages {
        EntityPages { query: Some(self) }
    }

    /// All entities, decoded, read a page at a time.
    pub fn entities(self) -> Entities {
        Entities(Items::new(self.pages()))
    }

    /// All entities, decoded, for async code: pages are read on the database's reader threads, see
    /// [`Database::run`](crate::Database::run).
    ///
    /// To await a single page, run `move || query.page()` there.
    ///
    /// What fails is an item of the stream: as for [`page`](Self::page), and [`Error::Closed`] after
    /// [`close`](crate::Database::close).
    pub fn stream(self) -> EntityStream {
        let inner = Arc::clone(self.view.as_bytes().inner());
        EntityStream::new(inner, self.pages())
    }

    pub(super) fn read_page(&mut self) -> Result<EntityPage> {
        let ranges = match self.ranges.take() {
            Some(ranges) => ranges,
            None => self.plan(),
        };
        let page = self.query.read_ranges(&ranges)?;
        self.ranges = Some(ranges);
        let page = EntityPage::new(page, self.view.name(), self.selected.clone());
        page.map_err(|error| Error::NotAnEntity(Box::new(error)))
    }

    /// Prepares the query for its pages.
    fn plan(&mut self) -> Vec<ScanRange> {
        let (ranges, residual) = self.explain().into_parts();
        if let Some(residual) = residual {
            let mut filter = CompiledFilter::new(&residual);
            let broken = self.broken_row();
            self.query.set_predicate(move |row| {
                filter.matches(stored(row)).map_err(|source| broken(row, source))
            });
        }
        if let Some(names) = &self.selected {
            let properties = names.iter().map(String::as_str).filter(|name| !is_system(name));
            let mut projection = Projection::new(properties);
            let broken = self.broken_row();
            self.query.set_projection(move |row, out| {
                let projected = EncodedRow::parse(row.value).and_then(|r| projection.push(&r, out));
                projected.map_err(|source| broken(row, source))
            });
        }
        let scanned = |KeyRange { partition, rows }| ScanRange::of_many(partition, rows);
        ranges.into_iter().map(scanned).collect()
    }

    fn broken_row(&self) -> impl Fn(RowRef<'_>, RowError) -> Box<Error> + Send + use<> {
        let table: Box<str> = self.view.name().into();
        move |row, source| {
            let error = not_an_entity(&table, row.partition_key, row.row_key, source);
            Box::new(Error::NotAnEntity(Box::new(error)))
        }
    }
}

fn stored(row: RowRef<'_>) -> StoredRow<'_> {
    let RowRef { partition_key, row_key, version, value } = row;
    StoredRow { partition_key, row_key, version, bytes: value }
}

/// Iterator over the pages of a query; ends after the last page or the first error.
///
/// ```
/// use tablestone::{Database, Entity, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table_if_missing("people").wait()?.entities();
/// for row in ["1", "2", "3"] {
///     people.insert(&Entity::new("Sales", row)).wait()?;
/// }
/// for page in people.query().limit(2).pages() {
///     let page = page?;
///     println!("{} entities, then {:?}", page.len(), page.continuation());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "pages are read as they are asked for"]
pub struct EntityPages {
    query: Option<EntityQuery>,
}

impl Iterator for EntityPages {
    type Item = Result<EntityPage>;

    fn next(&mut self) -> Option<Result<EntityPage>> {
        let mut query = self.query.take()?;
        let page = query.read_page();
        if let Ok(page) = &page
            && let Some(next) = page.continuation()
        {
            query.query.go_on(next);
            self.query = Some(query);
        }
        Some(page)
    }
}

impl FusedIterator for EntityPages {}

/// Iterator over the entities of a query; ends after the last or the first error.
///
/// ```
/// use tablestone::{Database, Entity, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table_if_missing("people").wait()?.entities();
/// people.insert(&Entity::new("Sales", "1").with("Name", "Ann")).wait()?;
/// for person in people.query().entities() {
///     assert_eq!(person?.get_as::<&str>("Name"), Some("Ann"));
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "pages are read as they are asked for"]
pub struct Entities(Items<EntityPages, EntityPage>);

impl Iterator for Entities {
    type Item = Result<Entity>;

    fn next(&mut self) -> Option<Result<Entity>> {
        self.0.next()
    }
}

impl FusedIterator for Entities {}

impl fmt::Debug for EntityQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityQuery")
            .field("query", &self.query)
            .field("filter", &self.filter)
            .field("selected", &self.selected)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EntityPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityPages").field("query", &self.query).finish()
    }
}

impl fmt::Debug for Entities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entities").finish_non_exhaustive()
    }
}
