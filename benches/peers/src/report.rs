//! The report, in Markdown: the floor, where tablestone stands in each work, and a table a work.
//!
//! Every figure is the median of the rounds. A ratio is to the best rate of any engine in that
//! work. The spread is what the rounds of one engine differ by: a ratio within it means nothing.

use std::fmt::Write;

use crate::engine::OURS;
use crate::options::Options;
use crate::session::{Run, Session};
use crate::work::{self, Measured};

/// What one engine did in one work, over all rounds.
struct Line {
    engine: &'static str,
    /// Operations a second; `None` if every round failed.
    rate: Option<f64>,
    spread: f64,
    rounds: Vec<Measured>,
    failure: Option<String>,
}

pub fn markdown(options: &Options, session: &Session) -> String {
    let mut text = String::new();
    let works = in_order(session.runs.iter().map(|run| run.work));
    let tables: Vec<(&str, Vec<Line>)> =
        works.into_iter().map(|work| (work, lines(&session.runs, work))).collect();
    head(&mut text, options, session);
    standing(&mut text, &tables);
    for (work, lines) in &tables {
        table(&mut text, work, lines);
    }
    text
}

fn head(text: &mut String, options: &Options, session: &Session) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = options.memory.map_or_else(String::new, |mib| format!(" in {mib} MiB of memory"));
    line(text, "# tablestone beside its peers\n");
    line(
        text,
        &format!(
            "{} entities, {} rounds, {} s a timed work, {} MiB for each engine{memory}, seed {}, {cores} cores.\n",
            options.entities(),
            options.rounds(),
            options.seconds(),
            options.budget,
            options.seed,
        ),
    );
    line(text, "| floor of the machine | before | after |\n| --- | ---: | ---: |");
    let [before, after] = &session.floors;
    for ((name, before), (_, after)) in before.rows().into_iter().zip(after.rows()) {
        line(text, &format!("| {name} | {} | {} |", rounded(before), rounded(after)));
    }
}

/// Where tablestone stands among the others.
fn standing(text: &mut String, tables: &[(&str, Vec<Line>)]) {
    line(text, "\n| work | tablestone /s | best peer | its rate /s | tablestone ÷ best peer |");
    line(text, "| --- | ---: | --- | ---: | ---: |");
    for (work, lines) in tables {
        let ours = lines.iter().find(|line| line.engine == OURS).and_then(|line| line.rate);
        let others = lines.iter().filter(|line| line.engine != OURS);
        let best = others.max_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
        let best = best.and_then(|line| line.rate.map(|rate| (line.engine, rate)));
        let (peer, rate) = best.unzip();
        let ratio = ours.zip(rate).map(|(ours, best)| format!("{:.2}", ours / best));
        let shown = |rate: Option<f64>| rate.map_or_else(|| "–".into(), rounded);
        line(
            text,
            &format!(
                "| {work} | {} | {} | {} | {} |",
                shown(ours),
                peer.unwrap_or("–"),
                shown(rate),
                ratio.unwrap_or_else(|| "–".into()),
            ),
        );
    }
}

fn table(text: &mut String, work: &str, lines: &[Line]) {
    let about = work::find(work).map_or("", |work| work.about);
    line(text, &format!("\n## {work}\n\n{about}.\n"));
    line(
        text,
        "| engine | op/s | ÷ best | spread | entities/s | p50 | p99 | p99.9 | max | CPU µs/entity \
                | written ÷ logical | disk MB | peak MB | |",
    );
    line(
        text,
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    );
    let best = lines.iter().filter_map(|line| line.rate).fold(0.0, f64::max);
    for line_ in lines {
        let cells = match (line_.rate, &line_.failure) {
            (Some(rate), None) => cells(line_, rate, best),
            (Some(rate), Some(_)) => format!("{}, a round failed", cells(line_, rate, best)),
            (None, failure) => {
                format!("failed: {}", failure.as_deref().unwrap_or("?").replace('|', "/"))
            }
        };
        line(text, &format!("| {} | {cells} |", line_.engine));
    }
}

fn cells(line: &Line, rate: f64, best: f64) -> String {
    let middle = |of: fn(&Measured) -> f64| median(line.rounds.iter().map(of).collect());
    let time = |of: fn(&Measured) -> u64| {
        nanoseconds(median(line.rounds.iter().map(|measured| of(measured) as f64).collect()))
    };
    let written = middle(|m| ratio(m.usage.written_bytes as f64, m.logical_bytes as f64));
    let written = if written > 0.0 { format!("{written:.2}") } else { "–".into() };
    [
        rounded(rate),
        format!("{:.2}", rate / best),
        format!("±{:.0}%", line.spread * 50.0),
        rounded(middle(|m| m.entities as f64 / m.seconds)),
        time(|m| m.latency.p50),
        time(|m| m.latency.p99),
        time(|m| m.latency.p999),
        time(|m| m.latency.max),
        format!("{:.2}", middle(|m| ratio(m.usage.cpu_seconds * 1e6, m.entities as f64))),
        written,
        rounded(middle(|m| m.disk_bytes as f64 / 1e6)),
        rounded(middle(|m| m.usage.peak_bytes as f64 / 1e6)),
        extras(&line.rounds),
    ]
    .join(" | ")
}

/// Medians of what only this work measures.
fn extras(rounds: &[Measured]) -> String {
    let names = in_order(rounds.iter().flat_map(|measured| measured.extras.keys()));
    let shown = names.into_iter().map(|name| {
        let values = rounds.iter().filter_map(|measured| measured.extras.get(name).copied());
        format!("{name}: {}", rounded(median(values.collect())))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The engines' lines of a work, in the order in which they are listed.
fn lines(runs: &[Run], work: &str) -> Vec<Line> {
    let engines = in_order(runs.iter().filter(|run| run.round == 0).map(|run| run.engine));
    let of = |engine| {
        let runs = runs.iter().filter(move |run| run.work == work && run.engine == engine);
        let failure = runs.clone().find_map(|run| run.failure.clone());
        let rounds: Vec<Measured> = runs.filter_map(|run| run.measured.clone()).collect();
        let rates: Vec<f64> = rounds.iter().map(|m| m.operations as f64 / m.seconds).collect();
        let rate = (!rates.is_empty()).then(|| median(rates.clone()));
        Line { engine, rate, spread: spread(&rates), rounds, failure }
    };
    engines.into_iter().map(of).collect()
}

/// Each item once, in the order of its first occurrence.
fn in_order<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

/// The value in the middle; of an even number the mean of the two; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// From the least to the most, as a part of the median.
fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    ratio((most - least).max(0.0), median(values.to_vec()))
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Three digits that mean something, thousands apart.
pub fn rounded(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        v if v < 1.0 => format!("{v:.3}"),
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => grouped(&format!("{v:.0}")),
    }
}

/// Digits, thousands apart.
pub fn grouped(digits: &str) -> String {
    let mut spaced = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            spaced.push(',');
        }
        spaced.push(digit);
    }
    spaced
}

pub fn nanoseconds(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.1} s", n / 1e9),
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Floor;
    use crate::scale::Scale;
    use clap::Parser;

    fn run(engine: &'static str, round: u32, operations: u64) -> Run {
        let measured = Measured {
            operations,
            entities: operations,
            seconds: 2.0,
            logical_bytes: 1_000,
            usage: crate::meter::Usage { written_bytes: 2_500, ..Default::default() },
            extras: [("settling s".to_owned(), f64::from(round))].into(),
            ..Measured::default()
        };
        Run {
            engine,
            work: "put-durable-1",
            scale: Scale::of(operations),
            round,
            measured: Some(measured),
            failure: None,
        }
    }

    fn report(runs: Vec<Run>) -> String {
        let floor = Floor {
            syncs_a_second: 1_000.0,
            written_mb_a_second: 1.0,
            copied_mb_a_second: 1.0,
            cached_reads_a_second: 1.0,
            handoffs_a_second: 12_345_678.0,
        };
        let options = Options::try_parse_from(["peers"]).expect("no options are needed");
        markdown(&options, &Session { floors: [floor, floor], runs })
    }

    #[test]
    fn rates_are_medians_and_ratios_are_to_the_best() {
        let text = report(vec![
            run("tablestone", 0, 3_000),
            run("redb", 0, 500),
            run("redb", 1, 900),
            run("tablestone", 1, 1_000),
            run("tablestone", 2, 1_200),
            run("redb", 2, 800),
        ]);
        assert!(text.contains("| tablestone | 600 | 1.00 | ±83% | 600 |"), "{text}");
        assert!(text.contains("| redb | 400 | 0.67 | ±25% | 400 |"), "{text}");
        assert!(text.contains("| put-durable-1 | 600 | redb | 400 | 1.50 |"), "{text}");
        assert!(text.contains("| 2.50 |"), "written bytes for each logical one: {text}");
        assert!(text.contains("settling s: 1.00"), "{text}");
        assert!(text.contains("12,345,678"), "{text}");
    }

    #[test]
    fn a_failure_is_shown_and_compared_with_nobody() {
        let failed =
            Run { measured: None, failure: Some("out of | space".into()), ..run("redb", 0, 0) };
        let text = report(vec![run("tablestone", 0, 200), failed]);
        assert!(text.contains("| redb | failed: out of / space |"), "{text}");
        assert!(text.contains("| put-durable-1 | 100 | – | – | – |"), "{text}");
    }

    #[test]
    fn medians_and_figures() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0]), 2.0);
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(spread(&[90.0, 100.0, 120.0]), 0.3);
        let figures = [0.0, 0.5, 2.345, 34.56, 345.6, 1_234.5, 1_234_567.0].map(rounded);
        assert_eq!(figures, ["0", "0.500", "2.35", "34.6", "346", "1,234", "1,234,567"]);
        let times = [999.0, 1_500.0, 2_500_000.0, 3e9].map(nanoseconds);
        assert_eq!(times, ["999 ns", "1.5 µs", "2.5 ms", "3.0 s"]);
    }
}
