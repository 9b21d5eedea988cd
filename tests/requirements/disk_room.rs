//! R-E10, R-E24: what the disk has no room for is refused before it is in the log, which goes on.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use tablestone::env::{Env, SimEnv};
use tablestone::{Batch, Database, Durability, Error, Options, Precondition, ReadMode, Table};

use crate::support::all_rows;
use crate::support::hooked::HookedEnv;
use crate::support::sim::{DIR, sim_options};

/// Of which a 256th is in reserve.
const BUDGET: usize = 16 << 20;
const RESERVE: usize = BUDGET / 256;
const MODES: [(Durability, ReadMode); 4] = [
    (Durability::Sync, ReadMode::Mmap),
    (Durability::Os, ReadMode::Mmap),
    (Durability::Os, ReadMode::Pread),
    (Durability::Interval(Duration::from_millis(10)), ReadMode::Mmap),
];

fn options_of(env: &SimEnv, (durability, read_mode): (Durability, ReadMode)) -> Options {
    sim_options(env).memory_budget(BUDGET).durability(durability).read_mode(read_mode)
}

fn open_in(env: &SimEnv, mode: (Durability, ReadMode)) -> (Database, Table) {
    let db = Database::open(DIR, options_of(env, mode)).unwrap();
    let t = db.create_table_if_missing("t").wait().unwrap();
    (db, t)
}

/// Lets the files take so many bytes more.
fn leave(env: &SimEnv, bytes: usize) {
    let dir = Path::new(DIR);
    let len = |name: &String| env.read_file(&dir.join(name)).unwrap().len();
    let used: usize = env.list(dir).iter().map(len).sum();
    env.set_capacity(Some((used + bytes) as u64));
}

fn assert_no_room<T: std::fmt::Debug>(outcome: &Result<T, Error>) {
    let Err(Error::Busy { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(&**reason, "the log to find room, which fails: the disk is full");
}

/// How many rows there are after all is closed and opened again.
fn rows_after_reopening(env: &SimEnv, db: Database, t: Table) -> usize {
    drop(t);
    db.close().unwrap();
    let db = Database::open(DIR, sim_options(env).memory_budget(BUDGET)).unwrap();
    db.verify().unwrap();
    all_rows(&db.table("t").unwrap()).len()
}

#[test]
fn r_e24_a_large_commit_is_refused_on_a_full_disk_and_small_ones_go_on() {
    for mode in MODES {
        let env = SimEnv::new(8);
        let (db, t) = open_in(&env, mode);
        t.insert("p", "first", "v").wait().unwrap();
        leave(&env, 1 << 20);
        assert_no_room(&t.insert("p", "large", vec![7; 2 << 20]).wait());
        // What stops is that write alone.
        let stats = db.stats();
        assert_eq!((stats.poisoned, stats.writes_stopped), (None, None), "{mode:?}");
        t.insert("p", "small", "v").wait().unwrap();
        t.insert("p", "fits", vec![7; 900 << 10]).wait().unwrap();
        assert!(!t.exists("p", "large").unwrap());
        leave(&env, 3 << 20);
        t.insert("p", "large", vec![7; 2 << 20]).wait().unwrap();
        assert_eq!(rows_after_reopening(&env, db, t), 4, "{mode:?}");
    }
}

/// Who looks after the disk sees it coming.
#[test]
fn r_e23_statistics_say_how_large_a_commit_may_be() {
    for mode in MODES {
        let env = SimEnv::new(8);
        let (db, t) = open_in(&env, mode);
        assert_eq!(db.stats().commit_room_bytes, None, "the machine has no end");
        for left in [2 << 20, 1 << 20, RESERVE, 0] {
            leave(&env, left);
            let room = db.stats().commit_room_bytes.unwrap();
            assert_eq!(room, left.saturating_sub(RESERVE).max(RESERVE / 2) as u64, "{mode:?}");
            assert_no_room(&t.insert("p", "larger", vec![7; room as usize]).wait());
        }
        leave(&env, 2 << 20);
        let room = db.stats().commit_room_bytes.unwrap() as usize;
        t.insert("p", "fits", vec![7; room - 100]).wait().unwrap();
        assert_eq!(rows_after_reopening(&env, db, t), 1, "{mode:?}");
    }
}

/// A file system may take its time to say how much is free: nobody waits for that but whoever asks.
#[test]
fn r_e24_others_write_to_a_partition_while_a_large_commit_asks_for_room() {
    let machine = SimEnv::new(8);
    let asked = Arc::new(AtomicU32::new(0));
    let other = Arc::new(Mutex::new(None::<Table>));
    let (count, writer) = (Arc::clone(&asked), Arc::clone(&other));
    let env = HookedEnv::new(machine.clone(), |_| Ok(())).before_free_bytes(move || {
        let Some(t) = writer.lock().unwrap().clone() else { return };
        let number = count.fetch_add(1, Ordering::Relaxed);
        let (ordered, is_ordered) = mpsc::channel();
        std::thread::spawn(move || {
            let write = t.upsert("p", number.to_be_bytes(), "small");
            ordered.send(()).unwrap();
            write.wait().unwrap();
        });
        is_ordered.recv_timeout(Duration::from_secs(10)).expect("a write that waits for nobody");
    });
    let options = sim_options(&machine).memory_budget(BUDGET).env(Arc::new(env));
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    *other.lock().unwrap() = Some(t.clone());
    for row in 0..5u8 {
        t.insert("p", ["large".as_bytes(), &[row]].concat(), vec![row; 200_000]).wait().unwrap();
    }
    t.import([("p", "imported", vec![7; 200_000])]).unwrap();
    assert!(asked.load(Ordering::Relaxed) >= 6);
    *other.lock().unwrap() = None;
}

/// What is in reserve is there for small ones that come first, as they do not ask.
#[test]
fn r_e24_small_commits_come_to_an_end_on_a_full_disk_and_the_log_does_not_fail() {
    for mode in MODES {
        let env = SimEnv::new(8);
        let (db, t) = open_in(&env, mode);
        leave(&env, 0);
        let mut written = 0u32;
        let busy = loop {
            match t.insert("p", written.to_be_bytes(), vec![1; RESERVE / 3]).wait() {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 1_000, "there is no room");
        };
        assert_no_room(&Err::<(), _>(busy));
        assert!(written > 0, "{mode:?}");
        assert!(db.stats().writes_stopped.is_some(), "{mode:?}");
        t.delete("p", 0u32.to_be_bytes(), Precondition::Exists).urgent().wait().unwrap();
        // Larger than what may go in without asking, and there is no room for it.
        assert_no_room(&t.insert("p", "large", vec![7; RESERVE]).urgent().wait());
        env.set_capacity(None);
        env.advance(Duration::from_secs(1));
        env.run_all();
        t.insert("p", "large", vec![7; 2 << 20]).wait().unwrap();
        assert_eq!(rows_after_reopening(&env, db, t), written as usize, "{mode:?}");
    }
}

/// They do not all take the same room to be theirs, whether they are large or together are.
#[test]
fn r_e24_of_many_commits_at_once_those_go_in_that_there_is_room_for() {
    for mode in MODES {
        for (count, bytes) in [(10, 300 << 10), (2_000, 4 << 10)] {
            let env = SimEnv::new(8);
            let (db, t) = open_in(&env, mode);
            leave(&env, 1 << 20);
            let insert = |n: u32| t.insert("p", n.to_be_bytes(), vec![n as u8; bytes]);
            let (mut written, mut refused) = (0, 0);
            for write in (0..count).map(insert).collect::<Vec<_>>() {
                match write.wait() {
                    Ok(_) => written += 1,
                    busy => {
                        assert_no_room(&busy);
                        refused += 1;
                    }
                }
            }
            assert!(written > 0 && refused > 0, "{mode:?}: {written}, {refused}");
            assert_eq!(db.stats().poisoned, None, "{mode:?}");
            leave(&env, 16 << 20);
            for n in 0..count {
                t.upsert("p", n.to_be_bytes(), "").wait().unwrap();
            }
            assert_eq!(rows_after_reopening(&env, db, t), count as usize, "{mode:?}");
        }
    }
}

/// As large as its merge makes it.
#[test]
fn r_e24_a_merge_that_makes_a_large_entity_is_refused_on_a_full_disk() {
    let env = SimEnv::new(8);
    let (db, t) = open_in(&env, MODES[0]);
    t.insert("p", "row", "v").wait().unwrap();
    leave(&env, 1 << 20);
    let merge = || t.merge("p", "row", Precondition::Exists, |_| Ok(vec![7; 2 << 20]));
    assert_no_room(&merge().wait());
    assert_eq!(&*t.get("p", "row").unwrap().unwrap().value, b"v");
    leave(&env, 3 << 20);
    merge().wait().unwrap();
    assert_eq!(rows_after_reopening(&env, db, t), 1);
}

/// A write that waits for room has it once there is some.
#[test]
fn r_e24_a_large_commit_waits_for_room() {
    let env = SimEnv::new(8);
    let (db, t) = open_in(&env, MODES[0]);
    leave(&env, 1 << 20);
    let mut write = t.insert("p", "large", vec![7; 2 << 20]);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut write).poll(&mut context).is_pending());
    leave(&env, 3 << 20);
    write.wait().unwrap();
    assert_eq!(rows_after_reopening(&env, db, t), 1);
}

/// What is written takes no room that is to come, though nobody waited for it; nor does what never went in.
#[test]
fn r_e24_room_is_counted_for_what_is_under_way_alone() {
    for mode in MODES {
        let env = SimEnv::new(8);
        let (db, t) = open_in(&env, mode);
        leave(&env, 3 << 20);
        let large = |row: &str| t.insert("p", row, vec![7; 2 << 20]);
        drop(large("first"));
        drop(large("refused"));
        env.run_all();
        assert!(t.exists("p", "first").unwrap(), "{mode:?}");
        leave(&env, 3 << 20);
        large("second").wait().unwrap();
        assert_eq!(rows_after_reopening(&env, db, t), 2, "{mode:?}");
    }
}

/// Nothing that comes after what was refused.
#[test]
fn r_e24_an_import_ends_where_there_is_no_more_room() {
    for mode in MODES {
        let env = SimEnv::new(8);
        let (db, t) = open_in(&env, mode);
        let row = |n: u32| ("p", n.to_be_bytes(), vec![7; 100 << 10]);
        leave(&env, 5 << 20);
        assert_no_room(&t.import((0..100).map(row)));
        assert_eq!(db.stats().poisoned, None, "{mode:?}");
        db.sync().unwrap();
        let found = all_rows(&t).len() as u32;
        assert!((10..100).contains(&found), "{mode:?}: {found}");
        assert!((0..found).all(|n| t.exists("p", n.to_be_bytes()).unwrap()), "{mode:?}");
        leave(&env, 20 << 20);
        t.import((found..100).map(row)).unwrap();
        assert_eq!(rows_after_reopening(&env, db, t), 100, "{mode:?}");
    }
}

/// Nor where the first was refused, for what it takes of the log, once it had been let in for what its rows have.
#[test]
fn r_e24_no_commit_of_an_import_goes_in_without_those_before_it() {
    let env = SimEnv::new(8);
    let (db, t) = open_in(&env, MODES[1]);
    // Of a mebibyte as it is counted, and half as much again as it is written; and of few rows more.
    let rows = (0..180_000u32).map(|n| ("p", n.to_be_bytes(), "v"));
    leave(&env, (5 << 20) / 4);
    assert_no_room(&t.import(rows.clone()));
    db.sync().unwrap();
    assert_eq!(all_rows(&t).len(), 0);
    leave(&env, 16 << 20);
    t.import(rows).unwrap();
    assert_eq!(rows_after_reopening(&env, db, t), 180_000);
}

/// However many rows a batch deletes: it is what makes room.
#[test]
fn r_e24_deletions_go_in_on_a_full_disk() {
    let env = SimEnv::new(8);
    let (db, t) = open_in(&env, MODES[0]);
    let key = |n: u8| vec![n; RESERVE / 100];
    for n in 0..90 {
        t.insert("p", key(n), "v").wait().unwrap();
    }
    leave(&env, 0);
    let mut batch = Batch::new("p");
    for n in 0..90 {
        batch.delete(key(n), Precondition::Exists);
    }
    t.commit(batch).wait().unwrap();
    t.delete_partition("q").wait().unwrap();
    assert_eq!(rows_after_reopening(&env, db, t), 0);
}

/// Where the machine does not say how much room there is, writes are not refused for it.
#[test]
fn r_e24_room_that_is_not_known_is_enough() {
    let env = SimEnv::new(8);
    assert_eq!(env.disk().free_bytes(DIR.as_ref()), None);
    let (_db, t) = open_in(&env, MODES[0]);
    t.insert("p", "large", vec![7; 2 << 20]).wait().unwrap();
}

/// There is room for a deletion whatever the keys of its rows are: as a range where they are long.
#[test]
fn r_e24_deleting_few_rows_of_long_keys_takes_little_of_a_full_disk() {
    for mode in MODES {
        let env = SimEnv::new(8);
        let (db, t) = open_in(&env, mode);
        for row in 0..100u32 {
            let mut key = row.to_be_bytes().to_vec();
            key.resize(1_900, b'k');
            t.insert("p", key, "v").wait().unwrap();
        }
        db.flush().unwrap();
        env.run_all();
        leave(&env, RESERVE);
        let deleted = t.delete_partition("p").wait();
        assert!(deleted.is_ok(), "{mode:?}: {deleted:?}, {:?}", db.stats().poisoned);
        env.set_capacity(None);
        assert_eq!(rows_after_reopening(&env, db, t), 0, "{mode:?}");
    }
}
