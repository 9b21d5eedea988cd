//! What background work failed of: who asks is told as long as it is so, and nothing is tried in vain again and again.
//!
//! Invariant: a task that fails is tried again after a delay that grows with each failure, for which a timer is set.
//! What it could not read is left alone meanwhile, and other work goes on; what else it failed of holds up all
//! compactions. A damaged file is left alone for good: it does not heal, but a range tombstone that has come since
//! may have what is damaged passed over. What failed is told of until something was done after it, or nothing is to
//! be done any more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::admission::DISK_FULL;
use super::file::TableFile;
use super::gc;
use super::picker::Task;
use super::schedule::Schedule;
use super::state::LevelState;
use super::tree::Tree;
use crate::env::JobClass;
use crate::error::Error;
use crate::sst::FileId;
use crate::version::Version;

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// For files that the device fails to read: each try may write much before it fails.
const LAST_REREAD: Duration = Duration::from_secs(600);

/// The delay after so many failures in a row.
fn retry_delay(failures: u32, last: Duration) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(last)
}

/// Failures of one kind of work in a row, and the newest cause.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    cause: Option<Arc<str>>,
}

impl Failures {
    pub(super) fn add(&mut self, error: &Error) -> Duration {
        self.count = self.count.saturating_add(1);
        self.cause = Some(error.chain());
        retry_delay(self.count, LAST_RETRY)
    }

    pub(super) fn cause(&self) -> Option<Arc<str>> {
        self.cause.clone()
    }
}

/// The files that tasks could not read.
#[derive(Debug, Default)]
pub(super) struct Unread(HashMap<FileId, Failed>);

#[derive(Debug)]
struct Failed {
    cause: Arc<str>,
    /// Up to which version range tombstones had been applied.
    tried: Version,
    failures: u32,
    rest: Rest,
}

/// How long a file is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It is damaged.
    ForGood,
    /// The device fails to read it: until a timer ends.
    ForNow,
    /// Such a timer has ended.
    Over,
}

/// What is to be done about a task that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing: what it read is damaged.
    None,
    /// These files may be read again after a delay.
    Reread(Vec<FileId>, Duration),
    /// It failed of something else.
    Unknown,
}

impl Unread {
    /// Notes of what a task failed that applied range tombstones up to a version.
    pub(super) fn note(&mut self, task: &Task, error: &Error, tried: Version) -> Remedy {
        let Some(inputs) = task.read() else { return Remedy::Unknown };
        let (path, rest) = match error {
            Error::Corruption(corruption) => (&corruption.file, Rest::ForGood),
            Error::Io(io) if io.action == "read" => (&io.path, Rest::ForNow),
            _ => return Remedy::Unknown,
        };
        // What is not in any of them is in what they refer to.
        let files = match inputs.all().find(|file| file.path() == path) {
            Some(file) => vec![file.id()],
            None => inputs.ids(),
        };
        let cause = error.chain();
        let mut most = 0;
        for &id in &files {
            let before = self.0.get(&id).map_or(0, |failed| failed.failures);
            let failures = before.saturating_add(1);
            self.0.insert(id, Failed { cause: Arc::clone(&cause), tried, failures, rest });
            most = most.max(failures);
        }
        match rest {
            Rest::ForNow => Remedy::Reread(files, retry_delay(most, LAST_REREAD)),
            _ => Remedy::None,
        }
    }

    /// A task has read its inputs, of a file that stays in the tree perhaps a sample: damage may be elsewhere.
    pub(super) fn forget(&mut self, task: &Task) {
        for file in task.read().iter().flat_map(|inputs| inputs.all()) {
            if self.0.get(&file.id()).is_some_and(|failed| failed.rest != Rest::ForGood) {
                self.0.remove(&file.id());
            }
        }
    }

    pub(super) fn try_again(&mut self, id: FileId) {
        if let Some(failed) = self.0.get_mut(&id)
            && failed.rest == Rest::ForNow
        {
            failed.rest = Rest::Over;
        }
    }

    /// Up to which version range tombstones had been applied to a file when it could not be read, if it is
    /// left alone for that.
    pub(super) fn tried(&self, file: &TableFile) -> Option<Version> {
        self.0.get(&file.id()).filter(|failed| failed.rest != Rest::Over).map(|failed| failed.tried)
    }

    /// Why a file could not be read that is part of the tree.
    fn cause(&self, state: &LevelState) -> Option<Arc<str>> {
        state.files().find_map(|(_, file)| Some(Arc::clone(&self.0.get(&file.id())?.cause)))
    }
}

impl Schedule {
    /// Whether a compaction failed of anything but what is left alone.
    pub(super) fn any_failed(&self) -> bool {
        let mut unread = self.unread.0.values();
        self.is_full
            || self.compacting.cause.is_some()
            || unread.any(|failed| failed.rest == Rest::Over)
    }

    /// Nothing is to be done, and so nothing of what failed.
    pub(super) fn forget_failures(&mut self) {
        self.compacting = Failures::default();
        self.is_full &= self.flushing.cause.is_some();
        self.unread.0.retain(|_, failed| failed.rest != Rest::Over);
    }
}

impl Tree {
    /// Why background work fails at present, if it does, or can be expected to: the log has no room.
    pub(crate) fn last_background_error(&self) -> Option<Arc<str>> {
        let schedule = self.schedule.lock();
        let view = self.views.load();
        let cause = schedule.flushing.cause().or_else(|| schedule.compacting.cause());
        cause
            .or_else(|| schedule.unread.cause(&view.levels))
            .or_else(|| view.levels.values.damage())
            .or_else(|| self.is_out_of_room().then(|| DISK_FULL.into()))
    }

    pub(super) fn compaction_failed(&self, task: &Task, error: &Error) {
        self.note_failure(error, "a compaction failed");
        let mut schedule = self.schedule.lock();
        let tried = gc::bound(&self.snapshots.horizon(), self.flushed());
        match schedule.unread.note(task, error, tried) {
            Remedy::None => {}
            Remedy::Reread(files, delay) => {
                drop(schedule);
                self.compact_again(delay, move |schedule| {
                    files.iter().for_each(|id| schedule.unread.try_again(*id));
                });
            }
            Remedy::Unknown => {
                let delay = schedule.compacting.add(error);
                if !std::mem::replace(&mut schedule.backing_off, true) {
                    drop(schedule);
                    self.compact_again(delay, |schedule| schedule.backing_off = false);
                }
            }
        }
    }

    /// Counts and tells of work that failed, and has room made if it found none.
    pub(super) fn note_failure(&self, error: &Error, what: &'static str) {
        self.metrics.background_failures.add(1);
        tracing::error!(cause = %error.chain(), "{what}");
        if error.is_full() {
            self.schedule.lock().is_full = true;
            if let Some(log) = self.log.get() {
                log.make_room();
            }
        }
    }

    /// After a delay, lets compactions begin that a failure holds up.
    fn compact_again(&self, delay: Duration, allow: impl FnOnce(&mut Schedule) + Send + 'static) {
        let this = Weak::clone(&self.this);
        let retry = Box::new(move || {
            if let Some(tree) = this.upgrade() {
                allow(&mut tree.schedule.lock());
                tree.schedule_compactions();
            }
        });
        self.jobs.spawn_after(JobClass::Compaction, delay, retry);
    }
}
