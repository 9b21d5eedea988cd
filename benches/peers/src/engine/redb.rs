//! redb: one table of byte strings, cache of the whole budget.
//!
//! A write is a transaction, and there is one at a time, so conditions need nothing beside it and
//! writers that wait share no sync. Unsynced writes are commits with `Durability::None`, which a
//! killed process loses; settling commits once with `Durability::Immediate`. A load in key order is one
//! transaction.

use std::path::Path;

use anyhow::Result;
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, Table, TableDefinition,
};

use super::{ETag, Engine, Setup, Show, key};
use crate::workload::Row;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("peers");

type Writable<'a> = Table<'a, &'static [u8], &'static [u8]>;

struct Redb {
    database: Database,
    durability: Durability,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let database = Database::builder().set_cache_size(setup.budget).create(dir.join("redb"))?;
    let durability = match setup.durability {
        super::Durability::Synced => Durability::Immediate,
        super::Durability::Unsynced => Durability::None,
    };
    let engine = Redb { database, durability };
    engine.commit(Durability::Immediate, |_| Ok(()))?;
    Ok(Box::new(engine))
}

impl Redb {
    fn commit<T>(
        &self,
        durability: Durability,
        write: impl FnOnce(&mut Writable<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(durability)?;
        let written = write(&mut transaction.open_table(TABLE)?)?;
        transaction.commit()?;
        Ok(written)
    }

    fn write<T>(&self, write: impl FnOnce(&mut Writable<'_>) -> Result<T>) -> Result<T> {
        self.commit(self.durability, write)
    }

    /// Writes if the condition holds of what is stored.
    fn write_if(
        &self,
        key: &[u8],
        value: &[u8],
        holds: impl FnOnce(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let mut table = transaction.open_table(TABLE)?;
        if !holds(table.get(key)?.as_ref().map(|found| found.value())) {
            drop(table);
            transaction.abort()?;
            return Ok(false);
        }
        table.insert(key, value)?;
        drop(table);
        transaction.commit()?;
        Ok(true)
    }

    fn read(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        Ok(self.database.begin_read()?.open_table(TABLE)?)
    }
}

impl Engine for Redb {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        let key = key::encode(partition, row);
        self.write(|table| {
            table.insert(&key[..], value)?;
            Ok(())
        })
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        self.write(|table| {
            for row in rows {
                let key = key::encode(&row.key.partition, &row.key.row);
                table.insert(&key[..], &row.value[..])?;
            }
            Ok(())
        })
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        self.put_group(rows)
    }

    fn load_sorted(&mut self, rows: &[Row]) -> Result<()> {
        self.write(|table| {
            for row in rows {
                let key = key::encode(&row.key.partition, &row.key.row);
                table.insert(&key[..], &row.value[..])?;
            }
            Ok(())
        })
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        self.write_if(&key::encode(partition, row), value, |found| found.is_none())
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let unchanged = |found: Option<&[u8]>| found.is_some_and(|found| ETag::of(found) == etag);
        self.write_if(&key::encode(partition, row), value, unchanged)
    }

    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>> {
        let key = key::encode(partition, row);
        Ok(self.read()?.get(&key[..])?.map(|found| {
            show(found.value());
            ETag::of(found.value())
        }))
    }

    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let (from, to) = (key::encode(partition, from), key::partition_end(partition));
        for found in self.read()?.range(&from[..]..&to[..])?.take(limit) {
            each(found?.1.value());
        }
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        for found in self.read()?.iter()? {
            each(found?.1.value());
        }
        Ok(())
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        let key = key::encode(partition, row);
        self.write(|table| {
            table.remove(&key[..])?;
            Ok(())
        })
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        let (from, to) = (key::encode(partition, b""), key::partition_end(partition));
        self.write(|table| Ok(table.retain_in(&from[..]..&to[..], |_, _| false)?))
    }

    fn settle(&self) -> Result<()> {
        self.commit(Durability::Immediate, |_| Ok(()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.close()?)
    }
}
