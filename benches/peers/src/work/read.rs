//! Works that read: one entity, a page, all.

use anyhow::{Result, ensure};

use super::stage::{Measured, Stage, Worker};
use crate::engine::Engine;
use crate::meter::evict;
use crate::workload::Key;

/// Entities of a page, as the service has them.
const PAGE: usize = 1_000;

/// Gets an entity that must exist, under the clock.
pub(super) fn get_at(engine: &dyn Engine, worker: &mut Worker<'_>, key: &Key) -> Result<()> {
    let get = |worker: &mut Worker<'_>| engine.get(&key.partition, &key.row, &mut worker.value);
    ensure!(worker.clock(get)?.is_some(), "{key:?} is gone");
    worker.entities += 1;
    Ok(())
}

pub(super) fn get(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let key = stage.data.key(stage.data.popular(&mut worker.rng));
        get_at(engine, worker, &key)
    })
}

/// Gets any entity from files that are on the device only.
pub(super) fn cold_get(stage: &Stage) -> Result<Measured> {
    cold(stage, |engine, worker| {
        let key = stage.data.key(stage.data.uniform(&mut worker.rng));
        get_at(engine, worker, &key)
    })
}

pub(super) fn cold_page(stage: &Stage) -> Result<Measured> {
    cold(stage, |engine, worker| {
        let key = stage.data.key(stage.data.uniform(&mut worker.rng));
        page_at(engine, worker, &key, PAGE)
    })
}

/// What is read from the device counts too: it falls as the caches fill.
fn cold(
    stage: &Stage,
    operation: impl Fn(&dyn Engine, &mut Worker<'_>) -> Result<()> + Sync,
) -> Result<Measured> {
    evict(&stage.plan.dir)?;
    let mut measured = stage.timed(operation)?;
    let read = measured.usage.read_bytes as f64 / 1024.0;
    let each = read / measured.operations.max(1) as f64;
    measured.extras.insert("device KiB read an operation".into(), each);
    Ok(measured)
}

pub(super) fn get_missing(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let key = stage.data.absent(stage.data.uniform(&mut worker.rng));
        let get = |worker: &mut Worker<'_>| engine.get(&key.partition, &key.row, &mut worker.value);
        ensure!(worker.clock(get)?.is_none(), "{key:?} was never written");
        worker.entities += 1;
        Ok(())
    })
}

/// Reads a page under the clock; every byte of it is looked at.
pub(super) fn page_at(
    engine: &dyn Engine,
    worker: &mut Worker<'_>,
    key: &Key,
    limit: usize,
) -> Result<()> {
    let mut read = Seen::default();
    worker.clock(|_| engine.page(&key.partition, &key.row, limit, &mut |value| read.see(value)))?;
    worker.entities += read.finish();
    Ok(())
}

pub(super) fn page(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let key = stage.data.key(stage.data.uniform(&mut worker.rng));
        page_at(engine, worker, &key, PAGE)
    })
}

pub(super) fn scan(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let mut read = Seen::default();
        worker.clock(|_| engine.scan(&mut |value| read.see(value)))?;
        let entities = read.finish();
        ensure!(entities == stage.data.entities(), "the scan found {entities} entities");
        worker.entities += entities;
        Ok(())
    })
}

/// Looks at values, so that an engine that only points at them has to fetch them.
#[derive(Default)]
pub(super) struct Seen {
    entities: u64,
    sum: u64,
}

impl Seen {
    pub(super) fn see(&mut self, value: &[u8]) {
        self.entities += 1;
        // A byte of each cache line is as much as fetches it.
        self.sum += value.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
    }

    pub(super) fn finish(self) -> u64 {
        std::hint::black_box(self.sum);
        self.entities
    }
}
