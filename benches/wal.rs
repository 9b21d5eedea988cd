//! The log: appending and syncing groups of records, and replaying them. Records have 200 bytes.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tablestone::bench_api::BenchLog;
use tempfile::TempDir;

const PAYLOAD: [u8; 200] = [7; 200];
/// Bytes that a log takes before it is begun anew, so that no benchmark fills the disk.
const LOG_BYTES: u64 = 256 << 20;
/// Bytes that are replayed.
const REPLAYED_BYTES: u64 = 64 << 20;

/// Time of so many groups, without what it takes to begin a log.
fn append(groups: u64, records: u64, sync: bool) -> Duration {
    let most = LOG_BYTES / (records * PAYLOAD.len() as u64);
    let mut total = Duration::ZERO;
    let mut left = groups;
    while left > 0 {
        let dir = TempDir::new().unwrap();
        let create = if sync { BenchLog::create_synced } else { BenchLog::create };
        let mut log = create(dir.path()).unwrap();
        let now = left.min(most);
        let start = Instant::now();
        for _ in 0..now {
            log.append(records, &PAYLOAD).unwrap();
            if sync {
                log.sync().unwrap();
            }
        }
        total += start.elapsed();
        left -= now;
    }
    total
}

fn appends(c: &mut Criterion) {
    for (name, sync) in [("append", false), ("append-and-sync", true)] {
        let mut group = c.benchmark_group(format!("wal/{name}"));
        for records in [1, 16, 100] {
            group.throughput(Throughput::Elements(records));
            group.bench_function(BenchmarkId::from_parameter(records), |b| {
                b.iter_custom(|groups| append(groups, records, sync));
            });
        }
    }
}

fn replays(c: &mut Criterion) {
    let mut group = c.benchmark_group("wal/replay");
    group.throughput(Throughput::Bytes(REPLAYED_BYTES));
    for bytes in [200, 20_000] {
        let dir = TempDir::new().unwrap();
        let mut log = BenchLog::create(dir.path()).unwrap();
        let payload = vec![7; bytes];
        for _ in 0..REPLAYED_BYTES / bytes as u64 {
            log.append(1, &payload).unwrap();
        }
        log.close().unwrap();
        group.bench_function(BenchmarkId::from_parameter(bytes), |b| {
            b.iter(|| assert!(BenchLog::replay(dir.path()).unwrap() > 0));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700));
    targets = appends, replays
}
criterion_main!(benches);
