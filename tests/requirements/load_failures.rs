//! R-E10, R-E17, R-E22: what is left of loads that are abandoned, fail or are cut off, and of those whose files or
//! log are damaged later.

use std::path::PathBuf;
use std::sync::Arc;

use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};
use tablestone::{Database, Durability, Error, Options};

use super::load::{rows, stored};
use crate::support::all_rows;
use crate::support::model::{Model, load};
use crate::support::query::check_all;
use crate::support::sim::{CRASH_STYLES, DIR, open, paths, salvage, sim_options};

fn table_files(env: &SimEnv) -> usize {
    paths(env, ".sst").len()
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
    env.flip(&paths(&env, ".sst")[0], 1000).unwrap();
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
    let files = paths(&env, ".sst");
    let damaged = [files[0].clone(), files[files.len() / 2].clone()];
    damaged.iter().for_each(|path| env.flip(path, 1000).unwrap());
    let db = open(&env).unwrap();
    let mut told: Vec<_> = db.damage().unwrap().into_iter().map(|damage| damage.file).collect();
    told.sort();
    assert_eq!(told, damaged);
    assert!(matches!(db.verify(), Err(Error::Corruption(_))));
}

/// The name of a table in the log, from the first place on.
fn places(env: &SimEnv, name: &[u8]) -> Vec<(PathBuf, u64)> {
    let places = paths(env, ".log").into_iter().flat_map(|path| {
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
    let db = salvage(&env).unwrap();
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
    let db = salvage(&env).unwrap();
    let names = db.tables(None, 9).unwrap().names;
    let rows = names.iter().map(|name| all_rows(&db.table(name).unwrap()).len());
    assert_eq!(rows.sum::<usize>(), 100, "{names:?}");
}
