//! Tables of many rows, all in one partition and each in its own: what operations cost as the number of rows
//! grows, which should hardly be more (R-E03).
//!
//! `cargo bench --bench scale -- ROWS...` prints a table, a column for each number of rows; 1,000,000 if none is
//! given. Rows of some 65 bytes are imported in random order into a database with default options but for
//! `Durability::Os`; every row that is read is compared with what was written. 100,000,000 rows of both kinds
//! take ten minutes, and 5 GB of space.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tablestone::{Database, Durability, Options, Precondition, Query, Table};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rows of an import: they wait for each other when compactions are behind.
const IMPORTED: u64 = 5_000;
/// With fewer there are no parts to cut a table into.
const FEWEST: u64 = 20_000;
/// So many operations are timed one by one, fewer of pages.
const TIMED: u64 = 100_000;
const TIMED_PAGES: u64 = 2_000;
/// More than there are rows, and prime: multiples modulo it are numbers of rows in no order.
const PRIME: u64 = 4_294_967_291;
const FACTOR: u64 = 2_654_435_769;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    OnePartition,
    OneRowPartitions,
}

/// The keys of row `number` of a table.
fn keys(shape: Shape, number: u64) -> (String, String) {
    match shape {
        Shape::OnePartition => ("all".into(), format!("{number:012}")),
        Shape::OneRowPartitions => (format!("user-{number:012}"), String::new()),
    }
}

/// The number of the row that is written as the `n`th.
fn shuffled(n: u64) -> u64 {
    (n * FACTOR + 12_345) % PRIME
}

/// About half of it compresses.
fn value(number: u64) -> [u8; 48] {
    let mut value = *b"name=........ city=............ note=0000000000 ";
    let mut random = Random(number | 1 << 63);
    value.iter_mut().filter(|byte| **byte == b'.').for_each(|byte| {
        *byte = b'a' + (random.next() % 26) as u8;
    });
    value
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33
    }
}

/// A column of the table: what was measured, and the figure.
type Column = Vec<(&'static str, String)>;

struct Scale {
    shape: Shape,
    rows: u64,
    random: Random,
    column: Column,
}

impl Scale {
    fn note(&mut self, name: &'static str, figure: String) {
        eprintln!("{:?}, {} rows: {name} {figure}", self.shape, self.rows);
        self.column.push((name, figure));
    }

    /// Notes how long something takes that is done once.
    fn once<T>(&mut self, name: &'static str, what: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let start = Instant::now();
        let outcome = what()?;
        self.note(name, format!("{:.2} ms", start.elapsed().as_secs_f64() * 1e3));
        Ok(outcome)
    }

    /// Notes median and 99th percentile of what is done with so many rows, by their numbers.
    fn each(
        &mut self,
        name: &'static str,
        times: u64,
        what: impl Fn(u64) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut took = Vec::new();
        for _ in 0..times {
            let number = shuffled(self.random.next() % self.rows);
            let start = Instant::now();
            what(number)?;
            took.push(start.elapsed());
        }
        took.sort();
        let micros = |part: f64| took[(part * took.len() as f64) as usize].as_secs_f64() * 1e6;
        self.note(name, format!("{:.2}, {:.1} µs", micros(0.5), micros(0.99)));
        Ok(())
    }

    fn measure(mut self, dir: &Path) -> Outcome<Column> {
        let options = || Options::default().durability(Durability::Os);
        let database = Database::open(dir, options())?;
        let table = database.create_table("rows").wait()?;
        self.load(&database, &table)?;
        self.read(&table)?;
        self.once("whole table estimated", || Ok(table.estimate()?))?;
        let points = self.once("cut into 16 parts", || Ok(table.split_points(16)?))?;
        assert_eq!(points.len(), if self.shape == Shape::OnePartition { 0 } else { 15 });
        self.once("checkpoint", || Ok(database.checkpoint(dir.join("checkpoint"))?))?;
        drop(table);
        self.once("close", || Ok(database.close()?))?;
        let database = self.once("open", || Ok(Database::open(dir, options())?))?;
        let table = database.table("rows")?;
        self.write(&table)?;
        self.once("drop", || Ok(database.drop_table("rows").wait()?))?;
        Ok(self.column)
    }

    fn load(&mut self, database: &Database, table: &Table) -> Outcome<()> {
        let (start, mut slowest) = (Instant::now(), Duration::ZERO);
        for first in (0..self.rows).step_by(IMPORTED as usize) {
            let numbers = (first..self.rows.min(first + IMPORTED)).map(shuffled);
            let begun = Instant::now();
            table.import(numbers.map(|number| {
                let (partition_key, row_key) = keys(self.shape, number);
                (partition_key, row_key, value(number))
            }))?;
            slowest = slowest.max(begun.elapsed());
        }
        let written = start.elapsed();
        while is_busy(database) {
            sleep(Duration::from_millis(20));
        }
        let rate = |time: Duration| self.rows as f64 / time.as_secs_f64() / 1e3;
        let rates = format!("{:.0} k, {:.0} k", rate(written), rate(start.elapsed()));
        self.note("rows a second; until settled", rates);
        self.note("slowest import of 5,000", format!("{:.0} ms", slowest.as_secs_f64() * 1e3));
        self.note("table files", format!("{} MB", database.stats().file_bytes() >> 20));
        if let Some(memory) = own_memory() {
            self.note("memory but for mapped files", format!("{} MB", memory >> 20));
        }
        Ok(())
    }

    fn read(&mut self, table: &Table) -> Outcome<()> {
        let shape = self.shape;
        let get = |number| {
            let (partition_key, row_key) = keys(shape, number);
            let row = table.get(partition_key, row_key)?.ok_or("a row is missing")?;
            assert!(row.value == value(number), "row {number}");
            Ok(())
        };
        self.each("get", TIMED, get)?;
        self.random = Random(1);
        self.each("get of the same again", TIMED, get)?;
        self.each("get of an absent key", TIMED, |number| {
            let (partition_key, row_key) = keys(shape, number);
            assert!(table.get(partition_key, row_key + "-")?.is_none(), "no such row");
            Ok(())
        })?;
        let page = |query: Query, number| {
            let page = query.page()?;
            let first = page.get(0).ok_or("a page without rows")?;
            assert!(first.value == value(number), "the page begins with row {number}");
            Ok(())
        };
        self.each("page of 1,000", TIMED_PAGES, |number| {
            let (partition_key, row_key) = keys(shape, number);
            let query = match shape {
                Shape::OnePartition => table.query().partition(partition_key).rows(row_key..),
                Shape::OneRowPartitions => table.query().partitions(partition_key..),
            };
            page(query, number)
        })?;
        self.each("reverse page of 10", TIMED_PAGES, |number| {
            let (partition_key, row_key) = keys(shape, number);
            let query = match shape {
                Shape::OnePartition => table.query().partition(partition_key).rows(..=row_key),
                Shape::OneRowPartitions => table.query().partitions(..=partition_key),
            };
            page(query.reverse().limit(10), number)
        })
    }

    fn write(&mut self, table: &Table) -> Outcome<()> {
        let shape = self.shape;
        self.each("put", TIMED, |number| {
            let (partition_key, row_key) = keys(shape, number);
            table.upsert(partition_key, row_key, value(number)).wait()?;
            Ok(())
        })?;
        self.each("delete and insert", TIMED, |number| {
            let (partition_key, row_key) = keys(shape, number);
            table.delete(&partition_key, &row_key, Precondition::Exists).wait()?;
            table.insert(partition_key, row_key, value(number)).wait()?;
            Ok(())
        })
    }
}

fn is_busy(database: &Database) -> bool {
    let stats = database.stats();
    stats.compaction_debt_bytes > 0 || stats.running_compactions > 0 || stats.frozen_memtables > 0
}

/// Bytes of memory that are no mapped files, where the system tells.
fn own_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn print(shape: Shape, columns: &[(u64, Column)]) {
    let line = |cells: Vec<String>| println!("| {} |", cells.join(" | "));
    println!("\n{shape:?}: median, 99th percentile\n");
    let head = columns.iter().map(|(rows, _)| format!("{rows} rows"));
    line(std::iter::once(String::new()).chain(head).collect());
    line(std::iter::repeat_n("---".to_owned(), columns.len() + 1).collect());
    let Some((_, first)) = columns.first() else { return };
    for (at, (name, _)) in first.iter().enumerate() {
        let figures = columns.iter().map(|(_, column)| column[at].1.clone());
        line(std::iter::once((*name).to_owned()).chain(figures).collect());
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers: Vec<u64> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    if numbers.is_empty() {
        numbers.push(if arguments.iter().any(|word| word == "--test") {
            FEWEST
        } else {
            1_000_000
        });
    }
    if numbers.iter().any(|rows| !(FEWEST..PRIME).contains(rows)) {
        return Err(format!("rows may be from {FEWEST} to {}", PRIME - 1).into());
    }
    for shape in [Shape::OnePartition, Shape::OneRowPartitions] {
        let mut columns = Vec::new();
        for &rows in &numbers {
            let dir = tempfile::tempdir()?;
            let scale = Scale { shape, rows, random: Random(1), column: Vec::new() };
            columns.push((rows, scale.measure(dir.path())?));
        }
        print(shape, &columns);
    }
    Ok(())
}
