//! Keys: encoding, decoding and hashing, of short and long keys, with and without escapes.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tablestone::bench_api::BenchKey;

fn keys(c: &mut Criterion) {
    let long = "k".repeat(1_024);
    let sets: [(&str, &[u8], &[u8]); 4] = [
        ("empty", b"", b""),
        ("short", b"customer-000017", b"order-0000000042"),
        ("long", long.as_bytes(), long.as_bytes()),
        ("escaped", &[0; 32], &[1; 32]),
    ];
    let mut group = c.benchmark_group("key");
    for (name, partition_key, row_key) in sets {
        group.bench_function(BenchmarkId::new("encode", name), |b| {
            b.iter(|| BenchKey::new(black_box(partition_key), black_box(row_key)));
        });
        let key = BenchKey::new(partition_key, row_key);
        let mut decoded = Vec::new();
        group.bench_function(BenchmarkId::new("decode-row", name), |b| {
            b.iter(|| {
                black_box(&key).decode_row(&mut decoded);
                black_box(decoded.len())
            });
        });
        assert_eq!(decoded, row_key);
        group.bench_function(BenchmarkId::new("hash", name), |b| {
            b.iter(|| black_box(&key).hash());
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300));
    targets = keys
}
criterion_main!(benches);
