//! Opening to read only: all that is there is read, and nothing of it changes.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};
use tablestone::{Batch, Commit, Database, Durability, Error, Options, Recovery, Table};

use crate::support::fixture::value;
use crate::support::sim::{DIR, open, sim_options};
use crate::support::{TestDb, all_rows, options};

fn read_only(dir: &Path) -> Result<Database, Error> {
    Database::open(dir, options().read_only(true))
}

/// Name, content and time of change of each file.
fn files(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let file = |entry: fs::DirEntry| {
        let changed = entry.metadata().unwrap().modified().unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, (fs::read(entry.path()).unwrap(), changed))
    };
    fs::read_dir(dir).unwrap().map(|entry| file(entry.unwrap())).collect()
}

/// Rows in several levels, in the log, in a range that was deleted, and large ones.
fn fill(db: &Database) -> Table {
    let t = db.create_table_if_missing("t").wait().unwrap();
    for n in 0..3_000u32 {
        t.upsert("p", n.to_be_bytes(), [7; 60]).wait().unwrap();
    }
    db.compact().unwrap();
    t.delete_range("p", 1_000u32.to_be_bytes()..2_000u32.to_be_bytes()).wait().unwrap();
    for n in 0..4u8 {
        t.upsert("large", [n], vec![n; 300_000]).wait().unwrap();
        t.upsert("q", [n], "in the log").wait().unwrap();
    }
    t
}

#[test]
fn all_that_is_there_is_read_and_no_file_changes() {
    let mut db = TestDb::new();
    let expected = all_rows(&fill(&db));
    db.close();
    let before = files(db.path());
    for _ in 0..2 {
        let db = read_only(db.path()).unwrap();
        assert!(db.recovery_report().replayed_commits > 0);
        let t = db.table("t").unwrap();
        assert_eq!(all_rows(&t), expected);
        assert_eq!(value(t.get("large", [3]).unwrap()), [3; 300_000]);
        assert_eq!(t.get("p", 1_500u32.to_be_bytes()).unwrap(), None);
        assert_eq!(all_rows(&t.at(&db.snapshot()).unwrap()), expected);
        assert_eq!(db.tables(None, 10).unwrap().names, ["t"]);
        assert!(db.run(move || t.exists("q", [0])).wait().unwrap());
        db.verify().unwrap();
        assert_eq!(db.damage().unwrap(), []);
        db.close().unwrap();
    }
    assert!(files(db.path()) == before);
    db.reopen();
    assert_eq!(all_rows(&db.t()), expected);
}

#[test]
fn what_would_write_is_refused() {
    let mut db = TestDb::new();
    db.t().upsert("p", "r", "v").wait().unwrap();
    db.close();
    let before = files(db.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let db = read_only(db.path()).unwrap();
    let t = db.table("t").unwrap();
    let mut batch = Batch::new("p");
    batch.upsert("r", "w");
    let is_refused = |written: Result<(), Error>| {
        assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
    };
    fn came<T>(commit: Commit<T>) -> Result<(), Error> {
        commit.wait().map(|_| ())
    }
    is_refused(came(t.upsert("p", "r", "w")));
    is_refused(came(t.upsert("p", "r", "w").durable()));
    is_refused(came(t.upsert("p", "r", "w").urgent()));
    is_refused(came(t.commit(batch)));
    is_refused(came(t.delete_partition("p")));
    is_refused(t.import([("p", "r", "w")]).map(|_| ()));
    is_refused(came(db.create_table("u")));
    is_refused(db.create_table_if_missing("u").wait().map(|_| ()));
    is_refused(came(db.drop_table("t")));
    is_refused(db.load_table("u").map(|_| ()));
    is_refused(db.sync());
    is_refused(db.flush());
    is_refused(db.compact());
    is_refused(db.checkpoint(elsewhere.path().join("checkpoint")).map(|_| ()));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert_eq!(value(t.get("p", "r").unwrap()), b"v");
    let dir = db.dir().to_owned();
    drop(t);
    db.close().unwrap();
    assert!(files(&dir) == before);
}

#[test]
fn many_read_at_once_and_nobody_writes_beside_them() {
    let mut db = TestDb::new();
    db.t().upsert("p", "r", "v").wait().unwrap();
    assert!(matches!(read_only(db.path()), Err(Error::Locked(dir)) if *dir == *db.path()));
    db.close();
    let readers = [read_only(db.path()).unwrap(), read_only(db.path()).unwrap()];
    for reader in readers {
        assert_eq!(value(reader.table("t").unwrap().get("p", "r").unwrap()), b"v");
        assert!(matches!(Database::open(db.path(), options()), Err(Error::Locked(_))));
        drop(reader);
    }
    db.reopen();
}

#[test]
fn what_is_no_database_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(matches!(read_only(&missing), Err(Error::NotADatabase { .. })));
    assert!(!missing.exists());
    assert!(matches!(read_only(dir.path()), Err(Error::NotADatabase { .. })));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let options = options().read_only(true).recovery(Recovery::Salvage);
    let salvaged = Database::open(dir.path(), options);
    assert!(matches!(salvaged, Err(Error::InvalidArgument(_))), "{salvaged:?}");
}

/// R-E22: damage is reported as by any opening.
#[test]
fn r_e22_damage_is_reported() {
    let mut db = TestDb::new();
    fill(&db);
    db.close();
    let table_files = files(db.path()).into_keys().filter(|name| name.ends_with(".sst"));
    for name in table_files {
        let path = db.path().join(&name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(matches!(read_only(db.path()), Err(Error::Corruption(_))), "{name}");
        fs::write(&path, bytes).unwrap();
    }
    drop(read_only(db.path()).unwrap());
}

/// A medium that refuses every change: nothing is tried on it.
#[test]
fn nothing_is_asked_of_a_disk_that_would_change_it() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let expected = all_rows(&fill(&db));
    // A load under way, too, and no close.
    let mut loader = db.load_table("unfinished").unwrap();
    loader.put("p", "r", "v").unwrap();
    env.crash(CrashStyle::KeepAll);
    drop((loader, db));
    for operation in [
        Operation::Create,
        Operation::Write,
        Operation::Sync,
        Operation::SyncDir,
        Operation::SetLen,
        Operation::Rename,
        Operation::Share,
        Operation::Remove,
    ] {
        env.fail(Fault::new(operation, "", ErrorKind::ReadOnlyFilesystem));
    }
    let read = |options: Options| Database::open(DIR, options.read_only(true)).unwrap();
    let db = read(sim_options(&env));
    assert_eq!(all_rows(&db.table("t").unwrap()), expected);
    assert_eq!(db.tables(None, 10).unwrap().names, ["t"]);
    let other = read(sim_options(&env).durability(Durability::Sync));
    env.run_all();
    db.close().unwrap();
    assert_eq!(all_rows(&other.table("t").unwrap()), expected);
    drop(other);
    env.clear_faults();
    let db = open(&env).unwrap();
    assert_eq!(all_rows(&db.table("t").unwrap()), expected);
}

/// R-E22: a crash may leave a segment that is kept for its values the name that it had in the log. Damage in it is told
/// by that.
#[test]
fn r_e22_damage_is_told_by_the_name_that_a_file_has() {
    let mut db = TestDb::new();
    for n in 0..4u8 {
        db.t().upsert("large", [n], vec![n; 300_000]).wait().unwrap();
    }
    db.flush().unwrap();
    db.close();
    let values: Vec<_> =
        files(db.path()).into_keys().filter(|name| name.ends_with(".values")).collect();
    let kept = db.path().join(values.first().expect("large values stay in the log"));
    let in_log = kept.with_extension("log");
    let mut bytes = fs::read(&kept).unwrap();
    bytes[150_000] ^= 1;
    fs::write(&in_log, &bytes).unwrap();
    fs::remove_file(&kept).unwrap();
    let reader = read_only(db.path()).unwrap();
    let damage = reader.damage().unwrap();
    assert_eq!(damage.iter().map(|damage| &*damage.file).collect::<Vec<_>>(), [in_log]);
}
