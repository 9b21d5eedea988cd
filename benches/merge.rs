//! Merging: walking over many sorted sources at once, and finding a place in them.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tablestone::bench_api::{BenchKey, BenchMerge};

const KEYS: u64 = 50_000;
const VALUE: [u8; 100] = [7; 100];

fn key(number: u64) -> BenchKey {
    let (partition, row) = (number / 100, number % 100);
    BenchKey::new(format!("customer-{partition:06}").as_bytes(), format!("{row:010}").as_bytes())
}

/// How keys lie in the sources.
#[derive(Clone, Copy)]
enum Spread {
    /// Each in one of them, neighbours in different ones.
    Interleaved,
    /// Each in one of them, neighbours in the same.
    Disjoint,
    /// Each in all of them.
    Repeated,
}

fn merge(sources: u64, spread: Spread) -> BenchMerge {
    let merge = BenchMerge::new(sources as usize);
    let keys = match spread {
        Spread::Interleaved | Spread::Disjoint => KEYS,
        Spread::Repeated => KEYS / sources,
    };
    for number in 0..keys {
        let of = match spread {
            Spread::Interleaved => number % sources..number % sources + 1,
            Spread::Disjoint => number * sources / keys..number * sources / keys + 1,
            Spread::Repeated => 0..sources,
        };
        for source in of {
            let version = 1 + sources - source;
            merge.insert(source as usize, &key(number), version, &VALUE);
        }
    }
    merge
}

fn walks(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    let spreads = [
        ("interleaved", Spread::Interleaved),
        ("disjoint", Spread::Disjoint),
        ("repeated", Spread::Repeated),
    ];
    for (name, spread) in spreads {
        for sources in [2, 8, 32] {
            let merge = merge(sources, spread);
            let id = format!("{name}/{sources}");
            group.throughput(Throughput::Elements(KEYS));
            group.bench_function(BenchmarkId::new("walk", &id), |b| {
                b.iter(|| black_box(merge.walk().unwrap()));
            });
            let mut at = 0;
            group.throughput(Throughput::Elements(1));
            group.bench_function(BenchmarkId::new("seek", &id), |b| {
                b.iter(|| {
                    at = (at + 7_919) % KEYS;
                    black_box(merge.seek(&key(at)).unwrap())
                });
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = walks
}
criterion_main!(benches);
