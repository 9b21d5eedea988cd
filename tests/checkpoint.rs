//! Checkpoints (R-E08, R-E10, R-E11): a database of its own of all that is committed, made while others write. That
//! each has what its database had is in `tests/model.rs`, that power may go meanwhile in `tests/crash.rs`.

mod support;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tablestone::env::{CrashStyle, Env, Fault, Operation, SimEnv};
use tablestone::{Batch, Database, Error, Options, Recovery, Version};

use support::hooked::HookedEnv;
use support::model::{dump, value};
use support::sim::{DIR, sim_options};
use support::{TestDb, all_rows, options};

const COPY: &str = "/copy";

/// Puts the same in five rows of a table.
fn put(db: &Database, table: &str, round: u32) -> Version {
    let mut batch = Batch::new("p");
    for row in 0..5u8 {
        batch.upsert([row], round.to_be_bytes());
    }
    db.table(table).unwrap().commit(batch).wait().unwrap()
}

/// R-E08, R-E11: it has whole batches up to one version, of all tables, and none after.
#[test]
fn it_has_all_commits_up_to_one_version() {
    let (root, db) = (tempfile::tempdir().unwrap(), TestDb::new());
    let tables = ["a", "b"];
    for table in tables {
        db.create_table(table).wait().unwrap();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut versions = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let round = versions.len();
                versions.push(put(&db, tables[round % 2], round as u32));
            }
            versions
        });
        let copies: Vec<(Version, Database)> = (0..8)
            .map(|n| {
                let dir = root.path().join(n.to_string());
                (db.checkpoint(&dir).unwrap(), Database::open(&dir, options()).unwrap())
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        let versions = writer.join().unwrap();
        for (version, copy) in copies {
            let count = versions.iter().filter(|v| **v <= version).count();
            for (n, name) in tables.into_iter().enumerate() {
                let newest = (0..count).rfind(|round| round % 2 == n);
                let values = all_rows(&copy.table(name).unwrap()).into_iter().map(|row| row.2);
                let expected = newest.map(|round| vec![(round as u32).to_be_bytes().to_vec(); 5]);
                assert_eq!(values.collect::<Vec<_>>(), expected.unwrap_or_default(), "{count}");
            }
            copy.verify().unwrap();
        }
    });
}

/// R-E10: what it has is durable when it is made.
#[test]
fn it_survives_power_loss_with_values_that_stay_in_the_log() {
    let env = SimEnv::new(1);
    let options = sim_options(&env).large_value_bytes(1_000);
    survives(&env, &options);
    // Its disk knows no second names: files are copied.
    let env = SimEnv::new(1);
    let hooked = HookedEnv::new(env.clone(), |_| Ok(()));
    survives(&env, &options.env(Arc::new(hooked)));
}

fn survives(env: &SimEnv, options: &Options) {
    let db = Database::open(DIR, options.clone()).unwrap();
    let table = db.create_table("t").wait().unwrap();
    for row in 0..40u8 {
        table.upsert("p", [row], value(1, row, 50 + u16::from(row % 2) * 2_000)).wait().unwrap();
    }
    let model = dump(&db);
    let version = db.checkpoint(COPY).unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    drop(db);
    let copy = Database::open(COPY, options.clone()).unwrap();
    assert_eq!(dump(&copy), model);
    assert!(env.list(Path::new(COPY)).iter().any(|name| name.ends_with(".values")));
    let after = copy.table("t").unwrap().upsert("p", "new", "").wait().unwrap();
    assert!(after > version, "R-E04");
}

/// R-E10: a segment that is kept for its values is in both, and no power cut makes it one that the log of either uses
/// again: not with its other name taken back, nor where it never had that, nor by salvage without a manifest.
#[test]
fn values_it_shares_are_left_alone_whatever_their_name() {
    for (is_renamed, is_salvaged) in [(true, false), (false, false), (true, true), (false, true)] {
        let style = if is_renamed { CrashStyle::LoseUnsynced } else { CrashStyle::KeepAll };
        let env = SimEnv::new(1);
        let options = sim_options(&env).large_value_bytes(1_000);
        let db = Database::open(DIR, options.clone()).unwrap();
        let table = db.create_table("t").wait().unwrap();
        db.flush().unwrap();
        if !is_renamed {
            env.fail(Fault::new(Operation::Rename, ".values", ErrorKind::Other));
        }
        for row in 0..40u8 {
            table.upsert("p", [row], value(1, row, 2_050)).wait().unwrap();
        }
        db.checkpoint(COPY).unwrap();
        let model = dump(&db);
        // Nothing refers to them any more, and it makes no file.
        table.delete_partition("p").wait().unwrap();
        db.flush().unwrap();
        env.run_all();
        env.clear_faults();
        env.crash(style);
        drop((table, db));
        let mut opened_with = options.clone();
        if is_salvaged {
            env.remove_file(&Path::new(DIR).join("CURRENT"));
            opened_with = opened_with.recovery(Recovery::Salvage);
        }
        let db = Database::open(DIR, opened_with).unwrap();
        let table = db.table("t").unwrap();
        for round in 0..400u32 {
            table.upsert("q", round.to_be_bytes(), value(round, 1, 900)).wait().unwrap();
            if round % 20 == 0 {
                db.flush().unwrap();
                env.run_all();
            }
        }
        let copy = Database::open(COPY, options).unwrap();
        copy.verify().unwrap();
        assert_eq!(dump(&copy), model);
    }
}

/// R-E10: so is the name of its directory, whoever made that.
#[test]
fn the_name_of_its_directory_is_durable() {
    let env = SimEnv::new(1);
    let db = Database::open(DIR, sim_options(&env)).unwrap();
    env.disk().create_dir_all(Path::new("/home/copy")).unwrap();
    env.fail(Fault { times: 1, ..Fault::new(Operation::SyncDir, "/home", ErrorKind::Other) });
    let Err(Error::Io(error)) = db.checkpoint("/home/copy") else { panic!("made") };
    assert_eq!(error.path, Path::new("/home"));
    db.checkpoint("/home/copy").unwrap();
}

/// Files are in both directories, and are never written again: what becomes of one database is not seen in the other.
#[test]
fn it_shares_files_where_it_can() {
    let root = tempfile::tempdir().unwrap();
    let db = Database::open(root.path().join("db"), options()).unwrap();
    db.create_table("a").wait().unwrap();
    put(&db, "a", 1);
    let dir = root.path().join("missing/copy");
    db.checkpoint(&dir).unwrap();
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|e| e == "sst")).collect();
    assert_eq!(tables.len(), 1);
    assert!(has_names(&tables[0], 2));
    put(&db, "a", 2);
    db.compact().unwrap();
    db.close().unwrap();
    assert!(has_names(&tables[0], 1), "the database has another");
    let copy = Database::open(&dir, options()).unwrap();
    copy.verify().unwrap();
    assert!(all_rows(&copy.table("a").unwrap()).iter().all(|row| row.2 == 1u32.to_be_bytes()));
}

#[cfg(unix)]
fn has_names(path: &Path, expected: u64) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().nlink() == expected
}

/// The standard library does not tell.
#[cfg(not(unix))]
fn has_names(_path: &Path, _expected: u64) -> bool {
    true
}

type Act = Box<dyn FnOnce() + Send>;

/// Something to be done once, when the time has come.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<Option<Act>>>);

impl Later {
    fn set(&self, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(act));
    }

    fn run_if(&self, is_time: bool) {
        let due = self.0.lock().unwrap().take_if(|_| is_time);
        due.into_iter().for_each(|act| act());
    }
}

/// R-E17: rows that are loaded meanwhile are not in it under no name, to be those of the next table that is made.
#[test]
fn a_load_that_ends_after_the_flush_is_not_in_it() {
    let (machine, later) = (SimEnv::new(2), Later::default());
    let due = later.clone();
    let env = HookedEnv::new(machine.clone(), move |path| {
        due.run_if(path.extension().is_some_and(|name| name == "sst"));
        Ok(())
    });
    let db = Database::open(DIR, sim_options(&machine).env(Arc::new(env))).unwrap();
    db.create_table("a").wait().unwrap();
    put(&db, "a", 1);
    let loading = db.clone();
    later.set(move || {
        let mut load = loading.load_table("loaded").unwrap();
        load.put("p", "of another table", "v").unwrap();
        load.finish().unwrap();
    });
    db.checkpoint(COPY).unwrap();
    assert_eq!(all_rows(&db.table("loaded").unwrap()).len(), 1);
    let copy = Database::open(COPY, sim_options(&machine)).unwrap();
    assert_eq!(copy.tables(None, 10).unwrap().names, ["a"]);
    assert!(all_rows(&copy.create_table("fresh").wait().unwrap()).is_empty());
    assert_eq!(all_rows(&copy.table("a").unwrap()).len(), 5);
}

/// The second of two in one directory is refused, however late it finds the first.
#[test]
fn it_takes_no_other_for_what_it_failed_to_make() {
    let (machine, later) = (SimEnv::new(2), Later::default());
    let due = later.clone();
    let env = HookedEnv::new(machine.clone(), |_| Ok(())).before_lock(move |path| {
        due.run_if(path.starts_with(COPY));
        Ok(())
    });
    let db = Database::open(DIR, sim_options(&machine).env(Arc::new(env))).unwrap();
    db.create_table("a").wait().unwrap();
    put(&db, "a", 1);
    let other = db.clone();
    later.set(move || assert!(other.checkpoint(COPY).is_ok()));
    let second = db.checkpoint(COPY);
    assert!(matches!(second, Err(Error::InvalidArgument(_))), "{second:?}");
    assert_eq!(dump(&Database::open(COPY, sim_options(&machine)).unwrap()), dump(&db));
}

#[test]
fn it_needs_a_directory_without_files() {
    let (root, db) = (tempfile::tempdir().unwrap(), TestDb::new());
    let other = root.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "mine").unwrap();
    for dir in [&other, db.dir()] {
        match db.checkpoint(dir).unwrap_err() {
            Error::InvalidArgument(why) => assert!(why.contains("empty"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(std::fs::read_to_string(other.join("notes.txt")).unwrap(), "mine");
}

/// R-E06: what fails is told, takes nothing from the database, and can be tried again.
#[test]
fn one_that_fails_leaves_nothing() {
    let env = SimEnv::new(2);
    let db = Database::open(DIR, sim_options(&env)).unwrap();
    db.create_table("a").wait().unwrap();
    put(&db, "a", 1);
    db.flush().unwrap();
    let model = dump(&db);
    let faults = [
        (Operation::Share, ".sst"),
        (Operation::Write, ".log"),
        (Operation::Sync, ".log"),
        (Operation::Sync, "MANIFEST"),
        (Operation::Rename, "CURRENT"),
        (Operation::SyncDir, COPY),
        (Operation::SyncDir, "/"),
    ];
    for (on, name) in faults {
        env.fail(Fault::new(on, name, ErrorKind::StorageFull));
        match db.checkpoint(COPY) {
            Err(Error::Io(error)) => {
                let is_of_copy = error.path.starts_with(COPY) || &*error.path == Path::new("/");
                assert!(is_of_copy || on == Operation::Share, "{error}");
            }
            other => panic!("{on:?} {name}: {other:?}"),
        }
        env.clear_faults();
        let left = env.list(Path::new(COPY));
        assert!(left.is_empty(), "{on:?} {name}: {left:?}");
        assert_eq!(db.stats().live_snapshots, 0, "{on:?} {name}");
    }
    db.checkpoint(COPY).unwrap();
    assert_eq!(db.stats().live_snapshots, 0, "what is written over may go, R-E20");
    assert_eq!(dump(&Database::open(COPY, sim_options(&env)).unwrap()), model);
    assert_eq!(dump(&db), model);
}

/// The file that is to be locked has been made by then.
#[test]
fn one_that_gets_no_lock_leaves_nothing() {
    let machine = SimEnv::new(2);
    let disk = machine.disk();
    let env = HookedEnv::new(machine.clone(), |_| Ok(())).before_lock(move |path| {
        if !path.starts_with(COPY) {
            return Ok(());
        }
        disk.create(path).and(Err(ErrorKind::Other.into()))
    });
    let db = Database::open(DIR, sim_options(&machine).env(Arc::new(env))).unwrap();
    assert!(matches!(db.checkpoint(COPY), Err(Error::Io(io)) if io.action == "lock"));
    assert!(machine.list(Path::new(COPY)).is_empty());
}
