//! Bulk import over many partitions: the last of equal keys wins, all of it is there, also after
//! a restart.

use tablestone::Precondition;

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
