//! R-E17, R-E06: the life of tables: created once, listed in order, dropped in constant time,
//! empty when created again, whatever became of the catalog.

use std::path::Path;
use std::time::Duration;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Batch, Database, Durability, Error, Options, Precondition, Recovery};

use crate::support::sim::{DIR, open, sim_options};
use crate::support::{Depth, TestDb, all_rows};

#[test]
fn r_e17_create_look_up_and_drop() {
    let mut db = TestDb::new();
    assert!(matches!(db.table("t"), Err(Error::TableNotFound(name)) if &*name == "t"));
    assert!(matches!(db.drop_table("t").wait(), Err(Error::TableNotFound(_))));
    let created = db.create_table("t").wait().unwrap();
    assert_eq!(created.name(), "t");
    created.insert("p", "r", "v").wait().unwrap();
    let again = db.create_table("t").wait();
    assert!(matches!(again, Err(Error::TableExists(name)) if &*name == "t"));
    assert!(db.table("t").unwrap().exists("p", "r").unwrap());
    assert!(db.create_table_if_missing("t").wait().unwrap().exists("p", "r").unwrap());
    drop(created);
    db.reopen();
    assert!(db.table("t").unwrap().exists("p", "r").unwrap());
    db.drop_table("t").wait().unwrap();
    assert!(matches!(db.table("t"), Err(Error::TableNotFound(_))));
    db.reopen();
    assert!(matches!(db.table("t"), Err(Error::TableNotFound(_))));
}

#[test]
fn r_e17_a_handle_on_a_dropped_table_says_so_for_every_operation() {
    let db = TestDb::new();
    let t = db.t();
    let version = t.insert("p", "r", "v").wait().unwrap();
    db.drop_table("t").wait().unwrap();
    for recreated in [false, true] {
        let other = recreated.then(|| db.t());
        let gone = |error: Option<Error>| {
            assert!(matches!(error, Some(Error::TableNotFound(name)) if &*name == "t"));
        };
        gone(t.get("p", "r").err());
        gone(t.exists("p", "r").err());
        gone(t.get_many("p", &["r"]).err());
        gone(t.query().page().err());
        gone(t.insert("p", "s", "v").wait().err());
        gone(t.upsert("p", "r", "v").wait().err());
        gone(t.replace("p", "r", Precondition::Version(version), "v").wait().err());
        gone(t.merge("p", "r", Precondition::None, |_| Ok(vec![])).wait().err());
        gone(t.delete("p", "r", Precondition::None).wait().err());
        gone(t.commit(Batch::new("p")).wait().err());
        gone(t.delete_partition("p").wait().err());
        gone(t.delete_range("p", "a".."b").wait().err());
        gone(t.import([("p", "r", "v")]).err());
        gone(t.estimate().err());
        gone(t.split_points(2).err());
        if let Some(other) = other {
            assert!(all_rows(&other).is_empty());
        }
    }
}

#[test]
fn r_e17_a_table_created_again_is_empty_at_every_depth() {
    for depth in Depth::ALL {
        let mut db = TestDb::new();
        for round in 0..5u8 {
            let t = db.create_table("t").wait().unwrap();
            assert!(all_rows(&t).is_empty(), "{depth:?}");
            assert!(!t.exists("p", [0]).unwrap());
            t.import((0..100u8).map(|n| ("p", [n], vec![round; 30]))).unwrap();
            depth.settle(&db);
            db.drop_table("t").wait().unwrap();
            drop(t);
            if round % 2 == 1 {
                depth.settle(&db);
                db.reopen();
            }
        }
    }
}

#[test]
fn r_e17_of_concurrent_creates_one_wins() {
    let db = TestDb::new();
    for round in 0..20 {
        let name = format!("table {round}");
        let won: usize = std::thread::scope(|scope| {
            let create = || usize::from(db.create_table(&name).wait().is_ok());
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(won, 1);
    }
    assert_eq!(db.tables(None, 100).unwrap().names.len(), 20);
}

#[test]
fn r_e17_racing_creates_drops_and_writes_lose_no_table() {
    let db = TestDb::new();
    std::thread::scope(|scope| {
        for n in 0..6u8 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..50u8 {
                    let result = match n % 3 {
                        0 => db.create_table("t").wait().map(|_| ()),
                        1 => db.drop_table("t").wait().map(|_| ()),
                        _ => db.create_table_if_missing("t").wait().and_then(|t| {
                            t.upsert("p", [round], [n]).wait()?;
                            t.query().page().map(|_| ())
                        }),
                    };
                    match result {
                        Ok(()) | Err(Error::TableExists(_) | Error::TableNotFound(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let t = db.t();
    t.upsert("p", "r", "v").wait().unwrap();
    assert!(t.exists("p", "r").unwrap());
    assert_eq!(db.tables(None, 10).unwrap().names, ["t"]);
}

/// Of several that are under way at once, waited for in any order, each has the table that the first makes.
#[test]
fn r_e17_a_table_is_created_once_if_it_is_missing() {
    let db = TestDb::new();
    let ways: Vec<_> = (0..4).map(|_| db.create_table_if_missing("t")).collect();
    for (n, way) in (0..4u8).zip(ways).rev() {
        way.wait().unwrap().insert("p", [n], "v").wait().unwrap();
    }
    assert_eq!(db.t().query().page().unwrap().len(), 4);
    assert_eq!(db.tables(None, 10).unwrap().names, ["t"]);
    drop(db.create_table_if_missing("u"));
    assert_eq!(db.table("u").unwrap().name(), "u", "it is made though nobody waits");
    let refused = db.create_table_if_missing("").wait();
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
}

#[test]
fn r_e17_the_list_is_ordered_and_paged() {
    let mut db = TestDb::new();
    let mut names: Vec<String> = (0..57).map(|n| format!("name {}", n * 37 % 57)).collect();
    names.push("é".into());
    names.push("\0".into());
    for name in &names {
        drop(db.create_table(name).wait().unwrap());
    }
    db.drop_table("name 5").wait().unwrap();
    names.retain(|name| name != "name 5");
    names.sort();
    for _ in 0..2 {
        assert_eq!(db.tables(None, 1000).unwrap().names, names);
        // A list goes on whatever is asked for.
        assert_eq!(db.tables(None, 0).unwrap(), db.tables(None, 1).unwrap());
        for limit in [1, 7, 58, 59] {
            let mut listed = Vec::new();
            let mut from = None;
            loop {
                let list = db.tables(from.as_deref(), limit).unwrap();
                assert!(list.names.len() <= limit);
                listed.extend(list.names);
                from = list.next;
                if from.is_none() {
                    break;
                }
            }
            assert_eq!(listed, names, "{limit}");
        }
        db.reopen();
    }
    let list = db.tables(Some("name 5"), 2).unwrap();
    assert_eq!(list.names, ["name 50", "name 51"], "from a name that is gone");
    assert_eq!(list.next.as_deref(), Some("name 52"));
    assert_eq!(db.tables(Some("zzz"), 2).unwrap().names, ["é"]);
}

#[test]
fn r_e17_a_drop_costs_the_same_for_any_size_and_its_files_go_unread() {
    let env = SimEnv::new(3);
    let db = open(&env).unwrap();
    let mut costs = Vec::new();
    for rows in [1u32, 20_000] {
        let name = format!("of {rows}");
        let t = db.create_table(&name).wait().unwrap();
        t.import((0..rows).map(|n| (n.to_be_bytes(), "r", [n as u8; 20]))).unwrap();
        db.compact().unwrap();
        env.run_all();
        let (operations, read) = (env.operations(), db.stats().compaction_read_bytes);
        db.drop_table(&name).wait().unwrap();
        costs.push(env.operations() - operations);
        let before = db.stats();
        assert!(rows == 1 || before.levels.iter().map(|l| l.files).sum::<u64>() > 10);
        // Nobody has to flush for the space to come back.
        env.run_all();
        let after = db.stats();
        if rows > 1 {
            assert!(after.files_dropped_unread > 10, "{}", after.files_dropped_unread);
            let read = after.compaction_read_bytes - read;
            assert!(read < 64 << 10, "{read} bytes read to drop {rows} rows");
        }
    }
    // A write and a sync; the log may have to begin a segment on the way.
    assert!(costs.iter().all(|cost| *cost <= 8), "operations on the disk: {costs:?}");
}

#[test]
fn r_e17_thousands_of_rounds_leave_nothing() {
    let db = TestDb::new();
    for round in 0..2000u32 {
        let t = db.create_table("t").wait().unwrap();
        t.insert("p", "r", round.to_be_bytes()).wait().unwrap();
        db.drop_table("t").wait().unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats();
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    assert!(entries <= 2, "{entries} entries are left");
    assert_eq!(stats.range_tombstones, 0);
}

/// A range that deletes a table counts as 32 KiB of a memtable: three hundred would have it flushed.
#[test]
fn r_e17_tables_with_few_rows_leave_no_ranges() {
    let mut db = TestDb::with(Options::default().durability(Durability::Os));
    for _ in 0..300 {
        let t = db.t();
        for (partition_key, row_key) in [("", ""), ("p", "r"), ("p", "s"), ("p\0", "r")] {
            t.insert(partition_key, row_key, "v").wait().unwrap();
        }
        t.delete("p", "r", Precondition::Exists).wait().unwrap();
        let snapshot = db.snapshot();
        db.drop_table("t").wait().unwrap();
        let before: Vec<_> = snapshot.table("t").unwrap().query().keyed_rows().collect();
        assert_eq!(before.len(), 3);
    }
    let stats = db.stats();
    assert_eq!((stats.flushes, stats.range_tombstones), (0, 0));
    assert!(stats.memtable_bytes < 300 * 2_048, "{}", stats.memtable_bytes);
    db.reopen();
    assert!(all_rows(&db.t()).is_empty());
}

/// What lies in one partition or many, and what takes many bytes, goes as well.
#[test]
fn r_e17_a_table_is_empty_whether_few_or_many_rows_were_dropped() {
    let db = TestDb::new();
    for (rows, key_len) in [(63, 4), (64, 4), (65, 4), (200, 4), (20, 1_000)] {
        for partitions in [1, rows] {
            let t = db.t();
            for row in 0..rows {
                let (partition_key, row_key) = (row % partitions, format!("{row:0key_len$}"));
                t.insert(partition_key.to_string(), row_key, "v").wait().unwrap();
            }
            let id_shows = db.snapshot();
            db.drop_table("t").wait().unwrap();
            assert_eq!(all_rows(&id_shows.table("t").unwrap()).len(), rows);
            assert!(all_rows(&db.t()).is_empty());
            db.drop_table("t").wait().unwrap();
        }
    }
}

#[test]
fn r_e17_nothing_is_resurrected_by_a_crash_in_the_middle() {
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
        let env = SimEnv::new(9);
        let mut db = open(&env).unwrap();
        for round in 0..6u8 {
            let t = db.create_table("t").wait().unwrap();
            t.import((0..200u8).map(|n| ("p", [n], [round; 40]))).unwrap();
            db.flush().unwrap();
            db.drop_table("t").wait().unwrap();
            // Power goes somewhere in the collection of what was dropped.
            for _ in 0..round {
                env.step();
            }
            env.crash(style);
            drop((t, db));
            db = open(&env).unwrap();
            assert!(matches!(db.table("t"), Err(Error::TableNotFound(_))), "{style:?}");
        }
        let t = db.create_table("t").wait().unwrap();
        db.compact().unwrap();
        assert!(all_rows(&t).is_empty());
    }
}

/// Leaves a database of two tables with rows, of one in a file and of the other in the log, whose catalog is damaged.
fn damage_catalog(env: &SimEnv, options: &Options) {
    let db = Database::open(DIR, options.clone()).unwrap();
    let [flushed, logged] = ["flushed", "logged"].map(|name| db.create_table(name).wait().unwrap());
    db.flush().unwrap();
    let catalog = env.list(DIR.as_ref()).into_iter().find(|name| name.ends_with(".sst")).unwrap();
    flushed.insert("p", "r", "old").wait().unwrap();
    db.flush().unwrap();
    logged.insert("p", "r", "old").wait().unwrap();
    drop((flushed, logged));
    db.close().unwrap();
    env.flip(&Path::new(DIR).join(catalog), 20).unwrap();
}

/// R-E22: what salvage has said stays so, though power goes before anything else is written.
#[test]
fn r_e17_tables_that_salvage_named_keep_their_names() {
    let lazy = [Durability::Os, Durability::Interval(Duration::from_secs(60))];
    for durability in [Durability::Sync].into_iter().chain(lazy) {
        let env = SimEnv::new(1);
        let options = sim_options(&env).durability(durability);
        damage_catalog(&env, &options);
        let salvage = options.clone().recovery(Recovery::Salvage);
        let db = Database::open(DIR, salvage).unwrap();
        let renamed = db.recovery_report().renamed_tables.clone();
        assert_eq!(renamed, ["recovered-1", "recovered-2"]);
        env.crash(CrashStyle::LoseUnsynced);
        drop(db);

        let db = Database::open(DIR, options).unwrap();
        assert_eq!(db.tables(None, 100).unwrap().names, renamed, "{durability:?}");
        for name in renamed {
            assert_eq!(all_rows(&db.table(&name).unwrap()).len(), 1, "{durability:?}, {name}");
        }
        let new = db.create_table("new").wait().unwrap();
        assert_eq!(all_rows(&new), [], "{durability:?}");
    }
}

/// R-E22: power goes at each operation of a salvage. What it leaves half done nothing opens but the next, which does
/// the rest.
#[test]
fn r_e17_a_salvage_that_is_cut_off_is_done_again() {
    let mut refused = 0;
    for operations in 1.. {
        let env = SimEnv::new(1);
        let options = sim_options(&env);
        damage_catalog(&env, &options);
        let salvage = || Database::open(DIR, options.clone().recovery(Recovery::Salvage));
        env.crash_after(operations);
        let is_over = salvage().map(drop).is_ok();
        env.crash(CrashStyle::LoseUnsynced);
        let opened = Database::open(DIR, options.clone());
        match opened.and_then(|db| db.create_table("new").wait()) {
            Ok(new) => {
                assert!(is_over && all_rows(&new).is_empty(), "after {operations} operations");
            }
            Err(Error::Corruption(damage)) => {
                refused += usize::from(damage.file.ends_with("SALVAGE"));
            }
            Err(error) => panic!("after {operations} operations: {error:?}"),
        }
        let db = salvage().unwrap();
        for name in ["recovered-1", "recovered-2"] {
            let rows = all_rows(&db.table(name).unwrap());
            assert_eq!(rows.len(), 1, "after {operations} operations, {name}");
        }
        if is_over {
            break;
        }
    }
    assert!(refused > 1, "there is nothing that it has left half done");
}
