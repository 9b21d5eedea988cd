//! What a program does around the engine does it no harm: its threads end with handles of theirs, and it changes its
//! working directory.

use std::cell::OnceCell;
use std::process::Command;

use tablestone::Database;

use crate::support::wait::LIMIT;
use crate::support::{TestDb, all_rows, options};

/// What is kept for a thread is dropped as the thread ends, the newest first: what waits or reads then comes after
/// all that the engine keeps for it.
#[test]
fn a_thread_that_ends_may_still_read_and_write_and_close() {
    struct AtEnd(Database);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            read_and_write(&self.0, "at the end");
        }
    }
    thread_local! {
        static LAST: OnceCell<AtEnd> = const { OnceCell::new() };
    }
    fn read_and_write(db: &Database, row: &str) {
        let t = db.table("t").unwrap();
        // More than is kept of what was decompressed.
        assert!(all_rows(&t).len() >= 2_000);
        t.insert("p", row, "").wait_timeout(LIMIT).unwrap().expect("a disk");
    }
    let mut db = TestDb::new();
    let rows = (0..2_000u32).map(|n| ("p", n.to_be_bytes(), [7; 200]));
    db.t().import(rows).unwrap();
    db.compact().unwrap();
    db.close();
    let again = Database::open(db.path(), options()).unwrap();
    // Windows: no thread ends while another drops its own, and to close is to wait for some.
    let kept = cfg!(windows).then(|| again.clone());
    let ending = std::thread::spawn(move || {
        LAST.with(|last| last.set(AtEnd(again.clone())).is_ok());
        read_and_write(&again, "before");
    });
    ending.join().unwrap();
    drop(kept);
    db.reopen();
    for row in ["before", "at the end"] {
        assert!(db.t().exists("p", row).unwrap());
    }
}

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
