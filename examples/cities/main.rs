//! The engine's main job on real input: loads cities under sync durability, reads them in every
//! way, loses a race, rolls a batch back, drops a table, reopens, and verifies every entity.
//!
//! `cargo run --release --example cities` uses the sample in `examples/data`; `--input FILE` takes
//! any file of JSON lines with a PartitionKey and a RowKey, plain or compressed with zstd.

mod input;
mod load;
#[path = "../support/mod.rs"]
mod support;
mod tour;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tablestone::{Database, Options};

use support::{Home, Input, Outcome, bytes, create_table, grouped, print, report, say, step, time};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/cities-sample.jsonl.zst");
const TABLE: &str = "cities";

/// Loads cities into a database, reads them back in every way, and verifies them after reopening.
#[derive(Parser)]
struct Arguments {
    /// JSON lines with PartitionKey, RowKey and other properties; plain or zstd
    #[arg(long, value_name = "FILE", default_value = SAMPLE)]
    input: PathBuf,
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
    let table = create_table(&database, TABLE)?;
    say(format!("opened, and table {TABLE:?} created, in {}", time(began.elapsed())));

    let loaded = load::load(&database, &table, input)?;
    tour::point_reads(&table, &loaded)?;
    tour::partition_by_pages(&table, &loaded)?;
    tour::row_key_prefix(&table, &loaded)?;
    tour::lost_race(&table, &loaded)?;
    tour::rolled_back_batch(&table, &loaded)?;
    tour::dropped_table(&database, &loaded)?;

    let began = step("Close, and open again");
    drop(table);
    database.close()?;
    say(format!("closed in {}", time(began.elapsed())));
    let began = std::time::Instant::now();
    let database = Database::open(home.path(), Options::default())?;
    let recovered = database.recovery_report();
    say(format!(
        "opened in {}: {} commits ({}) replayed from the log",
        time(began.elapsed()),
        grouped(recovered.replayed_commits),
        bytes(recovered.replayed_bytes),
    ));

    let table = database.table(TABLE)?;
    verify::every_entity(&table, &loaded, "the replayed log")?;
    verify::dropped_stays_dropped(&database)?;
    verify::move_to_files(&database)?;
    verify::every_entity(&table, &loaded, "table files")?;
    drop(table);
    database.close()?;
    print("\nEverything is as it should be.");
    Ok(())
}
