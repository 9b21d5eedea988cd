//! The log: every commit, in version order, before it is in a table file.
#![allow(dead_code)]

/// Number of a log segment; segments are numbered without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(u64);

impl SegmentId {
    /// The first segment of a database.
    pub(crate) const FIRST: Self = Self(1);

    pub(crate) const fn new(id: u64) -> Self {
        Self(id)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}
