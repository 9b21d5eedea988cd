//! R-E22: a sweep of blocks that the device fails to read over every file of a small database. A strict
//! opening names the file; salvage goes on behind the block, and a strict opening after it has all that is left.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tablestone::env::{BLOCK_BYTES, SimEnv};
use tablestone::{Compression, Database, Error, Options, ReadMode, Recovery, Table};

use support::model::value;
use support::sim::{DIR, contents, machine_with, sim_options};

const ROWS: u32 = 200;
/// Rows of a table file; the last of them are in the log alone.
const FLUSHED_AT_ONCE: u32 = 60;
const VALUE_BYTES: u16 = 300;
/// Written once: table files refer to it.
static LARGE: [u8; 70 << 10] = [0x5A; 70 << 10];
/// Rows of the log that a block of it has, or a part of.
const ROWS_OF_A_BLOCK: usize = BLOCK_BYTES / VALUE_BYTES as usize + 2;

fn options(env: &SimEnv) -> Options {
    sim_options(env).read_mode(ReadMode::Pread).compression(Compression::None)
}

fn row(number: u32) -> Vec<u8> {
    if number == 7 { LARGE.to_vec() } else { value(number, 0, VALUE_BYTES) }
}

/// The files of a database that was closed. No key is ever written again, so that what is old cannot pass for
/// what is new.
fn image() -> Vec<(PathBuf, Vec<u8>)> {
    let env = SimEnv::new(1);
    let db = Database::open(DIR, options(&env)).unwrap();
    let table = db.create_table("t").wait().unwrap();
    for number in 0..ROWS {
        if number % FLUSHED_AT_ONCE == 0 {
            db.flush().unwrap();
        }
        table.insert("p", number.to_be_bytes(), row(number)).wait().unwrap();
    }
    drop(table);
    db.close().unwrap();
    contents(&env)
}

/// Reads all rows in two ways: how many there are, if all that can be read is right.
fn read_all(table: &Table) -> Result<usize, Error> {
    let mut found = 0;
    for number in 0..ROWS {
        if let Some(read) = table.get("p", number.to_be_bytes())? {
            assert_eq!(read.value, row(number), "row {number}");
            found += 1;
        }
    }
    let mut scanned = 0;
    for page in table.query().pages() {
        scanned += page?.len();
    }
    assert_eq!(scanned, found);
    Ok(found)
}

/// What a strict opening comes to that reads everything.
fn read_strictly(env: &SimEnv, path: &Path) -> Result<usize, Error> {
    let db = Database::open(DIR, options(env))?;
    let damage = db.damage()?;
    assert!(damage.iter().all(|damage| damage.file == path), "{damage:?}");
    let read = read_all(&db.table("t")?);
    if read.is_err() {
        assert!(!damage.is_empty(), "{read:?}");
    }
    read
}

/// What salvage keeps, and whether it says that anything is lost.
fn salvage(env: &SimEnv, context: &str) -> (usize, bool) {
    let db = Database::open(DIR, options(env).recovery(Recovery::Salvage)).expect(context);
    let report = db.recovery_report();
    let name = report.renamed_tables.first().map_or("t", String::as_str);
    let (found, is_told) = (read_all(&db.table(name).expect(context)), !report.lost.is_empty());
    let name = name.to_owned();
    db.close().expect(context);
    let again = Database::open(DIR, options(env)).expect(context);
    let (found, left) = (found.expect(context), read_all(&again.table(&name).expect(context)));
    assert_eq!(left.expect(context), found, "{context}");
    assert_eq!(again.damage().expect(context).len(), 0, "{context}");
    (found, is_told)
}

#[test]
fn r_e22_salvage_reads_around_what_the_device_cannot_read() {
    let image = image();
    let mut refused = BTreeMap::<&str, usize>::new();
    let mut partly = 0;
    for (path, bytes) in &image {
        let kind = path.extension().and_then(|name| name.to_str()).unwrap_or_default();
        for offset in (0..bytes.len()).step_by(BLOCK_BYTES) {
            let env = machine_with(2, &image);
            env.spoil(path, offset as u64).unwrap();
            let context = format!("{path:?} at {offset} of {}", bytes.len());
            let is_read = match read_strictly(&env, path) {
                Ok(found) => {
                    assert_eq!(found, ROWS as usize, "{context}");
                    true
                }
                Err(Error::Io(error)) => {
                    assert_eq!((error.action, &error.path), ("read", path), "{context}");
                    *refused.entry(kind).or_default() += 1;
                    false
                }
                Err(error) => panic!("{context}: {error:?}"),
            };
            let (found, is_told) = salvage(&env, &context);
            assert!(is_told || is_read, "{context}: nothing is told");
            assert!(found == ROWS as usize || is_told, "{context}: rows are silently missing");
            let most = if kind == "log" { ROWS_OF_A_BLOCK } else { FLUSHED_AT_ONCE as usize };
            let lost = ROWS as usize - found;
            assert!(lost <= most, "{context}: {lost} rows are lost");
            partly += usize::from(kind == "sst" && lost > 0 && lost < most);
        }
    }
    assert!(partly > 3, "of table files only {partly} were kept in part");
    for kind in ["", "sst", "log", "values"] {
        assert!(refused.get(kind).is_some_and(|count| *count > 1), "{kind:?}: {refused:?}");
    }
}

/// Whatever the reading at which a block begins to fail, nothing that was made up is written, and no row is
/// missing afterwards that was shown, or of which nothing was told.
#[test]
fn r_e22_blocks_that_begin_to_fail_during_salvage() {
    let image = image();
    let mut failed = 0;
    for (path, bytes) in &image {
        for (offset, reads) in
            (0..bytes.len()).step_by(BLOCK_BYTES).flat_map(|at| (1..5).map(move |n| (at, n)))
        {
            let env = machine_with(2, &image);
            env.spoil_after(path, offset as u64, reads).unwrap();
            let context = format!("{path:?} at {offset} of {}, after {reads} reads", bytes.len());
            let (mut shown, mut name, mut is_told) = (None, "t".to_owned(), false);
            match Database::open(DIR, options(&env).recovery(Recovery::Salvage)) {
                Ok(db) => {
                    let report = db.recovery_report();
                    is_told = !report.lost.is_empty();
                    name = report.renamed_tables.first().cloned().unwrap_or(name);
                    shown = db.table(&name).and_then(|table| read_all(&table)).ok();
                    let _ = db.close();
                }
                Err(Error::Io(error)) => {
                    failed += 1;
                    assert_eq!((error.action, &error.path), ("read", path), "{context}");
                }
                Err(error) => panic!("{context}: {error:?}"),
            }
            let healed = machine_with(2, &contents(&env));
            let db = Database::open(DIR, options(&healed)).expect(&context);
            let left = db.table(&name).and_then(|table| read_all(&table)).expect(&context);
            assert_eq!(left, shown.unwrap_or(left), "{context}");
            assert!(
                left == ROWS as usize || is_told,
                "{context}: {left} rows, and nothing is told"
            );
        }
    }
    assert!(failed > 10, "{failed} openings failed");
}
