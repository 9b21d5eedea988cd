//! Rebuilding: what salvage does where the manifest does not say which files there are.
//!
//! Whole table files describe themselves, but for their level, and for which of them a compaction has
//! replaced. So all there are become one run, together with what was read from the log, which may be older
//! than a file or the same: of each key the versions are put in order, wherever they are, and what is there
//! twice is there once. Invariant: nobody reads a tree before that is done, and no manifest names it. It is
//! one edit, before which no file is changed or removed.

use std::io;
use std::sync::Arc;

use super::compaction::{Deeper, rewrite, tombstones_of};
use super::edit::{FileRecord, Inventory};
use super::gc::Rule;
use super::open::Opening;
use super::output::{Cut, Outputs};
use super::pace::Pace;
use super::recover::Recovered;
use super::separate::Storing;
use super::state::{Change, Level};
use super::targets;
use super::tree::{Flushed, Tree};
use crate::entry::Cursor;
use crate::error::{Corruption, Error, Result};
use crate::merge::{CacheUse, Merge, Source};
use crate::sst::{self, FileId, Reader};
use crate::version::Version;
use crate::wal::SegmentId;

impl Opening<'_> {
    fn is_missing(&self, segment: SegmentId) -> bool {
        let opened = self.disk.open(&segment.path(self.dir));
        opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the manifest is damaged, or lacks its last edits, as files or the beginning of the log that it names are
    /// gone; notes what was lost. If all of these are there, a torn end is of an edit that was under way. That is
    /// not known after a salvage that was cut off, as it may have made the log anew.
    pub(super) fn lacks_edits(&self, recovered: &mut Recovered, was_cut_off: bool) -> Result<bool> {
        let Recovered { inventory, lost, torn, .. } = recovered;
        let there = self.files_there()?;
        if lost.is_empty() && (was_cut_off || self.is_missing(inventory.log_start)) {
            lost.extend(torn.take());
        }
        Ok(!lost.is_empty() || inventory.files.keys().any(|id| !there.contains(id)))
    }

    /// Makes every whole file in the directory part of the tree, in no order. Those that are damaged are
    /// set aside.
    pub(super) fn take_all(
        &self,
        inventory: &mut Inventory,
        lost: &mut Vec<Corruption>,
    ) -> Result<()> {
        for id in self.files_there()? {
            let path = self.dir.join(sst::file_name(id));
            match Reader::describe(self.disk, &path, id, Arc::clone(self.cache), self.read_mode) {
                Ok(meta) => {
                    let (level, gc_bound) = (Level::ZERO, Version::ZERO);
                    inventory.files.insert(id, FileRecord { level, gc_bound, meta });
                }
                // One that the manifest names is told with what was in it.
                Err(Error::Corruption(_)) if inventory.files.contains_key(&id) => {}
                Err(Error::Corruption(corruption)) => {
                    self.rename_damaged(&path);
                    lost.push(*corruption);
                }
                Err(error) => return Err(error),
            }
        }
        inventory.files.values_mut().for_each(|file| file.level = Level::ZERO);
        Ok(())
    }
}

impl Tree {
    /// Whether the files are in no order, until they are [put in order](Self::put_in_order).
    pub(crate) fn is_unordered(&self) -> bool {
        self.is_unordered
    }

    /// Merges all files and all frozen memtables into one level, on this thread, before
    /// [`start`](Tree::start). Nothing is in the active memtable; the log begins with `log_start` from
    /// then on.
    ///
    /// # Errors
    /// What reading, writing and the manifest report; it can be tried again.
    pub(crate) fn put_in_order(&self, log_start: SegmentId) -> Result<()> {
        let view = Arc::clone(&self.views.load());
        let (files, last) = (view.levels.level(Level::ZERO), self.visible());
        tracing::warn!(files = files.len(), "merges what no manifest describes");
        let tombstones_added = tombstones_of(&view.frozen);
        let tombstones = view.levels.range_tombstones_and(&tombstones_added);
        let rule = Rule::new(&self.snapshots.horizon(), tombstones, last);
        let bytes = files.iter().map(|file| file.meta.bytes).sum();
        let output = targets::level_for(bytes, Level::ONE, &self.sizing);
        let zstd = self.compression.zstd_at(output, &view.levels, 0);
        let cut = Cut { file_bytes: self.sizing.file_bytes, grandparents: &[] };
        let outputs = Outputs::new(self, zstd, rule.bound(), cut);
        let frozen = view.frozen.iter().map(|f| Source::memtable(&f.memtable, f.last));
        let sources = frozen.chain(files.iter().map(|file| Source::file(&**file, CacheUse::Pass)));
        let mut merge = Merge::new(sources.collect(), &[]);
        let removed: Vec<FileId> = files.iter().map(|file| file.id()).collect();
        let deeper = Deeper { state: &view.levels, output: Level::LAST, inputs: &removed };
        let storing = Storing::Gathered(&view.levels.values);
        let pace = Pace::compaction(self);
        merge.seek_to_first()?;
        let files = rewrite(&mut merge, None, rule, &deeper, &storing, outputs, pace)?;
        let flushed = Flushed { version: last, log_start };
        self.install(Change {
            added: files.into_iter().map(|file| (output, file)).collect(),
            removed,
            tombstones_added,
            flushed: Some(flushed),
            ..Change::default()
        })?;
        self.keep_values();
        if let Some(log) = self.log.get() {
            log.flushed(flushed);
        }
        Ok(())
    }
}
