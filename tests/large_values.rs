//! Large values are written once: they stay where the log wrote them, and table files refer to them
//! there. They are read from there, move when their segment holds little else, and take bounded space.

mod support;

use std::fs;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};
use tablestone::{Database, Entity, Error, Options, Plan, Precondition, ReadMode, Recovery, Table};

use support::model::{dump, value, without_versions};
use support::sim::{DIR, find, paths, sim_options};
use support::{TestDb, options};

const LARGE: usize = 1_000;

fn large_options(env: &SimEnv) -> Options {
    sim_options(env).large_value_bytes(LARGE).read_mode(support::read_mode())
}

fn open(env: &SimEnv) -> Database {
    Database::open(DIR, large_options(env)).unwrap()
}

fn put(table: &Table, rows: std::ops::Range<u32>, step: u32, len: u16) {
    for row in rows {
        table.upsert("p", row.to_be_bytes(), value(step, row as u8, len)).wait().unwrap();
    }
}

fn check(table: &Table, rows: std::ops::Range<u32>, step: u32, len: u16) {
    for row in rows.clone() {
        let found = table.get("p", row.to_be_bytes()).unwrap().unwrap();
        assert_eq!(*found.value, *value(step, row as u8, len), "row {row}");
    }
    let keys: Vec<_> = rows.clone().map(u32::to_be_bytes).collect();
    let many = table.get_many("p", &keys).unwrap();
    for (row, found) in rows.clone().zip(many) {
        assert_eq!(*found.unwrap().value, *value(step, row as u8, len), "row {row} of many");
    }
    let pages = table.query().reverse().pages().map(|page| page.unwrap());
    let all: Vec<_> =
        pages.flat_map(|page| page.iter().map(|r| r.value.to_vec()).collect::<Vec<_>>()).collect();
    let expected: Vec<_> = rows.rev().map(|row| value(step, row as u8, len)).collect();
    assert_eq!(all, expected);
}

/// A database with a table of forty values in the log, which are flushed.
fn filled(env: &SimEnv) -> (Database, Table) {
    let database = open(env);
    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..40, 1, 3_000);
    database.flush().unwrap();
    env.run_all();
    (database, table)
}

fn segments(env: &SimEnv) -> Vec<PathBuf> {
    paths(env, ".values")
}

/// Written once, and read from where they are: by key, many at once, in pages, after opening again.
#[test]
fn large_values_stay_where_the_log_wrote_them() {
    let env = SimEnv::new(1);
    let (database, table) = filled(&env);
    let stats = database.stats();
    assert!(stats.value_bytes > 100_000, "{stats:?}");
    assert!(stats.flush_bytes < 20_000, "the flushes wrote keys and references: {stats:?}");
    check(&table, 0..40, 1, 3_000);
    database.verify().unwrap();
    database.compact().unwrap();
    assert!(database.stats().compaction_written_bytes < 20_000, "{:?}", database.stats());
    check(&table, 0..40, 1, 3_000);
    drop(table);
    database.close().unwrap();

    let database = open(&env);
    assert_eq!(database.recovery_report().replayed_commits, 0);
    let table = database.table("t").unwrap();
    check(&table, 0..40, 1, 3_000);
    assert!(database.stats().value_bytes > 100_000);
    let estimate = table.estimate().unwrap();
    assert!(estimate.bytes > 60_000, "an estimate counts what is referred to: {estimate:?}");
}

/// Conditions, merges and deletes see them as any other value.
#[test]
fn writes_meet_large_values_as_others() {
    let env = SimEnv::new(2);
    let database = open(&env);
    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..20, 1, 3_000);
    database.flush().unwrap();
    let row = |n: u32| n.to_be_bytes();
    let taken = table.insert("p", row(3), "new").wait();
    assert!(matches!(taken, Err(Error::EntityExists { .. })), "{taken:?}");
    let version = table.get("p", row(3)).unwrap().unwrap().version;
    table.replace("p", row(3), Precondition::Version(version), "new").wait().unwrap();
    table.delete("p", row(4), Precondition::Exists).wait().unwrap();
    let append = |old: Option<&[u8]>| Ok([old.unwrap(), b"tail"].concat());
    table.merge("p", row(5), Precondition::Exists, append).wait().unwrap();
    database.compact().unwrap();
    assert_eq!(*table.get("p", row(3)).unwrap().unwrap().value, *b"new");
    assert!(table.get("p", row(4)).unwrap().is_none());
    let expected = [value(1, 5, 3_000), b"tail".to_vec()].concat();
    assert_eq!(*table.get("p", row(5)).unwrap().unwrap().value, *expected);
}

/// A snapshot sees what it saw, whatever is written, compacted or removed since.
#[test]
fn a_snapshot_keeps_the_values_it_sees() {
    let env = SimEnv::new(3);
    let database = open(&env);
    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..20, 1, 3_000);
    database.flush().unwrap();
    let snapshot = database.snapshot();
    for step in 2..6 {
        put(&table, 0..20, step, 3_000);
        database.flush().unwrap();
        database.compact().unwrap();
        env.run_all();
    }
    let view = table.at(&snapshot).unwrap();
    for row in 0..20u32 {
        assert_eq!(
            *view.get("p", row.to_be_bytes()).unwrap().unwrap().value,
            *value(1, row as u8, 3_000)
        );
    }
    drop((view, snapshot));
    check(&table, 0..20, 5, 3_000);
}

/// What is dropped or deleted gives its segments back; after a crash too, nothing is left behind.
#[test]
fn segments_that_nothing_refers_to_are_removed() {
    let env = SimEnv::new(4);
    let database = open(&env);
    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..40, 1, 3_000);
    database.flush().unwrap();
    assert!(!segments(&env).is_empty());
    database.drop_table("t").wait().unwrap();
    database.flush().unwrap();
    env.run_all();
    assert!(segments(&env).is_empty());
    assert_eq!(database.stats().value_bytes, 0);

    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..40, 1, 3_000);
    database.flush().unwrap();
    let orphan = PathBuf::from(DIR).join("00000000000000ff.values");
    env.write_file(&orphan, b"an orphan");
    env.crash(CrashStyle::KeepAll);
    drop((table, database));
    let database = open(&env);
    env.run_all();
    assert!(!segments(&env).contains(&orphan));
    check(&database.table("t").unwrap(), 0..40, 1, 3_000);
}

/// R-E17, R-E19: also when nothing of them is left by the time that they are flushed.
#[test]
fn segments_whose_table_is_dropped_before_the_flush_are_removed() {
    let env = SimEnv::new(5);
    let database = open(&env);
    for _ in 0..3 {
        let table = database.create_table("t").wait().unwrap();
        put(&table, 0..40, 1, 3_000);
        database.drop_table("t").wait().unwrap();
        database.flush().unwrap();
        env.run_all();
        assert!(segments(&env).is_empty());
    }
}

/// Rows overwritten at random, many times over, take at most so many times their size.
#[test]
fn churn_takes_bounded_space() {
    let db = TestDb::with(options().memory_budget(1 << 20).large_value_bytes(LARGE));
    let table = db.t();
    let (rows, len) = (1_500u32, 3_000u16);
    put(&table, 0..rows, 0, len);
    let mut noise = 1u32;
    for step in 1..=6 * rows {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let row = (noise >> 8) % rows;
        table.upsert("p", row.to_be_bytes(), value(step, row as u8, len)).wait().unwrap();
    }
    db.flush().unwrap();
    let live = u64::from(rows) * u64::from(len);
    // What the log and its spare segments take does not grow with the data.
    let fixed = 4 * (1 << 20) / 8 + (1 << 20);
    support::wait::until("space comes back", || {
        let bytes = db.disk_bytes();
        10 * bytes < 22 * live + 10 * fixed
    });
    db.compact().unwrap();
    db.verify().unwrap();
    let stats = db.stats();
    assert!(stats.value_bytes + stats.file_bytes() > live / 2, "{stats:?}");
    assert_eq!(table.query().pages().map(|page| page.unwrap().len()).sum::<usize>(), rows as usize);
}

/// A sparse segment's last values move to table files, and the segment goes.
#[test]
fn a_sparse_segment_is_given_up() {
    let env = SimEnv::new(5);
    let (database, table) = filled(&env);
    let before = segments(&env);
    // All but one in eight is written anew, small.
    for row in (0..40u32).filter(|row| row % 8 != 0) {
        table.upsert("p", row.to_be_bytes(), "small").wait().unwrap();
    }
    database.flush().unwrap();
    database.compact().unwrap();
    env.run_all();
    database.compact().unwrap();
    env.run_all();
    let after = segments(&env);
    assert!(before.len() > 1 && after.is_empty(), "{before:?}, {after:?}");
    for row in (0..40u32).step_by(8) {
        assert_eq!(
            *table.get("p", row.to_be_bytes()).unwrap().unwrap().value,
            *value(1, row as u8, 3_000)
        );
    }
    database.verify().unwrap();
}

/// Small values are flushed as ever, and so are large ones among many small ones.
#[test]
fn small_values_and_few_large_ones_go_to_table_files() {
    let env = SimEnv::new(6);
    let database = open(&env);
    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..200, 1, 300);
    put(&table, 200..203, 1, 1_200);
    database.flush().unwrap();
    assert_eq!(database.stats().value_bytes, 0);
    for (row, len) in [(7, 300), (201, 1_200)] {
        let found = table.get("p", u32::to_be_bytes(row)).unwrap().unwrap();
        assert_eq!(*found.value, *value(1, row as u8, len));
    }
}

/// R-E22: damage in a kept segment is an error that names it, and salvage leaves out what refers to
/// a segment that is gone, and says so.
#[test]
fn damage_to_a_kept_segment_is_found() {
    let env = SimEnv::new(7);
    let database = open(&env);
    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..40, 1, 3_000);
    database.flush().unwrap();
    let content = without_versions(&dump(&database));
    drop(table);
    database.close().unwrap();
    let path = segments(&env).remove(1);
    let whole = env.read_file(&path).unwrap();

    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for bytes in [&flipped[..], &whole[..whole.len() / 2]] {
        env.write_file(&path, bytes);
        let database = open(&env);
        let table = database.table("t").unwrap();
        let mut damaged = 0;
        for row in 0..40u32 {
            match table.get("p", row.to_be_bytes()) {
                Ok(found) => assert_eq!(*found.unwrap().value, *value(1, row as u8, 3_000)),
                Err(Error::Corruption(corruption)) => {
                    assert_eq!(corruption.file, path);
                    damaged += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(damaged > 0);
        assert!(matches!(database.verify(), Err(Error::Corruption(_))));
        let scanned = table.query().pages().find_map(Result::err);
        assert!(matches!(scanned, Some(Error::Corruption(_))), "{scanned:?}");
        drop(table);
        database.close().unwrap();
    }

    env.write_file(&path, &whole);
    let disk: Arc<_> = tablestone::env::Env::disk(&env);
    disk.rename(&path, std::path::Path::new("/db/elsewhere")).unwrap();
    match Database::open(DIR, large_options(&env)).map(drop) {
        Err(Error::Corruption(corruption)) => assert_eq!(corruption.file, path),
        opened => panic!("{opened:?}"),
    }
    let salvage = Database::open(DIR, large_options(&env).recovery(Recovery::Salvage)).unwrap();
    assert!(salvage.recovery_report().lost.iter().any(|lost| lost.file == path));
    let renamed = &salvage.recovery_report().renamed_tables;
    let left = without_versions(&dump(&salvage));
    for (name, rows) in &left.tables {
        let name = if renamed.contains(name) { "t" } else { name };
        assert!(rows.iter().all(|(key, row)| content.tables[name][key] == *row));
    }
}

/// R-E22: salvage leaves out the row whose value is damaged in a segment, and no other.
#[test]
fn salvage_leaves_out_the_value_that_is_damaged() {
    let env = SimEnv::new(9);
    let database = open(&env);
    let table = database.create_table("t").wait().unwrap();
    put(&table, 0..40, 1, 3_000);
    database.flush().unwrap();
    let mut content = without_versions(&dump(&database));
    drop(table);
    database.close().unwrap();
    let (path, at) = find(&env, ".values", &value(1, 7, 3_000));
    env.flip(&path, at + 1_500).unwrap();

    let salvage = Database::open(DIR, large_options(&env).recovery(Recovery::Salvage)).unwrap();
    assert_eq!(salvage.recovery_report().lost.len(), 1, "{:?}", salvage.recovery_report().lost);
    let row = Arc::make_mut(content.tables.get_mut("t").unwrap());
    assert!(row.remove(&(b"p".to_vec(), 7u32.to_be_bytes().to_vec())).is_some());
    assert_eq!(without_versions(&dump(&salvage)), content);
    salvage.close().unwrap();
    let again = open(&env);
    assert!(again.damage().unwrap().is_empty());
    assert_eq!(without_versions(&dump(&again)), content);
}

/// R-E22: what was found right is read in place from then on, but neither a verification nor a
/// compaction that copies it relies on that.
#[test]
fn damage_to_a_value_that_was_read_is_found() {
    let db = TestDb::with(options().memory_budget(32 << 20));
    let table = db.t();
    let large = |row: u8| [row; 70_000];
    for row in 0..8 {
        table.upsert("p", [row], large(row)).wait().unwrap();
    }
    db.flush().unwrap();
    for row in 0..8 {
        assert_eq!(*table.get("p", [row]).unwrap().unwrap().value, large(row));
    }
    let read = |path: PathBuf| {
        let is_kept = path.extension().is_some_and(|extension| extension == "values");
        let bytes = is_kept.then(|| fs::read(&path).unwrap())?;
        let at = bytes.windows(1_000).position(|window| window == [3; 1_000])?;
        Some((path, at as u64))
    };
    let entries = fs::read_dir(db.path()).unwrap().map(|entry| entry.unwrap().path());
    let (path, at) = entries.filter_map(read).next().unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(at + 1_000)).unwrap();
    file.write_all(&[4]).unwrap();

    let is_found = || match db.verify() {
        Err(Error::Corruption(corruption)) => assert_eq!(corruption.file, path),
        other => panic!("{other:?}"),
    };
    is_found();
    for row in (0..8).filter(|row| *row != 3) {
        table.upsert("p", [row], "small").wait().unwrap();
    }
    db.flush().unwrap();
    // One compaction leaves little of the segment in use; the next would move that to a table file.
    db.compact().and_then(|()| db.compact()).unwrap();
    let error = db.stats().background_error.unwrap();
    assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
    is_found();
}

/// R-E22, R-E24: it stays where it is, and compactions go on.
#[test]
fn damage_to_a_sparse_segment_stops_no_compaction() {
    let env = SimEnv::new(8);
    let (database, table) = filled(&env);
    let (path, at) = find(&env, ".values", &value(1, 8, 3_000));
    env.flip(&path, at + 100).unwrap();
    drop(table);
    database.close().unwrap();

    let database = open(&env);
    let table = database.table("t").unwrap();
    for step in 2..10 {
        for row in (0..40u32).filter(|row| row % 8 != 0) {
            table.upsert("p", row.to_be_bytes(), value(step, row as u8, 300)).wait().unwrap();
        }
        database.flush().unwrap();
        env.run_all();
        database.compact().unwrap();
    }
    assert_eq!(segments(&env).len(), 1, "whole segments are given up");
    for row in 0..40u32 {
        let (step, len) = if row % 8 == 0 { (1, 3_000) } else { (9, 300) };
        match table.get("p", row.to_be_bytes()) {
            Ok(found) => assert_eq!(*found.unwrap().value, *value(step, row as u8, len)),
            Err(Error::Corruption(corruption)) => {
                assert_eq!((row, corruption.file), (8, path.clone()));
            }
            Err(error) => panic!("{error}"),
        }
    }
    let stats = database.stats();
    let error = stats.background_error.unwrap();
    assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
    assert_eq!(stats.background_failures, 0);
    table.upsert("p", 8u32.to_be_bytes(), "whole").wait().unwrap();
    database.compact().unwrap();
    env.run_all();
    assert_eq!((segments(&env).len(), database.stats().background_error), (0, None));
}

/// R-E22, R-E24: likewise what cannot be read, until the database is opened again.
#[test]
fn a_sparse_segment_that_cannot_be_read_stops_no_compaction() {
    let env = SimEnv::new(9);
    let database = open(&env);
    put(&database.create_table("t").wait().unwrap(), 0..16, 1, 3_000);
    database.flush().unwrap();
    env.run_all();
    let segment = segments(&env).remove(0);
    let segment = segment.to_str().unwrap();
    database.close().unwrap();

    let database = Database::open(DIR, large_options(&env).read_mode(ReadMode::Pread)).unwrap();
    let table = database.table("t").unwrap();
    env.fail(Fault::new(Operation::Read, segment, ErrorKind::Other));
    put(&table, 1..16, 2, 300);
    // One compaction leaves little of the segment in use; the next would move that to a table file.
    database.compact().and_then(|()| database.compact()).unwrap();
    assert!(matches!(table.get("p", 0u32.to_be_bytes()), Err(Error::Io(_))));
    let found = |row: u32| table.get("p", row.to_be_bytes()).unwrap().unwrap().value;
    (1..16).for_each(|row| assert_eq!(*found(row), *value(2, row as u8, 300)));
    let error = database.stats().background_error.unwrap();
    assert!(error.contains(segment), "{error}");
    env.clear_faults();
    assert_eq!(*found(0), *value(1, 0, 3_000));
    drop(table);
    database.close().unwrap();

    let database = open(&env);
    database.compact().unwrap();
    env.run_all();
    assert!(segments(&env).is_empty());
}

/// R-E12, R-E16: a page reads what is in it, and not what else it was asked for.
#[test]
fn a_page_of_many_points_reads_no_more_large_values_than_it_takes() {
    let env = SimEnv::new(10);
    let database = open(&env);
    let table = database.create_table("t").wait().unwrap().entities();
    let text = "a long text ".repeat(250);
    for row in 0..64 {
        let entity = Entity::new("p", format!("r{row:02}")).with("text", &*text);
        table.insert(&entity).wait().unwrap();
    }
    database.flush().unwrap();
    drop(table);
    database.close().unwrap();

    let database = Database::open(DIR, large_options(&env).read_mode(ReadMode::Pread)).unwrap();
    let table = database.table("t").unwrap().entities();
    let rows: Vec<_> = (0..64).map(|row| format!("RowKey eq 'r{row:02}'")).collect();
    let filter = format!("PartitionKey eq 'p' and ({})", rows.join(" or "));
    let query = table.query().filter(filter.parse().unwrap()).byte_limit(4 * text.len() + 1_000);
    assert_eq!(query.explain().plan(), Plan::MultiGet { keys: 64 });
    let fault = Fault::new(Operation::Read, ".values", ErrorKind::Other);
    env.fail(Fault { after: 8, ..fault });
    let page = query.page().unwrap();
    assert_eq!(page.len(), 4);
}
