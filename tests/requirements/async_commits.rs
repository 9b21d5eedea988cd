//! Commits from tasks: a commit is a future that needs no runtime; many under way share syncs;
//! dropping one does not undo it (R-E10).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Batch, Commit, Database, Durability, Error, Precondition, Version};

use crate::support::hooked::HookedEnv;
use crate::support::sim::{DIR, open, sim_options};
use crate::support::task::{block_on, join_all};
use crate::support::wait::{LIMIT, receive};
use crate::support::{TestDb, options};

#[test]
fn r_e10_every_kind_of_write_can_be_awaited() {
    let db = TestDb::with(options().durability(Durability::Sync));
    block_on(async {
        let t = db.create_table("t").await.unwrap();
        let version = t.insert("p", "r", "1").await.unwrap();
        assert_eq!(t.get("p", "r").unwrap().unwrap().version, version);
        let late = t.insert("p", "r", "2").await;
        assert!(matches!(late, Err(Error::EntityExists { .. })));
        t.merge("p", "r", Precondition::Exists, |_| Ok(b"3".to_vec())).await.unwrap();
        let mut batch = Batch::new("p");
        batch.insert("s", "4").delete("r", Precondition::Exists);
        t.commit(batch).await.unwrap();
        assert_eq!(t.query().page().unwrap().len(), 1);
        t.delete_partition("p").await.unwrap();
        db.drop_table("t").await.unwrap();
        assert!(matches!(db.drop_table("t").await, Err(Error::TableNotFound(_))));
    });
}

/// What wakes a task is the caller's code: it may come back, and may panic, which keeps nobody else waiting.
#[test]
fn r_e10_a_waker_may_use_the_database() {
    struct Caller(Database, mpsc::Sender<()>);
    impl Wake for Caller {
        fn wake(self: Arc<Self>) {
            self.0.sync().unwrap();
            self.1.send(()).unwrap();
            panic!("a waker panics");
        }
    }
    let db = TestDb::with(options().durability(Durability::Sync));
    let t = db.t();
    let (sender, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Caller((*db).clone(), sender)));
    let mut commits: Vec<_> = (0..3u8).map(|n| t.insert("p", [n], "")).collect();
    // Nobody has driven the log yet for the first; the others may be done with it.
    commits.retain_mut(|commit| {
        let polled = Pin::new(commit).poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            receive(&woken, "the task to be woken");
        }
        polled.is_pending()
    });
    assert!(!commits.is_empty());
    for commit in commits {
        commit.wait().unwrap();
    }
}

/// And may close it where it hears that a panic ended the writing of the log.
#[test]
fn r_e10_a_waker_may_close_the_database_where_writing_the_log_panicked() {
    struct Caller(Database, mpsc::Sender<Result<(), Error>>);
    impl Wake for Caller {
        fn wake(self: Arc<Self>) {
            self.1.send(self.0.clone().close()).unwrap();
        }
    }
    let machine = SimEnv::new(8);
    let env = HookedEnv::with_one_segment(&machine);
    let db = Database::open(DIR, sim_options(&machine).env(Arc::new(env))).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut task = t.insert("p", "of a task", "");
    // It does not fit the segment that begins with the table's name.
    let lost = t.insert("p", "lost", vec![1; 100_000]);
    let (sender, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Caller(db, sender)));
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let waited = catch_unwind(AssertUnwindSafe(|| lost.wait()));
        sender.send(waited.is_err()).unwrap();
    });
    assert!(receive(&ended, "the write"), "it panics");
    machine.run_all();
    assert!(matches!(receive(&woken, "the task to be woken"), Err(Error::Poisoned(_))));
    assert!(matches!(task.wait(), Err(Error::OutcomeUnknown(_))));
}

/// The write goes on when the time is up, and its outcome is given once, whoever waits for it then.
#[test]
fn r_e10_a_write_goes_on_when_the_time_to_wait_is_up() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let look = |commit: &mut Commit<Version>| commit.wait_timeout(Duration::ZERO);
    let insert = |row: &str| {
        let mut commit = t.insert("p", row, "");
        assert_eq!(look(&mut commit).unwrap(), None, "no thread drives the log");
        commit
    };
    let [mut looked_at, waited_for, awaited, dropped] = ["a", "b", "c", "d"].map(insert);
    let mut late = insert("a");
    assert!(t.query().page().unwrap().is_empty());
    drop(dropped);
    env.run_all();
    let versions = [
        look(&mut looked_at).unwrap().unwrap(),
        waited_for.wait().unwrap(),
        block_on(awaited).unwrap(),
        t.insert("p", "e", "").wait_timeout(LIMIT).unwrap().unwrap(),
    ];
    assert!(versions.is_sorted_by(|a, b| a < b));
    assert!(matches!(look(&mut late), Err(Error::EntityExists { .. })));
    for taken in [&mut looked_at, &mut late] {
        assert!(matches!(look(taken), Err(Error::InvalidArgument(_))));
    }
    assert!(t.exists("p", "d").unwrap(), "dropping a handle undoes nothing");
}

/// With threads that drive the log.
#[test]
fn r_e10_a_write_is_waited_for_with_a_timeout() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let t = db.t();
    for n in 0..50u8 {
        t.insert("p", [n], "").wait_timeout(LIMIT).unwrap().unwrap();
        assert!(t.exists("p", [n]).unwrap());
        t.upsert("p", [n], "").durable().wait_timeout(LIMIT).unwrap().unwrap();
    }
}

/// What made a batch too large must be as durable as the answer: a power cut could take back the reason.
#[test]
fn r_e10_a_merge_that_exceeds_a_limit_answers_once_its_reason_is_visible() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let limit = options().batch_bytes(1_000);
    drop((t, db));
    let db =
        Database::open(DIR, limit.durability(Durability::Sync).env(Arc::new(env.clone()))).unwrap();
    let t = db.table("t").unwrap();
    let first = t.upsert("p", "r", [1; 900]);
    let mut batch = Batch::new("p");
    batch.merge("r", Precondition::None, |old| Ok(old.unwrap().repeat(2)));
    let mut second = t.commit(batch);
    let mut context = Context::from_waker(Waker::noop());
    assert!(
        Pin::new(&mut second).poll(&mut context).is_pending(),
        "what it built on is not durable"
    );
    first.wait().unwrap();
    assert!(matches!(second.wait(), Err(Error::LimitExceeded { .. })));
}

#[test]
fn r_e10_commits_under_way_share_syncs() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let t = db.t();
    let before = db.stats();
    let commits: Vec<_> = (0..64u8).map(|n| t.insert("p", [n], [n])).collect();
    let versions: Vec<_> = join_all(commits).into_iter().map(Result::unwrap).collect();
    assert!(versions.is_sorted_by(|a, b| a < b));
    let after = db.stats();
    assert_eq!(after.commits - before.commits, 64);
    let syncs = after.syncs - before.syncs;
    assert!(syncs <= 8, "{syncs} syncs for 64 commits that were all under way");
    assert!(after.largest_group >= 16, "{}", after.largest_group);
    assert_eq!(t.query().page().unwrap().len(), 64);
}

#[test]
fn r_e10_tasks_on_many_threads_and_waiting_threads_mix() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let t = db.t();
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let t = t.clone();
            scope.spawn(move || {
                for k in 0..50u8 {
                    let commit = t.insert([n], [k], "");
                    if n % 2 == 0 {
                        block_on(commit).unwrap()
                    } else {
                        commit.wait().unwrap()
                    };
                }
            });
        }
    });
    assert_eq!(t.query().page().unwrap().len(), 400);
}

#[test]
fn r_e10_dropping_a_commit_does_not_undo_it() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let t = db.t();
    for n in 0..20u8 {
        drop(t.insert("p", [n], ""));
    }
    db.sync().unwrap();
    assert_eq!(t.query().page().unwrap().len(), 20);
}

#[test]
fn r_e10_a_dropped_commit_is_written_and_synced_in_the_background() {
    let env = SimEnv::new(6);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    drop(t.insert("p", "r", "v"));
    env.run_all();
    assert!(t.exists("p", "r").unwrap());
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    assert!(open(&env).unwrap().table("t").unwrap().exists("p", "r").unwrap());
}

#[test]
fn r_e10_a_commit_is_not_seen_before_it_is_durable() {
    let env = SimEnv::new(6);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let commit = t.insert("p", "r", "v");
    assert!(!t.exists("p", "r").unwrap(), "not synced yet");
    // Ordered it is: another insert loses to it, and hears so only once it is durable.
    let late = t.insert("p", "r", "w");
    assert!(matches!(late.wait(), Err(Error::EntityExists { .. })));
    assert!(t.exists("p", "r").unwrap(), "what an answer depends on is durable");
    commit.wait().unwrap();
}

#[test]
fn r_e10_a_task_that_gave_up_is_not_woken_into_nothing() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let t = db.t();
    for n in 0..200u32 {
        let mut commit = t.insert("p", n.to_be_bytes(), "");
        block_on(std::future::poll_fn(|context| {
            // Polled once, then dropped.
            let _ = std::pin::Pin::new(&mut commit).poll(context);
            std::task::Poll::Ready(())
        }));
    }
    db.sync().unwrap();
    assert_eq!(t.query().page().unwrap().len(), 200);
}

/// On the simulated machine no other thread would have written it.
#[test]
fn r_e10_a_task_may_write_and_sync_what_is_queued_itself() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let queued = ["1", "2"].map(|row| t.insert("p", row, ""));
    let syncs = db.stats().syncs;
    queued[1].drive();
    queued[0].drive();
    assert_eq!(db.stats().syncs, syncs + 1, "both in one group, and there is no more to write");
    for commit in queued {
        let mut context = Context::from_waker(Waker::noop());
        let outcome = pin!(commit).poll(&mut context);
        assert!(matches!(outcome, Poll::Ready(Ok(_))), "{outcome:?}");
    }
    drop(db);
    env.crash(CrashStyle::LoseUnsynced);
    let db = open(&env).unwrap();
    let rows = db.table("t").unwrap().query().page().unwrap();
    assert_eq!(rows.len(), 2, "they were durable");
}
