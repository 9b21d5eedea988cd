//! R-E05, R-E06: insert, replace, merge, delete and their unconditional forms; check and write
//! are one step, and a failure says what was found.

use tablestone::env::SimEnv;
use tablestone::{Batch, Error, Precondition, Table, Version};

use crate::support::fixture::value;
use crate::support::{Depth, TestDb, sim};

/// Runs a test with the entity p/r (value "old", version given) at every depth.
fn with_entity(test: impl Fn(&TestDb, &Table, Version)) {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        t.insert("p", "r", "older").wait().unwrap();
        let version = t.upsert("p", "r", "old").wait().unwrap();
        depth.settle(&db);
        test(&db, &t, version);
    }
}

fn unchanged(t: &Table, version: Version) {
    let row = t.get("p", "r").unwrap().unwrap();
    assert_eq!((row.version, &row.value[..]), (version, &b"old"[..]));
}

#[test]
fn r_e05_insert_needs_absence() {
    with_entity(|_, t, version| {
        let error = t.insert("p", "r", "new").wait().unwrap_err();
        assert!(matches!(error, Error::EntityExists { index: 0, version: v } if v == version));
        unchanged(t, version);
        let other = t.insert("p", "r2", "new").wait().unwrap();
        assert!(other > version);
        assert_eq!(t.get("p", "r2").unwrap().unwrap().version, other);
    });
}

#[test]
fn r_e05_replace_needs_existence_or_the_version() {
    with_entity(|_, t, version| {
        for wanted in [version.previous(), version.next()] {
            let late = t.replace("p", "r", Precondition::Version(wanted), "new").wait();
            assert!(matches!(
                late,
                Err(Error::VersionMismatch { index: 0, expected, found })
                    if expected == wanted && found == version
            ));
            unchanged(t, version);
        }
        for condition in [Precondition::Exists, Precondition::Version(version)] {
            let absent = t.replace("p", "none", condition, "new").wait();
            assert!(matches!(absent, Err(Error::EntityNotFound { index: 0 })));
            assert!(!t.exists("p", "none").unwrap());
        }
        let second = t.replace("p", "r", Precondition::Version(version), "new").wait().unwrap();
        assert_eq!(value(t.get("p", "r").unwrap()), b"new");
        let third = t.replace("p", "r", Precondition::Exists, "newer").wait().unwrap();
        assert!(version < second && second < third);
        assert_eq!(value(t.get("p", "r").unwrap()), b"newer");
    });
}

/// What a read found is what a write insists on, also that there was nothing.
#[test]
fn r_e05_a_write_may_insist_on_what_was_read() {
    with_entity(|_, t, version| {
        for (row, found) in [("r", Some(version)), ("s", None)] {
            let read = t.get("p", row).unwrap().map(|row| row.version);
            assert_eq!(read, found);
            t.replace("p", row, read.into(), "new").wait().unwrap();
            let late = t.replace("p", row, read.into(), "newer").wait();
            assert!(
                matches!(late, Err(Error::VersionMismatch { .. } | Error::EntityExists { .. })),
                "{late:?}"
            );
            assert_eq!(value(t.get("p", row).unwrap()), b"new");
        }
    });
}

#[test]
fn r_e05_upsert_needs_nothing() {
    with_entity(|_, t, _| {
        t.upsert("p", "r", "new").wait().unwrap();
        t.upsert("p", "s", "new").wait().unwrap();
        assert_eq!(value(t.get("p", "r").unwrap()), b"new");
        assert_eq!(value(t.get("p", "s").unwrap()), b"new");
    });
}

fn append(old: Option<&[u8]>) -> Result<Vec<u8>, tablestone::MergeRefusal> {
    Ok([old.unwrap_or(b"nothing"), b"+"].concat())
}

#[test]
fn r_e05_merge_makes_the_new_value_from_the_old_one() {
    with_entity(|_, t, version| {
        t.merge("p", "r", Precondition::Exists, append).wait().unwrap();
        let second = t.merge("p", "r", Precondition::None, append).wait().unwrap();
        t.merge("p", "r", Precondition::Version(second), append).wait().unwrap();
        assert_eq!(value(t.get("p", "r").unwrap()), b"old+++");
        let late = t.merge("p", "r", Precondition::Version(version), append).wait();
        assert!(matches!(late, Err(Error::VersionMismatch { .. })));
        let absent = t.merge("p", "none", Precondition::Exists, append).wait();
        assert!(matches!(absent, Err(Error::EntityNotFound { .. })));
        t.merge("p", "none", Precondition::None, append).wait().unwrap();
        assert_eq!(value(t.get("p", "none").unwrap()), b"nothing+");
    });
}

#[test]
fn r_e05_a_refused_merge_changes_nothing_and_says_why() {
    with_entity(|_, t, version| {
        let refused = t.merge("p", "r", Precondition::None, |_| Err("not today".into())).wait();
        let Err(error @ Error::MergeRefused { index: 0, .. }) = refused else {
            panic!("{refused:?}");
        };
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "not today");
        unchanged(t, version);
    });
}

#[test]
fn r_e05_a_merge_that_does_not_apply_is_not_run() {
    with_entity(|_, t, version| {
        let never = |_: Option<&[u8]>| -> Result<Vec<u8>, _> { panic!("must not run") };
        assert!(t.merge("p", "r", Precondition::Absent, never).wait().is_err());
        assert!(t.merge("p", "none", Precondition::Exists, never).wait().is_err());
        unchanged(t, version);
    });
}

#[test]
fn r_e05_delete_needs_existence_or_the_version_or_nothing() {
    with_entity(|db, t, version| {
        let late = t.delete("p", "r", Precondition::Version(version.previous())).wait();
        assert!(matches!(late, Err(Error::VersionMismatch { found, .. }) if found == version));
        unchanged(t, version);
        t.delete("p", "r", Precondition::Version(version)).wait().unwrap();
        assert_eq!(t.get("p", "r").unwrap(), None);
        for depth in Depth::ALL {
            depth.settle(db);
            assert!(!t.exists("p", "r").unwrap(), "{depth:?}");
            let again = t.delete("p", "r", Precondition::Exists).wait();
            assert!(matches!(again, Err(Error::EntityNotFound { index: 0 })));
            let again = t.delete("p", "r", Precondition::Version(version)).wait();
            assert!(matches!(again, Err(Error::EntityNotFound { index: 0 })));
        }
        t.delete("p", "r", Precondition::None).wait().unwrap();
        t.insert("p", "r", "again").wait().unwrap();
        t.delete("p", "r", Precondition::Exists).wait().unwrap();
        assert!(!t.exists("p", "r").unwrap());
    });
}

#[test]
fn r_e05_a_version_from_before_a_delete_never_matches_again() {
    with_entity(|_, t, version| {
        t.delete("p", "r", Precondition::Exists).wait().unwrap();
        let again = t.insert("p", "r", "old").wait().unwrap();
        assert!(again > version);
        let late = t.replace("p", "r", Precondition::Version(version), "late").wait();
        assert!(matches!(late, Err(Error::VersionMismatch { found, .. }) if found == again));
    });
}

#[test]
fn r_e05_of_many_threads_with_one_version_exactly_one_succeeds() {
    let db = TestDb::new();
    let t = db.t();
    let version = t.insert("p", "r", "0").wait().unwrap();
    let won: usize = std::thread::scope(|scope| {
        let race = |n: u8| {
            let t = t.clone();
            scope.spawn(move || {
                let condition = Precondition::Version(version);
                match n % 2 {
                    0 => t.replace("p", "r", condition, [n]).wait().is_ok(),
                    _ => t.delete("p", "r", condition).wait().is_ok(),
                }
            })
        };
        let threads: Vec<_> = (0..16).map(race).collect();
        threads.into_iter().filter(|_| true).map(|t| usize::from(t.join().unwrap())).sum()
    });
    assert_eq!(won, 1);
}

#[test]
fn r_e05_of_many_threads_that_insert_exactly_one_succeeds() {
    let db = TestDb::new();
    let t = db.t();
    for round in 0..20u8 {
        let won: usize = std::thread::scope(|scope| {
            let race = |n: u8| {
                let t = t.clone();
                scope.spawn(move || t.insert("p", [round], [n]).wait().is_ok())
            };
            let threads: Vec<_> = (0..8).map(race).collect();
            threads.into_iter().map(|t| usize::from(t.join().unwrap())).sum()
        });
        assert_eq!(won, 1);
    }
}

/// R-E11: that an operation fails says that those before it do not. Whatever that is due to is visible by then, as it
/// could be lost otherwise by a crash.
#[test]
fn r_e11_a_failure_answers_once_what_the_operations_before_it_found_is_visible() {
    let stale = Precondition::Version(Version::from_ticks(7));
    let add = |batch: &mut Batch, what: &str| match what {
        "not there" => batch.put("absent", Precondition::Exists, "new").len(),
        "of another version" => batch.put("old", stale, "new").len(),
        "refused" => batch.merge("old", Precondition::None, |_| Err("no".into())).len(),
        _ => batch.upsert("here", "twice").len(),
    };
    for what in ["not there", "of another version", "refused", "named twice"] {
        for others in [0, 60] {
            let db = sim::open(&SimEnv::new(1)).unwrap();
            let t = db.create_table("t").wait().unwrap();
            t.upsert("p", "old", "old").wait().unwrap();
            // Ordered, and in nobody's log yet.
            let under_way = t.upsert("p", "here", "here");
            assert!(!t.exists("p", "here").unwrap());
            let mut batch = Batch::new("p");
            batch.put("here", Precondition::Exists, "new");
            for n in 0..others {
                batch.insert([n], "");
            }
            add(&mut batch, what);
            let failed = t.commit(batch).wait();
            assert!(failed.is_err(), "{what}");
            assert!(t.exists("p", "here").unwrap(), "{what} after {others} others: {failed:?}");
            under_way.wait().unwrap();
        }
    }
}

/// The same for what a deletion of a range takes away.
#[test]
fn r_e11_a_failure_for_want_of_an_entity_answers_once_its_deletion_is_visible() {
    for rows in [1u8, 200] {
        let db = sim::open(&SimEnv::new(1)).unwrap();
        let t = db.create_table("t").wait().unwrap();
        t.import((0..rows).map(|n| ("p", [n], ""))).unwrap();
        let under_way = t.delete_partition("p");
        assert!(t.exists("p", [0]).unwrap());
        let failed = t.replace("p", [0], Precondition::Exists, "new").wait();
        assert!(matches!(failed, Err(Error::EntityNotFound { index: 0 })));
        assert!(!t.exists("p", [0]).unwrap(), "it was not there, and is again");
        under_way.wait().unwrap();
    }
}
