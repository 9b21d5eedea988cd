//! What a program does around the engine does it no harm: it changes its working directory.

use std::process::Command;

use tablestone::Database;

use crate::support::options;

const CHILD_MOVES: &str = "TABLESTONE_TEST_MOVES_TO";

/// Runs in a child process, for the test below: opens what is called `data` where it is, then goes elsewhere.
#[test]
fn child_that_changes_its_directory() {
    let Ok(elsewhere) = std::env::var(CHILD_MOVES) else { return };
    let db = Database::open("data", options()).unwrap();
    std::env::set_current_dir(elsewhere).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "v").wait().unwrap();
    db.compact().unwrap();
    drop(t);
    db.close().unwrap();
}

/// Daemons change their working directory.
#[test]
fn a_relative_directory_is_where_it_was_when_it_was_opened() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "embedding::child_that_changes_its_directory"])
        .env(CHILD_MOVES, elsewhere.path())
        .current_dir(here.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    let db = Database::open(here.path().join("data"), options()).unwrap();
    assert!(db.table("t").unwrap().exists("p", "r").unwrap());
}
