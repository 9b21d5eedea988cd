//! The scenarios of the white paper "Windows Azure Table", each with the outcome that its text
//! promises; a test's name begins with its scenario (U-01 to U-20). Numbers are scaled down, and
//! the databases so small that their entities reach every level. Where the paper's own samples are
//! wrong (C-30 to C-48), the right form is tested, and the wrong one only to show what it does.

#[path = "../support/mod.rs"]
mod support;
mod world;

mod blogs;
mod cascade;
mod documents;
mod group_transactions;
mod kinds;
mod load;
mod long_keys;
mod newest_first;
mod paging;
mod partitions;
mod retries;
mod schema;
mod snapshots;
mod tables;
