//! fjall: one keyspace, its defaults, LZ4 as it ships.
//!
//! The budget is halved into block cache and memtables; a fjall keyspace has up to a few sealed
//! memtables beside the active one, so each gets an eighth of the budget. A durable write is an
//! insert followed by `persist(SyncData)`, which several threads share: each call by itself
//! syncs, with the journal locked. Conditions are a get and a put
//! under a lock by key: the optimistic transactions would retry what the lock makes wait.
//! There is no range deletion, so a partition is deleted in batches. A load in key order is an
//! ingestion, straight into its table files.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::shared_sync::SharedSync;
use super::stripes::Stripes;
use super::{Durability, ETag, Engine, Setup, Show, key};
use crate::workload::Row;

struct Fjall {
    database: Database,
    keyspace: Keyspace,
    stripes: Stripes,
    durability: Durability,
    shared: SharedSync,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let database = Database::builder(dir).cache_size(setup.budget as u64 / 2).open()?;
    let memtable = (setup.budget as u64 / 8).max(1 << 20);
    let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable);
    let keyspace = database.keyspace("peers", options)?;
    let (stripes, shared, durability) = (Stripes::new(), SharedSync::default(), setup.durability);
    Ok(Box::new(Fjall { database, keyspace, stripes, durability, shared }))
}

impl Fjall {
    fn acknowledge(&self) -> Result<()> {
        if self.durability == Durability::Synced {
            self.shared.wait(|| Ok(self.database.persist(PersistMode::SyncData)?))?;
        }
        Ok(())
    }

    fn put_at(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        self.acknowledge()
    }
}

impl Engine for Fjall {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        self.put_at(&key::encode(partition, row), value)
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        let mut batch = self.database.batch();
        for row in rows {
            let key = key::encode(&row.key.partition, &row.key.row);
            batch.insert(&self.keyspace, &*key, &row.value[..]);
        }
        batch.commit()?;
        self.acknowledge()
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        self.put_group(rows)
    }

    fn load_sorted(&mut self, rows: &[Row]) -> Result<()> {
        let mut ingestion = self.keyspace.start_ingestion()?;
        for row in rows {
            ingestion.write(&*key::encode(&row.key.partition, &row.key.row), &row.value[..])?;
        }
        Ok(ingestion.finish()?)
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        let key = key::encode(partition, row);
        let _locked = self.stripes.lock(&key);
        let absent = !self.keyspace.contains_key(&key)?;
        if absent {
            self.put_at(&key, value)?;
        }
        Ok(absent)
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let key = key::encode(partition, row);
        let _locked = self.stripes.lock(&key);
        let unchanged = self.keyspace.get(&key)?.is_some_and(|found| ETag::of(&found) == etag);
        if unchanged {
            self.put_at(&key, value)?;
        }
        Ok(unchanged)
    }

    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>> {
        Ok(self.keyspace.get(key::encode(partition, row))?.map(|found| {
            show(&found);
            ETag::of(&found)
        }))
    }

    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let range = key::encode(partition, from)..key::partition_end(partition);
        for found in self.keyspace.range(range).take(limit) {
            each(&found.value()?);
        }
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        for found in self.keyspace.iter() {
            each(&found.value()?);
        }
        Ok(())
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        self.keyspace.remove(&*key::encode(partition, row))?;
        self.acknowledge()
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        let range = key::encode(partition, b"")..key::partition_end(partition);
        let mut batch = self.database.batch();
        for found in self.keyspace.range(range) {
            batch.remove(&self.keyspace, found.key()?);
            if batch.len() == 1_000 {
                std::mem::replace(&mut batch, self.database.batch()).commit()?;
            }
        }
        batch.commit()?;
        self.acknowledge()
    }

    fn settle(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll)?;
        self.keyspace.rotate_memtable_and_wait()?;
        let mut idle = 0;
        while idle < 4 {
            let busy =
                self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0;
            idle = if busy { 0 } else { idle + 1 };
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}
