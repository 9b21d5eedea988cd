//! Async code reads without a thread of its own: `run`, streams, commits that are awaited
//! (R-E10, R-E11).

use futures_util::{Stream, StreamExt};
use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Entity, EntityTable, Error, Filter, Precondition};

use super::support::sim::open;
use super::support::task::block_on;
use super::support::{Depth, TestDb, options};
use super::{entities, keys};

fn filled(db: &TestDb) -> EntityTable {
    let t = entities(db);
    let rows = (0..250)
        .map(|n| Entity::new(format!("{}", n / 100), format!("{:02}", n % 100)).with("N", n));
    t.import(rows).unwrap();
    t
}

#[test]
fn r_e10_writes_and_reads_can_all_be_awaited() {
    let db = TestDb::new();
    block_on(async {
        let t = db.create_table("t").await.unwrap().entities();
        let version = t.insert(&Entity::new("p", "r").with("N", 1)).await.unwrap();
        t.merge(&Entity::new("p", "r").with("M", 2), Precondition::Version(version)).await.unwrap();
        let table = t.clone();
        let read = db.run(move || table.get("p", "r")).await.unwrap().unwrap();
        assert_eq!((read.get_as("N"), read.get_as("M")), (Some(1), Some(2)));
        let query = t.query().filter(Filter::property("M").eq(2));
        let page = db.run(move || query.page()).await.unwrap();
        assert_eq!(page.len(), 1);
        let table = t.clone();
        db.run(move || table.delete("p", "r", Precondition::Exists).wait()).await.unwrap();
        let late = t.delete("p", "r", Precondition::Exists).await;
        assert!(matches!(late, Err(Error::EntityNotFound { index: 0 })));
    });
}

#[test]
fn a_stream_gives_what_an_iterator_does() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db);
        depth.settle(&db);
        let query = || t.query().filter("N ge 90 and N lt 210".parse().unwrap()).limit(7);
        let expected: Vec<_> = query().entities().map(Result::unwrap).collect();
        assert_eq!(expected.len(), 120);
        let streamed: Vec<_> = block_on(query().stream().map(Result::unwrap).collect());
        assert_eq!(streamed, expected);
        let top: Vec<_> = block_on(query().top(10).stream().map(Result::unwrap).collect());
        assert_eq!(top, expected[..10]);
        let none: Vec<_> = block_on(query().filter(Filter::nothing()).stream().collect());
        assert!(none.is_empty());
    }
}

/// Streams of many tasks go on side by side, and what is dropped halfway is no matter.
#[test]
fn many_streams_go_on_at_once() {
    let db = TestDb::new();
    let t = filled(&db);
    let streams: Vec<_> = (0..40)
        .map(|n| t.query().limit(10).top(n).stream().map(Result::unwrap).collect::<Vec<_>>())
        .collect();
    drop((0..40).map(|_| t.query().stream()).collect::<Vec<_>>());
    let counts = block_on(futures_util::future::join_all(streams));
    assert!(counts.iter().enumerate().all(|(n, found)| found.len() == n));
}

#[test]
fn a_stream_ends_with_its_first_error() {
    let db = TestDb::new();
    let t = filled(&db);
    t.as_bytes().upsert("1", "50", "no entity").wait().unwrap();
    let mut stream = t.query().limit(20).stream();
    let (good, bad) = block_on(async {
        let mut good = Vec::new();
        loop {
            match stream.next().await.unwrap() {
                Ok(entity) => good.push(entity),
                Err(error) => return (good, error),
            }
        }
    });
    assert!(matches!(bad, Error::NotAnEntity(_)), "{bad:?}");
    // Pages of 20: the one with 1/50 is not given out.
    assert_eq!(keys(&good).last().unwrap(), "1/39");
    assert!(block_on(stream.next()).is_none());
    assert!(block_on(stream.next()).is_none());
}

/// Nothing is read that nobody asks for, and everything by the jobs of the database.
#[test]
fn a_stream_reads_when_it_is_polled() {
    let env = SimEnv::new(3);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap().entities();
    t.import((0..5).map(|n| Entity::new("p", n.to_string()))).unwrap();
    env.run_all();
    let mut stream = t.query().limit(3).stream();
    let mut poll = |expected: Option<&str>| {
        let waker = std::task::Waker::noop();
        let polled =
            std::pin::Pin::new(&mut stream).poll_next(&mut std::task::Context::from_waker(waker));
        match (polled, expected) {
            (std::task::Poll::Ready(Some(entity)), Some(expected)) => {
                assert_eq!(entity.unwrap().row_key(), expected);
            }
            (std::task::Poll::Pending, None) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(!env.step(), "not before the first poll");
    poll(None);
    assert!(env.step());
    poll(Some("0"));
    poll(Some("1"));
    poll(Some("2"));
    assert!(!env.step(), "the next page is not read ahead");
    poll(None);
    assert!(env.step());
    poll(Some("3"));
}

#[test]
fn a_closed_database_runs_nothing_more() {
    let db = TestDb::new();
    let t = filled(&db);
    let handle = (*db).clone();
    handle.clone().close().unwrap();
    let table = t.clone();
    let outcome = block_on(handle.run(move || table.get("0", "00")));
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    let outcome = handle.run(|| Ok(())).wait();
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    let outcome = block_on(t.query().stream().next()).unwrap();
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
}

#[test]
#[should_panic(expected = "of the reads")]
fn a_panic_of_the_reads_is_the_waiters() {
    let db = TestDb::new();
    let _ = block_on(db.run::<()>(|| panic!("of the reads")));
}

/// Reads that panicked leave the threads and the database as they were.
#[test]
fn a_panic_of_the_reads_is_no_matter_to_others() {
    let db = TestDb::new();
    let t = filled(&db);
    for _ in 0..50 {
        let task = db.run::<()>(|| panic!("of some reads"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on(task)));
        assert!(panicked.is_err());
    }
    let found = block_on(db.run(move || t.get("0", "07"))).unwrap();
    assert!(found.is_some());
}

/// The last handle may go within reads: when their outcome is there the database is closed.
#[test]
fn the_last_handle_may_go_on_a_reader_thread() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path(), options()).unwrap();
    let t = database.create_table("t").wait().unwrap().entities();
    t.insert(&Entity::new("p", "r")).wait().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let task = database.run(move || {
        receiver.recv().unwrap();
        t.get("p", "r")
    });
    drop(database);
    sender.send(()).unwrap();
    assert!(block_on(task).unwrap().is_some());
    let database = Database::open(dir.path(), options()).unwrap();
    assert!(database.table("t").unwrap().exists("p", "r").unwrap());
}

/// A crash takes queued reads with it, and tells who waits for them.
#[test]
fn a_crash_ends_what_was_queued() {
    let env = SimEnv::new(5);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let task = db.run(move || t.get("p", "r"));
    env.crash(CrashStyle::LoseUnsynced);
    let outcome = block_on(task);
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
}
