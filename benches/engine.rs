//! The engine through its public API, on the real file system: commits, reads, flush, compaction,
//! recovery. `cargo bench --bench engine`; a name after `--` selects.
//!
//! Each measurement is short, so that the whole takes minutes; a file system's sync is what most
//! of the figures under sync durability are made of.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_executor::block_on;
use futures_util::{StreamExt, TryStreamExt, stream};
use tablestone::{Batch, Commit, Database, Durability, Options, Precondition, Table, Version};
use tempfile::TempDir;

const VALUE: [u8; 100] = [7; 100];
const PARTITIONS: u64 = 1_000;
/// Entities of the database that reads are measured on.
const ENTITIES: u64 = 500_000;

/// A database in a directory of its own.
struct Home {
    // Dropped first: the database closes before its directory goes.
    database: Database,
    table: Table,
    dir: TempDir,
}

impl Home {
    fn new(options: Options) -> Self {
        let dir = TempDir::with_prefix("tablestone-bench-").expect("a temporary directory");
        let database = Database::open(dir.path(), options).expect("an empty database opens");
        let table = database.create_table("bench").wait().expect("a table");
        Self { database, table, dir }
    }

    /// With `entities` entities spread over the partitions.
    fn filled(options: Options, entities: u64) -> Self {
        let home = Self::new(options);
        let rows = (0..entities).map(|number| (partition_key(number), row_key(number), VALUE));
        home.table.import(rows).expect("an import");
        home
    }
}

fn unsynced() -> Options {
    Options::default().durability(Durability::Os)
}

fn partition_key(number: u64) -> String {
    format!("partition-{:06}", scattered(number) % PARTITIONS)
}

fn row_key(number: u64) -> String {
    format!("row-{number:012}")
}

/// A number that looks random, the same in every run.
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

/// Where a thread writes.
#[derive(Clone, Copy)]
enum Spread {
    OnePartition,
    ManyPartitions,
}

/// Inserts an entity that is not there yet.
fn insert_next(table: &Table, next: &AtomicU64, spread: Spread) -> Commit<Version> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    let partition_key = match spread {
        Spread::OnePartition => "hot".to_owned(),
        Spread::ManyPartitions => partition_key(number),
    };
    table.insert(partition_key, row_key(number), VALUE)
}

/// Time for `commits` single inserts, divided among threads that begin together.
fn commit_from(
    threads: u64,
    table: &Table,
    next: &AtomicU64,
    commits: u64,
    spread: Spread,
) -> Duration {
    let start = Barrier::new(threads as usize);
    let begun = thread::scope(|scope| {
        let insert = |thread| {
            let start = &start;
            scope.spawn(move || {
                let mine = commits / threads + u64::from(thread < commits % threads);
                start.wait();
                let begun = Instant::now();
                for _ in 0..mine {
                    insert_next(table, next, spread).wait().expect("an insert of a new key");
                }
                begun
            })
        };
        let threads: Vec<_> = (0..threads).map(insert).collect();
        let begun = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        begun.min().expect("a thread")
    });
    begun.elapsed()
}

/// The same from one thread, `at_once` of them under way at any time.
fn commit_by_tasks(
    at_once: usize,
    table: &Table,
    next: &AtomicU64,
    commits: u64,
    spread: Spread,
) -> Duration {
    let begun = Instant::now();
    let inserts = stream::iter(0..commits).map(|_| insert_next(table, next, spread));
    let all = inserts.buffer_unordered(at_once).try_for_each(async |_| Ok(()));
    block_on(all).expect("inserts of new keys");
    begun.elapsed()
}

fn commit(criterion: &mut Criterion) {
    for (durability, options) in [("sync", Options::default()), ("os", unsynced())] {
        let mut group = criterion.benchmark_group(format!("commit/{durability}"));
        group.throughput(Throughput::Elements(1));
        for (spread_name, spread) in
            [("one-partition", Spread::OnePartition), ("many-partitions", Spread::ManyPartitions)]
        {
            for threads in [1, 4, 16, 64] {
                let home = Home::new(options.clone());
                let next = AtomicU64::new(0);
                let id = BenchmarkId::new(spread_name, format!("{threads}-threads"));
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|commits| {
                        commit_from(threads, &home.table, &next, commits, spread)
                    });
                });
            }
            for tasks in [16, 64] {
                let home = Home::new(options.clone());
                let next = AtomicU64::new(0);
                let id = BenchmarkId::new(spread_name, format!("{tasks}-tasks"));
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|commits| {
                        commit_by_tasks(tasks, &home.table, &next, commits, spread)
                    });
                });
            }
        }
        group.finish();
    }
}

fn read(criterion: &mut Criterion) {
    let home = Home::filled(unsynced(), ENTITIES);
    home.database.compact().expect("a compaction");
    let table = &home.table;
    let mut group = criterion.benchmark_group("read");
    let mut number = 0;
    // A key that is there, or one between those.
    let mut next = |beyond| {
        number += 1;
        let n = scattered(number) % ENTITIES;
        (partition_key(n), row_key(n + beyond))
    };
    group.bench_function("get-hit", |bencher| {
        bencher.iter_batched(
            || next(0),
            |(partition, row)| {
                let value = table.read(partition, row, |_, value| value.len());
                assert_eq!(value.expect("a read"), Some(VALUE.len()));
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("get-miss", |bencher| {
        bencher.iter_batched(
            || next(ENTITIES),
            |(partition, row)| assert!(!table.exists(partition, row).expect("a read")),
            BatchSize::SmallInput,
        );
    });
    let some: Vec<_> = (0..ENTITIES)
        .filter(|n| partition_key(*n) == partition_key(0))
        .take(100)
        .map(row_key)
        .collect();
    group.throughput(Throughput::Elements(some.len() as u64));
    group.bench_function("get-many-100", |bencher| {
        bencher.iter(|| black_box(table.get_many(partition_key(0), &some).expect("a read")));
    });
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("page-of-1000", |bencher| {
        bencher.iter(|| {
            let page = table.query().partitions("partition-000500"..).page().expect("a page");
            assert_eq!(page.len(), 1_000);
        });
    });
    group.bench_function("page-of-1000-reverse", |bencher| {
        bencher.iter(|| {
            let query = table.query().partitions("partition-000500"..).reverse();
            assert_eq!(query.page().expect("a page").len(), 1_000);
        });
    });
    group.throughput(Throughput::Elements(PARTITIONS));
    group.bench_function("skip-scan-1000-partitions", |bencher| {
        bencher.iter(|| {
            let query = table.query().rows("row-000000250000".."row-000000250010");
            let rows: usize = query.pages().map(|page| page.expect("a page").len()).sum();
            assert_eq!(rows, 10);
        });
    });
    group.finish();
}

/// Scans of a partition all of whose rows were just deleted, at once and one by one.
fn deleted(criterion: &mut Criterion) {
    const ROWS: u64 = 100_000;
    type Delete = fn(&Table);
    let ways: [(&str, Delete); 2] = [
        ("by-range", |table| {
            table.delete_partition("partition").wait().expect("a deletion");
        }),
        ("row-by-row", |table| {
            for start in (0..ROWS).step_by(100) {
                let mut batch = Batch::new("partition");
                for number in start..start + 100 {
                    batch.delete(row_key(number), Precondition::Exists);
                }
                table.commit(batch).wait().expect("a batch");
            }
        }),
    ];
    let mut group = criterion.benchmark_group(format!("scan-after-deleting-{ROWS}"));
    for (way, delete) in ways {
        let home = Home::new(unsynced());
        let rows = (0..ROWS).map(|number| ("partition", row_key(number), VALUE));
        home.table.import(rows).expect("an import");
        home.database.compact().expect("a compaction");
        delete(&home.table);
        group.bench_function(way, |bencher| {
            bencher.iter(|| {
                let pages = home.table.query().partition("partition").pages();
                assert!(pages.map(|page| page.expect("a page")).all(|page| page.is_empty()));
            });
        });
    }
    group.finish();
}

/// Partitions of more rows than are deleted one by one.
fn delete_partitions(criterion: &mut Criterion) {
    const DELETED: u64 = 5_000;
    let mut group = criterion.benchmark_group("delete-partitions");
    group.throughput(Throughput::Elements(DELETED)).sample_size(10);
    let partition = |number: u64| format!("partition-{number:06}");
    group.bench_function(DELETED.to_string(), |bencher| {
        bencher.iter_batched(
            || {
                let home = Home::new(unsynced());
                let rows = (0..DELETED * 300).map(|n| (partition(n / 300), row_key(n), [7; 40]));
                home.table.import(rows).expect("an import");
                home.database.flush().expect("a flush");
                home
            },
            |home| {
                for number in 0..DELETED {
                    home.table.delete_partition(partition(number)).wait().expect("a deletion");
                }
                home
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Entities that flush, compaction and recovery work on.
const MOVED: u64 = 100_000;

fn background(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("background");
    group.throughput(Throughput::Elements(MOVED)).sample_size(10);
    group.bench_function("flush", |bencher| {
        bencher.iter_batched(
            || Home::filled(unsynced(), MOVED),
            |home| {
                home.database.flush().expect("a flush");
                home
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("compact", |bencher| {
        bencher.iter_batched(
            || {
                let home = Home::filled(unsynced(), MOVED);
                home.database.flush().expect("a flush");
                home
            },
            |home| {
                home.database.compact().expect("a compaction");
                home
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("recovery", |bencher| {
        bencher.iter_batched(unflushed, open_again, BatchSize::PerIteration);
    });
    group.finish();
}

/// A directory as a killed process leaves it: all data in the log.
fn unflushed() -> TempDir {
    let home = Home::filled(unsynced(), MOVED);
    home.database.sync().expect("a sync");
    let copy = TempDir::with_prefix("tablestone-bench-").expect("a temporary directory");
    for file in std::fs::read_dir(home.dir.path()).expect("the database's directory") {
        let file = file.expect("an entry of the directory");
        std::fs::copy(file.path(), copy.path().join(file.file_name())).expect("a copy");
    }
    copy
}

fn open_again(dir: TempDir) -> (Database, TempDir) {
    let database = Database::open(dir.path(), unsynced()).expect("the copy opens");
    assert!(database.recovery_report().replayed_commits > 0);
    (database, dir)
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .without_plots()
}

criterion_group! {
    name = engine;
    config = short();
    targets = commit, read, deleted, delete_partitions, background
}
criterion_main!(engine);
