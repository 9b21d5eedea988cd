//! Rebuilding: what salvage does where the manifest does not say which files there are.
//!
//! Whole table files describe themselves, but for their level, and for which of them a compaction has
//! replaced. So all there are become one run: of each key the versions are put in order, whichever file
//! they are in, and what is there twice is there once. Invariant: nobody reads a tree before that is done,
//! and no manifest names it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edit::{FileRecord, Inventory};
use super::open::Opening;
use super::picker::{self, Task};
use super::recover::Recovered;
use super::state::Level;
use super::tree::Tree;
use crate::error::{Corruption, Error, Result};
use crate::sst::{self, FileId, Reader};
use crate::version::Version;

impl Opening<'_> {
    /// The table files in the directory.
    fn files_there(&self) -> Result<BTreeSet<FileId>> {
        let names = self.disk.list(self.dir).map_err(|e| Error::io("list", self.dir, e))?;
        Ok(names.iter().filter_map(|name| sst::parse_file_name(name)).collect())
    }

    /// Whether the manifest was damaged, or what is in the directory says that its last edits were lost.
    pub(super) fn lacks_edits(&self, recovered: &Recovered) -> Result<bool> {
        let (named, there) = (&recovered.inventory.files, self.files_there()?);
        let any_missing = named.keys().any(|id| !there.contains(id));
        let any_unnamed = there.iter().any(|id| !named.contains_key(id));
        Ok(!recovered.lost.is_empty() || any_missing || (recovered.is_torn && any_unnamed))
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
    /// Merges all files into one level, on this thread.
    pub(super) fn put_in_order(&self) -> Result<()> {
        let state = Arc::clone(&self.views.load().levels);
        match picker::everything(&state, &self.sizing) {
            Some(Task::Rewrite(inputs)) => {
                tracing::warn!(files = state.files().count(), "merges what no manifest describes");
                self.compact(&inputs)
            }
            _ => Ok(()),
        }
    }
}
