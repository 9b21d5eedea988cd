//! A directory is the same for every machine: of any order of bytes, and of 32 bits or 64.
//!
//! Every run finds what those before left in the directory that `TABLESTONE_TEST_DIRECTORY` names, which may be those of
//! another target's tests, checks all of it, and leaves something of everything that a directory has. Without it there
//! are two runs in a directory of the test's own.

use std::ops::Range;
use std::path::Path;

use tablestone::{
    Batch, Compression, Database, DateTime, Entity, Guid, Options, Precondition, Table,
};

const LARGE: usize = 200_000;

fn options() -> Options {
    Options::default().memory_budget(1 << 20).compression(Compression::Zstd(1))
}

/// A value of that length, which says whose it is.
fn value(run: usize, row: usize, len: usize) -> Vec<u8> {
    let mut value = format!("run {run}, row {row}: ").into_bytes();
    let mask = if row.is_multiple_of(2) { 255 } else { 3 };
    let noise = |at: u32| (at.wrapping_mul(0x9E37_79B9) >> 11) as u8 & mask;
    value.extend((0..len as u32).map(noise));
    value
}

fn row_key(row: usize) -> String {
    format!("{row:05}")
}

fn put(table: &Table, run: usize, rows: Range<usize>, len: usize) {
    for partition in ["a", "deleted", "ranges"] {
        for part in rows.clone().step_by(20) {
            let mut batch = Batch::new(format!("{partition}{run}"));
            for row in part..rows.end.min(part + 20) {
                batch.upsert(row_key(row), value(run, row, len));
            }
            table.commit(batch).wait().unwrap();
        }
    }
}

fn everything(run: usize) -> Entity {
    Entity::new(format!("päñ{run}"), "\u{1}\u{10FFFF}")
        .with("String", "𝒳".repeat(100))
        .with("Binary", vec![0xFF; 1_000])
        .with("Boolean", true)
        .with("DateTimeMin", DateTime::MIN)
        .with("DateTimeMax", DateTime::MAX)
        .with("Double", -0.1)
        .with("Guid", Guid::from_bytes(*b"0123456789abcdef"))
        .with("Int32", i32::MIN + run as i32)
        .with("Int64", i64::MIN + run as i64)
}

/// Leaves what the run with that number leaves: some in files, some in the log.
fn leave(database: &Database, run: usize) {
    let rows = database.create_table_if_missing("rows").wait().unwrap();
    let entities = database.create_table_if_missing("entities").wait().unwrap().entities();
    put(&rows, run, 0..2_000, 300);
    database.compact().unwrap();
    for row in 0..10 {
        rows.insert(format!("large{run}"), row_key(row), value(run, row, LARGE)).wait().unwrap();
    }
    put(&rows, run, 1_000..2_500, 40);
    database.flush().unwrap();
    rows.delete_partition(format!("deleted{run}")).wait().unwrap();
    rows.delete_range(format!("ranges{run}"), row_key(100)..row_key(1_200)).wait().unwrap();
    database.flush().unwrap();
    entities.insert(&everything(run)).wait().unwrap();
    for row in (0..10).step_by(3) {
        rows.delete(format!("large{run}"), row_key(row), Precondition::Exists).wait().unwrap();
    }
    let append = |old: Option<&[u8]>| Ok([old.unwrap_or_default(), b"merged"].concat());
    rows.merge(format!("a{run}"), row_key(7), Precondition::Exists, append).wait().unwrap();
    rows.delete_range(format!("ranges{run}"), row_key(2_000)..row_key(2_400)).wait().unwrap();
    database.create_table(&format!("dropped{run}")).wait().unwrap();
    database.drop_table(&format!("dropped{run}")).wait().unwrap();
    rows.upsert("runs", row_key(run), run.to_string()).wait().unwrap();
}

/// The rows of a partition as they are, by pages in either direction, and one by one.
fn check(table: &Table, partition: &str, expected: &[(String, Vec<u8>)]) {
    let query = || table.query().partition(partition);
    let read = |query: tablestone::Query| {
        let rows = query.keyed_rows().map(|row| row.unwrap());
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        rows.map(|row| (text(&row.row_key), row.value.to_vec())).collect::<Vec<_>>()
    };
    assert!(read(query()) == expected, "{partition}");
    let reversed: Vec<_> = expected.iter().rev().cloned().collect();
    assert!(read(query().reverse()) == reversed, "{partition} in reverse");
    for (row_key, value) in expected.iter().step_by(7) {
        assert!(*table.get(partition, row_key).unwrap().unwrap().value == **value, "{row_key}");
    }
    let keys: Vec<_> = (0..2_600).step_by(3).map(row_key).collect();
    for (key, found) in keys.iter().zip(table.get_many(partition, &keys).unwrap()) {
        let there = expected.binary_search_by(|(row_key, _)| row_key.cmp(key)).is_ok();
        assert_eq!(found.is_some(), there, "{partition} {key}");
    }
}

fn check_run(database: &Database, run: usize) {
    let table = database.table("rows").unwrap();
    let small = |row: usize| {
        let mut value = value(run, row, if row < 1_000 { 300 } else { 40 });
        if row == 7 {
            value.extend(b"merged");
        }
        (row_key(row), value)
    };
    let plain = |row: usize| (row_key(row), value(run, row, if row < 1_000 { 300 } else { 40 }));
    let is_left = |row: &usize| !(100..1_200).contains(row) && !(2_000..2_400).contains(row);
    check(&table, &format!("a{run}"), &(0..2_500).map(small).collect::<Vec<_>>());
    check(&table, &format!("deleted{run}"), &[]);
    check(
        &table,
        &format!("ranges{run}"),
        &(0..2_500).filter(is_left).map(plain).collect::<Vec<_>>(),
    );
    let large =
        (0..10).filter(|row| row % 3 != 0).map(|row| (row_key(row), value(run, row, LARGE)));
    check(&table, &format!("large{run}"), &large.collect::<Vec<_>>());
    let expected = everything(run);
    let entities = database.table("entities").unwrap().entities();
    let found = entities.get(expected.partition_key(), expected.row_key()).unwrap().unwrap();
    assert!(found.properties().eq(expected.properties()));
    let filter = format!("Int64 eq {}L and Boolean", i64::MIN + run as i64).parse().unwrap();
    assert_eq!(entities.query().filter(filter).entities().count(), 1);
    assert!(database.table(&format!("dropped{run}")).is_err());
}

/// Checks what other runs left, and leaves as much.
fn run(dir: &Path) {
    let database = Database::open(dir, options()).unwrap();
    let runs = match database.table("rows") {
        Ok(table) => table.query().partition("runs").keyed_rows().count(),
        Err(_) => 0,
    };
    database.verify().unwrap();
    (0..runs).for_each(|run| check_run(&database, run));
    leave(&database, runs);
    database.close().unwrap();
    let database = Database::open(dir, options()).unwrap();
    (0..=runs).for_each(|run| check_run(&database, run));
    database.verify().unwrap();
}

/// R-E13, R-E22
#[test]
fn what_other_machines_left_is_there() {
    match std::env::var_os("TABLESTONE_TEST_DIRECTORY") {
        Some(dir) => run(dir.as_ref()),
        None => {
            let dir = tempfile::tempdir().unwrap();
            (0..2).for_each(|_| run(dir.path()));
        }
    }
}
