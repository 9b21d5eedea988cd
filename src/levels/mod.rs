//! The tree of table files: what is in it, how it changes, and how it is kept in shape.
//!
//! Invariant: the manifest describes the files before readers see them and after they are gone
//! from it; a file is removed only once neither the manifest nor any reader refers to it. No change
//! of the files changes what any reader sees.
//!
//! Locks, in the order they may be taken: the flush lock (one flush at a time), the manifest
//! (one change of the files at a time, held over its I/O), the schedule (which compactions run;
//! no I/O), the swap of the view (no I/O). Writers take the last one only, when they freeze a
//! memtable; readers take none.
//!
//! Calls `merge`, `sst`, `memtable`, `cache`, and the ground floor; of `wal` what segments are called, and how
//! a log begins.

mod admission;
pub(crate) mod bench;
mod checkpoint;
mod compaction;
mod compression;
mod edit;
mod failures;
mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gc;
mod hidden;
mod join;
mod keep;
mod load;
mod load_files;
mod manifest;
mod open;
mod output;
mod pace;
mod picker;
mod pressure;
mod ranges;
mod rebuild;
mod recover;
mod reserved;
mod rest;
mod schedule;
mod separate;
mod snapshots;
mod state;
mod stats;
mod targets;
#[cfg(test)]
mod tests;
mod tree;
mod value_file;
mod values;
mod verify;
mod view;

pub(crate) use admission::no_room;
pub(crate) use file::TableFile;
pub(crate) use load::Load;
pub(crate) use manifest::CURRENT;
pub(crate) use pressure::{Admission, WaitKey};
pub(crate) use recover::is_ours;
pub(crate) use reserved::Reservation;
pub(crate) use separate::is_mostly_large;
pub use stats::LevelStats;
pub(crate) use tree::{Flushed, FlushedLog, OpenContext, Opened, Tree, TreeLog};
pub(crate) use values::Values;
pub(crate) use view::View;
#[cfg(test)]
pub(crate) use {
    file::Janitor,
    state::{Level, LevelState, assemble},
    view::Frozen,
};
#[cfg(all(test, loom))]
pub(crate) use {snapshots::Snapshots, view::Views};
