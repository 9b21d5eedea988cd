//! R-E06: errors are apart, each says in a sentence what was wrong, and causes are chained.

use std::error::Error as _;

use tablestone::env::{Fault, SimEnv};
use tablestone::{Batch, Error, Precondition, Version};

use crate::support::TestDb;
use crate::support::sim::open;

#[test]
fn r_e06_every_error_names_what_was_wrong() {
    let db = TestDb::new();
    let t = db.t();
    let version = t.insert("p", "r", "").wait().unwrap();
    let wrong = Version::from_ticks(7);
    let mut twice = Batch::new("p");
    twice.upsert("a", "").upsert("a", "");
    let cases: Vec<(Error, Vec<String>)> = vec![
        (
            t.insert("p", "r", "").wait().unwrap_err(),
            vec!["operation 0".into(), "exists".into(), version.to_string()],
        ),
        (
            t.delete("p", "x", Precondition::Exists).wait().unwrap_err(),
            vec!["operation 0".into(), "does not exist".into()],
        ),
        (
            t.delete("p", "r", Precondition::Version(wrong)).wait().unwrap_err(),
            vec![version.to_string(), wrong.to_string()],
        ),
        (t.commit(twice).wait().unwrap_err(), vec!["operation 1".into(), "operation 0".into()]),
        (db.table("nope").unwrap_err(), vec!["nope".into()]),
        (db.create_table("t").wait().unwrap_err(), vec!["\"t\"".into(), "exists".into()]),
        (
            t.insert("p", "r".repeat(3000), "").wait().unwrap_err(),
            vec!["RowKey".into(), "3000".into(), "2048".into()],
        ),
    ];
    for (error, parts) in cases {
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(&part), "{text:?} lacks {part:?}");
        }
        assert!(!error.is_busy());
    }
}

#[test]
fn r_e06_an_io_error_names_the_file_and_chains_what_the_system_said() {
    let env = SimEnv::new(1);
    env.fail(Fault {
        on: tablestone::env::Operation::Create,
        path_contains: String::new(),
        kind: std::io::ErrorKind::PermissionDenied,
        after: 0,
        times: u64::MAX,
    });
    let error = open(&env).unwrap_err();
    let Error::Io(io) = &error else { panic!("{error:?}") };
    assert!(io.path.starts_with("/db"));
    assert!(error.to_string().contains("/db"));
    assert_eq!(io.source.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(error.source().unwrap().downcast_ref::<std::io::Error>().is_some());
}

#[test]
fn r_e06_a_failed_condition_is_no_reason_to_stop() {
    let db = TestDb::new();
    let t = db.t();
    for n in 0..500u32 {
        assert!(t.delete("p", n.to_be_bytes(), Precondition::Exists).wait().is_err());
        t.insert("p", n.to_be_bytes(), "").wait().unwrap();
        assert!(t.insert("p", n.to_be_bytes(), "").wait().is_err());
    }
    assert_eq!(t.query().page().unwrap().len(), 500);
}

/// What is wrong with the directory is told, not that it is there. Unix: a link that leads to itself can be made.
#[cfg(unix)]
#[test]
fn r_e06_a_directory_that_cannot_be_looked_at_is_told_so() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    std::os::unix::fs::symlink(&dir, &dir).unwrap();
    let why = std::fs::metadata(&dir).unwrap_err().to_string();
    match tablestone::Database::open(&dir, crate::support::options()).unwrap_err() {
        Error::Io(io) => assert_eq!((&*io.path, io.source.to_string()), (&*dir, why)),
        other => panic!("{other:?}"),
    }
}
