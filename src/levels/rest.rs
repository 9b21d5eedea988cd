//! Rest: when nothing else is to be done, files are compressed that were not when they were written, range tombstones
//! applied that delete little of theirs, and large values [given up](super::hidden) that newer entries hide.
//!
//! Invariant: as long as there is such a file that is to be rewritten once it is [`Quiet`], a task is running or a
//! timer set, after which the picker is asked again.

use std::sync::Weak;
use std::time::Duration;

use super::compaction::Inputs;
use super::picker::Picker;
use super::schedule::Schedule;
use super::state::Level;
use super::targets::LEVEL_0_TRIGGER;
use super::tree::Tree;
use super::view::View;
use crate::env::{Background, JobClass};
use crate::error::Result;

/// So long after the last flush or compaction it is quiet: what it wrote may stay for long.
const QUIET_AFTER: Duration = Duration::from_secs(5);

/// Since when nothing was flushed or compacted, but at rest.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    since: Duration,
    /// A timer is set.
    is_awaited: bool,
}

impl Quiet {
    /// Something was done just now.
    pub(super) fn end(&mut self, now: Duration) {
        self.since = now;
    }

    pub(super) fn is_reached(&self, now: Duration) -> bool {
        self.left(now).is_zero()
    }

    /// In what time it is quiet if nothing is done until then.
    fn left(&self, now: Duration) -> Duration {
        QUIET_AFTER.saturating_sub(now.saturating_sub(self.since))
    }
}

impl Tree {
    /// In what time to [look](Self::look_after) for work, if there will be some when it is quiet.
    pub(super) fn next_look(&self, schedule: &mut Schedule) -> Option<Duration> {
        if schedule.quiet.is_awaited || !self.may_begin_task(schedule) {
            return None;
        }
        let (horizon, view) = (self.snapshots.horizon(), self.views.load());
        let picker = Picker { is_quiet: true, ..self.picker(schedule, &horizon, &view) };
        picker.rest()?;
        schedule.quiet.is_awaited = true;
        Some(schedule.quiet.left(self.clock.monotonic()))
    }

    pub(super) fn look_after(&self, delay: Duration) {
        let this = Weak::clone(&self.this);
        let look = Box::new(move || {
            if let Some(tree) = this.upgrade() {
                tree.schedule.lock().quiet.is_awaited = false;
                tree.schedule_compactions();
            }
        });
        self.jobs.spawn_after(JobClass::Compaction, delay, look);
    }

    /// Looks for work that a snapshot held back. In the background and once for many: it goes through all snapshots, and
    /// they may be released one after the other.
    pub(super) fn look_at_released(&self) {
        let (class, look) = (JobClass::Compaction, Self::schedule_compactions);
        self.once_in_background(|tree| &tree.release_look_queued, class, Duration::ZERO, look);
    }

    /// How many entries are rewritten for each flush, as a share of what a compaction of level 0 rewrites.
    pub(crate) fn entries_rewritten_a_flush(&self, view: &View) -> u64 {
        let files = [Level::ZERO, Level::ONE].map(|level| view.levels.level(level));
        let entries: u64 =
            files.iter().flat_map(|files| *files).map(|file| file.meta.entries).sum();
        entries / LEVEL_0_TRIGGER as u64
    }

    /// Has level 0 compacted although it is within its target, if it has so many deletions.
    pub(crate) fn shed_level_0(&self, least: u64) {
        let view = self.views.load();
        let files = view.levels.level(Level::ZERO).iter();
        if files.map(|file| file.meta.tombstones).sum::<u64>() >= least {
            self.schedule.lock().sheds_level_0 = true;
            self.schedule_compactions();
        }
    }

    /// Rewrites files to be compressed, if that makes them smaller: the picker does not know how they are
    /// stored.
    pub(super) fn compress(&self, inputs: &Inputs, zstd: i32) -> Result<()> {
        for file in inputs.all() {
            if file.reader.would_shrink(zstd)? {
                return self.replace(inputs, Some(zstd));
            }
            file.set_dense();
        }
        Ok(())
    }
}
