//! Commits of one thread that wait for no device: conditions, batches, and what is encoded for the
//! log and the memtable. Several threads, and syncs, are measured in `engine`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tablestone::bench_api::BenchPayload;
use tablestone::{Batch, Database, Durability, Options, Precondition, Table};
use tempfile::TempDir;

const VALUE: [u8; 100] = [7; 100];
/// Entities that are there before, and operations until they are again as they were.
const ENTITIES: u64 = 20_000;

struct Home {
    // Dropped first: the database closes before its directory goes.
    _database: Database,
    table: Table,
    _dir: TempDir,
}

fn filled() -> Home {
    let dir = TempDir::new().unwrap();
    let options = Options::default().durability(Durability::Os);
    let database = Database::open(dir.path(), options).unwrap();
    let table = database.create_table("bench").wait().unwrap();
    let rows = (0..ENTITIES).map(|number| (partition(number), row(number), VALUE));
    table.import(rows).unwrap();
    Home { _database: database, table, _dir: dir }
}

fn partition(number: u64) -> String {
    format!("partition-{:04}", number % 200)
}

fn row(number: u64) -> String {
    format!("row-{number:010}")
}

type Operation = fn(&Table, u64);

/// What is done to the entity with a number, which exists.
const OPERATIONS: [(&str, Operation); 5] = [
    ("upsert", |table, number| {
        table.upsert(partition(number), row(number), VALUE).wait().unwrap();
    }),
    ("insert-new", |table, number| {
        table.insert(partition(number), row(number + ENTITIES), VALUE).wait().unwrap();
    }),
    ("insert-existing", |table, number| {
        assert!(table.insert(partition(number), row(number), VALUE).wait().is_err());
    }),
    ("replace-if-unchanged", |table, number| {
        let (partition, row) = (partition(number), row(number));
        let version = table.read(&partition, &row, |version, _| version).unwrap().unwrap();
        let unchanged = Precondition::Version(version);
        table.replace(&partition, &row, unchanged, VALUE).wait().unwrap();
    }),
    ("delete", |table, number| {
        table.delete(partition(number), row(number), Precondition::Exists).wait().unwrap();
    }),
];

/// Time of so many operations, each round on a database of its own.
fn time(operations: u64, operation: impl Fn(&Table, u64)) -> Duration {
    let mut total = Duration::ZERO;
    let mut left = operations;
    while left > 0 {
        let home = filled();
        let now = left.min(ENTITIES);
        let start = Instant::now();
        (0..now).for_each(|number| operation(&home.table, number));
        total += start.elapsed();
        left -= now;
    }
    total
}

fn single(c: &mut Criterion) {
    let mut group = c.benchmark_group("commit/one");
    for (name, operation) in OPERATIONS {
        group.bench_function(name, |b| b.iter_custom(|n| time(n, operation)));
    }
}

fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("commit/batch");
    let home = filled();
    for rows in [10, 100] {
        group.throughput(Throughput::Elements(rows));
        group.bench_function(BenchmarkId::from_parameter(rows), |b| {
            let mut number = 0;
            b.iter(|| {
                number += 1;
                let mut batch = Batch::new(partition(number));
                (0..rows).for_each(|at| _ = batch.upsert(row(at), VALUE));
                home.table.commit(batch).wait().unwrap();
            });
        });
    }
}

fn payloads(c: &mut Criterion) {
    let mut group = c.benchmark_group("commit/payload");
    for rows in [1, 100] {
        let keys: Vec<Vec<u8>> = (0..rows).map(|number| row(number).into_bytes()).collect();
        group.throughput(Throughput::Elements(rows));
        group.bench_function(BenchmarkId::new("encode", rows), |b| {
            b.iter(|| black_box(BenchPayload::encode(b"partition", &keys, &VALUE)));
        });
        let payload = BenchPayload::encode(b"partition", &keys, &VALUE);
        let times = 10_000 / rows;
        group.throughput(Throughput::Elements(times * rows));
        group.bench_function(BenchmarkId::new("apply", rows), |b| {
            b.iter(|| assert_eq!(payload.apply(times), times * rows));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700));
    targets = single, batches, payloads
}
criterion_main!(benches);
