//! An LSM-tree storage engine for entities addressed by (table, PartitionKey, RowKey).

#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_lossless
)]

mod cache;
mod commit;
mod entry;
pub mod env;
mod error;
mod key;
mod levels;
mod memtable;
mod merge;
mod metrics;
mod options;
mod read;
mod sst;
mod sync;
mod table;
mod tombstone;
mod varint;
mod version;
mod wal;

pub use commit::{Commit, MergeRefusal, Precondition, RecoveryReport, TornTail};
pub use error::{Corruption, Error, IoError, Limit, Result};
pub use options::{Compression, Durability, Options, ReadMode, Recovery};
pub use read::{Estimate, RowRef, StopReason};
pub use table::{
    Batch, Continuation, Database, ImportReport, LevelStats, Page, Pages, Query, Row, Snapshot,
    Stats, Table, TableList, TableView,
};
pub use version::Version;

/// The decoders of stored bytes, for fuzzing.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::levels::fuzz::*;
    pub use crate::sst::fuzz::*;
    pub use crate::wal::fuzz_replay;
}

/// What the benchmarks of this package reach beneath the public surface.
#[doc(hidden)]
pub mod bench_api {
    pub use crate::memtable::bench::{BenchKey, BenchMemtable};
    pub use crate::sst::bench::BenchTable;
}
