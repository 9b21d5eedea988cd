//! R-E03: a table or a partition has no cost of its own, however many rows it has or has not.

use crate::support::model::value;
use crate::support::{TestDb, all_rows};

#[test]
fn r_e03_one_row_partitions_take_the_space_of_rows() {
    let space = |key: fn(u32) -> (Vec<u8>, Vec<u8>)| {
        let db = TestDb::new();
        let t = db.t();
        t.import((0..20_000u32).map(|n| {
            let (pk, rk) = key(n);
            (pk, rk, value(n, 0, 40))
        }))
        .unwrap();
        db.compact().unwrap();
        assert_eq!(all_rows(&t).len(), 20_000);
        db.stats().file_bytes()
    };
    let partitions = space(|n| (n.to_be_bytes().to_vec(), b"row".to_vec()));
    let rows = space(|n| (b"row".to_vec(), n.to_be_bytes().to_vec()));
    assert!(
        partitions < rows + rows / 3,
        "{partitions} bytes as partitions, {rows} as rows of one partition"
    );
}

#[test]
fn r_e03_a_partition_is_spread_over_many_files() {
    let db = TestDb::new();
    let t = db.t();
    t.import((0..5000u32).map(|n| ("the one", n.to_be_bytes(), value(n, 0, 60)))).unwrap();
    db.compact().unwrap();
    let files: u64 = db.stats().levels.iter().map(|level| level.files).sum();
    assert!(files > 10, "{files} files");
    assert_eq!(t.query().partition("the one").page().unwrap().len(), 1000);
}

#[test]
fn r_e03_a_table_costs_its_entry_in_the_catalog() {
    const TABLES: u32 = 5000;
    let mut db = TestDb::new();
    let name = |n: u32| format!("table number {n:05}");
    for n in 0..TABLES {
        drop(db.create_table(&name(n)).wait().unwrap());
    }
    db.compact().unwrap();
    let stats = db.stats();
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, u64::from(TABLES) + 1);
    let each = stats.file_bytes() / u64::from(TABLES);
    assert!(each < 60, "{each} bytes for each table");
    db.reopen();
    assert!(db.recovery_report().replayed_commits < 1000);
    let mut from = None;
    let mut listed = 0;
    loop {
        let list = db.tables(from.as_deref(), 777).unwrap();
        listed += list.names.len();
        from = list.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(listed, TABLES as usize);
    let last = db.table(&name(TABLES - 1)).unwrap();
    last.insert("p", "r", "v").wait().unwrap();
    assert!(db.table(&name(7)).unwrap().get("p", "r").unwrap().is_none());
}
