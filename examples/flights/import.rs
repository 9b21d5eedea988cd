//! The import, and what it counts so that reads can be checked.

use std::collections::{BTreeMap, BTreeSet};

use tablestone::{Database, Table};

use crate::input;
use crate::support::{Input, Outcome, bytes, ensure, grouped, rate, say, step, time};

/// Rows are given to the tables in turn, this many at a time.
const CHUNK_ROWS: usize = 50_000;
/// How many of the newest RowKeys are remembered for each airport.
pub(crate) const NEWEST: usize = 100;

/// What was imported, as the reads must find it.
#[derive(Default)]
pub(crate) struct Imported {
    pub(crate) rows: u64,
    pub(crate) airports: BTreeMap<String, Airport>,
    /// Rows by day, `2001-01-01`.
    pub(crate) days: BTreeMap<String, u64>,
}

/// What was imported for one origin.
#[derive(Default)]
pub(crate) struct Airport {
    pub(crate) rows: u64,
    pub(crate) delay_minutes: i64,
    /// The first RowKeys of its newest-first partition.
    pub(crate) newest: BTreeSet<String>,
}

impl Imported {
    fn count(&mut self, flight: &input::Flight, newest_first_row_key: &str) {
        self.rows += 1;
        let day = flight.date.split('T').next().unwrap_or_default();
        *self.days.entry(day.to_owned()).or_default() += 1;
        let airport = self.airports.entry(flight.origin.clone()).or_default();
        airport.rows += 1;
        airport.delay_minutes += i64::from(flight.delay_minutes);
        airport.newest.insert(newest_first_row_key.to_owned());
        if airport.newest.len() > NEWEST {
            airport.newest.pop_last();
        }
    }
}

type Row = (String, String, [u8; 4]);

/// Imports up to `limit` rows of the input into both tables.
pub(crate) fn import(
    database: &Database,
    by_time: &Table,
    newest_first: &Table,
    mut input: Input,
    limit: u64,
) -> Outcome<Imported> {
    let began = step(format!("Import {} under sync durability", input.path()));
    let header = input.next(input::parse_header)?;
    ensure(header.is_some(), || format!("{} is empty", input.path()))?;
    let mut imported = Imported::default();
    let mut stored = 0;
    let mut chunks: [Vec<Row>; 2] = Default::default();
    while imported.rows < limit
        && let Some(flight) = input.next(input::parse)?
    {
        let row_key = flight.row_key(imported.rows);
        let newest_first_row_key = flight.newest_first_row_key(imported.rows);
        imported.count(&flight, &newest_first_row_key);
        let value = flight.value();
        chunks[0].push((flight.origin.clone(), row_key, value));
        chunks[1].push((flight.origin, newest_first_row_key, value));
        if chunks[0].len() == CHUNK_ROWS {
            stored += store(by_time, newest_first, &mut chunks)?;
        }
    }
    stored += store(by_time, newest_first, &mut chunks)?;
    let took = began.elapsed();
    ensure(imported.rows > 0, || format!("{} has no rows", input.path()))?;
    input.finish();
    say(format!(
        "{} rows from {} airports into two tables, {} of keys and values",
        grouped(imported.rows),
        imported.airports.len(),
        bytes(stored)
    ));
    say(format!("{}: {} entities a second", time(took), rate(2 * imported.rows, took)));
    let stats = database.stats();
    say(format!(
        "{} commits, {} syncs of the log, {} flushes, {} compactions; {} waits for them, {} in all",
        grouped(stats.commits),
        grouped(stats.syncs),
        grouped(stats.flushes),
        grouped(stats.compactions),
        grouped(stats.stalls),
        time(stats.stall_time),
    ));
    Ok(imported)
}

fn store(by_time: &Table, newest_first: &Table, chunks: &mut [Vec<Row>; 2]) -> Outcome<u64> {
    let [time, newest] = chunks;
    let bytes =
        by_time.import(time.drain(..))?.bytes + newest_first.import(newest.drain(..))?.bytes;
    Ok(bytes)
}
