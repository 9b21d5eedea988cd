//! Many sorted sources as one: what scans, flushes and compactions walk over.
//!
//! Invariant: a [`Merge`] shows the entries of all its sources ordered by key ascending, then
//! version descending, each (key, version) once. Its sources are concrete types: there is no
//! virtual call and no allocation per entry. This room calls memtable and sst, and walks the
//! files of a level for the rooms above.

#![allow(dead_code)]

mod source;
#[cfg(test)]
mod testing;
mod tree;

pub(crate) use source::Source;
pub(crate) use tree::MergeCursor;

/// The entries of memtables and table files, merged.
pub(crate) type Merge<'a> = MergeCursor<Source<'a>>;
