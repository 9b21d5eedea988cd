//! R-E10, R-E22: what opening finds again, what it reports, and what it refuses to open.

use std::io::ErrorKind;
use std::path::PathBuf;

use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};
use tablestone::{Batch, Database, Durability, Error};

use crate::support::model::dump;
use crate::support::sim::{DIR, contents, open, paths, salvage, sim_options};
use crate::support::{Depth, TestDb, all_rows};

#[test]
fn r_e10_every_way_of_ending_keeps_what_was_acknowledged() {
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
        let env = SimEnv::new(11);
        let mut expected = Vec::new();
        for (round, depth) in Depth::ALL.into_iter().cycle().take(9).enumerate() {
            let db = open(&env).unwrap();
            let t = db.create_table_if_missing("t").wait().unwrap();
            assert_eq!(all_rows(&t), expected, "{style:?} round {round}");
            for n in 0..50u8 {
                let row = (vec![n % 5], vec![round as u8, n], vec![n; 60]);
                t.insert(&row.0, &row.1, row.2.clone()).wait().unwrap();
                expected.push(row);
            }
            expected.sort();
            depth.settle(&db);
            drop(t);
            match round % 3 {
                0 => db.close().unwrap(),
                1 => drop(db),
                _ => {
                    env.crash(style);
                    drop(db);
                }
            }
        }
    }
}

#[test]
fn r_e10_opening_reports_what_it_replayed() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    assert_eq!(db.recovery_report().replayed_commits, 0);
    let t = db.create_table("t").wait().unwrap();
    for n in 0..10u8 {
        t.insert("p", [n], [n; 100]).wait().unwrap();
    }
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = open(&env).unwrap();
    let report = db.recovery_report();
    assert_eq!(report.replayed_commits, 11);
    assert!(report.replayed_bytes >= 1000, "{report:?}");
    assert!(report.torn_tail.is_none() && report.lost.is_empty(), "{report:?}");
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&env).unwrap();
    assert_eq!(db.recovery_report().replayed_commits, 0, "all is in table files");
}

/// The newest log file with records in it.
fn newest_log(env: &SimEnv) -> PathBuf {
    paths(env, ".log").pop().unwrap()
}

#[test]
fn r_e10_a_torn_tail_is_trimmed_and_reported() {
    let env = SimEnv::new(1);
    let mut torn = 0;
    for cut in 1..60u64 {
        let db = open(&env).unwrap();
        let t = db.create_table_if_missing("t").wait().unwrap();
        t.upsert("p", "r", cut.to_be_bytes()).wait().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        drop((t, db));
        // A piece of a record, as a torn write leaves it, at the end of what is written.
        let path = newest_log(&env);
        let mut bytes = env.read_file(&path).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 8 * 8 + 8;
        let tail = end + 100;
        bytes.resize(bytes.len().max(tail + 64), 0);
        bytes[end..tail].fill(0xAB);
        env.write_file(&path, &bytes);
        let db = open(&env).unwrap();
        if let Some(tail) = &db.recovery_report().torn_tail {
            torn += 1;
            assert_eq!(tail.file, path);
            assert_eq!(tail.offset, end as u64);
            assert!(tail.bytes > 0);
        }
        let row = db.table("t").unwrap().get("p", "r").unwrap().unwrap();
        assert_eq!(row.value, cut.to_be_bytes());
        db.close().unwrap();
        let db = open(&env).unwrap();
        assert!(db.recovery_report().torn_tail.is_none(), "trimmed for good");
    }
    assert_eq!(torn, 59);
}

#[test]
fn r_e22_damage_in_the_log_before_its_end_is_an_error_and_changes_no_file() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..10u8 {
        t.insert("p", [n], [n; 100]).wait().unwrap();
    }
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let path = newest_log(&env);
    let bytes = env.read_file(&path).unwrap();
    let offset = bytes.windows(100).position(|bytes| bytes == [3; 100]).unwrap() as u64;
    env.flip(&path, offset + 50).unwrap();
    let before = contents(&env);
    for _ in 0..2 {
        let Err(Error::Corruption(corruption)) = open(&env) else { panic!("must be refused") };
        assert_eq!(corruption.file, path);
        assert!(corruption.offset <= offset + 50 && corruption.offset + 200 > offset);
        assert!(contents(&env) == before, "a strict opening that fails changes nothing");
    }
    env.flip(&path, offset + 50).unwrap();
    assert_eq!(all_rows(&open(&env).unwrap().table("t").unwrap()).len(), 10);
}

#[test]
fn r_e22_a_missing_file_is_an_error_that_names_it() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.import((0..300u32).map(|n| ("p", n.to_be_bytes(), [7; 50]))).unwrap();
    db.flush().unwrap();
    t.insert("p", "last", "in the log").wait().unwrap();
    drop(t);
    db.close().unwrap();
    for path in [".sst", ".log", "MANIFEST"].into_iter().flat_map(|of| paths(&env, of)) {
        let bytes = env.read_file(&path).unwrap();
        env.remove_file(&path);
        match open(&env) {
            Err(Error::Corruption(corruption)) => assert_eq!(corruption.file, path),
            other => panic!("{path:?}: {other:?}"),
        }
        env.write_file(&path, &bytes);
    }
    assert_eq!(all_rows(&open(&env).unwrap().table("t").unwrap()).len(), 301);
}

/// Whatever is missing at the end of a log, a whole record or a whole segment: it was closed with more.
#[test]
fn r_e22_a_closed_log_that_ends_early_is_damage() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for row in 0..45u8 {
        // Of several segments, the last of which ends with small records.
        let len = if row < 40 { 20_000 } else { 10 };
        t.insert("p", [row], vec![row; len]).wait().unwrap();
    }
    let expected = dump(&db);
    drop(t);
    db.close().unwrap();
    let log = newest_log(&env);
    let whole = env.read_file(&log).unwrap();
    let is_damage = |what: &str| match open(&env) {
        Err(Error::Corruption(damage)) => {
            assert!(damage.to_string().contains("a log up to version"), "{what}: {damage}");
        }
        opened => panic!("{what}: {opened:?}"),
    };
    // The last bytes are the seal's, and of these a part may be missing: nobody misses it.
    for missing in 50..200 {
        env.write_file(&log, &whole[..whole.len() - missing]);
        is_damage(&format!("{missing} bytes are missing"));
    }
    env.remove_file(&log);
    is_damage("the newest segment is missing");
    let salvaged = salvage(&env).unwrap();
    assert!(!salvaged.recovery_report().lost.is_empty());
    drop(salvaged);
    assert!(dump(&open(&env).unwrap()).tables["t"].len() < expected.tables["t"].len());
}

#[test]
fn r_e10_without_sync_a_crash_leaves_a_prefix_and_sync_a_promise() {
    let env = SimEnv::new(21);
    let options = sim_options(&env).durability(Durability::Os);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..20u8 {
        t.insert("p", [n], [n]).wait().unwrap();
    }
    db.sync().unwrap();
    for n in 20..40u8 {
        t.insert("p", [n], [n]).wait().unwrap();
    }
    env.crash(CrashStyle::Torn);
    drop((t, db));
    let rows = all_rows(&Database::open(DIR, options).unwrap().table("t").unwrap());
    assert!((20..=40).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().enumerate().all(|(n, row)| row.1 == [n as u8]), "a prefix");
}

#[test]
fn r_e10_an_interval_sync_bounds_what_a_crash_takes() {
    let env = SimEnv::new(22);
    let interval = std::time::Duration::from_millis(100);
    let options = sim_options(&env).durability(Durability::Interval(interval));
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "v").wait().unwrap();
    env.advance(interval);
    env.run_all();
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = Database::open(DIR, options).unwrap();
    assert!(db.table("t").unwrap().exists("p", "r").unwrap());
}

/// Under `Os` the log is the system's to write, whatever comes of it; but what a flush puts in table files is
/// durable, and so is what somebody asks for.
#[test]
fn r_e10_the_log_of_an_unsynced_database_is_left_to_the_system() {
    let env = SimEnv::new(25);
    let options = sim_options(&env).durability(Durability::Os).memory_budget(1 << 20);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..200u8 {
        t.insert("p", [n], vec![n; 10 << 10]).wait().unwrap();
        env.run_all();
    }
    assert_eq!(db.stats().syncs, 0);
    t.insert("p", "asked", "").durable().wait().unwrap();
    assert_eq!(db.stats().syncs, 1);
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = Database::open(DIR, options).unwrap();
    assert_eq!(all_rows(&db.table("t").unwrap()).len(), 201);
}

/// Large values stay in the log, so what nobody asks to sync is synced all the same: a flush has little to
/// wait for.
#[test]
fn r_e10_much_that_is_not_synced_is_written_back() {
    let env = SimEnv::new(23);
    let options = sim_options(&env).durability(Durability::Os).memory_budget(256 << 20);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..6u8 {
        t.insert("p", [n], vec![n; 1 << 20]).wait().unwrap();
    }
    assert_eq!(db.stats().syncs, 0);
    env.run_all();
    assert_eq!(db.stats().syncs, 1);
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = Database::open(DIR, options).unwrap();
    assert!(all_rows(&db.table("t").unwrap()).len() >= 4);
}

#[test]
fn r_e10_a_writeback_that_fails_ends_the_writing() {
    let env = SimEnv::new(24);
    let options = sim_options(&env).durability(Durability::Os).memory_budget(256 << 20);
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..6u8 {
        t.insert("p", [n], vec![n; 1 << 20]).wait().unwrap();
    }
    // Of the segment that is written: the next, which is being made ready, is nobody's promise.
    let log = paths(&env, ".log").swap_remove(0);
    env.fail(Fault {
        times: 1,
        ..Fault::new(Operation::Sync, log.to_str().unwrap(), ErrorKind::Other)
    });
    env.run_all();
    assert!(matches!(t.insert("p", "more", "").wait(), Err(Error::Poisoned(_))));
    assert!(db.stats().poisoned.is_some());
    assert_eq!(all_rows(&t).len(), 6, "reads go on");
}

#[test]
fn r_e10_a_real_directory_survives_many_openings() {
    let mut db = TestDb::new();
    for round in 0..20u8 {
        let t = db.t();
        let mut batch = Batch::new("p");
        for n in 0..50u8 {
            batch.insert([round, n], vec![round; 200]);
        }
        t.commit(batch).wait().unwrap();
        drop(t);
        db.reopen();
        assert_eq!(all_rows(&db.t()).len(), 50 * (usize::from(round) + 1));
    }
}
