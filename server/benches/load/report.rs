//! [`Report`]: medians of the rounds, latencies of all of them, and the ratios between targets.

use std::fmt;
use std::time::Duration;

use super::drive::Outcome;
use super::options::Arguments;
use super::target::Target;
use super::workload::Work;

/// All that was measured.
pub(crate) struct Report {
    title: String,
    targets: Vec<String>,
    filled: Vec<String>,
    series: Vec<Series>,
}

/// The rounds of one work on one target.
struct Series {
    work: Work,
    connections: usize,
    target: String,
    rounds: Vec<Outcome>,
}

impl Report {
    pub(crate) fn new(arguments: &Arguments, targets: &[Target]) -> Self {
        let workload = arguments.workload();
        let loops = match arguments.rate() {
            Some(rate) => format!("open loop, {rate} requests a second"),
            None => "closed loop".into(),
        };
        // What listens at a URL has its own.
        let durability = match &*arguments.url {
            [] => format!("durability {}, ", arguments.durability),
            _ => String::new(),
        };
        let title = format!(
            "{} entities, {durability}{loops}; medians of {} rounds of {:?}, latencies of all.",
            workload.entities,
            arguments.rounds(),
            arguments.time()
        );
        let targets = targets.iter().map(|target| target.name.clone()).collect();
        Self { title, targets, filled: Vec::new(), series: Vec::new() }
    }

    /// Notes how the table was filled.
    pub(crate) fn filled(&mut self, target: &Target, outcome: &Outcome) {
        let Outcome { entities, elapsed, errors, .. } = outcome;
        let rate = *entities as f64 / elapsed.as_secs_f64();
        let line = format!(
            "{}: {entities} entities stored in {elapsed:.1?}, {rate:.0} a second, in transactions of \
             100 over 8 connections; {errors} errors.",
            target.name
        );
        eprintln!("{line}");
        if !target.is_floor {
            self.filled.push(line);
        }
    }

    pub(crate) fn add(
        &mut self,
        target: &Target,
        work: Work,
        connections: usize,
        outcome: Outcome,
    ) {
        let found = self.find(&target.name, work, connections);
        if let Some(at) = found {
            self.series[at].rounds.push(outcome);
        } else {
            let (target, rounds) = (target.name.clone(), vec![outcome]);
            self.series.push(Series { work, connections, target, rounds });
        }
    }

    fn find(&self, target: &str, work: Work, connections: usize) -> Option<usize> {
        self.series.iter().position(|series| {
            (series.work, series.connections) == (work, connections) && series.target == target
        })
    }

    pub(crate) fn errors(&self) -> u64 {
        self.series.iter().flat_map(|series| &series.rounds).map(|round| round.errors).sum()
    }

    pub(crate) fn print_progress(&self, work: Work, connections: usize) {
        for target in &self.targets {
            if let Some(at) = self.find(target, work, connections) {
                eprintln!("{}", self.series[at]);
            }
        }
    }

    /// The first target's rate by another's: the median over rounds, which were next to each other.
    fn ratio(&self, series: &Series) -> Option<f64> {
        let first = self.find(self.targets.first()?, series.work, series.connections)?;
        let pairs = self.series[first].rounds.iter().zip(&series.rounds);
        Some(median(pairs.map(|(one, other)| rate(one) / rate(other))))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        if self.targets.iter().any(|target| target == "Azurite") {
            writeln!(
                f,
                "Azurite keeps its tables in memory and writes them to a file every few seconds, \
                 without a sync, whatever the durability.\n"
            )?;
        }
        for line in &self.filled {
            writeln!(f, "{line}\n")?;
        }
        writeln!(
            f,
            "| work | connections | server | a second | p50 | p99 | p99.9 | max | CPU of a request \
             | and in the driver | errors |\n\
             | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        )?;
        for series in &self.series {
            writeln!(f, "{series}")?;
        }
        let others = self.targets.get(1..).unwrap_or_default();
        let Some(first) = self.targets.first().filter(|_| !others.is_empty()) else {
            return Ok(());
        };
        write!(f, "\n| work | connections | {first}, a second |")?;
        others.iter().try_for_each(|other| write!(f, " times {other} |"))?;
        write!(f, "\n| --- | ---: | ---: |{}", " ---: |".repeat(others.len()))?;
        for series in self.series.iter().filter(|series| series.target == *first) {
            let Series { work, connections, .. } = series;
            write!(f, "\n| {work} | {connections} | {} |", number(series.rate()))?;
            for other in others {
                let other = self.find(other, *work, *connections);
                let ratio = other.and_then(|other| self.ratio(&self.series[other]));
                write!(f, " {} |", ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")))?;
            }
        }
        writeln!(f)
    }
}

impl Series {
    fn rate(&self) -> f64 {
        median(self.rounds.iter().map(rate))
    }

    /// Microseconds of a processor for each request.
    fn each(&self, time: impl Fn(&Outcome) -> Option<Duration>) -> String {
        let each =
            |round: &Outcome| Some(time(round)?.as_secs_f64() * 1e6 / round.requests.max(1) as f64);
        let all: Vec<f64> = self.rounds.iter().filter_map(each).collect();
        if all.is_empty() { "-".into() } else { format!("{:.1} µs", median(all.into_iter())) }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.rounds.split_first() else {
            return Ok(());
        };
        let mut all = first.latencies.clone();
        for round in rest {
            all.add(&round.latencies).map_err(|_| fmt::Error)?;
        }
        let Self { work, connections, target, rounds } = self;
        write!(f, "| {work} | {connections} | {target} | {} |", number(self.rate()))?;
        for value in [0.5, 0.99, 0.999].map(|quantile| all.value_at_quantile(quantile)) {
            write!(f, " {} |", duration(value))?;
        }
        let errors: u64 = rounds.iter().map(|round| round.errors).sum();
        write!(
            f,
            " {} | {} | {} | {errors} |",
            duration(all.max()),
            self.each(|round| round.server_time),
            self.each(|round| Some(round.driver_time))
        )
    }
}

fn rate(outcome: &Outcome) -> f64 {
    outcome.requests as f64 / outcome.elapsed.as_secs_f64()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let [below, above] = [values.len().saturating_sub(1) / 2, values.len() / 2];
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(below), at(above))
}

/// With thousands apart.
fn number(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn duration(nanos: u64) -> String {
    match nanos as f64 / 1e6 {
        millis if millis < 1.0 => format!("{:.0} µs", millis * 1e3),
        millis if millis < 100.0 => format!("{millis:.1} ms"),
        millis => format!("{millis:.0} ms"),
    }
}
