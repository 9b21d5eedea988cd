//! When the files that range tombstones touch are rewritten for them.
//!
//! A file of which a tombstone deletes all there is goes at once, unread. One of which tombstones delete a good
//! part is rewritten soon: for each byte that comes back three are written at most. The others wait, until
//! a compaction comes by, the file has more of it, it is quiet, or too many tombstones wait. Nobody who reads
//! waits with them: tombstones in the state are passed in a seek (R-E19).
//!
//! Invariant: a file that was rewritten has applied every tombstone that nobody looked behind, so each is
//! rewritten once for those there are; a tombstone leaves the state when all files it touches are past it.

use std::cmp::Reverse;
use std::sync::Arc;

use super::file::TableFile;
use super::gc;
use super::picker::{Picker, Task};
use super::state::Level;
use crate::tombstone::{RangeTombstone, Stretch};
use crate::version::Version;

/// A file is rewritten soon once range tombstones delete this part of it: what is in vain otherwise counts from
/// the same part on.
const GOOD_PART: f64 = 0.25;
/// So many range tombstones may wait for quiet: as many as a memtable of the usual size has.
const MOST_WAITING: usize = 1_000;

/// A file to which range tombstones are yet to be applied.
struct Pending<'a> {
    level: Level,
    file: &'a Arc<TableFile>,
    /// Stretches of keys that they cover.
    stretches: usize,
    /// About what part of the file they are.
    part: f64,
}

impl Pending<'_> {
    /// Large values are much for a file that is little itself, and how many of them go is not known unread.
    fn is_worth_it(&self) -> bool {
        let meta = &self.file.meta;
        self.part >= GOOD_PART || meta.referenced.total() > meta.bytes
    }
}

impl Picker<'_> {
    /// Range tombstones that nobody looks behind.
    fn final_tombstones(&self) -> impl Iterator<Item = &RangeTombstone> {
        let bound = gc::bound(self.horizon, self.state.flushed);
        self.state.range_tombstones.iter().filter(move |t| t.version <= bound)
    }

    /// Files whose every entry a range tombstone deletes, for every reader there is (R-E17).
    pub(super) fn covered(&self) -> Option<Task> {
        self.covered_by(self.final_tombstones())
    }

    /// The same of other tombstones that nobody looks behind.
    pub(super) fn covered_by<'t>(
        &self,
        tombstones: impl Iterator<Item = &'t RangeTombstone>,
    ) -> Option<Task> {
        let mut files: Vec<(Level, Arc<TableFile>)> = Vec::new();
        for tombstone in tombstones {
            let near = self.state.near(tombstone);
            let covered =
                near.filter(|(_, file)| covers(tombstone, file) && !self.is_claimed(file));
            files.extend(covered.map(|(level, file)| (level, Arc::clone(file))));
        }
        files.sort_by_key(|(_, file)| file.id());
        files.dedup_by_key(|(_, file)| file.id());
        (!files.is_empty()).then_some(Task::Drop(files))
    }

    /// A file of which range tombstones delete a good part; any that they touch while too many wait.
    pub(super) fn reclaim_ranges(&self) -> Option<Task> {
        let too_many = self.final_tombstones().count() > MOST_WAITING;
        let pending = self.pending();
        let due = pending.filter(|pending| too_many || pending.is_worth_it());
        let mut due: Vec<_> = due.collect();
        // By these the most tombstones come nearer to leaving.
        due.sort_by_key(|pending| Reverse(pending.stretches));
        due.into_iter().find_map(|pending| self.in_place(pending.level, pending.file))
    }

    /// Any file that range tombstones touch, once it is quiet, deepest first, as compactions come by the others
    /// sooner. It is compressed as files are at rest.
    pub(super) fn apply(&self) -> Option<Task> {
        if !self.is_quiet {
            return None;
        }
        self.pending().rev().find_map(|Pending { level, file, .. }| {
            Some(Task::Apply(self.alone(level, file)?, self.zstd_at_rest(level)))
        })
    }

    /// Files that have not applied range tombstones that nobody looks behind, youngest first.
    fn pending(&self) -> impl DoubleEndedIterator<Item = Pending<'_>> {
        let is_any = !self.state.range_tombstones.is_empty();
        let files = is_any.then(|| self.state.files()).into_iter().flatten();
        let free = files.filter(|(_, file)| self.is_free(file));
        free.filter_map(|(level, file)| self.pending_in(level, file))
    }

    fn pending_in<'a>(&self, level: Level, file: &'a Arc<TableFile>) -> Option<Pending<'a>> {
        let mut pending = Pending { level, file, stretches: 0, part: 0.0 };
        for stretch in self.stretches_after(Version::ZERO, file) {
            pending.stretches += 1;
            pending.part += stretch.end.map_or(0.0, |end| file.reader.share(stretch.start, end));
        }
        (pending.stretches > 0).then_some(pending)
    }

    /// Whether a file has keys that range tombstones after `version` cover, behind which nobody looks.
    pub(super) fn is_covered_after(&self, version: Version, file: &TableFile) -> bool {
        self.stretches_after(version, file).next().is_some()
    }

    /// Stretches of keys in a file that such tombstones cover and that it has not applied.
    fn stretches_after<'a>(
        &'a self,
        version: Version,
        file: &'a TableFile,
    ) -> impl Iterator<Item = Stretch<'a>> {
        let meta = &file.meta;
        let bound = gc::bound(self.horizon, self.state.flushed);
        let tombstones = &self.state.range_tombstones;
        let covered = tombstones.covered_between(&meta.smallest, &meta.largest, bound);
        let past = version.max(file.gc_bound).max(meta.min_version);
        covered.filter(move |stretch| stretch.version > past)
    }
}

/// Whether a range tombstone deletes all there is in a file.
fn covers(tombstone: &RangeTombstone, file: &TableFile) -> bool {
    let meta = &file.meta;
    *tombstone.start <= *meta.smallest
        && *meta.largest < *tombstone.end
        && meta.max_version < tombstone.version
}
