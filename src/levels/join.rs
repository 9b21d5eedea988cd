//! Small files that lie beside each other in a level become one.
//!
//! Files that overlap nothing move down as they are, and every load makes one of its own. So there would be as many
//! files as flushes and loads, however little is in them, each with its descriptor or map.
//!
//! Invariant: what is joined becomes one file, so this ends. As no file has more keys and values than the others
//! together, what is joined has at least twice those of each: an entry is written as often at most as what is in a
//! file can double until it is not small, eighteen times from sixteen bytes at the default memory budget.

use std::sync::Arc;

use super::compaction::Inputs;
use super::file::TableFile;
use super::output::GRANDPARENT_LIMIT;
use super::picker::{Picker, Task};
use super::state::Level;

/// How many are joined at once. With fewer each byte is written more often, with more there are more files.
pub(super) const JOINED: usize = 8;
/// A small file has less than this part of the usual size: then what is joined is no larger than usual.
const SMALL_PART: u64 = 8;

impl Picker<'_> {
    /// Small files of a level that are to become one. On a full disk there is no room for that.
    pub(super) fn join(&self) -> Option<Task> {
        if self.is_full {
            return None;
        }
        let mut levels = Level::all().filter(|&level| level > Level::ZERO);
        levels.find_map(|level| self.join_in(level)).map(|inputs| self.rewrite(inputs))
    }

    fn join_in(&self, level: Level) -> Option<Inputs> {
        let files = self.state.level(level);
        let mut in_a_row = 0;
        files.iter().enumerate().find_map(|(at, file)| {
            in_a_row = if self.is_small(file) { in_a_row + 1 } else { 0 };
            let first = (at + 1).checked_sub(JOINED).filter(|_| in_a_row >= JOINED)?;
            self.joined(level, files.get(first..=at)?)
        })
    }

    fn is_small(&self, file: &TableFile) -> bool {
        file.meta.raw_bytes.max(file.meta.bytes) < self.sizing.file_bytes / SMALL_PART
    }

    fn joined(&self, level: Level, files: &[Arc<TableFile>]) -> Option<Inputs> {
        // Not what is stored: of the smallest files that is mostly what each file has.
        let bytes = |file: &Arc<TableFile>| file.meta.raw_bytes;
        let most = files.iter().map(bytes).max()?;
        let is_one_most = 2 * most > files.iter().map(bytes).sum();
        if is_one_most || !self.fit_one(level, files)? {
            return None;
        }
        self.free(Inputs { files: vec![(level, files.to_vec())], output: level })
    }

    /// Whether one file may reach across them: no table between them is being loaded, and it does not overlap so much
    /// below that it would end early.
    fn fit_one(&self, level: Level, files: &[Arc<TableFile>]) -> Option<bool> {
        let (first, last) = (&*files.first()?.meta.smallest, &*files.last()?.meta.largest);
        let is_parted = self.reserved.iter().any(|start| (first..=last).contains(&&**start));
        let below = self.state.overlapping(level.below(), first, last).iter();
        let overlapped: u64 = below.map(|file| file.meta.bytes).sum();
        Some(!is_parted && overlapped <= GRANDPARENT_LIMIT * self.sizing.file_bytes)
    }
}
