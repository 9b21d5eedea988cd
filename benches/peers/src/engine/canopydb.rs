//! canopydb: one tree, write-ahead log, checksums on, page cache of half the budget.
//!
//! The other half is what it may keep of commits before a checkpoint. Writes are exclusive
//! transactions, which its documentation prefers where no other work is done inside them. Unsynced
//! commits reach the system at once. `commit_with(true)` syncs while it keeps all other commits out, so
//! durable is a commit without it and then `sync`, which several threads share. A partition is deleted by
//! `delete_range`.

use std::path::Path;

use anyhow::{Context, Result};
use canopydb::{Database, DbOptions, EnvOptions, Tree};

use super::shared_sync::SharedSync;
use super::{Durability, ETag, Engine, Setup, Show, key};
use crate::workload::Row;

const TREE: &[u8] = b"peers";

struct Canopy {
    database: Database,
    durability: Durability,
    shared: SharedSync,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let mut environment = EnvOptions::new(dir);
    environment.page_cache_size = setup.budget / 2;
    environment.use_checksums = true;
    let mut options = DbOptions::new();
    options.checkpoint_target_size = setup.budget / 4;
    options.throttle_memory_limit = setup.budget / 2;
    options.stall_memory_limit = setup.budget / 2;
    let database = Database::with_options(environment, options)?;
    let engine = Canopy { database, durability: setup.durability, shared: SharedSync::default() };
    engine.write(|_| Ok(()))?;
    Ok(Box::new(engine))
}

impl Canopy {
    fn write<T>(&self, write: impl FnOnce(&mut Tree<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.database.begin_write()?;
        let mut tree = transaction.get_or_create_tree(TREE)?;
        let written = write(&mut tree)?;
        drop(tree);
        transaction.commit_with(false)?;
        if self.durability == Durability::Synced {
            self.shared.wait(|| Ok(self.database.sync()?))?;
        }
        Ok(written)
    }

    /// Writes if the condition holds of what is stored.
    fn write_if(
        &self,
        key: &[u8],
        value: &[u8],
        holds: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        self.write(|tree| {
            let holds = holds(tree.get(key)?.as_deref());
            if holds {
                tree.insert(key, value)?;
            }
            Ok(holds)
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Tree<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.database.begin_read()?;
        let tree = transaction.get_tree(TREE)?.context("the tree was made at opening")?;
        read(&tree)
    }
}

impl Engine for Canopy {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        self.write(|tree| Ok(tree.insert(&key::encode(partition, row), value)?))
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        self.write(|tree| {
            for row in rows {
                tree.insert(&key::encode(&row.key.partition, &row.key.row), &row.value)?;
            }
            Ok(())
        })
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        self.put_group(rows)
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        self.write_if(&key::encode(partition, row), value, |found| found.is_none())
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let unchanged = |found: Option<&[u8]>| found.is_some_and(|found| ETag::of(found) == etag);
        self.write_if(&key::encode(partition, row), value, unchanged)
    }

    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>> {
        self.read(|tree| {
            Ok(tree.get(&key::encode(partition, row))?.map(|found| {
                show(&found);
                ETag::of(&found)
            }))
        })
    }

    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let range = key::encode(partition, from)..key::partition_end(partition);
        self.read(|tree| {
            for found in tree.range(range)?.take(limit) {
                each(&found?.1);
            }
            Ok(())
        })
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.read(|tree| {
            for found in tree.iter()? {
                each(&found?.1);
            }
            Ok(())
        })
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        self.write(|tree| {
            tree.delete(&key::encode(partition, row))?;
            Ok(())
        })
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        let range = key::encode(partition, b"")..key::partition_end(partition);
        self.write(|tree| Ok(tree.delete_range(range.clone())?))
    }

    fn settle(&self) -> Result<()> {
        self.database.sync()?;
        Ok(self.database.checkpoint()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.sync()?)
    }
}
