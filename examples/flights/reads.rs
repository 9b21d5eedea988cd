//! The reads, each checked against what the import counted.

use std::time::{Duration, Instant};

use tablestone::{Query, Table};

use crate::import::{Imported, NEWEST};
use crate::input;
use crate::support::{Outcome, each, ensure, grouped, rate, say, step, time};

/// What reading a query to its end took.
#[derive(Default)]
struct Read {
    rows: u64,
    pages: u64,
    examined: u64,
    delay_minutes: i64,
    took: Duration,
}

fn read(query: Query) -> Outcome<Read> {
    let began = Instant::now();
    let mut read = Read::default();
    for page in query.pages() {
        let page = page?;
        read.pages += 1;
        read.rows += page.len() as u64;
        read.examined += page.examined();
        for row in &page {
            read.delay_minutes += i64::from(input::delay_minutes(row.value).unwrap_or(i16::MAX));
        }
    }
    read.took = began.elapsed();
    Ok(read)
}

/// Reads whole partitions, from the largest to the smallest.
pub(crate) fn partitions(table: &Table, imported: &Imported) -> Outcome {
    step("Read whole partitions, page by page");
    let mut airports: Vec<_> = imported.airports.iter().collect();
    airports.sort_by_key(|(_, airport)| std::cmp::Reverse(airport.rows));
    let last = airports.len() - 1;
    let mut shown = vec![0, 1, last / 2, last];
    shown.dedup();
    for (code, airport) in shown.into_iter().filter_map(|place| airports.get(place)) {
        let read = read(table.query().partition(code))?;
        ensure((read.rows, read.delay_minutes) == (airport.rows, airport.delay_minutes), || {
            format!("{code} has {} rows, the input has {}", read.rows, airport.rows)
        })?;
        say(format!(
            "{code}: {:>9} flights, {:>6.1} min late on average, {} pages in {}: {} a second",
            grouped(read.rows),
            read.delay_minutes as f64 / read.rows as f64,
            read.pages,
            time(read.took),
            rate(read.rows, read.took)
        ));
    }
    Ok(())
}

/// Reads one day of every airport: the engine skips from partition to partition.
pub(crate) fn days_in_every_partition(table: &Table, imported: &Imported) -> Outcome {
    step("Read one day in every partition (skip-scan)");
    let days: Vec<_> = imported.days.iter().collect();
    let last = days.len() - 1;
    let mut places = vec![0, last / 2, last];
    places.dedup();
    for (day, rows) in places.into_iter().filter_map(|place| days.get(place).copied()) {
        let read = read(table.query().row_prefix(format!("{day}T")))?;
        ensure(read.rows == *rows, || {
            format!("{day} has {} rows, the input has {rows}", read.rows)
        })?;
        say(format!(
            "{day}: {} flights in {}; {} of {} entries looked at in {} partitions",
            grouped(*rows),
            time(read.took),
            grouped(read.examined),
            grouped(imported.rows),
            imported.airports.len()
        ));
    }
    Ok(())
}

/// Reads the newest flights of every airport: the front of each partition.
pub(crate) fn newest_first(table: &Table, imported: &Imported) -> Outcome {
    let began = step(format!("Read the newest {NEWEST} flights of every airport"));
    let (mut rows, mut examined, mut slowest) = (0, 0, Duration::ZERO);
    for (code, airport) in &imported.airports {
        let began = Instant::now();
        let page = table.query().partition(code).limit(NEWEST).page()?;
        slowest = slowest.max(began.elapsed());
        rows += page.len() as u64;
        examined += page.examined();
        let same =
            page.iter().map(|row| row.row_key).eq(airport.newest.iter().map(String::as_bytes));
        ensure(same, || format!("the newest flights of {code} are not those of the input"))?;
    }
    let (took, airports) = (began.elapsed(), imported.airports.len() as u64);
    say(format!(
        "{} flights in {}: {} an airport, {} at most; {} entries looked at",
        grouped(rows),
        time(took),
        each(took, airports),
        time(slowest),
        grouped(examined)
    ));
    Ok(())
}
