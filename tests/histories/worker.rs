//! A thread that does what a random program says, and notes what came of it.

mod reads;
mod tables;
mod writes;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tablestone::{Commit, Database, Error, Snapshot, Table, TableView, Version};

use super::event::{Event, Failure, Handle, Span, Via, What};
use super::program::{self, TABLES};
use super::rng::Rng;
use super::shared::{Crashing, Shared};
use crate::support::model::{Key, dump};
use crate::support::query::QuerySpec;

/// The table that is always there, and the partition of it in which markers stay.
pub(crate) const STABLE: u8 = 0;
const MARKED: u8 = program::PARTITIONS[0];

pub(crate) struct Worker<'s> {
    shared: &'s Shared,
    pub(crate) thread: u8,
    rng: Rng,
    steps: u32,
    /// A handle on each table, kept beyond its drop.
    tables: [Option<(Table, Handle)>; TABLES],
    snapshots: Vec<Snapshot>,
    /// A query that goes on, and where.
    query: Option<(Reader, QuerySpec, Option<Key>)>,
    under_way: Vec<UnderWay>,
    seen: BTreeMap<(u8, Key), Version>,
    pub(crate) events: Vec<Event>,
    /// The machine does nothing any more.
    pub(crate) is_dead: bool,
}

/// A commit that was begun and not waited for.
struct UnderWay {
    event: usize,
    commit: Commit<Version>,
}

#[derive(Clone)]
struct Reader {
    view: TableView,
    via: Via,
}

impl<'s> Worker<'s> {
    pub(crate) fn new(shared: &'s Shared, seed: u64, thread: u8, stable: (Table, Handle)) -> Self {
        let rng = Rng::new(seed.wrapping_mul(1000).wrapping_add(u64::from(thread)));
        let lives = shared.crashing.as_ref().map_or(0, |crashing| crashing.lives);
        Self {
            shared,
            thread,
            rng,
            // Values and markers of other lives are still there.
            steps: lives << 16,
            tables: [Some(stable), None, None],
            snapshots: Vec::new(),
            query: None,
            under_way: Vec::new(),
            seen: BTreeMap::new(),
            events: Vec::new(),
            is_dead: false,
        }
    }

    pub(crate) fn run(mut self, steps: u32) -> Vec<Event> {
        for _ in 0..steps {
            if self.is_dead {
                break;
            }
            self.step();
            let most = self.rng.below(6);
            while self.under_way.len() > most {
                self.finish_one();
            }
        }
        while !self.under_way.is_empty() {
            self.finish_one();
        }
        self.events
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.rng.below(200) {
            0..80 => self.write(),
            80..92 => self.change_tables(),
            92..124 => self.get(),
            124..164 => self.page(),
            164..176 => self.take_snapshot(),
            176..184 => self.names(),
            184..190 => self.maintain(Database::flush),
            190..192 => self.maintain(Database::compact),
            192..194 => self.sync(),
            194 => self.checkpoint(),
            _ => self.pause(),
        }
    }

    fn pause(&mut self) {
        match &self.shared.crashing {
            None => std::thread::yield_now(),
            Some(Crashing { machine, .. }) => match self.rng.below(4) {
                0 => machine.advance(Duration::from_millis(self.rng.next() % 10)),
                _ => drop(machine.step()),
            },
        }
    }

    /// A number that no other call of any thread has.
    fn number(&self) -> u32 {
        u32::from(self.thread) << 24 | self.steps
    }

    fn note(&mut self, span: Span, what: What) {
        // A machine without power reads nothing.
        if let What::Get { outcome: Err(Failure::Unknown), .. }
        | What::Page { outcome: Err(Failure::Unknown), .. }
        | What::Open { outcome: Err(Failure::Unknown), .. } = &what
        {
            return;
        }
        self.events.push(Event { span, what });
    }

    fn failure(&mut self, error: &Error) -> Failure {
        let failure = Failure::of(error);
        self.is_dead |= failure == Failure::Unknown;
        failure
    }

    fn outcome<T>(&mut self, result: Result<T, Error>) -> Result<T, Failure> {
        result.map_err(|error| self.failure(&error))
    }

    fn maintain(&mut self, work: impl FnOnce(&Database) -> Result<(), Error>) {
        let done = work(&self.shared.database);
        let _ = self.outcome(done);
    }

    fn sync(&mut self) {
        let (span, synced) = self.shared.timed(|| self.shared.database.sync());
        if self.outcome(synced).is_ok() {
            self.note(span, What::Sync);
        }
    }

    fn checkpoint(&mut self) {
        let number = self.shared.checkpoints_made.fetch_add(1, Ordering::Relaxed);
        let dir = self.shared.checkpoints.join(format!("checkpoint-{number}"));
        let (span, made) = self.shared.timed(|| self.shared.database.checkpoint(&dir));
        let Ok(at) = self.outcome(made) else { return };
        let opened = Database::open(&dir, self.shared.options.clone());
        let Ok(checkpoint) = self.outcome(opened) else { return };
        let tables = dump(&checkpoint);
        self.note(span, What::Dump { at, tables });
    }
}
