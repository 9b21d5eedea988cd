//! R-E24: under overload writers wait, evenly and for a bounded time; then they hear that the
//! engine is busy and with what.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tablestone::env::{Clock, Disk, DiskFile, Env, Jobs, LockGuard, RealEnv, SimEnv};
use tablestone::{Database, Error, Options, Table};

use crate::support::sim::open;
use crate::support::task::block_on;
use crate::support::{TestDb, all_rows, options};

/// The real machine, but new table files cannot be made while `stuck`.
#[derive(Clone, Debug)]
struct StuckEnv {
    real: Arc<RealEnv>,
    stuck: Arc<AtomicBool>,
}

impl StuckEnv {
    fn new() -> Self {
        Self { real: Arc::new(RealEnv::new()), stuck: Arc::default() }
    }
}

impl Env for StuckEnv {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(StuckDisk { real: self.real.disk(), stuck: Arc::clone(&self.stuck) })
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.real.clock()
    }
    fn start_jobs(&self, compaction_threads: usize) -> Arc<dyn Jobs> {
        self.real.start_jobs(compaction_threads)
    }
}

#[derive(Debug)]
struct StuckDisk {
    real: Arc<dyn Disk>,
    stuck: Arc<AtomicBool>,
}

impl Disk for StuckDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.real.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.real.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.real.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.real.lock(path)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        if path.extension().is_some_and(|e| e == "sst") && self.stuck.load(Ordering::Relaxed) {
            return Err(io::Error::other("the shelf is full"));
        }
        self.real.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.real.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }
}

const TIMEOUT: Duration = Duration::from_millis(400);

fn stuck() -> (StuckEnv, TestDb, Table, u32) {
    let env = StuckEnv::new();
    let db = TestDb::with(options().env(Arc::new(env.clone())).busy_timeout(TIMEOUT));
    let t = db.t();
    env.stuck.store(true, Ordering::Relaxed);
    let mut written = 0u32;
    while t.insert("p", written.to_be_bytes(), [3; 500]).wait().is_ok() {
        written += 1;
        assert!(written < 10_000, "memory must be bounded");
    }
    (env, db, t, written)
}

#[test]
fn r_e24_a_writer_waits_no_longer_than_the_timeout_and_hears_the_reason() {
    let (_env, db, t, written) = stuck();
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

#[test]
fn r_e24_waiting_writers_go_on_when_there_is_room() {
    let (env, db, t, written) = stuck();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8u8)
            .map(|n| {
                let t = t.clone();
                scope.spawn(move || {
                    loop {
                        match t.insert("late", [n], "").wait() {
                            Ok(_) => return,
                            Err(error) => assert!(error.is_busy(), "{error:?}"),
                        }
                    }
                })
            })
            .collect();
        env.stuck.store(false, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert_eq!(all_rows(&t).len(), written as usize + 8);
    db.compact().unwrap();
    assert_eq!(all_rows(&t).len(), written as usize + 8);
}

#[test]
fn r_e24_reads_go_on_under_overload() {
    let (_env, _db, t, written) = stuck();
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
