//! Flush and compaction: rewriting entries into new files, under the rule of [`super::gc`].
//!
//! Why the tombstones that are left out are not missed: a tombstone may go when nothing older of
//! its key is anywhere. What is older than the inputs is deeper than the output, in the state as
//! it was at the start, and stays there: files only move deeper, new ones come in above, and no
//! two compactions run at once whose key ranges and levels touch.

use std::io;
use std::sync::Arc;

use super::file::TableFile;
use super::gc::{Rule, Verdict};
use super::output::{Cut, Outputs};
use super::pace::Pace;
use super::separate::Storing;
use super::snapshots::Horizon;
use super::state::{Change, Level, LevelState};
use super::tree::{Flushed, Tree};
use super::view::Frozen;
use crate::entry::{Cursor, Entry, Kind};
use crate::env::Deferred;
use crate::error::{Error, Result};
use crate::merge::{CacheUse, Merge, Source};
use crate::sst::FileId;
use crate::tombstone::RangeTombstone;
use crate::version::Version;

/// A flush ends a file at this many times the usual size only: every file in level 0 is one more
/// place to look at, and the memtables of one flush together are seldom larger.
const FLUSH_FILE_FACTOR: u64 = 4;

/// A compaction of so many times the usual size of a file is done in two halves, as nothing else may go on in its levels
/// meanwhile: of level 0, where compactions are behind, or of all there is.
const HALVED_FILES: u64 = 8;

/// Which files to rewrite to which level.
#[derive(Clone)]
pub(super) struct Inputs {
    /// Files by level, youngest first, in the order of their level.
    pub(super) files: Vec<(Level, Vec<Arc<TableFile>>)>,
    pub(super) output: Level,
}

impl Inputs {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.files.iter().flat_map(|(_, files)| files)
    }

    pub(super) fn ids(&self) -> Vec<FileId> {
        self.all().map(|file| file.id()).collect()
    }

    /// Whether they are rewritten for the level that they are in.
    pub(super) fn are_in_place(&self) -> bool {
        self.files.iter().all(|(level, _)| *level == self.output)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.all().map(|file| file.meta.bytes).sum()
    }

    /// What all keys begin with.
    fn shared_prefix(&self) -> &[u8] {
        let first: &[u8] = self.all().map(|f| &*f.meta.smallest).min().unwrap_or_default();
        let last: &[u8] = self.all().map(|f| &*f.meta.largest).max().unwrap_or_default();
        let len = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        first.get(..len).unwrap_or_default()
    }

    fn sources(&self) -> Vec<Source<'_, TableFile>> {
        let mut sources = Vec::new();
        for (level, files) in &self.files {
            if *level == Level::ZERO {
                sources.extend(files.iter().map(|file| Source::file(&**file, CacheUse::Pass)));
            } else {
                sources.push(Source::level(files, CacheUse::Pass));
            }
        }
        sources
    }
}

/// What a compaction rewrites, and how.
struct Rewriting {
    inputs: Inputs,
    horizon: Horizon,
    state: Arc<LevelState>,
    zstd: Option<i32>,
}

/// What may be older than the inputs of a rewrite.
pub(super) struct Deeper<'a> {
    pub(super) state: &'a LevelState,
    pub(super) output: Level,
    pub(super) inputs: &'a [FileId],
}

impl Deeper<'_> {
    fn holds(&self, key: &[u8]) -> bool {
        let rest_of_level_0 = || {
            let files = self.state.level(Level::ZERO).iter();
            files.filter(|f| !self.inputs.contains(&f.id())).any(|f| f.overlaps(key, key))
        };
        let below = Level::all().filter(|&level| level > self.output && level > Level::ZERO);
        (self.output == Level::ZERO && rest_of_level_0()) || self.state.any_overlap(below, key, key)
    }
}

/// Copies what the rule keeps, from where the merge stands to the first key that is not before `until`, if that is given;
/// what range tombstones cover may be passed over without being read. Gives the files, durable, in the order of keys.
pub(super) fn rewrite(
    merge: &mut Merge<'_, TableFile>,
    until: Option<&[u8]>,
    mut rule: Rule,
    deeper: &Deeper<'_>,
    storing: &Storing<'_>,
    outputs: Outputs<'_>,
    mut pace: Pace<'_>,
) -> Result<Vec<Arc<TableFile>>> {
    let mut copy =
        KeyCopy { storing, outputs, key: Vec::new(), is_written: false, held: Vec::new() };
    let mut in_key = false;
    while let Some(entry) = merge.entry() {
        pace.step(entry.key.len() + entry.value.len())?;
        if !in_key || entry.key != &*copy.key {
            if until.is_some_and(|until| entry.key >= until) {
                break;
            }
            copy.begin(entry.key);
            rule.begin(entry.key);
            in_key = true;
        }
        let has_deeper = || deeper.holds(entry.key);
        match rule.judge(entry.key, entry.version, entry.kind, has_deeper) {
            Verdict::Keep => {
                copy.add(entry)?;
                merge.next()?;
            }
            Verdict::KeepOverOlder => {
                copy.held.push(entry.version);
                merge.next()?;
            }
            Verdict::Drop => merge.next()?,
            Verdict::Covered(cover) => match rule.cover_end(&copy.key) {
                Some(end) => merge.skip_forward(cover, end)?,
                None => merge.next()?,
            },
        }
    }
    copy.outputs.finish()
}

/// What is copied of a key.
struct KeyCopy<'a> {
    storing: &'a Storing<'a>,
    outputs: Outputs<'a>,
    key: Vec<u8>,
    is_written: bool,
    /// Tombstones that are written if an older entry of the key is, newest first.
    held: Vec<Version>,
}

impl KeyCopy<'_> {
    fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.held.clear();
        self.is_written = false;
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if !self.held.is_empty() {
            self.add_held(entry.key)?;
        }
        self.write(entry)
    }

    #[cold]
    fn add_held(&mut self, key: &[u8]) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        held.into_iter().try_for_each(|version| {
            self.write(Entry { key, version, kind: Kind::Delete, value: &[] })
        })
    }

    fn write(&mut self, entry: Entry<'_>) -> Result<()> {
        let starts_key = !std::mem::replace(&mut self.is_written, true);
        self.storing.add(entry, starts_key, &mut self.outputs)
    }
}

impl Tree {
    /// Flushes frozen memtables, oldest first in `batch`, into level 0. The caller holds the flush
    /// lock, and every commit in the batch is visible.
    pub(super) fn flush_batch(&self, batch: &[Frozen], newest: &Frozen) -> Result<Flushed> {
        let Frozen { last, log_start, .. } = *newest;
        self.ensure_manifest()?;
        let separation = self.separate(batch, last)?;
        let start = self.clock.monotonic();
        // Taken before the state: what becomes obsolete later than this is not left out.
        let horizon = self.snapshots.horizon();
        let state = Arc::clone(&self.views.load().levels);
        let tombstones_added = tombstones_of(batch);
        let rule = Rule::new(&horizon, state.range_tombstones_and(&tombstones_added), last);
        let zstd = self.compression.zstd_at(Level::ZERO, &state, 0);
        let outputs = Outputs::new(self, zstd, rule.bound(), self.flush_cut());
        let sources = batch.iter().rev().map(|f| Source::memtable(&f.memtable, f.last));
        let mut merge = Merge::new(sources.collect(), &[]);
        let deeper = Deeper { state: &state, output: Level::ZERO, inputs: &[] };
        let storing = Storing::Separated(&separation);
        let pace = Pace::flush(self);
        merge.seek_to_first()?;
        let files = rewrite(&mut merge, None, rule, &deeper, &storing, outputs, pace)?;
        let bytes: u64 = files.iter().map(|f| f.meta.bytes).sum();
        // What was found when an earlier memtable was flushed may be more than when this was frozen.
        let released = separation.log_start(self, last).unwrap_or(log_start);
        let log_start = log_start.max(state.log_start).max(released);
        let flushed = Flushed { version: last, log_start };
        self.install(Change {
            added: files.into_iter().map(|file| (Level::ZERO, file)).collect(),
            tombstones_added,
            values_added: separation.kept,
            flushed: Some(flushed),
            ..Change::default()
        })?;
        self.metrics.flushes.add(1);
        self.metrics.flush_bytes.add(bytes);
        let took = self.clock.monotonic().saturating_sub(start);
        tracing::debug!(memtables = batch.len(), bytes, ?took, "flushed");
        Ok(flushed)
    }

    /// Where files of level 0 end.
    fn flush_cut(&self) -> Cut<'static> {
        Cut { file_bytes: FLUSH_FILE_FACTOR * self.sizing.file_bytes, grandparents: &[] }
    }

    /// Rewrites files, compressed with that zstd level, if any, and puts the new ones in their place.
    pub(super) fn replace(&self, inputs: &Inputs, zstd: Option<i32>) -> Result<()> {
        let start = self.clock.monotonic();
        let horizon = self.snapshots.horizon();
        let state = Arc::clone(&self.views.load().levels);
        let files = self.rewrite_all(Rewriting { inputs: inputs.clone(), horizon, state, zstd })?;
        let read: u64 = inputs.bytes();
        let written: u64 = files.iter().map(|f| f.meta.bytes).sum();
        let (count, outputs) = (inputs.all().count(), files.len());
        self.install(Change {
            added: files.into_iter().map(|file| (inputs.output, file)).collect(),
            removed: inputs.ids(),
            ..Change::default()
        })?;
        self.metrics.compactions.add(1);
        self.metrics.compaction_read_bytes.add(read);
        self.metrics.compaction_written_bytes.add(written);
        let took = self.clock.monotonic().saturating_sub(start);
        let level = inputs.output.get();
        tracing::debug!(level, files = count, read, outputs, written, ?took, "compacted");
        Ok(())
    }

    /// Returns the new files in the order of their keys. Another thread does half of it, if there is one and it pays.
    fn rewrite_all(&self, rewriting: Rewriting) -> Result<Vec<Arc<TableFile>>> {
        let middle = self.middle(&rewriting.inputs);
        let Some((middle, tree)) = middle.zip(self.this.upgrade()) else {
            return self.rewrite_part(&rewriting, &[], None);
        };
        let whole = Arc::new((rewriting, middle));
        let shared = Arc::clone(&whole);
        let upper = Deferred::new(&*self.jobs, move || {
            let (rewriting, middle) = &*shared;
            tree.rewrite_part(rewriting, middle, None)
        });
        let (rewriting, middle) = &*whole;
        let lower = self.rewrite_part(rewriting, &[], Some(middle));
        // Whatever became of the lower half: what the upper one writes may be left to nobody.
        let panicked = || Err(Error::io("compact", &self.dir, io::Error::other("it panicked")));
        let upper = upper.finish().unwrap_or_else(panicked);
        match (lower, upper) {
            (Ok(lower), Ok(upper)) => Ok([lower, upper].concat()),
            (Err(error), made) | (made, Err(error)) => {
                made.into_iter().flatten().for_each(|file| file.set_obsolete());
                Err(error)
            }
        }
    }

    /// The key with which the upper half begins of what is to be rewritten in two: a file of the output level begins
    /// there.
    fn middle(&self, inputs: &Inputs) -> Option<Box<[u8]>> {
        let (level, files) = inputs.files.last()?;
        let is_large = inputs.bytes() >= HALVED_FILES * self.sizing.file_bytes;
        let pays = is_large && *level > Level::ZERO && files.len() > 1;
        let middle = files.get(files.len() / 2).filter(|_| pays)?;
        Some(middle.meta.smallest.clone())
    }

    /// Rewrites keys from `from` on to the first one that is not before `until`, if that is given.
    fn rewrite_part(
        &self,
        rewriting: &Rewriting,
        from: &[u8],
        until: Option<&[u8]>,
    ) -> Result<Vec<Arc<TableFile>>> {
        let Rewriting { inputs, horizon, state, zstd } = rewriting;
        let rule = Rule::new(horizon, Arc::clone(&state.range_tombstones), state.flushed);
        let cut = match inputs.output {
            Level::ZERO => self.flush_cut(),
            Level::LAST => Cut { file_bytes: self.sizing.file_bytes, grandparents: &[] },
            level => {
                let grandparents = state.level(level.below());
                Cut { file_bytes: self.sizing.file_bytes, grandparents }
            }
        };
        let outputs = Outputs::new(self, *zstd, rule.bound(), cut);
        let mut merge = Merge::new(inputs.sources(), inputs.shared_prefix());
        let ids = inputs.ids();
        let deeper = Deeper { state, output: inputs.output, inputs: &ids };
        let storing = Storing::Gathered(&state.values);
        let pace = Pace::compaction(self);
        merge.seek(from)?;
        rewrite(&mut merge, until, rule, &deeper, &storing, outputs, pace)
    }
}

pub(super) fn tombstones_of(batch: &[Frozen]) -> Vec<RangeTombstone> {
    let with = batch.iter().filter(|f| f.memtable.has_range_tombstones());
    with.flat_map(|f| f.memtable.range_tombstones().iter().cloned().collect::<Vec<_>>()).collect()
}
