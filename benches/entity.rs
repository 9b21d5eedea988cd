//! The stored form of entities: encoding, decoding, finding one property of few and of many,
//! merging, projecting; rows in cache, properties of all types.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tablestone::bench_api::{BenchFind, BenchProjection, BenchRow};
use tablestone::{DateTime, Entity, Guid};

fn mix(i: u64) -> u64 {
    let x = (i ^ (i >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    (x ^ (x >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D)
}

/// An entity of that many properties of all types, one of them `Score`, an Int32 in the middle.
fn entity(count: u64) -> Entity {
    (0..count).fold(Entity::new("partition", "row"), |entity, i| {
        let (name, random) = (format!("Property{i}"), mix(i));
        match i {
            _ if i == count / 2 => entity.with("Score", random as i32),
            _ if i % 7 == 0 => entity.with(name, format!("a text of some length: {random}")),
            _ if i % 7 == 1 => entity.with(name, random as i64),
            _ if i % 7 == 2 => entity.with(name, random % 2 == 0),
            _ if i % 7 == 3 => entity.with(name, random as f64),
            _ if i % 7 == 4 => entity.with(name, DateTime::from_ticks(random >> 8)),
            _ if i % 7 == 5 => entity.with(name, random as i32),
            _ => entity.with(name, Guid::from_bytes([random as u8; 16])),
        }
    })
}

fn whole_rows(c: &mut Criterion) {
    for count in [10, 252] {
        let entity = entity(count);
        let row = BenchRow::encode(&entity).unwrap();
        println!("a row of {count} properties has {} bytes", row.bytes().len());
        let mut group = c.benchmark_group("entity");
        group.throughput(Throughput::Elements(count));
        group.bench_function(BenchmarkId::new("encode", count), |b| {
            b.iter(|| BenchRow::encode(black_box(&entity)).unwrap());
        });
        group.bench_function(BenchmarkId::new("decode", count), |b| {
            b.iter(|| black_box(&row).view().unwrap().to_entity().unwrap());
        });
        let patch = Entity::new("partition", "row").with("Score", 7).with("Property1", 1.5);
        group.bench_function(BenchmarkId::new("merge-2", count), |b| {
            b.iter(|| black_box(&row).merge(black_box(&patch)).unwrap());
        });
    }
}

fn properties(c: &mut Criterion) {
    let mut group = c.benchmark_group("entity");
    for count in [10, 252] {
        let row = BenchRow::encode(&entity(count)).unwrap();
        // By name alone, as a caller with an EntityRef asks.
        group.bench_function(BenchmarkId::new("get", count), |b| {
            b.iter(|| black_box(&row).view().unwrap().get_as::<i32>(black_box("Score")).unwrap());
        });
        // As a filter asks, in rows alike, and in rows that have the property elsewhere.
        let mut find = BenchFind::new("Score");
        group.bench_function(BenchmarkId::new("find-alike", count), |b| {
            b.iter(|| find.int32(black_box(row.bytes())).unwrap());
        });
        let other = BenchRow::encode(&entity(count - 2)).unwrap();
        group.bench_function(BenchmarkId::new("find-elsewhere-twice", count), |b| {
            b.iter(|| (find.int32(black_box(row.bytes())), find.int32(black_box(other.bytes()))));
        });
        let mut absent = BenchFind::new("Missing");
        group.bench_function(BenchmarkId::new("find-absent", count), |b| {
            b.iter(|| absent.int32(black_box(row.bytes())).unwrap());
        });
    }
    let row = BenchRow::encode(&entity(50)).unwrap();
    for chosen in [&["Score"][..], &["Property1", "Property14", "Score", "Property40", "Missing"]] {
        let mut projection = BenchProjection::new(chosen);
        let mut page = Vec::with_capacity(1 << 20);
        group.bench_function(BenchmarkId::new("project-of-50", chosen.len()), |b| {
            b.iter(|| {
                page.clear();
                projection.push(black_box(row.bytes()), &mut page).unwrap();
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(600));
    targets = whole_rows, properties
}
criterion_main!(benches);
