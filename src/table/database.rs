//! [`Database`]: one directory, one owner; opens, closes, and gives out tables.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog::{Catalog, TableList, check_name};
use super::load::{self, TableLoader};
use super::snapshot::Snapshot;
use super::stats::Stats;
use super::strays;
use super::table::Table;
use super::task::Task;
use super::view::{catalog, list_names};
use crate::commit::{self, Applied, Commit, Incarnation, Pipeline, RecoveryReport};
use crate::env::{Jobs, LockGuard};
use crate::error::{Corruption, Error, Result};
use crate::options::{Options, Recovery};
use crate::salvage;
use crate::version::Version;

/// Closing flushes a memtable larger than this, so that the next opening replays little.
const REPLAY_AT_MOST: usize = 4 << 20;

/// An open database: a directory that this process owns.
///
/// Handles are cheap to clone and can be used from any thread; the database closes in order when
/// the last handle on it goes, or with [`close`](Database::close), which says whether that succeeded. Tables,
/// snapshots, queries, streams and loaders are such handles too; pages are not, nor commits but for that of a new
/// table, which has the table.
///
/// ```
/// use tablestone::{Database, Options};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table("people").wait()?;
/// let version = people.insert("de", "karl", "born 1854").wait()?;
/// let row = people.get("de", "karl")?.ok_or("just inserted")?;
/// assert_eq!((row.version, &row.value[..]), (version, &b"born 1854"[..]));
/// database.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
    report: Arc<RecoveryReport>,
}

pub(super) struct Inner {
    dir: PathBuf,
    pipeline: Arc<Pipeline>,
    catalog: Arc<Catalog>,
    jobs: Arc<dyn Jobs>,
    /// Dropped last: the directory stays locked until everything is closed.
    _lock: Box<dyn LockGuard>,
}

impl Database {
    /// Opens the database in a directory, creating both if missing, unless
    /// [told otherwise](Options::create_if_missing).
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open elsewhere, [`Error::NotADatabase`] if the directory holds
    /// something else, [`Error::UnsupportedFormat`] if a later version wrote it,
    /// [`Error::Corruption`] if it is damaged, [`Error::InvalidArgument`] for a bad option,
    /// [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        let dir = dir.as_ref();
        // The process may change its working directory.
        let dir = options.env.disk().absolute(dir).map_err(|e| Error::io("find", dir, e))?;
        let opened = commit::open(&dir, options)?;
        let inner = Inner {
            dir,
            pipeline: opened.pipeline,
            catalog: Arc::default(),
            jobs: opened.jobs,
            _lock: opened.lock,
        };
        let (inner, mut report) = (Arc::new(inner), opened.report);
        let options = inner.pipeline.options();
        match inner.mend_catalog(&report.lost) {
            Ok(renamed) => report.renamed_tables = renamed,
            // The tables whose names can be read are there nevertheless.
            Err(error) => report.lost.push(options.recovery.tolerate(error)?),
        }
        if options.recovery == Recovery::Salvage {
            // What was damaged is gone durably: what takes its place has to be durable, too.
            inner.pipeline.sync()?;
            salvage::end(&*options.env.disk(), &inner.dir)?;
        }
        Ok(Self { inner, report: Arc::new(report) })
    }

    /// The directory; what was relative is absolute.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// What opening found and did.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Creates a table. Of two concurrent creations of a name one wins (R-E17).
    ///
    /// The outcome is [`Error::TableExists`] if there is one, [`Error::LimitExceeded`] if the
    /// name is longer than 512 bytes, [`Error::InvalidArgument`] if it is empty.
    pub fn create_table(&self, name: &str) -> Commit<Table> {
        if let Err(error) = check_name(name) {
            return Commit::refused(Arc::clone(&self.inner.pipeline), error);
        }
        self.begin_creation(name, Catalog::create)
    }

    fn begin_creation(
        &self,
        name: &str,
        create: fn(&Catalog, &Pipeline, &str) -> Applied<Arc<Incarnation>>,
    ) -> Commit<Table> {
        let (inner, name) = (Arc::clone(&self.inner), Box::<str>::from(name));
        self.inner.pipeline.begin(name.len(), move |pipeline| {
            let created = create(&inner.catalog, pipeline, &name);
            created.map(|incarnation| Table::new(inner, incarnation))
        })
    }

    /// Begins to load a table that does not exist, from rows in key order: straight into table
    /// files, by far the cheapest way to store many rows. The table is there, with all rows, once
    /// [`TableLoader::finish`] has returned; before, nobody sees any of it.
    ///
    /// # Errors
    /// As for [`create_table`](Self::create_table).
    pub fn load_table(&self, name: &str) -> Result<TableLoader> {
        check_name(name)?;
        TableLoader::begin(&self.inner, name)
    }

    /// Opens a table, creating it if it does not exist. One that exists is opened without waiting for other
    /// writes.
    ///
    /// The outcome is as that of [`create_table`](Self::create_table), but for [`Error::TableExists`].
    pub fn create_table_if_missing(&self, name: &str) -> Commit<Table> {
        let Inner { pipeline, catalog, .. } = &*self.inner;
        if let Err(error) = check_name(name) {
            return Commit::refused(Arc::clone(pipeline), error);
        }
        match catalog.find(pipeline, name) {
            Applied { result: Err(Error::TableNotFound(_)), .. } => {
                self.begin_creation(name, Catalog::ensure)
            }
            found => {
                let found =
                    found.map(|incarnation| Table::new(Arc::clone(&self.inner), incarnation));
                Commit::applied(Arc::clone(pipeline), found)
            }
        }
    }

    /// Opens an existing table.
    ///
    /// # Errors
    /// [`Error::TableNotFound`]; as [`create_table`](Self::create_table) for the name; what reading the catalog
    /// returns.
    pub fn table(&self, name: &str) -> Result<Table> {
        check_name(name)?;
        let incarnation = match self.inner.catalog.open(&self.inner.pipeline, name) {
            // What became of the name in commits that the log failed with is never shown.
            Err(Error::Poisoned(_)) => self.snapshot().incarnation(name)?,
            opened => opened?,
        };
        Ok(Table::new(Arc::clone(&self.inner), incarnation))
    }

    /// Drops a table and all its entities in constant time; a table created with that name
    /// afterwards is empty. Handles on it return [`Error::TableNotFound`] from then on; snapshots
    /// taken before still read it. Its space is given back in the background: within seconds, if it is
    /// more than a memtable's, unless a snapshot still needs it.
    ///
    /// The outcome is the version of the drop, or [`Error::TableNotFound`]; as
    /// [`create_table`](Self::create_table) for the name.
    pub fn drop_table(&self, name: &str) -> Commit<Version> {
        if let Err(error) = check_name(name) {
            return Commit::refused(Arc::clone(&self.inner.pipeline), error);
        }
        let (catalog, name) = (Arc::clone(&self.inner.catalog), Box::<str>::from(name));
        self.inner.pipeline.begin_deletion(move |pipeline| catalog.drop_table(pipeline, &name))
    }

    /// Names of up to `limit` tables, of one at least, in byte order, from `from` on, inclusive.
    ///
    /// # Errors
    /// What reading the catalog returns.
    pub fn tables(&self, from: Option<&str>, limit: usize) -> Result<TableList> {
        list_names(&catalog(&self.inner), from, limit)
    }

    /// The database as of now, readable for as long as the snapshot lives.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.inner))
    }

    /// Runs reads, or anything else that blocks, on the database's reader threads, so that a task of an async
    /// runtime does not keep its thread while a disk is read.
    ///
    /// Reads begin in the order they were given here, some at once: twice as many as there are
    /// processors, 8 at least. The hand-over between threads costs more than a read from memory
    /// does, so hand over whole requests, not single gets. Streams and tasks that `reads` blocks on are done by its
    /// thread; it must not wait for what other threads await of them, as all readers may do so. Nothing is begun
    /// once the database is closed ([`Error::Closed`]); closing waits for what was. A panic of `reads` is that of
    /// the caller who waits for them.
    ///
    /// ```
    /// use tablestone::{Database, Options, Result};
    ///
    /// /// How many orders a customer has: from an async function, on no runtime in particular.
    /// async fn orders(database: &Database, customer: &str) -> Result<usize> {
    ///     let (orders, customer) = (database.table("orders")?, customer.to_owned());
    ///     let count = move || {
    ///         let pages = orders.query().partition(&customer).pages();
    ///         pages.map(|page| Ok(page?.len())).sum()
    ///     };
    ///     database.run(count).await
    /// }
    /// # fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir().map_err(|_| tablestone::Error::Closed)?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// # let table = database.create_table("orders").wait()?;
    /// # table.insert("customer-17", "order-1", "two chairs").wait()?;
    /// # assert_eq!(database.run(move || table.exists("customer-17", "order-1")).wait()?, true);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Who has errors of their own gives them as the outcome, in `Ok`, and asks for both:
    ///
    /// ```
    /// # use tablestone::{Database, Error, Options};
    /// #[derive(Debug)]
    /// enum Refusal {
    ///     NoSuchOrder,
    ///     Database(Error),
    /// }
    ///
    /// impl From<Error> for Refusal {
    ///     fn from(error: Error) -> Self {
    ///         Self::Database(error)
    ///     }
    /// }
    ///
    /// async fn order(database: &Database, number: &str) -> Result<Vec<u8>, Refusal> {
    ///     let (orders, number) = (database.table("orders")?, number.to_owned());
    ///     let find = move || orders.get("all", number)?.ok_or(Refusal::NoSuchOrder);
    ///     Ok(database.run(move || Ok(find())).await??.value)
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// # database.create_table("orders").wait()?;
    /// # let refused = futures_executor::block_on(order(&database, "7"));
    /// # assert!(matches!(refused, Err(Refusal::NoSuchOrder)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T: Send + 'static>(
        &self,
        reads: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Task<T> {
        self.inner.run(reads)
    }

    /// Makes every commit so far durable, whatever the durability the database was opened with.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`], [`Error::ReadOnly`], [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        self.inner.pipeline.sync()
    }

    /// Writes what is in memory to table files, so that opening again replays no log. Under
    /// [`Durability::Os`](crate::Durability::Os) and [`Interval`](crate::Durability::Interval) the log
    /// then gives its space back; under `Sync` it keeps files that are written already, which makes
    /// syncs faster.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`], [`Error::ReadOnly`], [`Error::Io`]: nothing is lost, the log still has it.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Flushes, then compacts until nothing that is deleted or overwritten takes space, but for
    /// what snapshots need. Done in the background anyway, in time; this waits for it, all in one piece:
    /// nothing else is compacted meanwhile, so of a large database writers are held back, up to
    /// [`Error::Busy`], and the files are there twice until it ends.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`], [`Error::ReadOnly`], [`Error::Corruption`], [`Error::Io`]: nothing is lost.
    pub fn compact(&self) -> Result<()> {
        self.inner.flush()?;
        self.inner.pipeline.tree().compact_all()
    }

    /// Makes a database of its own of all that is committed, in a directory that has no files or is missing, while this
    /// one goes on; returns the version of the last commit in it. It is opened as any other, and has the tables
    /// and versions that this one has then. What is in memory is flushed before.
    ///
    /// Table files are the same in both directories where the file system can have them in two (hard links): then
    /// it takes no time to speak of, and space only as this one rewrites its own. As a backup against the loss of the
    /// device it has to be copied to another one, which may be done while this one is written to.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are files in the directory, [`Error::Locked`] if another checkpoint is
    /// being made there; as [`flush`](Self::flush); [`Error::Io`]. What was made is then removed again. After a crash
    /// meanwhile the directory may hold files that no database is made of, which opening says, or none yet.
    ///
    /// ```
    /// use tablestone::{Database, Options, Precondition};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let root = tempfile::tempdir()?;
    /// let database = Database::open(root.path().join("data"), Options::default())?;
    /// let orders = database.create_table("orders").wait()?;
    /// orders.insert("alice", "0001", b"3 apples").wait()?;
    ///
    /// let version = database.checkpoint(root.path().join("monday"))?;
    /// orders.delete("alice", "0001", Precondition::Exists).wait()?;
    ///
    /// let monday = Database::open(root.path().join("monday"), Options::default())?;
    /// let row = monday.table("orders")?.get("alice", "0001")?.expect("deleted later");
    /// assert_eq!(row.value, b"3 apples");
    /// assert_eq!(row.version, version);
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Version> {
        self.inner.pipeline.checkpoint(dir.as_ref())
    }

    /// Counters and sizes. The file system is asked how much room it has; all else is in memory.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::read(&self.inner.pipeline, self.inner.catalog.activity())
    }

    /// Reads every table file through, checking all checksums and the order of keys.
    ///
    /// # Errors
    /// The first [`Error::Corruption`] or [`Error::Io`].
    pub fn verify(&self) -> Result<()> {
        self.inner.pipeline.tree().verify()
    }

    /// Reads every table file through as [`verify`](Self::verify) does, but does not end with the first
    /// damage (R-E22): of each table file the first that it has, or a large value that it refers to, which
    /// may be in another file; and whatever the device fails to read of a file, in
    /// [`ReadMode::Pread`](crate::ReadMode::Pread). None if all are whole.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn damage(&self) -> Result<Vec<Corruption>> {
        self.inner.pipeline.tree().damage()
    }

    /// Closes the database, once all that was committed is synced, whatever the durability, also where nobody waits for
    /// it: no power cut takes any of that then.
    ///
    /// Later calls on any handle that write return [`Error::Closed`], unless it was opened to be
    /// [read only](Options::read_only), and so do [`run`](Self::run), streams, [`flush`](Self::flush),
    /// [`compact`](Self::compact) and [`checkpoint`](Self::checkpoint); other reads go on. The directory stays
    /// locked until all handles are gone: [opening](Self::open) it is [`Error::Locked`] until then.
    ///
    /// It waits for the database's threads to end. On Windows none can while another drops its thread-locals, so from
    /// there neither this returns nor does dropping the last handle.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Io`]: what was acknowledged is safe in the log.
    pub fn close(self) -> Result<()> {
        self.inner.close()
    }
}

impl Inner {
    /// Forgets loads that were cut off, with their rows unless the commit that ended one may be lost; salvage then
    /// gives names to tables that have lost theirs. Returns these names.
    fn mend_catalog(self: &Arc<Self>, lost: &[Corruption]) -> Result<Vec<String>> {
        let options = self.pipeline.options();
        if !options.read_only {
            load::abandon_unfinished(self, !lost.is_empty())?;
        }
        match options.recovery {
            Recovery::Strict => Ok(Vec::new()),
            Recovery::Salvage => strays::name_strays(self, lost),
        }
    }

    pub(super) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn run<T: Send + 'static>(
        &self,
        reads: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Task<T> {
        Task::spawn(&*self.jobs, reads)
    }

    fn flush(&self) -> Result<()> {
        self.pipeline.freeze()?;
        self.pipeline.tree().flush_now()
    }

    fn close(&self) -> Result<()> {
        let replays_much = self.pipeline.tree().view().active.bytes() > REPLAY_AT_MOST;
        let flushed =
            if replays_much && !self.pipeline.options().read_only { self.flush() } else { Ok(()) };
        let closed = self.pipeline.close();
        self.pipeline.tree().close();
        self.jobs.stop();
        self.pipeline.tree().clean_up();
        flushed.and(closed)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.close()
            && !matches!(error, Error::Closed | Error::Poisoned(_))
        {
            tracing::error!(cause = %error.chain(), dir = %self.dir.display(), "closing the database failed");
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("dir", &self.inner.dir).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Durability;

    /// R-E08: whoever publishes a drop, from then on the table is not found. It is not an empty one.
    #[test]
    fn r_e08_a_drop_is_published_with_its_handles_marked() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::default().durability(Durability::Os);
        let database = Database::open(directory.path(), options).unwrap();
        let table = database.create_table("t").wait().unwrap();
        table.upsert("p", "r", "v").wait().unwrap();
        let registry = database.inner.catalog.locked();
        std::thread::scope(|scope| {
            // What marks handles waits for the registry.
            let registry = registry;
            let dropping = scope.spawn(|| database.drop_table("t").wait());
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(1));
                database.sync().unwrap();
                match table.query().page() {
                    Ok(page) => assert_eq!(page.len(), 1),
                    Err(error) => assert!(matches!(error, Error::TableNotFound(_)), "{error}"),
                }
            }
            drop(registry);
            dropping.join().unwrap().unwrap();
        });
        assert!(matches!(table.query().page(), Err(Error::TableNotFound(_))));
    }

    /// R-E24: a thread that has heard that the engine is busy waits no longer: nothing is kept of it.
    #[test]
    fn r_e24_nothing_is_kept_of_a_thread_that_heard_it_is_busy() {
        let directory = tempfile::tempdir().unwrap();
        // Nothing is compacted, so level 0 fills up.
        let options = Options::default()
            .durability(Durability::Os)
            .memory_budget(64 << 10)
            .background_threads(0)
            .busy_timeout(Duration::from_millis(1));
        let database = Database::open(directory.path(), options).unwrap();
        let table = database.create_table("t").wait().unwrap();
        let mut rows = 0..100_000u32;
        let error =
            rows.find_map(|row| table.insert("p", row.to_be_bytes(), [3; 500]).wait().err());
        assert!(matches!(error, Some(Error::Busy { .. })), "{error:?}");
        assert!(database.inner.pipeline.tree().waiters().is_empty());
    }
}
