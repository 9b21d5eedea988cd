//! Dropping a table of all entities: how long the call takes, when its space is back, and what
//! readers and writers of another table notice.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::stage::{Measured, Stage, Worker};
use crate::engine::{Engine, Tables};
use crate::meter::Meter;

/// Rows that the other table has.
const BESIDE: u64 = 1_000;
/// Space is back when one part in so many of what the files took is free: logs, which stay, are as
/// large as the tables where entities are few.
const FREED: u64 = 3;
/// Between operations on the other table: they are to notice, not to be a load.
const PAUSE: Duration = Duration::from_micros(100);
/// For the space to come back by itself.
const UNAIDED: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// The slowest operations on the other table, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    before: u64,
    after: u64,
}

/// Bytes of each file of a directory, by its inode. What is written meanwhile is in other files, or
/// makes them longer.
struct Files(HashMap<u64, u64>);

impl Files {
    fn of(dir: &Path) -> Result<Self> {
        let mut files = HashMap::new();
        for entry in fs::read_dir(dir)? {
            match entry?.metadata() {
                Ok(metadata) => _ = files.insert(metadata.ino(), metadata.blocks() * 512),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(files))
    }

    fn bytes(&self) -> u64 {
        self.0.values().sum()
    }

    /// What is still there later.
    fn left(&self, later: &Self) -> u64 {
        let left =
            |(file, bytes): (&u64, &u64)| later.0.get(file).copied().unwrap_or(0).min(*bytes);
        self.0.iter().map(left).sum()
    }
}

pub(super) fn drop_table(stage: &Stage) -> Result<Measured> {
    let engine = stage.open()?;
    let tables = tables(&*engine)?;
    (0..BESIDE).try_for_each(|row| tables.put_beside(&row.to_be_bytes()))?;
    let before = Files::of(&stage.plan.dir)?;
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
        let outcome = drop_and_wait(stage, &*engine, &mut worker, &before);
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
    before: &Files,
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
    ensure!(left == 0, "{left} of {} bytes are still there", before.bytes());
    let settled = settling.elapsed().as_secs_f64() * 1e3;
    Ok(vec![("MB left after 5 s", unaided as f64 / 1e6), ("space back after settling ms", settled)])
}

/// Bytes that are left when the time is over; 0 as soon as they are few.
fn await_space(stage: &Stage, before: &Files, patience: Duration) -> Result<u64> {
    let begun = Instant::now();
    loop {
        let left = before.left(&Files::of(&stage.plan.dir)?);
        let is_back = left < before.bytes() - before.bytes() / FREED;
        if is_back || begun.elapsed() > patience {
            return Ok(if is_back { 0 } else { left });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_of_the_files_that_there_were() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on disk");
        let write = |name: &str, kib: usize| {
            let path = dir.path().join(name);
            fs::write(&path, vec![7; kib << 10]).expect("a file");
            fs::File::open(&path).and_then(|file| file.sync_all()).expect("a sync");
        };
        let files = || Files::of(dir.path()).expect("its files");
        write("table", 400);
        write("log", 40);
        let before = files();
        assert_eq!(before.left(&before), before.bytes());
        write("log", 4_000);
        write("other", 4_000);
        assert_eq!(before.left(&files()), before.bytes());
        fs::remove_file(dir.path().join("table")).expect("it is removed");
        assert_eq!(before.left(&files()), before.bytes() - (400 << 10));
    }
}
