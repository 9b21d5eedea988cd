//! [`Page`]: what a query returns at a time, and [`Continuation`], where the next one begins.

use crate::read::{PageData, RowRef, StopReason};
use crate::version::Version;

/// One entity, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// When it was last written: its Timestamp and ETag.
    pub version: Version,
    /// The stored bytes.
    pub value: Vec<u8>,
}

/// Where a query goes on: the first key that was not examined (R-E12).
///
/// It is plain data. It stays valid when the database is restarted or compacted and when the row
/// it names is deleted (R-E13): the query goes on at the next row there is.
///
/// ```
/// use tablestone::Continuation;
/// let next = Continuation::new("partition", "row");
/// assert_eq!(next.partition_key(), b"partition");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Continuation {
    partition_key: Vec<u8>,
    row_key: Vec<u8>,
}

impl Continuation {
    /// A continuation at these keys, inclusive.
    #[must_use]
    pub fn new(partition_key: impl Into<Vec<u8>>, row_key: impl Into<Vec<u8>>) -> Self {
        Self { partition_key: partition_key.into(), row_key: row_key.into() }
    }

    /// The next PartitionKey.
    #[must_use]
    pub fn partition_key(&self) -> &[u8] {
        &self.partition_key
    }

    /// The next RowKey.
    #[must_use]
    pub fn row_key(&self) -> &[u8] {
        &self.row_key
    }

    pub(super) fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.partition_key, self.row_key)
    }
}

/// Entities of one query in key order, held in one buffer.
#[derive(Debug)]
pub struct Page {
    data: PageData,
    continuation: Option<Continuation>,
    version: Version,
}

impl Page {
    pub(super) fn new(mut data: PageData, version: Version) -> Self {
        let continuation = data
            .next
            .take()
            .map(|(partition_key, row_key)| Continuation { partition_key, row_key });
        Self { data, continuation, version }
    }

    /// Number of entities; may be 0 though there is a continuation.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether the page has no entities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entities in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RowRef<'_>> {
        self.data.rows()
    }

    /// Where the query goes on; `None` if its range is exhausted.
    #[must_use]
    pub fn continuation(&self) -> Option<&Continuation> {
        self.continuation.as_ref()
    }

    /// Why the page ended.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.data.stop
    }

    /// Number of entries that were looked at, deleted and filtered ones included.
    #[must_use]
    pub fn examined(&self) -> u64 {
        self.data.examined
    }

    /// The version of the database that every entity of the page was read at (R-E11).
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}
