//! R-E17, R-E06, R-E11: a table loaded from rows in key order is there whole or not at all, for
//! every reader, and is from then on a table as any other.

use std::collections::BTreeMap;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use tablestone::env::SimEnv;
use tablestone::{Compression, Database, Entity, Error, Limit, OutOfOrder, Precondition};

use crate::support::model::{self, Key, TableModel, load};
use crate::support::query::check_query;
use crate::support::sim::open;
use crate::support::strategies::{config, query};
use crate::support::{Depth, TestDb, all_rows, options};

/// As many rows as fill several files with the smallest budget.
pub(super) fn rows(partitions: u8, each: u8, len: u16) -> BTreeMap<Key, Vec<u8>> {
    let keys = (0..partitions).flat_map(|p| (0..each).map(move |row| (p, row)));
    let row = |(p, row)| {
        ((model::partition_key(p), model::row_key(row)), model::value(u32::from(p), row, len))
    };
    keys.map(row).collect()
}

pub(super) fn stored(rows: &BTreeMap<Key, Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    rows.iter().map(|((pk, rk), value)| (pk.clone(), rk.clone(), value.clone())).collect()
}

proptest! {
    #![proptest_config(config(60, "proptest-regressions/load.txt"))]

    /// R-E11 to R-E15: reads of all kinds show what was loaded, then what was written over it, and
    /// snapshots what there was when they were taken.
    #[test]
    fn r_e11_a_loaded_table_reads_as_any_other(
        keys in btree_set((0u8..14, 0u8..200), 0..600),
        len in 0u16..150,
        queries in vec(query(), 1..12),
        changed in vec((0u8..14, 0u8..200), 0..20),
        depth in prop_oneof![Just(Depth::Memory), Just(Depth::Flushed), Just(Depth::Compacted)],
    ) {
        let mut db = TestDb::new();
        let key = |(p, row)| (model::partition_key(p), model::row_key(row));
        let rows: BTreeMap<Key, Vec<u8>> =
            keys.iter().map(|&(p, row)| (key((p, row)), model::value(7, row, len))).collect();
        let before = db.snapshot();
        let version = load(&db, "t", &rows).unwrap();
        let t = db.table("t").unwrap();
        let entity = |value: &Vec<u8>| model::Entity { version, value: value.clone() };
        let mut expected: TableModel =
            rows.iter().map(|(key, value)| (key.clone(), entity(value))).collect();
        queries.iter().for_each(|spec| check_query(&t, &expected, spec));
        let after = db.snapshot();
        let loaded = expected.clone();
        for &number in &changed {
            let (pk, rk) = key(number);
            // The version is the ETag, for what was loaded too (R-E05).
            let condition = match expected.get(&(pk.clone(), rk.clone())) {
                Some(entity) => Precondition::Version(entity.version),
                None => Precondition::Absent,
            };
            let version = t.replace(&pk, &rk, condition, "changed").wait().unwrap();
            let late = t.replace(&pk, &rk, condition, "too late").wait();
            let refused = matches!(
                late, Err(Error::VersionMismatch { .. } | Error::EntityExists { .. })
            );
            prop_assert!(refused, "{:?}", late);
            expected.insert((pk, rk), model::Entity { version, value: b"changed".to_vec() });
        }
        depth.settle(&db);
        for spec in &queries {
            check_query(&t, &expected, spec);
            check_query(&t.at(&after).unwrap(), &loaded, spec);
            check_query(&t.at(&before).unwrap(), &TableModel::new(), spec);
        }
        drop((before, after, t));
        db.verify().unwrap();
        db.reopen();
        let t = db.table("t").unwrap();
        queries.iter().for_each(|spec| check_query(&t, &expected, spec));
    }
}

#[test]
fn r_e11_no_snapshot_from_before_the_end_sees_any_of_it() {
    let db = TestDb::new();
    let mut loader = db.load_table("t").unwrap();
    let during = db.snapshot();
    // Another commit, so that versions go on.
    db.create_table("u").wait().unwrap();
    let late = db.snapshot();
    for n in 0..2_000u32 {
        loader.put("p", n.to_be_bytes(), [7; 40]).unwrap();
    }
    assert!(matches!(db.table("t"), Err(Error::TableNotFound(_))));
    assert_eq!(db.tables(None, 10).unwrap().names, ["u"]);
    let report = loader.finish().unwrap();
    assert_eq!((report.rows, report.bytes), (2_000, 2_000 * 45));
    assert!(report.version <= during.version(), "its rows are older than they can be seen");
    let t = db.table("t").unwrap();
    assert_eq!(all_rows(&t).len(), 2_000);
    for snapshot in [&during, &late] {
        let then = t.at(snapshot).unwrap();
        assert!(all_rows(&then).is_empty());
        assert!(!then.exists("p", 7u32.to_be_bytes()).unwrap());
        assert_eq!(then.get_many("p", &[7u32.to_be_bytes()]).unwrap(), [None]);
    }
    assert_eq!(t.get("p", 7u32.to_be_bytes()).unwrap().unwrap().version, report.version);
    assert_eq!(all_rows(&t.at(&db.snapshot()).unwrap()).len(), 2_000);
}

#[test]
fn r_e23_each_byte_is_written_once() {
    let db = TestDb::new();
    let rows = rows(14, 250, 100);
    let logical: usize = rows.iter().map(|((p, r), value)| p.len() + r.len() + value.len()).sum();
    load(&db, "t", &rows).unwrap();
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!((stats.loads, stats.levels[0].files), (1, 0));
    let written = stats.load_bytes as f64 / logical as f64;
    assert!((0.3..1.1).contains(&written), "{written} bytes for each");
    assert!(stats.log_bytes < 200, "rows are not in the log: {}", stats.log_bytes);
    let load_bytes = stats.load_bytes;
    let files: u64 = stats.levels.iter().map(|level| level.bytes).sum();
    assert!(files <= load_bytes + 2_000, "{files} bytes of files");

    let db = TestDb::new();
    load(&db, "t", &rows).unwrap();
    let stats = db.stats();
    assert_eq!((stats.flushes, stats.compactions, stats.compaction_debt_bytes), (0, 0, 0));
    assert!(stats.levels[1..].iter().filter(|level| level.files > 0).count() > 1, "{stats:?}");
}

#[test]
fn r_e06_a_row_out_of_order_is_refused_and_says_where_and_after_what() {
    let db = TestDb::new();
    let mut loader = db.load_table("t").unwrap();
    let out_of_order =
        |result: Result<(), Error>, index, after: (&str, &str), found: (&str, &str)| {
            let Err(Error::OutOfOrder(error)) = result else { panic!("{result:?}") };
            let key = |(pk, rk): (&str, &str)| (pk.as_bytes().to_vec(), rk.as_bytes().to_vec());
            assert_eq!(*error, OutOfOrder { index, after: key(after), found: key(found) });
        };
    loader.put("b", "2", "").unwrap();
    out_of_order(loader.put("b", "2", "again"), 1, ("b", "2"), ("b", "2"));
    out_of_order(loader.put("b", "1", ""), 1, ("b", "2"), ("b", "1"));
    out_of_order(loader.put("b", "", ""), 1, ("b", "2"), ("b", ""));
    out_of_order(loader.put("a", "3", ""), 1, ("b", "2"), ("a", "3"));
    loader.put("b\0", "", "").unwrap();
    loader.put("b\0", "\0\x01", "").unwrap();
    out_of_order(loader.put("b\0", "\0", ""), 3, ("b\0", "\0\x01"), ("b\0", "\0"));
    out_of_order(loader.put("b", "9", ""), 3, ("b\0", "\0\x01"), ("b", "9"));
    let error = loader.put("b", "9", "").unwrap_err().to_string();
    assert_eq!(error, r"row 3 to load: expected keys after (b\x00, \x00\x01), found (b, 9)");
    loader.finish().unwrap();
    assert_eq!(all_rows(&db.table("t").unwrap()).len(), 3);
    // A caller who stops at the error loads nothing.
    let load = || {
        let mut loader = db.load_table("u")?;
        loader.put("a", "2", "")?;
        loader.put("a", "1", "")?;
        loader.finish()
    };
    assert!(matches!(load(), Err(Error::OutOfOrder(_))));
    assert!(matches!(db.table("u"), Err(Error::TableNotFound(_))));
}

#[test]
fn r_e06_limits_are_those_of_every_write() {
    let db = TestDb::with(options().value_bytes(1000));
    let mut loader = db.load_table("t").unwrap();
    let long = "k".repeat(2049);
    let limit = |result: Result<(), Error>| match result {
        Err(Error::LimitExceeded { what, size, limit, .. }) => (what, size, limit),
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(loader.put(&long, "r", "")), (Limit::PartitionKey, 2049, 2048));
    assert_eq!(limit(loader.put("p", &long, "")), (Limit::RowKey, 2049, 2048));
    assert_eq!(limit(loader.put("p", "r", [0; 1001])), (Limit::Value, 1001, 1000));
    loader.put(&long[1..], &long[1..], [0; 1000]).unwrap();
    loader.finish().unwrap();
    assert!(db.table("t").unwrap().exists(&long[1..], &long[1..]).unwrap());
    assert!(matches!(db.load_table(""), Err(Error::InvalidArgument(_))));
    let name = db.load_table(&"t".repeat(513)).unwrap_err();
    assert!(matches!(name, Error::LimitExceeded { what: Limit::TableName, .. }));
}

#[test]
fn r_d04_entities_are_checked_as_in_every_write() {
    let db = TestDb::new();
    let mut loader = db.load_table("people").unwrap();
    loader.put_entity(&Entity::new("Sales", "1").with("Age", 34)).unwrap();
    let broken = loader.put_entity(&Entity::new("Sales", "2").with("not a name", 1));
    assert!(matches!(broken, Err(Error::Entity { index: 1, .. })), "{broken:?}");
    loader.put_entity(&Entity::new("Sales", "3").with("Age", 35)).unwrap();
    loader.finish().unwrap();
    let people = db.table("people").unwrap().entities();
    assert_eq!(people.get("Sales", "3").unwrap().unwrap().get_as("Age"), Some(35));
    assert_eq!(people.get("Sales", "2").unwrap(), None);
}

#[test]
fn r_e17_a_name_that_is_taken_is_refused_at_the_beginning_and_at_the_end() {
    let mut db = TestDb::new();
    drop(db.t());
    assert!(matches!(db.load_table("t"), Err(Error::TableExists(name)) if &*name == "t"));
    let rows = rows(5, 200, 80);
    let mut loader = db.load_table("u").unwrap();
    rows.iter().for_each(|((pk, rk), value)| loader.put(pk, rk, value).unwrap());
    let u = db.create_table("u").wait().unwrap();
    u.insert("p", "r", "first").wait().unwrap();
    assert!(matches!(loader.finish(), Err(Error::TableExists(name)) if &*name == "u"));
    assert_eq!(all_rows(&u), [(b"p".to_vec(), b"r".to_vec(), b"first".to_vec())]);
    drop(u);
    for _ in 0..2 {
        db.compact().unwrap();
        let stats = db.stats();
        let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
        assert!(entries < 10 && stats.range_tombstones == 0, "space is given back: {stats:?}");
        db.reopen();
    }
    // R-E04: an entity's version grows over delete and re-insert, and those of a load are of its beginning.
    for depth in Depth::ALL {
        let mut loader = db.load_table("w").unwrap();
        loader.put("p", "r", "loaded").unwrap();
        let w = db.create_table("w").wait().unwrap();
        w.insert("p", "r", "inserted").wait().unwrap();
        db.drop_table("w").wait().unwrap();
        // What says so in the catalog may be gone.
        depth.settle(&db);
        let finished = loader.finish();
        assert!(matches!(finished, Err(Error::TableExists(_))), "{depth:?}: {finished:?}");
        assert!(matches!(db.table("w"), Err(Error::TableNotFound(_))));
    }
    load(&db, "w", &rows).unwrap();
    // Of two loads of a name one wins.
    let (mut first, mut second) = (db.load_table("v").unwrap(), db.load_table("v").unwrap());
    first.put("p", "r", "first").unwrap();
    second.put("p", "r", "second").unwrap();
    second.finish().unwrap();
    assert!(matches!(first.finish(), Err(Error::TableExists(_))));
    assert_eq!(db.table("v").unwrap().get("p", "r").unwrap().unwrap().value, b"second");
}

#[test]
fn r_e17_a_loaded_table_is_dropped_and_created_again_as_any_other() {
    let mut db = TestDb::new();
    let rows = rows(14, 200, 60);
    for round in 0..4 {
        load(&db, "t", &rows).unwrap();
        assert_eq!(all_rows(&db.table("t").unwrap()), stored(&rows), "{round}");
        db.drop_table("t").wait().unwrap();
        assert!(all_rows(&db.t()).is_empty());
        db.drop_table("t").wait().unwrap();
        if round % 2 == 1 {
            db.reopen();
        }
    }
    db.compact().unwrap();
    let stats = db.stats();
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    assert!(entries < 10 && stats.range_tombstones == 0, "{stats:?}");
}

#[test]
fn a_load_of_nothing_is_an_empty_table() {
    let mut db = TestDb::new();
    assert_eq!(db.load_table("t").unwrap().finish().unwrap().rows, 0);
    assert!(all_rows(&db.table("t").unwrap()).is_empty());
    db.reopen();
    assert!(all_rows(&db.table("t").unwrap()).is_empty());
}

/// Tables with ids before and after, written, flushed and compacted while a table is loaded: files
/// must stay disjoint, now and at the next opening.
#[test]
fn r_e01_loads_go_on_beside_each_other_and_beside_everything_else() {
    let mut db = TestDb::new();
    let before = db.create_table("before").wait().unwrap();
    let rows = rows(14, 150, 90);
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (db, rows) = (&db, &rows);
            scope.spawn(move || {
                for round in 0..4 {
                    let mut loader = db.load_table(&format!("load {n} {round}")).unwrap();
                    let after = db.create_table(&format!("after {n} {round}")).wait().unwrap();
                    for (at, ((pk, rk), value)) in rows.iter().enumerate() {
                        loader.put(pk, rk, value).unwrap();
                        if at % 7 == 0 {
                            after.upsert(pk, rk, &value[..]).wait().unwrap();
                        }
                        if at % 900 == 800 {
                            db.flush().unwrap();
                        }
                    }
                    loader.finish().unwrap();
                }
            });
        }
        let (db, before) = (&db, &before);
        scope.spawn(move || {
            for n in 0..3_000u32 {
                before.upsert([n as u8], n.to_be_bytes(), [3; 60]).wait().unwrap();
                if n % 1_000 == 999 {
                    db.compact().unwrap();
                }
            }
        });
    });
    drop(before);
    for _ in 0..2 {
        for (n, round) in (0..2).flat_map(|n| (0..4).map(move |round| (n, round))) {
            let loaded = db.table(&format!("load {n} {round}")).unwrap();
            assert_eq!(all_rows(&loaded), stored(&rows));
            let after = db.table(&format!("after {n} {round}")).unwrap();
            assert_eq!(all_rows(&after).len(), rows.len().div_ceil(7));
        }
        assert_eq!(all_rows(&db.table("before").unwrap()).len(), 3_000);
        db.verify().unwrap();
        db.reopen();
    }
}

/// A compaction that was chosen while a table was being loaded, and has keys on both sides of it: the load does
/// not wait for it, and what it writes later does not lie across the table's files (R-E01).
#[test]
fn r_e24_a_load_waits_for_no_compaction_across_its_keys() {
    let env = SimEnv::new(5);
    let db = open(&env).unwrap();
    let before = db.create_table("before").wait().unwrap();
    let rows = rows(2, 100, 60);
    let mut loader = db.load_table("t").unwrap();
    rows.iter().for_each(|((pk, rk), value)| loader.put(pk, rk, value).unwrap());
    let after = db.create_table("after").wait().unwrap();
    for n in 0..4u8 {
        for table in [&before, &after] {
            for row in [0, 4 + n, 9] {
                table.upsert("p", [row], [n]).wait().unwrap();
            }
        }
        // From here on nothing in level 0 can move as it is.
        if n == 0 { db.compact() } else { db.flush() }.unwrap();
    }
    assert_eq!(db.stats().compactions, 1, "the simulated machine runs no job by itself");
    loader.finish().unwrap();
    assert_eq!(all_rows(&db.table("t").unwrap()), stored(&rows));
    assert_eq!(db.stats().compactions, 1, "nothing was waited for");
    env.run_all();
    assert!(db.stats().compactions > 1);
    let check = |db: &Database| {
        assert_eq!(all_rows(&db.table("t").unwrap()), stored(&rows));
        for name in ["before", "after"] {
            assert_eq!(all_rows(&db.table(name).unwrap()).len(), 6);
        }
        db.verify().unwrap();
    };
    check(&db);
    drop((before, after, db));
    check(&open(&env).unwrap());
}

/// What of a table is loaded beyond the memory budget is compressed, so that its space is bounded.
#[test]
fn a_large_table_is_loaded_compressed() {
    let db = TestDb::with(options().compression(Compression::Automatic));
    let mut loader = db.load_table("t").unwrap();
    for row in 0..10_000u32 {
        loader.put("p", row.to_be_bytes(), [7; 90]).unwrap();
    }
    loader.finish().unwrap();
    let stored = db.stats().file_bytes();
    assert!((64 << 10..2 * (64 << 10) + 1_000_000 / 4).contains(&stored), "{stored}");
    assert_eq!(all_rows(&db.table("t").unwrap()).len(), 10_000);
}
