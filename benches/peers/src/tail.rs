//! Tails: latency over time of works that make an engine flush and compact, as plots, and what the
//! slowest operations of a hundredth of a second took by what was under way.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::options::Options;
use crate::plot;
use crate::report::{grouped, nanoseconds};
use crate::scale::Scale;
use crate::session::Bench;
use crate::timeline::{Job, Timeline};
use crate::work::{self, Work};

const WORKS: [&str; 2] = ["load-random", "churn-2"];

/// Runs each work once by each engine, and leaves a plot of each in the directory.
pub fn measure(options: &Options, plots: &Path) -> Result<String> {
    fs::create_dir_all(plots)?;
    let works: Vec<&Work> = match options.work.is_empty() {
        true => WORKS.iter().filter_map(|name| work::find(name)).collect(),
        false => options.works()?,
    };
    let bench = Bench::new(options)?;
    let runs = bench.runs(Scale::of(options.entities()), &options.own_or_named()?, &works)?;
    bench.finish();
    let entities = grouped(&options.entities().to_string());
    let mut text = format!("{entities} entities, {} MiB.\n", options.budget);
    for run in runs {
        let Some(timeline) = run.measured.and_then(|measured| measured.timeline) else { continue };
        let title = format!("{}: {}", run.engine, run.work);
        let file = format!("tail-{}-{}.svg", run.work, run.engine);
        fs::write(plots.join(&file), plot::timeline(&title, &timeline)?)?;
        let _ = write!(text, "\n## {title}\n\n![]({file})\n\n{}", table(&timeline));
    }
    Ok(text)
}

/// The slowest operation of each bucket, by what was under way in it.
fn table(timeline: &Timeline) -> String {
    let mut text = String::from(
        "| under way | buckets of 10 ms | median of their slowest | p99 of it | the slowest |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    let states = [
        ("nothing", false, false),
        ("flush", true, false),
        ("compaction", false, true),
        ("both", true, true),
    ];
    for (name, flush, compaction) in states {
        let of = |(number, _): &(usize, _)| {
            timeline.during(Job::Flush, *number) == flush
                && timeline.during(Job::Compaction, *number) == compaction
        };
        let buckets = timeline.buckets.iter().enumerate().filter(|(_, bucket)| bucket.max > 0.0);
        let mut slowest: Vec<f32> = buckets.filter(of).map(|(_, bucket)| bucket.max).collect();
        slowest.sort_by(f32::total_cmp);
        let at = |share: f64| {
            let place = (slowest.len() as f64 * share) as usize;
            let time = slowest.get(place.min(slowest.len().saturating_sub(1)));
            time.map_or_else(|| "–".to_owned(), |time| nanoseconds(f64::from(*time) * 1e3))
        };
        let [middle, high, most] = [0.5, 0.99, 1.0].map(at);
        let _ = writeln!(text, "| {name} | {} | {middle} | {high} | {most} |", slowest.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Bucket, Mark};

    #[test]
    fn the_slowest_are_told_apart_by_what_was_under_way() {
        let bucket = |max| Bucket { p99: 1.0, max };
        let timeline = Timeline {
            buckets: [2.0, 3.0, 0.0, 4_000.0, 5.0].map(bucket).to_vec(),
            marks: vec![
                Mark { job: Job::Flush, from: 0.011, to: 0.012 },
                Mark { job: Job::Flush, from: 0.031, to: 0.032 },
                Mark { job: Job::Compaction, from: 0.035, to: 0.039 },
            ],
        };
        let text = table(&timeline);
        assert!(text.contains("| nothing | 2 | 5.0 µs | 5.0 µs | 5.0 µs |"), "{text}");
        assert!(text.contains("| flush | 1 | 3.0 µs |"), "{text}");
        assert!(text.contains("| compaction | 0 | – | – | – |"), "{text}");
        assert!(text.contains("| both | 1 | 4.0 ms |"), "{text}");
    }
}
