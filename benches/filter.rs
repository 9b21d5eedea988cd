//! Filters on stored rows in memory: narrow and wide ones, few and many that match, beside copying
//! every row (what a scan without a filter does) and decoding every row before asking. And the same
//! as queries of a database in one sorted run, in pages (`cargo bench --bench filter -- table`).

use std::hint::black_box;
use std::ops::Range;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tablestone::bench_api::{BenchFilter, BenchRow};
use tablestone::{Database, DateTime, Durability, Entity, EntityTable, Filter, Options};
use tempfile::TempDir;

/// About as many bytes for narrow rows as for wide ones: more than the caches near a core hold.
const STORED_BYTES: usize = 32 << 20;

fn mix(i: u64) -> u64 {
    let x = (i ^ (i >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    (x ^ (x >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D)
}

/// Properties of several types; in the middle `Score`, a number below 1,000.
fn entity(i: u64, properties: u64) -> Entity {
    let mut entity = Entity::new("partition", "row");
    for p in 0..properties {
        let random = mix(i * properties + p);
        let name = format!("Property{p:03}");
        match p {
            _ if p == properties / 2 => entity.set("Score", (random % 1000) as i32),
            _ if p % 4 == 0 => entity.set(name, format!("text {random:016x}")),
            _ if p % 4 == 1 => entity.set(name, random as i64),
            _ if p % 4 == 2 => entity.set(name, random as f64),
            _ => entity.set(name, DateTime::from_ticks(random >> 8)),
        };
    }
    entity
}

/// Rows one after the other, as in a block.
struct Rows {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Rows {
    fn new(properties: u64) -> Self {
        let mut rows = Self { bytes: Vec::new(), places: Vec::new() };
        while rows.bytes.len() < STORED_BYTES {
            let row = BenchRow::encode(&entity(rows.places.len() as u64, properties)).unwrap();
            let start = rows.bytes.len();
            rows.bytes.extend_from_slice(row.bytes());
            rows.places.push(start..rows.bytes.len());
        }
        rows
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()])
    }
}

fn rows(c: &mut Criterion) {
    let filters = [
        ("0.1 %", "Score eq 7"),
        ("50 %", "Score lt 500"),
        ("absent", "Missing eq 7"),
        ("two", "Score ge 100 and not (Property000 lt 'text 2')"),
    ];
    for properties in [10, 252] {
        let rows = Rows::new(properties);
        let count = rows.places.len() as u64;
        println!("{properties} properties: {} bytes a row", rows.bytes.len() as u64 / count);
        let mut group = c.benchmark_group(format!("filter/{properties}"));
        group.throughput(Throughput::Elements(count));
        let mut page = Vec::with_capacity(rows.bytes.len());
        group.bench_function("copy all", |b| {
            b.iter(|| {
                page.clear();
                for row in rows.iter() {
                    page.extend_from_slice(row);
                }
                black_box(page.len())
            });
        });
        for (name, text) in filters {
            let mut filter = BenchFilter::new(&text.parse::<Filter>().unwrap());
            group.bench_function(BenchmarkId::new("match", name), |b| {
                b.iter(|| rows.iter().filter(|row| filter.matches(row).unwrap()).count());
            });
            group.bench_function(BenchmarkId::new("match and copy", name), |b| {
                b.iter(|| {
                    page.clear();
                    for row in rows.iter().filter(|row| filter.matches(row).unwrap()) {
                        page.extend_from_slice(row);
                    }
                    black_box(page.len())
                });
            });
        }
        group.bench_function("decode, then match/0.1 %", |b| {
            b.iter(|| rows.iter().filter(|row| decoded_score(row) == Some(7)).count());
        });
        group.finish();
    }
}

fn decoded_score(row: &[u8]) -> Option<i32> {
    black_box(BenchFilter::decode(row).unwrap()).get_as("Score")
}

/// What a client's long list costs before the first row is read.
fn language(c: &mut Criterion) {
    let mut group = c.benchmark_group("filter/language");
    let simple = "PartitionKey eq 'Sales' and RowKey ge 'S' and RowKey lt 'T' and Age gt 21";
    let keys: Vec<String> = (0..10_000).map(|i| format!("RowKey eq 'row-{i:06}'")).collect();
    for (name, text) in [("one range", simple.to_owned()), ("10,000 keys", keys.join(" or "))] {
        group.bench_function(BenchmarkId::new("parse", name), |b| {
            b.iter(|| black_box(Filter::parse(&text).unwrap()));
        });
        let filter = Filter::parse(&text).unwrap();
        group.bench_function(BenchmarkId::new("plan", name), |b| {
            b.iter(|| black_box(filter.explain()));
        });
    }
    group.finish();
}

/// Entities with 10 properties that the queries go through, about 170 MiB.
const ENTITIES: u64 = 1_000_000;
/// As many bytes with 252 properties.
const WIDE_ENTITIES: u64 = 40_000;

/// A table in one sorted run, in 100 partitions; its blocks fit into the cache.
fn filled(dir: &TempDir, properties: u64, entities: u64) -> EntityTable {
    let options = Options::default().durability(Durability::Os).memory_budget(1 << 30);
    let database = Database::open(dir.path(), options).unwrap();
    let table = database.create_table("t").wait().unwrap().entities();
    let keyed = (0..entities).map(|i| {
        let keyed = Entity::new(format!("{:03}", i * 100 / entities), format!("{i:09}"));
        let all = entity(i, properties).into_properties();
        all.fold(keyed, |keyed, (name, value)| keyed.with(name, value))
    });
    table.import(keyed).unwrap();
    database.compact().unwrap();
    table
}

fn queries(c: &mut Criterion) {
    for (properties, entities) in [(10, ENTITIES), (252, WIDE_ENTITIES)] {
        let dir = TempDir::new().unwrap();
        let table = filled(&dir, properties, entities);
        let mut group = c.benchmark_group(format!("table/{properties}"));
        group.sample_size(10).throughput(Throughput::Elements(entities));
        let count = |filter: &str| {
            let pages = table.query().filter(filter.parse().unwrap()).pages();
            pages.map(|page| page.unwrap().len()).sum::<usize>()
        };
        group.bench_function("plain scan", |b| b.iter(|| black_box(count(""))));
        group.bench_function("0.1 %", |b| b.iter(|| black_box(count("Score eq 7"))));
        group.bench_function("1 %", |b| b.iter(|| black_box(count("Score lt 10"))));
        group.bench_function("50 %", |b| b.iter(|| black_box(count("Score lt 500"))));
        group.bench_function("select 1", |b| {
            b.iter(|| {
                let pages = table.query().select(["Score"]).pages();
                black_box(pages.map(|page| page.unwrap().len()).sum::<usize>())
            });
        });
        group.bench_function("decode, then 0.1 %", |b| {
            b.iter(|| {
                let all = table.query().entities().map(Result::unwrap);
                black_box(all.filter(|entity| entity.get_as("Score") == Some(7)).count())
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = rows, queries, language
}
criterion_main!(benches);
