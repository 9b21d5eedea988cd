//! Table files: sorted entries, written once, with index and filter, read in place or cached.
//!
//! ```text
//!              Writer ──►  data block*, index partition*, filter*, directory, footer  ──► Reader
//!  block   entries in key order, prefix-compressed     (block.rs, stored as frame.rs says)
//!  index   fence → block, in two levels                (index.rs)
//!  filter  hashes of keys and partitions               (filter.rs, filter_builder.rs)
//!  lookup  by one key, or by several in order (lookup.rs, lookups.rs)
//!  source  from mapping or cache, checksums verified once (source.rs)
//! ```
//!
//! Invariant: entries are ordered by key ascending, then version descending; all versions of a key
//! are in one file; a file never changes once it has its footer. Every byte is under a checksum
//! that knows its file and offset, and nothing is given out that did not pass (R-E22).
//!
//! This room calls cache, key, entry, error, options, prefetch, reference, varint, version and env.

mod ahead;
mod backward;
pub(crate) mod bench;
mod bits;
mod block;
mod block_builder;
mod current;
mod cursor;
mod estimate;
mod filter;
mod filter_builder;
mod filter_index;
mod footer;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod held;
mod hinted;
mod index;
mod lookup;
mod lookups;
mod meta;
mod prefixes;
mod raw_entry;
mod reader;
mod row;
mod run;
mod salvage;
mod shrink;
mod sink;
mod source;
mod squeeze;
#[cfg(test)]
mod tests;
mod verify;
mod way;
mod windows;
mod writer;

pub(crate) use crate::cache::FileId;
use crate::env::NO_FILE_NUMBER;
pub(crate) use cursor::SstCursor;
pub(crate) use filter::Probes;
pub(crate) use lookup::{Lookup, Question};
pub(crate) use lookups::{Asked, Lookups};
pub(crate) use meta::FileMeta;
pub(crate) use reader::Reader;
pub(crate) use writer::{Writer, WriterOptions};

/// Name extension of table files.
pub(crate) const EXTENSION: &str = "sst";

/// The name of a table file in the database directory.
pub(crate) fn file_name(id: FileId) -> String {
    format!("{:016}.{EXTENSION}", id.get())
}

/// The id of the table file with that name, if it is one.
pub(crate) fn parse_file_name(name: &str) -> Option<FileId> {
    let digits = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let id = FileId::new(digits.parse().ok()?);
    (file_name(id) == name && id.get() < NO_FILE_NUMBER).then_some(id)
}
