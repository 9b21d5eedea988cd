//! The memtable beside crossbeam's skip list, on keys like real ones.

use std::hint::black_box;
use std::ops::Bound;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_skiplist::SkipMap;
use tablestone::bench_api::{BenchKey, BenchMemtable};

const COUNT: u64 = 100_000;
const VALUE: [u8; 32] = [7; 32];

fn mix(i: u64) -> u64 {
    let x = (i ^ (i >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    (x ^ (x >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D)
}

/// How the i-th key of a data set looks, in the order of insertion.
type KeyOf = fn(u64) -> BenchKey;

/// The data sets.
fn sets() -> Vec<(&'static str, KeyOf)> {
    vec![
        // Eight random bytes: what other engines' figures are measured with.
        ("small", |i| BenchKey::new(b"p", &mix(i).to_be_bytes())),
        // Many rows in some hundreds of partitions, in random order.
        ("guids", |i| {
            let partition = format!("customer-{:06}", mix(i) % 500);
            let row = format!("{:016x}-{:016x}", mix(i + COUNT), mix(i));
            BenchKey::new(partition.as_bytes(), row.as_bytes())
        }),
        // One partition, rows added at its end.
        ("at-end", |i| BenchKey::new(b"device-000017", format!("{:020}", i + 700_000).as_bytes())),
        // One partition, rows added at its front: inverted ticks.
        ("at-front", |i| {
            let ticks = 2_500_000_000_000_000_000 - i * 9_973;
            BenchKey::new(b"device-000017", format!("{ticks:020}").as_bytes())
        }),
        // One row in each partition, in random order.
        ("partitions", |i| {
            BenchKey::new(format!("user-{:012}", mix(i) % 1_000_000_000_000).as_bytes(), b"profile")
        }),
    ]
}

fn keys_of(key: KeyOf) -> Vec<BenchKey> {
    (0..COUNT).map(key).collect()
}

fn shuffled(keys: &[BenchKey]) -> Vec<BenchKey> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|&i| mix(i as u64 + 5));
    order.into_iter().map(|i| keys[i].clone()).collect()
}

fn filled(keys: &[BenchKey]) -> BenchMemtable {
    let memtable = BenchMemtable::default();
    for (i, key) in keys.iter().enumerate() {
        memtable.insert(key, i as u64 + 1, &VALUE);
    }
    memtable
}

fn filled_peer(keys: &[BenchKey]) -> SkipMap<Box<[u8]>, Box<[u8]>> {
    let map = SkipMap::new();
    for key in keys {
        map.insert(key.bytes().into(), VALUE.into());
    }
    map
}

/// Runs `fill` on new containers until `iterations` elements went in; time of the filling alone.
fn time_filling<T>(iterations: u64, make: impl Fn() -> T, fill: impl Fn(&T, usize)) -> Duration {
    let mut total = Duration::ZERO;
    let mut left = iterations;
    while left > 0 {
        let container = make();
        let now = left.min(COUNT);
        let start = Instant::now();
        fill(&container, now as usize);
        total += start.elapsed();
        left -= now;
    }
    total
}

fn insert(c: &mut Criterion) {
    let mut group = c.benchmark_group("memtable/insert");
    for (name, key) in sets() {
        let keys = keys_of(key);
        group.bench_function(BenchmarkId::new("tablestone", name), |b| {
            b.iter_custom(|n| {
                time_filling(n, BenchMemtable::default, |memtable, now| {
                    for (i, key) in keys.iter().take(now).enumerate() {
                        memtable.insert(key, i as u64 + 1, &VALUE);
                    }
                })
            });
        });
        group.bench_function(BenchmarkId::new("crossbeam", name), |b| {
            b.iter_custom(|n| {
                time_filling(n, SkipMap::<Box<[u8]>, Box<[u8]>>::new, |map, now| {
                    for key in keys.iter().take(now) {
                        map.insert(key.bytes().into(), VALUE.into());
                    }
                })
            });
        });
    }
}

fn get(c: &mut Criterion) {
    let mut group = c.benchmark_group("memtable/get");
    for (name, key) in sets() {
        let keys = keys_of(key);
        let probes = shuffled(&keys);
        let memtable = filled(&keys);
        let peer = filled_peer(&keys);
        let misses: Vec<_> = (COUNT..2 * COUNT).map(key).collect();
        let mut at = (0..COUNT as usize).cycle();
        let mut next = move || at.next().unwrap_or(0);
        group.bench_function(BenchmarkId::new("tablestone/hit", name), |b| {
            b.iter(|| black_box(memtable.get(&probes[next()])));
        });
        group.bench_function(BenchmarkId::new("tablestone/miss", name), |b| {
            b.iter(|| black_box(memtable.get(&misses[next()])));
        });
        group.bench_function(BenchmarkId::new("crossbeam/hit", name), |b| {
            b.iter(|| black_box(peer.get(probes[next()].bytes()).map(|e| e.value().len())));
        });
    }
}

/// A row that is written all the time: as it is, and as it was at any time since it was first written.
fn rewritten(c: &mut Criterion) {
    let mut group = c.benchmark_group("memtable/rewritten");
    let key = BenchKey::new(b"device-000017", b"counter");
    let write = |memtable: &BenchMemtable, count: usize| {
        for version in 1..=count as u64 {
            memtable.insert(&key, version, &VALUE);
        }
    };
    group.bench_function("insert", |b| {
        b.iter_custom(|n| time_filling(n, BenchMemtable::default, write));
    });
    let memtable = BenchMemtable::default();
    write(&memtable, COUNT as usize);
    let mut at = (0..COUNT).cycle();
    let mut any = move || mix(at.next().unwrap_or(0)) % COUNT + 1;
    group.bench_function("get, newest", |b| b.iter(|| black_box(memtable.get(&key))));
    group.bench_function("get, at any version", |b| {
        b.iter(|| black_box(memtable.get_at(&key, any())));
    });
}

fn scan(c: &mut Criterion) {
    const ROWS: usize = 1_000;
    let mut group = c.benchmark_group("memtable/scan");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, key) in sets() {
        let keys = keys_of(key);
        let probes = shuffled(&keys);
        let memtable = filled(&keys);
        let peer = filled_peer(&keys);
        let mut at = (0..COUNT as usize).cycle();
        let mut next = move || at.next().unwrap_or(0);
        group.bench_function(BenchmarkId::new("tablestone/forward", name), |b| {
            b.iter(|| black_box(memtable.scan(&probes[next()], ROWS)));
        });
        group.bench_function(BenchmarkId::new("tablestone/back", name), |b| {
            b.iter(|| black_box(memtable.scan_back(&probes[next()], ROWS)));
        });
        group.bench_function(BenchmarkId::new("crossbeam/forward", name), |b| {
            b.iter(|| {
                let from = (Bound::Included(probes[next()].bytes()), Bound::Unbounded);
                let range = peer.range::<[u8], _>(from);
                range.take(ROWS).map(|e| e.key().len() + e.value().len()).sum::<usize>()
            });
        });
    }
}

fn writers(c: &mut Criterion) {
    let mut group = c.benchmark_group("memtable/writers");
    for threads in [2usize, 8] {
        let keys = keys_of(sets()[1].1);
        group.bench_function(BenchmarkId::new("tablestone", threads), |b| {
            b.iter_custom(|n| {
                time_filling(n, BenchMemtable::default, |memtable, now| {
                    thread::scope(|scope| {
                        for part in keys[..now].chunks(now.div_ceil(threads)) {
                            scope.spawn(move || {
                                for (i, key) in part.iter().enumerate() {
                                    memtable.insert(key, i as u64 + 1, &VALUE);
                                }
                            });
                        }
                    });
                })
            });
        });
        group.bench_function(BenchmarkId::new("crossbeam", threads), |b| {
            b.iter_custom(|n| {
                time_filling(n, SkipMap::<Box<[u8]>, Box<[u8]>>::new, |map, now| {
                    thread::scope(|scope| {
                        for part in keys[..now].chunks(now.div_ceil(threads)) {
                            scope.spawn(move || {
                                for key in part {
                                    map.insert(key.bytes().into(), VALUE.into());
                                }
                            });
                        }
                    });
                })
            });
        });
    }
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700))
}

criterion_group! {
    name = benches;
    config = quick();
    targets = insert, get, rewritten, scan, writers
}
criterion_main!(benches);
