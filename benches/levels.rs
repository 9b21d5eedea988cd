//! The levels: choosing what to compact in a tree of many files, and changing its state. What
//! flush and compaction move is measured in `engine`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tablestone::bench_api::BenchLevels;
use tempfile::TempDir;

fn levels(c: &mut Criterion) {
    let mut group = c.benchmark_group("levels");
    // Files of 64 MiB: six times as many are 35 GiB.
    for files in [90, 540] {
        let dir = TempDir::new().unwrap();
        let levels = BenchLevels::new(dir.path(), files).unwrap();
        group.bench_function(BenchmarkId::new("pick", files), |b| {
            b.iter(|| black_box(levels.pick()));
        });
        group.bench_function(BenchmarkId::new("install", files), |b| {
            b.iter(|| black_box(levels.install()));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700));
    targets = levels
}
criterion_main!(benches);
