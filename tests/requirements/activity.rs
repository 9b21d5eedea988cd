//! R-E23, X-22: operations, rows and bytes of each table, and of all.

use tablestone::{Activity, Batch, Database, Options, Precondition, Result, Table, Version};

use crate::support::TestDb;

/// What was done between two readings: reads, rows, bytes, examined; writes, rows, bytes, failed.
fn since(now: Activity, before: Activity) -> ([u64; 4], [u64; 4]) {
    (
        [
            now.reads - before.reads,
            now.rows_read - before.rows_read,
            now.bytes_read - before.bytes_read,
            now.examined - before.examined,
        ],
        [
            now.writes - before.writes,
            now.rows_written - before.rows_written,
            now.bytes_written - before.bytes_written,
            now.failed_writes - before.failed_writes,
        ],
    )
}

/// What `act` did of the table's activity.
fn of(table: &Table, act: impl FnOnce()) -> ([u64; 4], [u64; 4]) {
    let before = table.activity();
    act();
    since(table.activity(), before)
}

const NOTHING: [u64; 4] = [0; 4];

#[test]
fn r_e23_each_kind_of_write_is_counted() {
    let db = TestDb::new();
    let t = db.t();
    let written = |act: &dyn Fn() -> Result<Version>| {
        let (reads, writes) = of(&t, || drop(act()));
        assert_eq!(reads, NOTHING);
        writes
    };
    assert_eq!(written(&|| t.insert("pk", "r1", "12345").wait()), [1, 1, 9, 0]);
    assert_eq!(written(&|| t.insert("pk", "r1", "12345").wait()), [0, 0, 0, 1]);
    let merge = |old: Option<&[u8]>| Ok([old.unwrap_or_default(), b"67"].concat());
    let merged = || t.merge("pk", "r1", Precondition::Exists, merge).wait();
    assert_eq!(written(&merged), [1, 1, 11, 0]);
    let refused = || t.delete("pk", "r9", Precondition::Exists).wait();
    assert_eq!(written(&refused), [0, 0, 0, 1]);
    let batch = || {
        let mut batch = Batch::new("pk");
        batch.upsert("r2", "abc").delete("r1", Precondition::None);
        t.commit(batch).wait()
    };
    assert_eq!(written(&batch), [1, 2, 4 + 3 + 4, 0]);
    let rows = [("a", "1", "x"), ("b", "1", "y"), ("a", "1", "z")];
    let import = || t.import(rows).map(|report| report.version);
    assert_eq!(written(&import), [1, 2, 6, 0], "of equal keys the last is stored");
    assert_eq!(written(&|| t.delete_partition("a").wait()), [1, 0, 0, 0]);
    assert_eq!(written(&|| t.commit(Batch::new("pk")).wait()), NOTHING);
}

#[test]
fn r_e23_each_kind_of_read_is_counted() {
    let db = TestDb::new();
    let t = db.t();
    t.import((0..10u8).map(|n| ("pk", [b'0' + n], "abc"))).unwrap();
    let read = |act: &dyn Fn()| {
        let (reads, writes) = of(&t, act);
        assert_eq!(writes, NOTHING);
        reads
    };
    assert_eq!(read(&|| drop(t.get("pk", "3").unwrap())), [1, 1, 6, 0]);
    assert_eq!(read(&|| drop(t.get("pk", "x").unwrap())), [1, 0, 0, 0]);
    assert_eq!(read(&|| assert!(t.exists("pk", "3").unwrap())), [1, 1, 3, 0]);
    assert_eq!(read(&|| drop(t.get_many("pk", &["1", "x", "2"]).unwrap())), [1, 2, 12, 0]);
    assert_eq!(
        read(&|| drop(t.query().partition("pk").rows("2".."6").page().unwrap())),
        [1, 4, 24, 4]
    );
    let filtered = || drop(t.query().filter(|row| row.row_key == b"7").page().unwrap());
    assert_eq!(read(&filtered), [1, 1, 6, 10]);
    let lent = || drop(t.query().limit(4).visit(|_| {}).unwrap());
    assert_eq!(read(&lent)[..3], [1, 4, 24]);
    let projected = || drop(t.query().project(|_, _| {}).page().unwrap());
    assert_eq!(read(&projected), [1, 10, 60, 10], "bytes are those that are stored");
    let old = t.at(&db.snapshot()).unwrap();
    assert_eq!(read(&|| drop(old.get("pk", "3").unwrap())), [1, 1, 6, 0]);
}

#[test]
fn r_e23_tables_are_told_apart_and_their_sum_only_grows() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), Options::default()).unwrap();
    let activity = || db.stats().activity;
    assert_eq!(activity(), Activity::default(), "the catalog is no table of the user's");
    let (a, b) = (db.create_table("a").wait().unwrap(), db.create_table("b").wait().unwrap());
    a.insert("pk", "rk", "").wait().unwrap();
    db.table("a").unwrap().get("pk", "rk").unwrap();
    b.get("pk", "rk").unwrap();
    let (of_a, of_b) = (a.activity(), b.activity());
    assert_eq!((of_a.writes, of_a.reads, of_a.rows_read), (1, 1, 1), "of all handles");
    assert_eq!((of_b.writes, of_b.reads, of_b.rows_read), (0, 1, 0));
    assert_eq!((activity().writes, activity().reads), (1, 2));
    // Neither a drop nor the end of the last handle takes anything from the sum, however many follow.
    db.drop_table("b").wait().unwrap();
    drop((a, b));
    for n in 1..=100 {
        let name = format!("t{n}");
        let table = db.create_table(&name).wait().unwrap();
        table.insert("pk", "rk", "").wait().unwrap();
        drop(table);
        db.drop_table(&name).wait().unwrap();
        assert_eq!((activity().writes, activity().reads), (1 + n, 2));
    }
    assert_eq!(db.table("a").unwrap().activity(), Activity::default(), "counts of new handles");
}
