//! Import into a data directory. Nothing is synced before the end: an import that breaks off has
//! told nobody that anything is safe.

use tablestone::{EntityBatch, EntityTable, Error};

use super::{CliError, Group, Mode, Sink, Stopped};
use crate::cli::input::Input;
use crate::cli::store::Local;

/// Writes all entities as the engine imports: unconditionally, in large commits.
pub(super) fn replace(local: &Local, table: &str, input: &mut Input) -> Result<u64, Stopped> {
    let table = open(local, table)?;
    let mut fault = None;
    let entities = input.map_while(|line| match line {
        Ok(line) => Some(line.entity),
        Err(error) => {
            fault = Some(error);
            None
        }
    });
    let report = table.import(entities);
    let report = report.map_err(|error| Stopped { reason: error.into(), written: None })?;
    sync(local)?;
    match fault {
        Some(reason) => Err(Stopped { reason, written: Some(report.rows) }),
        None => Ok(report.rows),
    }
}

/// Makes what was written survive whatever comes.
pub(super) fn sync(local: &Local) -> Result<(), Stopped> {
    let synced = local.database().sync();
    synced.map_err(|error| Stopped { reason: error.into(), written: None })
}

fn open(local: &Local, table: &str) -> Result<EntityTable, Stopped> {
    let missing = || Error::TableNotFound(table.into());
    local.table(table).ok_or_else(|| Stopped { reason: missing().into(), written: Some(0) })
}

/// Writes each group as a transaction.
pub(super) struct Commits {
    table: EntityTable,
    mode: Mode,
    source: String,
    written: u64,
}

impl Commits {
    pub(super) fn new(
        local: &Local,
        table: &str,
        mode: Mode,
        source: String,
    ) -> Result<Self, Stopped> {
        Ok(Self { table: open(local, table)?, mode, source, written: 0 })
    }
}

impl Sink for Commits {
    fn write(&mut self, group: Group) -> Result<(), CliError> {
        let Some(first) = group.first() else {
            return Ok(());
        };
        let mut batch = EntityBatch::new(first.entity.partition_key());
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
            Err(error) => Err(place(error, &self.source, &group)),
        }
    }

    fn settle(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    fn written(&self) -> u64 {
        self.written
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
