//! R-E17, R-E06, R-E11: a table loaded from rows in key order is there whole or not at all, for
//! every reader, and is from then on a table as any other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};
use tablestone::{
    Compression, Database, Durability, Entity, Error, Limit, Options, OutOfOrder, Precondition,
    Recovery,
};

use crate::support::model::{self, Key, Model, TableModel, check_all, check_query, load};
use crate::support::sim::{CRASH_STYLES, DIR, open, sim_options};
use crate::support::strategies::{config, query};
use crate::support::{Depth, TestDb, all_rows, options};

/// As many rows as fill several files with the smallest budget.
fn rows(partitions: u8, each: u8, len: u16) -> BTreeMap<Key, Vec<u8>> {
    let keys = (0..partitions).flat_map(|p| (0..each).map(move |row| (p, row)));
    let row = |(p, row)| {
        ((model::partition_key(p), model::row_key(row)), model::value(u32::from(p), row, len))
    };
    keys.map(row).collect()
}

fn stored(rows: &BTreeMap<Key, Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
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

fn table_files(env: &SimEnv) -> usize {
    env.list(Path::new(DIR)).iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn r_e17_an_abandoned_load_leaves_nothing() {
    let env = SimEnv::new(3);
    let db = open(&env).unwrap();
    let rows = rows(14, 200, 100);
    let mut loader = db.load_table("t").unwrap();
    rows.iter().for_each(|((pk, rk), value)| loader.put(pk, rk, value).unwrap());
    env.run_all();
    assert!(table_files(&env) > 3, "rows go straight into files");
    drop(loader);
    env.run_all();
    assert_eq!(table_files(&env), 0);
    assert!(db.tables(None, 10).unwrap().names.is_empty());
    // The name is free.
    load(&db, "t", &rows).unwrap();
    assert_eq!(all_rows(&db.table("t").unwrap()), stored(&rows));
}

#[test]
fn r_e06_a_loader_that_outlives_its_database_says_so() {
    for durability in [Durability::Sync, Durability::Os] {
        let env = SimEnv::new(3);
        let options = sim_options(&env).durability(durability);
        let db = Database::open(DIR, options.clone()).unwrap();
        let (mut putting, mut finishing) =
            (db.load_table("t").unwrap(), db.load_table("u").unwrap());
        for n in 0..3_000u32 {
            putting.put("p", n.to_be_bytes(), [1; 50]).unwrap();
            finishing.put("p", n.to_be_bytes(), [1; 50]).unwrap();
        }
        db.close().unwrap();
        assert!(matches!(putting.put("q", "r", ""), Err(Error::Closed)));
        assert!(matches!(putting.finish(), Err(Error::Closed)));
        assert!(matches!(finishing.finish(), Err(Error::Closed)));
        let db = Database::open(DIR, options).unwrap();
        env.run_all();
        assert!(db.tables(None, 10).unwrap().names.is_empty());
        assert_eq!(table_files(&env), 0, "{durability:?}");
    }
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

/// A failure of any operation on the disk: the load is there whole or not at all, nothing else is
/// lost, and the database goes on.
#[test]
fn r_e10_any_single_failure_while_loading_is_an_error_and_no_part_of_a_table() {
    let operations = [Operation::Create, Operation::Open, Operation::Write, Operation::Sync];
    let operations = operations.into_iter().chain([Operation::SyncDir, Operation::Rename]);
    let rows = rows(8, 200, 60);
    let mut refused = 0;
    for (on, after) in operations.flat_map(|on| (0..30).map(move |n| (on, n * 2))) {
        let env = SimEnv::new(after);
        let db = open(&env).unwrap();
        let other = db.create_table("other").wait().unwrap();
        other.insert("p", "r", "v").wait().unwrap();
        env.fail(Fault {
            on,
            path_contains: "".into(),
            kind: std::io::ErrorKind::StorageFull,
            after,
            times: 1,
        });
        let loaded = load(&db, "t", &rows);
        env.clear_faults();
        env.run_all();
        assert_eq!(all_rows(&other).len(), 1);
        match (&loaded, db.stats().poisoned) {
            (Ok(_), _) => assert_eq!(all_rows(&db.table("t").unwrap()), stored(&rows)),
            (Err(error), None) => {
                refused += 1;
                assert!(matches!(error, Error::Io(_)), "{error:?}");
                assert!(matches!(db.table("t"), Err(Error::TableNotFound(_))));
                other.insert("p", "s", "v").wait().unwrap();
                load(&db, "u", &rows).unwrap();
            }
            (Err(error), Some(_)) => {
                let at_the_log = matches!(error, Error::Poisoned(_) | Error::OutcomeUnknown(_));
                assert!(at_the_log, "{error:?}");
            }
        }
        drop((other, db));
        let db = open(&env).unwrap();
        match db.table("t") {
            Ok(t) => assert_eq!(all_rows(&t), stored(&rows), "{on:?} {after}"),
            Err(Error::TableNotFound(_)) => assert!(loaded.is_err(), "{on:?} {after}"),
            Err(other) => panic!("{other}"),
        }
        db.verify().unwrap();
    }
    assert!(refused > 20, "{refused}");
}

/// Power loss at every operation of a load: the whole table or nothing, and then no more space than
/// what is there takes.
#[test]
fn r_e17_power_loss_while_loading_leaves_the_whole_table_or_nothing() {
    let rows = rows(12, 150, 70);
    let run = |env: &SimEnv, options: Options, flushes| -> Result<bool, Error> {
        let db = Database::open(DIR, options)?;
        let before = db.create_table("before").wait()?;
        before.insert("p", "r", "v").wait()?;
        let mut loader = db.load_table("t")?;
        let after = db.create_table("after").wait()?;
        for (at, ((pk, rk), value)) in rows.iter().enumerate() {
            loader.put(pk, rk, value)?;
            if at % 100 == 0 {
                after.upsert(pk, rk, "").wait()?;
                env.step();
            }
        }
        if flushes {
            db.flush()?;
        }
        loader.finish()?;
        Ok(true)
    };
    let mut left = [0; 2];
    for durability in [Durability::Sync, Durability::Os] {
        let options =
            |env: &SimEnv| sim_options(env).durability(durability).env(Arc::new(env.clone()));
        let env = SimEnv::new(0);
        // Without, nothing but the load itself makes it safe that its id is given out.
        let flushes = durability == Durability::Sync;
        run(&env, options(&env), flushes).unwrap();
        for (after, style) in (0..env.operations()).flat_map(|n| CRASH_STYLES.map(|s| (n, s))) {
            let context = format!("{durability:?} {style:?} after {after}");
            let env = SimEnv::new(after);
            env.crash_after(after);
            let finished = run(&env, options(&env), flushes).unwrap_or(false);
            env.crash(style);
            for again in [false, true] {
                let db = open(&env).unwrap_or_else(|error| panic!("{context}: {error}"));
                env.run_all();
                let found = match db.table("t") {
                    Ok(t) => Some(all_rows(&t)),
                    Err(Error::TableNotFound(_)) => None,
                    Err(other) => panic!("{context}: {other}"),
                };
                assert!(found.is_none() || found == Some(stored(&rows)), "{context}");
                assert!(found.is_some() || !finished || durability == Durability::Os, "{context}");
                left[usize::from(found.is_some())] += 1;
                if found.is_none() {
                    db.compact().unwrap();
                    env.run_all();
                    let stats = db.stats();
                    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
                    assert!(entries < 40, "{context}: {entries} entries are left");
                    assert_eq!(stats.range_tombstones, 0, "{context}");
                    assert!(stats.file_bytes() < 2_000, "{context}: {} bytes", stats.file_bytes());
                    assert!(table_files(&env) <= 3, "{context}: {} files", table_files(&env));
                }
                // The ids that were given out are not given out again.
                let again = db.create_table(&format!("new {again}")).wait().unwrap();
                assert!(all_rows(&again).is_empty(), "{context}");
                db.verify().unwrap();
                drop((again, db));
                env.crash(style);
            }
        }
    }
    assert!(left.iter().all(|&times| times > 20), "nothing or all: {left:?}");
}

#[test]
fn r_e22_damage_in_a_loaded_file_is_reported() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let rows = rows(5, 100, 60);
    load(&db, "t", &rows).unwrap();
    db.close().unwrap();
    let name = env.list(Path::new(DIR)).into_iter().find(|name| name.ends_with(".sst")).unwrap();
    env.flip(&Path::new(DIR).join(name), 1000).unwrap();
    let db = open(&env).unwrap();
    assert!(matches!(db.verify(), Err(Error::Corruption(_))));
    let read = db.table("t").unwrap().query().pages().find_map(Result::err);
    assert!(matches!(read, Some(Error::Corruption(_))), "{read:?}");
    env.crash(CrashStyle::KeepAll);
    check_all(&Database::open("other", sim_options(&env)).unwrap(), &Model::default());
}

/// All damage is told, not the first alone, and of damaged files only.
#[test]
fn r_e22_each_damaged_file_is_told_of() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    for table in ["a", "b", "c"] {
        load(&db, table, &rows(5, 100, 60)).unwrap();
    }
    assert!(db.damage().unwrap().is_empty());
    db.close().unwrap();
    let mut files: Vec<_> =
        env.list(Path::new(DIR)).into_iter().map(|name| Path::new(DIR).join(name)).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sst"));
    let damaged = [files[0].clone(), files[files.len() / 2].clone()];
    damaged.iter().for_each(|path| env.flip(path, 1000).unwrap());
    let db = open(&env).unwrap();
    let mut told: Vec<_> = db.damage().unwrap().into_iter().map(|damage| damage.file).collect();
    told.sort();
    assert_eq!(told, damaged);
    assert!(matches!(db.verify(), Err(Error::Corruption(_))));
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

/// The name of a table in the log, from the first place on.
fn places(env: &SimEnv, name: &[u8]) -> Vec<(PathBuf, u64)> {
    let logs = env.list(DIR.as_ref()).into_iter().filter(|file| file.ends_with(".log"));
    let places = logs.flat_map(|log| {
        let path = Path::new(DIR).join(log);
        let bytes = env.read_file(&path).unwrap();
        let at = bytes.windows(name.len()).enumerate().filter(|(_, part)| *part == name);
        at.map(|(at, _)| (path.clone(), at as u64)).collect::<Vec<_>>()
    });
    places.collect()
}

fn loaded_on(env: &SimEnv) -> Database {
    let db = open(env).unwrap();
    let mut loader = db.load_table("the loaded table").unwrap();
    (0..100u8).for_each(|n| loader.put("p", [n], [7; 40]).unwrap());
    loader.finish().unwrap();
    db
}

/// R-E22: files have what the log does not tell of any more, so its end was not torn by power. The id is not given to another
/// table; salvage gives the rows a name.
#[test]
fn r_e17_the_log_has_to_tell_of_what_was_loaded() {
    let env = SimEnv::new(1);
    let db = loaded_on(&env);
    env.crash(CrashStyle::LoseUnsynced);
    drop(db);
    // Of both commits nothing is left that proves the other.
    let (log, at) = places(&env, b"the loaded table").remove(0);
    let mut bytes = env.read_file(&log).unwrap();
    bytes[at as usize..].fill(0xAB);
    env.write_file(&log, &bytes);
    let opened = open(&env).map(|db| db.tables(None, 9));
    assert!(matches!(opened, Err(Error::Corruption(_))), "{opened:?}");
    let options = sim_options(&env).recovery(Recovery::Salvage);
    let db = Database::open(DIR, options).unwrap();
    assert!(!db.recovery_report().lost.is_empty());
    let names = db.tables(None, 9).unwrap().names;
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(all_rows(&db.table(&names[0]).unwrap()).len(), 100);
    assert!(all_rows(&db.create_table("fresh").wait().unwrap()).is_empty());
    drop(db);
    assert_eq!(open(&env).unwrap().tables(None, 9).unwrap().names.len(), 2);
}

/// R-E22: where what says that a load was finished is lost, its rows are not.
#[test]
fn r_e17_salvage_keeps_the_rows_of_a_load_whose_end_is_lost() {
    let env = SimEnv::new(1);
    let db = loaded_on(&env);
    // What follows proves that it was synced.
    db.create_table("another").wait().unwrap();
    db.close().unwrap();
    let (log, at) = places(&env, b"the loaded table").remove(1);
    env.flip(&log, at).unwrap();
    assert!(open(&env).is_err());
    let db = Database::open(DIR, sim_options(&env).recovery(Recovery::Salvage)).unwrap();
    let names = db.tables(None, 9).unwrap().names;
    let rows = names.iter().map(|name| all_rows(&db.table(name).unwrap()).len());
    assert_eq!(rows.sum::<usize>(), 100, "{names:?}");
}
