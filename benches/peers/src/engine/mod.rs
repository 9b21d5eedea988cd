//! What a work asks of an engine, and the engines there are.
//!
//! Invariant: every adapter answers as a map from (partition, row) to value would, checked by this
//! room's tests. Where an engine lacks an operation the adapter builds it from what the engine has,
//! and its documentation says how; none gives up durability or atomicity to look faster.

#[allow(dead_code, reason = "which of it is used depends on the engines that are built in")]
mod key;
#[cfg(any(feature = "canopydb", feature = "fjall"))]
mod shared_sync;
#[cfg(any(feature = "rocksdb", feature = "fjall"))]
mod stripes;
mod tablestone;

#[cfg(feature = "canopydb")]
mod canopydb;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sled")]
mod sled;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "surrealkv")]
mod surrealkv;

#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::Result;

use crate::workload::{Row, VERSION_BYTES};

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once it is synced: it survives power loss.
    Synced,
    /// As soon as the engine has it; what a killed process loses differs, see the README.
    Unsynced,
}

/// What an engine is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub durability: Durability,
    /// Threads that will use it at a time.
    #[allow(dead_code, reason = "not used if only tablestone is built in")]
    pub threads: usize,
    /// Tables that partitions are spread over; the peers' adapters know one only.
    pub tables: usize,
    /// Bytes for caches and write buffers together.
    pub budget: usize,
    /// The process has so little memory that its page cache does not hold the data.
    #[allow(dead_code, reason = "not used if only tablestone is built in")]
    pub is_memory_short: bool,
}

/// What a conditional write compares: the entity changed if it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETag(pub u64);

impl ETag {
    /// The version at the front of a value: the ETag of engines that have none of their own.
    #[allow(dead_code, reason = "not used if only tablestone is built in")]
    fn of(value: &[u8]) -> Self {
        let version = value.first_chunk::<VERSION_BYTES>().copied().unwrap_or_default();
        Self(u64::from_le_bytes(version))
    }
}

/// Is shown the bytes of a value.
pub type Show<'a> = &'a mut dyn FnMut(&[u8]);

/// A database that works use from many threads. Values begin with eight bytes that differ in every
/// write.
pub trait Engine: Send + Sync {
    /// Stores an entity whether or not it exists.
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()>;

    /// Stores entities of one partition, all or none.
    fn put_group(&self, rows: &[Row]) -> Result<()>;

    /// Stores entities of any partitions in the way that is best for many.
    fn load(&self, rows: &[Row]) -> Result<()>;

    /// Fills a new database with these entities, which are in key order, in the way that is best for
    /// that.
    fn load_sorted(&mut self, rows: &[Row]) -> Result<()> {
        rows.chunks(1_000).try_for_each(|rows| self.load(rows))
    }

    /// Stores an entity if it does not exist; says whether it did so.
    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool>;

    /// Stores an entity if it is still as it was read; says whether it did so. Check and write are
    /// one step as seen by other conditional writes.
    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool>;

    /// Shows the value of an entity, lent if the engine can; its ETag, or `None` if there is none.
    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>>;

    /// Copies the value of an entity; as [`show`](Self::show) else.
    fn get(&self, partition: &[u8], row: &[u8], value: &mut Vec<u8>) -> Result<Option<ETag>> {
        self.show(partition, row, &mut |found| {
            value.clear();
            value.extend_from_slice(found);
        })
    }

    /// Shows up to `limit` values of a partition from a row key on, in order.
    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()>;

    /// Shows the value of every entity, in the order of their keys (of several tables in turn).
    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()>;

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()>;

    /// Deletes all entities of a partition.
    fn delete_partition(&self, partition: &[u8]) -> Result<()>;

    /// Writes back what is only in memory and logs, syncs, and waits until background work that
    /// the engine thinks necessary is done.
    fn settle(&self) -> Result<()>;

    /// Several tables, if the adapter knows such.
    fn tables(&self) -> Option<&dyn Tables> {
        None
    }

    fn close(self: Box<Self>) -> Result<()>;
}

/// A second table beside the one that all else is about.
pub trait Tables: Sync {
    /// Drops the table that all else is about.
    fn drop_table(&self) -> Result<()>;

    /// Writes a row of the other table.
    fn put_beside(&self, row: &[u8]) -> Result<()>;

    /// Whether a row of the other table exists.
    fn get_beside(&self, row: &[u8]) -> Result<bool>;
}

/// An engine by name.
pub struct Peer {
    pub name: &'static str,
    pub open: fn(&Path, Setup) -> Result<Box<dyn Engine>>,
}

/// All that this binary was built with, our own first.
pub const PEERS: &[Peer] = &[
    Peer { name: OURS, open: tablestone::open },
    Peer { name: OURS_SMALL, open: tablestone::open_small },
    #[cfg(feature = "rocksdb")]
    Peer { name: "rocksdb", open: rocksdb::open },
    #[cfg(feature = "rocksdb")]
    Peer { name: "rocksdb-plain", open: rocksdb::open_plain },
    #[cfg(feature = "fjall")]
    Peer { name: "fjall", open: fjall::open },
    #[cfg(feature = "redb")]
    Peer { name: "redb", open: redb::open },
    #[cfg(feature = "lmdb")]
    Peer { name: "lmdb", open: lmdb::open },
    #[cfg(feature = "sqlite")]
    Peer { name: "sqlite", open: sqlite::open },
    #[cfg(feature = "canopydb")]
    Peer { name: "canopydb", open: canopydb::open },
    #[cfg(feature = "surrealkv")]
    Peer { name: "surrealkv", open: surrealkv::open },
    #[cfg(feature = "sled")]
    Peer { name: "sled", open: sled::open },
];

/// The engine that all others are compared with.
pub const OURS: &str = "tablestone";
/// The same with all table files compressed.
pub const OURS_SMALL: &str = "tablestone-zstd";
/// What runs only if it is named.
pub const ONLY_IF_NAMED: [&str; 2] = [OURS_SMALL, "rocksdb-plain"];
