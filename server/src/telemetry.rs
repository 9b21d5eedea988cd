//! What operators see: counters and latencies by operation, the engine's figures, the access log.
//!
//! Handles to all metrics of requests are made once; without an admin port they are handles to nothing.

mod figures;

use std::time::{Duration, Instant};

use http::StatusCode;
use metrics::{Counter, Gauge, Histogram, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use tablestone::{Activity, Stats};

use self::figures::{ENGINE_COUNTERS, ENGINE_GAUGES, LEVEL};
use crate::error::ErrorCode;

/// Upper ends of the latencies' buckets in seconds.
const BUCKETS: [f64; 15] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    30.0,
];

macro_rules! actions {
    ($($name:ident)*) => {
        /// What a request does, by the name that the protocol has for it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the operations of the protocol, by their names")]
        pub enum Action {
            /// It is not known, or there is no such operation.
            #[default]
            Unknown,
            $($name,)*
        }

        impl Action {
            const ALL: &'static [Self] = &[Self::Unknown, $(Self::$name,)*];

            const fn name(self) -> &'static str {
                match self {
                    Self::Unknown => "Unknown",
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

actions! {
    QueryTables GetTable CreateTable DeleteTable GetTableAcl SetTableAcl
    GetServiceProperties SetServiceProperties GetServiceStats Preflight
    QueryEntities GetEntity InsertEntity UpdateEntity MergeEntity
    InsertOrReplaceEntity InsertOrMergeEntity DeleteEntity EntityGroupTransaction
}

/// The status in log and metrics of a request whose client went away before it was answered.
const GONE: u16 = 499;

/// What is told of a request.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// What it did.
    pub action: Action,
    /// Its answer's status; `None` if its client went away before there was one.
    pub status: Option<StatusCode>,
    /// Why it failed, if it did; also why a batch did, whose status is 202 nevertheless.
    pub error: Option<ErrorCode>,
    /// From its head to its answer.
    pub took: Duration,
    /// The method as it was sent.
    pub method: &'a str,
    /// The path as it was sent; the query string may hold a signature and is not told.
    pub path: &'a str,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// The server's id of the request.
    pub id: crate::headers::RequestId,
    /// The client's.
    pub client_id: Option<&'a str>,
    /// Where it came from.
    pub peer: Option<std::net::IpAddr>,
}

/// Where requests are counted.
pub struct Telemetry {
    actions: Vec<ActionMetrics>,
    errors: Vec<Counter>,
    in_flight: Gauge,
    bytes: Counter,
    access_log: bool,
    /// Where the handles above lead; none if nothing is counted.
    recorder: Option<PrometheusRecorder>,
}

struct ActionMetrics {
    /// Of answers by the hundreds of their status, from 200, and of those that nobody waited for.
    answers: [Counter; 5],
    seconds: Histogram,
}

impl Telemetry {
    /// Counts nothing; `access_log` says whether each request is logged.
    #[must_use]
    pub fn off(access_log: bool) -> Self {
        let answers = || std::array::from_fn(|_| Counter::noop());
        let metrics = || ActionMetrics { answers: answers(), seconds: Histogram::noop() };
        Self {
            actions: Action::ALL.iter().map(|_| metrics()).collect(),
            errors: ErrorCode::ALL.iter().map(|_| Counter::noop()).collect(),
            in_flight: Gauge::noop(),
            bytes: Counter::noop(),
            access_log,
            recorder: None,
        }
    }

    /// Counts everything.
    #[must_use]
    pub fn on(access_log: bool) -> Self {
        let builder = PrometheusBuilder::new();
        // Fails for no buckets alone.
        let Ok(builder) = builder.set_buckets(&BUCKETS) else { return Self::off(access_log) };
        let recorder = builder.build_recorder();
        let counted = with_local_recorder(&recorder, || {
            describe();
            let metrics = |action: &Action| {
                let name = action.name();
                let answers = ["2xx", "3xx", "4xx", "5xx", "cancelled"].map(
                    |status| metrics::counter!(REQUESTS, "operation" => name, "status" => status),
                );
                let seconds = metrics::histogram!(SECONDS, "operation" => name);
                ActionMetrics { answers, seconds }
            };
            let error = |code: &ErrorCode| metrics::counter!(ERRORS, "code" => code.as_str());
            Self {
                actions: Action::ALL.iter().map(metrics).collect(),
                errors: ErrorCode::ALL.iter().map(error).collect(),
                in_flight: metrics::gauge!(IN_FLIGHT),
                bytes: metrics::counter!(BYTES),
                access_log,
                recorder: None,
            }
        });
        Self { recorder: Some(recorder), ..counted }
    }

    /// Notes that a request came.
    pub fn began<'a>(&'a self, known: Finished<'a>) -> InFlight<'a> {
        self.in_flight.increment(1);
        InFlight { telemetry: self, began: Instant::now(), known }
    }

    fn finished(&self, finished: &Finished<'_>) {
        if self.recorder.is_some() {
            self.count(finished);
        }
        if self.access_log {
            tracing::info!(
                target: "tablestone_server::access",
                request_id = %finished.id,
                client_request_id = finished.client_id,
                peer = finished.peer.map(tracing::field::display),
                method = finished.method,
                path = finished.path,
                operation = finished.action.name(),
                status = finished.status.map_or(GONE, |status| status.as_u16()),
                error = finished.error.map(ErrorCode::as_str),
                bytes = finished.bytes,
                micros = u64::try_from(finished.took.as_micros()).unwrap_or(u64::MAX),
            );
        }
    }

    fn count(&self, finished: &Finished<'_>) {
        let class =
            finished.status.map_or(4, |it| usize::from(it.as_u16() / 100).saturating_sub(2));
        if let Some(metrics) = self.actions.get(finished.action as usize) {
            if let Some(counter) = metrics.answers.get(class) {
                counter.increment(1);
            }
            metrics.seconds.record(finished.took);
        }
        if let Some(error) = finished.error.and_then(|code| self.errors.get(code as usize)) {
            error.increment(1);
        }
        self.bytes.increment(finished.bytes);
    }

    /// Everything in Prometheus' text form.
    #[must_use]
    pub fn render(&self, stats: &Stats) -> String {
        let Some(recorder) = &self.recorder else {
            return String::new();
        };
        with_local_recorder(recorder, || show_engine(stats));
        recorder.handle().render()
    }

    /// Sums up what was recorded; to be called every few seconds, lest it grow.
    pub fn sum_up(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.handle().run_upkeep();
        }
    }
}

/// A request that is being answered. It ends when this is dropped, with the future that answers it if
/// its client goes away.
#[derive(Debug)]
pub struct InFlight<'a> {
    telemetry: &'a Telemetry,
    began: Instant,
    /// What is known of it; the time it took is set when it ends.
    pub known: Finished<'a>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.known.took = self.began.elapsed();
        self.telemetry.finished(&self.known);
        self.telemetry.in_flight.decrement(1);
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on = self.recorder.is_some();
        f.debug_struct("Telemetry").field("on", &on).field("access_log", &self.access_log).finish()
    }
}

const REQUESTS: &str = "tablestone_requests_total";
const SECONDS: &str = "tablestone_request_seconds";
const ERRORS: &str = "tablestone_errors_total";
const IN_FLIGHT: &str = "tablestone_requests_in_flight";
const BYTES: &str = "tablestone_answer_bytes_total";

/// Figures of tables: name, what it is, how it is read.
type TableFigure = (&'static str, &'static str, fn(&Activity) -> u64);

const TABLE: [TableFigure; 8] = [
    ("tablestone_table_reads_total", "Reads of single entities and pages", |a| a.reads),
    ("tablestone_table_rows_read_total", "Entities that they found", |a| a.rows_read),
    ("tablestone_table_read_bytes_total", "Stored bytes of these", |a| a.bytes_read),
    ("tablestone_table_examined_total", "Entries that pages looked at", |a| a.examined),
    ("tablestone_table_writes_total", "Writes, a transaction being one", |a| a.writes),
    ("tablestone_table_rows_written_total", "Entities that they stored or deleted", |a| {
        a.rows_written
    }),
    ("tablestone_table_written_bytes_total", "Stored bytes of these", |a| a.bytes_written),
    ("tablestone_table_failed_writes_total", "Writes that changed nothing", |a| a.failed_writes),
];

/// What was done with each table, in Prometheus' text form.
#[derive(Debug, Default)]
pub(crate) struct TableMetrics {
    /// The lines of each figure.
    lines: [String; TABLE.len()],
}

impl TableMetrics {
    /// Adds a table; names of accounts and tables need no escapes.
    pub(crate) fn add(&mut self, account: &str, table: &str, activity: &Activity) {
        for (lines, (name, _, read)) in self.lines.iter_mut().zip(TABLE) {
            let count = read(activity);
            lines.push_str(&format!("{name}{{account=\"{account}\",table=\"{table}\"}} {count}\n"));
        }
    }

    pub(crate) fn render(&self) -> String {
        let figures = self.lines.iter().zip(TABLE);
        let figures = figures.filter(|(lines, _)| !lines.is_empty());
        figures
            .map(|(lines, (name, what, _))| {
                format!("# HELP {name} {what}\n# TYPE {name} counter\n{lines}\n")
            })
            .collect()
    }
}

fn describe() {
    metrics::describe_counter!(REQUESTS, "Requests by operation and status");
    metrics::describe_histogram!(SECONDS, "Time from a request's head to its answer");
    metrics::describe_counter!(ERRORS, "Refused requests by code");
    metrics::describe_gauge!(IN_FLIGHT, "Requests that are being answered");
    metrics::describe_counter!(BYTES, "Bytes of answers' bodies");
    for (name, what, _) in ENGINE_COUNTERS {
        metrics::describe_counter!(name, what);
    }
    for (name, what, _) in ENGINE_GAUGES {
        metrics::describe_gauge!(name, what);
    }
    for (name, what, _) in LEVEL {
        metrics::describe_gauge!(name, what);
    }
}

fn show_engine(stats: &Stats) {
    for (name, _, read) in ENGINE_COUNTERS {
        metrics::counter!(name).absolute(read(stats));
    }
    for (name, _, read) in ENGINE_GAUGES {
        metrics::gauge!(name).set(read(stats));
    }
    for (number, level) in stats.levels.iter().enumerate() {
        for (name, _, read) in LEVEL {
            metrics::gauge!(name, "level" => number.to_string()).set(read(level));
        }
    }
}

#[cfg(test)]
mod tests {
    use tablestone::LevelStats;

    use super::*;
    use crate::headers::RequestId;

    fn finished(action: Action, status: u16, error: Option<ErrorCode>) -> Finished<'static> {
        Finished {
            action,
            status: StatusCode::from_u16(status).ok(),
            error,
            took: Duration::from_micros(300),
            method: "GET",
            path: "/",
            bytes: 10,
            id: RequestId::new(),
            client_id: None,
            peer: None,
        }
    }

    #[test]
    fn requests_are_counted_by_operation_and_status() {
        let telemetry = Telemetry::on(false);
        let guard =
            telemetry.began(Finished { status: None, ..finished(Action::MergeEntity, 0, None) });
        telemetry.finished(&finished(Action::GetEntity, 200, None));
        telemetry.finished(&finished(Action::GetEntity, 404, Some(ErrorCode::ResourceNotFound)));
        let text = telemetry.render(&Stats::default());
        for line in [
            "tablestone_requests_total{operation=\"GetEntity\",status=\"2xx\"} 1",
            "tablestone_requests_total{operation=\"GetEntity\",status=\"4xx\"} 1",
            "tablestone_errors_total{code=\"ResourceNotFound\"} 1",
            "tablestone_errors_total{code=\"InvalidInput\"} 0",
            "tablestone_request_seconds_bucket{operation=\"GetEntity\",le=\"0.00025\"} 0",
            "tablestone_request_seconds_bucket{operation=\"GetEntity\",le=\"0.0005\"} 2",
            "tablestone_requests_in_flight 1",
            "tablestone_answer_bytes_total 20",
            "tablestone_engine_read_only 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
        drop(guard);
        telemetry.sum_up();
        let text = telemetry.render(&Stats::default());
        assert!(text.contains("tablestone_requests_in_flight 0"));
        assert!(text.contains("{operation=\"MergeEntity\",status=\"cancelled\"} 1"), "{text}");
        assert!(text.contains("le=\"0.0005\"} 2"), "summing up loses nothing");
    }

    /// What `tablestone stat` tells of a directory, a server tells of what it serves.
    #[test]
    fn the_engine_is_shown_by_level() {
        let (mut stats, mut level) = (Stats::default(), LevelStats::default());
        (level.files, level.bytes, level.entries, level.tombstones) = (3, 4_096, 50, 7);
        stats.levels = vec![LevelStats::default(), level];
        (stats.range_tombstones, stats.index_bytes, stats.value_bytes) = (2, 600, 1_000);
        let text = Telemetry::on(false).render(&stats);
        for line in [
            "tablestone_engine_level_files{level=\"0\"} 0",
            "tablestone_engine_level_files{level=\"1\"} 3",
            "tablestone_engine_level_bytes{level=\"1\"} 4096",
            "tablestone_engine_level_entries{level=\"1\"} 50",
            "tablestone_engine_level_deletions{level=\"1\"} 7",
            "tablestone_engine_range_deletions 2",
            "tablestone_engine_index_bytes 600",
            "tablestone_engine_file_bytes 5096",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
    }

    /// By its type collectors tell whether to show a figure or its rate. The names of counters alone end with `_total`.
    #[test]
    fn what_counts_is_a_counter() {
        let mut stats = Stats::default();
        (stats.commits, stats.levels) = (7, vec![LevelStats::default()]);
        let telemetry = Telemetry::on(false);
        let before = telemetry.render(&stats);
        stats.commits = 9;
        let text = telemetry.render(&stats);
        assert!(before.contains("\ntablestone_engine_commits_total 7\n"), "{before}");
        assert!(text.contains("\ntablestone_engine_commits_total 9\n"), "{text}");
        let types: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert!(types.len() > 30, "{types:?}");
        for figure in types {
            let (name, kind) = figure.split_once(' ').unwrap();
            assert_eq!(name.ends_with("_total"), kind == "counter", "{figure}");
        }
    }

    #[test]
    fn without_an_admin_port_nothing_is_counted() {
        let telemetry = Telemetry::off(false);
        telemetry.finished(&finished(Action::Preflight, 200, None));
        assert_eq!(telemetry.render(&Stats::default()), "");
    }
}
