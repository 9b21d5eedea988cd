//! Works that write entities one by one or in groups.

use anyhow::Result;

use super::stage::{Measured, Stage, Worker};
use crate::engine::Engine;
use crate::workload::{Key, Row};

/// Puts the worker's value under the clock.
pub(super) fn put_at(engine: &dyn Engine, worker: &mut Worker<'_>, key: &Key) -> Result<()> {
    worker.new_value();
    worker.clock(|worker| engine.put(&key.partition, &key.row, &worker.value))?;
    worker.wrote(key);
    Ok(())
}

impl Worker<'_> {
    pub(super) fn wrote(&mut self, key: &Key) {
        self.entities += 1;
        self.logical_bytes += (key.len() + self.value.len()) as u64;
    }
}

pub(super) fn put(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let key = stage.data.key(stage.data.uniform(&mut worker.rng));
        put_at(engine, worker, &key)
    })
}

pub(super) fn group(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let mut rows = Vec::new();
        for entity in stage.data.group(&mut worker.rng) {
            worker.new_value();
            rows.push(Row { key: stage.data.key(entity), value: worker.value.clone() });
        }
        worker.clock(|_| engine.put_group(&rows))?;
        worker.entities += rows.len() as u64;
        worker.logical_bytes += rows.iter().map(|row| row.len() as u64).sum::<u64>();
        Ok(())
    })
}

pub(super) fn update(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let entity = stage.data.uniform(&mut worker.rng);
        update_at(engine, worker, &stage.data.key(entity))
    })
}

pub(super) fn update_hot(stage: &Stage) -> Result<Measured> {
    let (_, first, count) = stage.data.heaviest();
    stage.timed(|engine, worker| {
        let entity = first + stage.data.uniform(&mut worker.rng) % count;
        update_at(engine, worker, &stage.data.key(entity))
    })
}

/// Reads an entity and replaces it if it is unchanged, again until it is.
fn update_at(engine: &dyn Engine, worker: &mut Worker<'_>, key: &Key) -> Result<()> {
    worker.new_value();
    let mut read = Vec::new();
    let lost = worker.clock(|worker| {
        let mut lost = 0;
        loop {
            let etag = engine.get(&key.partition, &key.row, &mut read)?;
            let Some(etag) = etag else { anyhow::bail!("{key:?} is gone") };
            if engine.replace(&key.partition, &key.row, etag, &worker.value)? {
                return Ok(lost);
            }
            lost += 1;
        }
    })?;
    worker.count("lost races", f64::from(lost));
    worker.wrote(key);
    Ok(())
}

/// Entities that no other operation of the work inserts, between those that are there.
fn fresh(stage: &Stage, worker: &mut Worker<'_>) -> Key {
    let number = worker.step * stage.threads() as u64 + worker.thread;
    worker.step += 1;
    stage.data.absent(stage.data.scattered(number))
}

pub(super) fn insert(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| insert_fresh(stage, engine, worker))
}

pub(super) fn insert_fresh(
    stage: &Stage,
    engine: &dyn Engine,
    worker: &mut Worker<'_>,
) -> Result<()> {
    let key = fresh(stage, worker);
    worker.new_value();
    if worker.clock(|worker| engine.insert(&key.partition, &key.row, &worker.value))? {
        worker.wrote(&key);
    } else {
        // More inserts than there are gaps: the rest only looks.
        worker.count("existed", 1.0);
    }
    Ok(())
}

pub(super) fn upsert_new(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let key = fresh(stage, worker);
        put_at(engine, worker, &key)
    })
}
