//! Group commit around an engine whose durable writes sync one by one.
//!
//! A write goes to the engine's log unsynced; then its thread waits until a sync that began later
//! has ended, which it may have done itself for all who wait.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use parking_lot::Mutex;

#[derive(Default)]
pub(super) struct SharedSync {
    /// How many writes are in the log.
    written: AtomicU64,
    /// How many of them are synced.
    synced: Mutex<u64>,
}

impl SharedSync {
    /// To be called once a write is in the log: returns when it is synced.
    pub(super) fn wait(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mine = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        let mut synced = self.synced.lock();
        if *synced >= mine {
            return Ok(());
        }
        let written = self.written.load(Ordering::Acquire);
        sync()?;
        *synced = written;
        Ok(())
    }
}
