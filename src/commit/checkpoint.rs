//! Checkpoints: everything committed, as a database of its own in another directory.
//!
//! Invariant: a checkpoint has all commits up to one version, and none after.

use std::path::Path;

use super::pipeline::Pipeline;
use super::recovery::{LOCK_FILE, take_lock};
use crate::error::{Error, Result};
use crate::version::Version;

impl Pipeline {
    /// Flushes, and makes a database of what is flushed in a directory; returns the version of its last commit.
    ///
    /// # Errors
    /// The directory is not empty; what flushing reports, and the file system.
    pub(crate) fn checkpoint(&self, dir: &Path) -> Result<Version> {
        self.check_not_read_only()?;
        let disk = self.options().env.disk();
        disk.create_dir_all(dir).map_err(|e| Error::io("create directory", dir, e))?;
        let names = disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
        if let Some(name) = names.iter().find(|name| *name != LOCK_FILE) {
            let found = format!("a checkpoint needs an empty directory: {dir:?} has {name:?}");
            return Err(Error::InvalidArgument(found.into()));
        }
        let _lock = take_lock(&*disk, dir)?;
        let made = self.checkpoint_locked(dir);
        if made.is_err() {
            // Nobody else has it yet. One that stays is of a directory without files all the same.
            let _ = disk.remove(&dir.join(LOCK_FILE));
        }
        made
    }

    fn checkpoint_locked(&self, dir: &Path) -> Result<Version> {
        self.freeze()?;
        self.tree().flush_now()?;
        self.tree().checkpoint(dir)
    }
}
