//! [`Snapshot`]: the database as it was at one version, for as long as the handle lives.

use std::fmt;
use std::sync::Arc;

use super::catalog::TableList;
use super::catalog::check_name;
use super::database::Inner;
use super::view::{TableView, catalog, list_names};
use crate::commit::Incarnation;
use crate::error::Result;
use crate::version::Version;

/// A version of the database that stays readable while a handle on it lives.
///
/// Reads through [`Table::at`](crate::Table::at), or by a table's name. It keeps the versions it needs from being
/// collected, so a long-lived one costs space.
///
/// ```
/// use tablestone::{Database, Options, Precondition};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.insert("de", "karl", "born 1854").wait()?;
/// let snapshot = database.snapshot();
/// table.delete("de", "karl", Precondition::Exists).wait()?;
/// assert!(table.at(&snapshot)?.exists("de", "karl")?);
/// assert!(!table.exists("de", "karl")?);
///
/// // All that there was then, whatever became of the tables.
/// database.drop_table("people").wait()?;
/// for name in snapshot.tables(None, 1_000)?.names {
///     let rows = snapshot.table(&name)?.query().page()?.len();
///     println!("{name} had {rows} entities");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

struct Pin {
    inner: Arc<Inner>,
    version: Version,
}

impl Snapshot {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let version = inner.pipeline().tree().register_snapshot();
        Self { pin: Arc::new(Pin { inner, version }) }
    }

    /// The version it reads: every commit up to it, none after.
    #[must_use]
    pub fn version(&self) -> Version {
        self.pin.version
    }

    /// A table as it was then, whether or not it is there still.
    ///
    /// # Errors
    /// [`Error::TableNotFound`](crate::Error::TableNotFound) if there was none of that name; as
    /// [`Database::table`](crate::Database::table).
    pub fn table(&self, name: &str) -> Result<TableView> {
        check_name(name)?;
        let (inner, incarnation) = (Arc::clone(&self.pin.inner), self.incarnation(name)?);
        Ok(TableView { inner, incarnation, snapshot: Some(self.clone()) })
    }

    /// The incarnation that a name stood for then.
    pub(super) fn incarnation(&self, name: &str) -> Result<Arc<Incarnation>> {
        let inner = &self.pin.inner;
        inner.catalog().open_at(inner.pipeline(), name, self.version())
    }

    /// Names of up to `limit` tables that there were then, of one at least, in byte order, from `from` on, inclusive.
    ///
    /// # Errors
    /// What reading the catalog returns.
    pub fn tables(&self, from: Option<&str>, limit: usize) -> Result<TableList> {
        let then = TableView { snapshot: Some(self.clone()), ..catalog(&self.pin.inner) };
        list_names(&then, from, limit)
    }

    pub(super) fn is_of(&self, inner: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.pin.inner, inner)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.inner.pipeline().tree().release_snapshot(self.version);
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("version", &self.version()).finish()
    }
}
