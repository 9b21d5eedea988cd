//! [`TableLoader`]: a new table from rows in key order, straight into table files.
//!
//! Invariant: whenever the process ends or the machine stops, the next opening finds the whole
//! table or nothing of it, and no name ever leads to a part of it. For that the catalog says which
//! id is being loaded from before the first file is part of the tree until the table has its name,
//! both in the commit that gives it; what is left under an id that was not ended is deleted as a
//! dropped table is, unless salvage may have lost that it was.
//!
//! The rows have the version of the commit that began the load, which is theirs alone. Readers at
//! an older version than the one that gave the table its name see none of them.

use std::fmt;
use std::sync::Arc;

use super::catalog::{Begun, Catalog, LOADS, LoadedName};
use super::database::Inner;
use super::import::{ImportReport, check_row};
use super::view::catalog;
use crate::commit::Pipeline;
use crate::entity::Entity;
use crate::entity::codec::Encoder;
use crate::error::{Error, OutOfOrder, Result};
use crate::key::{self, TableId};
use crate::levels::Load;
use crate::options::Durability;
use crate::version::Version;

/// A table in the making: rows go in in key order, and [`finish`](Self::finish) makes the table
/// with all of them, or says why there is none. Dropped before, nothing is left of it.
///
/// Each byte is written once, compressed as [`Options::compression`](crate::Options::compression) has it, without log
/// and without memtable. Several tables can be loaded at once, and everything else goes on beside it.
///
/// ```
/// use tablestone::{Database, Error, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let mut readings = database.load_table("readings")?;
/// for sensor in ["a", "b"] {
///     for minute in 0..1_000 {
///         readings.put(sensor, format!("{minute:04}"), "21.5")?;
///     }
/// }
/// let late = readings.put("a", "0500", "22.0");
/// assert!(matches!(late, Err(Error::OutOfOrder(_))));
/// assert!(database.table("readings").is_err(), "there is nothing to see yet");
///
/// let report = readings.finish()?;
/// assert_eq!(report.rows, 2_000);
/// let row = database.table("readings")?.get("b", "0999")?.ok_or("it was loaded")?;
/// assert_eq!(row.version, report.version);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped before `finish`, it loads nothing"]
pub struct TableLoader {
    inner: Arc<Inner>,
    name: Arc<LoadedName>,
    id: TableId,
    /// None once it was given to the tree.
    load: Option<Load>,
    /// Whether the tree may have files of it.
    has_files: bool,
    /// Whether the catalog no longer says that it is being loaded.
    is_ended: bool,
    /// The encoded key of the row before; empty before the first.
    last_key: Vec<u8>,
    next_key: Vec<u8>,
    encoder: Encoder,
    report: ImportReport,
}

impl TableLoader {
    pub(super) fn begin(inner: &Arc<Inner>, name: &str) -> Result<Self> {
        let owned = Box::<str>::from(name);
        let owner = Arc::clone(inner);
        let begin = move |pipeline: &Pipeline| owner.catalog().begin_load(pipeline, &owned);
        let Begun { id, version, reservation, name } =
            inner.pipeline().begin(name.len(), begin).wait()?;
        Ok(Self {
            inner: Arc::clone(inner),
            name,
            id,
            load: Some(Load::new(reservation, version)),
            has_files: false,
            is_ended: false,
            last_key: Vec::new(),
            next_key: Vec::new(),
            encoder: Encoder::new(&inner.pipeline().options().entity_limits),
            report: ImportReport { version, ..ImportReport::default() },
        })
    }

    /// The name that the table will have.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Adds the next row; its PartitionKey and RowKey must come after those of the row before.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`], [`Error::LimitExceeded`]: the row is not taken, and the loader is as
    /// it was; drop it for none of the rows, or go on with those before. [`Error::Closed`],
    /// [`Error::Poisoned`]; [`Error::Io`]: nothing will be loaded, and later calls say so as
    /// [`Error::InvalidArgument`].
    pub fn put(
        &mut self,
        partition_key: impl AsRef<[u8]>,
        row_key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_row(partition_key.as_ref(), row_key.as_ref(), value.as_ref())
    }

    /// Adds the next entity, as [`put`](Self::put) does a row.
    ///
    /// # Errors
    /// [`Error::Entity`], with its position among the rows, if it breaks a rule of the data model;
    /// as [`put`](Self::put).
    pub fn put_entity(&mut self, entity: &Entity) -> Result<()> {
        let row = self.encoder.encode_whole(entity).map_err(|source| Error::Entity {
            index: usize::try_from(self.report.rows).unwrap_or(usize::MAX),
            source: Box::new(source),
        })?;
        self.put_row(entity.partition_key().as_bytes(), entity.row_key().as_bytes(), &row)
    }

    fn put_row(&mut self, partition_key: &[u8], row_key: &[u8], value: &[u8]) -> Result<()> {
        let pipeline = self.inner.pipeline();
        pipeline.check_writable()?;
        let options = pipeline.options();
        check_row(options, self.report.rows, partition_key, row_key, value)?;
        self.next_key.clear();
        key::push_table(&mut self.next_key, self.id);
        key::push_component(&mut self.next_key, partition_key);
        key::push_component(&mut self.next_key, row_key);
        if self.next_key <= self.last_key {
            return Err(self.out_of_order(partition_key, row_key));
        }
        self.load.as_mut().ok_or(Error::Closed)?.add(&self.next_key, value)?;
        std::mem::swap(&mut self.last_key, &mut self.next_key);
        self.report.rows += 1;
        self.report.bytes += (partition_key.len() + row_key.len() + value.len()) as u64;
        Ok(())
    }

    #[cold]
    fn out_of_order(&self, partition_key: &[u8], row_key: &[u8]) -> Error {
        let after = key::decode(&self.last_key);
        let found = (partition_key.to_vec(), row_key.to_vec());
        Error::OutOfOrder(Box::new(OutOfOrder { index: self.report.rows, after, found }))
    }

    /// Makes the table, with all rows that were put. Under
    /// [`Durability::Sync`] it survives power loss from then on, as any
    /// commit does; under the others as soon as a later commit would.
    ///
    /// All its rows have the report's version.
    ///
    /// # Errors
    /// [`Error::TableExists`] if somebody took the name meanwhile, even if that table was dropped again: its
    /// entities had later versions. [`Error::Busy`], [`Error::Closed`], [`Error::Io`]: nothing was loaded.
    /// [`Error::Poisoned`]: nothing was loaded. [`Error::OutcomeUnknown`]: whether there is a table is known after
    /// reopening.
    pub fn finish(mut self) -> Result<ImportReport> {
        let load = self.load.take().ok_or(Error::Closed)?;
        let pipeline = self.inner.pipeline();
        pipeline.check_writable()?;
        if pipeline.options().durability != Durability::Sync {
            // That the id is given out must be safe before files have rows of it.
            pipeline.sync()?;
        }
        self.has_files = true;
        load.install()?;
        let (id, name) = (self.id, Arc::clone(&self.name));
        let end = move |pipeline: &Pipeline| Catalog::end_load(pipeline, id, &name);
        pipeline.begin(self.name().len(), end).wait()?;
        self.is_ended = true;
        Ok(self.report)
    }
}

impl Drop for TableLoader {
    fn drop(&mut self) {
        // What is written goes before the catalog forgets it.
        self.load = None;
        let pipeline = self.inner.pipeline();
        if !self.is_ended && pipeline.check_writable().is_ok() {
            let upto = Catalog::abandon_load(pipeline, self.id, self.has_files);
            pipeline.publish_soon(upto);
        }
    }
}

impl fmt::Debug for TableLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, report, .. } = self;
        f.debug_struct("TableLoader")
            .field("name", &name.as_str())
            .field("report", report)
            .finish_non_exhaustive()
    }
}

/// Forgets the loads that were not ended when the database was open before, with their rows, unless what says that one
/// was ended may be lost.
pub(super) fn abandon_unfinished(inner: &Arc<Inner>, keeps_rows: bool) -> Result<()> {
    let pipeline = inner.pipeline();
    let mut upto = Version::ZERO;
    for page in catalog(inner).query().partition(LOADS).pages() {
        for row in &page? {
            tracing::info!(table = %row.value.escape_ascii(), "forgot a load that was not finished");
            upto = Catalog::abandon_left_load(pipeline, row.row_key, keeps_rows)?;
        }
    }
    pipeline.wait(upto)
}
