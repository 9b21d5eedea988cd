//! [`Page`]: what a query returns at a time.

use super::continuation::Continuation;
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

/// Entities of one query in key order, held in one buffer.
#[derive(Debug)]
pub struct Page {
    data: PageData,
    continuation: Option<Continuation>,
    version: Version,
}

impl Page {
    pub(super) fn new(mut data: PageData, version: Version) -> Self {
        let next = data.next.take();
        let continuation = next.map(|(pk, rk)| Continuation::new(pk, rk));
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

    /// The entity at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<RowRef<'_>> {
        self.data.get(index)
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
