//! Works that write entities one by one or in groups.

use anyhow::Result;

use super::stage::{Measured, Stage, Worker};
use crate::engine::Engine;
use crate::workload::Row;

/// Puts the worker's value at its key under the clock.
pub(super) fn put_at(engine: &dyn Engine, worker: &mut Worker<'_>) -> Result<()> {
    worker.new_value();
    worker.clock(|worker| engine.put(&worker.key.partition, &worker.key.row, &worker.value))?;
    worker.wrote();
    Ok(())
}

impl Worker<'_> {
    pub(super) fn wrote(&mut self) {
        self.entities += 1;
        self.logical_bytes += (self.key.len() + self.value.len()) as u64;
    }
}

pub(super) fn put(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let entity = stage.data.uniform(&mut worker.rng);
        stage.data.key(entity, &mut worker.key);
        put_at(engine, worker)
    })
}

pub(super) fn group(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let entities = stage.data.group(&mut worker.rng);
        let make = |worker: &mut Worker<'_>, entity, row: &mut Row| {
            stage.data.key(entity, &mut row.key);
            worker.new_value();
            std::mem::swap(&mut row.value, &mut worker.value);
        };
        worker.clock_rows(entities, make, |rows| engine.put_group(rows))
    })
}

pub(super) fn update(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let entity = stage.data.uniform(&mut worker.rng);
        update_at(stage, engine, worker, entity)
    })
}

pub(super) fn update_hot(stage: &Stage) -> Result<Measured> {
    let (_, first, count) = stage.data.heaviest();
    stage.timed(|engine, worker| {
        let entity = first + stage.data.uniform(&mut worker.rng) % count;
        update_at(stage, engine, worker, entity)
    })
}

/// Reads an entity and replaces it if it is unchanged, again until it is.
fn update_at(
    stage: &Stage,
    engine: &dyn Engine,
    worker: &mut Worker<'_>,
    entity: u64,
) -> Result<()> {
    stage.data.key(entity, &mut worker.key);
    worker.new_value();
    let lost = worker.clock(|Worker { key, value, read, .. }| {
        let mut lost = 0;
        loop {
            let etag = engine.get(&key.partition, &key.row, read)?;
            let Some(etag) = etag else { anyhow::bail!("{key:?} is gone") };
            if engine.replace(&key.partition, &key.row, etag, value)? {
                return Ok(lost);
            }
            lost += 1;
        }
    })?;
    worker.count("lost races", f64::from(lost));
    worker.wrote();
    Ok(())
}

/// Makes the worker's key one that no other operation of the work inserts, between those that are
/// there.
fn fresh(stage: &Stage, worker: &mut Worker<'_>) {
    let number = worker.step * stage.threads() as u64 + worker.thread;
    worker.step += 1;
    stage.data.absent(stage.data.scattered(number), &mut worker.key);
    // From the second lap over the gaps on, behind what the laps before put there.
    let lap = number / stage.data.entities();
    worker.key.row.extend(std::iter::repeat_n(b'+', lap as usize));
}

pub(super) fn insert(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| insert_fresh(stage, engine, worker))
}

pub(super) fn insert_fresh(
    stage: &Stage,
    engine: &dyn Engine,
    worker: &mut Worker<'_>,
) -> Result<()> {
    fresh(stage, worker);
    worker.new_value();
    let insert =
        |Worker { key, value, .. }: &mut Worker<'_>| engine.insert(&key.partition, &key.row, value);
    if worker.clock(insert)? {
        worker.wrote();
    } else {
        // More inserts than there are gaps: the rest only looks.
        worker.count("existed", 1.0);
    }
    Ok(())
}

pub(super) fn upsert_new(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        fresh(stage, worker);
        put_at(engine, worker)
    })
}
