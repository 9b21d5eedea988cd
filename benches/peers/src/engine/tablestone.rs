//! tablestone: the byte-level [`Table`], defaults but for durability and budget; and, as an engine of
//! its own, all table files compressed.
//!
//! ETags are its versions, groups are its batches, a partition is deleted by one range deletion, a
//! load in key order is its own load of a new table.
//! Settled is: flushed, and no compaction owed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tablestone::{
    Batch, Compression, Database, Durability, Error, Options, Precondition, Table, Version,
};

use super::{ETag, Engine, Setup, Show, Tables};
use crate::workload::Row;

struct Tablestone {
    database: Database,
    /// At least one.
    tables: Vec<Table>,
    /// Made when it is first written to.
    beside: OnceLock<Table>,
}

impl Tablestone {
    /// The table of a partition.
    fn table(&self, partition: &[u8]) -> &Table {
        &self.tables[self.number(partition)]
    }

    fn number(&self, partition: &[u8]) -> usize {
        if self.tables.len() == 1 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(partition);
        (hasher.finish() % self.tables.len() as u64) as usize
    }
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    open_with(Options::default(), dir, setup)
}

pub(super) fn open_small(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    open_with(Options::default().compression(Compression::Zstd(1)), dir, setup)
}

fn open_with(options: Options, dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let durability = match setup.durability {
        super::Durability::Synced => Durability::Sync,
        super::Durability::Unsynced => Durability::Os,
    };
    let options = options.durability(durability).memory_budget(setup.budget);
    let database = Database::open(dir, options)?;
    let tables = (0..setup.tables.max(1))
        .map(|number| database.create_table_if_missing(&table_name(number)).wait())
        .collect::<Result<_, Error>>()?;
    Ok(Box::new(Tablestone { database, tables, beside: OnceLock::new() }))
}

fn table_name(number: usize) -> String {
    format!("peers{number}")
}

/// Whether a conditional write was done; a condition that was not met is no error here.
fn done(outcome: Result<Version, Error>) -> Result<bool> {
    match outcome {
        Ok(_) => Ok(true),
        Err(
            Error::EntityExists { .. }
            | Error::EntityNotFound { .. }
            | Error::VersionMismatch { .. },
        ) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Engine for Tablestone {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        self.table(partition).upsert(partition, row, value).wait()?;
        Ok(())
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        let mut batch = Batch::new(&first.key.partition[..]);
        for row in rows {
            batch.upsert(&row.key.row[..], &row.value[..]);
        }
        self.table(&first.key.partition).commit(batch).wait()?;
        Ok(())
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        fn import<'a>(table: &Table, rows: impl Iterator<Item = &'a Row>) -> Result<()> {
            table.import(rows.map(|row| (&row.key.partition, &row.key.row, &row.value)))?;
            Ok(())
        }
        if let [table] = &self.tables[..] {
            return import(table, rows.iter());
        }
        let mut of_tables: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            of_tables.entry(self.number(&row.key.partition)).or_default().push(row);
        }
        of_tables
            .into_iter()
            .try_for_each(|(number, rows)| import(&self.tables[number], rows.into_iter()))
    }

    fn load_sorted(&mut self, rows: &[Row]) -> Result<()> {
        for number in 0..self.tables.len() {
            self.database.drop_table(&table_name(number)).wait()?;
        }
        let loader = |number| self.database.load_table(&table_name(number));
        let mut loaders = (0..self.tables.len()).map(loader).collect::<Result<Vec<_>, Error>>()?;
        for row in rows {
            let number = self.number(&row.key.partition);
            loaders[number].put(&row.key.partition, &row.key.row, &row.value)?;
        }
        for (number, loader) in loaders.into_iter().enumerate() {
            loader.finish()?;
            self.tables[number] = self.database.table(&table_name(number))?;
        }
        Ok(())
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        done(self.table(partition).insert(partition, row, value).wait())
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let condition = Precondition::Version(Version::from_ticks(etag.0));
        done(self.table(partition).replace(partition, row, condition, value).wait())
    }

    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>> {
        Ok(self.table(partition).read(partition, row, |version, found| {
            show(found);
            ETag(version.ticks())
        })?)
    }

    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let query = self.table(partition).query().partition(partition).rows(from..).limit(limit);
        let _end = query.visit(|row| each(row.value))?;
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        for table in &self.tables {
            let mut end = table.query().visit(|row| each(row.value))?;
            while let Some(next) = end.continuation().cloned() {
                end = table.query().continue_from(next).visit(|row| each(row.value))?;
            }
        }
        Ok(())
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        self.table(partition).delete(partition, row, Precondition::None).wait()?;
        Ok(())
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        self.table(partition).delete_partition(partition).wait()?;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.database.flush()?;
        let is_busy = || {
            let stats = self.database.stats();
            let is_due = stats.compaction_debt_bytes > 0 || stats.frozen_memtables > 0;
            is_due || stats.running_compactions > 0
        };
        while is_busy() {
            while is_busy() {
                thread::sleep(Duration::from_millis(1));
            }
            // Between two compactions there is a moment in which none runs.
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { database, tables, beside } = *self;
        drop((tables, beside));
        Ok(database.close()?)
    }
}

impl Tables for Tablestone {
    fn drop_table(&self) -> Result<()> {
        (0..self.tables.len()).try_for_each(|number| {
            self.database.drop_table(&table_name(number)).wait()?;
            Ok(())
        })
    }

    fn put_beside(&self, row: &[u8]) -> Result<()> {
        if self.beside.get().is_none() {
            // Of two threads that come here at once one makes it, and both have the same.
            let _ = self.beside.set(self.database.create_table_if_missing("beside").wait()?);
        }
        let beside = self.beside.get().context("it was just made")?;
        beside.upsert("partition", row, [7; 100]).wait()?;
        Ok(())
    }

    fn get_beside(&self, row: &[u8]) -> Result<bool> {
        let beside = self.beside.get().context("nothing was written to it")?;
        Ok(beside.exists("partition", row)?)
    }
}
