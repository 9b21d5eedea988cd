//! Counters of what the engine did since it was opened.
//!
//! Counters only grow, are updated with relaxed atomics and never read to decide anything: a sum
//! over several of them may be off by the operations under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.get())
    }
}

/// Everything below the commit path counts here.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Flushes that ended well.
    pub(crate) flushes: Counter,
    /// Bytes of table files that flushes wrote.
    pub(crate) flush_bytes: Counter,
    /// Loads of tables that were made part of the tree.
    pub(crate) loads: Counter,
    /// Bytes of table files that they wrote.
    pub(crate) load_bytes: Counter,
    /// Compactions that rewrote files and ended well.
    pub(crate) compactions: Counter,
    /// Bytes of table files that compactions read.
    pub(crate) compaction_read_bytes: Counter,
    /// Bytes of table files that compactions wrote.
    pub(crate) compaction_written_bytes: Counter,
    /// Files that went a level down without being read.
    pub(crate) files_moved: Counter,
    /// Files that a range tombstone covered whole, removed without being read.
    pub(crate) files_dropped_unread: Counter,
    /// Files removed from the directory.
    pub(crate) files_removed: Counter,
    /// Flushes and compactions that failed.
    pub(crate) background_failures: Counter,
    /// Writes that waited for flushes and compactions.
    pub(crate) stalls: Counter,
    /// Nanoseconds that they waited.
    pub(crate) stall_nanos: Counter,
}
