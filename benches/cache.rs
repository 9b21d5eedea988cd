//! The block cache: blocks that it has, blocks that it has not, and making room.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tablestone::bench_api::BenchCache;

const BLOCK: usize = 8 << 10;
const BLOCKS: u64 = 4_096;

fn mix(i: u64) -> u64 {
    let x = (i ^ (i >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    (x ^ (x >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D)
}

/// A cache with room for all blocks, full of them.
fn filled(block: &Arc<[u8]>) -> BenchCache {
    let cache = BenchCache::new(2 * BLOCKS as usize * BLOCK);
    (0..BLOCKS).for_each(|at| cache.insert(1, at * BLOCK as u64, Arc::clone(block)));
    cache
}

fn reads(c: &mut Criterion) {
    let block: Arc<[u8]> = vec![7; BLOCK].into();
    let cache = filled(&block);
    let mut group = c.benchmark_group("cache");
    for (name, file) in [("hit", 1), ("miss", 2)] {
        let mut at = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                at += 1;
                black_box(cache.get(file, mix(at) % BLOCKS * BLOCK as u64))
            });
        });
    }
    // All threads ask for few blocks, as they do for what is popular.
    for threads in [2, 8] {
        group.bench_function(BenchmarkId::new("hit-by-threads", threads), |b| {
            b.iter_custom(|reads| {
                let start = Instant::now();
                thread::scope(|scope| {
                    for thread in 0..threads {
                        let cache = &cache;
                        scope.spawn(move || {
                            for at in 0..reads / threads {
                                black_box(cache.get(1, mix(at + thread) % 16 * BLOCK as u64));
                            }
                        });
                    }
                });
                start.elapsed()
            });
        });
    }
}

fn writes(c: &mut Criterion) {
    let block: Arc<[u8]> = vec![7; BLOCK].into();
    let cache = filled(&block);
    let next = AtomicU64::new(0);
    c.bench_function("cache/insert-into-full", |b| {
        b.iter(|| cache.insert(3, next.fetch_add(1, Ordering::Relaxed), Arc::clone(&block)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700));
    targets = reads, writes
}
criterion_main!(benches);
