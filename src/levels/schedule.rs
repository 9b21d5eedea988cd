//! Background work: which flush and which compactions run when, and what happens if they fail.
//!
//! Invariant: every task that runs has its claims in the [`Schedule`] from before it was queued
//! until its change is in place or abandoned, so that whoever picks the next one sees either the
//! claim or the change. While what [failed](super::failures) waits to be tried again, the database stays
//! readable, and writers are held back by the debt that builds up.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::MutexGuard;

use super::failures::{Failures, Unread};
use super::file::TableFile;
use super::picker::{self, Claim, Picker, Task};
use super::reserved::Start;
use super::rest::Quiet;
use super::snapshots::Horizon;
use super::state::{Change, Level};
use super::tree::Tree;
use super::view::{Frozen, View};
use crate::env::{Background, JobClass};
use crate::error::{Error, Result};
use crate::sst::FileId;
use crate::version::Version;

/// Which compactions run.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    running: Vec<(TaskId, Vec<Claim>)>,
    last_id: u64,
    /// Somebody compacts by hand: nothing new begins.
    paused: u32,
    /// A timer will begin again after a failure.
    pub(super) backing_off: bool,
    /// Background work has begun.
    started: bool,
    pub(super) quiet: Quiet,
    pub(super) flushing: Failures,
    pub(super) compacting: Failures,
    pub(super) unread: Unread,
    /// What was begun last found no room on the disk, but for single files.
    pub(super) is_full: bool,
    /// Pages step over deletions in level 0.
    pub(super) sheds_level_0: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TaskId(u64);

/// Takes a task's claims back when it has ended, however it ended.
struct Claimed {
    tree: Weak<Tree>,
    id: TaskId,
    /// Keys that its files do not reach across.
    _reserved: Vec<Start>,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(tree) = self.tree.upgrade() {
            tree.schedule.lock().running.retain(|(id, _)| *id != self.id);
            tree.task_ended.notify_all();
        }
    }
}

/// No compaction begins until this is dropped, also by a panic.
struct Paused<'a>(&'a Tree);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.schedule.lock().paused -= 1;
    }
}

impl Tree {
    /// Tasks that are queued or run.
    pub(super) fn running_compactions(&self) -> u64 {
        self.schedule.lock().running.len() as u64
    }

    /// Lets background work begin.
    pub(super) fn start_schedule(&self) {
        self.share_memory();
        let mut schedule = self.schedule.lock();
        schedule.started = true;
        schedule.quiet.end(self.clock.monotonic());
        drop(schedule);
        self.schedule_compactions();
        self.on_published();
    }

    /// Queues as many compactions as there is need and room for.
    pub(super) fn schedule_compactions(&self) {
        let mut schedule = self.schedule.lock();
        let tasks: Vec<_> = std::iter::from_fn(|| self.next_task(&mut schedule)).collect();
        let look_in = self.next_look(&mut schedule);
        // A job that is refused is dropped at once, and takes its claims back under this lock.
        drop(schedule);
        for (task, claimed) in tasks {
            let job = Box::new(move || {
                if let Some(tree) = claimed.tree.upgrade() {
                    tree.run_task(&task, claimed);
                }
            });
            self.jobs.spawn_after(JobClass::Compaction, Duration::ZERO, job);
        }
        if let Some(delay) = look_in {
            self.look_after(delay);
        }
    }

    /// Whether another task may begin.
    pub(super) fn may_begin_task(&self, schedule: &Schedule) -> bool {
        let is_busy = schedule.running.len() >= self.compaction_threads;
        schedule.started && !is_busy && !schedule.backing_off && schedule.paused == 0
    }

    fn next_task(&self, schedule: &mut Schedule) -> Option<(Task, Claimed)> {
        if !self.may_begin_task(schedule) {
            return None;
        }
        // Before the view: a load whose files are not in it has its keys reserved.
        let reserved = self.reserved.hold();
        let horizon = self.snapshots.horizon();
        let view = self.views.load();
        let picker = Picker { reserved: &reserved, ..self.picker(schedule, &horizon, &view) };
        let Some(task) = picker.pick() else {
            if schedule.any_failed() && picker.is_done() {
                schedule.forget_failures();
            }
            return None;
        };
        if task.claims().iter().any(|claim| claim.touches(Level::ZERO)) {
            schedule.sheds_level_0 = false;
        }
        let claimed = self.claim(schedule, &task, reserved);
        Some((task, claimed))
    }

    pub(super) fn picker<'a>(
        &'a self,
        schedule: &'a Schedule,
        horizon: &'a Horizon,
        view: &'a View,
    ) -> Picker<'a> {
        Picker {
            state: &view.levels,
            horizon,
            sizing: &self.sizing,
            compression: self.compression,
            running: schedule.running.iter().flat_map(|(_, claims)| claims).collect(),
            reserved: &[],
            awaited: Vec::new(),
            is_quiet: schedule.quiet.is_reached(self.clock.monotonic()),
            unread: &schedule.unread,
            is_full: schedule.is_full,
            sheds_level_0: schedule.sheds_level_0,
        }
    }

    fn claim(&self, schedule: &mut Schedule, task: &Task, reserved: Vec<Start>) -> Claimed {
        schedule.last_id += 1;
        let id = TaskId(schedule.last_id);
        schedule.running.push((id, task.claims()));
        Claimed { tree: Weak::clone(&self.this), id, _reserved: reserved }
    }

    fn run_task(&self, task: &Task, claimed: Claimed) {
        let done = self.execute(task);
        drop(claimed);
        match done {
            Ok(()) => {
                let mut schedule = self.schedule.lock();
                schedule.compacting = Failures::default();
                schedule.unread.forget(task);
                if task.read().is_some_and(|inputs| !inputs.are_in_place()) {
                    schedule.is_full = false;
                }
                if !task.is_for_rest() {
                    schedule.quiet.end(self.clock.monotonic());
                }
                drop(schedule);
                self.schedule_compactions();
                self.debt_fell();
            }
            Err(Error::Closed) => {}
            Err(error) => {
                self.compaction_failed(task, &error);
                self.schedule_compactions();
            }
        }
    }

    fn execute(&self, task: &Task) -> Result<()> {
        self.ensure_manifest()?;
        match task {
            Task::Compress(inputs, zstd) => self.compress(inputs, *zstd),
            Task::Reveal(inputs, zstd) => self.reveal(inputs, *zstd),
            Task::Rewrite(inputs, zstd) | Task::Apply(inputs, zstd) => self.replace(inputs, *zstd),
            Task::Move(inputs) => {
                let added = inputs.all().map(|file| (inputs.output, Arc::clone(file))).collect();
                self.install(Change { added, removed: inputs.ids(), ..Change::default() })?;
                self.metrics.files_moved.add(inputs.all().count() as u64);
                Ok(())
            }
            Task::Drop(files) => self.drop_files(files, Version::ZERO),
        }
    }

    /// Compacts everything that is flushed into one level, on this thread.
    ///
    /// # Errors
    /// What reading, writing and the manifest report; the tree is then as it was.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.schedule.lock().paused += 1;
        let paused = Paused(self);
        let done = self.compact_everything();
        drop(paused);
        if done.is_ok() {
            self.schedule.lock().compacting = Failures::default();
        }
        self.schedule_compactions();
        self.debt_fell();
        done
    }

    fn compact_everything(&self) -> Result<()> {
        let mut schedule = self.wait_for_tasks()?;
        let reserved = self.reserved.hold();
        let state = Arc::clone(&self.views.load().levels);
        let Some(task) = picker::everything(&state, &self.sizing, &self.compression) else {
            return Ok(());
        };
        let _claimed = self.claim(&mut schedule, &task, reserved);
        drop(schedule);
        self.execute(&task)
    }

    /// Removes files that are deleted whole. For what deletes them the log is needed up to a version.
    fn drop_files(&self, files: &[(Level, Arc<TableFile>)], log_end: Version) -> Result<()> {
        let removed: Vec<FileId> = files.iter().map(|(_, file)| file.id()).collect();
        let count = removed.len() as u64;
        self.install(Change { removed, log_end, ..Change::default() })?;
        self.metrics.files_dropped_unread.add(count);
        tracing::debug!(files = count, "dropped files that are deleted whole");
        Ok(())
    }

    /// Removes the files of which range tombstones in memtables delete all there is, without a flush, for which a
    /// full disk may have no room. The log is durable up to `durable`: no file goes before what deletes it is
    /// there for good, and the manifest says that it has to be there.
    ///
    /// # Errors
    /// What the manifest reports; the tree is then as it was.
    pub(crate) fn drop_deleted(&self, durable: Version) -> Result<()> {
        // Who was woken when the log was synced may have closed the database.
        self.check_not_closing()?;
        let mut schedule = self.schedule.lock();
        if !schedule.started {
            return Ok(());
        }
        let horizon = self.snapshots.horizon();
        let view = self.views.load();
        let bound = horizon.oldest().min(durable);
        let sets: Vec<_> = view.memtables().map(|memtable| memtable.range_tombstones()).collect();
        let tombstones = || {
            sets.iter().flat_map(|set| set.iter()).filter(|tombstone| tombstone.version <= bound)
        };
        let covered = self.picker(&schedule, &horizon, &view).covered_by(tombstones());
        let Some(task @ Task::Drop(files)) = &covered else { return Ok(()) };
        let newest = tombstones().map(|tombstone| tombstone.version).max();
        let claimed = self.claim(&mut schedule, task, Vec::new());
        drop(schedule);
        let dropped = self
            .ensure_manifest()
            .and_then(|()| self.drop_files(files, newest.unwrap_or(Version::ZERO)));
        drop(claimed);
        self.debt_fell();
        dropped
    }

    /// Makes new files part of the tree, across whose keys no other file [reaches](super::reserved).
    ///
    /// # Errors
    /// What the manifest reports: it is not known whether they are part of the tree.
    pub(super) fn install_new(&self, added: Vec<(Level, Arc<TableFile>)>) -> Result<()> {
        let files = added.len();
        let bytes = added.iter().map(|(_, file)| file.meta.bytes).sum();
        self.install(Change { added, ..Change::default() })?;
        self.metrics.loads.add(1);
        self.metrics.load_bytes.add(bytes);
        tracing::debug!(files, bytes, "loaded");
        self.schedule_compactions();
        self.debt_fell();
        Ok(())
    }

    /// Waits until no task is queued or runs.
    fn wait_for_tasks(&self) -> Result<MutexGuard<'_, Schedule>> {
        let mut schedule = self.schedule.lock();
        while !schedule.running.is_empty() {
            if !self.jobs.stepped() {
                self.task_ended.wait(&mut schedule);
                continue;
            }
            drop(schedule);
            if !self.jobs.assist() {
                return Err(Error::Closed);
            }
            schedule = self.schedule.lock();
        }
        Ok(schedule)
    }

    /// To be called after [`publish`](Tree::publish), when convenient: starts a flush if a frozen
    /// memtable has become visible.
    pub(crate) fn on_published(&self) {
        let view = self.views.load();
        if view.frozen.last().is_some_and(|oldest| oldest.last <= self.visible()) {
            self.schedule_flush(Duration::ZERO);
        }
    }

    fn schedule_flush(&self, delay: Duration) {
        // What fails is noted, and tried again.
        let flush = |tree: &Self| drop(tree.flush_now());
        self.once_in_background(|tree| &tree.flush_queued, JobClass::Flush, delay, flush);
    }

    pub(super) fn flush_failed(&self, error: &Error) {
        self.note_failure(error, "a flush failed");
        let delay = self.schedule.lock().flushing.add(error);
        self.schedule_flush(delay);
    }

    /// Flushes, on this thread, what is frozen and visible.
    ///
    /// # Errors
    /// What writing and the manifest report; nothing is lost, and it is tried again in the background.
    pub(crate) fn flush_now(&self) -> Result<()> {
        let done = self.flush_ready();
        if let Err(error) = &done
            && !matches!(error, Error::Closed)
        {
            self.flush_failed(error);
        }
        done
    }

    fn flush_ready(&self) -> Result<()> {
        loop {
            let flushing = self.flush_lock.lock();
            let batch = ready_to_flush(&self.views.load(), self.visible());
            let Some(newest) = batch.last() else {
                // What failed here, another has flushed.
                self.schedule.lock().flushing = Failures::default();
                return Ok(());
            };
            self.check_not_closing()?;
            self.share_memory();
            let flushed = self.flush_batch(&batch, newest)?;
            drop(flushing);
            let mut schedule = self.schedule.lock();
            schedule.flushing = Failures::default();
            schedule.is_full &= schedule.compacting.cause().is_some();
            schedule.quiet.end(self.clock.monotonic());
            drop(schedule);
            if let Some(log) = self.log.get() {
                log.flushed(flushed);
            }
            self.schedule_compactions();
            // Last: who is woken may close the database, and others then have its directory.
            self.debt_fell();
        }
    }

    /// Leaves the cache what memtables do not take of the memory budget: before each flush and after each
    /// change of the files, so memtables that are frozen while one is flushed count when that has ended.
    pub(super) fn share_memory(&self) {
        // Who comes last has looked last.
        let _one_by_one = self.sharing.lock();
        let view = self.views.load();
        let to_come = self.sizing.memtable_bytes.saturating_sub(view.active.room());
        let cache_bytes = self.sizing.cache_bytes(view.memtable_room() + to_come);
        self.cache.adapt(cache_bytes, view.levels.raw_bytes());
    }
}

/// The frozen memtables all of whose commits are visible, oldest first.
fn ready_to_flush(view: &View, visible: Version) -> Vec<Frozen> {
    view.frozen.iter().rev().take_while(|f| f.last <= visible).cloned().collect()
}
