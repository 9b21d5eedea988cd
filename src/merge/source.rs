//! [`Source`]: the concrete cursors that are merged.
//!
//! Invariant: no entry of a source is newer than the version stated for it when it was made, so
//! that what a range tombstone covers can be skipped without looking.

use std::sync::Arc;

use super::{CacheUse, LevelCursor, SortedFile};
use crate::entry::{Cursor, Entry, Kind, Walker};
use crate::error::Result;
use crate::memtable::{Memtable, MemtableCursor};
use crate::version::Version;

/// One sorted sequence of entries.
pub(crate) enum Source<'a, F: SortedFile + 'a> {
    /// A memtable, and the newest version in it.
    Memtable(MemtableCursor<'a>, Version),
    /// A file, and the newest version in it.
    File(F::Cursor<'a>, Version),
    /// A run of files that do not overlap.
    Level(LevelCursor<'a, F>),
}

impl<'a, F: SortedFile> Source<'a, F> {
    /// A memtable; `newest` is [`Version::MAX`] while it is written to.
    pub(crate) fn memtable(memtable: &'a Memtable, newest: Version) -> Self {
        Self::Memtable(memtable.cursor(), newest)
    }

    /// A file by itself.
    pub(crate) fn file(file: &'a F, cache: CacheUse) -> Self {
        Self::File(file.cursor(cache), file.newest())
    }

    /// Files in key order that do not overlap, as one sequence.
    pub(crate) fn level(files: &'a [Arc<F>], cache: CacheUse) -> Self {
        match files {
            [file] => Self::file(file, cache),
            _ => Self::Level(LevelCursor::new(files, cache)),
        }
    }

    /// Moves forward over the current key and every key before `to`, or at least over some, where
    /// all there is to know about them is that they are older than `cover`.
    pub(crate) fn skip_forward(&mut self, cover: Version, to: &[u8]) -> Result<()> {
        match self {
            Self::Memtable(cursor, newest) if *newest < cover => cursor.seek(to),
            Self::File(cursor, newest) if *newest < cover => cursor.seek(to),
            Self::Level(cursor) => cursor.skip_forward(cover, to),
            Self::Memtable(..) | Self::File(..) => self.next_key(),
        }
    }

    /// As [`skip_forward`](Self::skip_forward), backward over every key at or after `to`.
    pub(crate) fn skip_backward(&mut self, cover: Version, to: &[u8]) -> Result<()> {
        match self {
            Self::Memtable(cursor, newest) if *newest < cover => cursor.seek_before(to),
            Self::File(cursor, newest) if *newest < cover => cursor.seek_before(to),
            Self::Level(cursor) => cursor.skip_backward(cover, to),
            Self::Memtable(..) | Self::File(..) => self.previous_key(),
        }
    }
}

macro_rules! each {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Self::Memtable($cursor, _) => $call,
            Self::File($cursor, _) => $call,
            Self::Level($cursor) => $call,
        }
    };
}

impl<F: SortedFile> Cursor for Source<'_, F> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek(key))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_first())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_last())
    }

    #[inline]
    fn valid(&self) -> bool {
        each!(self, cursor => cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, cursor => cursor.key())
    }

    #[inline]
    fn version(&self) -> Version {
        each!(self, cursor => cursor.version())
    }

    #[inline]
    fn kind(&self) -> Kind {
        each!(self, cursor => cursor.kind())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, cursor => cursor.value())
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        each!(self, cursor => cursor.entry())
    }

    #[inline]
    fn kept(&self) -> usize {
        each!(self, cursor => cursor.kept())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next_key())
    }

    #[inline]
    fn previous_key(&mut self) -> Result<()> {
        each!(self, cursor => cursor.previous_key())
    }

    // Not inline: what a walk seldom needs would cost each row of the others 1.4 % more instructions.
    fn next_at(&mut self, at: Version) -> Result<()> {
        each!(self, cursor => cursor.next_at(at))
    }

    // As above.
    fn previous_at(&mut self, at: Version) -> Result<()> {
        each!(self, cursor => cursor.previous_at(at))
    }

    #[inline]
    fn walk(&mut self, walker: &mut impl Walker) -> Result<()> {
        each!(self, cursor => cursor.walk(walker))
    }
}
