//! [`LevelState`]: which table files make up the tree, level by level, and the range tombstones
//! over them. Immutable: a [`Change`] makes a new one.
//!
//! Invariant: the files of level 0 may overlap and stand newest first; those of every other level
//! are disjoint and stand in key order. Of two versions of a key, the newer one is never in a
//! deeper level, nor later in level 0. A key is deleted at `v` by any range tombstone of the state
//! that covers it, at or before `v` and newer than the entry, wherever the entry is.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use super::edit::{Edit, FileRecord};
use super::file::TableFile;
use super::tree::Flushed;
use super::value_file::ValueFile;
use super::values::Values;
use crate::sst::FileId;
use crate::tombstone::{RangeTombstone, RangeTombstones};
use crate::version::Version;
use crate::wal::SegmentId;

/// How many levels there are.
pub(crate) const LEVELS: usize = 7;

/// A depth in the tree: 0 takes the flushes, every level below is ten times larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Level(u8);

impl Level {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const ONE: Self = Self(1);
    pub(crate) const LAST: Self = Self(LEVELS as u8 - 1);

    /// `None` if there is no such level.
    pub(crate) fn new(level: u64) -> Option<Self> {
        u8::try_from(level).ok().map(Self).filter(|&l| l <= Self::LAST)
    }

    pub(crate) const fn get(self) -> u8 {
        self.0
    }

    /// The next deeper level; the last one stays what it is.
    pub(crate) const fn below(self) -> Self {
        if self.0 < Self::LAST.0 { Self(self.0 + 1) } else { Self::LAST }
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// All levels, youngest first.
    pub(crate) fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..=Self::LAST.0).map(Self)
    }
}

/// The table files of one level.
pub(crate) type LevelFiles = Vec<Arc<TableFile>>;

/// The table files and range tombstones of the tree at one instant.
#[derive(Clone)]
pub(crate) struct LevelState {
    levels: [Arc<LevelFiles>; LEVELS],
    pub(crate) range_tombstones: Arc<RangeTombstones>,
    /// What the files refer to.
    pub(crate) values: Arc<Values>,
    /// All commits up to this one are in table files or gone.
    pub(crate) flushed: Version,
    /// No commit after `flushed` is in an older log segment.
    pub(crate) log_start: SegmentId,
    /// Stored bytes of each level.
    bytes: [u64; LEVELS],
    /// Bytes of keys and values of each level, before any compression.
    raw_bytes: [u64; LEVELS],
}

impl LevelState {
    /// The state of a new database, whose log begins with `log_start`.
    pub(crate) fn empty(log_start: SegmentId) -> Self {
        Self {
            levels: Default::default(),
            range_tombstones: Arc::default(),
            values: Arc::default(),
            flushed: Version::ZERO,
            log_start,
            bytes: [0; LEVELS],
            raw_bytes: [0; LEVELS],
        }
    }

    /// The files of one level, in the level's order.
    pub(crate) fn level(&self, level: Level) -> &[Arc<TableFile>] {
        self.levels.get(level.index()).map_or(&[], |files| files)
    }

    /// All levels, youngest first.
    pub(crate) fn levels(&self) -> impl DoubleEndedIterator<Item = &[Arc<TableFile>]> {
        self.levels.iter().map(|files| files.as_slice())
    }

    /// Whether files that have no key outside of [low, high) have at least so many bytes, values in
    /// the log included.
    pub(crate) fn has_whole_files(&self, low: &[u8], high: &[u8], bytes: u64) -> bool {
        let whole = |file: &TableFile| *low <= *file.meta.smallest && *file.meta.largest < *high;
        let found =
            self.files().filter(|(_, file)| whole(file)).map(|(_, file)| file.meta.total_bytes());
        found.sum::<u64>() >= bytes
    }

    /// Whether any file may have keys in [low, high].
    pub(crate) fn may_have(&self, low: &[u8], high: &[u8]) -> bool {
        self.any_overlap(Level::all(), low, high)
    }

    /// All files with their levels.
    pub(crate) fn files(&self) -> impl DoubleEndedIterator<Item = (Level, &Arc<TableFile>)> {
        Level::all().flat_map(|level| self.level(level).iter().map(move |file| (level, file)))
    }

    /// Stored bytes of a level.
    pub(crate) fn bytes(&self, level: Level) -> u64 {
        self.bytes.get(level.index()).copied().unwrap_or_default()
    }

    /// Bytes of keys and values of all levels, before any compression.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw_bytes.iter().sum()
    }

    /// Bytes of keys and values from level 0 to this one, before any compression.
    pub(super) fn raw_bytes_down_to(&self, level: Level) -> u64 {
        self.raw_bytes.iter().take(level.index() + 1).sum()
    }

    fn apply(&mut self, change: &Change) {
        for (level, files) in Level::all().zip(&mut self.levels) {
            change.apply_to_level(level, files);
        }
        let files = self.levels.each_ref();
        self.bytes = files.map(|files| files.iter().map(|file| file.meta.bytes).sum());
        self.raw_bytes = files.map(|files| files.iter().map(|file| file.meta.raw_bytes).sum());
        let values = Arc::clone(&self.values);
        let files = values.files().chain(&change.values_added);
        self.values = Arc::new(Values::referenced(files, self.files().map(|(_, file)| file)));
    }

    /// The files of a level other than 0 with keys in [first, last], both inclusive.
    pub(crate) fn overlapping(&self, level: Level, first: &[u8], last: &[u8]) -> &[Arc<TableFile>] {
        debug_assert!(level > Level::ZERO, "level 0 is not sorted by key");
        overlapping(self.level(level), first, last)
    }

    /// Whether any file of these levels has keys in [first, last].
    pub(crate) fn any_overlap(
        &self,
        levels: impl Iterator<Item = Level>,
        first: &[u8],
        last: &[u8],
    ) -> bool {
        levels.into_iter().any(|level| match level {
            Level::ZERO => self.level(level).iter().any(|f| f.overlaps(first, last)),
            _ => !self.overlapping(level, first, last).is_empty(),
        })
    }

    /// Its range tombstones, and others that are to come.
    pub(crate) fn range_tombstones_and(&self, added: &[RangeTombstone]) -> Arc<RangeTombstones> {
        let all = self.range_tombstones.iter().chain(added).cloned();
        Arc::new(RangeTombstones::new(all.collect()))
    }

    /// This state with a change made to it, and the range tombstones it no longer needs dropped,
    /// which are added to the change.
    pub(crate) fn with(&self, change: &mut Change) -> Self {
        let mut next = self.clone();
        next.apply(change);
        if let Some(Flushed { version, log_start }) = change.flushed {
            next.flushed = version;
            next.log_start = log_start;
        }
        let tombstones = self.range_tombstones.iter().chain(&change.tombstones_added);
        let (needed, satisfied) = tombstones.cloned().partition(|t| next.needs(t));
        change.tombstones_removed = satisfied;
        if !(change.tombstones_added.is_empty() && change.tombstones_removed.is_empty()) {
            next.range_tombstones = Arc::new(RangeTombstones::new(needed));
        }
        next
    }

    /// Whether a file may hold entries that this range tombstone deletes. The memtables hold
    /// none: a range tombstone is in the state only once all older commits are in table files.
    fn needs(&self, tombstone: &RangeTombstone) -> bool {
        self.near(tombstone).any(|(_, file)| is_pending(file, tombstone))
    }

    /// All files that a range tombstone touches, and perhaps some that it does not.
    pub(crate) fn near(
        &self,
        tombstone: &RangeTombstone,
    ) -> impl Iterator<Item = (Level, &Arc<TableFile>)> {
        Level::all().flat_map(|level| {
            let files = match level {
                Level::ZERO => self.level(level),
                _ => self.overlapping(level, &tombstone.start, &tombstone.end),
            };
            files.iter().map(move |file| (level, file))
        })
    }

    /// The record that describes this whole state, for the beginning of a manifest.
    pub(crate) fn to_edit(&self, next_file: FileId) -> Edit {
        Edit {
            added: self.files().map(|(level, file)| record(level, file)).collect(),
            tombstones_added: self.range_tombstones.iter().cloned().collect(),
            ..Edit::unchanged(self.flushed, self.log_start, Version::ZERO, next_file)
        }
    }
}

/// Whether `file` may hold entries that `tombstone` deletes.
fn is_pending(file: &TableFile, tombstone: &RangeTombstone) -> bool {
    file.meta.min_version < tombstone.version
        && file.gc_bound < tombstone.version
        && *file.meta.smallest < *tombstone.end
        && *file.meta.largest >= *tombstone.start
}

/// The files of a sorted, disjoint run with keys in [first, last], both inclusive.
pub(crate) fn overlapping<'a>(
    run: &'a [Arc<TableFile>],
    first: &[u8],
    last: &[u8],
) -> &'a [Arc<TableFile>] {
    let start = run.partition_point(|f| *f.meta.largest < *first);
    let rest = run.get(start..).unwrap_or_default();
    let len = rest.partition_point(|f| *f.meta.smallest <= *last);
    rest.get(..len).unwrap_or_default()
}

fn record(level: Level, file: &TableFile) -> FileRecord {
    FileRecord { level, gc_bound: file.gc_bound, meta: file.meta.clone() }
}

/// What a flush or compaction does to the state, with the files it made open.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) added: Vec<(Level, Arc<TableFile>)>,
    /// Files that leave their level; one that is also added moves to another.
    pub(crate) removed: Vec<FileId>,
    pub(crate) tombstones_added: Vec<RangeTombstone>,
    /// Log segments that files added refer to and no file did before.
    pub(crate) values_added: Vec<Arc<ValueFile>>,
    /// Filled in by [`LevelState::with`].
    pub(crate) tombstones_removed: Vec<RangeTombstone>,
    pub(crate) flushed: Option<Flushed>,
    /// The log has everything up to this version that is not flushed, durably; zero if the change does not rely on it.
    pub(crate) log_end: Version,
}

impl Change {
    fn apply_to_level(&self, level: Level, files: &mut Arc<LevelFiles>) {
        let removed: HashSet<FileId> = self.removed.iter().copied().collect();
        let leaves = |file: &Arc<TableFile>| removed.contains(&file.id());
        if !removed.is_empty() && files.iter().any(leaves) {
            Arc::make_mut(files).retain(|file| !leaves(file));
        }
        if !self.added.iter().any(|(to, _)| *to == level) {
            return;
        }
        let added = self.added.iter().filter(|(to, _)| *to == level);
        let files = Arc::make_mut(files);
        files.extend(added.map(|(_, file)| Arc::clone(file)));
        sort_level(level, files);
    }

    /// Whether a file is part of the tree no more.
    pub(crate) fn removes(&self, id: FileId) -> bool {
        self.removed.contains(&id) && !self.added.iter().any(|(_, file)| file.id() == id)
    }

    /// Whether files come and nothing goes for it, neither others nor a part of the log: what a load does.
    pub(crate) fn is_addition(&self) -> bool {
        !self.added.is_empty() && self.removed.is_empty() && self.flushed.is_none()
    }

    /// The record of this change in the manifest; `state` is the one it leads to.
    pub(crate) fn to_edit(&self, state: &LevelState, next_file: FileId) -> Edit {
        Edit {
            added: self.added.iter().map(|(level, file)| record(*level, file)).collect(),
            removed: self.removed.clone(),
            tombstones_added: self.tombstones_added.clone(),
            tombstones_removed: self.tombstones_removed.clone(),
            flushed: state.flushed,
            log_start: state.log_start,
            log_end: self.log_end,
            next_file,
        }
    }
}

/// Puts files in the order of their level. Flushes hold disjoint spans of versions, and so do
/// files of level 0 that share keys: the newest version says which is the newer file.
fn sort_level(level: Level, files: &mut [Arc<TableFile>]) {
    if level == Level::ZERO {
        files.sort_by_key(|f| Reverse((f.meta.max_version, f.id())));
    } else {
        files.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        debug_assert!(
            files.is_sorted_by(|a, b| a.meta.largest < b.meta.smallest),
            "the files of a level are disjoint"
        );
    }
}

/// A state of which only the files are known, opened by [`super::open`].
pub(crate) fn assemble(
    files: Vec<(Level, Arc<TableFile>)>,
    values_added: Vec<Arc<ValueFile>>,
    range_tombstones: RangeTombstones,
    flushed: Version,
    log_start: SegmentId,
) -> LevelState {
    let mut state = LevelState::empty(log_start);
    let change = Change { added: files, values_added, ..Change::default() };
    state.apply(&change);
    state.range_tombstones = Arc::new(range_tombstones);
    state.flushed = flushed;
    state
}
