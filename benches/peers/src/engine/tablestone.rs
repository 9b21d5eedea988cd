//! tablestone: the byte-level [`Table`], defaults but for durability and budget.
//!
//! ETags are its versions, groups are its batches, a partition is deleted by one range deletion.
//! Settled is: flushed, and no compaction owed.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tablestone::{Batch, Database, Durability, Error, Options, Precondition, Table, Version};

use super::{ETag, Engine, Setup};
use crate::workload::Row;

struct Tablestone {
    database: Database,
    table: Table,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let durability = match setup.durability {
        super::Durability::Synced => Durability::Sync,
        super::Durability::Unsynced => Durability::Os,
    };
    let options = Options::default().durability(durability).memory_budget(setup.budget);
    let database = Database::open(dir, options)?;
    let table = database.create_table_if_missing("peers")?;
    Ok(Box::new(Tablestone { database, table }))
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
        self.table.upsert(partition, row, value).wait()?;
        Ok(())
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        let mut batch = Batch::new(&first.key.partition[..]);
        for row in rows {
            batch.upsert(&row.key.row[..], &row.value[..]);
        }
        self.table.commit(batch).wait()?;
        Ok(())
    }

    fn load(&self, rows: Vec<Row>) -> Result<()> {
        let rows = rows.into_iter().map(|row| (row.key.partition, row.key.row, row.value));
        self.table.import(rows)?;
        Ok(())
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        done(self.table.insert(partition, row, value).wait())
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let condition = Precondition::Version(Version::from_ticks(etag.0));
        done(self.table.replace(partition, row, condition, value).wait())
    }

    fn get(&self, partition: &[u8], row: &[u8], value: &mut Vec<u8>) -> Result<Option<ETag>> {
        Ok(self.table.read(partition, row, |version, found| {
            value.clear();
            value.extend_from_slice(found);
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
        let page = self.table.query().partition(partition).rows(from..).limit(limit).page()?;
        page.iter().for_each(|row| each(row.value));
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        for page in self.table.query().pages() {
            page?.iter().for_each(|row| each(row.value));
        }
        Ok(())
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        self.table.delete(partition, row, Precondition::None).wait()?;
        Ok(())
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        self.table.delete_partition(partition).wait()?;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.database.sync()?;
        self.database.flush()?;
        loop {
            let stats = self.database.stats();
            if stats.compaction_debt_bytes == 0 && stats.frozen_memtables == 0 {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { database, table } = *self;
        drop(table);
        Ok(database.close()?)
    }
}
