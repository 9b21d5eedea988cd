//! Behaviour with growth: what an entity costs against the number of entities, of tables, of
//! threads. A cost that stays where it is, or falls, is what an engine should have.
//!
//! Cost is time and processor time divided by entities, medians of the rounds, so that works with
//! operations of many entities compare with works of one.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::engine::{OURS, Peer};
use crate::options::Options;
use crate::plot::{self, Curve, Panel};
use crate::report::{grouped, median, rounded};
use crate::scale::Scale;
use crate::session::{Bench, Run};
use crate::work::{self, Measured, Work};

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    Entities,
    Tables,
    Threads,
}

/// Works of one thread: the axis of threads gives them more.
const WORKS: [&str; 8] = [
    "load-random",
    "put-unsynced-1",
    "put-durable-1",
    "get-zipf-1",
    "get-missing-1",
    "page-1000",
    "scan",
    "open-killed",
];
const WORKS_OF_THREADS: [&str; 6] = [
    "put-unsynced-1",
    "put-durable-1",
    "egt-durable-1",
    "update-unsynced-1",
    "get-zipf-1",
    "page-1000",
];

impl Axis {
    const ALL: [Self; 3] = [Self::Entities, Self::Tables, Self::Threads];

    fn name(self) -> &'static str {
        match self {
            Self::Entities => "entities",
            Self::Tables => "tables",
            Self::Threads => "threads",
        }
    }

    fn sizes(self, options: &Options) -> Vec<u64> {
        let factors = [1, 10, 100].into_iter().filter(|factor| *factor <= options.grow_to.max(1));
        match self {
            Self::Entities => factors.map(|factor| factor * options.entities()).collect(),
            Self::Tables => vec![1, 10, 100],
            Self::Threads => vec![1, 2, 4, 16, 64],
        }
    }

    fn scale(self, size: u64, options: &Options) -> Scale {
        let base = Scale::of(options.entities());
        match self {
            Self::Entities => Scale::of(size),
            Self::Tables => Scale { tables: size as usize, ..base },
            Self::Threads => Scale { threads: Some(size as usize), ..base },
        }
    }

    fn works(self, options: &Options) -> Result<Vec<&'static Work>> {
        if !options.work.is_empty() {
            return options.works();
        }
        let names = match self {
            Self::Entities | Self::Tables => &WORKS[..],
            Self::Threads => &WORKS_OF_THREADS[..],
        };
        Ok(names.iter().filter_map(|name| work::find(name)).collect())
    }

    /// The peers' adapters have one table.
    fn peers(self, options: &Options) -> Result<Vec<&'static Peer>> {
        let mut peers = options.own_or_named()?;
        peers.retain(|peer| self != Self::Tables || peer.name == OURS);
        Ok(peers)
    }
}

/// All runs at one size.
#[derive(Clone, Debug)]
pub struct Point {
    pub axis: Axis,
    pub size: u64,
    pub runs: Vec<Run>,
}

/// Measures at every size, and leaves a plot of each axis and engine in the directory.
pub fn measure(options: &Options, plots: &Path) -> Result<String> {
    fs::create_dir_all(plots)?;
    let mut points = Vec::new();
    let bench = Bench::new(options)?;
    for axis in Axis::ALL {
        let (peers, works) = (axis.peers(options)?, axis.works(options)?);
        for size in axis.sizes(options) {
            let runs = bench.runs(axis.scale(size, options), &peers, &works)?;
            points.push(Point { axis, size, runs });
        }
    }
    bench.finish();
    ensure!(points.iter().any(|point| !point.runs.is_empty()), "there is nothing to run");
    let mut text = format!(
        "{} entities if they do not grow, {} rounds, {} s a timed work, {} MiB.\n",
        grouped(&options.entities().to_string()),
        options.rounds(),
        options.seconds(),
        options.budget
    );
    for axis in Axis::ALL {
        for engine in options.peers()?.iter().map(|peer| peer.name) {
            let table = Table::of(&points, axis, engine);
            if !table.lines.is_empty() {
                let file = format!("growth-{}-{engine}.svg", axis.name());
                fs::write(plots.join(&file), plot::logarithmic(&table.panels())?)?;
                let _ = write!(text, "\n## {engine}: {}\n\n![]({file})\n\n", axis.name());
                text.push_str(&table.markdown());
            }
        }
    }
    Ok(text)
}

/// Microseconds for an entity.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    time: f64,
    processor: f64,
}

/// The costs of one engine along an axis.
struct Table {
    axis: Axis,
    engine: String,
    sizes: Vec<u64>,
    /// A work and its costs, in the order of the sizes; none where it failed.
    lines: Vec<(&'static str, Vec<Option<Cost>>)>,
}

impl Table {
    fn of(points: &[Point], axis: Axis, engine: &str) -> Self {
        let points: Vec<&Point> = points.iter().filter(|point| point.axis == axis).collect();
        let mut lines: Vec<(&'static str, Vec<Option<Cost>>)> = Vec::new();
        for run in points.iter().flat_map(|point| &point.runs).filter(|run| run.engine == engine) {
            if lines.iter().all(|(work, _)| *work != run.work) {
                let costs = points.iter().map(|point| cost(&point.runs, engine, run.work));
                lines.push((run.work, costs.collect()));
            }
        }
        let sizes = points.iter().map(|point| point.size).collect();
        Self { axis, engine: engine.to_owned(), sizes, lines }
    }

    fn markdown(&self) -> String {
        let sizes = || self.sizes.iter().map(|size| grouped(&size.to_string()));
        let mut text = format!("| µs an entity, by {} ", self.axis.name());
        for prefix in ["", "CPU "] {
            sizes().for_each(|size| text.push_str(&format!("| {prefix}{size} ")));
            text.push_str("| last ÷ first ");
        }
        text.push_str("|\n| --- ");
        text.push_str(&"| ---: ".repeat(2 * self.sizes.len() + 2));
        text.push_str("|\n");
        for (work, costs) in &self.lines {
            let _ = write!(text, "| {} ", self.title(work));
            for of in [|cost: Cost| cost.time, |cost: Cost| cost.processor] {
                let values: Vec<Option<f64>> = costs.iter().map(|cost| cost.map(of)).collect();
                for value in &values {
                    let shown = value.map_or_else(|| "failed".to_owned(), rounded);
                    let _ = write!(text, "| {shown} ");
                }
                let ends = values.first().copied().flatten().zip(values.last().copied().flatten());
                let ratio = ends.map(|(first, last)| format!("{:.2}", last / first));
                let _ = write!(text, "| {} ", ratio.as_deref().unwrap_or("–"));
            }
            text.push_str("|\n");
        }
        text
    }

    /// The number of threads in a work's name is not the one that it has on the axis of threads.
    fn title<'a>(&self, work: &'a str) -> &'a str {
        match self.axis {
            Axis::Threads => work.strip_suffix("-1").unwrap_or(work),
            Axis::Entities | Axis::Tables => work,
        }
    }

    fn panels(&self) -> [Panel; 2] {
        let panel = |what: &str, of: fn(Cost) -> f64| Panel {
            title: format!("{}: {what} of an entity", self.engine),
            x: self.axis.name().to_owned(),
            y: "µs".to_owned(),
            base: if self.axis == Axis::Threads { 2.0 } else { 10.0 },
            curves: self.lines.iter().map(|(work, costs)| self.curve(work, costs, of)).collect(),
        };
        [panel("time", |cost| cost.time), panel("processor time", |cost| cost.processor)]
    }

    fn curve(&self, work: &str, costs: &[Option<Cost>], of: fn(Cost) -> f64) -> Curve {
        let points = self.sizes.iter().zip(costs);
        let points = points.filter_map(|(size, cost)| Some((*size as f64, of((*cost)?))));
        let points = points.filter(|point| point.1 > 0.0).collect();
        Curve { name: self.title(work).to_owned(), points }
    }
}

fn cost(runs: &[Run], engine: &str, work: &str) -> Option<Cost> {
    let runs = runs.iter().filter(|run| run.engine == engine && run.work == work);
    let rounds: Vec<&Measured> = runs.filter_map(|run| run.measured.as_ref()).collect();
    let of = |part: fn(&Measured) -> f64| {
        median(rounds.iter().map(|m| part(m) * 1e6 / m.entities.max(1) as f64).collect())
    };
    let cost = Cost { time: of(|m| m.seconds), processor: of(|m| m.usage.cpu_seconds) };
    (!rounds.is_empty()).then_some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Usage;
    use clap::Parser;

    fn run(seconds: f64) -> Run {
        let usage = Usage { cpu_seconds: 2.0 * seconds, ..Usage::default() };
        let measured = Measured { entities: 1_000, seconds, usage, ..Measured::default() };
        Run {
            engine: OURS,
            work: "get-zipf-1",
            scale: Scale::of(1_000),
            round: 0,
            measured: (seconds > 0.0).then_some(measured),
            failure: None,
        }
    }

    fn point(axis: Axis, size: u64, seconds: &[f64]) -> Point {
        Point { axis, size, runs: seconds.iter().copied().map(run).collect() }
    }

    #[test]
    fn costs_are_medians_for_an_entity_and_ratios_are_to_the_first_size() {
        let points = [
            point(Axis::Entities, 1_000, &[0.004, 0.009, 0.002]),
            point(Axis::Tables, 1, &[7.0]),
            point(Axis::Entities, 10_000, &[0.006]),
        ];
        let text = Table::of(&points, Axis::Entities, OURS).markdown();
        let expected = "| get-zipf-1 | 4.00 | 6.00 | 1.50 | 8.00 | 12.0 | 1.50 |";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("| 1,000 | 10,000 | last ÷ first | CPU 1,000 |"), "{text}");
        let [time, processor] = Table::of(&points, Axis::Entities, OURS).panels();
        assert_eq!(time.curves[0].points, [(1e3, 4.0), (1e4, 6.0)]);
        assert_eq!(processor.curves[0].points, [(1e3, 8.0), (1e4, 12.0)]);
    }

    #[test]
    fn a_size_that_failed_is_named_and_left_out_of_the_plot() {
        let points = [point(Axis::Threads, 1, &[0.004]), point(Axis::Threads, 2, &[0.0])];
        let table = Table::of(&points, Axis::Threads, OURS);
        assert!(table.markdown().contains("| get-zipf | 4.00 | failed | – |"));
        assert_eq!(table.panels()[0].curves[0].points, [(1.0, 4.0)]);
        assert!(Table::of(&points, Axis::Threads, "redb").lines.is_empty());
    }

    #[test]
    fn every_axis_varies_its_own_number_and_names_works_that_exist() {
        let parse = |more: &[&str]| {
            Options::try_parse_from([&["peers", "--entities", "1000"], more].concat()).expect("ok")
        };
        let options = parse(&[]);
        assert_eq!(Axis::Entities.sizes(&options), [1_000, 10_000]);
        assert_eq!(Axis::Entities.sizes(&parse(&["--grow-to", "100"])), [1_000, 10_000, 100_000]);
        assert_eq!(Axis::Entities.scale(10_000, &options), Scale::of(10_000));
        assert_eq!(Axis::Tables.scale(10, &options), Scale { tables: 10, ..Scale::of(1_000) });
        let threads = Axis::Threads.scale(64, &options);
        assert_eq!(threads, Scale { threads: Some(64), ..Scale::of(1_000) });
        assert_eq!(Axis::Entities.works(&options).expect("works").len(), WORKS.len());
        assert_eq!(Axis::Threads.works(&options).expect("works").len(), WORKS_OF_THREADS.len());
        assert_eq!(Axis::Threads.works(&parse(&["--work", "egt"])).expect("works").len(), 3);
        assert_eq!(Axis::Entities.peers(&options).expect("peers").len(), 1);
    }
}
