//! Works with values of 64 KiB to 1 MiB. Their rates are in values; the report adds megabytes.

use anyhow::{Result, ensure};
use rand::RngExt;

use super::read::Seen;
use super::stage::{Measured, Stage, Worker};
use crate::engine::Engine;
use crate::meter::Meter;
use crate::workload::VERSION_BYTES;

/// Bytes of a large value.
const LARGE: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;
/// Bytes of large values for a second that other works last.
const BYTES_A_SECOND: f64 = 300e6;

/// Puts large values one by one, and settles. Both are in its time.
pub(super) fn put(stage: &Stage) -> Result<Measured> {
    let engine = stage.open()?;
    let mut worker = Worker::new(stage, 0);
    let mut text = text(stage);
    let meter = Meter::start()?;
    fill(stage, &*engine, &mut worker, &mut text)?;
    engine.settle()?;
    let elapsed = meter.elapsed();
    let bytes = worker.logical_bytes;
    let measured = stage.finish(engine, &meter, worker, elapsed)?;
    Ok(with_megabytes(measured, bytes))
}

/// Gets any of the large values that were put, again and again. All of it is looked at, where it is
/// if the engine lends it.
pub(super) fn get(stage: &Stage) -> Result<Measured> {
    let engine = stage.open()?;
    let mut filler = Worker::new(stage, 0);
    fill(stage, &*engine, &mut filler, &mut text(stage))?;
    engine.settle()?;
    let values = filler.step;
    let measured = stage.timed_on(engine, stage.plan.seconds, |engine, worker| {
        let any = worker.rng.random_range(0..values);
        stage.data.key(stage.data.scattered(any), &mut worker.key);
        let mut read = Seen::default();
        let found = worker.clock(|Worker { key, .. }| {
            engine.show(&key.partition, &key.row, &mut |value| read.see(value))
        })?;
        ensure!(found.is_some(), "{:?} is gone", worker.key);
        worker.entities += read.finish();
        Ok(())
    })?;
    let mean = filler.logical_bytes / values;
    let bytes = mean * measured.operations;
    Ok(with_megabytes(measured, bytes))
}

/// What values are parts of: to copy so much for each would take a good part of the time.
fn text(stage: &Stage) -> Vec<u8> {
    stage.data.text(2 * LARGE.end())
}

/// Puts as many large values as the time is for, parts of the text; the worker's steps count them.
fn fill(
    stage: &Stage,
    engine: &dyn Engine,
    worker: &mut Worker<'_>,
    text: &mut [u8],
) -> Result<()> {
    let bytes = (stage.plan.seconds * BYTES_A_SECOND) as u64;
    while worker.logical_bytes < bytes {
        stage.data.key(stage.data.scattered(worker.step), &mut worker.key);
        worker.step += 1;
        let size = worker.rng.random_range(LARGE);
        let from = worker.rng.random_range(0..text.len() - size);
        let value = &mut text[from..from + size];
        value[..VERSION_BYTES].copy_from_slice(&worker.step.to_le_bytes());
        worker.clock(|Worker { key, .. }| engine.put(&key.partition, &key.row, value))?;
        worker.entities += 1;
        worker.logical_bytes += (worker.key.len() + size) as u64;
    }
    Ok(())
}

fn with_megabytes(mut measured: Measured, bytes: u64) -> Measured {
    let rate = bytes as f64 / 1e6 / measured.seconds;
    measured.extras = [("MB/s".to_owned(), rate)].into();
    measured
}
