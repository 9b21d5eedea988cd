//! Many sorted sources as one: what scans, flushes and compactions walk over.
//!
//! Invariant: a [`Merge`] shows the entries of all its sources ordered by key ascending, then
//! version descending, each (key, version) once. Its sources are concrete types: there is no
//! virtual call and no allocation per entry. This room calls memtable and entry; the files of a
//! level it knows by what it needs of them, [`SortedFile`].

pub(crate) mod bench;
mod cursor;
mod level;
mod source;
#[cfg(test)]
mod testing;
mod tree;
mod walk;

pub(crate) use level::LevelCursor;
pub(crate) use source::Source;
pub(crate) use tree::MergeCursor;

use crate::entry::Cursor;
use crate::error::Result;
use crate::version::Version;

/// The entries of memtables and table files, merged.
pub(crate) type Merge<'a, F> = MergeCursor<Source<'a, F>>;

/// What becomes of the blocks that a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// They stay in the cache: they may be read again.
    Keep,
    /// They leave the cache as it is: they are read once, by a flush or a compaction.
    Pass,
}

/// A sealed, sorted file.
pub(crate) trait SortedFile {
    type Cursor<'a>: Cursor
    where
        Self: 'a;

    /// Its first key.
    fn smallest(&self) -> &[u8];
    /// Its last key.
    fn largest(&self) -> &[u8];
    /// The newest version of its entries.
    fn newest(&self) -> Version;
    fn cursor(&self, cache: CacheUse) -> Self::Cursor<'_>;
}

impl<F: SortedFile> Merge<'_, F> {
    /// Goes on from the current key, which a range tombstone at `cover` deletes as it does all
    /// older entries up to `to`. Covered entries of later keys may still be shown.
    pub(crate) fn skip_forward(&mut self, cover: Version, to: &[u8]) -> Result<()> {
        self.step_forward(|source| source.skip_forward(cover, to))
    }

    /// As [`skip_forward`](Self::skip_forward), backward down to and with `to`.
    pub(crate) fn skip_backward(&mut self, cover: Version, to: &[u8]) -> Result<()> {
        self.step_backward(|source| source.skip_backward(cover, to))
    }
}
