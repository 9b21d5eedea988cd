//! What to compact next: a pure function of the state, of what is running, and of what readers
//! still look at.
//!
//! In this order:
//! 1. files that a range tombstone covers [whole](super::ranges) are dropped without being read;
//! 2. the level that is most over its target gives files to the next one. From level 0 all files
//!    go together; from the others, the file that has the least to rewrite below it for what it
//!    brings, where tombstones count for what they will remove;
//! 3. with every level within its target, or away from those that wait until what runs has ended: files that
//!    hold much that no reader sees any more (tombstones, older versions, what range tombstones
//!    [cover](super::ranges)), or refer to values in sparse segments, are rewritten, so that space comes back
//!    without a manual step; those of level 0 once that is a good part of what has to be rewritten with them;
//! 4. small files beside each other become [one](super::join), so that there are no more files than what is in them
//!    wants;
//! 5. with nothing else at work: a file that was not compressed when it was written is rewritten, if by the
//!    [rule](super::compression) it is to be; and once it is quiet, one that holds little in vain that range
//!    tombstones cover, or that [hides](super::hidden) large values.
//!
//! Invariant: two tasks that run at once never touch the same level in overlapping key ranges.
//! Steps 3 to 5 end: what they rewrite in place has nothing left of the kind it was rewritten for, what step 3 pushes
//! down gets deeper, and step 4 leaves fewer files.

use std::sync::Arc;

use super::compaction::Inputs;
use super::compression::CompressionRule;
use super::failures::Unread;
use super::file::TableFile;
use super::reserved::Start;
use super::snapshots::Horizon;
use super::state::{Level, LevelState, overlapping};
use super::targets::{LEVEL_0_TRIGGER, level_for, target};
use crate::options::Sizing;
use crate::sst::{FileId, FileMeta};

/// Most files of level 0 in one compaction, during which no other may touch level 1.
const LEVEL_0_MOST: usize = 24;
/// A file is worth rewriting for what it holds in vain once that is one in so many entries.
const GARBAGE_SHARE: u64 = 4;
/// How many files of a level are tried until one is found that nothing else is working on.
const TRIES: usize = 32;

/// Something to do to the files.
#[derive(Clone)]
pub(super) enum Task {
    /// Rewrite files to a level, compressed with that zstd level, if any.
    Rewrite(Inputs, Option<i32>),
    /// Rewrite a file in place if that compresses it.
    Compress(Inputs, i32),
    /// Rewrite a file in place, compressed with that zstd level, if any, so that range tombstones leave it.
    Apply(Inputs, Option<i32>),
    /// Rewrite files to a level, compressed so, if enough of large values comes back.
    Reveal(Inputs, Option<i32>),
    /// Make files part of another level as they are.
    Move(Inputs),
    /// Remove files of which no reader sees anything.
    Drop(Vec<(Level, Arc<TableFile>)>),
}

/// What a running task works on.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    levels: (Level, Level),
    first: Box<[u8]>,
    last: Box<[u8]>,
    files: Vec<FileId>,
}

impl Task {
    /// What it reads and writes anew, if it does.
    pub(super) fn read(&self) -> Option<&Inputs> {
        match self {
            Self::Rewrite(inputs, _)
            | Self::Compress(inputs, _)
            | Self::Apply(inputs, _)
            | Self::Reveal(inputs, _) => Some(inputs),
            Self::Move(_) | Self::Drop(_) => None,
        }
    }

    /// Whether it is begun only when nothing else is to be done; it does not end the quiet.
    pub(super) fn is_for_rest(&self) -> bool {
        matches!(self, Self::Compress(..) | Self::Apply(..) | Self::Reveal(..))
    }

    /// What nobody else may touch meanwhile; one claim for each range of keys.
    pub(super) fn claims(&self) -> Vec<Claim> {
        match self {
            Self::Rewrite(inputs, _)
            | Self::Compress(inputs, _)
            | Self::Apply(inputs, _)
            | Self::Reveal(inputs, _)
            | Self::Move(inputs) => claim(inputs).into_iter().collect(),
            Self::Drop(files) => {
                files.iter().map(|(level, file)| claim_file(*level, file)).collect()
            }
        }
    }
}

fn claim(inputs: &Inputs) -> Option<Claim> {
    let first = inputs.all().map(|f| &f.meta.smallest).min()?.clone();
    let last = inputs.all().map(|f| &f.meta.largest).max()?.clone();
    let top = inputs.files.first().map_or(inputs.output, |(level, _)| *level);
    Some(Claim { levels: (top, inputs.output), first, last, files: inputs.ids() })
}

fn claim_file(level: Level, file: &TableFile) -> Claim {
    Claim {
        levels: (level, level),
        first: file.meta.smallest.clone(),
        last: file.meta.largest.clone(),
        files: vec![file.id()],
    }
}

impl Claim {
    pub(super) fn touches(&self, level: Level) -> bool {
        (self.levels.0..=self.levels.1).contains(&level)
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.levels.0 <= other.levels.1
            && other.levels.0 <= self.levels.1
            && self.first <= other.last
            && other.first <= self.last
    }
}

/// Everything the choice depends on.
#[derive(Clone)]
pub(super) struct Picker<'a> {
    pub(super) state: &'a LevelState,
    pub(super) horizon: &'a Horizon,
    pub(super) sizing: &'a Sizing,
    pub(super) compression: CompressionRule,
    pub(super) running: Vec<&'a Claim>,
    /// Where tables begin that are being loaded.
    pub(super) reserved: &'a [Start],
    /// Levels in which nothing new is to begin.
    pub(super) awaited: Vec<Level>,
    /// Nothing was flushed or compacted for a while.
    pub(super) is_quiet: bool,
    /// Files that could not be read.
    pub(super) unread: &'a Unread,
    /// What was begun last found no room on the disk.
    pub(super) is_full: bool,
    /// Pages step over deletions in level 0.
    pub(super) sheds_level_0: bool,
}

impl Picker<'_> {
    pub(super) fn pick(&self) -> Option<Task> {
        self.covered().or_else(|| if self.is_full { self.pick_small() } else { self.pick_any() })
    }

    /// Whether nothing is to be done, not even once what runs has ended, it is quiet, and there is room.
    pub(super) fn is_done(&self) -> bool {
        let later = Self { is_quiet: true, is_full: false, reserved: &[], ..self.clone() };
        self.running.is_empty() && later.pick().is_none()
    }

    fn pick_any(&self) -> Option<Task> {
        match self.over_target() {
            Ok(task) => Some(task),
            Err(awaited) => {
                let elsewhere = Self { awaited, ..self.clone() };
                elsewhere.reclaim().or_else(|| elsewhere.join()).or_else(|| self.rest())
            }
        }
    }

    /// One task at a time, those first for which little room is enough: a file that is rewritten gives some back.
    fn pick_small(&self) -> Option<Task> {
        if !self.running.is_empty() {
            return None;
        }
        self.reclaim_ranges().or_else(|| self.pick_any())
    }

    /// Whether a task may read the file.
    pub(super) fn is_free(&self, file: &TableFile) -> bool {
        !self.is_claimed(file) && !self.is_avoided(file)
    }

    /// Whether a task works on the file.
    pub(super) fn is_claimed(&self, file: &TableFile) -> bool {
        self.running.iter().any(|claim| claim.files.contains(&file.id()))
    }

    /// Whether it could not be read, and is left alone: but for a range tombstone that has come since, which may
    /// have what could not be read passed over.
    fn is_avoided(&self, file: &TableFile) -> bool {
        let tried = self.unread.tried(file);
        tried.is_some_and(|tried| !self.is_covered_after(tried, file))
    }

    /// The inputs, if nothing else is working there.
    pub(super) fn free(&self, inputs: Inputs) -> Option<Inputs> {
        let claim = claim(&inputs)?;
        let free = inputs.all().all(|file| self.is_free(file))
            && !self.running.iter().any(|other| other.conflicts(&claim))
            && !self.awaited.iter().any(|&level| claim.touches(level));
        free.then_some(inputs)
    }

    /// A task for the level that is most over its target of those that can go on; else the levels that others
    /// wait to be free, for tasks that are at work.
    fn over_target(&self) -> Result<Task, Vec<Level>> {
        let mut scores: Vec<(f64, Level)> = Level::all()
            .filter(|&level| level < Level::LAST)
            .map(|level| (self.score(level), level))
            .filter(|(score, _)| *score >= 1.0)
            .collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut awaited = Vec::new();
        for (_, level) in scores {
            // What is more urgent waits for it to be free: nothing new begins there.
            if awaited.contains(&level) {
                continue;
            }
            let task = if level == Level::ZERO { self.drain_level_0() } else { self.drain(level) };
            if let Some(task) = task {
                return Ok(task);
            }
            if !self.running.is_empty() {
                awaited.extend([level, level.below()]);
            }
        }
        Err(awaited)
    }

    /// How full a level is, but for what is leaving it already; 1 is its target.
    fn score(&self, level: Level) -> f64 {
        let files = self.state.level(level).iter().filter(|file| self.is_free(file));
        if level == Level::ZERO {
            return files.count() as f64 / LEVEL_0_TRIGGER as f64;
        }
        let bytes: u64 = files.map(|file| file.meta.bytes).sum();
        bytes as f64 / target(self.sizing, level) as f64
    }

    /// The oldest file moves if nothing is in its way; otherwise the older files go together. None
    /// may overtake an older one: where that one cannot go, the newer ones stay too.
    fn drain_level_0(&self) -> Option<Task> {
        let files = self.state.level(Level::ZERO);
        let stuck = files.iter().rposition(|file| !self.is_free(file)).map_or(0, |at| at + 1);
        let first = stuck.max(files.len().saturating_sub(LEVEL_0_MOST));
        let older = files.get(first..).unwrap_or_default();
        let oldest = older.last()?;
        let alone = self.descend(Level::ZERO, vec![Arc::clone(oldest)])?;
        let moves = self.may_move(&alone, oldest);
        if let Some(inputs) = moves.then(|| self.free(alone)).flatten() {
            return Some(Task::Move(inputs));
        }
        let together = self.descend(Level::ZERO, older.to_vec())?;
        self.free(together).map(|inputs| self.rewrite(inputs))
    }

    fn drain(&self, level: Level) -> Option<Task> {
        let run = self.state.level(level);
        let below = self.state.level(level.below());
        let mut candidates: Vec<(f64, &Arc<TableFile>)> = run
            .iter()
            .filter(|file| self.is_free(file))
            .map(|file| (price(file, below), file))
            .collect();
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
        candidates.into_iter().take(TRIES).find_map(|(_, file)| self.push_down(level, file))
    }

    /// One file of a level other than 0, to the next level.
    fn push_down(&self, level: Level, file: &Arc<TableFile>) -> Option<Task> {
        let inputs = self.free(self.descend(level, vec![Arc::clone(file)])?)?;
        let moves = self.may_move(&inputs, file);
        Some(if moves { Task::Move(inputs) } else { self.rewrite(inputs) })
    }

    /// Whether a file goes to the next level as it is: nothing is in its way there, it would not be
    /// compressed on its way, and is worth being kept.
    fn may_move(&self, inputs: &Inputs, file: &TableFile) -> bool {
        let [(level, _)] = &*inputs.files else { return false };
        !self.compression.begins_below(*level, self.state) && !is_garbage(file)
    }

    /// A rewrite, compressed by the [rule](super::compression).
    pub(super) fn rewrite(&self, inputs: Inputs) -> Task {
        let Self { state, sizing, compression, .. } = self;
        let merges = inputs.files.len() > 1;
        let zstd = if merges {
            compression.zstd_merged(inputs.output, state, sizing)
        } else {
            compression.zstd_at(inputs.output, state, 0)
        };
        Task::Rewrite(inputs, zstd)
    }

    /// Files of a level with all they overlap in the next.
    pub(super) fn descend(&self, level: Level, files: Vec<Arc<TableFile>>) -> Option<Inputs> {
        let first = files.iter().map(|f| &f.meta.smallest).min()?;
        let last = files.iter().map(|f| &f.meta.largest).max()?;
        let output = level.below();
        let below = self.state.overlapping(output, first, last).to_vec();
        let mut inputs = vec![(level, files)];
        if !below.is_empty() {
            inputs.push((output, below));
        }
        Some(Inputs { files: inputs, output })
    }

    /// A file that holds much in vain, with every level within its target.
    fn reclaim(&self) -> Option<Task> {
        let mut files = self.state.files().filter(|(_, file)| self.is_free(file));
        let garbage = files.find_map(|(level, file)| self.reclaim_garbage(level, file));
        let shed = || if self.sheds_level_0 { self.drain_level_0() } else { None };
        garbage.or_else(shed).or_else(|| self.reclaim_values()).or_else(|| self.reclaim_ranges())
    }

    /// What is for times when nothing else is to be done. Compressing a file is first, as it applies range
    /// tombstones too.
    pub(super) fn rest(&self) -> Option<Task> {
        if !self.running.is_empty() {
            return None;
        }
        self.compress().or_else(|| self.apply()).or_else(|| self.reveal())
    }

    /// How what is rewritten at rest is compressed, once it is quiet.
    pub(super) fn zstd_at_rest(&self, level: Level) -> Option<i32> {
        let at_rest = self.compression.zstd_at_rest(level, self.state, true);
        at_rest.or_else(|| self.compression.zstd_at(level, self.state, 0))
    }

    /// A file that was not compressed when it was written, deepest first, as those stay longest.
    fn compress(&self) -> Option<Task> {
        Level::all().rev().find_map(|level| {
            let zstd = self.compression.zstd_at_rest(level, self.state, self.is_quiet)?;
            let mut files = self.state.level(level).iter();
            let file = files.find(|file| !file.is_dense() && self.is_free(file))?;
            Some(Task::Compress(self.alone(level, file)?, zstd))
        })
    }

    /// A file that refers to values in sparse segments; rewritten, it has them itself.
    fn reclaim_values(&self) -> Option<Task> {
        let refers = |file: &TableFile| self.state.values.refers_to_sparse(file);
        let mut files = self.state.files().filter(|(_, file)| refers(file) && self.is_free(file));
        files.find_map(|(level, file)| match level {
            Level::ZERO => self.drain_level_0(),
            _ => self.in_place(level, file),
        })
    }

    fn reclaim_garbage(&self, level: Level, file: &Arc<TableFile>) -> Option<Task> {
        if !is_garbage(file) || file.meta.max_version > self.horizon.oldest() {
            return None;
        }
        let hides_something = file.meta.tombstones > 0
            && self.state.any_overlap(
                Level::all().filter(|&below| below > level),
                &file.meta.smallest,
                &file.meta.largest,
            );
        match level {
            Level::ZERO => self.drain_level_0().filter(brings_back_much),
            _ if hides_something => self.push_down(level, file),
            _ => self.in_place(level, file),
        }
    }

    pub(super) fn in_place(&self, level: Level, file: &Arc<TableFile>) -> Option<Task> {
        self.alone(level, file).map(|inputs| self.rewrite(inputs))
    }

    /// A file for its own level.
    pub(super) fn alone(&self, level: Level, file: &Arc<TableFile>) -> Option<Inputs> {
        let files = vec![(level, vec![Arc::clone(file)])];
        self.free(Inputs { files, output: level })
    }
}

/// Whether a good part of the entries are tombstones or hidden by newer ones in the same file.
fn is_garbage(file: &TableFile) -> bool {
    let meta = &file.meta;
    let garbage = meta.tombstones + (meta.entries - meta.keys);
    garbage.saturating_mul(GARBAGE_SHARE) >= meta.entries
}

/// Whether a good part of what is rewritten with level 0 goes. Else level 1 would be rewritten for each file that is
/// flushed, where a part of what is written are deletions; more of them make level 0 due anyway.
fn brings_back_much(task: &Task) -> bool {
    let Task::Rewrite(inputs, _) = task else { return true };
    let entries: f64 = inputs.all().map(|file| file.meta.entries as f64).sum();
    let newest = inputs.files.iter().filter(|(level, _)| *level == Level::ZERO);
    // A tombstone goes with the entry that it hides.
    let gone = newest.flat_map(|(_, files)| files).map(|file| {
        let meta = &file.meta;
        2.0 * meta.tombstones as f64 + (meta.entries - meta.keys) as f64
    });
    gone.sum::<f64>() * GARBAGE_SHARE as f64 >= entries
}

/// Bytes to rewrite for each byte that leaves the level; a tombstone counts as leaving twice more.
fn price(file: &TableFile, below: &[Arc<TableFile>]) -> f64 {
    let meta = &file.meta;
    let below = overlapping(below, &meta.smallest, &meta.largest);
    let rewritten = meta.bytes + below.iter().map(|f| f.meta.bytes).sum::<u64>();
    let tombstones = meta.tombstones as f64 / meta.entries.max(1) as f64;
    rewritten as f64 / (meta.bytes.max(1) as f64 * (1.0 + 2.0 * tombstones))
}

/// All files, to the deepest level that holds any or the first that has room for them; nothing if
/// there they are and hold nothing in vain.
pub(super) fn everything(
    state: &LevelState,
    sizing: &Sizing,
    compression: &CompressionRule,
) -> Option<Task> {
    let files = Level::all().map(|level| (level, state.level(level).to_vec()));
    let files: Vec<_> = files.filter(|(_, files)| !files.is_empty()).collect();
    let (deepest, _) = files.last()?;
    let bytes = state.files().map(|(_, file)| file.meta.bytes).sum();
    let output = level_for(bytes, (*deepest).max(Level::ONE), sizing);
    let in_vain = |f: &Arc<TableFile>| {
        let FileMeta { tombstones, entries, keys, .. } = f.meta;
        tombstones > 0 || entries > keys || state.values.refers_to_sparse(f)
    };
    let all_there = state.files().all(|(level, file)| level == output && !in_vain(file));
    if all_there && state.range_tombstones.is_empty() {
        return None;
    }
    Some(Task::Rewrite(Inputs { files, output }, compression.zstd_at(output, state, 0)))
}

#[cfg(test)]
mod tests;
