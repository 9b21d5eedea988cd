//! An LSM-tree storage engine for entities addressed by (table, PartitionKey, RowKey): the data
//! model of Azure Table storage, embedded.
//!
//! Every write is a conditional batch on one partition: atomic, by default durable once it is acknowledged, and stamped
//! with a [`Version`] that is commit order, Timestamp and ETag at once. Every read shows one version of the database
//! and takes no lock. Queries answer in pages, whose continuations are plain data.
//!
//! ```
//! use tablestone::{Batch, Database, Error, Options, Precondition};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let database = Database::open(dir.path(), Options::default())?;
//! let orders = database.create_table("orders").wait()?;
//!
//! // An entity group transaction: all or nothing, one sync.
//! let mut batch = Batch::new("customer-17");
//! batch.insert("order-1", "two chairs").insert("order-2", "a table");
//! let version = orders.commit(batch).wait()?;
//!
//! // Optimistic concurrency: the version is the ETag.
//! let matching = Precondition::Version(version);
//! orders.replace("customer-17", "order-1", matching, "three chairs").wait()?;
//! let late = orders.replace("customer-17", "order-1", matching, "no chairs").wait();
//! assert!(matches!(late, Err(Error::VersionMismatch { .. })));
//!
//! // A partition in key order, a page at a time.
//! for page in orders.query().partition("customer-17").limit(1).pages() {
//!     for row in page?.iter() {
//!         println!("{:?} is at {}", row.row_key, row.version);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # From async code
//!
//! A [`Commit`], which is a write, and a [`Task`] of [`Database::run`] can be awaited or waited for: they are futures
//! that need no runtime. Dropping a commit does not undo it, unless the engine was overloaded and had not taken it yet
//! ([`Commit::order`]).
//!
//! The call that makes a commit does not wait for the log or for other writers, but it may block for two reasons. It
//! looks the condition up itself, on disk where it must. And it does so under a latch of the partition, which a merge
//! in the same partition, or in one that shares the latch, may hold for as long as its function takes.
//!
//! Reads block while they read from disk, and so do loads, imports, `sync`, `flush`, `compact`, `checkpoint` and
//! `verify`. [`Database::run`] runs any of these on a thread of the database, to be awaited; entities come as a stream
//! from [`EntityQuery::stream`] and [`Query::stream`].
//!
//! ```
//! # use std::path::PathBuf;
//! # use tablestone::{Database, Options, Result, Version};
//! /// Makes a table and a backup: from an async function, on no runtime in particular.
//! async fn prepare(database: &Database, backup: PathBuf) -> Result<Version> {
//!     let orders = database.create_table_if_missing("orders").await?;
//!     orders.insert("customer-17", "order-1", "two chairs").await?;
//!     let handle = database.clone();
//!     database.run(move || handle.checkpoint(backup)).await
//! }
//! # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let database = Database::open(dir.path().join("data"), Options::default())?;
//! # let version = futures_executor::block_on(prepare(&database, dir.path().join("backup")))?;
//! # assert!(version > Version::ZERO);
//! # Ok(())
//! # }
//! ```
//!
//! [Opening](Database::open), [closing](Database::close), and dropping the last handle, which closes, block too. Do
//! them on a thread of your runtime that may block. With tokio:
//! `spawn_blocking(move || Database::open(dir, options)).await??`.
//!
//! # What it tells
//!
//! [`Database::stats`] has sizes and counters, among them why writes wait or background work fails at present, and
//! [`TableView::activity`] what was read and written of one table.
//!
//! What no call returns is an event of the crate `tracing`, and is lost where the program has no subscriber. Errors are
//! that the log failed, that a flush or a compaction did, or the close of a last handle that was dropped. Warnings are
//! that writes stop, or that the disk is full. Each flush and compaction is an event of level debug.
//!
//! # Rooms
//!
//! The rooms are the top-level modules of this crate, from the top floor down; each calls only rooms below it:
//!
//! | room | holds |
//! | --- | --- |
//! | `table` | what users hold: [`Database`], [`Table`], [`Batch`], [`Query`], [`Page`], [`Snapshot`] |
//! | `entity` | typed properties, their limits, the form they are stored in: [`Entity`], [`Value`] |
//! | `commit` | latches, conditions, group commit, publication to readers, opening |
//! | `read` | point reads, multi-gets, scans, estimates |
//! | `levels` | manifest, flush, compaction, retention, back-pressure |
//! | `merge` | many sorted sources read as one |
//! | `sst`, `wal`, `memtable` | table files, the log, the newest entries |
//! | `cache` | uncompressed blocks of table files and single rows of them, within a budget |
//! | [`env`](mod@env) | files, clock, background jobs; real, and simulated for tests that crash |
//!
//! A number such as R-E12 or W-091 names the requirement that a rule or a limit comes from; the tests of that
//! requirement have the number in their names.
//!
//! DESIGN.md has the formats byte by byte, the argument why a crash is safe, and the figures.

#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_lossless
)]

#[cfg(not(target_has_atomic = "64"))]
compile_error!("tablestone needs a processor with atomic operations on 64 bits");

mod activity;
mod cache;
mod commit;
mod entity;
mod entry;
pub mod env;
mod error;
mod key;
mod levels;
mod memtable;
mod merge;
mod metrics;
mod options;
mod prefetch;
mod read;
mod reference;
mod salvage;
mod sst;
mod sync;
mod table;
mod text;
mod tombstone;
mod varint;
mod version;
mod wake;
mod wal;

pub use activity::Activity;
pub use commit::{Commit, Precondition, RecoveryReport, TornTail};
#[cfg(feature = "serde")]
pub use entity::SerdeError;
pub use entity::{
    DateTime, ETag, Entity, EntityError, EntityLimits, EntityRef, Explain, Filter, FilterError,
    FilterErrorKind, FilterProperty, FromValue, Guid, IfMatch, IntoValue, NotAnEntity, ParseError,
    Plan, RowError, Shape, Value, ValueRef, ValueType, ValueVisitor,
};
pub use error::{Corruption, Error, IoError, Limit, MergeRefusal, OutOfOrder, Result};
pub use levels::LevelStats;
pub use options::{Compression, Durability, Options, ReadMode, Recovery};
pub use read::{Estimate, RowRef, Rows, StopReason};
pub use table::{
    Batch, Continuation, Database, Entities, EntityBatch, EntityPage, EntityPages, EntityQuery,
    EntityRows, EntityStream, EntityTable, EntityView, ImportReport, KeyedRow, KeyedRowStream,
    KeyedRows, Page, PageEnd, Pages, Query, Row, Snapshot, Stats, Table, TableList, TableLoader,
    TableView, Task,
};
pub use version::Version;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The decoders of stored bytes, for fuzzing.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::commit::fuzz_payload;
    pub use crate::entity::filter::fuzz::*;
    pub use crate::entity::fuzz::*;
    pub use crate::levels::fuzz::*;
    pub use crate::sst::fuzz::*;
    pub use crate::wal::fuzz::*;
}

/// What the benchmarks of this package reach beneath the public surface.
#[doc(hidden)]
pub mod bench_api {
    pub use crate::cache::bench::BenchCache;
    pub use crate::commit::bench::BenchPayload;
    pub use crate::entity::bench::{BenchFind, BenchProjection, BenchRow};
    pub use crate::entity::filter::bench::BenchFilter;
    pub use crate::levels::bench::BenchLevels;
    pub use crate::memtable::bench::{BenchKey, BenchMemtable};
    pub use crate::merge::bench::BenchMerge;
    pub use crate::sst::bench::BenchTable;
    pub use crate::wal::bench::BenchLog;
}
