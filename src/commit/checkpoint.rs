//! Checkpoints: everything committed, as a database of its own in another directory.
//!
//! Invariant: a checkpoint has all commits up to one version, and none after.

use std::path::Path;

use super::pipeline::Pipeline;
use super::recovery::{LOCK_FILE, sync_name, take_lock};
use crate::env::Disk;
use crate::error::{Error, Result};
use crate::levels::Tree;
use crate::version::Version;

impl Pipeline {
    /// Flushes, and makes a database of what is flushed in a directory; returns the version of its last commit.
    ///
    /// # Errors
    /// The directory is not empty; what flushing reports, and the file system.
    pub(crate) fn checkpoint(&self, dir: &Path) -> Result<Version> {
        self.check_not_closed()?;
        let disk = self.options().env.disk();
        disk.create_dir_all(dir).map_err(|e| Error::io("create directory", dir, e))?;
        check_empty(&*disk, dir)?;
        // Nobody else has the file yet. One that stays is of a directory without files all the same.
        let give_up = || drop(disk.remove(&dir.join(LOCK_FILE)));
        let _lock = take_lock(&*disk, dir).inspect_err(|error| match error {
            Error::Locked(_) => {}
            _ => give_up(),
        })?;
        // Somebody may have made one before the lock was taken.
        check_empty(&*disk, dir)?;
        let made = sync_name(&*disk, dir).and_then(|()| self.checkpoint_locked(dir));
        made.inspect_err(|_| give_up())
    }

    fn checkpoint_locked(&self, dir: &Path) -> Result<Version> {
        let state = loop {
            let _hold = Hold::new(self.tree());
            self.freeze()?;
            self.tree().flush_now()?;
            if let Some(state) = self.tree().flushed_state() {
                break state;
            }
        };
        self.tree().checkpoint(&state, dir)
    }
}

fn check_empty(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let names = disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
    let Some(name) = names.iter().find(|name| *name != LOCK_FILE) else { return Ok(()) };
    let found = format!("a checkpoint needs an empty directory: {dir:?} has {name:?}");
    Err(Error::InvalidArgument(found.into()))
}

/// While it is held, no file leaves the tree for a deletion that is not flushed.
struct Hold<'a>(&'a Tree, Version);

impl<'a> Hold<'a> {
    fn new(tree: &'a Tree) -> Self {
        Self(tree, tree.register_snapshot())
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.release_snapshot(self.1);
    }
}
