//! [`Source`]: the concrete cursors that are merged.
//!
//! Invariant: no entry of a source is newer than the version stated for it when it was made, so
//! that what a range tombstone covers can be skipped without looking.

use crate::entry::{Cursor, Kind};
use crate::error::Result;
use crate::memtable::{Memtable, MemtableCursor};
use crate::version::Version;

/// One sorted sequence of entries.
pub(crate) enum Source<'a> {
    /// A memtable, and the newest version in it.
    Memtable(MemtableCursor<'a>, Version),
}

impl<'a> Source<'a> {
    /// A memtable; `newest` is [`Version::MAX`] while it is written to.
    pub(crate) fn memtable(memtable: &'a Memtable, newest: Version) -> Self {
        Self::Memtable(memtable.cursor(), newest)
    }
}

macro_rules! each {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Self::Memtable($cursor, _) => $call,
        }
    };
}

impl Cursor for Source<'_> {
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
}
