//! Durability is per write too: one that asks for it survives a power cut in a database that leaves syncs
//! for later, and so does all that was committed before it (R-E10).

use std::io::ErrorKind;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tablestone::env::{CrashStyle, Fault, Operation, RealEnv, SimEnv};
use tablestone::{Database, Durability, Error};

use crate::support::hooked::HookedEnv;
use crate::support::sim::{DIR, sim_options};
use crate::support::task::join_all;
use crate::support::wait::receive;
use crate::support::{TestDb, all_rows, options};

const LAZY: [Durability; 2] = [Durability::Os, Durability::Interval(Duration::from_secs(3600))];

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until it is ready, with all background work done in between: it is written, then synced.
fn finish<F: Future + Unpin>(env: &SimEnv, future: &mut F) -> F::Output {
    for _ in 0..2 {
        assert!(poll(future).is_pending(), "nothing was synced yet");
        env.run_all();
    }
    let Poll::Ready(output) = poll(future) else { panic!("it was synced") };
    output
}

#[test]
fn r_e10_a_durable_write_survives_with_all_before_it() {
    for durability in LAZY {
        for awaited in [false, true] {
            let env = SimEnv::new(31);
            let options = sim_options(&env).durability(durability);
            let db = Database::open(DIR, options.clone()).unwrap();
            let (t, other) =
                (db.create_table("t").wait().unwrap(), db.create_table("other").wait().unwrap());
            other.insert("p", "before", "").wait().unwrap();
            t.insert("p", [0], "").wait().unwrap();
            let mut durable = t.insert("p", [1], "").durable();
            if awaited {
                finish(&env, &mut durable).unwrap();
            } else {
                durable.wait().unwrap();
            }
            t.insert("p", [2], "").wait().unwrap();
            env.crash(CrashStyle::LoseUnsynced);
            drop((t, other, db));
            let db = Database::open(DIR, options).unwrap();
            let keys: Vec<_> =
                all_rows(&db.table("t").unwrap()).into_iter().map(|row| row.1).collect();
            assert_eq!(keys, [[0], [1]], "{durability:?}");
            assert!(db.table("other").unwrap().exists("p", "before").unwrap());
        }
    }
}

/// What it lost to is what must not be taken back.
#[test]
fn r_e10_a_durable_answer_of_a_failed_condition_has_a_durable_reason() {
    let env = SimEnv::new(32);
    let options = sim_options(&env).durability(Durability::Os);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "").wait().unwrap();
    let lost = t.insert("p", "r", "late").durable().wait();
    assert!(matches!(lost, Err(Error::EntityExists { .. })));
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    assert!(Database::open(DIR, options).unwrap().table("t").unwrap().exists("p", "r").unwrap());
}

#[test]
fn r_e10_durable_writes_under_way_share_syncs_and_later_ones_need_none() {
    let db = TestDb::with(options().durability(Durability::Os));
    let t = db.t();
    let before = db.stats().syncs;
    let commits: Vec<_> = (0..64u8).map(|n| t.insert("p", [n], [n]).durable()).collect();
    join_all(commits).into_iter().for_each(|outcome| assert!(outcome.is_ok()));
    let syncs = db.stats().syncs - before;
    assert!((1..=8).contains(&syncs), "{syncs} syncs for 64 that were all under way");
    let lost = t.insert("p", [0], "").durable().wait();
    assert!(matches!(lost, Err(Error::EntityExists { .. })));
    db.sync().unwrap();
    assert_eq!(db.stats().syncs - before, syncs, "all was synced");
}

#[test]
fn r_e10_under_sync_every_write_is_durable_by_the_sync_it_shares() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let before = db.stats().syncs;
    db.t().insert("p", "r", "").durable().wait().unwrap();
    db.sync().unwrap();
    assert_eq!(db.stats().syncs - before, 2, "of the table, and of the row");
}

#[test]
fn r_e10_a_sync_that_fails_is_told_to_who_waits_for_it() {
    for awaited in [false, true] {
        let env = SimEnv::new(33);
        let db = Database::open(DIR, sim_options(&env).durability(Durability::Os)).unwrap();
        let t = db.create_table("t").wait().unwrap();
        env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
        let mut durable = t.insert("p", "r", "").durable();
        let outcome = if awaited { finish(&env, &mut durable) } else { durable.wait() };
        assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
        assert!(matches!(t.insert("p", "more", "").wait(), Err(Error::Poisoned(_))));
    }
}

/// It is no news to who asks later, and whose write was durable by then.
#[test]
fn r_e10_what_was_durable_before_the_log_failed_is_acknowledged_after() {
    for durability in [Durability::Sync, LAZY[0], LAZY[1]] {
        for awaited in [false, true] {
            let env = SimEnv::new(34);
            let db = Database::open(DIR, sim_options(&env).durability(durability)).unwrap();
            let t = db.create_table("t").wait().unwrap();
            let mut asked_later = t.insert("p", "first", "").durable();
            t.insert("p", "second", "").durable().wait().unwrap();
            env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
            let lost = t.insert("p", "third", "").durable().wait();
            assert!(matches!(lost, Err(Error::OutcomeUnknown(_))), "{lost:?}");
            let outcome = match awaited {
                true => poll(&mut asked_later),
                false => Poll::Ready(asked_later.wait()),
            };
            assert!(matches!(outcome, Poll::Ready(Ok(_))), "{durability:?}: {outcome:?}");
        }
    }
}

/// Reads go on: what the log failed with is never shown, neither of entities nor of tables.
#[test]
fn r_e10_tables_are_opened_as_readers_see_them_after_the_log_failed() {
    for durability in [Durability::Sync, LAZY[0], LAZY[1]] {
        for is_drop in [true, false] {
            let env = SimEnv::new(35);
            let db = Database::open(DIR, sim_options(&env).durability(durability)).unwrap();
            let held = db.create_table("old").wait().unwrap();
            held.insert("p", "r", "v").durable().wait().unwrap();
            let is_synced = durability == Durability::Sync;
            let on = if is_synced { Operation::Sync } else { Operation::Write };
            env.fail(Fault::new(on, ".log", ErrorKind::Other));
            let failed = match is_drop {
                true => db.drop_table("old").wait().map(drop),
                false => db.create_table("new").wait().map(drop),
            };
            assert!(matches!(failed, Err(Error::OutcomeUnknown(_))), "{failed:?}");
            assert_eq!(db.tables(None, 10).unwrap().names, ["old"]);
            let old = db.table("old").unwrap();
            assert!(old.exists("p", "r").unwrap() && held.exists("p", "r").unwrap());
            assert!(matches!(old.upsert("p", "r", "").wait(), Err(Error::Poisoned(_))));
            let new = db.table("new");
            assert!(matches!(new, Err(Error::TableNotFound(_))), "{durability:?}: {new:?}");
        }
    }
}

/// What wakes a task is the caller's code, which may come back with more to sync.
#[test]
fn r_e10_who_is_woken_may_sync() {
    struct Caller(Database, AtomicBool, mpsc::Sender<()>);
    impl Wake for Caller {
        fn wake(self: Arc<Self>) {
            // First it is woken as it is published, then as it is durable.
            if self.1.swap(true, Ordering::Relaxed) {
                self.0.table("t").unwrap().upsert("p", "more", "").durable().wait().unwrap();
            }
            let _ = self.2.send(());
        }
    }
    let db = TestDb::with(options().durability(Durability::Os));
    let mut durable = db.t().insert("p", "r", "").durable();
    let (sender, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Caller((*db).clone(), AtomicBool::new(false), sender)));
    while Pin::new(&mut durable).poll(&mut Context::from_waker(&waker)).is_pending() {
        receive(&woken, "the task to be woken");
    }
}

#[test]
fn r_e10_closing_makes_durable_what_waits_for_it() {
    let env = SimEnv::new(34);
    let options = sim_options(&env).durability(Durability::Os);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut durable = t.insert("p", "r", "").durable();
    assert!(poll(&mut durable).is_pending());
    db.close().unwrap();
    assert!(matches!(poll(&mut durable), Poll::Ready(Ok(_))));
    env.crash(CrashStyle::LoseUnsynced);
    drop((durable, t));
    assert!(Database::open(DIR, options).unwrap().table("t").unwrap().exists("p", "r").unwrap());
}

/// A program that ends in order loses nothing, also of what it never waited for.
#[test]
fn r_e10_closing_makes_all_durable_that_was_committed() {
    for durability in LAZY {
        for is_dropped in [false, true] {
            let env = SimEnv::new(35);
            let options = sim_options(&env).durability(durability);
            let db = Database::open(DIR, options.clone()).unwrap();
            let t = db.create_table("t").wait().unwrap();
            t.insert("p", "waited for", "").wait().unwrap();
            drop(t.insert("p", "not waited for", ""));
            if !is_dropped {
                db.clone().close().unwrap();
            }
            drop((t, db));
            env.crash(CrashStyle::LoseUnsynced);
            let t = Database::open(DIR, options).unwrap().table("t").unwrap();
            assert_eq!(all_rows(&t).len(), 2, "{durability:?}, dropped: {is_dropped}");
        }
    }
}

#[test]
fn r_e10_commits_go_on_while_a_durable_one_is_synced() {
    let (began, syncing) = mpsc::channel();
    let (go_on, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let holds = Arc::new(AtomicBool::new(false));
    let is_holding = Arc::clone(&holds);
    let env = HookedEnv::new(RealEnv::new(), |_| Ok(())).before_sync(move |path: &Path| {
        let is_log = path.extension().is_some_and(|extension| extension != "sst");
        if is_log && is_holding.swap(false, Ordering::Relaxed) {
            began.send(()).unwrap();
            let _ = held.lock().unwrap().recv();
        }
        Ok(())
    });
    let db = TestDb::with(options().durability(Durability::Os).env(Arc::new(env)));
    let t = db.t();
    holds.store(true, Ordering::Relaxed);
    let (done, other) = mpsc::channel();
    thread::scope(|scope| {
        let durable = scope.spawn(|| t.insert("p", "durable", "").durable().wait());
        receive(&syncing, "the sync");
        let t = db.t();
        thread::spawn(move || done.send(t.insert("p", "other", "").wait()).unwrap());
        receive(&other, "a commit that nobody syncs").unwrap();
        assert!(!durable.is_finished());
        go_on.send(()).unwrap();
        durable.join().unwrap().unwrap();
    });
}

/// A flush may be the first to find that the log failed: who is woken then may flush, too.
#[test]
fn r_e10_a_waker_may_flush_where_a_flush_found_the_log_failed() {
    struct Caller(Mutex<Option<Database>>, mpsc::Sender<Result<(), Error>>);
    impl Wake for Caller {
        fn wake(self: Arc<Self>) {
            let db = self.0.lock().unwrap().take();
            db.into_iter().for_each(|db| self.1.send(db.flush()).unwrap());
        }
    }
    let env = SimEnv::new(31);
    let options = sim_options(&env).durability(Durability::Os).large_value_bytes(1_000);
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut commit = t.insert("p", "r", vec![7; 5_000]).durable();
    commit.drive();
    let (sender, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Caller(Mutex::new(Some(db.clone())), sender)));
    assert!(Pin::new(&mut commit).poll(&mut Context::from_waker(&waker)).is_pending());
    // The next segment is made; the one that ended is not synced.
    env.fail(Fault { after: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
    let (outcome, flushed) = mpsc::channel();
    thread::spawn(move || outcome.send((db.flush(), env.run_all(), db)));
    let _flushed = receive(&flushed, "the flush that finds the log failed");
    let _ = receive(&woken, "the task's flush");
    assert!(matches!(commit.wait(), Err(Error::OutcomeUnknown(_))));
}
