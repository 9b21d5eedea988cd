//! [`ScanLimits`]: what ends a page before its range does (R-E12).

use std::time::Duration;

/// How much a page may hold, and how much work it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLimits {
    /// Entities that match; one is taken in any case.
    pub(crate) entities: usize,
    /// Stored bytes of keys and values; the first entity may be larger.
    pub(crate) bytes: usize,
    /// Keys looked at, deleted ones included; one is looked at in any case.
    pub(crate) examined: Option<u64>,
    /// Monotonic time.
    pub(crate) deadline: Option<Duration>,
    pub(crate) partition: PartitionStop,
}

/// What a page does where the next partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionStop {
    Continue,
    Stop,
}

impl Default for ScanLimits {
    /// No limits.
    fn default() -> Self {
        Self {
            entities: usize::MAX,
            bytes: usize::MAX,
            examined: None,
            deadline: None,
            partition: PartitionStop::Continue,
        }
    }
}
