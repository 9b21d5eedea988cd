//! R-E19: deleting partitions and ranges; reading past what is deleted; space that comes back.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::time::Duration;

use tablestone::env::SimEnv;
use tablestone::{Batch, Database, Durability, Error, Limit, Page, Precondition, Table};

use crate::support::model::value;
use crate::support::sim::{DIR, open, paths, sim_options};
use crate::support::{Depth, TestDb, all_rows, options};

/// Three partitions of `rows` rows "000", "001", ...
fn filled(db: &TestDb, rows: usize) -> Table {
    let t = db.t();
    let row = |pk, n: usize| (pk, format!("{n:03}"), "some value");
    t.import(["a", "b", "c"].into_iter().flat_map(|pk| (0..rows).map(move |n| row(pk, n))))
        .unwrap();
    t
}

fn rows_of(t: &Table, pk: &str) -> Vec<usize> {
    let rows = all_rows(t).into_iter().filter(|row| row.0 == pk.as_bytes());
    rows.map(|row| String::from_utf8(row.1).unwrap().parse().unwrap()).collect()
}

/// Bytes of the files whose names have this in them.
fn bytes_of(env: &SimEnv, in_name: &str) -> usize {
    paths(env, in_name).iter().map(|path| env.read_file(path).unwrap().len()).sum()
}

/// Few rows are deleted one by one, many by their range: both must do the same.
const SIZES: [usize; 2] = [20, 300];

/// With memtables so large that [`SIZES`] are few and many.
fn roomy() -> TestDb {
    TestDb::with(options().memory_budget(8 << 20))
}

#[test]
fn r_e19_delete_partition_deletes_that_partition_only() {
    for (rows, before) in SIZES.into_iter().flat_map(|n| Depth::ALL.map(|depth| (n, depth))) {
        for after in Depth::ALL {
            let mut db = roomy();
            let t = filled(&db, rows);
            before.settle(&db);
            let version = t.delete_partition("b").wait().unwrap();
            after.settle(&db);
            assert_eq!(rows_of(&t, "a").len(), rows, "{rows} {before:?} {after:?}");
            assert_eq!(rows_of(&t, "b").len(), 0, "{rows} {before:?} {after:?}");
            assert_eq!(rows_of(&t, "c").len(), rows, "{rows} {before:?} {after:?}");
            assert!(!t.exists("b", "000").unwrap());
            // What is written afterwards is there.
            let later = t.insert("b", "001", "new").wait().unwrap();
            assert!(later > version);
            after.settle(&db);
            assert_eq!(rows_of(&t, "b"), [1], "{rows} {before:?} {after:?}");
            drop(t);
            db.reopen();
            assert_eq!(rows_of(&db.t(), "b"), [1], "{rows} {before:?} {after:?}");
        }
    }
}

#[test]
fn r_e19_delete_range_has_bounds_like_a_query() {
    for (rows, depth) in SIZES.into_iter().flat_map(|n| Depth::ALL.map(|depth| (n, depth))) {
        let last = format!("{:03}", rows - 2);
        let last = last.as_str();
        let cases = [
            ((Included("001"), Included(last)), vec![0, rows - 1]),
            ((Excluded("001"), Excluded(last)), vec![0, 1, rows - 2, rows - 1]),
            ((Unbounded, Excluded(last)), vec![rows - 2, rows - 1]),
            ((Excluded("001"), Unbounded), vec![0, 1]),
            ((Unbounded, Unbounded), vec![]),
            ((Included("0005"), Excluded("0015")), (0..rows).filter(|n| *n != 1).collect()),
            ((Included("002"), Excluded("002")), (0..rows).collect()),
            ((Included("009"), Included("003")), (0..rows).collect()),
        ];
        for (bounds, left) in cases {
            let db = roomy();
            let t = filled(&db, rows);
            depth.settle(&db);
            t.delete_range::<&str>("b", bounds).wait().unwrap();
            depth.settle(&db);
            assert_eq!(rows_of(&t, "b"), left, "{bounds:?} {depth:?}");
            assert_eq!(rows_of(&t, "a").len() + rows_of(&t, "c").len(), 2 * rows);
        }
    }
}

/// R-E07: what a batch deletes by a range is what was there before; what it stores itself stays, in whatever order they
/// were added.
#[test]
fn r_e07_a_batch_stores_rows_in_the_place_of_a_range() {
    for (rows, before) in SIZES.into_iter().flat_map(|n| Depth::ALL.map(|depth| (n, depth))) {
        for after in Depth::ALL {
            let mut db = roomy();
            let t = filled(&db, rows);
            before.settle(&db);
            let snapshot = db.snapshot();
            let mut batch = Batch::new("b");
            batch
                .upsert("007", "new")
                .delete_range("005"..)
                .insert("999", "new")
                .merge("008", Precondition::Exists, |old| Ok([old.unwrap(), b"!"].concat()))
                .delete("009", Precondition::Exists);
            assert_eq!(batch.len(), 4, "a range is no operation");
            let version = t.commit(batch).wait().unwrap();
            after.settle(&db);
            let context = format!("{rows} {before:?} {after:?}");
            let check = |t: &Table| {
                assert_eq!(rows_of(t, "a").len(), rows, "{context}");
                assert_eq!(rows_of(t, "b"), [0, 1, 2, 3, 4, 7, 8, 999], "{context}");
                for (row, value) in [("007", "new"), ("008", "some value!"), ("999", "new")] {
                    let row = t.get("b", row).unwrap().unwrap();
                    assert_eq!(
                        (row.version, &*row.value),
                        (version, value.as_bytes()),
                        "{context}"
                    );
                }
                for row in ["005", "006", "009", "010"] {
                    assert!(!t.exists("b", row).unwrap(), "{context} {row}");
                }
            };
            check(&t);
            let seen = t.at(&snapshot).unwrap();
            assert_eq!(seen.query().partition("b").page().unwrap().len(), rows, "{context}");
            drop((t, seen, snapshot));
            db.reopen();
            db.compact().unwrap();
            check(&db.t());
        }
    }
}

/// R-E07: all or nothing, and within limits.
#[test]
fn r_e07_a_batch_that_fails_deletes_no_range() {
    let db = TestDb::with(options().memory_budget(8 << 20).batch_operations(3));
    let t = filled(&db, 300);
    let before = all_rows(&t);
    let mut batch = Batch::new("b");
    batch.delete_range::<&str>(..).upsert("new", "").insert("007", "");
    let failed = t.commit(batch).wait();
    assert!(matches!(failed, Err(Error::EntityExists { index: 1, .. })), "{failed:?}");
    let mut batch = Batch::new("b");
    batch.delete_range(.."1").delete_range("2"..).upsert("1", "").upsert("2", "");
    let failed = t.commit(batch).wait();
    let Err(Error::LimitExceeded { what, size: 4, limit: 3, index: None }) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!(what, Limit::BatchOperations);
    assert_eq!(all_rows(&t), before);
}

/// Ranges alone are a batch; of several that overlap each is deleted once, and empty ones are nothing.
#[test]
fn r_e07_a_batch_may_be_of_ranges_alone() {
    for rows in SIZES {
        let db = roomy();
        let t = filled(&db, rows);
        let newest = t.query().page().unwrap().version();
        let mut batch = Batch::new("b");
        assert!(batch.is_empty());
        batch.delete_range("5".."4").delete_range("9"..);
        assert!(!batch.is_empty());
        assert_eq!(t.commit(batch).wait().unwrap(), newest, "nothing is written");
        let mut batch = Batch::new("b");
        batch.delete_range("001"..="003").delete_range("002"..).delete_range(.."000");
        assert!(t.commit(batch).wait().unwrap() > newest);
        assert_eq!(rows_of(&t, "b"), [0]);
        assert_eq!(rows_of(&t, "c").len(), rows);
    }
}

#[test]
fn r_e19_conditions_see_what_a_range_delete_did() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db, 300);
        let version = t.get("b", "100").unwrap().unwrap().version;
        depth.settle(&db);
        t.delete_partition("b").wait().unwrap();
        depth.settle(&db);
        assert!(t.delete("b", "100", Precondition::Exists).wait().is_err());
        assert!(t.replace("b", "100", Precondition::Version(version), "").wait().is_err());
        t.merge("b", "101", Precondition::Absent, |old| {
            assert_eq!(old, None);
            Ok(b"merged".to_vec())
        })
        .wait()
        .unwrap();
        t.insert("b", "100", "again").wait().unwrap();
        assert_eq!(rows_of(&t, "b"), [100, 101], "{depth:?}");
    }
}

#[test]
fn r_e19_a_scan_over_a_deleted_range_does_little_work() {
    for depth in [Depth::Flushed, Depth::Compacted] {
        let db = TestDb::new();
        let t = db.t();
        t.import((0..5000u32).map(|n| ("p", n.to_be_bytes(), "0123456789"))).unwrap();
        t.insert("q", "last", "").wait().unwrap();
        depth.settle(&db);
        t.delete_partition("p").wait().unwrap();
        let page = t.query().page().unwrap();
        assert_eq!(page.len(), 1, "{depth:?}");
        assert!(page.examined() < 500, "{depth:?}: {} of 5000 examined", page.examined());
        let page = t.query().reverse().page().unwrap();
        assert_eq!(page.len(), 1, "{depth:?}");
        assert!(page.examined() < 500, "{depth:?}: {} of 5000 examined", page.examined());
    }
}

#[test]
fn r_e19_a_scan_over_rows_deleted_one_by_one_stays_in_its_limit_and_gets_on() {
    let db = TestDb::new();
    let t = db.t();
    for n in 0..1000u32 {
        t.insert("p", n.to_be_bytes(), "").wait().unwrap();
        t.delete("p", n.to_be_bytes(), Precondition::Exists).wait().unwrap();
    }
    t.insert("q", "last", "").wait().unwrap();
    let mut found = 0;
    let mut pages = 0;
    for page in t.query().examine_at_most(50).pages() {
        let page = page.unwrap();
        assert!(page.examined() <= 50);
        found += page.len();
        pages += 1;
    }
    assert_eq!(found, 1);
    assert!(pages <= 22, "{pages} pages");
}

/// Space comes back while the database works on; nobody has to ask for it.
#[test]
fn r_e19_space_comes_back_without_a_manual_step() {
    let env = SimEnv::new(4);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let used = || bytes_of(&env, ".sst");
    // Noise does not compress.
    let noise = |n: u32| value(n, 0, 200);
    t.import((0..3000u32).map(|n| ("by range", n.to_be_bytes(), noise(n)))).unwrap();
    t.import((0..3000u32).map(|n| ("one by one", n.to_be_bytes(), noise(n)))).unwrap();
    db.flush().unwrap();
    env.run_all();
    let full: usize = used();
    assert!(full > 700_000, "{full}");
    t.delete_partition("by range").wait().unwrap();
    for n in 0..3000u32 {
        t.delete("one by one", n.to_be_bytes(), Precondition::Exists).wait().unwrap();
        env.run_all();
    }
    for n in 0..200u32 {
        t.upsert("other", n.to_be_bytes(), vec![0; 100]).wait().unwrap();
        env.run_all();
    }
    let left: usize = used();
    assert!(left < full / 4, "{left} of {full} bytes are still taken");
}

/// Also where the deletions are the last that is written, and too few to fill a memtable.
#[test]
fn r_e19_space_comes_back_though_nothing_else_is_written() {
    type Delete = fn(&Table, &str);
    let by_range: Delete = |t, partition| t.delete_partition(partition).wait().map(drop).unwrap();
    let one_by_one: Delete = |t, partition| {
        for n in 0..100u32 {
            t.delete(partition, n.to_be_bytes(), Precondition::Exists).wait().unwrap();
        }
    };
    let by_small_ranges: Delete = |t, partition| {
        for n in (0..100u32).step_by(10) {
            let rows = n.to_be_bytes()..(n + 10).to_be_bytes();
            t.delete_range(partition, rows).wait().unwrap();
        }
    };
    let ways =
        [("by range", by_range), ("by small ranges", by_small_ranges), ("one by one", one_by_one)];
    for (how, delete) in ways {
        for reopens in [false, true] {
            let env = SimEnv::new(6);
            // A memtable of 128 KiB.
            let options = || sim_options(&env).memory_budget(1 << 20);
            let db = Database::open(DIR, options()).unwrap();
            let t = db.create_table("t").wait().unwrap();
            let used = || bytes_of(&env, ".sst");
            let partition = |n: u32| format!("partition {n}");
            let rows = |p: u32| {
                (0..100u32).map(move |n| (partition(p), n.to_be_bytes(), value(n, 0, 400)))
            };
            t.import((0..10).flat_map(rows)).unwrap();
            db.flush().unwrap();
            env.run_all();
            let full = used();
            assert!(full > 200_000, "{full}");
            // What opening has looked at once is over: the deletions have to ask for the next look.
            for _ in 0..3 {
                env.advance(Duration::from_secs(6));
                env.run_all();
            }
            (0..9).for_each(|p| delete(&t, &partition(p)));
            env.run_all();
            let (mut db, mut t) = (db, t);
            if reopens {
                drop((t, db));
                db = Database::open(DIR, options()).unwrap();
                t = db.table("t").unwrap();
            }
            for _ in 0..5 {
                env.advance(Duration::from_secs(6));
                env.run_all();
            }
            let left = used();
            assert!(left < full / 4, "{how}, {reopens}: {left} of {full} bytes are still taken");
            assert_eq!(t.query().page().unwrap().len(), 100);
            drop(db);
        }
    }
}

/// Also where it is large values, to which little refers of what is in the same file.
#[test]
fn r_e19_the_space_of_a_few_large_values_comes_back_though_nothing_else_is_written() {
    let env = SimEnv::new(7);
    // A memtable of 128 KiB.
    let db = Database::open(DIR, sim_options(&env).memory_budget(1 << 20)).unwrap();
    let small = db.create_table("small").wait().unwrap();
    let large = db.create_table("large").wait().unwrap();
    small.import((0..1000u32).map(|n| ("p", n.to_be_bytes(), value(n, 0, 60)))).unwrap();
    for n in 0..10u32 {
        large.insert("p", n.to_be_bytes(), value(n, 0, u16::MAX).repeat(2)).wait().unwrap();
    }
    db.compact().unwrap();
    let rest = || {
        for _ in 0..5 {
            env.advance(Duration::from_secs(6));
            env.run_all();
        }
        db.stats().value_bytes
    };
    assert!(rest() > 1_000_000);
    db.drop_table("large").wait().unwrap();
    assert_eq!(rest(), 0);
    assert_eq!(small.query().page().unwrap().len(), 1000);
}

/// Range deletions fill a memtable as entries do: what they delete gives its space back, and the log its own,
/// however little else is written.
#[test]
fn r_e19_many_deletions_of_small_partitions_give_their_space_back() {
    let env = SimEnv::new(5);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let bytes_of = |ending| bytes_of(&env, ending);
    let partition = |n: u32| format!("partition {n:03}");
    let rows = |n: u32| (0..100u32).map(move |row| (partition(n), row.to_be_bytes(), [7; 40]));
    t.import((0..200).flat_map(rows)).unwrap();
    db.flush().unwrap();
    env.run_all();
    let full = bytes_of(".sst");
    for n in 0..190 {
        t.delete_partition(partition(n)).wait().unwrap();
        env.run_all();
    }
    let left = bytes_of(".sst");
    assert!(left < full / 4, "{left} of {full} bytes are still taken");
    env.advance(Duration::from_secs(5));
    env.run_all();
    assert_eq!(db.stats().range_tombstones, 0, "what was little of a file is gone too");
    assert_eq!(all_rows(&t).len(), 1_000);
}

/// Ranges that are little of the files that they touch wait until it is quiet. Reads do not wait with them.
#[test]
fn r_e19_small_ranges_wait_for_quiet_and_scans_over_them_do_not() {
    let env = SimEnv::new(7);
    let options = sim_options(&env).memory_budget(1 << 20);
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let key = |n: u32| n.to_be_bytes();
    t.import((0..15_000u32).map(|n| ("p", key(n), value(n, 0, 80)))).unwrap();
    db.compact().unwrap();
    let starts = (600..15_000).step_by(1_500);
    for start in starts.clone() {
        t.delete_range("p", key(start)..key(start + 150)).wait().unwrap();
    }
    db.flush().unwrap();
    env.run_all();
    let waiting = db.stats();
    assert_eq!((waiting.range_tombstones, waiting.compactions), (10, 1));
    let live = 15_000 - 10 * 150;
    for query in [t.query(), t.query().reverse()] {
        let pages: Vec<_> = query.pages().map(Result::unwrap).collect();
        assert_eq!(pages.iter().map(Page::len).sum::<usize>(), live);
        let examined: u64 = pages.iter().map(Page::examined).sum();
        assert!(examined < live as u64 + 100, "{examined} examined");
    }
    assert!(starts.clone().all(|start| !t.exists("p", key(start + 70)).unwrap()));
    env.advance(Duration::from_secs(5));
    env.run_all();
    let applied = db.stats();
    let entries: u64 = applied.levels.iter().map(|level| level.entries).sum();
    assert_eq!(applied.range_tombstones, 0);
    assert!(entries < live as u64 + 10, "{entries} entries");
}

/// What is deleted need not be read: damage is in the way neither of deleting it nor of dropping its table.
#[test]
fn r_e19_r_e22_what_is_damaged_can_be_deleted() {
    for (large, ending) in [(usize::MAX, ".sst"), (1_000, ".values")] {
        let env = SimEnv::new(6);
        let open = || Database::open(DIR, sim_options(&env).large_value_bytes(large)).unwrap();
        let db = open();
        let tables = ["emptied", "dropped"].map(|name| db.create_table(name).wait().unwrap());
        // The catalog, which stays whole.
        db.flush().unwrap();
        let spared = paths(&env, ending);
        for t in tables {
            t.import((0..40u32).map(|n| ("p", n.to_be_bytes(), value(n, 0, 2_000)))).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        for path in paths(&env, ending).into_iter().filter(|path| !spared.contains(path)) {
            let mut bytes = env.read_file(&path).unwrap();
            // Something of each block, and of each value.
            bytes.iter_mut().skip(200).step_by(1_000).for_each(|byte| *byte ^= 1);
            env.write_file(&path, &bytes);
        }
        let db = open();
        let t = db.table("emptied").unwrap();
        let read = t.query().page();
        assert!(matches!(read, Err(Error::Corruption(_))), "{ending} {read:?}");
        assert!(ending == ".sst" || t.exists("p", 5u32.to_be_bytes()).unwrap());
        t.delete_range("p", 3u32.to_be_bytes()..5u32.to_be_bytes()).wait().unwrap();
        t.delete_partition("p").wait().unwrap();
        db.drop_table("dropped").wait().unwrap();
        db.flush().unwrap();
        env.run_all();
        db.verify().unwrap_or_else(|error| panic!("what was damaged is gone: {error}"));
        assert_eq!(all_rows(&t).len(), 0, "{ending}");
    }
}

/// What deletes nothing is not written, however often it is asked for; nor is a batch without operations.
#[test]
fn r_e19_deleting_nothing_writes_nothing() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let t = filled(&db, 5);
    let before = db.stats();
    for _ in 0..100 {
        let last = t.get("a", "000").unwrap().unwrap().version;
        assert!(t.delete_partition("z").wait().unwrap() >= last);
        t.delete_range("a", "100".."200").wait().unwrap();
        t.delete_range("a", "3".."1").wait().unwrap();
        t.commit(Batch::new("a")).wait().unwrap();
    }
    let after = db.stats();
    assert_eq!((after.log_bytes, after.syncs), (before.log_bytes, before.syncs));
    assert_eq!(all_rows(&t).len(), 15);
}

/// A bound may be of any length, and is between the keys that it is between; it is not kept whole.
#[test]
fn r_e19_bounds_longer_than_keys_delete_what_is_between_them() {
    for rows in SIZES {
        let mut db = roomy();
        let t = filled(&db, rows);
        let before = db.disk_bytes();
        let last = rows - 5;
        let (low, high) = ("002\0".repeat(1 << 18), format!("{last:03}") + &"z".repeat(1 << 20));
        t.delete_range("b", low.as_str()..=high.as_str()).wait().unwrap();
        t.delete_range("c", ..high.as_str()).wait().unwrap();
        assert!(db.disk_bytes() < before + (1 << 20), "{} and {before} bytes", db.disk_bytes());
        drop(t);
        db.reopen();
        let outside: Vec<_> = (0..rows).filter(|n| !(3..=last).contains(n)).collect();
        assert_eq!(rows_of(&db.t(), "b"), outside);
        assert_eq!(rows_of(&db.t(), "c"), (last + 1..rows).collect::<Vec<_>>());
    }
}
