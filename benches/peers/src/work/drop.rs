//! Dropping a table of all entities: how long the call takes, when its space is back, and what
//! readers and writers of another table notice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::stage::{Measured, Stage, Worker};
use crate::engine::{Engine, Tables};
use crate::meter::{Meter, disk_bytes};

/// Rows that the other table has.
const BESIDE: u64 = 1_000;
/// Space is back when the files take less than one part in so many of what they took.
const LEFT: u64 = 4;
/// Between operations on the other table: they are to notice, not to be a load.
const PAUSE: Duration = Duration::from_micros(100);
/// For the space to come back by itself.
const UNAIDED: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// The slowest operations on the other table, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    before: u64,
    after: u64,
}

pub(super) fn drop_table(stage: &Stage) -> Result<Measured> {
    let engine = stage.open()?;
    let tables = tables(&*engine)?;
    (0..BESIDE).try_for_each(|row| tables.put_beside(&row.to_be_bytes()))?;
    let before = disk_bytes(&stage.plan.dir)?;
    let (dropping, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let calm = Duration::from_secs_f64(stage.plan.seconds);
    let mut worker = Worker::new(stage, 0);
    let meter = Meter::start()?;
    let (outcome, writes, reads) = thread::scope(|scope| {
        let put = |row: u64| tables.put_beside(&row.to_be_bytes());
        let get = |row: u64| {
            ensure!(tables.get_beside(&row.to_be_bytes())?, "row {row} of the other table is gone");
            Ok(())
        };
        let (dropping, done) = (&dropping, &done);
        let writer = scope.spawn(move || use_beside(dropping, done, put));
        let reader = scope.spawn(move || use_beside(dropping, done, get));
        thread::sleep(calm);
        dropping.store(true, Ordering::Relaxed);
        let outcome = drop_and_wait(stage, &*engine, &mut worker, before);
        // What comes after the files are gone may still be felt.
        thread::sleep(calm);
        done.store(true, Ordering::Relaxed);
        (outcome, writer.join(), reader.join())
    });
    let elapsed = meter.elapsed();
    let space = outcome?;
    let slowest = |joined: thread::Result<Result<Slowest>>| {
        joined.map_err(|_| anyhow!("a thread panicked"))?
    };
    let (writes, reads) = (slowest(writes)?, slowest(reads)?);
    worker.entities = stage.data.entities();
    let mut measured = stage.finish(engine, &meter, worker, elapsed)?;
    let ms = |nanos: u64| nanos as f64 / 1e6;
    measured.extras = [
        ("slowest put beside before ms", ms(writes.before)),
        ("slowest put beside since ms", ms(writes.after)),
        ("slowest get beside before ms", ms(reads.before)),
        ("slowest get beside since ms", ms(reads.after)),
    ]
    .into_iter()
    .chain(space)
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    Ok(measured)
}

/// Drops the table under the clock, and waits until its space is back, at first by itself.
fn drop_and_wait(
    stage: &Stage,
    engine: &dyn Engine,
    worker: &mut Worker<'_>,
    before: u64,
) -> Result<Vec<(&'static str, f64)>> {
    let tables = tables(engine)?;
    let begun = Instant::now();
    worker.clock(|_| tables.drop_table())?;
    let milliseconds = || begun.elapsed().as_secs_f64() * 1e3;
    let unaided = await_space(stage, before, UNAIDED)?;
    if unaided == 0 {
        return Ok(vec![("space back after ms", milliseconds())]);
    }
    let settling = Instant::now();
    engine.settle()?;
    let left = await_space(stage, before, PATIENCE)?;
    ensure!(left == 0, "{left} of {before} bytes are still there");
    let settled = settling.elapsed().as_secs_f64() * 1e3;
    Ok(vec![("MB left after 5 s", unaided as f64 / 1e6), ("space back after settling ms", settled)])
}

/// Bytes that are left when the time is over; 0 as soon as they are few.
fn await_space(stage: &Stage, before: u64, patience: Duration) -> Result<u64> {
    let begun = Instant::now();
    loop {
        let left = disk_bytes(&stage.plan.dir)?;
        if left < before / LEFT || begun.elapsed() > patience {
            return Ok(if left < before / LEFT { 0 } else { left });
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn tables(engine: &dyn Engine) -> Result<&dyn Tables> {
    engine.tables().context("it has one table only in this harness")
}

/// Uses the other table until it is over.
fn use_beside(
    dropping: &AtomicBool,
    done: &AtomicBool,
    operation: impl Fn(u64) -> Result<()>,
) -> Result<Slowest> {
    let mut slowest = Slowest::default();
    let mut row = 0;
    while !done.load(Ordering::Relaxed) {
        let since = dropping.load(Ordering::Relaxed);
        let begun = Instant::now();
        operation(row)?;
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let part = if since { &mut slowest.after } else { &mut slowest.before };
        *part = took.max(*part);
        row = (row + 1) % BESIDE;
        thread::sleep(PAUSE);
    }
    Ok(slowest)
}
