//! A database on a simulated machine that loses power, and the oracle of what must be left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tablestone::env::{CrashStyle, Env, SimEnv};
use tablestone::{Database, Durability, Error, Options, Recovery, Result};

use super::model::{Handles, Model, Outcome, Write, dump, start, without_versions};
use super::options;

/// Where a simulated database lives.
pub const DIR: &str = "/db";

pub const CRASH_STYLES: [CrashStyle; 3] =
    [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn];

/// Small, synced, on a simulated machine.
pub fn sim_options(env: &SimEnv) -> Options {
    options().durability(Durability::Sync).env(std::sync::Arc::new(env.clone()))
}

pub fn open(env: &SimEnv) -> Result<Database> {
    Database::open(Path::new(DIR), sim_options(env))
}

/// Opens the database for salvage.
pub fn salvage(env: &SimEnv) -> Result<Database> {
    Database::open(DIR, sim_options(env).recovery(Recovery::Salvage))
}

/// The database's files with this in their names, in the order of these.
pub fn paths(env: &SimEnv, in_name: &str) -> Vec<PathBuf> {
    let mut names = env.list(DIR.as_ref());
    names.retain(|name| name.contains(in_name));
    names.iter().map(|name| Path::new(DIR).join(name)).collect()
}

/// The first file with this in its name that has these bytes, and where they begin in it.
pub fn find(env: &SimEnv, in_name: &str, bytes: &[u8]) -> (PathBuf, u64) {
    let place = |path: PathBuf| {
        let content = env.read_file(&path).unwrap();
        let at = content.windows(bytes.len()).position(|window| window == bytes)?;
        Some((path, at as u64))
    };
    paths(env, in_name).into_iter().find_map(place).unwrap()
}

/// All files of the database, but for its lock.
pub fn contents(env: &SimEnv) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = paths(env, "").into_iter().filter(|path| !path.ends_with("LOCK"));
    paths.map(|path| (path.clone(), env.read_file(&path).unwrap())).collect()
}

/// A machine that has these files of a database.
pub fn machine_with(seed: u64, files: &[(PathBuf, Vec<u8>)]) -> SimEnv {
    let env = SimEnv::new(seed);
    env.disk().create_dir_all(DIR.as_ref()).unwrap();
    files.iter().for_each(|(path, bytes)| env.write_file(path, bytes));
    env
}

/// One step of a script that is run into a crash.
#[derive(Clone, Debug)]
pub enum Step {
    /// Starts a write without waiting for it.
    Write(Write),
    /// Waits for all that was started: from here on it must survive.
    Wait,
    /// Waits for all that was started and syncs it, whatever the durability.
    Sync,
    /// Waits for all that was started to be durable, whatever the durability.
    Durable,
    /// Lets time pass, so that timers are due.
    Tick,
    /// Flushes the memtable.
    Flush,
    Compact,
    /// Makes a checkpoint in a directory of its own.
    Checkpoint,
    /// Runs one background job.
    Job,
    /// Closes and opens again.
    Reopen,
}

/// A script on a database and on the model, with all states that a crash may leave.
pub struct Script {
    env: SimEnv,
    options: Options,
    /// States after each write, oldest first, beginning with the newest one acknowledged.
    states: Vec<Model>,
    /// Directories of checkpoints, what each has to have, and whether it was finished.
    checkpoints: Vec<(PathBuf, Model, bool)>,
    step: u32,
}

impl Script {
    pub fn new(env: &SimEnv, options: Options) -> Self {
        Self {
            env: env.clone(),
            options,
            states: vec![Model::default()],
            checkpoints: Vec::new(),
            step: 0,
        }
    }

    /// Runs steps until one fails because the power went, or to the end; says whether it got
    /// there. The database is gone afterwards, closed or not.
    pub fn run(&mut self, steps: &[Step]) -> bool {
        match self.run_steps(steps) {
            Ok(()) => true,
            Err(Error::Io(_) | Error::Poisoned(_) | Error::OutcomeUnknown(_) | Error::Closed) => {
                false
            }
            // Nothing can be flushed without power.
            Err(Error::Busy { reason, .. }) if reason.contains("no power") => false,
            Err(error) => panic!("no power cut is the cause of this: {error}"),
        }
    }

    fn run_steps(&mut self, steps: &[Step]) -> Result<()> {
        let mut database = self.open()?;
        let mut handles = Handles::new();
        let mut under_way = Vec::new();
        // Whether the newest state is of one of these.
        let mut is_last_under_way = false;
        for step in steps {
            match step {
                Step::Write(write) => {
                    self.step += 1;
                    let before = self.newest().clone();
                    let started = start(&database, &mut handles, &before, write, self.step);
                    let mut after = before;
                    let expected = after.apply(write, self.step);
                    self.states.push(after);
                    is_last_under_way = !(started.is_over() || started.is_held_back());
                    if !is_last_under_way {
                        settle(started, &mut handles, &expected)?;
                    } else {
                        under_way.push((started, expected));
                    }
                }
                Step::Wait => {
                    for (started, expected) in under_way.drain(..) {
                        settle(started, &mut handles, &expected)?;
                    }
                    self.acknowledge();
                }
                Step::Sync => {
                    for (started, expected) in under_way.drain(..) {
                        settle(started, &mut handles, &expected)?;
                    }
                    database.sync()?;
                    self.acknowledge();
                }
                Step::Durable => {
                    let is_all = is_last_under_way && !under_way.is_empty();
                    for (started, expected) in under_way.drain(..) {
                        settle(started.durable(), &mut handles, &expected)?;
                    }
                    if is_all {
                        self.acknowledge();
                    }
                }
                Step::Tick => self.env.advance(Duration::from_millis(10)),
                Step::Flush => database.flush()?,
                Step::Compact => database.compact()?,
                Step::Checkpoint => self.checkpoint(&database)?,
                Step::Job => {
                    self.env.step();
                }
                Step::Reopen => {
                    under_way.clear();
                    handles.clear();
                    database.close()?;
                    self.acknowledge();
                    database = self.open()?;
                }
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<Database> {
        Database::open(Path::new(DIR), self.options.clone())
    }

    fn checkpoint(&mut self, database: &Database) -> Result<()> {
        let dir = PathBuf::from(format!("/checkpoint-{}", self.checkpoints.len()));
        self.checkpoints.push((dir.clone(), self.newest().clone(), false));
        database.checkpoint(&dir)?;
        self.checkpoints.last_mut().unwrap().2 = true;
        Ok(())
    }

    /// A checkpoint has what its database had then. One that was not finished may have nothing, or be refused.
    fn check_checkpoints(&self, context: &str) {
        for (dir, model, is_finished) in &self.checkpoints {
            let database = match Database::open(dir, self.options.clone()) {
                Err(Error::Corruption(_)) if !is_finished => continue,
                database => database.unwrap_or_else(|e| panic!("{context}: {dir:?}: {e:?}")),
            };
            let found = without_versions(&dump(&database));
            let is_empty = !is_finished && found == Model::default();
            assert!(found == *model || is_empty, "{context}: {dir:?}: {}", brief(&found));
            database.verify().unwrap();
            database.close().unwrap();
        }
    }

    fn newest(&self) -> &Model {
        self.states.last().unwrap()
    }

    fn acknowledge(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// After a crash: opens, and what is there must be one of the states that may be left: no
    /// acknowledged write missing, no batch in part, no write without those before it.
    pub fn check(&mut self, context: &str) {
        let read = self.read_only(context);
        let database = self.check_salvaged(context);
        assert!(read == dump(&database), "{context}: what is only read is {}", brief(&read));
        self.check_checkpoints(context);
        assert!(database.recovery_report().lost.is_empty(), "{context}: a crash is no damage");
    }

    /// What is read of a database of which nothing may change.
    fn read_only(&self, context: &str) -> Model {
        let files = || {
            let names = self.env.list(Path::new(DIR)).into_iter();
            let read = |name: String| (self.env.read_file(&Path::new(DIR).join(&name)).ok(), name);
            names.map(read).collect::<Vec<_>>()
        };
        let before = files();
        let options = self.options.clone().recovery(Recovery::Strict).read_only(true);
        let read = match Database::open(Path::new(DIR), options) {
            Ok(database) => dump(&database),
            Err(Error::NotADatabase { .. }) => Model::default(),
            Err(error) => panic!("{context}: cannot be read: {error:?}"),
        };
        assert!(files() == before, "{context}: reading changed a file");
        read
    }

    /// The same after damage that loses nothing.
    pub fn check_salvaged(&mut self, context: &str) -> Database {
        let database = match self.open() {
            Ok(database) => database,
            Err(error) => panic!("{context}: cannot be opened: {error:?}"),
        };
        let found = dump(&database);
        for (name, rows) in &found.tables {
            let table = database.table(name).unwrap();
            for ((pk, rk), entity) in &**rows {
                let got = table.get(pk, rk).unwrap().map(|row| row.version);
                assert_eq!(got, Some(entity.version), "{context}: a get and a scan differ");
            }
        }
        let found = without_versions(&found);
        let Some(position) = self.states.iter().rposition(|state| *state == found) else {
            let acknowledged = &self.states[0];
            panic!(
                "{context}: after the crash there is none of {} possible states\n\
                 acknowledged: {}\nfound: {}",
                self.states.len(),
                brief(acknowledged),
                brief(&found)
            );
        };
        self.states = vec![self.states.swap_remove(position)];
        database.verify().unwrap();
        database
    }
}

/// A model in few words.
fn brief(model: &Model) -> String {
    let mut text = String::new();
    for (name, table) in &model.tables {
        text += &format!("\n  {name}:");
        for ((pk, rk), entity) in &**table {
            let step = entity.value.iter().take(4).fold(0u32, |n, byte| n << 8 | u32::from(*byte));
            text += &format!(" {}={step}", super::key(pk, rk).escape_debug());
        }
    }
    text
}

fn settle(started: super::model::Started, handles: &mut Handles, expected: &Outcome) -> Result<()> {
    let result = started.wait(handles);
    let outcome = Outcome::of(&result);
    match (outcome, result) {
        (Outcome::Failed(_), Err(error)) => Err(error),
        (outcome, _) => {
            assert!(outcome.agrees(expected), "{outcome:?}, not {expected:?}");
            Ok(())
        }
    }
}
