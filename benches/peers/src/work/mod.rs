//! What the engines are made to do. A work is a function of a [`Stage`]: one engine, one directory,
//! one process.
//!
//! Invariant: only calls of the engine are timed; keys and values are made before the clock starts.
//! Processor time, device writes and memory are of the measured part and of the settling after it,
//! so that work put off to the background is paid for.

mod bulk;
mod drop;
mod large;
mod mixed;
mod read;
pub mod recover;
mod stage;
mod write;

pub use stage::{Measured, Stage};

use anyhow::Result;

use crate::engine::Durability;

/// What a work finds in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Empty,
    /// All entities of the dataset, settled.
    Loaded,
    /// The same, shared by the works that change nothing.
    Shared,
}

pub struct Work {
    pub name: &'static str,
    pub about: &'static str,
    pub start: Start,
    pub durability: Durability,
    pub threads: usize,
    pub run: fn(&Stage) -> Result<Measured>,
}

macro_rules! works {
    ($($name:literal, $start:ident, $durability:ident, $threads:literal, $run:path, $about:literal;)*) => {
        /// All works, in the order of the report.
        pub const WORKS: &[Work] = &[$(Work {
            name: $name,
            about: $about,
            start: Start::$start,
            durability: Durability::$durability,
            threads: $threads,
            run: $run,
        }),*];
    };
}

works! {
    "load-random", Empty, Unsynced, 1, bulk::load_random,
        "all entities in random order, a thousand at a time, until settled";
    "load-sequential", Empty, Unsynced, 1, bulk::load_sequential,
        "all entities in key order, a thousand at a time, until settled";
    "load-sorted", Empty, Unsynced, 1, bulk::load_sorted,
        "all entities in key order, by the engine's own way for that, until settled";
    "put-unsynced-1", Loaded, Unsynced, 1, write::put, "overwrite any entity, 1 thread";
    "put-unsynced-4", Loaded, Unsynced, 4, write::put, "overwrite any entity, 4 threads";
    "put-durable-1", Loaded, Synced, 1, write::put, "overwrite any entity, 1 thread";
    "put-durable-16", Loaded, Synced, 16, write::put, "overwrite any entity, 16 threads";
    "egt-durable-1", Loaded, Synced, 1, write::group,
        "overwrite up to 100 entities of a partition, all or none, 1 thread";
    "egt-durable-4", Loaded, Synced, 4, write::group, "the same, 4 threads";
    "egt-durable-16", Loaded, Synced, 16, write::group, "the same, 16 threads";
    "update-hot-durable-16", Loaded, Synced, 16, write::update_hot,
        "read an entity of the heaviest partition, replace it if it is unchanged, 16 threads";
    "update-unsynced-1", Loaded, Unsynced, 1, write::update,
        "read any entity, replace it if it is unchanged, 1 thread";
    "update-unsynced-4", Loaded, Unsynced, 4, write::update, "the same, 4 threads";
    "update-unsynced-16", Loaded, Unsynced, 16, write::update, "the same, 16 threads";
    "insert-unsynced-1", Loaded, Unsynced, 1, write::insert,
        "insert an entity that must not exist, anywhere, 1 thread";
    "upsert-new-unsynced-1", Loaded, Unsynced, 1, write::upsert_new,
        "put the same new entities without asking, 1 thread";
    "get-zipf-1", Shared, Unsynced, 1, read::get, "get an entity by popularity, 1 thread";
    "get-zipf-2", Shared, Unsynced, 2, read::get, "get an entity by popularity, 2 threads";
    "get-missing-1", Shared, Unsynced, 1, read::get_missing,
        "get an entity that does not exist, between two that do, 1 thread";
    "cold-get-1", Shared, Unsynced, 1, read::cold_get,
        "get any entity, nothing of the files in the page cache at the beginning, 1 thread";
    "cold-get-4", Shared, Unsynced, 4, read::cold_get, "the same, 4 threads";
    "cold-page", Shared, Unsynced, 1, read::cold_page,
        "up to 1,000 entities of a partition from any entity on, begun as cold, 1 thread";
    "page-1000", Shared, Unsynced, 1, read::page,
        "up to 1,000 entities of a partition from any entity on, 1 thread";
    "scan", Shared, Unsynced, 1, read::scan, "every entity in key order, 1 thread";
    "ycsb-a-2", Loaded, Unsynced, 2, mixed::ycsb_a, "half gets, half puts by popularity, 2 threads";
    "ycsb-b-2", Loaded, Unsynced, 2, mixed::ycsb_b, "95% gets, 5% puts by popularity, 2 threads";
    "ycsb-e-2", Loaded, Unsynced, 2, mixed::ycsb_e,
        "95% pages of 1 to 100 entities, 5% inserts, 2 threads";
    "churn-2", Loaded, Unsynced, 2, mixed::churn,
        "delete a third, overwrite and insert anew the rest, for eight times as long, 2 threads";
    "mass-delete", Loaded, Unsynced, 1, bulk::mass_delete,
        "delete the heaviest partition, then scan all that is left";
    "drop-table", Loaded, Unsynced, 1, drop::drop_table,
        "drop the table with all entities, while another one is read and written";
    "large-values", Empty, Unsynced, 1, large::put,
        "put values of 64 KiB to 1 MiB, 1 thread, until settled";
    "large-durable", Empty, Synced, 1, large::put, "the same, each synced";
    "large-get", Empty, Unsynced, 1, large::get,
        "get one of them, lent where the engine lends values, 1 thread";
    "open-killed", Empty, Synced, 1, recover::open_killed,
        "open what a killed process left in its log, and read the last that it acknowledged";
    "open-cold", Empty, Synced, 1, recover::open_cold,
        "the same, nothing of the files in the page cache";
}

/// A work by name.
pub fn find(name: &str) -> Option<&'static Work> {
    WORKS.iter().find(|work| work.name == name)
}
