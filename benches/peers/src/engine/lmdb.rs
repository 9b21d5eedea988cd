//! LMDB, through heed: the unnamed database, a map larger than any work needs.
//!
//! A write is a transaction, and there is one at a time, so conditions need nothing beside it and
//! writers that wait share no sync. Unsynced writes are `MDB_NOSYNC`: a killed process loses
//! nothing, a power cut may damage the file. LMDB keeps no cache of its own, so the budget does not
//! bind it: the page cache of the system is its cache. It has no checksums. A load in key order is one
//! transaction that appends. Where memory is short the system reads nothing ahead, as its
//! documentation advises.

use std::ops::Bound;
use std::path::Path;

use anyhow::Result;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RwTxn};

use super::{Durability, ETag, Engine, Setup, Show, key};
use crate::workload::Row;

const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    env: Env,
    database: Database<'static, Bytes, Bytes>,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    let mut flags = EnvFlags::empty();
    flags.set(EnvFlags::NO_SYNC, setup.durability == Durability::Unsynced);
    flags.set(EnvFlags::NO_READ_AHEAD, setup.is_memory_short);
    // SAFETY: what a power cut may do to the file ends with the work that it belongs to.
    unsafe { options.flags(flags) };
    // SAFETY: the directory is this process's own; nobody else changes the mapped file.
    let env = unsafe { options.open(dir)? };
    let transaction = env.write_txn()?;
    let database = env
        .create_databases_and_commit(transaction, |opener, transaction| {
            let database = opener.create_database::<Bytes, Bytes>(transaction, None)?;
            heed::Result::Ok(CommitOrAbort::<_, ()>::Commit(database))
        })?
        .unwrap_commit();
    Ok(Box::new(Lmdb { env, database }))
}

/// From a key up to, without, another.
fn bounds<'a>(from: &'a [u8], to: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(from), Bound::Excluded(to))
}

impl Lmdb {
    fn write(&self, write: impl FnOnce(&mut RwTxn<'_>) -> heed::Result<()>) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        write(&mut transaction)?;
        Ok(transaction.commit()?)
    }

    /// Writes if the condition holds of what is stored.
    fn write_if(
        &self,
        key: &[u8],
        value: &[u8],
        holds: impl FnOnce(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let mut transaction = self.env.write_txn()?;
        let holds = holds(self.database.get(&transaction, key)?);
        if holds {
            self.database.put(&mut transaction, key, value)?;
            transaction.commit()?;
        }
        Ok(holds)
    }
}

impl Engine for Lmdb {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        let key = key::encode(partition, row);
        self.write(|transaction| self.database.put(transaction, &key, value))
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        self.write(|transaction| {
            for row in rows {
                let key = key::encode(&row.key.partition, &row.key.row);
                self.database.put(transaction, &key, &row.value)?;
            }
            Ok(())
        })
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        self.put_group(rows)
    }

    fn load_sorted(&mut self, rows: &[Row]) -> Result<()> {
        self.write(|transaction| {
            for row in rows {
                let key = key::encode(&row.key.partition, &row.key.row);
                let append = PutFlags::APPEND;
                self.database.put_with_flags(transaction, append, &key, &row.value)?;
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
        let transaction = self.env.read_txn()?;
        let found = self.database.get(&transaction, &key::encode(partition, row))?;
        Ok(found.map(|found| {
            show(found);
            ETag::of(found)
        }))
    }

    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let transaction = self.env.read_txn()?;
        let (from, to) = (key::encode(partition, from), key::partition_end(partition));
        for found in self.database.range(&transaction, &bounds(&from, &to))?.take(limit) {
            each(found?.1);
        }
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let transaction = self.env.read_txn()?;
        for found in self.database.iter(&transaction)? {
            each(found?.1);
        }
        Ok(())
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        let key = key::encode(partition, row);
        self.write(|transaction| self.database.delete(transaction, &key).map(|_| ()))
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        let (from, to) = (key::encode(partition, b""), key::partition_end(partition));
        self.write(|transaction| {
            self.database.delete_range(transaction, &bounds(&from, &to)).map(|_| ())
        })
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
