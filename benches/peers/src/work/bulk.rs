//! Works that move many entities at once: loads, deleting a partition.

use std::time::Instant;

use anyhow::Result;

use super::read::Seen;
use super::stage::{Measured, Stage, Worker};
use crate::engine::Engine;
use crate::meter::Meter;
use crate::workload::Row;

/// Entities of one write of a load.
const LOAD: usize = 1_000;
/// Loads entities in this order; each thousand is one operation.
pub(crate) fn load(
    stage: &Stage,
    engine: &dyn Engine,
    order: impl Iterator<Item = u64>,
    worker: &mut Worker<'_>,
) -> Result<()> {
    let mut order = order.peekable();
    while order.peek().is_some() {
        let thousand = order.by_ref().take(LOAD);
        let make = |_: &mut Worker<'_>, entity, row: &mut Row| stage.data.row(entity, row);
        worker.clock_rows(thousand, make, |rows| engine.load(rows))?;
    }
    Ok(())
}

fn load_until_settled(stage: &Stage, order: impl Iterator<Item = u64>) -> Result<Measured> {
    let engine = stage.open()?;
    measure_load(stage, engine, |engine, worker| load(stage, &**engine, order, worker))
}

/// The operations of a load are entities: its rate is what matters, until settled.
fn measure_load(
    stage: &Stage,
    mut engine: Box<dyn Engine>,
    load: impl FnOnce(&mut Box<dyn Engine>, &mut Worker<'_>) -> Result<()>,
) -> Result<Measured> {
    let mut worker = Worker::new(stage, 0);
    let meter = Meter::start()?;
    load(&mut engine, &mut worker)?;
    engine.settle()?;
    let elapsed = meter.elapsed();
    let mut measured = stage.finish(engine, &meter, worker, elapsed)?;
    measured.operations = measured.entities;
    measured.extras.clear();
    Ok(measured)
}

pub(super) fn load_sequential(stage: &Stage) -> Result<Measured> {
    load_until_settled(stage, 0..stage.data.entities())
}

/// One call of the engine, which has all entities in memory.
pub(super) fn load_sorted(stage: &Stage) -> Result<Measured> {
    let mut rows = vec![Row::default(); stage.data.entities() as usize];
    (0..).zip(&mut rows).for_each(|(entity, row)| stage.data.row(entity, row));
    measure_load(stage, stage.open()?, |engine, worker| {
        worker.entities = rows.len() as u64;
        worker.logical_bytes = rows.iter().map(|row| row.len() as u64).sum();
        worker.clock(|_| engine.load_sorted(&rows))?;
        Ok(())
    })
}

pub(super) fn load_random(stage: &Stage) -> Result<Measured> {
    load_until_settled(stage, stage.data.shuffled().into_iter())
}

impl Stage {
    /// Fills the directory with all entities for the works that begin with them.
    pub fn prepare(&self) -> Result<()> {
        let engine = self.open()?;
        let mut worker = Worker::new(self, 0);
        load(self, &*engine, 0..self.data.entities(), &mut worker)?;
        engine.settle()?;
        engine.close()
    }
}

/// Entities a second are those of the scan after the deletion, which finds out what it left behind.
pub(super) fn mass_delete(stage: &Stage) -> Result<Measured> {
    let (partition, _, deleted) = stage.data.heaviest();
    let engine = stage.open()?;
    let mut worker = Worker::new(stage, 0);
    let meter = Meter::start()?;
    worker.clock(|_| engine.delete_partition(&partition))?;
    let deletion = meter.elapsed();
    let mut read = Seen::default();
    let scanning = Instant::now();
    engine.scan(&mut |value| read.see(value))?;
    let scan = scanning.elapsed();
    let left = read.finish();
    anyhow::ensure!(left == stage.data.entities() - deleted, "{left} entities are left");
    worker.entities = left;
    engine.settle()?;
    let mut measured = stage.finish(engine, &meter, worker, deletion + scan)?;
    measured.operations = left;
    measured.extras.insert("deletion ms".into(), deletion.as_secs_f64() * 1e3);
    measured.extras.insert("scan after it ms".into(), scan.as_secs_f64() * 1e3);
    Ok(measured)
}
