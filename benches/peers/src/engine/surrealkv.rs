//! surrealkv: defaults, with half the budget as block cache and an eighth as memtable.
//!
//! Its commits are asynchronous: a thread waits for its own on a runtime of two workers. Durable is
//! `Durability::Immediate`. Conditions are optimistic transactions; a conflict counts as a
//! condition that was not met, and its caller reads again. A partition is deleted by
//! `delete_range`. The log has zeros written ahead of its end. Settled is: memtables are flushed, which a
//! compaction to level 0 does. It has no call that waits for compactions, so what its background work still
//! owes is not counted.

use std::path::Path;

use anyhow::Result;
use surrealkv::{
    CompactRangeOptions, Durability, Error, LSMIterator, Mode, Options, Transaction, Tree,
    TreeBuilder,
};
use tokio::runtime::{Builder, Runtime};

use super::{ETag, Engine, Setup, Show, key};
use crate::workload::Row;

struct Surreal {
    tree: Tree,
    runtime: Runtime,
    durability: Durability,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let durability = match setup.durability {
        super::Durability::Synced => Durability::Immediate,
        super::Durability::Unsynced => Durability::Eventual,
    };
    let entered = runtime.enter();
    let options = Options::new().with_wal_preallocation(true);
    let tree = TreeBuilder::with_options(options)
        .with_path(dir.to_owned())
        .with_max_memtable_size(setup.budget / 8)
        .with_block_cache_capacity(setup.budget as u64 / 2)
        .build()?;
    drop(entered);
    Ok(Box::new(Surreal { tree, runtime, durability }))
}

impl Surreal {
    fn commit(&self, mut transaction: Transaction) -> Result<(), Error> {
        transaction.set_durability(self.durability);
        self.runtime.block_on(transaction.commit())
    }

    fn write(
        &self,
        write: impl FnOnce(&mut Transaction) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut transaction = self.tree.begin_with_mode(Mode::WriteOnly)?;
        write(&mut transaction)?;
        self.commit(transaction)
    }

    /// An unconditional write; one that lost to another writer comes after it.
    fn write_anyway(&self, write: impl Fn(&mut Transaction) -> Result<(), Error>) -> Result<()> {
        loop {
            match self.write(&write) {
                Err(Error::TransactionWriteConflict) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Writes if the condition holds of what is stored.
    fn write_if(
        &self,
        key: &[u8],
        value: &[u8],
        holds: impl FnOnce(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let mut transaction = self.tree.begin()?;
        if !holds(transaction.get_for_update(key)?.as_deref()) {
            return Ok(false);
        }
        transaction.set(key, value)?;
        match self.commit(transaction) {
            Ok(()) => Ok(true),
            Err(Error::TransactionWriteConflict) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn show(mut found: impl LSMIterator, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        found.seek_first()?;
        for _ in 0..limit {
            if !found.valid() {
                break;
            }
            each(&found.value()?);
            found.next()?;
        }
        Ok(())
    }
}

impl Engine for Surreal {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        let key = key::encode(partition, row);
        self.write_anyway(|transaction| transaction.set(&*key, value))
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        self.write_anyway(|transaction| {
            rows.iter().try_for_each(|row| {
                transaction.set(&*key::encode(&row.key.partition, &row.key.row), &row.value)
            })
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
        let transaction = self.tree.begin_with_mode(Mode::ReadOnly)?;
        Ok(transaction.get(&*key::encode(partition, row))?.map(|found| {
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
        let transaction = self.tree.begin_with_mode(Mode::ReadOnly)?;
        let found =
            transaction.range(&*key::encode(partition, from), &*key::partition_end(partition))?;
        Self::show(found, limit, each)
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let transaction = self.tree.begin_with_mode(Mode::ReadOnly)?;
        Self::show(transaction.iter()?, usize::MAX, each)
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        let key = key::encode(partition, row);
        self.write_anyway(|transaction| transaction.delete(&*key))
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        self.write_anyway(|transaction| {
            transaction.delete_range(&*key::encode(partition, b""), &*key::partition_end(partition))
        })
    }

    fn settle(&self) -> Result<()> {
        self.tree.flush_wal(true)?;
        let _runtime = self.runtime.enter();
        let flush = CompactRangeOptions {
            flush_memtable: true,
            target_level: Some(0),
            rewrite_bottommost: false,
        };
        Ok(self.tree.compact_range(None, None, &flush)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.runtime.block_on(self.tree.close())?)
    }
}
