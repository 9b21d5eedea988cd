//! How much space comes back once newer entries meet the older ones that they hide. Of large values that is much more
//! than what is rewritten, as table files have only references to them.
//!
//! Invariant: a file is walked for what it hides once while it is open. That only becomes less: what is older than it is
//! there when it is written.

use std::sync::Arc;

use super::compaction::Inputs;
use super::file::TableFile;
use super::pace::Pace;
use super::picker::{Picker, Task};
use super::state::{Level, LevelState};
use super::tree::Tree;
use crate::entry::{Cursor, Kind};
use crate::error::Result;
use crate::memtable::Memtable;

/// Most bytes to rewrite for each byte of large values that comes back.
const WORTH: u64 = 3;

impl Picker<'_> {
    /// A file that may hide large values, with what is to be rewritten so that they go; all of level 0 at once.
    pub(super) fn reveal(&self) -> Option<Task> {
        if !self.is_quiet || self.state.values.bytes() == 0 {
            return None;
        }
        let oldest = self.horizon.oldest();
        let mut files = self.state.files().filter(|(_, file)| file.may_hide_values(oldest));
        files.find_map(|(level, file)| {
            let newer = match level {
                Level::ZERO => self.state.level(level).to_vec(),
                Level::LAST => return None,
                _ => vec![Arc::clone(file)],
            };
            let inputs = self.free(self.descend(level, newer)?)?;
            let referenced =
                older(self.state, level, file).map(|file| file.meta.referenced.total());
            let is_worth_it = referenced.sum::<u64>() >= enough(&inputs);
            let zstd = self.zstd_at_rest(inputs.output);
            is_worth_it.then_some(Task::Reveal(inputs, zstd))
        })
    }
}

impl Tree {
    /// Rewrites files if enough of the large values that older ones refer to is hidden by those of the first level.
    ///
    /// # Errors
    /// What reading, writing and the manifest report; the tree is then as it was.
    pub(super) fn reveal(&self, inputs: &Inputs, zstd: Option<i32>) -> Result<()> {
        let Some((level, files)) = inputs.files.first() else { return Ok(()) };
        let oldest = self.snapshots.horizon().oldest();
        let newer: Vec<_> = files.iter().filter(|file| file.may_hide_values(oldest)).collect();
        if self.hide_values(*level, &newer, enough(inputs))? {
            return self.replace(inputs, zstd);
        }
        newer.iter().for_each(|file| file.set_hides_no_values());
        Ok(())
    }

    /// Whether files of a level hide so many bytes of the large values that older ones refer to.
    fn hide_values(&self, level: Level, newer: &[&Arc<TableFile>], bytes: u64) -> Result<bool> {
        let state = Arc::clone(&self.views.load().levels);
        let (mut hidden, mut pace) = (0, Pace::compaction(self));
        for file in newer {
            for older in older(&state, level, file) {
                let (keys, wanted) = (file.reader.passing_cursor(), bytes.saturating_sub(hidden));
                hidden += older.referenced_by_keys_of(keys, wanted, &mut pace)?;
            }
        }
        Ok(hidden >= bytes)
    }

    /// Whether what is in a memtable hides about so many bytes of files and of large values.
    ///
    /// # Errors
    /// What reading the blocks reports in which deleted ranges end, and those with references to large values;
    /// [`Error::Closed`](crate::Error::Closed) once the tree is closing.
    pub(crate) fn hides(&self, memtable: &Memtable, bytes: u64) -> Result<bool> {
        let state = Arc::clone(&self.views.load().levels);
        let (mut hidden, mut pace) = (0, Pace::compaction(self));
        for tombstone in memtable.range_tombstones().iter() {
            let (low, high) = (&*tombstone.start, &*tombstone.end);
            for (_, file) in state.files().filter(|(_, file)| file.overlaps(low, high)) {
                hidden += file.reader.estimate(low, high)?.bytes;
                let wanted = bytes.saturating_sub(hidden);
                hidden += file.referenced_between(low, high, wanted, &mut pace)?;
            }
            if hidden >= bytes {
                return Ok(true);
            }
        }
        // Of each entity as much as entries have on average, but for large values.
        let all: u64 = state.files().map(|(_, file)| file.meta.bytes).sum();
        let entries: u64 = state.files().map(|(_, file)| file.meta.entries).sum();
        hidden += count_deletions(memtable)? * (all / entries.max(1));
        for (_, file) in state.files() {
            let wanted = bytes.saturating_sub(hidden);
            hidden += file.referenced_by_keys_of(memtable.cursor(), wanted, &mut pace)?;
        }
        Ok(hidden >= bytes)
    }

    /// Whether a memtable has so many deletions.
    ///
    /// # Errors
    /// What walking through it reports.
    pub(crate) fn has_deletions(&self, memtable: &Memtable, least: u64) -> Result<bool> {
        Ok(memtable.entries() >= least && count_deletions(memtable)? >= least)
    }
}

/// How many bytes of large values have to come back for files to be rewritten.
fn enough(inputs: &Inputs) -> u64 {
    inputs.bytes().div_ceil(WORTH)
}

/// Files that may have older entries of a file's keys.
fn older<'a>(
    state: &'a LevelState,
    level: Level,
    file: &'a TableFile,
) -> impl Iterator<Item = &'a Arc<TableFile>> {
    let (first, last) = (&file.meta.smallest, &file.meta.largest);
    let beside = state.level(Level::ZERO).iter().filter(move |other| {
        level == Level::ZERO
            && other.meta.max_version < file.meta.min_version
            && other.overlaps(first, last)
    });
    let below = Level::all().filter(move |&below| below > level);
    beside.chain(below.flat_map(move |below| state.overlapping(below, first, last)))
}

fn count_deletions(memtable: &Memtable) -> Result<u64> {
    let (mut cursor, mut deletions) = (memtable.cursor(), 0);
    cursor.seek_to_first()?;
    while cursor.valid() {
        deletions += u64::from(cursor.kind() == Kind::Delete);
        cursor.next_key()?;
    }
    Ok(deletions)
}
