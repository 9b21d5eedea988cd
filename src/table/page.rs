//! [`Page`]: what a query returns at a time.

use std::fmt;

use super::continuation::Continuation;
use crate::read::{PageData, RowRef, Rows, StopReason};
use crate::text::Shown;
use crate::version::Version;

/// One entity, owned.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// let version = table.insert("de", "karl", "born 1854").wait()?;
/// let karl = table.get("de", "karl")?.unwrap();
/// assert_eq!((karl.version, karl.value.as_slice()), (version, b"born 1854".as_slice()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// When it was last written: its Timestamp and ETag.
    pub version: Version,
    /// The stored bytes.
    pub value: Vec<u8>,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = Shown(&self.value);
        f.debug_struct("Row").field("version", &self.version).field("value", &value).finish()
    }
}

/// Entities of one query in key order, held in one buffer.
///
/// ```
/// use tablestone::{Database, Options, StopReason};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.import(["anna", "karl", "paul"].map(|row| ("de", row, "")))?;
/// let page = table.query().partition("de").limit(2).page()?;
/// for row in &page {
///     println!("{} at {}", row.row_key.escape_ascii(), row.version);
/// }
/// assert_eq!(page.iter().map(|row| row.row_key).collect::<Vec<_>>(), [b"anna", b"karl"]);
/// assert_eq!(page.stop_reason(), StopReason::Entities);
/// // Text that may be kept for days: the next page begins there whatever was written meanwhile.
/// let token = page.continuation().unwrap().to_string();
/// let rest = table.query().partition("de").continue_from(token.parse()?).page()?;
/// assert_eq!((rest.len(), rest.continuation()), (1, None));
/// # Ok(())
/// # }
/// ```
pub struct Page {
    data: PageData,
    continuation: Option<Continuation>,
    version: Version,
}

impl Page {
    pub(super) fn new(mut data: PageData, version: Version) -> Self {
        let next = data.next.take();
        let continuation = next.map(|(pk, rk)| Continuation::new(pk, rk));
        Self { data, continuation, version }
    }

    /// Number of entities; may be 0 though there is a continuation.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether the page has no entities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entities in order.
    pub fn iter(&self) -> Rows<'_> {
        self.data.rows()
    }

    /// The entity at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<RowRef<'_>> {
        self.data.get(index)
    }

    /// Where the query goes on; `None` if its range is exhausted.
    #[must_use]
    pub fn continuation(&self) -> Option<&Continuation> {
        self.continuation.as_ref()
    }

    /// Why the page ended.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.data.stop
    }

    /// Number of entries that were looked at, deleted and filtered ones included.
    #[must_use]
    pub fn examined(&self) -> u64 {
        self.data.examined
    }

    /// The version of the database that every entity of the page was read at (R-E11).
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

/// How it ended, not what it holds, which may be mebibytes.
impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("entities", &self.len())
            .field("continuation", &self.continuation)
            .field("stop", &self.stop_reason())
            .field("examined", &self.examined())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &'a Page {
    type Item = RowRef<'a>;
    type IntoIter = Rows<'a>;

    fn into_iter(self) -> Rows<'a> {
        self.iter()
    }
}

/// How a page ended whose entities were lent: see [`Query::visit`](crate::Query::visit).
///
/// ```
/// use tablestone::{Database, Entity, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table("people").wait()?.entities();
/// # for (row, age) in [("1", 34), ("2", 17), ("3", 51)] {
/// #     people.insert(&Entity::new("Sales", row).with("Age", age)).wait()?;
/// # }
/// // How many pass a filter, over all pages: none of them is copied.
/// let (mut adults, mut next) = (0, None);
/// loop {
///     let mut query = people.query().filter("Age ge 18".parse()?);
///     if let Some(next) = next {
///         query = query.continue_from(next);
///     }
///     let end = query.visit(|_| Ok(()))?;
///     adults += end.entities();
///     next = end.continuation().cloned();
///     if next.is_none() {
///         break;
///     }
/// }
/// assert_eq!(adults, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it says where the next page starts"]
pub struct PageEnd {
    entities: usize,
    continuation: Option<Continuation>,
    stop: StopReason,
    examined: u64,
    version: Version,
}

impl PageEnd {
    pub(super) fn new(data: PageData, version: Version) -> Self {
        let PageData { taken: entities, stop, next, examined, .. } = data;
        let continuation = next.map(|(pk, rk)| Continuation::new(pk, rk));
        Self { entities, continuation, stop, examined, version }
    }

    /// Number of entities that were lent; may be 0 though there is a continuation.
    #[must_use]
    pub fn entities(&self) -> usize {
        self.entities
    }

    /// Where the query goes on; `None` if its range is exhausted.
    #[must_use]
    pub fn continuation(&self) -> Option<&Continuation> {
        self.continuation.as_ref()
    }

    /// Why the page ended.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.stop
    }

    /// Number of entries that were looked at, deleted and filtered ones included.
    #[must_use]
    pub fn examined(&self) -> u64 {
        self.examined
    }

    /// The version of the database that every entity of the page was read at (R-E11).
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}
