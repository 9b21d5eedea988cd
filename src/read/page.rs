//! [`PageData`]: the rows of one page, in one buffer.
//!
//! Invariant: every slot lies within `bytes`; rows of one partition that follow each other share
//! the bytes of its PartitionKey. A row's bytes are copied once, from where they are stored, or not
//! at all where the page's entities were lent.

use std::fmt;
use std::iter::FusedIterator;
use std::slice;

use super::range::Continuation;
use crate::text::Shown;
use crate::version::Version;

/// Why a page ended where it did (R-E12).
///
/// See [`Page`](crate::Page) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The range is exhausted.
    End,
    /// It holds as many entities as it may, and there is another.
    Entities,
    /// Another entity would have made it too large.
    Bytes,
    /// As many keys as allowed were examined, the last of them perhaps in search of what comes after a
    /// page that is full.
    Examined,
    /// The time was up; the page may be full as with `Examined`.
    Deadline,
    /// The next entity is in another partition.
    Partition,
    /// It has the last of the entities that the query wants in all.
    Top,
}

/// One entity, as it is stored.
///
/// See [`Page`](crate::Page) for an example.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowRef<'a> {
    /// Its PartitionKey.
    pub partition_key: &'a [u8],
    /// Its RowKey.
    pub row_key: &'a [u8],
    /// When it was last written: its Timestamp and ETag.
    pub version: Version,
    /// Its value, or what the query's projection made of it.
    pub value: &'a [u8],
}

impl RowRef<'_> {
    /// What counts against the page's limit of bytes: keys and value.
    pub(super) fn stored_bytes(&self) -> usize {
        self.partition_key.len() + self.row_key.len() + self.value.len()
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowRef")
            .field("partition_key", &Shown(self.partition_key))
            .field("row_key", &Shown(self.row_key))
            .field("version", &self.version)
            .field("value", &Shown(self.value))
            .finish()
    }
}

/// Where a PartitionKey is in the page's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    start: u32,
    end: u32,
}

impl Piece {
    /// `None` if it is out of reach of 32 bits.
    pub(super) fn new(start: usize, end: usize) -> Option<Self> {
        let end = u32::try_from(end).ok()?;
        Some(Self { start: start as u32, end })
    }
}

/// Where a row is in the page's bytes: its value lies behind its RowKey.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSlot {
    partition_key: Piece,
    row_key: u32,
    value: u32,
    end: u32,
    version: Version,
}

impl RowSlot {
    /// Of a row that begins at `row_key`; `None` if its end is out of reach of 32 bits.
    #[inline]
    pub(super) fn new(
        partition_key: Piece,
        row_key: usize,
        value: usize,
        end: usize,
        version: Version,
    ) -> Option<Self> {
        let end = u32::try_from(end).ok()?;
        Some(Self { partition_key, row_key: row_key as u32, value: value as u32, end, version })
    }

    fn row<'a>(&self, bytes: &'a [u8]) -> RowRef<'a> {
        let part = |start: u32, end: u32| bytes.get(start as usize..end as usize);
        let Piece { start, end } = self.partition_key;
        RowRef {
            partition_key: part(start, end).unwrap_or_default(),
            row_key: part(self.row_key, self.value).unwrap_or_default(),
            version: self.version,
            value: part(self.value, self.end).unwrap_or_default(),
        }
    }
}

/// The entities of a [`Page`](crate::Page), in its order.
#[derive(Clone)]
pub struct Rows<'a> {
    slots: slice::Iter<'a, RowSlot>,
    bytes: &'a [u8],
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("left", &self.slots.len()).finish_non_exhaustive()
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = RowRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<RowRef<'a>> {
        self.slots.next().map(|slot| slot.row(self.bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl DoubleEndedIterator for Rows<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.slots.next_back().map(|slot| slot.row(self.bytes))
    }
}

impl ExactSizeIterator for Rows<'_> {}
impl FusedIterator for Rows<'_> {}

/// The rows of a page, why it ended, and where the next one starts.
#[derive(Debug)]
pub(crate) struct PageData {
    pub(super) bytes: Vec<u8>,
    pub(super) rows: Vec<RowSlot>,
    /// How many entities were taken: as many as there are rows, unless they were lent.
    pub(crate) taken: usize,
    /// Bytes of their keys and values, as they are stored.
    pub(crate) stored_bytes: usize,
    pub(crate) stop: StopReason,
    /// Where the next page starts; `None` exactly if there is none.
    pub(crate) next: Option<Continuation>,
    /// Keys that were looked at, deleted ones included.
    pub(crate) examined: u64,
    /// How many of them were deletions, or deleted by ranges, which the page stepped over.
    pub(crate) deletions: u64,
}

impl PageData {
    /// The page of a query that wants no entities.
    pub(crate) fn empty() -> Self {
        let (bytes, rows) = (Vec::new(), Vec::new());
        let (taken, stored_bytes, examined, deletions) = (0, 0, 0, 0);
        let (stop, next) = (StopReason::Top, None);
        Self { bytes, rows, taken, stored_bytes, stop, next, examined, deletions }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { slots: self.rows.iter(), bytes: &self.bytes }
    }

    pub(crate) fn get(&self, index: usize) -> Option<RowRef<'_>> {
        self.rows.get(index).map(|slot| slot.row(&self.bytes))
    }
}
