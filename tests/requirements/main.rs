//! The engine's requirements, one behaviour per file; a test's name begins with its requirement.

#[path = "../support/mod.rs"]
mod support;

mod activity;
mod async_commits;
mod batches;
mod conditional_writes;
mod continuations;
mod disk_full;
mod disk_room;
mod durable_writes;
mod embedding;
mod errors;
mod estimates;
mod hot_rows;
mod import;
mod insert_patterns;
mod keys_and_order;
mod large_values;
mod limits;
mod load;
mod load_failures;
mod log_segments;
mod lost_edits;
mod many_partitions;
mod multi_get;
mod open_close;
mod overload;
mod pages;
mod point_reads;
mod queues;
mod range_deletes;
mod ranges;
mod read_only;
mod recovery;
mod remains;
mod removed_files;
mod salvage;
mod skip_scan;
mod snapshots;
mod tables;
mod turns;
mod versions;
