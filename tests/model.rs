//! The public API against a model, by random scripts over every operation: writes of all kinds,
//! reads of all kinds, snapshots, pages with tiny limits, flush, compaction, checkpoints, background
//! jobs, restarts and crashes. Budgets are so small that every level is reached.
//!
//! `PROPTEST_CASES` scales it.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Compression, Database, Error, Options, Snapshot, Table, TableView, Version};

use support::model::{Handles, Model, Outcome, Write, partition_key, row_key, start, table_name};
use support::query::{QuerySpec, check_all, check_query};
use support::sim::{DIR, sim_options};
use support::strategies::{config, entities, entity, query, write};

#[derive(Clone, Debug)]
enum Step {
    Write(Write),
    Get(u8, u8, u8),
    GetMany(u8, u8, Vec<u8>),
    Query(u8, QuerySpec),
    QuerySnapshot(usize, u8, QuerySpec),
    TakeSnapshot,
    DropSnapshot(usize),
    Checkpoint,
    Flush,
    Compact,
    Jobs(u8),
    SetClockBack,
    Reopen,
    Crash(CrashStyle),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => write().prop_map(Step::Write),
        6 => entity().prop_map(|(table, partition, row)| Step::Get(table, partition, row)),
        3 => entities().prop_map(|(table, partition, rows)| Step::GetMany(table, partition, rows)),
        8 => (0u8..3, query()).prop_map(|(table, query)| Step::Query(table, query)),
        4 => (any::<usize>(), 0u8..3, query())
            .prop_map(|(snapshot, table, query)| Step::QuerySnapshot(snapshot, table, query)),
        3 => Just(Step::TakeSnapshot),
        2 => any::<usize>().prop_map(Step::DropSnapshot),
        1 => Just(Step::Checkpoint),
        3 => Just(Step::Flush),
        1 => Just(Step::Compact),
        5 => (1u8..8).prop_map(Step::Jobs),
        1 => Just(Step::SetClockBack),
        1 => Just(Step::Reopen),
        1 => prop_oneof![Just(CrashStyle::LoseUnsynced), Just(CrashStyle::Torn), Just(CrashStyle::KeepAll)]
            .prop_map(Step::Crash),
    ]
}

/// A snapshot, what it must show, and the tables it can be read through.
struct Kept {
    snapshot: Snapshot,
    model: Model,
    tables: Handles,
}

/// A database beside its model.
struct Machine {
    env: SimEnv,
    options: Options,
    dir: PathBuf,
    database: Option<Database>,
    /// What the newest checkpoint is of, and what that was like then.
    origin: Option<(Database, Model)>,
    checkpoints: u32,
    handles: Handles,
    model: Model,
    kept: Vec<Kept>,
    step: u32,
    last_version: Version,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let env = SimEnv::new(seed);
        // With every other seed, much stays in the log.
        let large = if seed.is_multiple_of(2) { 200 } else { usize::MAX };
        // With every second pair, nothing is compressed before there is more than memory.
        let automatic = seed & 2 != 0;
        let compression = if automatic { Compression::Automatic } else { Compression::Zstd(1) };
        let options = sim_options(&env).large_value_bytes(large).compression(compression);
        let mut machine = Self {
            env,
            options,
            dir: DIR.into(),
            database: None,
            origin: None,
            checkpoints: 0,
            handles: Handles::new(),
            model: Model::default(),
            kept: Vec::new(),
            step: 0,
            last_version: Version::ZERO,
        };
        machine.open();
        // Most writes go to a table that is there.
        machine.write(&Write::Create(0));
        machine
    }

    fn open(&mut self) {
        self.database = Some(Database::open(&self.dir, self.options.clone()).unwrap());
    }

    fn db(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    /// Drops every handle but the database's.
    fn forget(&mut self) -> Database {
        self.handles.clear();
        self.kept.clear();
        self.database.take().unwrap()
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Write(write) => self.write(write),
            Step::Get(table, partition, row) => self.get(*table, *partition, *row),
            Step::GetMany(table, partition, rows) => self.get_many(*table, *partition, rows),
            Step::Query(table, spec) => {
                if let Some((view, rows)) = self.table(*table) {
                    check_query(&view, rows, spec);
                }
            }
            Step::QuerySnapshot(index, table, spec) => self.query_snapshot(*index, *table, spec),
            Step::TakeSnapshot => self.take_snapshot(),
            Step::DropSnapshot(index) => {
                if !self.kept.is_empty() {
                    self.kept.swap_remove(index % self.kept.len());
                }
            }
            Step::Checkpoint => self.move_to_checkpoint(),
            Step::Flush => self.db().flush().unwrap(),
            Step::Compact => self.db().compact().unwrap(),
            Step::Jobs(count) => {
                self.env.advance(Duration::from_secs(1));
                for _ in 0..*count {
                    self.env.step();
                }
            }
            Step::SetClockBack => {
                self.env.set_now(Version::from_ticks(self.last_version.ticks() / 2));
            }
            Step::Reopen => {
                self.forget().close().unwrap();
                self.open();
            }
            Step::Crash(style) => {
                self.env.crash(*style);
                self.origin = None;
                drop(self.forget());
                self.open();
            }
        }
    }

    /// Goes on with a checkpoint, which no more depends on what becomes of the database that it is of.
    fn move_to_checkpoint(&mut self) {
        self.end_origin();
        self.checkpoints += 1;
        let dir = self.dir.with_file_name(format!("checkpoint-{}", self.checkpoints));
        let version = self.db().checkpoint(&dir).unwrap();
        assert!(version >= self.last_version, "{version} before {}", self.last_version);
        self.origin = Some((self.forget(), self.model.clone()));
        self.dir = dir;
        self.open();
        check_all(self.db(), &self.model);
    }

    fn end_origin(&mut self) {
        if let Some((database, model)) = self.origin.take() {
            database.compact().unwrap();
            check_all(&database, &model);
            database.close().unwrap();
        }
    }

    fn write(&mut self, write: &Write) {
        self.step += 1;
        let before = self.model.clone();
        let started =
            start(self.database.as_ref().unwrap(), &mut self.handles, &before, write, self.step);
        let expected = self.model.apply(write, self.step);
        let result = started.wait(&mut self.handles);
        let outcome = Outcome::of(&result);
        assert!(outcome.agrees(&expected), "{write:?}: {outcome:?}, not {expected:?}");
        match result {
            Ok(version) if version != Version::ZERO => {
                // What changes nothing may be as new as what was before.
                let is_new = version > self.last_version
                    || version == self.last_version && self.model == before;
                assert!(is_new, "{version} after {}", self.last_version);
                self.last_version = version;
                self.model.acknowledge(write, version);
            }
            Ok(_) => {}
            Err(error) => {
                assert_eq!(self.model, before);
                self.check_found(&error, write);
            }
        }
    }

    /// The version that an error names is that of the entity.
    fn check_found(&self, error: &Error, write: &Write) {
        let (index, found) = match error {
            Error::EntityExists { index, version } => (*index, *version),
            Error::VersionMismatch { index, found, .. } => (*index, *found),
            _ => return,
        };
        let Write::Commit { table, partition, operations, .. } = write else { unreachable!() };
        let key = (partition_key(*partition), row_key(operations[index].row));
        assert_eq!(self.model.table(*table).unwrap()[&key].version, found);
    }

    /// A table and its model; there is either both or none.
    fn table(&self, table: u8) -> Option<(Table, &support::model::TableModel)> {
        match (self.db().table(&table_name(table)), self.model.table(table)) {
            (Ok(handle), Some(rows)) => Some((handle, rows)),
            (Err(Error::TableNotFound(_)), None) => None,
            (found, _) => panic!("table {table}: {found:?}"),
        }
    }

    fn get(&self, table: u8, partition: u8, row: u8) {
        let Some((view, rows)) = self.table(table) else { return };
        let key = (partition_key(partition), row_key(row));
        check_row(&view, rows, &key);
    }

    fn get_many(&self, table: u8, partition: u8, row_numbers: &[u8]) {
        let Some((view, rows)) = self.table(table) else { return };
        let pk = partition_key(partition);
        let row_keys: Vec<_> = row_numbers.iter().map(|row| row_key(*row)).collect();
        let found = view.get_many(&pk, &row_keys).unwrap();
        for (rk, found) in row_keys.into_iter().zip(found) {
            let expected = rows.get(&(pk.clone(), rk));
            assert_eq!(found.map(|row| (row.version, row.value)), expected.map(pair));
        }
    }

    fn take_snapshot(&mut self) {
        let tables = (0..3).filter_map(|n| self.db().table(&table_name(n)).ok());
        let tables = tables.map(|table| (table.name().to_owned(), table)).collect();
        let kept = Kept { snapshot: self.db().snapshot(), model: self.model.clone(), tables };
        self.kept.push(kept);
    }

    fn query_snapshot(&self, index: usize, table: u8, spec: &QuerySpec) {
        if self.kept.is_empty() {
            return;
        }
        let kept = &self.kept[index % self.kept.len()];
        let Some(rows) = kept.model.table(table) else { return };
        let view = kept.tables[&table_name(table)].at(&kept.snapshot).unwrap();
        check_query(&view, rows, spec);
        for key in rows.keys().step_by(10) {
            check_row(&view, rows, key);
        }
    }

    /// Holds everything against the model, now, compacted, and opened again.
    fn finish(mut self) {
        for kept in &self.kept {
            for (name, rows) in &kept.model.tables {
                let view = kept.tables[name].at(&kept.snapshot).unwrap();
                check_query(&view, rows, &QuerySpec::all());
            }
        }
        check_all(self.db(), &self.model);
        self.kept.clear();
        self.end_origin();
        self.db().compact().unwrap();
        check_all(self.db(), &self.model);
        self.db().verify().unwrap();
        self.forget().close().unwrap();
        self.open();
        check_all(self.db(), &self.model);
    }
}

fn pair(entity: &support::model::Entity) -> (Version, Vec<u8>) {
    (entity.version, entity.value.clone())
}

fn check_row(view: &TableView, rows: &support::model::TableModel, key: &support::model::Key) {
    let found = view.get(&key.0, &key.1).unwrap();
    assert_eq!(view.exists(&key.0, &key.1).unwrap(), found.is_some());
    let expected = rows.get(key);
    assert_eq!(found.map(|row| (row.version, row.value)), expected.map(pair), "{key:?}");
}

proptest! {
    #![proptest_config(config(1000, "proptest-regressions/model.txt"))]

    #[test]
    fn random_scripts_do_what_the_model_does(
        seed in any::<u64>(),
        steps in vec(step(), 10..250),
    ) {
        let mut machine = Machine::new(seed);
        steps.iter().for_each(|step| machine.run(step));
        machine.finish();
    }
}

proptest! {
    #![proptest_config(config(32, "proptest-regressions/model.txt"))]

    /// The same on the real machine, with threads that flush and compact while the script runs.
    #[test]
    fn random_scripts_do_what_the_model_does_beside_real_threads(
        steps in vec(step(), 50..200),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let options = support::options();
        let mut machine = Machine::new(0);
        drop(machine.forget());
        machine.options = options.env(Arc::new(tablestone::env::RealEnv::new()));
        machine.model = Model::default();
        machine.last_version = Version::ZERO;
        machine.dir = dir.path().join("db");
        machine.open();
        machine.write(&Write::Create(0));
        for step in &steps {
            match step {
                // Dropping the last handle closes as well.
                Step::Reopen | Step::Crash(_) => {
                    drop(machine.forget());
                    machine.open();
                }
                Step::Jobs(_) | Step::SetClockBack => std::thread::yield_now(),
                step => machine.run(step),
            }
        }
        machine.finish();
    }
}
