//! R-E11: a snapshot reads the database as it was, whatever happens to it since.

use tablestone::env::SimEnv;
use tablestone::{Database, Error, Precondition, Version};

use crate::support::fixture::value;
use crate::support::sim::open;
use crate::support::{Depth, TestDb, all_rows};

#[test]
fn r_e11_a_snapshot_does_not_see_later_writes_at_any_depth() {
    for before in Depth::ALL {
        for after in Depth::ALL {
            let db = TestDb::new();
            let t = db.t();
            for n in 0..100u8 {
                t.insert([n % 3], [n], [n, 0]).wait().unwrap();
            }
            before.settle(&db);
            let snapshot = db.snapshot();
            let expected = all_rows(&t);
            for n in 0..100u8 {
                match n % 4 {
                    0 => t.delete([n % 3], [n], Precondition::Exists).wait().unwrap(),
                    1 => t.upsert([n % 3], [n], [n, 1]).wait().unwrap(),
                    2 => t.insert([n % 3], [n, n], "new").wait().unwrap(),
                    _ => {
                        t.merge([n % 3], [n], Precondition::Exists, |_| Ok(vec![])).wait().unwrap()
                    }
                };
            }
            t.delete_partition([1]).wait().unwrap();
            after.settle(&db);
            let then = t.at(&snapshot).unwrap();
            assert_eq!(all_rows(&then), expected, "{before:?} {after:?}");
            assert_eq!(value(then.get([0], [0]).unwrap()), [0, 0]);
            assert!(!then.exists([2], [2, 2]).unwrap());
            let mut reverse: Vec<_> = then
                .query()
                .reverse()
                .page()
                .unwrap()
                .iter()
                .map(|r| (r.partition_key.to_vec(), r.row_key.to_vec(), r.value.to_vec()))
                .collect();
            reverse.reverse();
            assert_eq!(reverse, expected, "{before:?} {after:?}");
            assert_ne!(all_rows(&t), expected);
        }
    }
}

#[test]
fn r_e11_many_snapshots_of_one_hot_row_each_see_their_version() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        let mut snapshots = Vec::new();
        for n in 0..500u32 {
            let version = t.upsert("p", "hot", n.to_be_bytes()).wait().unwrap();
            if n % 50 == 0 {
                let snapshot = db.snapshot();
                assert_eq!(snapshot.version(), version);
                snapshots.push((n, version, snapshot));
            }
        }
        depth.settle(&db);
        for (n, version, snapshot) in &snapshots {
            let row = t.at(snapshot).unwrap().get("p", "hot").unwrap().unwrap();
            assert_eq!(
                (row.version, &row.value[..]),
                (*version, &n.to_be_bytes()[..]),
                "{depth:?}"
            );
        }
        // Released in an order of its own, the others go on.
        snapshots.swap_remove(3);
        snapshots.remove(0);
        db.compact().unwrap();
        for (n, _, snapshot) in &snapshots {
            let row = t.at(snapshot).unwrap().get("p", "hot").unwrap();
            assert_eq!(value(row), n.to_be_bytes(), "{depth:?}");
        }
    }
}

#[test]
fn r_e11_a_snapshot_of_a_table_that_is_dropped_still_reads_it() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        for n in 0..200u8 {
            t.insert("p", [n], [n; 40]).wait().unwrap();
        }
        depth.settle(&db);
        let snapshot = db.snapshot();
        let expected = all_rows(&t);
        db.drop_table("t").wait().unwrap();
        let again = db.t();
        again.insert("p", [0], "of the new table").wait().unwrap();
        depth.settle(&db);
        assert_eq!(all_rows(&t.at(&snapshot).unwrap()), expected, "{depth:?}");
        assert!(matches!(t.get("p", [0]), Err(Error::TableNotFound(_))));
        assert_eq!(all_rows(&again).len(), 1);
    }
}

#[test]
fn r_e11_what_a_released_snapshot_held_goes_away() {
    let db = TestDb::new();
    let t = db.t();
    let snapshot = db.snapshot();
    for round in 0..20u8 {
        t.import((0..100u8).map(|n| ("p", [n], vec![round; 100]))).unwrap();
    }
    let held = db.snapshot();
    t.delete_partition("p").wait().unwrap();
    db.compact().unwrap();
    assert_eq!(all_rows(&t.at(&held).unwrap()).len(), 100);
    assert!(entries(&db) >= 100);
    drop((snapshot, held));
    db.compact().unwrap();
    // What is left is the catalog.
    assert!(entries(&db) <= 4, "{} entries are left", entries(&db));
}

/// By hand also where all files are where they belong, each with something in vain.
#[test]
fn r_e11_versions_that_a_released_snapshot_held_go_away() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let rows = |round: u8| (0..100u8).map(move |n| ("p", [n], [round; 100]));
    t.import(rows(1)).unwrap();
    let held = db.snapshot();
    t.import(rows(2)).unwrap();
    db.compact().unwrap();
    assert!(entries(&db) >= 200, "{}", entries(&db));
    drop(held);
    db.compact().unwrap();
    assert!((100..=104).contains(&entries(&db)), "{}", entries(&db));
}

fn entries(db: &Database) -> u64 {
    db.stats().levels.iter().map(|level| level.entries).sum()
}

#[test]
fn r_e11_a_snapshot_is_of_one_database() {
    let (one, other) = (TestDb::new(), TestDb::new());
    let snapshot = other.snapshot();
    assert!(matches!(one.t().at(&snapshot), Err(Error::InvalidArgument(_))));
}

#[test]
fn r_e11_a_snapshot_older_than_a_table_shows_nothing_of_it() {
    let db = TestDb::new();
    db.create_table("before").wait().unwrap();
    let snapshot = db.snapshot();
    let t = db.t();
    t.insert("p", "r", "v").wait().unwrap();
    let page = t.at(&snapshot).unwrap().query().page().unwrap();
    assert_eq!((page.len(), page.version()), (0, snapshot.version()));
    assert!(page.version() > Version::ZERO);
}

#[test]
fn r_e11_pages_of_a_snapshot_are_one_view() {
    let db = TestDb::new();
    let t = db.t();
    for n in 0..100u8 {
        t.insert("p", [n], "old").wait().unwrap();
    }
    let snapshot = db.snapshot();
    let mut seen = 0;
    for page in t.at(&snapshot).unwrap().query().limit(9).pages() {
        let page = page.unwrap();
        assert_eq!(page.version(), snapshot.version());
        assert!(page.iter().all(|row| row.value == b"old"));
        seen += page.len();
        for n in 0..100u8 {
            t.upsert("p", [n], "new").wait().unwrap();
        }
        t.insert("p", [seen as u8, 0], "new").wait().unwrap();
    }
    assert_eq!(seen, 100);
}

/// R-E11, R-E17: a snapshot has the tables of its time, by their names, whatever they stand for since.
#[test]
fn r_e11_tables_are_found_by_the_names_they_had() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let put = |name: &str, value: &str| {
            let t = db.create_table_if_missing(name).wait().unwrap();
            t.upsert("p", "r", value).wait().unwrap();
        };
        ["dropped", "made anew", "stays"].into_iter().for_each(|name| put(name, "then"));
        let mut loader = db.load_table("loaded later").unwrap();
        loader.put("p", "r", "later").unwrap();
        let snapshot = db.snapshot();
        loader.finish().unwrap();
        for name in ["dropped", "made anew"] {
            db.drop_table(name).wait().unwrap();
        }
        ["made anew", "made later", "stays"].into_iter().for_each(|name| put(name, "later"));
        depth.settle(&db);

        let names = ["dropped", "made anew", "stays"];
        assert_eq!(snapshot.tables(None, 10).unwrap().names, names, "{depth:?}");
        let two = snapshot.tables(Some("e"), 1).unwrap();
        assert_eq!((two.names, two.next), (vec!["made anew".into()], Some("stays".into())));
        for name in names {
            let then = snapshot.table(name).unwrap();
            assert_eq!((then.name(), all_rows(&then).len()), (name, 1));
            assert_eq!(value(then.get("p", "r").unwrap()), b"then", "{depth:?}, {name}");
        }
        for name in ["made later", "loaded later", "never made"] {
            let missing = snapshot.table(name);
            assert!(matches!(missing, Err(Error::TableNotFound(_))), "{name}: {missing:?}");
        }
        assert!(matches!(snapshot.table(""), Err(Error::InvalidArgument(_))));
        // What is there now is not what was.
        let now = db.table("made anew").unwrap();
        assert_eq!(value(now.get("p", "r").unwrap()), b"later");
        assert!(matches!(db.table("dropped"), Err(Error::TableNotFound(_))));
        let all = db.snapshot();
        drop(snapshot);
        assert_eq!(all.tables(None, 10).unwrap().names, db.tables(None, 10).unwrap().names);
    }
}
