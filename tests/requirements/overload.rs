//! R-E24: under overload writers wait, evenly and for a bounded time; then they hear that the
//! engine is busy and with what.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tablestone::env::{RealEnv, SimEnv};
use tablestone::{Commit, Database, Error, Options, Table, Version};

use crate::support::hooked::HookedEnv;
use crate::support::sim::{DIR, open, sim_options};
use crate::support::task::block_on;
use crate::support::wait::{LIMIT, receive, until};
use crate::support::{TestDb, all_rows, options};

fn is_table_file(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "sst")
}

const TIMEOUT: Duration = Duration::from_millis(400);

/// A database whose memtables are full, because table files cannot be made while `stuck`.
fn stuck() -> (Arc<AtomicBool>, TestDb, Table, u32) {
    let stuck = Arc::new(AtomicBool::new(false));
    let is_stuck = Arc::clone(&stuck);
    let env = HookedEnv::new(RealEnv::new(), move |path| {
        let refused = is_table_file(path) && is_stuck.load(Ordering::Relaxed);
        if refused { Err(io::Error::other("the shelf is full")) } else { Ok(()) }
    });
    let db = TestDb::with(options().env(Arc::new(env)).busy_timeout(TIMEOUT));
    let t = db.t();
    stuck.store(true, Ordering::Relaxed);
    let mut written = 0u32;
    while t.insert("p", written.to_be_bytes(), [3; 500]).wait().is_ok() {
        written += 1;
        assert!(written < 10_000, "memory must be bounded");
    }
    (stuck, db, t, written)
}

fn stuck_env(machine: &SimEnv) -> HookedEnv {
    HookedEnv::new(machine.clone(), |path| {
        if is_table_file(path) { Err(io::Error::other("the shelf is full")) } else { Ok(()) }
    })
}

/// The same on a machine that is simulated.
fn stuck_sim() -> (SimEnv, Database, Table) {
    let machine = SimEnv::new(1);
    let options = sim_options(&machine).env(Arc::new(stuck_env(&machine))).busy_timeout(TIMEOUT);
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut rows = 0u32..10_000;
    assert!(rows.any(|row| t.insert("p", row.to_be_bytes(), [3; 500]).wait().is_err()));
    machine.run_all();
    (machine, db, t)
}

/// How often a task was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn r_e24_a_writer_waits_no_longer_than_the_timeout_and_hears_the_reason() {
    let (_stuck, db, t, written) = stuck();
    for wait in [true, false] {
        let start = Instant::now();
        let commit = t.insert("p", "late", "");
        let error = if wait { commit.wait() } else { block_on(commit) }.unwrap_err();
        let took = start.elapsed();
        let Error::Busy { waited, reason } = &error else { panic!("{error:?}") };
        assert!(*waited >= TIMEOUT && took >= TIMEOUT, "{waited:?}");
        // No exact bound on a busy machine: what matters is that it ends.
        assert!(took < 20 * TIMEOUT, "{took:?}");
        assert!(reason.contains("the shelf is full"), "{reason}");
    }
    assert!(!t.exists("p", "late").unwrap(), "a busy write has changed nothing");
    assert_eq!(all_rows(&t).len(), written as usize);
    assert!(db.stats().stalls > 0);
}

/// Under a lasting stall tasks come and go.
#[test]
fn r_e24_nothing_is_kept_of_a_task_that_waits_no_longer() {
    struct Caller;
    impl Wake for Caller {
        fn wake(self: Arc<Self>) {}
    }
    let (_stuck, _db, t, _) = stuck();
    let caller = Arc::new(Caller);
    let waker = Waker::from(Arc::clone(&caller));
    let mut commit = t.insert("p", "late", "");
    assert!(Pin::new(&mut commit).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(Arc::strong_count(&caller) > 2);
    drop((waker, commit));
    until("timers have passed", || Arc::strong_count(&caller) == 1);
}

/// Nor of one that has heard that the engine is busy, though nothing ends the stall.
#[test]
fn r_e24_nothing_is_kept_of_a_task_that_heard_it_is_busy() {
    let (machine, db, t) = stuck_sim();
    let (caller, before) = (Arc::new(Count::default()), db.stats());
    let waker = Waker::from(Arc::clone(&caller));
    let mut commit = t.insert("p", "late", "");
    assert!(Pin::new(&mut commit).poll(&mut Context::from_waker(&waker)).is_pending());
    machine.advance(TIMEOUT);
    machine.run_all();
    assert_eq!(caller.0.load(Ordering::Relaxed), 1, "its timer has fired");
    match Pin::new(&mut commit).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(Err(Error::Busy { waited, .. })) => assert_eq!(waited, TIMEOUT),
        other => panic!("{other:?}"),
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&caller), 1);
    let after = db.stats();
    assert_eq!((after.stalls, after.stall_time), (before.stalls + 1, before.stall_time + TIMEOUT));
}

/// R-E23: also a write whose caller gives it up has waited until then, unless nobody waited for it.
#[test]
fn r_e23_a_write_that_is_given_up_counts_as_one_that_waited() {
    let (machine, db, t) = stuck_sim();
    let before = db.stats();
    let mut commit = t.insert("p", "late", "");
    assert!(Pin::new(&mut commit).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    machine.advance(TIMEOUT / 2);
    drop(commit);
    drop(t.insert("p", "later", ""));
    let after = db.stats();
    let waited = (before.stalls + 1, before.stall_time + TIMEOUT / 2);
    assert_eq!((after.stalls, after.stall_time), waited);
}

/// However often a task is polled, one timer wakes it: by the waker it had last.
#[test]
fn r_e24_a_task_that_is_polled_often_sets_one_timer() {
    let (machine, _db, t) = stuck_sim();
    let (earlier, last) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let mut commit = t.insert("p", "late", "");
    let mut poll = |count: &Arc<Count>| {
        let waker = Waker::from(Arc::clone(count));
        assert!(Pin::new(&mut commit).poll(&mut Context::from_waker(&waker)).is_pending());
    };
    for round in 1..4 {
        (0..100).for_each(|_| poll(&earlier));
        poll(&last);
        machine.run_all();
        machine.advance(Duration::from_millis(60));
        let jobs = machine.run_all();
        assert!(jobs < 10, "{jobs} jobs");
        assert_eq!(last.0.load(Ordering::Relaxed), round);
    }
    assert_eq!(earlier.0.load(Ordering::Relaxed), 0);
}

#[test]
fn r_e24_waiting_writers_go_on_when_there_is_room() {
    let (stuck, db, t, written) = stuck();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8u8)
            .map(|n| {
                let t = t.clone();
                scope.spawn(move || {
                    until("room to write", || match t.insert("late", [n], "").wait() {
                        Ok(_) => true,
                        Err(error) if error.is_busy() => false,
                        Err(other) => panic!("{other:?}"),
                    });
                })
            })
            .collect();
        stuck.store(false, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert_eq!(all_rows(&t).len(), written as usize + 8);
    db.compact().unwrap();
    assert_eq!(all_rows(&t).len(), written as usize + 8);
}

/// The timeout holds for writes that wait for their turn too.
#[test]
fn r_e24_a_write_does_not_wait_beyond_its_timeout_for_its_turn() {
    let env = SimEnv::new(1);
    let db = Database::open(DIR, sim_options(&env).busy_timeout(Duration::ZERO)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    // Nobody waits for these, so nobody runs the flush that they wait for.
    let held_back = (0..10_000u32).find_map(|n| {
        let commit = t.insert("p", n.to_be_bytes(), [3; 500]);
        format!("{commit:?}").contains("gated").then_some(commit)
    });
    let error = held_back.expect("memory is bounded").wait().unwrap_err();
    assert!(
        matches!(&error, Error::Busy { reason, .. } if reason.contains("memtables")),
        "{error}"
    );
}

/// A task neither: it is woken when its time is up, though its turn comes later.
#[test]
fn r_e24_a_task_is_woken_when_its_time_is_up_and_not_for_its_turn() {
    // Less than any turn is off.
    const SHORT: Duration = Duration::from_micros(50);
    let machine = SimEnv::new(1);
    let env = stuck_env(&machine);
    let options = sim_options(&machine).env(Arc::new(env)).busy_timeout(SHORT);
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut held_back = (0..10_000u32).find_map(|n| {
        let commit = t.insert("p", n.to_be_bytes(), [3; 500]);
        format!("{commit:?}").contains("gated").then_some(commit)
    });
    let commit = held_back.as_mut().expect("memory is bounded");
    let caller = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&caller));
    let mut poll = || Pin::new(&mut *commit).poll(&mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    machine.advance(SHORT);
    machine.run_all();
    assert_eq!(caller.0.load(Ordering::Relaxed), 1);
    let over = poll();
    assert!(
        matches!(&over, Poll::Ready(Err(Error::Busy { waited, .. })) if *waited == SHORT),
        "{over:?}"
    );
}

/// It has no place in the order yet, and can be waited for again.
#[test]
fn r_e24_a_write_that_is_held_back_is_not_lost_when_the_time_to_wait_is_up() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut held_back = (0..10_000u32).filter_map(|n| {
        let commit = t.insert("p", n.to_be_bytes(), [3; 500]);
        format!("{commit:?}").contains("gated").then_some((n, commit))
    });
    let [(dropped_at, dropped), (at, waited_for)] = [(); 2].map(|()| {
        let (n, mut commit) = held_back.next().expect("memory is bounded");
        assert_eq!(commit.wait_timeout(Duration::ZERO).unwrap(), None, "nobody flushes");
        (n, commit)
    });
    assert!(format!("{waited_for:?}").contains("gated"));
    drop(dropped);
    waited_for.wait().unwrap();
    assert!(t.exists("p", at.to_be_bytes()).unwrap());
    assert!(!t.exists("p", dropped_at.to_be_bytes()).unwrap());
}

/// Memory has a bound however many wait for their turn: what came while writes were let in waits on where
/// they have stopped meanwhile.
#[test]
fn r_e24_a_turn_is_none_while_writes_have_stopped() {
    let env = SimEnv::new(1);
    let db = Database::open(DIR, sim_options(&env).memory_budget(64 << 10)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let is_gated = |commit: &Commit<Version>| format!("{commit:?}").contains("gated");
    let mut commits: Vec<_> =
        (0..2_000u32).map(|n| t.upsert("p", n.to_be_bytes(), [1; 600])).collect();
    let waiting = commits.iter().filter(|commit| is_gated(commit)).count();
    assert!(waiting > 1_500, "nobody flushes, so writes are held back: {waiting}");
    env.advance(Duration::from_millis(1_100));
    for commit in commits.iter_mut().filter(|commit| is_gated(commit)) {
        let polled = Pin::new(commit).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    let memory = db.stats().memtable_bytes;
    assert!(memory < 48 << 10, "{memory} bytes where all memtables may have 32 KiB");
    for commit in commits {
        commit.wait().unwrap();
    }
    assert_eq!(all_rows(&t).len(), 2_000);
}

#[test]
fn r_e24_reads_go_on_under_overload() {
    let (_stuck, _db, t, written) = stuck();
    for n in 0..written {
        assert!(t.exists("p", n.to_be_bytes()).unwrap());
    }
}

/// Far more than the budget from many threads: nobody fails, and memory stays bounded.
#[test]
fn r_e24_back_pressure_keeps_memory_within_its_budget() {
    let db = TestDb::new();
    let t = db.t();
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let (t, db) = (t.clone(), &db);
            scope.spawn(move || {
                for k in 0..300u32 {
                    t.insert([n], k.to_be_bytes(), [n; 700]).wait().unwrap();
                    let memory = db.stats().memtable_bytes;
                    assert!(memory < 256 << 10, "{memory} bytes of memtables");
                }
            });
        }
    });
    assert_eq!(all_rows(&t).len(), 2400);
}

/// Nobody drives the log for the commits before: whoever waits to get in must.
#[test]
fn r_e24_commits_that_nobody_waits_for_do_not_keep_the_last_out() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().memory_budget(64 << 10);
    let table = Database::open(dir.path(), options).unwrap().create_table("t").wait().unwrap();
    // Each is more than all memtables may hold.
    let mut sent: Vec<_> =
        (0..10).map(|row| table.insert("p", format!("{row}"), vec![1; 100_000])).collect();
    sent.pop().unwrap().wait().unwrap();
    for commit in sent {
        commit.wait().unwrap();
    }
}

/// The simulated clock stands still, so a write that sleeps out its turn would sleep for ever.
#[test]
fn r_e24_a_write_does_not_wait_for_debt_that_is_gone() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut held_back = (0..200u32).find_map(|n| {
        let commit = t.insert("p", n.to_be_bytes(), [0; 200]);
        if format!("{commit:?}").contains("gated") {
            return Some(commit);
        }
        commit.wait().unwrap();
        None
    });
    let commit = held_back.as_mut().expect("nobody flushes, so writes are held back");
    commit.drive();
    assert!(format!("{commit:?}").contains("gated"), "driving the log lets in nobody");
    let mut polls = || {
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(&mut *commit).poll(&mut context)
    };
    assert!(polls().is_pending());
    // Flushes and compactions run; then the log is driven.
    env.run_all();
    assert!(polls().is_pending());
    env.run_all();
    assert!(matches!(polls(), Poll::Ready(Ok(_))));
}

/// On the simulated machine a writer that is held back runs the jobs that make room itself. If
/// another thread runs them just then, it waits for that, and does not report a busy engine.
#[test]
fn r_e24_a_write_waits_for_a_flush_that_another_thread_steps() {
    let (flush_began, wait_flush_began) = mpsc::channel();
    let (go_on, wait_go_on) = mpsc::channel::<()>();
    let wait_go_on = Mutex::new(wait_go_on);
    let machine = SimEnv::new(1);
    let env = HookedEnv::new(machine.clone(), move |path| {
        if is_table_file(path) {
            let _ = flush_began.send(());
            let _ = wait_go_on.lock().unwrap().recv_timeout(LIMIT);
        }
        Ok(())
    });
    let db = Database::open(DIR, sim_options(&machine).env(Arc::new(env))).unwrap();
    let t = db.create_table("t").wait().unwrap();
    // More than all memtables may hold.
    t.insert("p", "large", vec![1; 100_000]).wait().unwrap();
    std::thread::scope(|scope| {
        let stepper = scope.spawn(|| machine.run_all());
        receive(&wait_flush_began, "the flush to begin");
        let writer = scope.spawn(|| t.insert("p", "small", "").wait());
        // Once it has heard that it must wait; if it has not by then, the test shows nothing.
        std::thread::sleep(Duration::from_millis(20));
        drop(go_on);
        assert!(stepper.join().unwrap() > 0);
        writer.join().unwrap().unwrap();
    });
}
