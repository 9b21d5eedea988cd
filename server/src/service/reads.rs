//! [`Reads`]: where reads run.
//!
//! Handing a read to another thread and taking its outcome back costs about what it takes to find
//! and print fifty rows that are in memory. But a read may wait for a disk, and the threads of the
//! runtime have all connections to serve. Which it will be, the reads before it tell: short ones run
//! at once until one was slow; then all are handed to the database's reader threads, for a while that
//! is [`PAUSES`] times as long. So disks hold up a thread of the runtime for no more than a fifth of
//! the time, and by one short read at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tablestone::Database;
use tokio::time::Instant;

use super::failure;
use crate::error::ServiceError;

/// A short read that takes longer waits for a disk. Those that only wait for a processor mostly take
/// less.
pub(super) const QUICK: Duration = Duration::from_millis(5);
/// For how long no read runs at once after a slow one, as a multiple of what that took.
const PAUSES: u32 = 4;

/// Where reads run: at once, or on reader threads.
#[derive(Debug)]
pub(super) struct Reads {
    database: Database,
    began: Instant,
    /// Until when reads are handed over, in microseconds since `began`.
    slow_until: AtomicU64,
}

impl Reads {
    pub(super) fn new(database: Database) -> Self {
        Self { database, began: Instant::now(), slow_until: AtomicU64::new(0) }
    }

    /// Runs a short read at once, or, while reads are slow, not at all.
    pub(super) fn at_once<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let began = Instant::now();
        if self.are_slow(began) {
            return None;
        }
        let read = read();
        self.note(began, Instant::now());
        Some(read)
    }

    /// Runs a read on a thread that may wait for a disk.
    pub(super) async fn handed_over<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let read = self.database.run(move || Ok(read())).await;
        read.map_err(|error| failure::of(&error))?
    }

    fn are_slow(&self, now: Instant) -> bool {
        self.micros(now) < self.slow_until.load(Ordering::Relaxed)
    }

    /// Notes how long a short read took.
    fn note(&self, began: Instant, ended: Instant) {
        let took = ended - began;
        if took > QUICK {
            // A longer pause that another thread began goes on.
            self.slow_until.fetch_max(self.micros(ended + took * PAUSES), Ordering::Relaxed);
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from((at - self.began).as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tablestone::Options;

    use super::*;

    /// A slow read turns those after it away from the runtime's threads, for a while.
    #[tokio::test(start_paused = true)]
    async fn after_a_slow_read_reads_are_handed_over() {
        let directory = tempfile::tempdir().unwrap();
        let reads = Reads::new(Database::open(directory.path(), Options::default()).unwrap());
        assert_eq!(reads.at_once(|| 1), Some(1));
        let began = Instant::now();
        reads.note(began, began + QUICK);
        assert_eq!(reads.at_once(|| 2), Some(2));
        reads.note(began, began + 2 * QUICK);
        reads.note(began, began + QUICK + Duration::from_micros(1));
        assert_eq!(reads.at_once(|| 3), None);
        assert_eq!(reads.handed_over(|| Ok(4)).await, Ok(4));
        tokio::time::advance(QUICK * (2 + PAUSES)).await;
        assert_eq!(reads.at_once(|| 5), None, "the longer of two pauses");
        tokio::time::advance(QUICK * (1 + PAUSES)).await;
        assert_eq!(reads.at_once(|| 5), Some(5));
    }
}
