//! [`Stage`]: where a work runs; threads, their clocks, and what comes out.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::Work;
use crate::child::Assignment;
use crate::engine::{Engine, PEERS, Peer, Setup};
use crate::meter::{Meter, Usage, disk_bytes};
use crate::timeline::{Listener, Timeline, Track};
use crate::workload::{Dataset, Key, Rng, Row};

/// Nanoseconds that an operation is counted as if it took longer.
const LONGEST: u64 = 100_000_000_000;

/// Nanoseconds that operations took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Latency {
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: histogram.max() }
    }
}

/// What a work found out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pub operations: u64,
    pub entities: u64,
    pub seconds: f64,
    /// Bytes of keys and values that were written.
    pub logical_bytes: u64,
    pub latency: Latency,
    pub usage: Usage,
    pub disk_bytes: u64,
    /// What only this work measures, by name and unit.
    pub extras: BTreeMap<String, f64>,
    /// How it went over time, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

/// One engine, one directory, one process.
pub struct Stage {
    pub plan: Assignment,
    pub work: &'static Work,
    pub data: Dataset,
    peer: &'static Peer,
    listener: Option<Listener>,
}

impl Stage {
    pub fn new(plan: Assignment) -> Result<Self> {
        let peer = PEERS.iter().find(|peer| peer.name == plan.engine);
        let peer = peer.with_context(|| format!("no engine {:?}", plan.engine))?;
        let work = super::find(&plan.work).with_context(|| format!("no work {:?}", plan.work))?;
        let data = Dataset::new(plan.scale.entities, plan.seed);
        let listener = plan.timeline.then(Listener::listen).transpose()?;
        Ok(Self { plan, work, data, peer, listener })
    }

    fn setup(&self) -> Setup {
        Setup {
            durability: self.work.durability,
            threads: self.threads(),
            tables: self.plan.scale.tables,
            budget: self.plan.budget,
            is_memory_short: self.plan.memory_group.is_some(),
        }
    }

    /// Threads that do the work.
    pub(super) fn threads(&self) -> usize {
        self.plan.scale.threads.unwrap_or(self.work.threads)
    }

    pub(super) fn open(&self) -> Result<Box<dyn Engine>> {
        (self.peer.open)(&self.plan.dir, self.setup())
    }

    /// Does an operation again and again from the work's threads until the time is over.
    pub(super) fn timed(
        &self,
        operation: impl Fn(&dyn Engine, &mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<Measured> {
        self.timed_for(self.plan.seconds, operation)
    }

    pub(super) fn timed_for(
        &self,
        seconds: f64,
        operation: impl Fn(&dyn Engine, &mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<Measured> {
        self.timed_on(self.open()?, seconds, operation)
    }

    pub(super) fn timed_on(
        &self,
        engine: Box<dyn Engine>,
        seconds: f64,
        operation: impl Fn(&dyn Engine, &mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<Measured> {
        let start = Barrier::new(self.threads() + 1);
        let meter = Meter::start()?;
        let (workers, ended) = thread::scope(|scope| {
            let (start, engine, operation) = (&start, &*engine, &operation);
            let threads: Vec<_> = (0..self.threads())
                .map(|thread| {
                    scope.spawn(move || -> Result<Worker<'_>> {
                        let mut worker = Worker::new(self, thread as u64);
                        start.wait();
                        worker.begun = Instant::now();
                        worker.ended = worker.begun;
                        while (worker.ended - worker.begun).as_secs_f64() < seconds {
                            operation(engine, &mut worker)?;
                        }
                        Ok(worker)
                    })
                })
                .collect();
            start.wait();
            let workers: Result<Vec<Worker<'_>>> = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
                .collect();
            (workers, Instant::now())
        });
        let workers = workers?;
        // By the workers' clocks: on few cores this thread may go on long after they began.
        let begun = workers.iter().map(|worker| worker.begun).min();
        let elapsed = begun.map_or(Duration::ZERO, |begun| ended - begun);
        let mut total = Worker::new(self, u64::MAX - 2);
        for worker in workers {
            total.add(&worker)?;
        }
        self.finish(engine, &meter, total, elapsed)
    }

    /// Settles, closes, and adds up.
    pub(super) fn finish(
        &self,
        engine: Box<dyn Engine>,
        meter: &Meter,
        total: Worker<'_>,
        elapsed: Duration,
    ) -> Result<Measured> {
        let settling = Instant::now();
        let mut extras = total.extras;
        if total.logical_bytes > 0 {
            engine.settle()?;
            extras.insert("settling s".into(), settling.elapsed().as_secs_f64());
        }
        let usage = meter.stop()?;
        engine.close()?;
        let marks = self.listener.as_ref().map(Listener::marks);
        let timeline = total.track.zip(marks).map(|(track, marks)| track.finish(marks));
        Ok(Measured {
            operations: total.latency.len(),
            entities: total.entities,
            seconds: elapsed.as_secs_f64(),
            logical_bytes: total.logical_bytes,
            latency: Latency::of(&total.latency),
            usage,
            disk_bytes: disk_bytes(&self.plan.dir)?,
            extras,
            timeline,
        })
    }
}

/// A thread of a work: its choices, its buffers, its clock.
pub(super) struct Worker<'a> {
    stage: &'a Stage,
    pub(super) thread: u64,
    pub(super) rng: Rng,
    pub(super) key: Key,
    /// What is written or was read.
    pub(super) value: Vec<u8>,
    /// What was read to be replaced by it.
    pub(super) read: Vec<u8>,
    rows: Vec<Row>,
    /// That of the newest value: no other thread has it.
    version: u64,
    /// Operations begun, for works that walk through the data.
    pub(super) step: u64,
    pub(super) begun: Instant,
    /// When the last operation ended.
    pub(super) ended: Instant,
    latency: Histogram<u64>,
    track: Option<Track>,
    pub(super) entities: u64,
    pub(super) logical_bytes: u64,
    pub(super) extras: BTreeMap<String, f64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(stage: &'a Stage, thread: u64) -> Self {
        let latency = Histogram::new_with_max(LONGEST, 3).expect("three digits are supported");
        Self {
            stage,
            thread,
            rng: stage.data.rng(thread),
            key: Key::default(),
            value: Vec::new(),
            read: Vec::new(),
            rows: Vec::new(),
            version: stage.data.entities().wrapping_add(thread),
            step: 0,
            begun: Instant::now(),
            ended: Instant::now(),
            latency,
            track: stage.listener.as_ref().map(|listener| Track::new(listener.epoch)),
            entities: 0,
            logical_bytes: 0,
            extras: BTreeMap::new(),
        }
    }

    /// Makes a new value in the worker's buffer.
    pub(super) fn new_value(&mut self) {
        self.version += self.stage.threads() as u64;
        self.stage.data.value(&mut self.rng, self.version, &mut self.value);
    }

    /// Does a call of the engine under the clock.
    pub(super) fn clock<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        let outcome = call(self)?;
        self.ended = Instant::now();
        let took = self.ended - begun;
        self.latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(LONGEST));
        if let Some(track) = &mut self.track {
            track.record(self.ended, took);
        }
        Ok(outcome)
    }

    /// Makes a row of each entity, and does a call of the engine with them under the clock.
    pub(super) fn clock_rows(
        &mut self,
        entities: impl Iterator<Item = u64>,
        make: impl Fn(&mut Self, u64, &mut Row),
        call: impl FnOnce(&[Row]) -> Result<()>,
    ) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        let mut count = 0;
        for entity in entities {
            if rows.len() == count {
                rows.push(Row::default());
            }
            make(self, entity, &mut rows[count]);
            self.logical_bytes += rows[count].len() as u64;
            count += 1;
        }
        self.entities += count as u64;
        let outcome = self.clock(|_| call(&rows[..count]));
        self.rows = rows;
        outcome
    }

    pub(super) fn count(&mut self, extra: &str, by: f64) {
        if let Some(count) = self.extras.get_mut(extra) {
            *count += by;
        } else {
            self.extras.insert(extra.to_owned(), by);
        }
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        self.latency.add(&other.latency).map_err(|error| anyhow!("{error:?}"))?;
        if let (Some(mine), Some(theirs)) = (&mut self.track, &other.track) {
            mine.add(theirs);
        }
        self.entities += other.entities;
        self.logical_bytes += other.logical_bytes;
        for (name, count) in &other.extras {
            self.count(name, *count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Role;
    use crate::scale::Scale;
    use crate::timeline::Job;
    use std::path::Path;

    fn assignment(work: &str, dir: &Path) -> Assignment {
        Assignment {
            role: Role::Measure,
            engine: "tablestone".into(),
            work: work.into(),
            dir: dir.to_owned(),
            scale: Scale::of(1_000),
            seconds: 0.05,
            budget: 8 << 20,
            seed: 1,
            timeline: false,
            memory_group: None,
        }
    }

    fn measure(plan: Assignment) -> Measured {
        let stage = Stage::new(plan).expect("a stage");
        (stage.work.run)(&stage).expect("it is measured")
    }

    #[test]
    fn a_worker_records_times_and_adds_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let scale = Scale { threads: Some(3), ..Scale::of(1_000) };
        let measured = measure(Assignment { scale, ..assignment("put-unsynced-4", dir.path()) });
        let Latency { p50, p99, p999, max } = measured.latency;
        assert!(100 < p50 && p50 <= p99 && p99 <= p999 && p999 <= max, "{measured:?}");
        assert_eq!(measured.operations, measured.entities);
        assert!(measured.seconds >= 0.05 && measured.logical_bytes > 100 * measured.entities);
        assert!(measured.disk_bytes > 0 && measured.usage.cpu_seconds > 0.0, "{measured:?}");
        assert_eq!(measured.timeline, None);
    }

    #[test]
    fn a_timeline_shows_every_operation_and_the_engine_s_flushes() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = assignment("put-unsynced-4", dir.path());
        let measured = measure(Assignment { timeline: true, ..plan });
        let timeline = measured.timeline.expect("it was asked for");
        let slowest = timeline.buckets.iter().map(|bucket| f64::from(bucket.max));
        let slowest = slowest.fold(0.0, f64::max) * 1e3;
        let most = measured.latency.max as f64;
        assert!((slowest / most - 1.0).abs() < 0.01, "{slowest} ns, and {most} in all");
        assert!(timeline.marks.iter().any(|mark| mark.job == Job::Flush), "{:?}", timeline.marks);
    }

    #[test]
    fn a_dropped_table_gives_its_space_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let scale = Scale::of(100_000);
        let prepare = Assignment { scale, ..assignment("drop-table", dir.path()) };
        Stage::new(prepare.clone()).and_then(|stage| stage.prepare()).expect("it is loaded");
        let measured = measure(prepare);
        assert_eq!((measured.operations, measured.entities), (1, 100_000));
        let back = |name: &&String| name.starts_with("space back after");
        assert!(measured.extras.keys().any(|name| back(&name)), "{:?}", measured.extras);
        assert!(measured.extras["slowest get beside since ms"] > 0.0, "{:?}", measured.extras);
    }
}
