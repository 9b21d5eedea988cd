//! Bodies in and out: `cargo bench -p tablestone-server --bench wire`.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::StatusCode;
use tablestone::{Database, DateTime, Entity, EntityRef, Guid, Options};
use tablestone_server::headers::Metadata;
use tablestone_server::wire::batch::{self, BatchWriter};
use tablestone_server::wire::json::{EntityPrinter, PagePrinter, decode_entity};
use tablestone_server::wire::{Context, Select};

const CONTEXT: Context<'static> = Context {
    base: "http://127.0.0.1:10002/devstoreaccount1",
    account: "devstoreaccount1",
    table: "Customers",
};

/// The entity of the documentation's samples: every type, 300 bytes of JSON.
fn customer() -> Entity {
    let since: DateTime = "2008-07-10T00:00:00.1234567Z".parse().expect("a date");
    Entity::new("mypartitionkey", "myrowkey1")
        .with("Address", "Mountain View, One Microsoft Way")
        .with("Age", 23)
        .with("AmountDue", 200.23)
        .with("CustomerCode", Guid::from_bytes([0xC9; 16]))
        .with("CustomerSince", since)
        .with("IsActive", true)
        .with("NumberOfOrders", 255i64)
        .with("Picture", vec![7; 24])
        .with("Note", "said \"yes\"")
        .with("City", "Zürich")
}

fn wide() -> Entity {
    (0..252).fold(Entity::new("p", "r"), |it, at| it.with(format!("Property{at:03}"), at))
}

fn text() -> Entity {
    Entity::new("p", "r").with("Text", "A text of some length, as messages are. ".repeat(25))
}

fn samples() -> [(&'static str, Entity); 3] {
    [("customer", customer()), ("wide", wide()), ("text", text())]
}

fn entities(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let database = Database::open(dir.path(), Options::default()).expect("a database");
    let table = database.create_table("t").wait().expect("a table").entities();
    for (name, entity) in samples() {
        table.insert_or_replace(&entity).wait().expect("a write");
        let (partition_key, row_key) = (entity.partition_key(), entity.row_key());
        table
            .read(partition_key, row_key, |row| {
                print(c, name, &row);
                Ok(())
            })
            .expect("a read")
            .expect("a row");
    }
}

fn print(c: &mut Criterion, name: &str, row: &EntityRef<'_>) {
    let mut group = c.benchmark_group(name);
    let mut out = Vec::new();
    for metadata in [Metadata::None, Metadata::Minimal, Metadata::Full] {
        let printer = EntityPrinter::new(CONTEXT, metadata, &Select::ALL);
        out.clear();
        printer.single(&mut out, row).expect("a sound row");
        group.throughput(Throughput::Bytes(out.len() as u64));
        group.bench_function(format!("print/{metadata:?}"), |b| {
            b.iter(|| {
                out.clear();
                printer.page_entity(&mut out, black_box(row)).expect("a sound row");
            });
        });
    }
    out.clear();
    let printer = EntityPrinter::new(CONTEXT, Metadata::Minimal, &Select::ALL);
    printer.single(&mut out, row).expect("a sound row");
    group.throughput(Throughput::Bytes(out.len() as u64));
    group.bench_function("decode", |b| b.iter(|| decode_entity(black_box(&out)).expect("JSON")));
    group.bench_function("decode/entity", |b| {
        b.iter(|| decode_entity(black_box(&out)).expect("JSON").with_own_keys());
    });
    group.finish();
}

/// A page of 1,000 small entities, from a table file to JSON.
fn page(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let database = Database::open(dir.path(), Options::default()).expect("a database");
    let table = database.create_table("t").wait().expect("a table").entities();
    let row = |at: i32| {
        Entity::new("p0000001", format!("r{at:07}"))
            .with("Name", format!("customer {at:016x}"))
            .with("Age", at % 100)
            .with("Active", at % 2 == 0)
            .with("Score", f64::from(at % 1_000) + 0.5)
            .with("Orders", i64::from(at) << 16)
            .with("Note", format!("{:016x} {at:016x}", at * 3))
    };
    table.import((0..1_000).map(row)).expect("a write");
    database.flush().expect("a flush");
    let printer = EntityPrinter::new(CONTEXT, Metadata::Minimal, &Select::ALL);
    let mut out = Vec::new();
    let mut group = c.benchmark_group("page of 1,000");
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("print", |b| {
        b.iter(|| {
            out.clear();
            let mut entities = PagePrinter::new(printer);
            table.query().visit(|row| entities.entity(&mut out, &row)).expect("a page")
        });
    });
    group.finish();
}

fn batches(c: &mut Criterion) {
    let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
    for at in 0..100 {
        write!(
            body,
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://127.0.0.1:10002/devstoreaccount1/Customers HTTP/1.1\r\n\
             accept: application/json;odata=minimalmetadata\r\nPrefer: return-no-content\r\n\
             Content-Type: application/json\r\nDataServiceVersion: 3.0\r\n\r\n\
             {{\"PartitionKey\":\"p\",\"RowKey\":\"{at}\",\"Text\":\"{}\"}}\r\n",
            "a text ".repeat(20)
        )
        .expect("memory");
    }
    body.push_str("--c--\r\n--b--\r\n");
    let mut group = c.benchmark_group("batch of 100");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("parse", |b| {
        b.iter(|| {
            batch::parse("multipart/mixed; boundary=b", black_box(body.as_bytes()), 100)
                .expect("a batch")
        });
    });
    let headers = [
        ("Cache-Control", "no-cache"),
        ("Preference-Applied", "return-no-content"),
        ("Location", "http://127.0.0.1:10002/devstoreaccount1/T(PartitionKey='p',RowKey='r')"),
        ("ETag", "W/\"datetime'2021-09-21T00%3A54%3A03.1536324Z'\""),
    ];
    group.bench_function("print", |b| {
        b.iter(|| {
            let mut writer = BatchWriter::change_set("1", "2");
            for _ in 0..100 {
                writer.begin(StatusCode::NO_CONTENT, None);
                for (name, value) in black_box(&headers) {
                    writer.header(name, value);
                }
                writer.end(b"");
            }
            writer.finish()
        });
    });
    group.finish();
}

criterion_group!(benches, entities, page, batches);
criterion_main!(benches);
