//! Deletions give their space back though nothing else is written, and do not stay in the way of pages (R-E19).
//!
//! What a deletion hides goes once the memtable that has the deletion is flushed, and that is when it is full.
//! So a memtable that has had deletions for a while is looked at, and frozen if they hide much more than it
//! has ([`Looks`](super::looks::Looks)).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pipeline::Pipeline;
use crate::env::{Background, JobClass};
use crate::error::Error;

/// Between two looks: a memtable that was active at one and still is at the next is looked at. Where much is
/// written none is, as each is full before.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// What its deletions must hide, as a part of what a memtable may have, for one to be frozen for them.
const WORTH_A_FLUSH_PART: usize = 8;

/// What it takes to be rid of deletions, in steps over one, of some 45 ns: a flush, at least, with its syncs …
const FLUSH_STEPS: u64 = 1 << 20;
/// … and for each entry that is written anew, which takes 0.3 µs (DESIGN.md, 9.2).
const STEPS_AN_ENTRY: u64 = 8;
/// Fewer deletions than this in one place are not worth it.
const LEAST_DELETIONS: u64 = 512;

impl Pipeline {
    /// To be called once a deletion is in the memtable.
    #[inline]
    pub(super) fn note_deletion(&self) {
        if self.looks.is_wanted() {
            self.look_later();
        }
    }

    /// To be called once deletions of ranges are in the memtable. If they leave much in files of which nothing is left
    /// to show, it is frozen, because these go once it is flushed.
    pub(super) fn note_range_deletions<'a>(
        &self,
        mut spans: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        // What a flush writes is less than what it sets free.
        let enough = self.memtable_bytes as u64;
        let view = self.tree.view();
        if spans.any(|(low, high)| view.levels.has_whole_files(low, high, enough)) {
            self.freeze_for_deletions();
        } else {
            self.note_deletion();
        }
    }

    #[cold]
    fn look_later(&self) {
        self.once_in_background(
            |this| &this.looks.queued,
            JobClass::Compaction,
            LOOK_AFTER,
            Self::look_at_deletions,
        );
    }

    /// To be called when a page has stepped over so many deletions, and rows that ranges delete. Once pages have spent
    /// as much on that as it takes to remove them, they are removed: so a queue, whose first rows are read and
    /// deleted again and again, costs at most about twice what either does.
    pub(crate) fn note_passed(&self, deletions: u64) {
        let passed = self.passed.fetch_add(deletions, Ordering::Relaxed) + deletions;
        if passed < FLUSH_STEPS || passed < self.shedding_steps() {
            return;
        }
        self.once_in_background(
            |this| &this.shedding_queued,
            JobClass::Compaction,
            Duration::ZERO,
            Self::shed_deletions,
        );
    }

    /// What it takes to flush the memtable, and to compact level 0 once it has some files more.
    fn shedding_steps(&self) -> u64 {
        let view = self.tree.view();
        let rewritten = view.active.entries() + self.tree.entries_rewritten_a_flush(&view);
        FLUSH_STEPS + STEPS_AN_ENTRY * rewritten
    }

    /// Flushes the memtable for its deletions, else compacts level 0 for those that are there.
    fn shed_deletions(&self) {
        self.passed.store(0, Ordering::Relaxed);
        // Where nothing is compacted, what is flushed would only be in the way of others.
        if self.check_writable().is_err() || self.options.background_threads == 0 {
            return;
        }
        let view = self.tree.view();
        // In files, what a range deletes is stepped over only where somebody looks behind the deletion.
        if view.active.has_range_tombstones() {
            return self.freeze_for_deletions();
        }
        match self.tree.has_deletions(&view.active, LEAST_DELETIONS) {
            Ok(true) => self.freeze_for_deletions(),
            Ok(false) => self.tree.shed_level_0(LEAST_DELETIONS),
            Err(error) => {
                tracing::warn!(cause = %error.chain(), "how many deletions there are is not known");
            }
        }
    }

    fn look_at_deletions(&self) {
        let Some(view) = self.looks.begin(|| self.tree.view()) else { return self.look_later() };
        let worth_it = (self.memtable_bytes / WORTH_A_FLUSH_PART) as u64;
        match self.tree.hides(&view.active, worth_it) {
            Ok(true) => self.freeze_for_deletions(),
            Ok(false) | Err(Error::Closed) => {}
            Err(error) => {
                tracing::warn!(cause = %error.chain(), "how much deletions hide is not known");
            }
        }
    }
}
