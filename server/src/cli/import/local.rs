//! Import into a data directory. Nothing is synced before the end: an import that breaks off has
//! told nobody that anything is safe.
//!
//! A new table is loaded for as long as entities come in key order, each after the one before:
//! where there is nothing, all modes are the same. What follows is written as into any table.

use tablestone::{EntityBatch, EntityTable, Error};

use super::{CliError, Count, Group, Line, Lines, Mode, Sink, Stopped, feed};
use crate::cli::store::{Local, wait};
use crate::service::NewTable;

/// Loads the entities that come in order; gives their number, and the first that does not. If this
/// breaks off before the end, there is no table.
pub(super) fn load(
    local: &Local,
    mut table: NewTable,
    lines: &mut impl Lines,
) -> Result<(u64, Option<Line>), Stopped> {
    let (mut entities, mut next, mut fault) = (0, None, None);
    for line in lines {
        match line {
            Ok(line) if table.put(&line.entity).map_err(Stopped::at_once)? => entities += 1,
            Ok(line) => next = Some(line),
            Err(error) => fault = Some(error),
        }
        if next.is_some() || fault.is_some() {
            break;
        }
    }
    wait(table.finish()).map_err(Stopped::at_once)?.map_err(|error| match error {
        Error::OutcomeUnknown(_) => broken(error, entities),
        error => Stopped::at_once(error),
    })?;
    sync(local, entities)?;
    match fault {
        Some(reason) => Err(Stopped { reason, count: Count { written: entities, unknown: 0 } }),
        None => Ok((entities, next)),
    }
}

/// Writes all entities into a table that is there.
pub(super) fn write(
    local: &Local,
    table: &str,
    mode: Mode,
    source: &str,
    lines: impl Lines,
) -> Result<u64, Stopped> {
    if mode == Mode::InsertOrReplace {
        return replace(local, table, lines);
    }
    let mut read = 0;
    let commits = Commits { table: open(local, table)?, mode, source, written: 0 };
    let outcome = feed(lines.inspect(|line| read += u64::from(line.is_ok())), commits);
    sync(local, read)?;
    outcome
}

/// Writes all entities as the engine imports: unconditionally, in large commits.
fn replace(local: &Local, table: &str, lines: impl Lines) -> Result<u64, Stopped> {
    let table = open(local, table)?;
    let (mut fault, mut read) = (None, 0);
    let entities = lines.map_while(|line| match line {
        Ok(line) => {
            read += 1;
            Some(line.entity)
        }
        Err(error) => {
            fault = Some(error);
            None
        }
    });
    let written = match table.import(entities) {
        Ok(report) => report.rows,
        Err(error) => return Err(broken(error, read)),
    };
    sync(local, written)?;
    match fault {
        Some(reason) => Err(Stopped { reason, count: Count { written, unknown: 0 } }),
        None => Ok(written),
    }
}

/// Makes what was written survive whatever comes: so many entities.
fn sync(local: &Local, entities: u64) -> Result<(), Stopped> {
    local.database().sync().map_err(|error| broken(error, entities))
}

/// The database failed, which was given so many entities.
fn broken(error: Error, entities: u64) -> Stopped {
    Stopped { reason: error.into(), count: Count { written: 0, unknown: entities } }
}

fn open(local: &Local, table: &str) -> Result<EntityTable, Stopped> {
    let missing = || broken(Error::TableNotFound(table.into()), 0);
    local.table(table).ok_or_else(missing)
}

/// Writes each group as a transaction.
struct Commits<'a> {
    table: EntityTable,
    mode: Mode,
    /// What errors call the input.
    source: &'a str,
    written: u64,
}

impl Sink for Commits<'_> {
    fn write(&mut self, group: Group) -> Result<(), CliError> {
        let Some(first) = group.first() else {
            return Ok(());
        };
        let mut batch = EntityBatch::new(first.entity.partition_key());
        // One group is in memory at a time, whatever merges make of it.
        batch.merged_bytes(usize::MAX);
        for line in &group {
            match self.mode {
                Mode::Insert => batch.insert(&line.entity),
                Mode::InsertOrReplace => batch.insert_or_replace(&line.entity),
                Mode::InsertOrMerge => batch.insert_or_merge(&line.entity),
            };
        }
        match self.table.commit(batch).wait() {
            Ok(_) => {
                self.written += group.len() as u64;
                Ok(())
            }
            Err(error) => Err(place(error, self.source, &group)),
        }
    }

    fn settle(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    fn count(&self) -> Count {
        Count { written: self.written, unknown: 0 }
    }
}

/// The error with the line that it is about.
fn place(error: Error, source: &str, group: &Group) -> CliError {
    let (index, reason) = match &error {
        Error::EntityExists { index, .. } => {
            (*index, "there is an entity of these keys".to_owned())
        }
        Error::Entity { index, source } => (*index, source.to_string()),
        _ => return error.into(),
    };
    match group.get(index) {
        Some(line) => super::at_line(source, line, &reason),
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::Arc;

    use tablestone::env::{Fault, Operation, SimEnv};
    use tablestone::{Compression, Database, Entity, Options};

    use super::*;
    use crate::auth::Account;
    use crate::cli::place::Purpose;
    use crate::cli::with_causes;
    use crate::config::Limits;
    use crate::service::TableService;
    use crate::telemetry::Telemetry;

    /// Runs a machine for as long as the first of these is there, and a service on it.
    fn service(machine: &SimEnv) -> (Arc<()>, TableService) {
        let running = Arc::new(());
        let (until, jobs) = (Arc::downgrade(&running), machine.clone());
        std::thread::spawn(move || {
            while until.upgrade().is_some() {
                jobs.run_all();
                std::thread::yield_now();
            }
        });
        let options = Options::default().env(Arc::new(machine.clone()));
        let database = Database::open("/db", options).unwrap();
        let accounts = vec![Account::new("account", Vec::new())];
        let telemetry = Telemetry::off(false);
        let opened = TableService::open(database, accounts, Limits::default(), telemetry);
        (running, wait(opened).unwrap().unwrap())
    }

    /// R-S12: who has the directory hears of what fails as the engine tells it, also before there is a table, and what
    /// is for certain not there is not said to be there maybe.
    #[test]
    fn r_s12_a_load_that_fails_says_why() {
        let full = |on, file: &str| Fault::new(on, file, ErrorKind::StorageFull);
        let reason = "injected fault";
        let machine = SimEnv::new(1);
        let (_running, service) = service(&machine);
        let directory = tempfile::tempdir().unwrap();
        let (limits, account) = (Limits::default(), "account");
        let purpose = Purpose::Write(Compression::default(), &limits);
        let local = Local::open(directory.path().join("other"), account, purpose).unwrap();
        let table = service.load_table(account, "people").unwrap().unwrap();
        let line = |number| Ok(Line { number, entity: Entity::new("p", number.to_string()) });
        machine.fail(full(Operation::Write, ".sst"));
        let stopped = load(&local, table, &mut (1..4).map(line)).unwrap_err();
        assert!(stopped.to_string().contains(reason), "{stopped}");
        assert_eq!(stopped.count, Count::default(), "{stopped}");
        assert!(service.table_names(account).is_empty());

        machine.fail(full(Operation::Sync, ".log"));
        let error = service.load_table(account, "people").err().expect("no log");
        assert!(with_causes(&error).contains(reason), "{error}");
    }
}
