//! Reads by where the data is: in memory, in one sorted run, in files and memory that overlap. A
//! large run is measured in `engine`, several threads in `benches/peers`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tablestone::{Database, Durability, Options, Table};
use tempfile::TempDir;

const VALUE: [u8; 100] = [7; 100];
const ENTITIES: u64 = 50_000;
const PARTITIONS: u64 = 100;
const IN_PARTITION: u64 = ENTITIES / PARTITIONS;
/// Rows of a page, and of a multi-get.
const PAGE: usize = 100;

struct Home {
    // Dropped first: the database closes before its directory goes.
    database: Database,
    table: Table,
    _dir: TempDir,
}

#[derive(Clone, Copy)]
enum Place {
    Memory,
    OneRun,
    /// Every fourth entity in memory, the others in three files.
    Overlapping,
}

fn filled(place: Place) -> Home {
    let dir = TempDir::new().unwrap();
    let options = Options::default().durability(Durability::Os);
    let database = Database::open(dir.path(), options).unwrap();
    let table = database.create_table("bench").wait().unwrap();
    let home = Home { database, table, _dir: dir };
    let parts = match place {
        Place::Memory | Place::OneRun => 1,
        Place::Overlapping => 4,
    };
    for part in 0..parts {
        let numbers = (0..ENTITIES).filter(|number| number % parts == part);
        home.table.import(numbers.map(|n| (partition(n), row(n), VALUE))).unwrap();
        if part + 1 < parts {
            home.database.flush().unwrap();
        }
    }
    if let Place::OneRun = place {
        home.database.compact().unwrap();
    }
    home
}

fn partition(number: u64) -> String {
    format!("partition-{:04}", number / IN_PARTITION)
}

fn row(number: u64) -> String {
    format!("row-{number:010}")
}

fn reads(c: &mut Criterion) {
    let places =
        [("memory", Place::Memory), ("run", Place::OneRun), ("overlapping", Place::Overlapping)];
    for (name, place) in places {
        let Home { database: _database, table, _dir } = filled(place);
        let mut number = 0;
        let mut next = move || {
            number = (number + 7_919) % ENTITIES;
            number
        };
        let mut group = c.benchmark_group(format!("read/{name}"));
        group.bench_function("get", |b| {
            b.iter(|| {
                let number = next();
                let found = table.read(partition(number), row(number), |_, value| value.len());
                assert_eq!(found.unwrap(), Some(VALUE.len()));
            });
        });
        group.bench_function("get-missing", |b| {
            b.iter(|| {
                let number = next();
                assert!(!table.exists(partition(number), row(number + ENTITIES)).unwrap());
            });
        });
        let every = |step: usize| (0..IN_PARTITION).step_by(step).take(PAGE).map(row);
        for (keys, some) in [("apart", every(5)), ("together", every(1))] {
            let some: Vec<String> = some.collect();
            group.throughput(Throughput::Elements(some.len() as u64));
            group.bench_function(BenchmarkId::new("get-many", keys), |b| {
                b.iter(|| black_box(table.get_many(partition(0), &some).unwrap().len()));
            });
            group.bench_function(BenchmarkId::new("get-each", keys), |b| {
                let each = |row| table.get(partition(0), row).unwrap();
                b.iter(|| black_box(some.iter().map(each).collect::<Vec<_>>().len()));
            });
        }
        group.throughput(Throughput::Elements(PAGE as u64));
        group.bench_function(BenchmarkId::new("page", PAGE), |b| {
            b.iter(|| {
                let query = table.query().partition(partition(next())).limit(PAGE);
                assert_eq!(query.page().unwrap().len(), PAGE);
            });
        });
        group.bench_function(BenchmarkId::new("page-reverse", PAGE), |b| {
            b.iter(|| {
                let query = table.query().partition(partition(next())).reverse().limit(PAGE);
                assert_eq!(query.page().unwrap().len(), PAGE);
            });
        });
        group.throughput(Throughput::Elements(ENTITIES));
        group.bench_function("scan", |b| {
            b.iter(|| {
                let pages = table.query().pages();
                assert_eq!(pages.map(|page| page.unwrap().len() as u64).sum::<u64>(), ENTITIES);
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = reads
}
criterion_main!(benches);
