//! sled: the default tree, high throughput, cache of the whole budget, a flush every half second.
//!
//! It refuses durable works: the log of 0.34 is written with `sync_file_range`, also by `flush`,
//! and that survives no power loss by its own manual (neither the device's cache nor the file's
//! metadata are written). Conditions are its compare-and-swap. A partition is deleted in batches.

use std::path::Path;

use anyhow::{Result, bail};
use sled::{Batch, Db, Mode};

use super::{Durability, ETag, Engine, Setup, Show, key};
use crate::workload::Row;

struct Sled {
    db: Db,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    if setup.durability == Durability::Synced {
        bail!("sled cannot sync: its log is written with sync_file_range");
    }
    let config = sled::Config::new().path(dir).cache_capacity(setup.budget as u64);
    let db = config.mode(Mode::HighThroughput).open()?;
    Ok(Box::new(Sled { db }))
}

impl Sled {
    fn swap(&self, key: &[u8], old: Option<&[u8]>, new: &[u8]) -> Result<bool> {
        Ok(self.db.compare_and_swap(key, old, Some(new))?.is_ok())
    }
}

impl Engine for Sled {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        self.db.insert(key::encode(partition, row), value)?;
        Ok(())
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        let mut batch = Batch::default();
        for row in rows {
            batch.insert(&*key::encode(&row.key.partition, &row.key.row), &row.value[..]);
        }
        Ok(self.db.apply_batch(batch)?)
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        self.put_group(rows)
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        self.swap(&key::encode(partition, row), None, value)
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let key = key::encode(partition, row);
        match self.db.get(&key)? {
            Some(found) if ETag::of(&found) == etag => self.swap(&key, Some(&found), value),
            _ => Ok(false),
        }
    }

    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>> {
        Ok(self.db.get(key::encode(partition, row))?.map(|found| {
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
        for found in self.db.range(range).take(limit) {
            each(&found?.1);
        }
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        for found in self.db.iter() {
            each(&found?.1);
        }
        Ok(())
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        self.db.remove(key::encode(partition, row))?;
        Ok(())
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        let range = key::encode(partition, b"")..key::partition_end(partition);
        let keys: Result<Vec<_>, _> = self.db.range(range).keys().collect();
        for keys in keys?.chunks(1_000) {
            let mut batch = Batch::default();
            keys.iter().for_each(|key| batch.remove(key));
            self.db.apply_batch(batch)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.settle()
    }
}
