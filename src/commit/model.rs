//! Models for loom of what goes on beside commits: freezes, flushes, readers, looks at deletions.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p tablestone --lib --release loom_`.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use loom::thread;

use super::looks::Looks;
use super::sequence::{Sequencer, Spare};
use crate::entry::Kind;
use crate::env::{Background, Job, JobClass, Jobs};
use crate::levels::{LevelState, Snapshots, Views, assemble};
use crate::memtable::Memtable;
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::tombstone::RangeTombstones;
use crate::version::Version;
use crate::wal::SegmentId;

const SEGMENT: SegmentId = SegmentId::new(1);

fn version(ticks: u64) -> Version {
    Version::from_ticks(ticks)
}

/// Whether a memtable has what a commit inserted.
fn has(memtable: &Memtable, commit: u64) -> bool {
    memtable.get(&[commit as u8], version(commit)).is_some()
}

/// An engine that keeps nothing: each commit inserts a key of its own, a flush writes no file.
struct Engine {
    sequencer: Sequencer<Version>,
    log: Mutex<Spare<Version>>,
    views: Views,
    snapshots: Snapshots,
}

impl Engine {
    fn new() -> Self {
        Self {
            sequencer: Sequencer::new(Version::ZERO),
            log: Mutex::default(),
            views: Views::new(Arc::new(LevelState::empty(SEGMENT)), 0),
            snapshots: Snapshots::default(),
        }
    }

    fn commit(&self) {
        let next = self.sequencer.next(0, Version::ZERO, |_| self.views.load(), |v, _| v);
        let (ticket, view) = next.unwrap();
        let key = [ticket.version.ticks() as u8];
        view.active.insert(&key, b"", ticket.version, Kind::Put, b"");
        ticket.applied();
    }

    fn drive(&self) {
        let mut spare = self.log.lock();
        let Some(taken) = self.sequencer.take(&mut spare) else { return };
        taken.wait_applied().unwrap();
        self.snapshots.publish(taken.last);
        spare.keep(taken);
    }

    fn freeze(&self) {
        self.sequencer.paused(|last| self.views.freeze(last, SEGMENT));
    }

    /// Flushes the oldest memtable that was frozen, once all of it is visible.
    fn flush(&self) {
        let view = self.views.load();
        let Some(frozen) = view.frozen.last() else { return };
        if frozen.last <= self.snapshots.horizon().visible {
            let commits = view.levels.flushed.next().ticks()..=frozen.last.ticks();
            assert!(commits.into_iter().all(|commit| has(&frozen.memtable, commit)));
            let (none, last) = (RangeTombstones::default(), frozen.last);
            let levels = assemble(Vec::new(), Vec::new(), none, last, SEGMENT);
            self.views.install(Arc::new(levels));
        }
    }

    /// A reader finds every commit up to its version, and no flush dropped what it is to see.
    fn read(&self) {
        let (view, at) = self.views.read_point(&self.snapshots);
        let flushed = view.levels.flushed;
        assert!(at >= flushed, "{at:?} is in files that have what is visible at {flushed:?}");
        let mut commits = flushed.next().ticks()..=at.ticks();
        let is_there = |commit| view.memtables().any(|memtable| has(memtable, commit));
        assert!(commits.all(is_there), "{at:?} in view {}", view.generation);
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn spawn(engine: &Arc<Engine>, run: fn(&Engine)) -> thread::JoinHandle<()> {
    let engine = Arc::clone(engine);
    thread::spawn(move || run(&engine))
}

/// A commit comes to a memtable before it is frozen or to the one after it, and either thread publishes it.
#[test]
fn loom_a_read_point_has_every_commit_up_to_its_version() {
    check(3, || {
        let engine = Arc::new(Engine::new());
        engine.commit();
        engine.drive();
        let committing = spawn(&engine, |engine| {
            engine.commit();
            engine.drive();
        });
        let flushing = spawn(&engine, |engine| {
            engine.freeze();
            engine.drive();
            engine.flush();
        });
        engine.read();
        committing.join().unwrap();
        flushing.join().unwrap();
        engine.read();
    });
}

/// One memtable is frozen, and takes no commits any more, as the one before it is flushed.
#[test]
fn loom_no_memtable_is_lost_between_a_freeze_and_a_flush() {
    check(3, || {
        let engine = Arc::new(Engine::new());
        engine.commit();
        engine.drive();
        engine.freeze();
        engine.commit();
        let committing = spawn(&engine, |engine| {
            engine.freeze();
            engine.commit();
            engine.drive();
        });
        let flushing = spawn(&engine, Engine::flush);
        engine.read();
        committing.join().unwrap();
        flushing.join().unwrap();
        engine.read();
    });
}

/// Looks at deletions, as a pipeline makes them.
struct Looking {
    engine: Engine,
    looks: Looks,
    jobs: Queue,
    /// Whether a look saw the deletion that was made.
    has_seen: AtomicBool,
    this: Weak<Self>,
}

/// The second commit.
const DELETION: u64 = 2;

/// Jobs that the model runs.
#[derive(Default)]
struct Queue(Mutex<Vec<Job>>);

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl Jobs for Queue {
    fn spawn_after(&self, _: JobClass, _: Duration, job: Job) {
        self.0.lock().push(job);
    }

    fn assist(&self) -> bool {
        let job = self.0.lock().pop();
        job.map(|job| job()).is_some()
    }

    fn stepped(&self) -> bool {
        true
    }

    fn stop(&self) {}
}

impl Background for Looking {
    fn background(&self) -> (&dyn Jobs, &Weak<Self>) {
        (&self.jobs, &self.this)
    }
}

impl Looking {
    fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            engine: Engine::new(),
            looks: Looks::default(),
            jobs: Queue::default(),
            has_seen: AtomicBool::new(false),
            this: Weak::clone(this),
        })
    }

    fn look_later(&self) {
        let (class, look) = (JobClass::Compaction, Self::look);
        self.once_in_background(|this| &this.looks.queued, class, Duration::ZERO, look);
    }

    fn look(&self) {
        let Some(view) = self.looks.begin(|| self.engine.views.load()) else {
            return self.look_later();
        };
        if has(&view.active, DELETION) {
            self.has_seen.store(true, Ordering::Relaxed);
        }
    }

    fn delete(&self) {
        self.engine.commit();
        if self.looks.is_wanted() {
            self.look_later();
        }
    }
}

/// A deletion comes to the memtable at which a look has been queued, or to the one after it.
#[test]
fn loom_a_deletion_is_seen_by_a_look_or_frozen() {
    check(3, || {
        let looking = Looking::new();
        looking.engine.commit();
        looking.look_later();
        assert!(looking.jobs.assist());
        let there = Arc::clone(&looking);
        let deleting = thread::spawn(move || there.delete());
        let there = Arc::clone(&looking);
        let freezing = thread::spawn(move || there.engine.freeze());
        looking.jobs.assist();
        deleting.join().unwrap();
        freezing.join().unwrap();
        while looking.jobs.assist() {}
        let view = looking.engine.views.load();
        let is_frozen = view.frozen.iter().any(|frozen| has(&frozen.memtable, DELETION));
        assert!(is_frozen || looking.has_seen.load(Ordering::Relaxed));
    });
}
