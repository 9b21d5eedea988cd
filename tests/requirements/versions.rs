//! R-E04: versions are strictly increasing for the whole database, whatever the clock does.

use std::time::{Duration, SystemTime};

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Precondition, Version};

use crate::support::sim::{open, paths, salvage};
use crate::support::{Depth, TestDb};

#[test]
fn r_e04_versions_increase_within_one_tick() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let (a, b) = (db.create_table("a").wait().unwrap(), db.create_table("b").wait().unwrap());
    let mut last = Version::ZERO;
    for n in 0..100u8 {
        // The simulated clock stands still.
        for table in [&a, &b] {
            let version = table.upsert([n % 3], [n % 7], [n]).wait().unwrap();
            assert!(version > last, "{version} after {last}");
            last = version;
        }
    }
}

#[test]
fn r_e04_versions_follow_the_clock() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let now = Version::from_ticks(140_000_000_000_000_000);
    env.set_now(now);
    assert_eq!(t.insert("p", "r", "").wait().unwrap(), now);
    env.advance(Duration::from_secs(1));
    let later = t.insert("p", "s", "").wait().unwrap();
    assert_eq!(later.ticks() - now.ticks(), 10_000_000);
}

#[test]
fn r_e04_versions_increase_under_a_clock_set_back_and_over_delete_and_restart() {
    let env = SimEnv::new(1);
    let mut last = Version::from_ticks(150_000_000_000_000_000);
    env.set_now(last);
    for (round, depth) in Depth::ALL.into_iter().cycle().take(6).enumerate() {
        let db = open(&env).unwrap();
        let t = db.create_table_if_missing("t").wait().unwrap();
        for step in 0..3u8 {
            let deleted = t.delete("p", "r", Precondition::None).wait().unwrap();
            let inserted = t.insert("p", "r", [step]).wait().unwrap();
            assert!(last < deleted && deleted < inserted, "round {round}");
            assert_eq!(t.get("p", "r").unwrap().unwrap().version, inserted);
            last = inserted;
            env.set_now(Version::from_ticks(last.ticks() - 1_000_000_000));
        }
        depth.settle(&db);
        // The last version is that of an entity that is gone, as far as possible.
        last = t.delete("p", "r", Precondition::Exists).wait().unwrap();
        if round % 2 == 1 {
            db.compact().unwrap();
        }
        drop(t);
        match round % 3 {
            0 => db.close().unwrap(),
            1 => drop(db),
            _ => {
                env.crash(CrashStyle::LoseUnsynced);
                drop(db);
            }
        }
    }
}

#[test]
fn r_e04_versions_increase_over_threads() {
    let db = TestDb::new();
    let t = db.t();
    let mut versions: Vec<Version> = std::thread::scope(|scope| {
        let write = |n: u8| {
            let t = t.clone();
            scope.spawn(move || {
                let versions: Vec<_> =
                    (0..200u8).map(|k| t.upsert([n % 4], [k], "").wait().unwrap()).collect();
                assert!(versions.is_sorted());
                versions
            })
        };
        let threads: Vec<_> = (0..8).map(write).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let commits = versions.len();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), commits, "every commit has a version of its own");
}

#[test]
fn r_e04_a_version_is_the_time_of_its_commit() {
    let db = TestDb::new();
    let before = SystemTime::now() - Duration::from_micros(1);
    let version = db.t().insert("p", "r", "").wait().unwrap();
    let time = version.to_system_time().unwrap();
    assert!(before <= time && time <= SystemTime::now() + Duration::from_millis(1));
}

/// The manifest of a database that was closed says which version was the last.
#[test]
fn r_e04_versions_increase_over_salvage_of_a_log_that_is_gone() {
    let env = SimEnv::new(1);
    let now = Version::from_ticks(150_000_000_000_000_000);
    env.set_now(now);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    db.flush().unwrap();
    let last = (0..3u8).map(|row| t.insert("p", [row], "").wait().unwrap()).max().unwrap();
    drop(t);
    db.close().unwrap();
    paths(&env, ".log").iter().for_each(|path| env.remove_file(path));
    env.set_now(now);
    let db = salvage(&env).unwrap();
    let next = db.table("t").unwrap().insert("p", "next", "").wait().unwrap();
    assert!(next > last, "{next} after {last}");
}
