//! [`Query`]: what to read, in key order, a page at a time.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use super::continuation::Continuation;
use super::page::{Page, PageEnd};
use super::rows::{KeyedRowStream, KeyedRows};
use super::view::{TableView, owned_bounds};
use crate::error::Result;
use crate::key::{ALL_KEYS, KeyBounds};
use crate::read::{
    self, Direction, HookResult, PageData, PartitionStop, Partitions, RowRef, ScanHooks,
    ScanLimits, ScanRange, ScanRequest, Take, WhenFull,
};
use crate::version::Version;

type Filter = Box<dyn FnMut(RowRef<'_>) -> HookResult<bool> + Send>;
type Projection = Box<dyn FnMut(RowRef<'_>, &mut Vec<u8>) -> HookResult<()> + Send>;

/// A query over one table: a range of PartitionKeys and, within each partition, a range of
/// RowKeys; how much to return at a time; and what to keep of it.
///
/// Every page is read at one version (R-E11). A page ends at its limits or at the end of the
/// range, and then has a [`Continuation`] unless nothing is left (R-E12). A RowKey range costs
/// what it returns, and for each partition a few steps and two seeks at most (R-E15).
///
/// ```
/// use tablestone::{Database, Options};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let log = database.create_table("log").wait()?;
/// for day in ["01", "02", "03", "04"] {
///     log.insert("web-1", day, "up").wait()?;
/// }
/// let page = log.query().partition("web-1").rows("02"..).limit(2).page()?;
/// let days: Vec<_> = page.iter().map(|row| row.row_key.to_vec()).collect();
/// assert_eq!(days, [b"02", b"03"]);
/// let next = page.continuation().cloned().ok_or("a third entity is left")?;
/// let rest = log.query().partition("web-1").rows("02"..).continue_from(next).page()?;
/// assert_eq!((rest.len(), rest.continuation()), (1, None));
/// # Ok(())
/// # }
/// ```
#[must_use = "a query does nothing until a page is asked for"]
pub struct Query {
    view: TableView,
    partitions: Partitions,
    rows: KeyBounds,
    direction: Direction,
    limits: ScanLimits,
    /// How many entities are still wanted in all.
    top: Option<u64>,
    time_limit: Option<Duration>,
    start: Option<Continuation>,
    filter: Option<Filter>,
    projection: Option<Projection>,
}

impl Query {
    pub(super) fn new(view: TableView) -> Self {
        let options = view.inner().pipeline().options();
        let limits = ScanLimits {
            entities: options.page_entities,
            bytes: options.page_bytes,
            ..ScanLimits::default()
        };
        Self {
            view,
            partitions: Partitions::ALL,
            rows: ALL_KEYS,
            direction: Direction::Forward,
            limits,
            top: None,
            time_limit: None,
            start: None,
            filter: None,
            projection: None,
        }
    }

    /// At most this many entities in all, over all pages, of those that pass the filter (R-D07).
    /// The page with the last of them has no continuation.
    ///
    /// ```
    /// use tablestone::{Database, Options};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let log = database.create_table("log").wait()?;
    /// log.import(["1", "2", "3", "4", "5"].map(|row| ("web-1", row, "up")))?;
    /// // The three newest.
    /// let newest: Vec<_> = log.query().reverse().top(3).keyed_rows().collect::<Result<_, _>>()?;
    /// assert_eq!(newest.iter().map(|row| row.row_key[0]).collect::<Vec<_>>(), b"543");
    /// # Ok(())
    /// # }
    /// ```
    pub fn top(mut self, entities: u64) -> Self {
        self.top = Some(entities);
        self
    }

    /// Only this partition, in place of partitions that were named before.
    #[inline]
    pub fn partition(mut self, partition_key: impl AsRef<[u8]>) -> Self {
        self.partitions = Partitions::One(partition_key.as_ref().to_vec());
        self
    }

    /// Only partitions with a key in this range; each end inclusive or exclusive (R-E14). In place of
    /// partitions that were named before.
    pub fn partitions<K: AsRef<[u8]>>(mut self, range: impl RangeBounds<K>) -> Self {
        self.partitions = owned_bounds(&range).into();
        self
    }

    /// Only rows with a key in this range; each end inclusive or exclusive (R-E14). In place of rows that were
    /// named before.
    #[inline]
    pub fn rows<K: AsRef<[u8]>>(mut self, range: impl RangeBounds<K>) -> Self {
        self.rows = owned_bounds(&range);
        self
    }

    /// Only rows whose key starts with `prefix`, in place of rows that were named before.
    pub fn row_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref().to_vec();
        self.rows = (Bound::Included(prefix.clone()), after_prefix(prefix));
        self
    }

    /// From the last key to the first.
    pub fn reverse(mut self) -> Self {
        self.direction = Direction::Reverse;
        self
    }

    /// At most this many entities in a page, of those that pass the filter; never more than
    /// [`Options::page_entities`](crate::Options::page_entities). At least 1.
    ///
    /// A full page goes on to the next entity that passes, so that it has a continuation only if
    /// there is one; where few pass, [`examine_at_most`](Self::examine_at_most) or
    /// [`time_limit`](Self::time_limit) bound the search. Said twice, the lesser counts.
    #[inline]
    pub fn limit(mut self, entities: usize) -> Self {
        self.limits.entities = self.limits.entities.min(entities.max(1));
        self
    }

    /// Ends a page at this many bytes of stored keys and values; never more than
    /// [`Options::page_bytes`](crate::Options::page_bytes). A page has at least one entity.
    /// Said twice, the lesser counts.
    pub fn byte_limit(mut self, bytes: usize) -> Self {
        self.limits.bytes = self.limits.bytes.min(bytes.max(1));
        self
    }

    /// Ends a page when this many entries were examined, deleted and filtered ones included.
    pub fn examine_at_most(mut self, entries: u64) -> Self {
        self.limits.examined = Some(entries.max(1));
        self
    }

    /// Ends a page when it has taken this long.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = Some(time);
        self
    }

    /// Ends a page at the end of a partition.
    pub fn stop_at_partition_end(mut self) -> Self {
        self.limits.partition = PartitionStop::Stop;
        self
    }

    /// Keeps only the entities that `filter` says yes to; of several filters, those to which all do. It
    /// sees stored bytes, before anything is copied.
    pub fn filter(mut self, mut filter: impl FnMut(RowRef<'_>) -> bool + Send + 'static) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(mut before) => Box::new(move |row| Ok(before(row)? && filter(row))),
            None => Box::new(move |row| Ok(filter(row))),
        });
        self
    }

    /// Returns instead of each stored value what `projection` appends for it.
    pub fn project(
        mut self,
        mut projection: impl FnMut(&[u8], &mut Vec<u8>) + Send + 'static,
    ) -> Self {
        self.projection = Some(Box::new(move |row, out| {
            projection(row.value, out);
            Ok(())
        }));
        self
    }

    /// Goes on where a page ended, in the direction of the query.
    pub fn continue_from(mut self, continuation: Continuation) -> Self {
        self.start = Some(continuation);
        self
    }

    /// One page.
    ///
    /// # Errors
    /// [`Error::TableNotFound`](crate::Error::TableNotFound) if the table was dropped,
    /// [`Error::Corruption`](crate::Error::Corruption), [`Error::Io`](crate::Error::Io).
    pub fn page(mut self) -> Result<Page> {
        let range = self.take_range();
        self.read_ranges(std::slice::from_ref(&range))
    }

    /// One page whose entities are lent to `each` where they are stored, in order, and not copied.
    /// They are lent as they are stored: no [projection](Self::project) is made.
    ///
    /// ```
    /// use tablestone::{Database, Options};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let people = database.create_table("people").wait()?;
    /// people.import(["anna", "karl", "paul"].map(|row| ("de", row, "12345")))?;
    /// let mut bytes = 0;
    /// let end = people.query().limit(2).visit(|row| bytes += row.value.len())?;
    /// assert_eq!((end.entities(), bytes), (2, 10));
    /// let next = end.continuation().cloned().ok_or("a third entity is left")?;
    /// let end = people.query().continue_from(next).visit(|row| bytes += row.value.len())?;
    /// assert_eq!((end.continuation(), bytes), (None, 15));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`page`](Self::page).
    pub fn visit(mut self, mut each: impl FnMut(RowRef<'_>)) -> Result<PageEnd> {
        let range = self.take_range();
        self.visit_ranges(std::slice::from_ref(&range), &mut |row| {
            each(row);
            Ok(())
        })
    }

    /// All pages, one after the other, each at a version of its own unless the query is of a
    /// snapshot.
    pub fn pages(self) -> Pages {
        Pages { query: Some(self) }
    }

    /// All entities with their keys, copied, read a page at a time. [`page`](Self::page) and
    /// [`visit`](Self::visit) lend them instead.
    pub fn keyed_rows(self) -> KeyedRows {
        KeyedRows::new(self.pages())
    }

    /// All entities with their keys, for async code: pages are read on the database's reader threads, see
    /// [`Database::run`](crate::Database::run).
    ///
    /// To await a single page, run `move || query.page()` there.
    ///
    /// What fails is an item of the stream: as for [`page`](Self::page), and
    /// [`Error::Closed`](crate::Error::Closed) after [`close`](crate::Database::close).
    pub fn stream(self) -> KeyedRowStream {
        let inner = Arc::clone(self.view.inner());
        KeyedRowStream::new(inner, self.pages())
    }

    /// The ranges of PartitionKeys and RowKeys.
    pub(super) fn key_bounds(&self) -> (KeyBounds, &KeyBounds) {
        (self.partitions.bounds(), &self.rows)
    }

    /// Like [`filter`](Self::filter), but it may fail.
    pub(super) fn set_predicate(
        &mut self,
        predicate: impl FnMut(RowRef<'_>) -> HookResult<bool> + Send + 'static,
    ) {
        self.filter = Some(Box::new(predicate));
    }

    /// Like [`project`](Self::project), but it sees the whole row and may fail.
    pub(super) fn set_projection(
        &mut self,
        projection: impl FnMut(RowRef<'_>, &mut Vec<u8>) -> HookResult<()> + Send + 'static,
    ) {
        self.projection = Some(Box::new(projection));
    }

    /// The range, of a query whose last page this is.
    fn take_range(&mut self) -> ScanRange {
        let partitions = std::mem::replace(&mut self.partitions, Partitions::ALL);
        ScanRange::new(partitions, std::mem::replace(&mut self.rows, ALL_KEYS))
    }

    fn read_page(&mut self) -> Result<Page> {
        let range = ScanRange::new(self.partitions.clone(), self.rows.clone());
        self.read_ranges(std::slice::from_ref(&range))
    }

    /// Goes on where a page ended.
    pub(super) fn go_on(&mut self, continuation: &Continuation) {
        self.start = Some(continuation.clone());
    }

    /// A page of these ranges instead of the query's own.
    pub(super) fn read_ranges(&mut self, ranges: &[ScanRange]) -> Result<Page> {
        let mut projection = self.projection.take();
        let take = projection.as_deref_mut().map_or(Take::Copy, |project| Take::Project(project));
        let page = self.take_ranges(ranges, take);
        self.projection = projection;
        page.map(|(data, at)| Page::new(data, at))
    }

    /// As [`read_ranges`](Self::read_ranges), but the entities are lent to `each`.
    pub(super) fn visit_ranges(
        &mut self,
        ranges: &[ScanRange],
        each: &mut dyn FnMut(RowRef<'_>) -> HookResult<()>,
    ) -> Result<PageEnd> {
        let (data, at) = self.take_ranges(ranges, Take::Lend(each))?;
        Ok(PageEnd::new(data, at))
    }

    fn take_ranges<'p>(
        &'p mut self,
        ranges: &[ScanRange],
        take: Take<'p>,
    ) -> Result<(PageData, Version)> {
        let clock = self.view.inner().pipeline().clock();
        let time_is_up = |time| clock.monotonic().checked_add(time);
        let mut limits =
            ScanLimits { deadline: self.time_limit.and_then(time_is_up), ..self.limits };
        if let Some(left) = self.top.and_then(|left| usize::try_from(left).ok())
            && left <= limits.entities
        {
            limits.entities = left;
            limits.when_full = WhenFull::End;
        }
        let start = self.start.take().map(Continuation::into_parts);
        let request = ScanRequest {
            table: self.view.id(),
            ranges,
            direction: self.direction,
            start: start.as_ref(),
        };
        let hooks =
            ScanHooks { predicate: self.filter.as_mut().map(|filter| &mut **filter as _), take };
        let (view, at) = self.view.read_point()?;
        let data = match limits.entities {
            0 => PageData::empty(),
            _ => read::scan(&view, request, &limits, hooks, at, clock)?,
        };
        self.top = self.top.map(|left| left.saturating_sub(data.taken as u64));
        self.view.tally().page(data.taken, data.stored_bytes, data.examined);
        if data.deletions > 0 {
            self.view.inner().pipeline().note_passed(data.deletions);
        }
        Ok((data, self.view.database_version(at)))
    }
}

/// The bound just after every key with a prefix.
fn after_prefix(mut prefix: Vec<u8>) -> Bound<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < 0xFF {
            prefix.push(last + 1);
            return Bound::Excluded(prefix);
        }
    }
    Bound::Unbounded
}

/// Iterator over the pages of a query; ends after the last page or the first error.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.import(["anna", "karl", "paul"].map(|row| ("de", row, "")))?;
/// let pages: Vec<_> = table.query().limit(2).pages().collect::<Result<_, _>>()?;
/// assert_eq!((pages[0].len(), pages[1].len(), pages.len()), (2, 1, 2));
/// # Ok(())
/// # }
/// ```
#[must_use = "pages are read as they are asked for"]
pub struct Pages {
    query: Option<Query>,
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        let mut query = self.query.take()?;
        let page = query.read_page();
        if let Ok(page) = &page
            && let Some(next) = page.continuation()
        {
            query.go_on(next);
            self.query = Some(query);
        }
        Some(page)
    }
}

impl FusedIterator for Pages {}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("partitions", &self.partitions)
            .field("rows", &self.rows)
            .field("direction", &self.direction)
            .field("limits", &self.limits)
            .field("top", &self.top)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("query", &self.query).finish()
    }
}
