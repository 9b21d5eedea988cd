//! A checkpoint: what table files have, as a database of its own in another directory.
//!
//! Table files may have more than what is flushed: those of a load are part of the tree before the catalog that
//! tells of it is flushed. Without it the id would be given to another table, with all there is under it.
//!
//! Invariant: the directory is a database once all that it refers to is durable in it, as `CURRENT` comes last.
//! Table files and kept log segments are never written again, only removed by name, so both databases have the
//! same ones where the file system can link them; else they are copied.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::manifest::{CURRENT, Manifest, ManifestId};
use super::recover::is_ours;
use super::state::{Change, LevelState};
use super::tree::Tree;
use crate::env::Disk;
use crate::error::{Error, Result};
use crate::sst::{self, FileId};
use crate::version::Version;
use crate::wal::{self, SegmentId};

impl Tree {
    /// What is flushed now, and nothing that came later; `None` if a compaction has put both into one file, which is right
    /// once more is flushed.
    pub(crate) fn flushed_state(&self) -> Option<LevelState> {
        let view = self.views.load();
        let levels = &view.levels;
        if view.memtables().all(|memtable| memtable.is_empty()) {
            return Some(LevelState::clone(levels));
        }
        let is_later = |version: Version| version > levels.flushed;
        let later = || levels.files().filter(|(_, file)| is_later(file.meta.max_version));
        if later().any(|(_, file)| !is_later(file.meta.min_version)) {
            return None;
        }
        let removed = later().map(|(_, file)| file.id()).collect();
        Some(levels.with(&mut Change { removed, ..Change::default() }))
    }

    /// Makes a database of what is [flushed](Self::flushed_state), in a directory without files of ours; returns the
    /// version of the last commit in it.
    ///
    /// # Errors
    /// What the file system refuses; what was made is removed again, as far as that can be.
    pub(crate) fn checkpoint(&self, state: &LevelState, dir: &Path) -> Result<Version> {
        let made = self.copy_to(state, dir);
        if made.is_err() {
            remove(&*self.disk, dir);
        }
        made
    }

    /// Whoever holds the state keeps its files from being removed meanwhile.
    fn copy_to(&self, levels: &LevelState, dir: &Path) -> Result<Version> {
        for (_, file) in levels.files() {
            self.share(file.path(), &dir.join(sst::file_name(file.id())))?;
        }
        for segment in levels.values.files() {
            self.share_values(segment.id(), dir)?;
        }
        wal::begin_log(&*self.disk, dir, levels.log_start, levels.flushed)?;
        let next_file = FileId::new(self.next_file.load(Ordering::Relaxed));
        let mut manifest = Manifest::new(Arc::clone(&self.disk), dir.to_owned(), ManifestId::NONE);
        manifest.commit(None, || levels.to_edit(next_file), Vec::new)?;
        Ok(levels.flushed)
    }

    /// A log segment that is kept for its values. Its name in the log stays where it could not be renamed.
    fn share_values(&self, segment: SegmentId, dir: &Path) -> Result<()> {
        let (from, to) = (segment.values_path(&self.dir), segment.values_path(dir));
        match self.share(&from, &to) {
            Err(Error::Io(io)) if io.source.kind() == ErrorKind::NotFound => {
                self.share(&segment.path(&self.dir), &to)
            }
            shared => shared,
        }
    }

    fn share(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.share(from, to).map_err(|e| Error::io("link or copy", from, e))
    }
}

/// Removes what was made of a database: first what makes it one.
fn remove(disk: &dyn Disk, dir: &Path) {
    let names = disk.list(dir).unwrap_or_default().into_iter();
    let (current, others): (Vec<_>, Vec<_>) =
        names.filter(|name| is_ours(name) || wal::is_ours(name)).partition(|name| name == CURRENT);
    for path in current.iter().chain(&others).map(|name| dir.join(name)) {
        if let Err(error) = disk.remove(&path) {
            tracing::warn!(?path, %error, "a file of an unfinished checkpoint stays");
        }
    }
}
