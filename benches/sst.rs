//! Table files: point reads, scans and writing, on keys like real ones, all data in memory.

use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tablestone::ReadMode;
use tablestone::bench_api::{BenchKey, BenchTable};

const COUNT: u64 = 200_000;
const CACHE_BYTES: usize = 256 << 20;
const BLOCK_BYTES: usize = 8 << 10;

fn mix(i: u64) -> u64 {
    let x = (i ^ (i >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    (x ^ (x >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D)
}

/// Rows of 500 partitions with random keys; every second key is left out of the file.
fn keys() -> (Vec<BenchKey>, Vec<BenchKey>) {
    let mut all: Vec<BenchKey> = (0..2 * COUNT)
        .map(|i| {
            let partition = format!("customer-{:06}", mix(i) % 500);
            let row = format!("{:016x}-{:016x}", mix(i + COUNT), mix(i));
            BenchKey::new(partition.as_bytes(), row.as_bytes())
        })
        .collect();
    all.sort_by(|a, b| a.bytes().cmp(b.bytes()));
    let mut present = Vec::new();
    let mut absent = Vec::new();
    for (i, key) in all.into_iter().enumerate() {
        if i % 2 == 0 { present.push(key) } else { absent.push(key) }
    }
    (present, absent)
}

fn shuffled(keys: &[BenchKey]) -> Vec<BenchKey> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|&i| mix(i as u64 + 5));
    order.into_iter().map(|i| keys[i].clone()).collect()
}

/// A value like a stored entity: names that repeat, numbers that do not.
fn value(i: u64) -> Vec<u8> {
    format!(
        "{{\"Name\":\"customer {}\",\"Amount\":{},\"State\":\"active\"}}",
        mix(i),
        mix(i + 9) % 1000
    )
    .into_bytes()
}

fn table(
    dir: &Path,
    keys: &[BenchKey],
    values: &[Vec<u8>],
    compression: Option<i32>,
    mode: ReadMode,
) -> BenchTable {
    let block_bytes =
        std::env::var("BLOCK_BYTES").ok().and_then(|n| n.parse().ok()).unwrap_or(BLOCK_BYTES);
    let entries = keys.iter().zip(values).map(|(key, value)| (key.bytes(), &value[..]));
    BenchTable::write(dir, entries, compression, block_bytes, mode, CACHE_BYTES).unwrap()
}

fn reads(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let (present, absent) = keys();
    let values: Vec<Vec<u8>> = (0..COUNT).map(value).collect();
    let settings = [
        ("mmap", None, ReadMode::Mmap),
        ("mmap-zstd", Some(1), ReadMode::Mmap),
        ("pread", None, ReadMode::Pread),
    ];
    for (name, compression, mode) in settings {
        let table = table(dir.path(), &present, &values, compression, mode);
        println!("{name}: {} bytes an entry", table.bytes() / COUNT);
        let mut group = c.benchmark_group("sst");
        for (what, keys) in [("get-hit", &present), ("get-miss", &absent)] {
            let order = shuffled(keys);
            let mut keys = order.iter().cycle();
            group.bench_function(BenchmarkId::new(what, name), |b| {
                b.iter(|| {
                    let key = keys.next().unwrap();
                    black_box(table.get(key.bytes()).unwrap())
                });
            });
        }
        let order = shuffled(&present);
        let mut next = order.iter().cycle();
        group.bench_function(BenchmarkId::new("seek-and-10", name), |b| {
            b.iter(|| black_box(table.scan(next.next().unwrap().bytes(), 10).unwrap()));
        });
        group.throughput(Throughput::Elements(COUNT));
        group.bench_function(BenchmarkId::new("scan", name), |b| {
            b.iter(|| black_box(table.scan(b"", usize::MAX).unwrap()));
        });
        group.bench_function(BenchmarkId::new("scan-back", name), |b| {
            b.iter(|| black_box(table.scan_back(&[0xFF], usize::MAX).unwrap()));
        });
        group.finish();
    }
}

fn writes(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let (present, _) = keys();
    let values: Vec<Vec<u8>> = (0..COUNT).map(value).collect();
    let mut group = c.benchmark_group("sst");
    group.throughput(Throughput::Elements(COUNT)).sample_size(10);
    for (name, compression) in [("plain", None), ("zstd", Some(1))] {
        group.bench_function(BenchmarkId::new("write", name), |b| {
            b.iter(|| table(dir.path(), &present, &values, compression, ReadMode::Mmap));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = reads, writes
}
criterion_main!(benches);
