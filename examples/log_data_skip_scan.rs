//! Log data: the messages of all sources between two instants (design guide, "Log data
//! anti-pattern").
//!
//! The guide knows two schemas for log messages and likes neither. With the hour as PartitionKey
//! everything that is logged now goes to one partition, which one server has to take alone. With
//! the source as PartitionKey the load is spread, but a time is a range of RowKeys in *every*
//! partition, which the service answers by scanning the table.
//!
//! This engine answers it with a skip-scan: in each partition it seeks the first key of the range,
//! reads to the last, and seeks the next partition. The cost is that of the partitions and of the
//! answer, not of all the messages there are. So the second schema works while partitions have
//! many more rows than the range does; with a handful of rows in each, a scan is as good.
//!
//! `cargo run --release --example log_data_skip_scan`

use std::error::Error;
use std::time::Instant;

use tablestone::{Database, DateTime, Entity, EntityTable, Filter, Options};

const SOURCES: u64 = 120;
const MESSAGES: u64 = 60_000;
/// One message after the other, over all sources: a day has this many ticks.
const BETWEEN: u64 = 864_000_000_000 / MESSAGES;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path(), Options::default())?;
    let by_hour = database.create_table("LogByHour").wait()?.entities();
    let by_source = database.create_table("LogBySource").wait()?.entities();
    let begin: DateTime = "2014-07-31".parse()?;
    for n in 0..24 {
        // An hour at a time, as it would come.
        let hour = n * MESSAGES / 24..(n + 1) * MESSAGES / 24;
        by_hour.import(hour.clone().map(|n| message(begin, n, |_, hour| hour)))?;
        by_source.import(hour.map(|n| message(begin, n, |source, _| source)))?;
    }
    database.compact()?;
    println!("{MESSAGES} messages of {SOURCES} sources on one day\n");

    let (from, to) = ("2014-07-31T15:04", "2014-07-31T15:06");
    let severe = "(Level eq 'Error' or Level eq 'Critical')";
    let by_key = format!("RowKey ge '{from}' and RowKey lt '{to}' and {severe}");
    let by_property =
        format!("At ge datetime'{from}:00Z' and At lt datetime'{to}:00Z' and {severe}");
    println!("Error and critical messages from {from} to {to}:");
    println!(
        "  {:<34} {:>6} {:>9} {:>9}  plan",
        "schema and question", "found", "examined", "time"
    );
    let in_hour = format!("PartitionKey eq '2014-07-31T15' and {by_key}");
    let expected = show("hour as partition, range of rows", &by_hour, &in_hour)?;
    let skipping = show("source as partition, range of rows", &by_source, &by_key)?;
    let scanning = show("source as partition, by property", &by_source, &by_property)?;
    if expected != skipping || expected != scanning {
        return Err("the three questions have different answers".into());
    }

    // The range may have any width; the work for it is what it holds, and a few looks a partition.
    println!("\nThe skip-scan, by the width of the range:");
    println!("  {:<10} {:>6} {:>9} {:>9}", "minutes", "found", "examined", "time");
    for minutes in [1, 10, 60, 240] {
        let to = after(begin, (15 * 60 + minutes) * 600_000_000).to_string();
        let range = Filter::row_key().ge("2014-07-31T15:00").and(Filter::row_key().lt(&to[..16]));
        let began = Instant::now();
        let (mut found, mut examined) = (0, 0);
        for page in by_source.query().filter(range).pages() {
            let page = page?;
            found += page.len();
            examined += page.examined();
        }
        let millis = began.elapsed().as_secs_f64() * 1e3;
        println!("  {minutes:<10} {found:>6} {examined:>9} {millis:>6.2} ms");
    }
    Ok(())
}

fn after(at: DateTime, ticks: u64) -> DateTime {
    DateTime::from_ticks(at.ticks() + ticks).unwrap_or(DateTime::MAX)
}

/// Message `n` of the day: its source and hour make the PartitionKey, its time and number the
/// RowKey.
fn message(begin: DateTime, n: u64, partition: fn(String, String) -> String) -> Entity {
    let at = after(begin, n * BETWEEN);
    let text = at.to_string();
    let source = format!("web-{:03}", n * 7_919 % SOURCES);
    let level = match n % 50 {
        0 => "Critical",
        1..=4 => "Error",
        5..=12 => "Warning",
        _ => "Information",
    };
    Entity::new(partition(source, text[..13].to_owned()), format!("{}-{n:06}", &text[..19]))
        .with("At", at)
        .with("Level", level)
        .with("Text", format!("request {} took {} ms", n * 31, n * 17 % 900))
}

/// Asks, prints what it cost, and gives the RowKeys that were found, sorted.
fn show(what: &str, table: &EntityTable, text: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let query = table.query().filter(text.parse()?);
    let plan = query.explain().plan();
    let began = Instant::now();
    let page = query.page()?;
    let time = began.elapsed().as_secs_f64() * 1e3;
    let (found, examined) = (page.len(), page.examined());
    println!("  {what:<34} {found:>6} {examined:>9} {time:>6.2} ms  {plan:?}");
    let mut row_keys: Vec<_> = page.iter().map(|entity| entity.row_key().to_owned()).collect();
    row_keys.sort_unstable();
    Ok(row_keys)
}
