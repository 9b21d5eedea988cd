//! The process that writes, until it is done or killed: its writers, side by side in one database.
//!
//! Invariant: what a writer does is what its [story](Writer::step) says, and is [noted](Notes).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tablestone::{Batch, Database, Durability, Error, Options, Precondition, Table};

use crate::notes::{self, Note, Notes};
use crate::story::{State, Step, Writer};

/// Little memory, for many flushes and compactions.
const MEMORY_BUDGET: usize = 4 << 20;

/// When commits are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    Sync,
    Interval,
    Os,
}

impl When {
    pub fn options(self) -> Options {
        let durability = match self {
            Self::Sync => Durability::Sync,
            Self::Interval => Durability::Interval(Duration::from_millis(20)),
            Self::Os => Durability::Os,
        };
        Options::default().durability(durability).memory_budget(MEMORY_BUDGET)
    }
}

/// What a worker is to do.
#[derive(Args, Clone, Debug)]
pub struct Work {
    /// Where the database and its checkpoints are.
    #[arg(long)]
    dir: PathBuf,
    /// What says how much was done to the disk.
    #[arg(long)]
    events: PathBuf,
    /// Where notes are taken.
    #[arg(long)]
    notes: PathBuf,
    #[arg(long)]
    round: usize,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    writers: u64,
    /// Steps of each writer.
    #[arg(long)]
    steps: u64,
    #[arg(long)]
    durability: When,
}

/// A database that a writer may open anew.
type Shared = RwLock<Option<Database>>;

/// Does it, to the end.
pub fn run(work: &Work) -> Result<()> {
    let database = Database::open(work.dir.join("data"), work.durability.options())?;
    let database = Shared::new(Some(database));
    let shared = &database;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..work.writers)
            .map(|number| Writer { seed: work.seed, number })
            .map(|writer| scope.spawn(move || Worker::new(work, shared, writer)?.run()))
            .collect();
        let done = writers
            .into_iter()
            .map(|writer| writer.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done.collect::<Result<Vec<()>>>()
    })?;
    let database = database.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(database.context("an open database")?.close()?)
}

struct Worker<'a> {
    work: &'a Work,
    shared: &'a Shared,
    writer: Writer,
    events: File,
    notes: Notes,
    next: u64,
}

impl<'a> Worker<'a> {
    fn new(work: &'a Work, shared: &'a Shared, writer: Writer) -> Result<Self> {
        let mut next = 0;
        for round in 0..=work.round {
            for note in Notes::read(&notes::file(&work.notes, round, writer))? {
                if let Note::Begins { step, .. } = note {
                    next = next.max(step + 1);
                }
            }
        }
        let events = File::open(&work.events)?;
        let notes = Notes::open(&notes::file(&work.notes, work.round, writer))?;
        Ok(Self { work, shared, writer, events, notes, next })
    }

    fn run(mut self) -> Result<()> {
        self.notes.take(Note::Life)?;
        let first = self.next;
        for step in first..first + self.work.steps {
            let what = if step == first { Step::Anew } else { self.writer.step(step) };
            self.notes.take(Note::Begins { step, events: self.events()? })?;
            self.take(step, &what).with_context(|| format!("{what:?}"))?;
            self.notes.take(Note::Ended { step, events: self.events()? })?;
        }
        Ok(())
    }

    fn events(&self) -> Result<usize> {
        let mut text = [0; 20];
        let len = self.events.read_at(&mut text, 0)?;
        Ok(std::str::from_utf8(&text[..len])?.parse()?)
    }

    fn take(&self, number: u64, step: &Step) -> Result<()> {
        if matches!(step, Step::Reopen) {
            let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
            shared.take().context("an open database")?.close()?;
            let options = self.work.durability.options();
            *shared = Some(Database::open(self.work.dir.join("data"), options)?);
            return Ok(());
        }
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let database = shared.as_ref().context("an open database")?;
        match step {
            Step::Anew | Step::Load(_) => return self.make_table(database, number, step),
            Step::Flush => return Ok(database.flush()?),
            Step::Compact => return Ok(database.compact()?),
            Step::Sync => return Ok(database.sync().map(drop)?),
            Step::Checkpoint => return self.checkpoint(database, number),
            _ => {}
        }
        self.write(&database.table(&self.writer.table())?, number, step)
    }

    fn make_table(&self, database: &Database, number: u64, step: &Step) -> Result<()> {
        let name = self.writer.table();
        match database.drop_table(&name).wait() {
            Ok(_) | Err(Error::TableNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let Step::Load(_) = step else {
            database.create_table(&name).wait()?;
            return Ok(());
        };
        let mut load = database.load_table(&name)?;
        for (partition, row, value) in self.rows_after(number, step) {
            load.put(partition, row, value)?;
        }
        load.finish()?;
        Ok(())
    }

    /// What a step stores in a table that is empty, in order.
    fn rows_after(&self, number: u64, step: &Step) -> Vec<([u8; 1], [u8; 1], Vec<u8>)> {
        let after = step.after(number, &State::default()).pop().flatten().unwrap_or_default();
        after
            .into_iter()
            .map(|(key, value)| ([key.0], [key.1], self.writer.bytes(key, value)))
            .collect()
    }

    fn write(&self, table: &Table, number: u64, step: &Step) -> Result<()> {
        match step {
            Step::Delete(partition, row) => {
                table.delete([*partition], [*row], Precondition::None).wait()?;
            }
            Step::DeletePartition(partition) => {
                table.delete_partition([*partition]).wait()?;
            }
            Step::Batch { partition, rows, range } => {
                let mut batch = Batch::new([*partition]);
                if let Some((start, end)) = range {
                    batch.delete_range([*start]..[*end]);
                }
                for (_, row, value) in self.rows_after(number, step) {
                    batch.upsert(row, value);
                }
                for row in rows.iter().filter(|row| row.1.is_none()).map(|row| *row.0) {
                    batch.delete([row], Precondition::None);
                }
                table.commit(batch).wait()?;
            }
            Step::Import(_) => {
                table.import(self.rows_after(number, step))?;
            }
            _ => {
                for (partition, row, value) in self.rows_after(number, step) {
                    table.upsert(partition, row, value).wait()?;
                }
            }
        }
        Ok(())
    }

    /// Makes a checkpoint in the place of the one before.
    fn checkpoint(&self, database: &Database, number: u64) -> Result<()> {
        let prefix = format!("checkpoint-{}-", self.writer.table());
        for entry in fs::read_dir(&self.work.dir)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        database.checkpoint(self.work.dir.join(format!("{prefix}{number}")))?;
        Ok(())
    }
}
