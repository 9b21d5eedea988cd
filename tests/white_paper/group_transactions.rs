//! U-04: group transactions (§4.9): all operations of a change set or none, for everybody.

use std::thread;

use tablestone::env::CrashStyle;
use tablestone::{Entity, EntityBatch, EntityError, EntityTable, Error, Limit, Precondition};

use crate::support::sim::CRASH_STYLES;
use crate::support::wait::Ended;
use crate::support::{TestDb, options};
use crate::world::{everything, get, machine, open, page, table};

const CHANNEL: &str = "Channel_19";

fn blog(row_key: impl Into<String>) -> Entity {
    Entity::new(CHANNEL, row_key).with("Text", "some text").with("Rating", 1)
}

/// A partition with `deleted0`.. and `updated0`.., and a neighbour.
fn fill(blogs: &EntityTable) {
    for n in 0..4 {
        blogs.insert(&blog(format!("deleted{n}"))).wait().unwrap();
        blogs.insert(&blog(format!("updated{n}"))).wait().unwrap();
    }
    blogs.insert(&Entity::new("Channel_20", "other").with("Rating", 7)).wait().unwrap();
}

/// The paper's change set: adds, deletes and `Rating++` with ETags together.
fn change_set(blogs: &EntityTable) -> EntityBatch {
    let mut batch = EntityBatch::new(CHANNEL);
    for n in 0..4 {
        let read = get(blogs, CHANNEL, &format!("updated{n}"));
        let rating: i32 = read.get_as("Rating").unwrap();
        let raised = Entity::new(CHANNEL, read.row_key()).with("Rating", rating + 1);
        let unchanged = Precondition::Version(read.version().unwrap());
        batch
            .insert(&blog(format!("new{n}")))
            .delete(format!("deleted{n}"), Precondition::Exists)
            .merge(&raised, unchanged);
    }
    batch
}

#[test]
fn u_04_adds_deletes_and_updates_are_done_together() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    fill(&blogs);
    let neighbour = get(&blogs, "Channel_20", "other");
    let version = blogs.commit(change_set(&blogs)).wait().unwrap();
    let found: Vec<_> = everything(&blogs)
        .into_iter()
        .map(|e| (e.row_key().to_owned(), e.get_as("Rating"), e.version() == Some(version)))
        .collect();
    let new = (0..4).map(|n| (format!("new{n}"), Some(1), true));
    let updated = (0..4).map(|n| (format!("updated{n}"), Some(2), true));
    let mut expected: Vec<_> = new.chain(updated).collect();
    expected.push(("other".into(), Some(7), false));
    assert_eq!(found, expected);
    assert_eq!(get(&blogs, CHANNEL, "updated0").get_as("Text"), Some("some text"));
    assert_eq!(get(&blogs, "Channel_20", "other"), neighbour);
}

/// W-211, W-212: 100 operations and 4 MiB are accepted, more is refused whole.
#[test]
fn u_04_a_hundred_operations_and_four_mebibytes_are_accepted_and_no_more() {
    let db = TestDb::with(options().memory_budget(32 << 20));
    let blogs = table(&db, "Blogs");
    let of = |operations: usize, bytes: usize| {
        let mut batch = EntityBatch::new(CHANNEL);
        for n in 0..operations {
            batch.insert(&Entity::new(CHANNEL, format!("{n:03}")).with("Picture", vec![7; bytes]));
        }
        batch
    };
    let refused = blogs.commit(of(101, 10)).wait();
    let Err(Error::LimitExceeded { what: Limit::BatchOperations, size: 101, limit: 100, .. }) =
        refused
    else {
        panic!("{refused:?}");
    };
    let refused = blogs.commit(of(64, 64 << 10)).wait();
    let Err(Error::LimitExceeded { what: Limit::BatchBytes, limit: 4_194_304, .. }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(everything(&blogs), []);
    blogs.commit(of(63, 64 << 10)).wait().unwrap();
    assert_eq!(blogs.query().page().unwrap().len(), 63);
    blogs.as_bytes().delete_partition(CHANNEL).wait().unwrap();
    blogs.commit(of(100, 10)).wait().unwrap();
    assert_eq!(blogs.query().page().unwrap().len(), 100);
}

/// W-226, W-227: the error names the operation at fault, wherever it stands, and nothing is done.
#[test]
fn u_04_a_fault_in_any_operation_undoes_all_and_is_named() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    fill(&blogs);
    let stale = Precondition::Version(get(&blogs, CHANNEL, "updated0").version().unwrap());
    blogs.insert_or_merge(&blog("updated0").with("Rating", 1)).wait().unwrap();
    let before = everything(&blogs);
    let with_fault = |at: usize, fault: &dyn Fn(&mut EntityBatch)| {
        let mut batch = EntityBatch::new(CHANNEL);
        for n in 0..10 {
            if n == at {
                fault(&mut batch);
            } else {
                batch.insert(&blog(format!("fresh{n}")));
            }
        }
        let error = blogs.commit(batch).wait().unwrap_err();
        assert_eq!(everything(&blogs), before, "{error}");
        error
    };
    for at in 0..10 {
        let error = with_fault(at, &|batch| {
            batch.merge(&blog("updated0"), stale);
        });
        assert!(matches!(error, Error::VersionMismatch { index, .. } if index == at), "{error}");
        let error = with_fault(at, &|batch| {
            batch.insert(&blog("updated1"));
        });
        assert!(matches!(error, Error::EntityExists { index, .. } if index == at), "{error}");
        let error = with_fault(at, &|batch| {
            batch.delete("absent", Precondition::Exists);
        });
        assert!(matches!(error, Error::EntityNotFound { index } if index == at), "{error}");
        // W-213: one partition.
        let error = with_fault(at, &|batch| {
            batch.insert(&Entity::new("Channel_20", "new"));
        });
        let Error::Entity { index, source } = error else { panic!("{error}") };
        assert_eq!(index, at);
        assert!(matches!(*source, EntityError::OtherPartition { .. }), "{source}");
    }
    // W-214: each entity once.
    for at in 1..10 {
        let error = with_fault(at, &|batch| {
            batch.delete("fresh0", Precondition::None);
        });
        let Error::DuplicateRowKey { index, first: 0 } = error else { panic!("{error}") };
        assert_eq!(index, at);
    }
}

/// W-215: of several faults the first in order is reported.
#[test]
fn u_04_of_two_faults_the_first_is_reported() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    fill(&blogs);
    let mut batch = EntityBatch::new(CHANNEL);
    batch.insert(&blog("fresh")).delete("absent", Precondition::Exists).insert(&blog("updated0"));
    let error = blogs.commit(batch).wait().unwrap_err();
    assert!(matches!(error, Error::EntityNotFound { index: 1 }), "{error}");
}

/// U-04: with the power going at any point of it, the change set is there whole or not at all, and
/// whole if it was acknowledged.
#[test]
fn u_04_a_crash_leaves_the_whole_change_set_or_nothing() {
    for style in CRASH_STYLES {
        let mut cut_at_all = false;
        for operations in 0.. {
            let (env, options) = machine(operations);
            let blogs = table(&open(&options).unwrap(), "Blogs");
            fill(&blogs);
            let before = everything(&blogs);
            let batch = change_set(&blogs);
            env.crash_after(operations);
            let outcome = blogs.commit(batch).wait();
            drop(blogs);
            env.crash(style);

            let blogs = table(&open(&options).unwrap(), "Blogs");
            let found = everything(&blogs);
            let is_done = found.iter().any(|entity| entity.row_key() == "new0");
            let context = format!("{style:?} after {operations}, {outcome:?}");
            if is_done {
                let new = found.iter().filter(|e| e.row_key().starts_with("new")).count();
                let raised = found.iter().filter(|e| e.get_as("Rating") == Some(2)).count();
                assert_eq!((found.len(), new, raised), (9, 4, 4), "{context}");
            } else {
                assert_eq!(found, before, "{context}");
            }
            if outcome.is_ok() {
                assert!(is_done, "{context}: acknowledged, and lost");
                break;
            }
            cut_at_all = true;
            assert!(style == CrashStyle::KeepAll || operations < 1_000, "{context}");
        }
        assert!(cut_at_all, "{style:?}: the power never went");
    }
}

/// W-220: a scan sees all of a change set or none of it.
#[test]
fn u_04_a_scan_beside_it_sees_all_of_a_change_set_or_none() {
    const ROWS: i32 = 20;
    const ROUNDS: i32 = 300;
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    let round = |n: i32| {
        let mut batch = EntityBatch::new(CHANNEL);
        for row in 0..ROWS {
            let row = Entity::new(CHANNEL, format!("{row:02}")).with("Round", n);
            batch.insert_or_replace(&row);
        }
        // Odd rounds have one row more.
        if n % 2 == 1 {
            batch.insert(&Entity::new(CHANNEL, "odd").with("Round", n));
        } else {
            batch.delete("odd", Precondition::None);
        }
        batch
    };
    blogs.commit(round(0)).wait().unwrap();
    let is_over = Ended::default();
    let read_all = || {
        let mut newest = 0;
        while !is_over.get() {
            let page = page(&blogs, &format!("PartitionKey eq '{CHANNEL}'"));
            let rounds: Vec<i32> =
                page.iter().map(|entity| entity.get_as("Round").unwrap().unwrap()).collect();
            let n = rounds[0];
            assert!(rounds.iter().all(|round| *round == n), "{rounds:?}");
            assert_eq!(rounds.len() as i32, ROWS + n % 2, "round {n}");
            assert!(n >= newest, "round {n} seen after {newest}");
            newest = n;
        }
    };
    thread::scope(|scope| {
        scope.spawn(read_all);
        scope.spawn(read_all);
        let _over = is_over.when_dropped();
        for n in 1..=ROUNDS {
            blogs.commit(round(n)).wait().unwrap();
        }
    });
}
