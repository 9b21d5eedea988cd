//! R-E10: nothing is acknowledged that would be in no file of the directory, as somebody removed it under the open
//! database.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use tablestone::{Database, Durability, Error};

use crate::support::options;

/// Removes what begins or ends with the given text.
fn remove(dir: &Path, part: &str) {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_part = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(part) || name.ends_with(part)
    };
    entries.filter(|path| is_part(path)).for_each(|path| fs::remove_file(path).unwrap());
}

#[test]
fn r_e10_a_log_that_was_removed_takes_no_more_writes() {
    for of_all in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let db = Database::open(&dir, options().durability(Durability::Sync)).unwrap();
        let t = db.create_table("t").wait().unwrap();
        t.insert("p", "before", "").wait().unwrap();
        if of_all {
            fs::remove_dir_all(&dir).unwrap();
        } else {
            remove(&dir, ".log");
        }
        let error = t.insert("p", "after", "").wait().unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
        let why = db.stats().poisoned.expect("the log failed");
        assert!(why.ends_with(".log\": somebody removed the file"), "{why}");
        assert!(matches!(t.insert("p", "r", "").wait(), Err(Error::Poisoned(_))));
        assert!(t.exists("p", "before").unwrap() && !t.exists("p", "after").unwrap());
        drop(t);
        assert!(matches!(db.close(), Err(Error::Poisoned(_))));
    }
}

#[test]
fn r_e10_a_manifest_that_was_removed_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "").wait().unwrap();
    remove(dir.path(), "MANIFEST-");
    let error = db.flush().unwrap_err();
    assert!(error.to_string().contains("MANIFEST-"), "{error}");
    db.flush().unwrap();
    drop(t);
    db.close().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    assert!(db.table("t").unwrap().exists("p", "r").unwrap());
}

/// What somebody put in the place of the directory, as a backup, is not this database's to write to; what it had is
/// where its directory is now.
#[test]
fn r_e10_a_directory_that_took_the_place_of_the_open_one_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let [dir, aside] = ["data", "aside"].map(|name| root.path().join(name));
    let db = Database::open(&dir, options().durability(Durability::Sync)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    fs::rename(&dir, &aside).unwrap();
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("CURRENT"), "of another").unwrap();
    t.insert("p", "r", "").wait().unwrap();
    match db.flush().unwrap_err() {
        Error::Io(io) => {
            let why = "another directory has taken the place of the one that is open";
            assert_eq!(io.source.to_string(), why);
        }
        other => panic!("{other:?}"),
    }
    let names: Vec<_> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["CURRENT"]);
    assert_eq!(fs::read(dir.join("CURRENT")).unwrap(), b"of another");

    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&aside, &dir).unwrap();
    db.flush().unwrap();
    drop(t);
    db.close().unwrap();
    let db = Database::open(&dir, options()).unwrap();
    assert!(db.table("t").unwrap().exists("p", "r").unwrap());
}
