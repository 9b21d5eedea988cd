//! Bulk import over many partitions: the last of equal keys wins, all of it is there, also after
//! a restart.

use std::sync::Arc;

use tablestone::env::SimEnv;
use tablestone::{Database, Precondition};

use crate::support::{Depth, TestDb, all_rows, options};

#[test]
fn import_stores_rows_of_many_partitions_and_reports() {
    let mut db = TestDb::new();
    let t = db.t();
    let rows = || (0..5000u32).map(|n| ((n % 97).to_be_bytes(), n.to_be_bytes(), vec![7; 30]));
    let report = t.import(rows()).unwrap();
    assert_eq!((report.rows, report.bytes), (5000, 5000 * 38));
    let mut expected: Vec<_> =
        rows().map(|(pk, rk, value)| (pk.to_vec(), rk.to_vec(), value)).collect();
    expected.sort();
    assert!(all_rows(&t) == expected);
    drop(t);
    db.reopen();
    assert!(all_rows(&db.t()) == expected);
    let newest = db.t().query().page().unwrap().iter().map(|row| row.version).max().unwrap();
    assert!(newest <= report.version);
}

#[test]
fn import_replaces_and_of_equal_keys_the_last_wins() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        t.insert("p", "a", "old").wait().unwrap();
        t.insert("p", "b", "kept").wait().unwrap();
        depth.settle(&db);
        t.import([("p", "a", "1"), ("q", "a", "2"), ("p", "a", "3"), ("q", "a", "4")]).unwrap();
        depth.settle(&db);
        let text = |(pk, rk, v): (Vec<u8>, Vec<u8>, Vec<u8>)| {
            [pk, rk, v].map(|part| String::from_utf8(part).unwrap()).join(" ")
        };
        let rows: Vec<_> = all_rows(&t).into_iter().map(text).collect();
        assert_eq!(rows, ["p a 3", "p b kept", "q a 4"], "{depth:?}");
    }
}

#[test]
fn import_of_nothing_does_nothing() {
    let db = TestDb::new();
    let report = db.t().import(Vec::<(&str, &str, &str)>::new()).unwrap();
    assert_eq!((report.rows, report.bytes), (0, 0));
}

#[test]
fn import_beside_other_writers_loses_nothing() {
    let db = TestDb::with(options().memory_budget(256 << 10));
    let t = db.t();
    std::thread::scope(|scope| {
        for n in 0..2u8 {
            let t = t.clone();
            scope.spawn(move || {
                t.import((0..20_000u32).map(|k| ([n, k as u8], k.to_be_bytes(), [n; 60]))).unwrap();
            });
        }
        let t = t.clone();
        scope.spawn(move || {
            for k in 0..300u32 {
                t.insert("other", k.to_be_bytes(), "").wait().unwrap();
                t.delete("other", k.to_be_bytes(), Precondition::Exists).wait().unwrap();
            }
        });
    });
    assert_eq!(all_rows(&t).len(), 40_000);
}

/// Commits of an import that are held up by overload are not overtaken by later ones.
#[test]
fn r_e24_the_last_of_equal_keys_wins_under_overload_too() {
    // Rows of a kibibyte, so that each commit of a mebibyte takes as many. Every other row has a
    // key that the next commit has too, and the others one that the commit before had.
    const EACH: u16 = 1024;
    const COMMITS: u8 = 12;
    let env = SimEnv::new(1);
    let database = Database::open("db", options().env(Arc::new(env.clone()))).unwrap();
    let t = database.create_table("t").wait().unwrap();
    let row = &|commit: u8, i: u16| {
        if i.is_multiple_of(100) {
            // Flushes what holds an earlier commit up, before anybody waits for that one.
            env.run_all();
        }
        let partition = if i.is_multiple_of(2) { [0, commit / 2] } else { [1, commit.div_ceil(2)] };
        (partition, i.to_be_bytes(), vec![commit; 1020])
    };
    t.import((0..COMMITS).flat_map(|commit| (0..EACH).map(move |i| row(commit, i)))).unwrap();
    let stored = all_rows(&t);
    assert_eq!(stored.len(), usize::from(COMMITS + 1) * usize::from(EACH) / 2);
    for (partition, row, value) in stored {
        let last = 2 * partition[1] + 1 - partition[0];
        assert_eq!(value[0], last.min(COMMITS - 1), "{partition:?} {row:?}");
    }
}
