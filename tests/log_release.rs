//! What a flush releases of the log is what the manifest no longer asks for: the database opens
//! after a crash wherever segments end and memtables fill up. An idle log takes little space.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Durability, Options};

/// R-E10: the first segment of the log ends at 64 KiB, at some distance from a flush that depends
/// on the size of the values; the crash comes some writes before or after.
#[test]
fn a_segment_that_ends_just_when_a_memtable_is_frozen_is_not_missed() {
    for value_bytes in (300..1_200).step_by(23) {
        let at_the_end = (64 << 10) / (value_bytes as u32 + 100);
        for writes in at_the_end - 2..at_the_end + 24 {
            let env = SimEnv::new(1);
            let options = || Options::default().memory_budget(64 << 10).env(Arc::new(env.clone()));
            let database = Database::open("db", options()).unwrap();
            let table = database.create_table("t").wait().unwrap();
            for n in 0..writes {
                table.upsert(n.to_be_bytes(), "", vec![7; value_bytes]).wait().unwrap();
                // A flush ends some writes after the memtable was frozen.
                if n % 4 == 0 {
                    env.run_all();
                }
            }
            env.run_all();
            env.crash(CrashStyle::LoseUnsynced);
            drop((database, table));
            let table = Database::open("db", options()).unwrap().table("t").unwrap();
            assert!((0..writes).all(|n| table.exists(n.to_be_bytes(), "").unwrap()));
        }
    }
}

/// The log's files, each with its length.
fn log_files(env: &SimEnv) -> Vec<(String, usize)> {
    let dir = Path::new("db");
    let names = env.list(dir).into_iter().filter(|name| name.contains(".log"));
    let len = |name: &str| env.read_file(&dir.join(name)).unwrap().len();
    names.map(|name| (name.clone(), len(&name))).collect()
}

fn bytes(files: &[(String, usize)]) -> usize {
    files.iter().map(|(_, len)| len).sum()
}

/// Where commits are not synced; where they are, files that are written already are what makes syncs
/// fast, and stay.
#[test]
fn a_log_that_was_flushed_gives_its_space_back() {
    for (durability, gives_back) in [
        (Durability::Os, true),
        (Durability::Interval(Duration::from_secs(1)), true),
        (Durability::Sync, false),
    ] {
        let env = SimEnv::new(1);
        let budget = 128 << 20;
        let options = || {
            let options = Options::default().memory_budget(budget).durability(durability);
            options.env(Arc::new(env.clone()))
        };
        let database = Database::open("db", options()).unwrap();
        let table = database.create_table("t").wait().unwrap();
        for n in 0..7_500u32 {
            drop(table.upsert("p", n.to_be_bytes(), vec![7; 1_000]));
            if n % 100 == 0 {
                env.run_all();
            }
        }
        database.sync().unwrap();
        env.run_all();
        let before = log_files(&env);
        assert!(bytes(&before) > 6 << 20, "the log has all of it");
        database.flush().unwrap();
        env.run_all();
        let after = log_files(&env);
        match gives_back {
            true => assert!(bytes(&after) < 1 << 10, "{durability:?}: {after:?}"),
            false => assert_eq!(after.last(), before.last(), "{durability:?}"),
        }
        table.upsert("p", "later", "value").wait().unwrap();
        database.flush().unwrap();
        database.sync().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        drop((database, table));
        let table = Database::open("db", options()).unwrap().table("t").unwrap();
        assert!((0..7_500u32).all(|n| table.exists("p", n.to_be_bytes()).unwrap()));
        assert!(table.exists("p", "later").unwrap());
    }
}

/// While commits go on, files are used again; once all of them are flushed, none is kept for others.
#[test]
fn files_that_are_used_again_are_given_back_when_the_log_is_flushed() {
    let env = SimEnv::new(1);
    let options = || {
        let options = Options::default().memory_budget(8 << 20).durability(Durability::Os);
        options.env(Arc::new(env.clone()))
    };
    let database = Database::open("db", options()).unwrap();
    let table = database.create_table("t").wait().unwrap();
    let mut written = 0u32;
    // Says after how many writes files waited to be used again.
    let mut write = |rows: u32| {
        let mut waiting = 0;
        for _ in 0..rows {
            drop(table.upsert("p", written.to_be_bytes(), vec![7; 1_000]));
            written += 1;
            if written.is_multiple_of(100) {
                env.run_all();
            }
            waiting += u32::from(log_files(&env).iter().any(|(name, _)| name.ends_with("spare")));
        }
        waiting
    };
    assert!(write(6_000) > 1_000);
    database.flush().unwrap();
    env.run_all();
    let after = log_files(&env);
    assert!(bytes(&after) < 1 << 10, "{after:?}");
    assert!(write(6_000) > 1_000);
    // So it is where values stay in the log that was flushed.
    for n in 0..20u32 {
        drop(table.upsert("large", n.to_be_bytes(), vec![7; 100_000]));
    }
    database.flush().unwrap();
    env.run_all();
    let after = log_files(&env);
    assert!(bytes(&after) < 1 << 10, "{after:?}");
    env.crash(CrashStyle::LoseUnsynced);
    drop((database, table));
    let table = Database::open("db", options()).unwrap().table("t").unwrap();
    assert!((0..12_000u32).all(|n| table.exists("p", n.to_be_bytes()).unwrap()));
    assert!((0..20u32).all(|n| table.exists("large", n.to_be_bytes()).unwrap()));
}
