//! R-E22: a sweep of damage over every file of a small database: a flipped bit, a file cut short.
//! What is read is right, or an error that names the file; never a panic, a hang or wrong data.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tablestone::env::{Env, SimEnv};
use tablestone::{Database, Error, Precondition, ReadMode, Recovery};

use support::model::{Model, dump, value, without_versions};
use support::sim::{DIR, contents, paths, sim_options};

/// The files of a cleanly closed database, and what is in it.
struct Image {
    files: BTreeMap<PathBuf, Vec<u8>>,
    content: Model,
}

fn options(env: &SimEnv, mode: ReadMode) -> tablestone::Options {
    sim_options(env).read_mode(mode)
}

/// Several levels, compressed and not, range deletes, two tables, a loaded one, a log with something in it.
fn image() -> Image {
    let env = SimEnv::new(3);
    let db = Database::open(DIR, options(&env, ReadMode::Pread)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let u = db.create_table("u").wait().unwrap();
    t.import((0..150u32).map(|n| ("p", n.to_be_bytes(), value(n, 0, 40)))).unwrap();
    db.compact().unwrap();
    // Removes what the compaction replaced.
    env.run_all();
    t.import((0..100u32).map(|n| ("q", n.to_be_bytes(), value(n, 1, 20)))).unwrap();
    t.delete_partition("q").wait().unwrap();
    for n in 0..30u32 {
        t.delete("p", n.to_be_bytes(), Precondition::Exists).wait().unwrap();
        u.insert("p", n.to_be_bytes(), value(n, 2, 30)).wait().unwrap();
    }
    db.flush().unwrap();
    // No background job runs from here on, so the last flushes stay what they are.
    for n in 90..100u32 {
        t.upsert("p", n.to_be_bytes(), value(n, 4, 50)).wait().unwrap();
    }
    db.flush().unwrap();
    for n in 100..110u32 {
        t.upsert("p", n.to_be_bytes(), value(n, 3, 50)).wait().unwrap();
    }
    let mut loader = db.load_table("loaded").unwrap();
    for n in 0..40u32 {
        loader.put("p", n.to_be_bytes(), value(n, 5, 30)).unwrap();
    }
    loader.finish().unwrap();
    let content = without_versions(&dump(&db));
    drop((t, u));
    db.close().unwrap();
    Image::of(&env, content)
}

impl Image {
    /// The files of a database that was closed, without those that nobody would miss: what it left
    /// for a later opening to remove.
    fn of(env: &SimEnv, content: Model) -> Self {
        let mut image = Self { files: contents(env).into_iter().collect(), content };
        for path in image.files.keys().cloned().collect::<Vec<_>>() {
            let without = image.with(&path, None);
            if try_read_all(&without, ReadMode::Pread, &image).is_ok() {
                image.files.remove(&path);
            }
        }
        image
    }

    /// A machine with these files, one of them changed.
    fn with(&self, path: &Path, bytes: Option<&[u8]>) -> SimEnv {
        let env = SimEnv::new(4);
        env.disk().create_dir_all(DIR.as_ref()).unwrap();
        for (other, whole) in &self.files {
            match bytes {
                Some(bytes) if other == path => env.write_file(other, bytes),
                None if other == path => {}
                _ => env.write_file(other, whole),
            }
        }
        env
    }
}

/// What came of reading a damaged database.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    /// Damage was found, in this file.
    Named(PathBuf),
}

fn named(error: Error) -> Verdict {
    match error {
        Error::Corruption(corruption) => Verdict::Named(corruption.file),
        Error::UnsupportedFormat { file, .. } => Verdict::Named(file.into()),
        Error::NotADatabase { dir, reason } => {
            panic!("a damaged database is one all the same: {dir:?}, {reason}")
        }
        other => panic!("not an error about damage: {other:?}"),
    }
}

/// Opens and reads everything in every way; anything returned must be right.
fn read_all(env: &SimEnv, mode: ReadMode, image: &Image) -> Verdict {
    match try_read_all(env, mode, image) {
        Ok(()) => Verdict::Right,
        Err(error) => named(error),
    }
}

fn try_read_all(env: &SimEnv, mode: ReadMode, image: &Image) -> Result<(), Error> {
    let db = Database::open(DIR, options(env, mode))?;
    let mut first_error = None;
    for (name, expected) in &image.content.tables {
        let table = db.table(name)?;
        let right = |pk: &[u8], rk: &[u8], found: &[u8]| {
            let key = (pk.to_vec(), rk.to_vec());
            let is_right = expected.get(&key).is_some_and(|row| row.value == found);
            assert!(is_right, "wrong data at {key:?}");
        };
        let mut rows = 0;
        for page in table.query().limit(50).pages() {
            match page {
                Ok(page) => {
                    page.iter().for_each(|row| right(row.partition_key, row.row_key, row.value));
                    rows += page.len();
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        for (pk, rk) in expected.keys() {
            match table.get(pk, rk) {
                Ok(Some(row)) => right(pk, rk, &row.value),
                Ok(None) => panic!("{pk:?} {rk:?} is silently missing"),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if first_error.is_none() {
            assert_eq!(rows, expected.len());
        }
    }
    // Reading the whole files finds what reads did not come across.
    let verified = db.verify();
    match first_error {
        Some(error) => {
            assert!(verified.is_err(), "a read failed where verification did not: {error}");
            Err(error)
        }
        None => verified,
    }
}

/// Offsets to damage: all of a small file, of a large one its ends and every so many.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let step = (written / 250).max(1);
    let dense = |at: usize| at < 100 || at + 60 > written;
    let tail = (written..bytes.len()).step_by(((bytes.len() - written) / 8).max(1));
    (0..written).filter(|at| dense(*at) || at % step == 0).chain(tail).collect()
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST"))
}

/// Damage is told of the file that has it.
fn check_named(verdict: &Verdict, path: &Path, context: &str) {
    if let Verdict::Named(file) = verdict {
        assert_eq!(file, path, "{context}");
    }
}

fn flip_sweep(mode: ReadMode) {
    let image = image();
    let extensions = |suffix: &str| {
        image.files.keys().filter(|path| path.to_string_lossy().ends_with(suffix)).count()
    };
    assert!(extensions(".sst") >= 2 && extensions(".log") >= 1, "{:?}", image.files.keys());
    assert_eq!(read_all(&image.with(Path::new(""), None), mode, &image), Verdict::Right);
    let mut found = BTreeMap::<_, [u32; 2]>::new();
    for (path, bytes) in &image.files {
        for at in offsets(bytes) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let context = format!("{path:?}, bit flipped at {at} of {}", bytes.len());
            let env = image.with(path, Some(&damaged));
            let verdict = read_all(&env, mode, &image);
            check_named(&verdict, path, &context);
            found.entry(path).or_default()[usize::from(verdict != Verdict::Right)] += 1;
        }
    }
    for (path, [right, named]) in &found {
        // Nearly every byte of a table file counts; in the others there are zeros ahead.
        let expected = if path.extension().is_some_and(|e| e == "sst") { *right } else { 0 };
        assert!(*named > 10 * expected, "{path:?}: {named} of {} found", right + named);
    }
}

#[test]
fn r_e22_a_flipped_bit_anywhere_is_found_or_harmless_mapped() {
    flip_sweep(ReadMode::Mmap);
}

#[test]
fn r_e22_a_flipped_bit_anywhere_is_found_or_harmless_with_pread() {
    flip_sweep(ReadMode::Pread);
}

fn truncation_sweep(mode: ReadMode) {
    let image = image();
    for (path, bytes) in &image.files {
        let step = (bytes.len() / 150).max(1);
        let lengths = (0..bytes.len()).filter(|len| *len < 80 || len % step == 0);
        for len in lengths.chain(bytes.len().checked_sub(1)) {
            let env = image.with(path, Some(&bytes[..len]));
            let verdict = read_all(&env, mode, &image);
            // A manifest cut within its last record looks like one that was being written: what is missed then
            // is a file that the record before it still has.
            if !is_manifest(path) {
                check_named(&verdict, path, &format!("{path:?}, cut to {len} of {}", bytes.len()));
            }
            let is_table = path.extension().is_some_and(|e| e == "sst");
            assert!(!is_table || verdict != Verdict::Right, "{path:?} cut to {len} goes unnoticed");
        }
    }
}

#[test]
fn r_e22_a_file_cut_short_is_found_mapped() {
    truncation_sweep(ReadMode::Mmap);
}

#[test]
fn r_e22_a_file_cut_short_is_found_with_pread() {
    truncation_sweep(ReadMode::Pread);
}

#[test]
fn r_e22_files_that_change_places_are_found() {
    let image = image();
    let tables: Vec<_> = image
        .files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "sst"))
        .collect();
    for (path, _) in &tables {
        for (other, bytes) in &tables {
            if path != other {
                let env = image.with(path, Some(bytes));
                let verdict = read_all(&env, ReadMode::Pread, &image);
                assert_eq!(
                    verdict,
                    Verdict::Named(path.to_path_buf()),
                    "has the bytes of {other:?}"
                );
            }
        }
    }
}

/// Salvage opens whatever can be opened; what it returns is right, and what it lacks it reports.
#[test]
fn r_e22_salvage_returns_what_is_whole_and_reports_the_rest() {
    // Values are never overwritten here, so that an older one cannot pass for the newest.
    let env = SimEnv::new(3);
    let db = Database::open(DIR, options(&env, ReadMode::Pread)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    db.flush().unwrap();
    for chunk in 0..4u32 {
        let rows = chunk * 40..chunk * 40 + 40;
        t.import(rows.map(|n| ("p", n.to_be_bytes(), value(n, 0, 60)))).unwrap();
        if chunk < 3 {
            db.flush().unwrap();
        }
    }
    let content = without_versions(&dump(&db));
    drop(t);
    db.close().unwrap();
    let image = Image::of(&env, content);
    let rows = &image.content.tables["t"];
    let mut salvaged = 0;
    for (path, bytes) in &image.files {
        for at in offsets(bytes).into_iter().step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let env = image.with(path, Some(&damaged));
            let context = format!("{path:?} at {at}");
            let options = options(&env, ReadMode::Pread).recovery(Recovery::Salvage);
            let db = match Database::open(DIR, options.clone()) {
                Ok(db) => db,
                Err(error) => {
                    assert!(path.extension() != Some("sst".as_ref()), "{context}: {error}");
                    check_named(&named(error), path, &context);
                    continue;
                }
            };
            let reported = !db.recovery_report().lost.is_empty();
            let renamed = db.recovery_report().renamed_tables.first();
            let found = match db.table(renamed.map_or("t", String::as_str)) {
                Ok(table) => {
                    let mut found = 0;
                    for (pk, rk) in rows.keys() {
                        match table.get(pk, rk) {
                            Ok(Some(row)) => {
                                assert_eq!(row.value, rows[&(pk.clone(), rk.clone())].value);
                                found += 1;
                            }
                            Ok(None) => assert!(reported, "{context}: silently missing"),
                            Err(error) => check_named(&named(error), path, &context),
                        }
                    }
                    found
                }
                Err(Error::TableNotFound(_)) => {
                    assert!(reported, "{context}: the table is silently missing");
                    0
                }
                Err(error) => {
                    check_named(&named(error), path, &context);
                    0
                }
            };
            salvaged += usize::from(reported && found >= 80);
        }
    }
    assert!(salvaged > 50, "salvage saved the rest only {salvaged} times");
}

/// Each is told, and what is read of them is damage, too.
#[test]
fn r_e22_table_files_that_are_cut_while_they_are_open_are_damaged() {
    let env = SimEnv::new(5);
    let db = Database::open(DIR, options(&env, ReadMode::Pread)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for first in [0, 100u32] {
        let rows = first..first + 100;
        t.import(rows.map(|n| ("p", n.to_be_bytes(), value(n, 0, 60)))).unwrap();
        db.flush().unwrap();
    }
    let cut = paths(&env, ".sst");
    assert_eq!(cut.len(), 2);
    for path in &cut {
        env.disk().open(path).unwrap().set_len(100).unwrap();
    }
    let mut told: Vec<_> = db.damage().unwrap().into_iter().map(|damage| damage.file).collect();
    told.sort();
    assert_eq!(told, cut);
    for n in [0, 150u32] {
        let read = t.get("p", n.to_be_bytes());
        assert!(matches!(&read, Err(Error::Corruption(it)) if cut.contains(&it.file)), "{read:?}");
    }
}
