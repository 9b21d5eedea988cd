//! Works that mix reads, writes and deletions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use rand::RngExt;

use super::read::{get_at, page_at};
use super::stage::{Measured, Stage, Worker};
use super::write::{insert_fresh, put_at};

/// Churn lasts this many times as long as other works, to see what background work does to it.
const CHURN_TIMES: f64 = 8.0;
/// Parts of it whose rates are compared.
const SLICES: usize = 20;

fn ycsb(stage: &Stage, puts_in_100: u32) -> Result<Measured> {
    stage.timed(|engine, worker| {
        let entity = stage.data.popular(&mut worker.rng);
        stage.data.key(entity, &mut worker.key);
        if worker.rng.random_range(0..100) < puts_in_100 {
            put_at(engine, worker)
        } else {
            get_at(engine, worker)
        }
    })
}

pub(super) fn ycsb_a(stage: &Stage) -> Result<Measured> {
    ycsb(stage, 50)
}

pub(super) fn ycsb_b(stage: &Stage) -> Result<Measured> {
    ycsb(stage, 5)
}

pub(super) fn ycsb_e(stage: &Stage) -> Result<Measured> {
    stage.timed(|engine, worker| {
        if worker.rng.random_range(0..100) < 5 {
            return insert_fresh(stage, engine, worker);
        }
        let entity = stage.data.popular(&mut worker.rng);
        stage.data.key(entity, &mut worker.key);
        let limit = worker.rng.random_range(1..=100);
        page_at(engine, worker, limit)
    })
}

/// Walks through the data in no order; of three entities one is deleted, one overwritten, and one
/// that was deleted a while ago is put again.
pub(super) fn churn(stage: &Stage) -> Result<Measured> {
    let seconds = stage.plan.seconds * CHURN_TIMES;
    let slice = Duration::from_secs_f64(seconds / SLICES as f64);
    let slices: Vec<AtomicU64> = (0..SLICES).map(|_| AtomicU64::new(0)).collect();
    let mut measured = stage.timed_for(seconds, |engine, worker| {
        let number = worker.step * stage.threads() as u64 + worker.thread;
        worker.step += 1;
        let kind = number % 3;
        let number = if kind == 2 { number.saturating_sub(1_001) } else { number };
        stage.data.key(stage.data.scattered(number), &mut worker.key);
        if kind == 0 {
            worker.clock(|Worker { key, .. }| engine.delete(&key.partition, &key.row))?;
            worker.entities += 1;
            worker.logical_bytes += worker.key.len() as u64;
        } else {
            put_at(engine, worker)?;
        }
        let at = ((worker.ended - worker.begun).as_secs_f64() / slice.as_secs_f64()) as usize;
        if let Some(slice) = slices.get(at) {
            slice.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })?;
    let rates = slices.iter().map(|count| count.load(Ordering::Relaxed) as f64);
    let worst = rates.fold(f64::INFINITY, f64::min) / slice.as_secs_f64();
    let stall = measured.latency.max as f64 / 1e6;
    measured.extras.insert(format!("worst {:.2} s /s", slice.as_secs_f64()), worst);
    measured.extras.insert("longest stall ms".into(), stall);
    Ok(measured)
}
