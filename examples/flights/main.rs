//! Imports US domestic flights into two tables, in time order and newest first, and reads them:
//! by partition, by a day range over every partition, and newest first.
//!
//! `cargo run --release --example flights` uses the sample in `examples/data`; `--input FILE`
//! takes any CSV file with the same header, plain or compressed with zstd.

mod import;
mod input;
mod reads;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tablestone::{Database, Options};

use support::{Home, Input, Outcome, bytes, create_table, grouped, print, report, say, step, time};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights-sample.csv.zst");
const BY_TIME: &str = "flights";
const NEWEST_FIRST: &str = "flights-newest-first";

/// Imports flights and reads them by partition, by day in every partition, and newest first.
#[derive(Parser)]
struct Arguments {
    /// CSV lines of date, delay, distance, origin, destination; plain or zstd
    #[arg(long, value_name = "FILE", default_value = SAMPLE)]
    input: PathBuf,
    /// Import at most this many rows
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    rows: u64,
    /// Where to make the database, and keep it [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    report(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome {
    let input = Input::open(&arguments.input)?;
    let home = Home::new(arguments.dir.clone())?;
    let began = step(format!("Open a database in {} ({})", home.path().display(), home.fate()));
    let database = Database::open(home.path(), Options::default())?;
    let by_time = create_table(&database, BY_TIME)?;
    let newest_first = create_table(&database, NEWEST_FIRST)?;
    say(format!("opened, and two tables created, in {}", time(began.elapsed())));

    let imported = import::import(&database, &by_time, &newest_first, input, arguments.rows)?;
    read_everything(&database, &imported)?;

    let began = step("Close, and open again");
    drop((by_time, newest_first));
    database.close()?;
    say(format!("closed in {}", time(began.elapsed())));
    let began = Instant::now();
    let database = Database::open(home.path(), Options::default())?;
    let recovered = database.recovery_report();
    say(format!(
        "opened in {}: {} commits ({}) replayed from the log",
        time(began.elapsed()),
        grouped(recovered.replayed_commits),
        bytes(recovered.replayed_bytes),
    ));
    read_everything(&database, &imported)?;
    database.close()?;
    print("\nEvery count is that of the input.");
    Ok(())
}

fn read_everything(database: &Database, imported: &import::Imported) -> Outcome {
    let by_time = database.table(BY_TIME)?;
    reads::partitions(&by_time, imported)?;
    reads::days_in_every_partition(&by_time, imported)?;
    reads::newest_first(&database.table(NEWEST_FIRST)?, imported)
}
