//! R-E06, R-E10: a full or failing disk. What was acknowledged stays; the database stays usable,
//! or says that it is read-only and why.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};
use tablestone::{Database, Durability, Error, Precondition, Stats, Table};

use crate::support::hooked::HookedEnv;
use crate::support::sim::{DIR, open, sim_options};
use crate::support::{all_rows, options};

fn fault(on: Operation, path: &str, kind: ErrorKind, times: u64) -> Fault {
    Fault { on, path_contains: path.into(), kind, after: 0, times }
}

fn filled(env: &SimEnv) -> (Database, Table) {
    let db = open(env).unwrap();
    let t = fill(&db);
    (db, t)
}

fn fill(db: &Database) -> Table {
    let t = db.create_table("t").wait().unwrap();
    for n in 0..50u8 {
        t.insert("p", [n], [n; 50]).wait().unwrap();
    }
    t
}

#[test]
fn r_e10_a_log_that_cannot_be_written_makes_the_database_read_only_and_says_why() {
    for on in [Operation::Write, Operation::Sync] {
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            let env = SimEnv::new(8);
            let (db, t) = filled(&env);
            let is_full = on == Operation::Write && kind == ErrorKind::StorageFull;
            env.fail(fault(on, ".log", kind, if is_full { u64::MAX } else { 1 }));
            let (lost, refused) = (t.insert("p", "lost", "maybe"), t.insert("p", "lost", "later"));
            let (lost, refused) = (lost.wait(), refused.wait());
            let Err(Error::OutcomeUnknown(cause)) = &lost else {
                panic!("{on:?} {kind:?}: {lost:?}")
            };
            assert!(cause.contains(".log"), "{cause}");
            env.clear_faults();
            // It lost to one of which nothing is known, but by itself has changed nothing (R-E06).
            assert!(matches!(refused, Err(Error::Poisoned(_))), "{refused:?}");
            // Reads go on, writes do not, although the disk works again.
            assert_eq!(all_rows(&t).len(), 50);
            assert!(!t.exists("p", "lost").unwrap());
            assert!(matches!(t.insert("p", "x", "").wait(), Err(Error::Poisoned(_))));
            assert!(matches!(db.create_table("u").wait(), Err(Error::Poisoned(_))));
            assert!(matches!(db.sync(), Err(Error::Poisoned(_))));
            assert!(db.stats().poisoned.is_some());
            drop(t);
            assert!(db.close().is_err());
            // Opening again recovers; the lost write is whole or absent.
            let db = open(&env).unwrap();
            let t = db.table("t").unwrap();
            let left = t.get("p", "lost").unwrap().map(|row| row.value);
            assert!(left.is_none() || left.as_deref() == Some(b"maybe"), "{left:?}");
            assert_eq!(all_rows(&t).len(), 50 + usize::from(left.is_some()));
            t.insert("p", "x", "").wait().unwrap();
        }
    }
}

/// The log of a full disk goes on with what was in reserve, for what makes room. Then there is one again.
#[test]
fn r_e24_a_log_without_room_takes_what_makes_some() {
    let env = SimEnv::new(8);
    let (db, t) = filled(&env);
    let has_reserve = || env.list(DIR.as_ref()).iter().any(|name| name == "RESERVE");
    assert!(has_reserve());
    // Up to the last try of a write, before which the reserve is given up.
    env.fail(fault(Operation::Write, ".log", ErrorKind::StorageFull, 11));
    env.fail(fault(Operation::Write, "RESERVE", ErrorKind::StorageFull, 1));
    t.insert("p", "last", "v").wait().unwrap();
    assert!(!has_reserve());
    let refused = t.insert("p", "late", "v").wait();
    let Err(Error::Busy { reason, .. }) = &refused else { panic!("{refused:?}") };
    assert_eq!(&**reason, "the log to find room, which fails: the disk is full");
    // What watches the database is told that it does not just have to catch up.
    let stats = db.stats();
    assert!(stats.writes_stopped.is_some() && stats.background_error.is_some(), "{stats:?}");
    t.delete("p", [1], Precondition::Exists).urgent().wait().unwrap();
    t.delete_partition("q").wait().unwrap();
    // The first try to make it again fails, the second does not.
    for is_back in [false, true] {
        env.advance(Duration::from_secs(1));
        env.run_all();
        assert_eq!(has_reserve(), is_back);
    }
    t.insert("p", "again", "v").wait().unwrap();
    assert_eq!(db.stats().background_error, None);
    drop((t, db));
    assert_eq!(all_rows(&open(&env).unwrap().table("t").unwrap()).len(), 51);
}

/// What was in reserve is enough to open a database on a full disk, to read it and to make room.
#[test]
fn r_e24_a_database_opens_on_a_full_disk() {
    let machine = SimEnv::new(8);
    drop(filled(&machine));
    let disk = machine.clone();
    let env = HookedEnv::new(machine.clone(), move |path| {
        let is_full = disk.list(DIR.as_ref()).iter().any(|name| name == "RESERVE");
        let is_reserve = path.ends_with("RESERVE");
        if is_full || is_reserve { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    });
    let db = Database::open(DIR, sim_options(&machine).env(Arc::new(env))).unwrap();
    let t = db.table("t").unwrap();
    assert_eq!(all_rows(&t).len(), 50);
    assert!(t.insert("p", "late", "v").wait().is_err_and(|error| error.is_busy()));
    t.delete_partition("p").wait().unwrap();
    drop((t, db));
    let t = open(&machine).unwrap().table("t").unwrap();
    t.insert("p", "late", "v").wait().unwrap();
    assert_eq!(all_rows(&t).len(), 1);
}

/// A compaction may take the last room, fail of it, and give it back.
#[test]
fn r_e24_a_log_waits_for_room_on_a_disk_that_is_full_for_a_moment() {
    let env = SimEnv::new(8);
    let (db, t) = filled(&env);
    env.fail(fault(Operation::Write, ".log", ErrorKind::StorageFull, 5));
    t.insert("p", "small", "v").wait().unwrap();
    env.fail(fault(Operation::Write, ".log", ErrorKind::StorageFull, 5));
    t.insert("p", "large", vec![7; 100_000]).wait().unwrap();
    drop((t, db));
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(all_rows(&open(&env).unwrap().table("t").unwrap()).len(), 52);
}

#[test]
fn r_e10_after_a_failed_sync_a_crash_keeps_all_that_was_acknowledged() {
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
        for seed in 0..10 {
            let env = SimEnv::new(seed);
            let (db, t) = filled(&env);
            env.fail(fault(Operation::Sync, ".log", ErrorKind::Other, 1));
            assert!(t.insert("p", "lost", "maybe").wait().is_err());
            env.crash(style);
            drop((t, db));
            let db = open(&env).unwrap();
            let t = db.table("t").unwrap();
            assert!((0..50u8).all(|n| t.exists("p", [n]).unwrap()), "{style:?} {seed}");
        }
    }
}

/// Also if it is a bug that keeps the log from being written: what is lost is not taken for written,
/// and nobody waits for it.
#[test]
fn r_e10_a_panic_while_the_log_is_written_makes_the_database_read_only() {
    let machine = SimEnv::new(8);
    let env = HookedEnv::with_one_segment(&machine);
    let db = Database::open(DIR, sim_options(&machine).env(Arc::new(env))).unwrap();
    let t = db.create_table("t").wait().unwrap();
    // It does not fit the segment that begins with the table's name.
    let lost = t.insert("p", "lost", vec![1; 100_000]);
    let panicked = std::thread::spawn(|| lost.wait()).join();
    assert!(panicked.is_err());
    let late = t.insert("p", "late", "").wait();
    let Err(Error::Poisoned(cause)) = &late else { panic!("{late:?}") };
    assert!(cause.contains("panicked"), "{cause}");
    assert!(all_rows(&t).is_empty());
    drop((t, db));
    assert!(all_rows(&open(&machine).unwrap().table("t").unwrap()).is_empty());
}

#[test]
fn r_e24_tables_that_cannot_be_written_make_writers_busy_and_recover() {
    for on in [Operation::Create, Operation::Write, Operation::Sync] {
        let env = SimEnv::new(8);
        let (db, t) = filled(&env);
        env.fail(fault(on, ".sst", ErrorKind::StorageFull, u64::MAX));
        let mut written = 0u32;
        let busy = loop {
            match t.insert("q", written.to_be_bytes(), [1; 200]).wait() {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
            env.run_all();
            assert!(written < 10_000, "memory must be bounded");
        };
        let Error::Busy { reason, .. } = &busy else { panic!("{on:?}: {busy:?}") };
        assert!(busy.is_busy());
        assert!(reason.contains(".sst"), "names what keeps it waiting: {reason}");
        assert!(db.stats().background_failures > 0);
        assert!(db.stats().background_error.is_some());
        // Readable all the time.
        assert_eq!(all_rows(&t).len(), 50 + written as usize);
        // Once there is room again, work goes on by itself.
        env.clear_faults();
        env.advance(Duration::from_secs(60));
        env.run_all();
        t.insert("q", "again", "").wait().unwrap();
        assert_eq!(db.stats().background_error, None);
        db.compact().unwrap();
        assert_eq!(all_rows(&t).len(), 51 + written as usize);
        db.verify().unwrap();
        drop(t);
        db.close().unwrap();
        let db = open(&env).unwrap();
        assert_eq!(all_rows(&db.table("t").unwrap()).len(), 51 + written as usize);
    }
}

/// What makes room goes in though all other writes are stopped, and what it deletes is not written first.
#[test]
fn r_e24_a_table_can_be_dropped_though_writes_are_stopped_for_want_of_room() {
    let env = SimEnv::new(8);
    // A deletion does not fill a memtable by itself.
    let db = Database::open(DIR, sim_options(&env).memory_budget(4 << 20)).unwrap();
    let t = fill(&db);
    let large = db.create_table("large").wait().unwrap();
    env.fail(fault(Operation::Write, ".sst", ErrorKind::StorageFull, u64::MAX));
    let mut written = 0u32;
    while large.insert("q", written.to_be_bytes(), [1; 2_000]).wait().is_ok() {
        written += 1;
        env.run_all();
        assert!(written < 10_000, "memory must be bounded");
    }
    let delete = |row: u8| t.delete("p", [row], Precondition::Exists);
    assert!(matches!(delete(1).wait(), Err(Error::Busy { .. })));
    let why = db.stats().writes_stopped.expect("they are");
    assert!(why.contains(".sst"), "{why}");
    delete(1).urgent().wait().unwrap();
    db.drop_table("large").wait().unwrap();
    let failures = db.stats().background_failures;
    let until = |done: &dyn Fn(&Stats) -> bool| {
        while !done(&db.stats()) {
            env.advance(Duration::from_millis(100));
            env.run_all();
        }
    };
    // It is tried in vain once more.
    until(&|stats| stats.background_failures > failures);
    env.clear_faults();
    until(&|stats| stats.flush_bytes > 0);
    delete(2).wait().unwrap();
    let stats = db.stats();
    assert_eq!((stats.background_error, stats.writes_stopped), (None, None));
    assert!(stats.flush_bytes < 10_000, "{} bytes, of {written} rows dropped", stats.flush_bytes);
    assert_eq!(all_rows(&t).len(), 48);
}

/// A table's files go though nothing can be flushed, what deletes them included: that is durable in the log before, whatever
/// the durability.
#[test]
fn r_e24_a_dropped_table_gives_its_space_back_without_room_for_a_flush() {
    for durability in
        [Durability::Sync, Durability::Interval(Duration::from_secs(9)), Durability::Os]
    {
        let env = SimEnv::new(8);
        let db = Database::open(DIR, sim_options(&env).durability(durability)).unwrap();
        let t = fill(&db);
        let large = db.create_table("large").wait().unwrap();
        for n in 0..40u8 {
            large.insert("q", [n], [n; 2_000]).wait().unwrap();
        }
        db.compact().unwrap();
        env.run_all();
        let files = || env.list(DIR.as_ref()).iter().filter(|name| name.ends_with(".sst")).count();
        let (before, all) = (db.snapshot(), files());
        env.fail(fault(Operation::Write, ".sst", ErrorKind::StorageFull, u64::MAX));
        db.drop_table("large").wait().unwrap();
        let fail_to_flush = || {
            assert!(db.flush().is_err());
            env.run_all();
        };
        // Somebody looks at it.
        fail_to_flush();
        assert_eq!(files(), all);
        let rows = before.table("large").unwrap().query().page().unwrap().len();
        assert_eq!(rows, 40);
        drop(before);
        fail_to_flush();
        assert!(files() < all, "{all} files");
        assert_eq!(all_rows(&t).len(), 50);
        env.crash(CrashStyle::LoseUnsynced);
        env.clear_faults();
        drop((t, large, db));
        let db = open(&env).unwrap();
        let gone = db.table("large");
        assert!(matches!(gone, Err(Error::TableNotFound(_))), "{durability:?}: {gone:?}");
        assert_eq!(all_rows(&db.table("t").unwrap()).len(), 50);
        db.verify().unwrap();
    }
}

/// R-E22: the log that deletes them has to be there as long as nothing else does: an end of it that was damaged since is not
/// taken for one that power tore, also by an opening after the next.
#[test]
fn r_e24_files_that_went_without_a_flush_need_what_deletes_them() {
    for openings in 0..2 {
        let env = SimEnv::new(8);
        let (db, t) = filled(&env);
        let large = db.create_table("large").wait().unwrap();
        db.flush().unwrap();
        large.insert("q", "r", "v").wait().unwrap();
        db.flush().unwrap();
        env.fail(fault(Operation::Write, ".sst", ErrorKind::StorageFull, u64::MAX));
        db.drop_table("large").wait().unwrap();
        db.flush().unwrap_err();
        env.run_all();
        assert!(db.stats().files_dropped_unread > 0);
        env.crash(CrashStyle::LoseUnsynced);
        drop((t, large, db));
        for _ in 0..openings {
            let db = open(&env).unwrap();
            env.crash(CrashStyle::LoseUnsynced);
            drop(db);
        }
        env.clear_faults();
        // The record of the drop is the last of the segments that has the name.
        let logs = env.list(DIR.as_ref()).into_iter().filter(|name| name.ends_with(".log"));
        let drops = logs.filter_map(|name| {
            let path = Path::new(DIR).join(name);
            let bytes = env.read_file(&path).unwrap();
            let at = bytes.windows(5).rposition(|part| part == b"large")?;
            Some((path, at))
        });
        let (path, at) = drops.max().unwrap();
        env.flip(&path, at as u64).unwrap();
        let opened = open(&env).map(|db| db.tables(None, 9));
        assert!(matches!(opened, Err(Error::Corruption(_))), "{openings}: {opened:?}");
    }
}

/// That a disk was full for a moment is forgotten once there is room.
#[test]
fn r_e03_small_files_are_joined_after_a_flush_found_no_room() {
    let env = SimEnv::new(1);
    let (db, t) = filled(&env);
    env.fail(fault(Operation::Write, ".sst", ErrorKind::StorageFull, 1));
    db.flush().unwrap_err();
    env.advance(Duration::from_secs(60));
    env.run_all();
    for n in 0..100u8 {
        t.insert("q", [n], [n; 50]).wait().unwrap();
        db.flush().unwrap();
        env.run_all();
    }
    env.advance(Duration::from_secs(60));
    env.run_all();
    let files: u64 = db.stats().levels.iter().map(|level| level.files).sum();
    assert!(files < 30, "{files} files");
}

/// Memory has a bound, however urgent writes are.
#[test]
fn r_e24_urgent_writes_end_where_memory_does() {
    let env = SimEnv::new(8);
    let (db, t) = filled(&env);
    env.fail(fault(Operation::Write, ".sst", ErrorKind::StorageFull, u64::MAX));
    let mut written = 0u32;
    let busy = loop {
        match t.insert("q", written.to_be_bytes(), [1; 200]).urgent().wait() {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        env.run_all();
        assert!(written < 10_000, "memory must be bounded");
    };
    assert!(busy.is_busy(), "{busy:?}");
    assert!(db.stats().memtable_bytes < 64 << 10, "{}", db.stats().memtable_bytes);
}

/// Files of the log that only wait to be used again are given up for what has no room.
#[test]
fn r_e24_a_full_disk_has_no_spare_files() {
    let env = SimEnv::new(8);
    let (db, t) = filled(&env);
    let fill = || {
        for n in 0..300u32 {
            t.upsert("q", n.to_be_bytes(), [1; 500]).wait().unwrap();
        }
    };
    fill();
    db.flush().unwrap();
    let spares = || env.list(DIR.as_ref()).iter().filter(|name| name.ends_with("spare")).count();
    assert!(spares() > 0);
    env.fail(fault(Operation::Write, ".sst", ErrorKind::StorageFull, 1));
    t.upsert("q", "again", "").wait().unwrap();
    assert!(db.flush().is_err());
    assert_eq!(spares(), 0);
}

#[test]
fn r_e10_a_manifest_that_cannot_be_written_loses_nothing() {
    for on in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename] {
        for path in ["MANIFEST", "CURRENT"] {
            for after in 0..3 {
                let env = SimEnv::new(8);
                let (db, t) = filled(&env);
                env.fail(Fault { after, ..fault(on, path, ErrorKind::StorageFull, 2) });
                for n in 0..5u8 {
                    t.upsert("q", [n], [n; 2000]).wait().unwrap();
                    let _ = db.flush();
                    env.advance(Duration::from_secs(1));
                    env.run_all();
                }
                assert_eq!(all_rows(&t).len(), 55, "{on:?} {path} {after}");
                env.crash(CrashStyle::LoseUnsynced);
                drop((t, db));
                env.clear_faults();
                let db = open(&env).unwrap();
                assert_eq!(all_rows(&db.table("t").unwrap()).len(), 55, "{on:?} {path} {after}");
                db.compact().unwrap();
                db.verify().unwrap();
            }
        }
    }
}

#[test]
fn r_e10_any_single_failure_of_any_operation_loses_nothing() {
    let operations = [
        Operation::Create,
        Operation::Open,
        Operation::Write,
        Operation::SetLen,
        Operation::Sync,
        Operation::SyncDir,
        Operation::Rename,
        Operation::Remove,
    ];
    for (on, after) in operations.into_iter().flat_map(|on| (0..25).map(move |n| (on, n * 3))) {
        let env = SimEnv::new(after);
        let (db, t) = filled(&env);
        env.fail(Fault { after, ..fault(on, "", ErrorKind::Other, 1) });
        let mut acknowledged = 50;
        for n in 0..60u32 {
            match t.upsert("q", n.to_be_bytes(), [n as u8; 500]).wait() {
                Ok(_) => acknowledged += 1,
                Err(Error::Poisoned(_) | Error::OutcomeUnknown(_)) => break,
                Err(other) => panic!("{on:?} {after}: {other:?}"),
            }
            env.run_all();
            if n % 20 == 19 {
                let _ = db.compact();
            }
        }
        assert_eq!(all_rows(&t).len(), acknowledged, "{on:?} {after}");
        drop(t);
        let _ = db.close();
        env.clear_faults();
        let db = open(&env).unwrap();
        let left = all_rows(&db.table("t").unwrap()).len();
        // The write whose outcome was unknown may be there.
        assert!(left == acknowledged || left == acknowledged + 1, "{on:?} {after}: {left}");
        db.verify().unwrap();
    }
}

#[test]
fn r_e22_a_read_error_is_an_error_and_not_an_absent_row() {
    let env = SimEnv::new(8);
    let pread = crate::support::sim::sim_options(&env).read_mode(tablestone::ReadMode::Pread);
    let db = Database::open(crate::support::sim::DIR, pread).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.import((0..2000u32).map(|n| ("p", n.to_be_bytes(), [7; 60]))).unwrap();
    db.compact().unwrap();
    env.fail(fault(Operation::Read, ".sst", ErrorKind::Other, u64::MAX));
    let mut failed = 0;
    for n in 0..2000u32 {
        match t.get("p", n.to_be_bytes()) {
            Ok(row) => assert_eq!(row.unwrap().value, [7; 60]),
            Err(Error::Io(io)) => {
                assert!(io.path.to_string_lossy().ends_with(".sst"));
                failed += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(failed > 1000, "most blocks are not in the cache: {failed}");
    assert!(t.query().pages().any(|page| page.is_err()));
    env.clear_faults();
    assert_eq!(all_rows(&t).len(), 2000);
    let _ = options();
}
