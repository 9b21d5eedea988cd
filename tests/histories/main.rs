//! R-E04 to R-E12, R-E17: whatever many threads do at once, there is one order in which all of it happened.
//!
//! Random programs of 6 to 12 threads on few keys use all that the engine offers, while tiny memtables are flushed and
//! compacted under them. Each call is noted with when it began and ended, and what came of it, and the whole history is
//! then [held against a model](replay): versions are the order, so the check takes one pass.

#[path = "../support/mod.rs"]
mod support;

mod crash;
mod event;
mod explain;
mod history;
mod lives;
mod machine;
mod order;
mod program;
mod replay;
mod rng;
mod shared;
mod worker;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tablestone::env::RealEnv;
use tablestone::{Compression, Database, Durability, Options, Version};

use event::{Event, Failure, Had, Handle, Span, What};
use history::{History, version_of};
use machine::JitterEnv;
use rng::Rng;
use shared::Shared;
use support::model::{Model, dump, table_name};
use support::options;
use support::wait::LIMIT;
use worker::{STABLE, Worker};

/// The seeds of a run, and how many steps each thread takes: `TABLESTONE_HISTORIES=FROM..TO,STEPS`.
fn seeds(usual: Range<u64>, steps: u32) -> (Range<u64>, u32) {
    let Ok(given) = std::env::var("TABLESTONE_HISTORIES") else { return (usual, steps) };
    let parse = || {
        let (seeds, steps) = given.split_once(',')?;
        let (from, to) = seeds.split_once("..")?;
        Some((from.parse().ok()?..to.parse().ok()?, steps.parse().ok()?))
    };
    parse().unwrap_or_else(|| panic!("TABLESTONE_HISTORIES is {given:?}, not FROM..TO,STEPS"))
}

fn random_durability(rng: &mut Rng) -> Durability {
    let interval = Durability::Interval(Duration::from_millis(1));
    rng.pick(&[Durability::Os, Durability::Os, Durability::Sync, interval])
}

/// Options of all kinds.
fn random_options(rng: &mut Rng) -> Options {
    let compression = [Compression::None, Compression::Automatic, Compression::Zstd(1)];
    options()
        .compression(rng.pick(&compression))
        .memory_budget(rng.pick(&[64 << 10, 64 << 10, 256 << 10]))
        .large_value_bytes(rng.pick(&[1000, 64 << 10]))
        .busy_timeout(rng.pick(&[LIMIT, LIMIT, Duration::from_millis(1)]))
}

/// Has threads run random programs, and gives what happened.
fn run(shared: &Shared, seed: u64, threads: u8, steps: u32, base: Model) -> History {
    let name = table_name(STABLE);
    let create = || shared.database.create_table_if_missing(&name).durable().wait();
    let (span, stable) = shared.timed(create);
    let is_new = !base.tables.contains_key(&name);
    let mut history = History::new(base);
    if is_new {
        let outcome = stable.as_ref().map(drop).map_err(Failure::of);
        let what = What::Birth { table: STABLE, rows: Vec::new(), outcome };
        history.events.push(Event { span, what });
    }
    let Ok(stable) = stable else { return history };
    let handle = Handle { table: STABLE, had: Had::Within(span) };
    std::thread::scope(|scope| {
        let worker = |thread| {
            let worker = Worker::new(shared, seed, thread, (stable.clone(), handle));
            scope.spawn(move || worker.run(steps))
        };
        let workers: Vec<_> = (1..=threads).map(worker).collect();
        for worker in workers {
            history.events.extend(worker.join().unwrap());
        }
    });
    history
}

fn check_seed(seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let durability = random_durability(&mut rng);
    let mut options = random_options(&mut rng).durability(durability);
    if rng.percent(67) {
        options = options.env(Arc::new(JitterEnv::new(RealEnv::new())));
    }
    let path = dir.path().join("database");
    let database = Database::open(&path, options.clone()).unwrap();
    let has_phases = rng.percent(70);
    let shared = Shared::new(database, options.clone(), dir.path().to_owned(), has_phases, None);
    let threads = 6 + rng.below(7) as u8;
    let mut history = run(&shared, seed, threads, steps, Model::default());
    shared.database.verify().unwrap();
    shared.database.close().unwrap();
    let tables = dump(&Database::open(&path, options).unwrap());
    history.resolve(|table, key| version_of(&tables, table, key));
    let what = What::Dump { at: Version::MAX.previous(), tables };
    history.events.push(Event { span: Span::AFTERWARDS, what });
    replay::check(&history);
}

/// Says which seed failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

#[test]
fn r_e11_there_is_one_order_of_all_that_many_threads_do() {
    let (seeds, steps) = seeds(1..5, 300);
    for seed in seeds {
        let _seed = Seed(seed);
        check_seed(seed, steps);
    }
}

#[test]
fn r_e10_a_crash_leaves_a_beginning_of_all_that_many_threads_do() {
    let (seeds, steps) = seeds(1..5, 300);
    for seed in seeds {
        let _seed = Seed(seed);
        crash::check_seed(seed, steps);
    }
}
