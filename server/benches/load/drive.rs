//! [`Drive`]: one work over some connections, in a closed or an open loop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use memchr::memmem;
use tokio::task::spawn_local;

use super::Failure;
use super::connection::{Answer, Connection};
use super::endpoint::Endpoint;
use super::target::{Target, own_processor_time};
use super::workload::{BATCH, Requests, Work, Workload};

/// Closer to when a request is to be sent, its task does not sleep: timers have milliseconds.
const TIMER: Duration = Duration::from_millis(2);
/// The longest latency that is told apart, in nanoseconds.
const LONGEST: u64 = 1_000_000_000_000;
/// How many wrong answers are shown.
const SHOWN: u64 = 3;

/// What to do, over how many connections, how fast, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drive {
    pub(crate) work: Work,
    pub(crate) connections: usize,
    /// Requests a second of an open loop; none if the loop is closed.
    pub(crate) rate: Option<f64>,
    pub(crate) until: Until,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Time(Duration),
    /// Until the table has the entities that it is to have, or the time is over.
    Filled {
        at_most: Duration,
    },
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    /// Entities that the answers had, or told of.
    pub(crate) entities: u64,
    pub(crate) elapsed: Duration,
    /// In nanoseconds.
    pub(crate) latencies: Histogram<u64>,
    /// What the server's process used, if it is known.
    pub(crate) server_time: Option<Duration>,
    /// What this process used.
    pub(crate) driver_time: Duration,
}

/// What the connections of a drive have in common.
struct Shared {
    drive: Drive,
    workload: Rc<Workload>,
    endpoint: Rc<Endpoint>,
    began: Instant,
    /// The index of the first entity that was not inserted yet.
    fresh: Cell<u64>,
    requests: Cell<u64>,
    entities: Cell<u64>,
    errors: Cell<u64>,
    latencies: RefCell<Histogram<u64>>,
    is_floor: bool,
}

impl Drive {
    pub(crate) async fn run(
        self,
        target: &Target,
        workload: &Rc<Workload>,
    ) -> Result<Outcome, Failure> {
        let fresh = match (self.until, self.work) {
            (Until::Filled { .. }, _) => 0,
            (_, Work::Batch) => target.next_batch.get(),
            _ => target.next_insert.get(),
        };
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            connections.push(Connection::open(&target.endpoint).await?);
        }
        let (server_before, driver_before) = (target.processor_time(), own_processor_time());
        let shared = Rc::new(Shared {
            drive: self,
            workload: Rc::clone(workload),
            endpoint: Rc::clone(&target.endpoint),
            began: Instant::now(),
            fresh: Cell::new(fresh),
            requests: Cell::default(),
            entities: Cell::default(),
            errors: Cell::default(),
            latencies: RefCell::new(Histogram::new_with_bounds(1, LONGEST, 3)?),
            is_floor: target.is_floor,
        });
        let tasks = connections.into_iter().enumerate().map(|(number, connection)| {
            spawn_local(Rc::clone(&shared).work(number as u64, connection))
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await?;
        }
        let elapsed = shared.began.elapsed();
        let fresh = shared.fresh.get();
        match (self.until, self.work) {
            (Until::Filled { .. }, _) => {}
            (_, Work::Batch) => target.next_batch.set(fresh),
            _ => target.next_insert.set(fresh),
        }
        let server_time =
            target.processor_time().zip(server_before).map(|(after, before)| after - before);
        Ok(Outcome {
            requests: shared.requests.get(),
            errors: shared.errors.get(),
            entities: shared.entities.get(),
            elapsed,
            latencies: shared.latencies.borrow().clone(),
            server_time,
            driver_time: own_processor_time().saturating_sub(driver_before),
        })
    }
}

impl Shared {
    /// What one connection does.
    async fn work(self: Rc<Self>, number: u64, mut connection: Connection) {
        let mut requests = Requests::new(self.drive.work, &self.workload, &self.endpoint, number);
        let mut bytes = Vec::new();
        for turn in 0.. {
            let due = self.due(turn, number);
            if let Some(due) = due {
                wait_until(due).await;
            }
            let Some(fresh) = self.next() else { return };
            requests.write(&mut bytes, fresh);
            let sent = due.unwrap_or_else(Instant::now);
            match connection.exchange(&bytes).await {
                Ok(answer) => {
                    self.record(sent.elapsed());
                    self.check(&mut requests, answer);
                }
                Err(error) => {
                    self.wrong(&format_args!("{error}"));
                    return;
                }
            }
        }
    }

    /// When an open loop is to send a request.
    fn due(&self, turn: u64, number: u64) -> Option<Instant> {
        let rate = self.drive.rate?;
        let place = turn * self.drive.connections as u64 + number;
        Some(self.began + Duration::from_secs_f64(place as f64 / rate))
    }

    /// The index of what the next request inserts; `None` at the end.
    fn next(&self) -> Option<u64> {
        let fresh = self.fresh.get();
        let elapsed = self.began.elapsed();
        let goes_on = match self.drive.until {
            Until::Time(time) => elapsed < time,
            Until::Filled { at_most } => elapsed < at_most && fresh < self.workload.entities,
        };
        let inserts = match self.drive.work {
            Work::Batch => BATCH,
            Work::Insert => 1,
            _ => 0,
        };
        self.fresh.set(fresh + if goes_on { inserts } else { 0 });
        goes_on.then_some(fresh)
    }

    fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.latencies.borrow_mut().saturating_record(nanos);
        self.requests.set(self.requests.get() + 1);
    }

    /// Whether an answer is what it must be.
    fn check(&self, requests: &mut Requests, answer: Answer<'_>) {
        let work = self.drive.work;
        if answer.status != work.status() {
            return self.wrong(&format_args!(
                "status {}: {}",
                answer.status,
                String::from_utf8_lossy(answer.body.get(..400).unwrap_or(answer.body))
            ));
        }
        let (sign, expected) = work.sign();
        if expected == 0 {
            return self.entities.set(self.entities.get() + 1);
        }
        let found = memmem::find_iter(answer.body, sign).count() as u64;
        self.entities.set(self.entities.get() + found);
        if found != expected && (work != Work::Scan || answer.next.is_some()) {
            return self.wrong(&format_args!("{found} entities, not {expected}"));
        }
        if work == Work::Scan
            && let Some(all) = requests.turn_page(found, answer.next)
            && all != self.workload.entities
            && !self.is_floor
        {
            self.wrong(&format_args!("a scan of {all} entities, not {}", self.workload.entities));
        }
    }

    fn wrong(&self, what: &dyn std::fmt::Display) {
        let errors = self.errors.get() + 1;
        self.errors.set(errors);
        if errors <= SHOWN {
            eprintln!("{} at {}: {what}", self.drive.work, self.endpoint.address);
        }
    }
}

async fn wait_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > TIMER {
            tokio::time::sleep(left - TIMER).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}
