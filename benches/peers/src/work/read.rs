//! Works that read: one entity, a page, all.

use anyhow::{Result, ensure};

use super::stage::{Measured, Stage, Worker};
use crate::engine::Engine;
use crate::meter::evict;

/// Entities of a page, as the service has them.
const PAGE: usize = 1_000;

/// Gets the entity at the worker's key, which must exist, under the clock.
pub(super) fn get_at(engine: &dyn Engine, worker: &mut Worker<'_>) -> Result<()> {
    ensure!(look_up(engine, worker)?, "{:?} is gone", worker.key);
    Ok(())
}

fn look_up(engine: &dyn Engine, worker: &mut Worker<'_>) -> Result<bool> {
    worker.entities += 1;
    let found =
        worker.clock(|Worker { key, value, .. }| engine.get(&key.partition, &key.row, value))?;
    Ok(found.is_some())
}

pub(super) fn get(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let entity = stage.data.popular(&mut worker.rng);
        stage.data.key(entity, &mut worker.key);
        get_at(engine, worker)
    })
}

/// Gets any entity from files that are on the device only.
pub(super) fn cold_get(stage: &Stage) -> Result<Measured> {
    cold(stage, |engine, worker| {
        let entity = stage.data.uniform(&mut worker.rng);
        stage.data.key(entity, &mut worker.key);
        get_at(engine, worker)
    })
}

pub(super) fn cold_page(stage: &Stage) -> Result<Measured> {
    cold(stage, |engine, worker| any_page(stage, engine, worker))
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
        let entity = stage.data.uniform(&mut worker.rng);
        stage.data.absent(entity, &mut worker.key);
        ensure!(!look_up(engine, worker)?, "{:?} was never written", worker.key);
        Ok(())
    })
}

/// Reads a page from the worker's key on under the clock; all of it is looked at.
pub(super) fn page_at(engine: &dyn Engine, worker: &mut Worker<'_>, limit: usize) -> Result<()> {
    let mut read = Seen::default();
    worker.clock(|Worker { key, .. }| {
        engine.page(&key.partition, &key.row, limit, &mut |value| read.see(value))
    })?;
    worker.entities += read.finish();
    Ok(())
}

fn any_page(stage: &Stage, engine: &dyn Engine, worker: &mut Worker<'_>) -> Result<()> {
    let entity = stage.data.uniform(&mut worker.rng);
    stage.data.key(entity, &mut worker.key);
    page_at(engine, worker, PAGE)
}

pub(super) fn page(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| any_page(stage, engine, worker))
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
