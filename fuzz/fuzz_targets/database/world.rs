//! The engine on a simulated machine, beside the model; every answer is compared.
//!
//! `states` holds the model after each write that is not known to be durable, the first being
//! the state that is: a crash may leave any of them, and nothing else. That a write is acknowledged
//! says that it is durable only under the default durability.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use tablestone::env::{CrashStyle, Env, Fault, Operation, SimEnv};
use tablestone::{
    Commit, Continuation, Database, Durability, Error, Options, Query, Snapshot, Table, TableView,
    Version,
};

use crate::model::{
    self, Key, Model, PartitionKey, Refusal, RowKey, Rows, Stamp, TABLES, TableNumber, Write,
};
use crate::{Crash, DiskError, Step};

const DIR: &str = "/database";
const SNAPSHOTS: usize = 3;

/// The machine was made to fail, and did: what follows is a crash.
struct Failed;

pub(crate) struct World {
    env: SimEnv,
    options: Options,
    durability: Durability,
    open: Option<Open>,
    states: VecDeque<Model>,
    versions: HashMap<Stamp, Version>,
    newest: Version,
    stamps: u64,
    /// Set while the machine may fail: how it then crashes.
    doom: Option<Crash>,
}

/// Handles of one life of the database.
struct Open {
    database: Database,
    tables: [Option<Table>; TABLES],
    /// Handles on tables that were dropped.
    dropped: [Option<Table>; TABLES],
    /// Writes whose outcome was not asked for yet: one for each of the last of `states`.
    sent: VecDeque<(Commit<Version>, Stamp)>,
    snapshots: VecDeque<Taken>,
}

struct Taken {
    snapshot: Snapshot,
    tables: [Option<Table>; TABLES],
    model: Model,
}

/// A query and how it is cut into pages.
#[derive(Arbitrary, Clone, Debug)]
pub(crate) struct Scan {
    table: TableNumber,
    partitions: (Bound<PartitionKey>, Bound<PartitionKey>),
    rows: (Bound<RowKey>, Bound<RowKey>),
    reverse: bool,
    entities: u8,
    bytes: Option<u16>,
    examined: Option<u8>,
    stop_at_partition_end: bool,
    longer_than: Option<u8>,
    snapshot: Option<u8>,
}

impl World {
    pub(crate) fn new(env: SimEnv, options: Options, durability: Durability) -> Self {
        let options = options.env(Arc::new(env.clone()));
        let mut world = Self {
            env,
            options,
            durability,
            open: None,
            states: VecDeque::from([Model::default()]),
            versions: HashMap::new(),
            newest: Version::ZERO,
            stamps: 0,
            doom: None,
        };
        world.open();
        world.step(Step::Write(Write::first_table()));
        world
    }

    pub(crate) fn step(&mut self, step: Step) {
        if let Err(Failed) = self.try_step(step) {
            let crash = self.doom.unwrap_or(Crash::LoseUnsynced);
            self.crash(crash);
        }
    }

    fn try_step(&mut self, step: Step) -> Result<(), Failed> {
        match step {
            Step::Write(write) => {
                self.write(write)?;
                self.settle()?;
            }
            Step::Send(write) => self.write(write)?,
            Step::Settle => self.settle()?,
            Step::Sync => {
                self.settle()?;
                let synced = self.handles().database.sync();
                self.checked(synced)?;
                self.all_is_durable();
            }
            Step::Scan(scan) => self.scan(&scan)?,
            Step::TakeSnapshot => self.take_snapshot()?,
            Step::ReleaseSnapshot => drop(self.handles().snapshots.pop_front()),
            Step::Flush => {
                let flushed = self.handles().database.flush();
                self.checked(flushed)?;
                self.flushed();
            }
            Step::Compact => {
                let compacted = self.handles().database.compact();
                self.checked(compacted)?;
                self.flushed();
            }
            Step::RunJobs(count) => {
                for _ in 0..count {
                    self.env.step();
                }
            }
            Step::Wait { milliseconds } => {
                self.env.run_all();
                self.env.advance(Duration::from_millis(milliseconds.into()));
                self.env.run_all();
            }
            Step::SetClockBack => {
                let now = self.env.clock().now().ticks();
                self.env.set_now(Version::from_ticks(now / 2));
            }
            Step::CloseAndOpen => self.close_and_open()?,
            Step::Crash(crash) => self.crash(crash),
            Step::PowerCut { after, crash } => {
                self.env.crash_after(after.into());
                self.doom = Some(crash);
            }
            Step::DiskError { error, after, crash } => {
                self.env.fail(fault(error, after));
                self.doom = Some(crash);
            }
        }
        Ok(())
    }

    fn handles(&mut self) -> &mut Open {
        self.open.as_mut().expect("the database is open between steps")
    }

    /// An error is a finding unless the machine was made to fail, and the error says so.
    fn checked<T>(&self, result: Result<T, Error>) -> Result<T, Failed> {
        match result {
            Ok(value) => Ok(value),
            Err(error) if self.doom.is_some() && is_of_the_machine(&error) => Err(Failed),
            Err(error) => panic!("when the machine fails as {:?}: {error:?}", self.doom),
        }
    }

    /// The oldest write that is not known to be durable was acknowledged.
    fn acknowledged(&mut self) {
        if self.durability == Durability::Sync {
            self.states.pop_front();
        }
    }

    /// A flush has returned; what is under way it perhaps did not meet.
    fn flushed(&mut self) {
        if self.handles().sent.is_empty() {
            self.all_is_durable();
        }
    }

    fn all_is_durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    fn open(&mut self) {
        let database = match Database::open(Path::new(DIR), self.options.clone()) {
            Ok(database) => database,
            Err(error) => panic!("does not open: {error:?}; files {:?}", self.files()),
        };
        let tables =
            std::array::from_fn(|number| match database.table(&TableNumber::name(number)) {
                Ok(table) => Some(table),
                Err(Error::TableNotFound(_)) => None,
                Err(error) => panic!("cannot look up a table: {error:?}"),
            });
        let open = Open {
            database,
            tables,
            dropped: Default::default(),
            sent: VecDeque::new(),
            snapshots: VecDeque::new(),
        };
        self.open = Some(open);
        self.recognise();
    }

    fn files(&self) -> Vec<String> {
        self.env.list(Path::new(DIR))
    }

    /// Finds which of the possible states was recovered; the newest that fits.
    fn recognise(&mut self) {
        let found: Vec<_> =
            self.handles().tables.iter().map(|t| t.as_ref().map(contents)).collect();
        let fits = |state: &Model| {
            state.iter().zip(&found).all(|(wanted, found)| match (wanted, found) {
                (None, None) => true,
                (Some(wanted), Some(found)) => self.same(wanted, found),
                _ => false,
            })
        };
        let Some(state) = self.states.iter().rev().find(|state| fits(state)).cloned() else {
            panic!("recovered {found:?}\nwhich is none of {:?}", self.states);
        };
        if self.durability != Durability::Sync {
            // What was acknowledged may be lost, and its versions given out again.
            self.newest = Version::ZERO;
        }
        for (wanted, found) in state.iter().zip(&found) {
            let (Some(wanted), Some(found)) = (wanted, found) else { continue };
            for ((stamp, _), (_, version, _)) in wanted.values().zip(found) {
                self.versions.insert(*stamp, *version);
                self.newest = self.newest.max(*version);
            }
        }
        self.states = VecDeque::from([state]);
    }

    /// Whether rows are the model's, with the versions that are known, one for each write.
    fn same(&self, wanted: &Rows, found: &[(Key, Version, Vec<u8>)]) -> bool {
        let mut learnt: HashMap<Stamp, Version> = HashMap::new();
        wanted.len() == found.len()
            && wanted.iter().zip(found).all(|((key, (stamp, value)), (k, version, v))| {
                let known = self.versions.get(stamp).copied();
                let one = *learnt.entry(*stamp).or_insert(*version) == *version;
                key == k && value == v && one && known.is_none_or(|known| known == *version)
            })
    }

    fn close_and_open(&mut self) -> Result<(), Failed> {
        self.settle()?;
        let Some(Open { database, .. }) = self.open.take() else { return Ok(()) };
        let closed = database.close();
        self.checked(closed)?;
        self.all_is_durable();
        if self.doom.is_some() {
            // An opening that fails half way is tried again after the crash.
            let again = Database::open(Path::new(DIR), self.options.clone());
            drop(self.checked(again)?);
            return Err(Failed);
        }
        self.open();
        Ok(())
    }

    fn crash(&mut self, crash: Crash) {
        self.env.crash(match crash {
            Crash::LoseUnsynced => CrashStyle::LoseUnsynced,
            Crash::KeepAll => CrashStyle::KeepAll,
            Crash::Torn => CrashStyle::Torn,
        });
        self.env.clear_faults();
        self.doom = None;
        self.open = None;
        self.open();
    }

    /// Sends a write; all but batches and deletions are waited for.
    fn write(&mut self, mut write: Write) -> Result<(), Failed> {
        write.tidy();
        if write.names_a_version() {
            self.settle()?;
        }
        let stamp = Stamp(self.stamps);
        self.stamps += 1;
        let newest = self.states.back().expect("there always is a state");
        match model::apply(newest, &write, stamp) {
            Ok(after) => self.do_write(&write, stamp, after),
            Err(refusal) => self.refused_write(&write, stamp, refusal),
        }
    }

    fn do_write(&mut self, write: &Write, stamp: Stamp, after: Model) -> Result<(), Failed> {
        if write.is_waited_for() {
            self.settle()?;
            self.states.push_back(after);
            let done = self.do_and_wait(write, stamp);
            self.checked(done)?;
            self.acknowledged();
            return Ok(());
        }
        let commit = self.send(write, stamp);
        // Under overload a write gets its place in the order when it is waited for.
        let gated = format!("{commit:?}").contains("gated");
        self.states.push_back(after);
        self.handles().sent.push_back((commit, stamp));
        if gated { self.settle() } else { Ok(()) }
    }

    fn do_and_wait(&mut self, write: &Write, stamp: Stamp) -> Result<(), Error> {
        let (number, name) = (write.table(), TableNumber::name(write.table()));
        let open = self.open.as_mut().expect("the database is open between steps");
        match write {
            Write::Create { .. } => {
                open.tables[number] = Some(open.database.create_table(&name).wait()?);
            }
            Write::Drop { .. } => {
                open.database.drop_table(&name).wait()?;
                open.dropped[number] = open.tables[number].take();
            }
            Write::Import { rows, .. } => {
                let table = open.tables[number].as_ref().expect("the model has it");
                let report = table.import(model::import_rows(rows, stamp))?;
                if report.rows > 0 {
                    self.versions.insert(stamp, report.version);
                }
            }
            Write::Load { rows, .. } => {
                let mut loader = open.database.load_table(&name)?;
                for ((partition_key, row_key), (_, value)) in model::loaded_rows(rows, stamp) {
                    loader.put(partition_key, row_key, value)?;
                }
                let report = loader.finish()?;
                self.versions.insert(stamp, report.version);
                open.tables[number] = Some(open.database.table(&name)?);
            }
            Write::Batch { .. } | Write::DeletePartition { .. } | Write::DeleteRange { .. } => {
                unreachable!("sent")
            }
        }
        Ok(())
    }

    fn send(&mut self, write: &Write, stamp: Stamp) -> Commit<Version> {
        let state = self.states.back().expect("there always is a state").clone();
        let versions = self.versions.clone();
        let open = self.handles();
        let number = write.table();
        let table = open.tables[number].as_ref().or(open.dropped[number].as_ref());
        let table = table.expect("a write without a handle is not sent");
        match write {
            Write::Batch { partition_key, replaced, operations, .. } => {
                let current = |key: &Key| {
                    let (stamp, _) = state[number].as_ref()?.get(key)?;
                    versions.get(stamp).copied()
                };
                let mut batch = model::batch(*partition_key, operations, stamp, current);
                if let Some((from, to)) = replaced {
                    batch.delete_range(from.bytes()..to.bytes());
                }
                table.commit(batch)
            }
            Write::DeletePartition { partition_key, .. } => {
                table.delete_partition(partition_key.bytes())
            }
            Write::DeleteRange { partition_key, from, to, .. } => {
                table.delete_range(partition_key.bytes(), from.bytes()..to.bytes())
            }
            Write::Create { .. }
            | Write::Drop { .. }
            | Write::Import { .. }
            | Write::Load { .. } => unreachable!("waited for at once"),
        }
    }

    fn refused_write(
        &mut self,
        write: &Write,
        stamp: Stamp,
        refusal: Refusal,
    ) -> Result<(), Failed> {
        let number = write.table();
        let name = TableNumber::name(number);
        let open = self.handles();
        let has_handle = open.tables[number].is_some() || open.dropped[number].is_some();
        let outcome = match write {
            Write::Create { .. } => open.database.create_table(&name).wait().map(|_| ()),
            Write::Drop { .. } => open.database.drop_table(&name).wait().map(|_| ()),
            Write::Load { .. } => open.database.load_table(&name).map(|_| ()),
            Write::Import { rows, .. } => match &open.dropped[number] {
                Some(table) if !rows.is_empty() => {
                    table.import(model::import_rows(rows, stamp)).map(|_| ())
                }
                _ => return Ok(()),
            },
            _ if has_handle => self.send(write, stamp).wait().map(|_| ()),
            _ => return Ok(()),
        };
        let found = match outcome {
            Ok(()) => panic!("{write:?} was done, and should be refused: {refusal:?}"),
            Err(Error::EntityExists { index, .. }) => Refusal::Exists(index),
            Err(Error::EntityNotFound { index }) => Refusal::NotFound(index),
            Err(Error::VersionMismatch { index, .. }) => Refusal::Mismatch(index),
            Err(Error::TableNotFound(_)) => Refusal::NoTable,
            Err(Error::TableExists(_)) => Refusal::TableExists,
            Err(error) => return self.checked(Err(error)),
        };
        assert_eq!(found, refusal, "{write:?}");
        // What the write lost to is acknowledged now, and so is all before.
        self.settle()
    }

    /// Waits for all that was sent.
    fn settle(&mut self) -> Result<(), Failed> {
        while let Some((commit, stamp)) = self.handles().sent.pop_front() {
            let outcome = commit.wait();
            let version = self.checked(outcome)?;
            // What deletes nothing is no newer than what was before.
            assert!(version >= self.newest, "{version} after {}", self.newest);
            self.newest = version;
            self.versions.insert(stamp, version);
            self.acknowledged();
        }
        Ok(())
    }

    fn take_snapshot(&mut self) -> Result<(), Failed> {
        self.settle()?;
        let model = self.states.back().expect("there always is a state").clone();
        let open = self.handles();
        let snapshot = open.database.snapshot();
        let tables = open.tables.clone();
        open.snapshots.push_back(Taken { snapshot, tables, model });
        if open.snapshots.len() > SNAPSHOTS {
            open.snapshots.pop_front();
        }
        Ok(())
    }

    fn scan(&mut self, scan: &Scan) -> Result<(), Failed> {
        self.settle()?;
        let number = scan.table.get();
        let newest = self.states.back().expect("there always is a state").clone();
        let open = self.handles();
        let taken = scan.snapshot.and_then(|which| {
            let count = open.snapshots.len();
            open.snapshots.get(usize::from(which) % count.max(1))
        });
        let (view, rows): (TableView, _) = match taken {
            Some(Taken { snapshot, tables, model }) => {
                let Some(table) = &tables[number] else { return Ok(()) };
                (table.at(snapshot).expect("of this database"), model[number].clone())
            }
            None => match (&open.tables[number], &open.dropped[number]) {
                (Some(table), _) => ((**table).clone(), newest[number].clone()),
                (None, Some(dropped)) => {
                    let refused = dropped.query().page();
                    assert!(matches!(refused, Err(Error::TableNotFound(_))), "{refused:?}");
                    return Ok(());
                }
                (None, None) => return Ok(()),
            },
        };
        let rows = rows.expect("the model has what there is a handle for");
        let found = read_pages(&view, scan);
        let found = self.checked(found)?;
        let wanted = wanted(&rows, scan);
        let matches = found.len() == wanted.len()
            && found.iter().zip(&wanted).all(|((key, version, value), (k, stamp, v))| {
                key == k && value == v && self.versions.get(stamp) == Some(version)
            });
        assert!(matches, "{scan:?}\nfound  {found:?}\nwanted {wanted:?}");
        let looked_up = self.look_up(&view, &rows);
        self.checked(looked_up)
    }

    /// Reads single entities, and many of one partition.
    fn look_up(&self, view: &TableView, rows: &Rows) -> Result<(), Error> {
        let Some(((partition_key, _), _)) = rows.iter().nth(rows.len() / 2) else { return Ok(()) };
        let of_partition = rows.iter().filter(|((pk, _), _)| pk == partition_key);
        let (mut row_keys, mut wanted) = (vec![b"missing".to_vec()], vec![None]);
        for ((_, row_key), (stamp, value)) in of_partition {
            let found = view.get(partition_key, row_key)?.map(|row| (row.version, row.value));
            let expected = self.versions.get(stamp).map(|version| (*version, value.clone()));
            assert_eq!(found, expected, "{partition_key:?} {row_key:?}");
            row_keys.push(row_key.clone());
            wanted.push(expected);
        }
        let found = view.get_many(partition_key, &row_keys)?;
        let found: Vec<_> =
            found.into_iter().map(|row| row.map(|r| (r.version, r.value))).collect();
        assert_eq!(found, wanted, "{partition_key:?}");
        let points = view.split_points(4)?;
        assert!(points.is_sorted(), "{points:?}");
        Ok(())
    }
}

/// Whether an injected error or the power cut is the cause.
fn is_of_the_machine(error: &Error) -> bool {
    let cause = match error {
        Error::Io(io) => io.source.to_string(),
        Error::Poisoned(cause)
        | Error::OutcomeUnknown(cause)
        | Error::Busy { reason: cause, .. } => cause.to_string(),
        _ => return false,
    };
    // No disk here is full by itself.
    ["injected fault", "no power", "the disk is full"].iter().any(|said| cause.contains(said))
}

fn fault(error: DiskError, after: u8) -> Fault {
    let (on, path_contains) = match error {
        DiskError::LogWrite => (Operation::Write, ".log"),
        DiskError::LogSync => (Operation::Sync, ".log"),
        DiskError::TableWrite => (Operation::Write, ".sst"),
        DiskError::TableSync => (Operation::Sync, ".sst"),
        DiskError::ManifestWrite => (Operation::Write, "MANIFEST"),
        DiskError::ManifestSync => (Operation::Sync, "MANIFEST"),
        DiskError::Create => (Operation::Create, ""),
        DiskError::Rename => (Operation::Rename, ""),
        DiskError::SyncDir => (Operation::SyncDir, ""),
    };
    let full = matches!(on, Operation::Write | Operation::Create);
    let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
    Fault { on, path_contains: path_contains.into(), kind, after: after.into(), times: 1 }
}

/// All rows of a table in order.
fn contents(table: &Table) -> Vec<(Key, Version, Vec<u8>)> {
    let pages = table.query().pages().map(|page| page.expect("a sound machine"));
    pages.flat_map(|page| page.iter().map(owned).collect::<Vec<_>>()).collect()
}

fn owned(row: tablestone::RowRef<'_>) -> (Key, Version, Vec<u8>) {
    ((row.partition_key.to_vec(), row.row_key.to_vec()), row.version, row.value.to_vec())
}

fn query(view: &TableView, scan: &Scan) -> Query {
    let (from, to) = &scan.partitions;
    let mut query = view
        .query()
        .partitions((from.map(PartitionKey::bytes), to.map(PartitionKey::bytes)))
        .rows((scan.rows.0.map(RowKey::bytes), scan.rows.1.map(RowKey::bytes)))
        .limit(usize::from(scan.entities));
    if scan.reverse {
        query = query.reverse();
    }
    if let Some(bytes) = scan.bytes {
        query = query.byte_limit(bytes.into());
    }
    if let Some(examined) = scan.examined {
        query = query.examine_at_most(examined.into());
    }
    if scan.stop_at_partition_end {
        query = query.stop_at_partition_end();
    }
    if let Some(longer_than) = scan.longer_than {
        query = query.filter(move |row| row.value.len() > usize::from(longer_than));
    }
    query
}

/// Reads a query to its end, each page from the continuation of the one before.
fn read_pages(view: &TableView, scan: &Scan) -> Result<Vec<(Key, Version, Vec<u8>)>, Error> {
    let mut found = Vec::new();
    let mut next: Option<Continuation> = None;
    loop {
        let mut query = query(view, scan);
        if let Some(next) = &next {
            query = query.continue_from(next.clone());
        }
        let page = query.page()?;
        assert!(page.len() <= usize::from(scan.entities).max(1), "more than the limit");
        found.extend(page.iter().map(owned));
        let Some(after) = page.continuation().cloned() else { return Ok(found) };
        let onwards = match (&next, scan.reverse) {
            (None, _) => true,
            (Some(before), false) => after > *before,
            (Some(before), true) => after < *before,
        };
        assert!(onwards, "{scan:?}: {after:?} is no progress after {next:?}");
        next = Some(after);
    }
}

fn wanted(rows: &Rows, scan: &Scan) -> Vec<(Key, Stamp, Vec<u8>)> {
    let partitions =
        (scan.partitions.0.map(PartitionKey::bytes), scan.partitions.1.map(PartitionKey::bytes));
    let row_keys = (scan.rows.0.map(RowKey::bytes), scan.rows.1.map(RowKey::bytes));
    let mut wanted: Vec<_> = rows
        .iter()
        .filter(|((pk, rk), (_, value))| {
            within(pk, &partitions)
                && within(rk, &row_keys)
                && scan.longer_than.is_none_or(|n| value.len() > usize::from(n))
        })
        .map(|(key, (stamp, value))| (key.clone(), *stamp, value.clone()))
        .collect();
    if scan.reverse {
        wanted.reverse();
    }
    wanted
}

fn within(key: &[u8], (from, to): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
    let after = match from {
        Bound::Included(from) => key >= from.as_slice(),
        Bound::Excluded(from) => key > from.as_slice(),
        Bound::Unbounded => true,
    };
    let before = match to {
        Bound::Included(to) => key <= to.as_slice(),
        Bound::Excluded(to) => key < to.as_slice(),
        Bound::Unbounded => true,
    };
    after && before
}
