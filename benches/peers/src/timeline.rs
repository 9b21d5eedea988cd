//! Latency over time: what operations took in each hundredth of a second, and when the engine was
//! flushing and compacting.
//!
//! Tablestone says through `tracing` when a flush or a compaction has ended and how long it took;
//! of other engines only latencies are known.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Time that a bucket stands for.
pub const BUCKET: Duration = Duration::from_millis(10);

/// Background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    Flush,
    Compaction,
}

/// From when to when, in seconds after the process began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    pub job: Job,
    pub from: f64,
    pub to: f64,
}

/// Microseconds of the operations that ended in a bucket; zeros if none did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub p99: f32,
    pub max: f32,
}

/// What a run was like over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    pub buckets: Vec<Bucket>,
    pub marks: Vec<Mark>,
}

impl Timeline {
    /// Whether a job was under way at any time of a bucket.
    pub fn during(&self, job: Job, bucket: usize) -> bool {
        let from = bucket as f64 * BUCKET.as_secs_f64();
        let to = from + BUCKET.as_secs_f64();
        self.marks.iter().any(|mark| mark.job == job && mark.from < to && from < mark.to)
    }
}

/// The times of one thread's operations, by bucket.
#[derive(Clone, Debug)]
pub struct Track {
    epoch: Instant,
    buckets: Vec<Vec<f32>>,
}

impl Track {
    pub fn new(epoch: Instant) -> Self {
        Self { epoch, buckets: Vec::new() }
    }

    pub fn record(&mut self, ended: Instant, took: Duration) {
        let since = ended.saturating_duration_since(self.epoch);
        let bucket = (since.as_nanos() / BUCKET.as_nanos()) as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize_with(bucket + 1, Vec::new);
        }
        self.buckets[bucket].push(took.as_secs_f32() * 1e6);
    }

    pub fn add(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize_with(other.buckets.len(), Vec::new);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.extend_from_slice(theirs);
        }
    }

    pub fn finish(self, marks: Vec<Mark>) -> Timeline {
        let bucket = |mut times: Vec<f32>| {
            times.sort_by(f32::total_cmp);
            let last = times.len().saturating_sub(1);
            let at = |place: usize| times.get(place).copied().unwrap_or(0.0);
            Bucket { p99: at(times.len() * 99 / 100), max: at(last) }
        };
        Timeline { buckets: self.buckets.into_iter().map(bucket).collect(), marks }
    }
}

/// Hears what the engine says of its background work.
#[derive(Clone, Debug)]
pub struct Listener {
    pub epoch: Instant,
    marks: Arc<Mutex<Vec<Mark>>>,
}

impl Listener {
    /// Listens from now on to everything that the process does.
    pub fn listen() -> Result<Self> {
        let listener = Self { epoch: Instant::now(), marks: Arc::default() };
        tracing::subscriber::set_global_default(listener.clone())?;
        Ok(listener)
    }

    pub fn marks(&self) -> Vec<Mark> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The parts of an event that are of interest.
#[derive(Default)]
struct Ended {
    job: Option<Job>,
    took: Option<Duration>,
}

impl Visit for Ended {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => {
                self.job = match &*format!("{value:?}") {
                    "flushed" => Some(Job::Flush),
                    "compacted" => Some(Job::Compaction),
                    _ => None,
                };
            }
            "took" => self.took = duration(&format!("{value:?}")),
            _ => {}
        }
    }
}

/// A duration as `Debug` shows it.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(char::is_alphabetic)?);
    let factor = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * factor))
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tablestone") && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut ended = Ended::default();
        event.record(&mut ended);
        if let (Some(job), Some(took)) = (ended.job, ended.took) {
            let to = self.epoch.elapsed();
            let from = to.saturating_sub(took).as_secs_f64();
            let mark = Mark { job, from, to: to.as_secs_f64() };
            self.marks.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_count_in_the_bucket_in_which_they_ended() {
        let epoch = Instant::now();
        let at = |ms| epoch + Duration::from_millis(ms);
        let mut track = Track::new(epoch);
        for took in 1..=200 {
            track.record(at(25), Duration::from_micros(took));
        }
        let mut other = Track::new(epoch);
        other.record(at(9), Duration::from_millis(3));
        other.record(at(41), Duration::from_millis(4));
        track.add(&other);
        let buckets = track.finish(Vec::new()).buckets;
        let empty = Bucket::default();
        let one = |time| Bucket { p99: time, max: time };
        let many = Bucket { p99: 199.0, max: 200.0 };
        let rounded = |b: &Bucket| Bucket { p99: b.p99.round(), max: b.max.round() };
        let expected = [one(3_000.0), empty, many, empty, one(4_000.0)];
        assert_eq!(buckets.iter().map(rounded).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_the_engine_says_becomes_marks() {
        let listener = Listener { epoch: Instant::now(), marks: Arc::default() };
        tracing::subscriber::with_default(listener.clone(), || {
            let took = Duration::from_micros(1_500);
            tracing::debug!(target: "tablestone::levels", bytes = 7, ?took, "flushed");
            tracing::debug!(target: "tablestone::levels", level = 1, ?took, "compacted");
            tracing::debug!(target: "tablestone::levels", ?took, "rested");
            tracing::debug!(target: "elsewhere", ?took, "flushed");
        });
        let marks = listener.marks();
        let jobs: Vec<Job> = marks.iter().map(|mark| mark.job).collect();
        assert_eq!(jobs, [Job::Flush, Job::Compaction]);
        let mark = marks[1];
        // The engine's clock began before ours: what it took is cut at the beginning.
        assert!(mark.from <= mark.to && mark.to - mark.from <= 0.001_501, "{mark:?}");
    }

    #[test]
    fn durations_are_read_as_they_are_shown() {
        let shown = [1_500_000_000, 12_345_678, 45_600, 789].map(Duration::from_nanos);
        for took in shown {
            let read = duration(&format!("{took:?}")).expect("a duration");
            assert!(read.abs_diff(took) <= Duration::from_nanos(1), "{took:?} became {read:?}");
        }
        assert_eq!(duration("soon"), None);
    }

    #[test]
    fn a_job_is_under_way_in_every_bucket_that_it_touches() {
        let mark = Mark { job: Job::Flush, from: 0.012, to: 0.031 };
        let timeline = Timeline { buckets: Vec::new(), marks: vec![mark] };
        let during: Vec<bool> = (0..5).map(|n| timeline.during(Job::Flush, n)).collect();
        assert_eq!(during, [false, true, true, true, false]);
        assert!(!timeline.during(Job::Compaction, 1));
    }
}
