//! [`Writeback`]: a sync of the log, by whoever comes to it first, while records go on being appended.
//!
//! Invariants: no two syncs of a segment overlap. What the device refuses is told to one of them only,
//! and the other would take for durable what is not; so everybody who syncs settles what was begun
//! before. What is durable is so in the log's order: a segment is not synced before its predecessors
//! are, or are given up, as all in them is in table files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::env::DiskFile;
use crate::error::{Error, Result};
use crate::version::Version;

/// A sync of all that the log held when this was begun.
#[derive(Debug)]
pub(crate) struct Writeback {
    /// What is left to do; taken by who settles this, so that no chain of them grows, and nobody who still
    /// holds this keeps the file.
    work: Mutex<Option<Work>>,
    /// Every byte of the segment below this is durable once it is settled.
    upto: u64,
    /// The last version whose record is among these.
    last: Version,
    /// What came of it, or why it failed.
    outcome: OnceLock<Result<(), Arc<str>>>,
}

#[derive(Debug)]
struct Work {
    /// One that was not settled yet when this was begun.
    before: Option<Arc<Writeback>>,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl Writeback {
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        path: PathBuf,
        upto: u64,
        last: Version,
        before: Option<Arc<Self>>,
    ) -> Self {
        let work = Mutex::new(Some(Work { before, file, path }));
        Self { work, upto, last, outcome: OnceLock::new() }
    }

    pub(super) fn upto(&self) -> u64 {
        self.upto
    }

    /// Everything up to this version is durable once it is settled.
    pub(crate) fn last(&self) -> Version {
        self.last
    }

    /// Syncs, unless somebody did or does; then waits for that.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with what the operating system refused, to each who asks.
    pub(crate) fn settle(&self) -> Result<()> {
        let sync =
            |file: &dyn DiskFile, path: &Path| file.sync().map_err(|e| Error::io("sync", path, e));
        self.after_those_before(Self::settle, sync)
    }

    /// Waits for a sync that is under way. Unless one is, this and those before count as settled, and will
    /// not be synced: nothing needs what is in the segment any more.
    ///
    /// # Errors
    /// As for [`settle`](Self::settle).
    pub(super) fn give_up(&self) -> Result<()> {
        self.after_those_before(Self::give_up, |_, _| Ok(()))
    }

    fn after_those_before(
        &self,
        settle: fn(&Self) -> Result<()>,
        sync: impl FnOnce(&dyn DiskFile, &Path) -> Result<()>,
    ) -> Result<()> {
        let work = || {
            let work = self.work.lock().take();
            let Some(Work { before, file, path }) = work else { return Ok(()) };
            before.map_or(Ok(()), |before| settle(&before))?;
            sync(&*file, &path)
        };
        let outcome = self.outcome.get_or_init(|| work().map_err(|error| error.chain()));
        outcome.clone().map_err(Error::Poisoned)
    }

    /// Whether it is settled.
    pub(super) fn is_settled(&self) -> bool {
        self.outcome.get().is_some()
    }
}
