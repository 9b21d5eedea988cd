//! R-E10, R-E22: what opening finds again, what it reports, and what it refuses to open.

use std::io::ErrorKind;
use std::path::Path;

use tablestone::env::{CrashStyle, Env, Fault, Operation, SimEnv};
use tablestone::{Batch, Database, Durability, Error, Precondition, Recovery, Version};

use crate::support::model::{dump, value};
use crate::support::sim::{DIR, open, sim_options};
use crate::support::{Depth, TestDb, all_rows};

#[test]
fn r_e10_every_way_of_ending_keeps_what_was_acknowledged() {
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
        let env = SimEnv::new(11);
        let mut expected = Vec::new();
        for (round, depth) in Depth::ALL.into_iter().cycle().take(9).enumerate() {
            let db = open(&env).unwrap();
            let t = db.create_table_if_missing("t").wait().unwrap();
            assert_eq!(all_rows(&t), expected, "{style:?} round {round}");
            for n in 0..50u8 {
                let row = (vec![n % 5], vec![round as u8, n], vec![n; 60]);
                t.insert(&row.0, &row.1, row.2.clone()).wait().unwrap();
                expected.push(row);
            }
            expected.sort();
            depth.settle(&db);
            drop(t);
            match round % 3 {
                0 => db.close().unwrap(),
                1 => drop(db),
                _ => {
                    env.crash(style);
                    drop(db);
                }
            }
        }
    }
}

#[test]
fn r_e10_opening_reports_what_it_replayed() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    assert_eq!(db.recovery_report().replayed_commits, 0);
    let t = db.create_table("t").wait().unwrap();
    for n in 0..10u8 {
        t.insert("p", [n], [n; 100]).wait().unwrap();
    }
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = open(&env).unwrap();
    let report = db.recovery_report();
    assert_eq!(report.replayed_commits, 11);
    assert!(report.replayed_bytes >= 1000, "{report:?}");
    assert!(report.torn_tail.is_none() && report.lost.is_empty(), "{report:?}");
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&env).unwrap();
    assert_eq!(db.recovery_report().replayed_commits, 0, "all is in table files");
}

/// The newest log file with records in it.
fn newest_log(env: &SimEnv) -> String {
    let logs = env.list(DIR.as_ref()).into_iter().filter(|name| name.ends_with(".log"));
    [DIR, &logs.max().unwrap()].join("/")
}

#[test]
fn r_e10_a_torn_tail_is_trimmed_and_reported() {
    let env = SimEnv::new(1);
    let mut torn = 0;
    for cut in 1..60u64 {
        let db = open(&env).unwrap();
        let t = db.create_table_if_missing("t").wait().unwrap();
        t.upsert("p", "r", cut.to_be_bytes()).wait().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        drop((t, db));
        // A piece of a record, as a torn write leaves it, at the end of what is written.
        let path = newest_log(&env);
        let mut bytes = env.read_file(path.as_ref()).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 8 * 8 + 8;
        let tail = end + 100;
        bytes.resize(bytes.len().max(tail + 64), 0);
        bytes[end..tail].fill(0xAB);
        env.write_file(path.as_ref(), &bytes);
        let db = open(&env).unwrap();
        if let Some(tail) = &db.recovery_report().torn_tail {
            torn += 1;
            assert_eq!(tail.file, Path::new(&path));
            assert_eq!(tail.offset, end as u64);
            assert!(tail.bytes > 0);
        }
        let row = db.table("t").unwrap().get("p", "r").unwrap().unwrap();
        assert_eq!(row.value, cut.to_be_bytes());
        db.close().unwrap();
        let db = open(&env).unwrap();
        assert!(db.recovery_report().torn_tail.is_none(), "trimmed for good");
    }
    assert_eq!(torn, 59);
}

#[test]
fn r_e22_damage_in_the_log_before_its_end_is_an_error_and_changes_no_file() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..10u8 {
        t.insert("p", [n], [n; 100]).wait().unwrap();
    }
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let path = newest_log(&env);
    let bytes = env.read_file(path.as_ref()).unwrap();
    let offset = bytes.windows(100).position(|bytes| bytes == [3; 100]).unwrap() as u64;
    env.flip(path.as_ref(), offset + 50).unwrap();
    let files = || {
        let names = env.list(DIR.as_ref());
        let files = names.into_iter().filter(|name| name != "LOCK");
        files
            .map(|name| {
                let bytes = env.read_file(&Path::new(DIR).join(&name)).unwrap();
                (name, bytes)
            })
            .collect::<Vec<_>>()
    };
    let before = files();
    for _ in 0..2 {
        let Err(Error::Corruption(corruption)) = open(&env) else { panic!("must be refused") };
        assert_eq!(corruption.file, Path::new(&path));
        assert!(corruption.offset <= offset + 50 && corruption.offset + 200 > offset);
        assert!(files() == before, "a strict opening that fails changes nothing");
    }
    env.flip(path.as_ref(), offset + 50).unwrap();
    assert_eq!(all_rows(&open(&env).unwrap().table("t").unwrap()).len(), 10);
}

#[test]
fn r_e22_a_missing_file_is_an_error_that_names_it() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.import((0..300u32).map(|n| ("p", n.to_be_bytes(), [7; 50]))).unwrap();
    db.flush().unwrap();
    t.insert("p", "last", "in the log").wait().unwrap();
    drop(t);
    db.close().unwrap();
    for name in env.list(DIR.as_ref()) {
        if !(name.ends_with(".sst") || name.ends_with(".log") || name.starts_with("MANIFEST")) {
            continue;
        }
        let path = Path::new(DIR).join(&name);
        let bytes = env.read_file(&path).unwrap();
        env.remove_file(&path);
        match open(&env) {
            Err(Error::Corruption(corruption)) => assert_eq!(corruption.file, path, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        env.write_file(&path, &bytes);
    }
    assert_eq!(all_rows(&open(&env).unwrap().table("t").unwrap()).len(), 301);
}

#[test]
fn r_e22_salvage_keeps_what_is_whole_and_reports_what_is_lost() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.import((0..100u8).map(|n| ("in a file", [n], [n; 20]))).unwrap();
    db.flush().unwrap();
    t.insert("in the log", "r", "whole").wait().unwrap();
    drop(t);
    db.close().unwrap();
    let name = env.list(DIR.as_ref()).into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let path = Path::new(DIR).join(&name);
    let len = env.read_file(&path).unwrap().len();
    env.flip(&path, len as u64 - 3).unwrap();
    assert!(matches!(open(&env), Err(Error::Corruption(_))));

    let salvage = sim_options(&env).recovery(Recovery::Salvage);
    let db = Database::open(DIR, salvage).unwrap();
    let lost = &db.recovery_report().lost;
    assert!(lost.iter().any(|lost| lost.file == path), "{lost:?}");
    let aside = name.replace(".sst", ".damaged");
    assert!(env.list(DIR.as_ref()).contains(&aside), "set aside, not removed");
    // The table's own entry was in the file too; its rows in the log are still there.
    let renamed = db.recovery_report().renamed_tables.clone();
    assert_eq!(renamed, ["recovered-1"]);
    db.close().unwrap();
    let db = open(&env).unwrap();
    db.verify().unwrap();
    assert_eq!(db.recovery_report().renamed_tables, [""; 0], "strict opening names nothing");
    assert_eq!(db.tables(None, 10).unwrap().names, renamed);
    let row = db.table("recovered-1").unwrap().get("in the log", "r").unwrap().unwrap();
    assert_eq!(row.value, b"whole");
    let t = db.create_table("t").wait().unwrap();
    assert_eq!(all_rows(&t), [], "what was another table's is not in a new one");
    t.insert("in a file", [200], "new").wait().unwrap();
    assert_eq!(t.query().partition("in a file").page().unwrap().len(), 1);
}

/// Table files say themselves what is in them: without a manifest, or with part of one, all is there.
#[test]
fn r_e22_salvage_needs_no_manifest_where_the_table_files_are_whole() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let [t, large] = ["t", "large"].map(|name| db.create_table(name).wait().unwrap());
    // Files in several levels, of which a deeper one may have the newest row of all, but never of a key.
    for round in 0..60u32 {
        for n in 0..60u32 {
            let row = (round * 577) % 2_000 + n * (round % 4 + 1);
            if (round + n) % 5 == 0 {
                t.delete("p", row.to_be_bytes(), Precondition::None).wait().unwrap();
            } else {
                // Noise, which does not compress.
                let noise = value(row, round as u8, 150);
                t.upsert("p", row.to_be_bytes(), noise).wait().unwrap();
            }
        }
        if round % 10 == 0 {
            large.upsert("p", [round as u8], vec![round as u8; 100_000]).wait().unwrap();
        }
        db.flush().unwrap();
        env.run_all();
    }
    t.import((0..100u32).map(|n| ("deleted", n.to_be_bytes(), "v"))).unwrap();
    db.flush().unwrap();
    t.delete_partition("deleted").wait().unwrap();
    db.flush().unwrap();
    env.run_all();
    t.insert("in the log", "r", "v").wait().unwrap();
    t.upsert("p", 7u32.to_be_bytes(), "in the log").wait().unwrap();
    let expected = dump(&db);
    let gets = |db: &Database| -> Vec<_> {
        let t = db.table("t").unwrap();
        (0..2_300u32).map(|row| t.get("p", row.to_be_bytes()).unwrap()).collect()
    };
    let expected_gets = gets(&db);
    let in_levels = db.stats().levels.iter().filter(|level| level.files > 0).count();
    assert!(in_levels > 1, "{:?}", db.stats());
    drop((t, large));
    db.close().unwrap();

    let names = env.list(DIR.as_ref());
    let image: Vec<_> = names
        .iter()
        .map(|name| Path::new(DIR).join(name))
        .map(|path| (env.read_file(&path).unwrap(), path))
        .collect();
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let manifest = Path::new(DIR).join(manifest);
    let bytes = env.read_file(&manifest).unwrap();
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        Some(bytes)
    };
    let step = bytes.len() / 25;
    let mut damages: Vec<_> = (0..bytes.len()).step_by(step).map(flipped).collect();
    damages.extend([None, Some(bytes[..bytes.len() / 2].to_vec()), Some(Vec::new())]);
    for (number, damage) in damages.into_iter().enumerate() {
        let env = SimEnv::new(number as u64);
        env.disk().create_dir_all(DIR.as_ref()).unwrap();
        image.iter().for_each(|(bytes, path)| env.write_file(path, bytes));
        match damage {
            Some(bytes) => env.write_file(&manifest, &bytes),
            None => env.remove_file(&manifest),
        }
        let salvage = sim_options(&env).recovery(Recovery::Salvage);
        let db = Database::open(DIR, salvage).unwrap();
        let lost = &db.recovery_report().lost;
        assert!(
            lost.iter().all(|lost| lost.file == manifest || is_gone(&env, &lost.file)),
            "{number} {lost:#?}"
        );
        assert!(dump(&db) == expected && gets(&db) == expected_gets, "damage {number}");
        // What is written now is newer than all there was.
        let t = db.table("t").unwrap();
        t.upsert("p", 0u32.to_be_bytes(), "new").wait().unwrap();
        let expected = dump(&db);
        drop(t);
        if number % 2 == 0 {
            db.close().unwrap();
        } else {
            drop(db);
            env.crash(CrashStyle::LoseUnsynced);
        }
        let db = open(&env).unwrap_or_else(|error| panic!("damage {number}: {error}"));
        env.run_all();
        db.verify().unwrap();
        assert!(dump(&db) == expected, "damage {number}, opened again");
        drop(db);
        assert!(dump(&open(&env).unwrap()) == expected, "damage {number}, and again");
    }
}

/// Where the records of a manifest end.
fn record_ends(manifest: &[u8]) -> Vec<usize> {
    let next = |end: &usize| {
        let len = manifest.get(end + 4..end + 8)?.try_into().map(u32::from_le_bytes).unwrap();
        Some(end + 16 + len as usize)
    };
    std::iter::successors(Some(24), next).skip(1).collect()
}

/// An edit that was lost at the end with its proof looks like one that was under way, but the log that it made superfluous
/// is gone. Where its proof is there, it is damaged.
#[test]
fn r_e22_salvage_finds_a_flush_whose_edit_was_lost_at_the_end() {
    for is_proved in [false, true] {
        let env = SimEnv::new(1);
        let db = open(&env).unwrap();
        let t = db.create_table("t").wait().unwrap();
        // The log moves on to later segments.
        for row in 0..40u8 {
            t.insert("p", [row], [row; 20_000]).wait().unwrap();
        }
        db.flush().unwrap();
        let expected = dump(&db);
        let name =
            env.list(DIR.as_ref()).into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
        let manifest = Path::new(DIR).join(name);
        let mut flushed = env.read_file(&manifest).unwrap();
        drop(t);
        db.close().unwrap();
        // The machine failed before the database was closed.
        let [.., edit, _proof] = record_ends(&flushed)[..] else { panic!("no proof") };
        flushed[edit - 1] ^= 1;
        flushed.truncate(if is_proved { flushed.len() } else { edit });
        env.write_file(&manifest, &flushed);
        match open(&env) {
            Err(Error::Corruption(damage)) => assert!(!is_proved || damage.file == manifest),
            other => panic!("{other:?}"),
        }
        let db = Database::open(DIR, sim_options(&env).recovery(Recovery::Salvage)).unwrap();
        let lost: Vec<_> = db.recovery_report().lost.iter().map(|lost| &*lost.file).collect();
        assert_eq!(lost, [&*manifest]);
        assert!(dump(&db) == expected);
        drop(db);
        assert!(dump(&open(&env).unwrap()) == expected);
    }
}

/// Where nobody syncs the log, a power cut may take rows from it that were flushed. Damage to the edit of that flush is
/// no tear.
#[test]
fn r_e22_damage_to_the_edit_of_a_flush_is_found_where_nobody_syncs() {
    let env = SimEnv::new(1);
    let options = |env: &SimEnv| sim_options(env).durability(Durability::Os);
    let db = Database::open(DIR, options(&env)).unwrap();
    let t = db.create_table("t").durable().wait().unwrap();
    let files = || {
        let paths = env.list(DIR.as_ref()).into_iter().map(|name| Path::new(DIR).join(name));
        paths.map(|path| (env.read_file(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    let durable: Vec<_> = files().into_iter().filter(|(_, path)| is_log(path)).collect();
    for row in 0..20u8 {
        t.insert("p", [row], [row]).wait().unwrap();
    }
    db.flush().unwrap();
    let kept: Vec<_> = files().into_iter().filter(|(_, path)| !is_log(path)).collect();
    let after_power_cut = |number| {
        let env = SimEnv::new(number);
        env.disk().create_dir_all(DIR.as_ref()).unwrap();
        kept.iter().chain(&durable).for_each(|(bytes, path)| env.write_file(path, bytes));
        env
    };
    let opened = Database::open(DIR, options(&after_power_cut(2))).unwrap();
    assert_eq!(all_rows(&opened.table("t").unwrap()).len(), 20);
    let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
    let (bytes, manifest) = kept.iter().find(|(_, path)| is_manifest(path)).unwrap();
    let [.., start, end, _proof] = record_ends(bytes)[..] else { panic!("no proof") };
    for at in start..end {
        let env = after_power_cut(at as u64);
        env.flip(manifest, at as u64).unwrap();
        match Database::open(DIR, options(&env)) {
            Err(Error::Corruption(damage)) => assert_eq!(damage.file, *manifest, "{at}"),
            other => panic!("{at}: {other:?}"),
        }
    }
}

/// Power takes the proof of an edit, which the device does not have yet; the next opening proves it again.
#[test]
fn r_e22_an_edit_whose_proof_was_lost_is_proved_by_the_next_opening() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    db.create_table("t").wait().unwrap();
    db.flush().unwrap();
    let is_manifest = |name: &String| name.starts_with("MANIFEST");
    let manifest =
        Path::new(DIR).join(env.list(DIR.as_ref()).into_iter().find(is_manifest).unwrap());
    let ends = || record_ends(&env.read_file(&manifest).unwrap());
    let proved = ends();
    env.crash(CrashStyle::LoseUnsynced);
    drop(db);
    let [.., start, end, _proof] = proved[..] else { panic!("no proof") };
    assert_eq!(ends().last(), Some(&end), "power took the proof");
    let db = open(&env).unwrap();
    env.crash(CrashStyle::KeepAll);
    drop(db);
    assert_eq!(ends(), proved);
    for at in start..end {
        env.flip(&manifest, at as u64).unwrap();
        assert!(matches!(open(&env), Err(Error::Corruption(_))), "{at}");
        env.flip(&manifest, at as u64).unwrap();
    }
    assert!(open(&env).is_ok());
}

/// Whatever is missing at the end of a log, a whole record or a whole segment: it was closed with more.
#[test]
fn r_e22_a_closed_log_that_ends_early_is_damage() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for row in 0..45u8 {
        // Of several segments, the last of which ends with small records.
        let len = if row < 40 { 20_000 } else { 10 };
        t.insert("p", [row], vec![row; len]).wait().unwrap();
    }
    let expected = dump(&db);
    drop(t);
    db.close().unwrap();
    let logs = env.list(DIR.as_ref()).into_iter().filter(|name| name.ends_with(".log"));
    let log = Path::new(DIR).join(logs.max().unwrap());
    let whole = env.read_file(&log).unwrap();
    let is_damage = |what: &str| match open(&env) {
        Err(Error::Corruption(damage)) => {
            assert!(damage.to_string().contains("a log up to version"), "{what}: {damage}");
        }
        opened => panic!("{what}: {opened:?}"),
    };
    // The last bytes are the seal's, and of these a part may be missing: nobody misses it.
    for missing in 50..200 {
        env.write_file(&log, &whole[..whole.len() - missing]);
        is_damage(&format!("{missing} bytes are missing"));
    }
    env.remove_file(&log);
    is_damage("the newest segment is missing");
    let salvaged = Database::open(DIR, sim_options(&env).recovery(Recovery::Salvage)).unwrap();
    assert!(!salvaged.recovery_report().lost.is_empty());
    drop(salvaged);
    assert!(dump(&open(&env).unwrap()).tables["t"].len() < expected.tables["t"].len());
}

/// R-E04, R-E22: also where nothing but table files is left, and the clock was set back.
#[test]
fn r_e22_salvage_of_table_files_alone_gives_out_no_version_twice() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let old = db.create_table("t").wait().unwrap().upsert("p", "r", "old").wait().unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let env_after = SimEnv::new(2);
    env_after.set_now(Version::from_ticks(old.ticks() / 2));
    env_after.disk().create_dir_all(DIR.as_ref()).unwrap();
    for name in env.list(DIR.as_ref()).iter().filter(|name| name.ends_with(".sst")) {
        let path = Path::new(DIR).join(name);
        env_after.write_file(&path, &env.read_file(&path).unwrap());
    }
    let salvage = sim_options(&env_after).recovery(Recovery::Salvage);
    let db = Database::open(DIR, salvage).unwrap();
    let t = db.table("t").unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().value, b"old");
    assert!(t.upsert("p", "r", "new").wait().unwrap() > old);
    drop((t, db));
    env_after.crash(CrashStyle::LoseUnsynced);
    let t = open(&env_after).unwrap().table("t").unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().value, b"new");
}

fn is_gone(env: &SimEnv, path: &Path) -> bool {
    env.read_file(path).is_err()
}

/// The catalog's newest entries are lost and older ones show again: what they say is not believed.
#[test]
fn r_e22_salvage_gives_every_table_with_rows_a_name_and_no_id_twice() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let create = |name: &str| db.create_table(name).wait().unwrap();
    let old = ["old", "recovered-3"].map(create);
    old[0].insert("p", "r", "old").wait().unwrap();
    db.flush().unwrap();
    let known = env.list(DIR.as_ref());
    let tables = ["third", "fourth", "empty", "dropped"].map(create);
    db.flush().unwrap();
    for table in [0, 1, 3].map(|at| &tables[at]) {
        table.insert("p", "r", table.name()).wait().unwrap();
    }
    db.drop_table("dropped").wait().unwrap();
    db.flush().unwrap();
    drop((old, tables));
    db.close().unwrap();
    for name in env.list(DIR.as_ref()) {
        let path = Path::new(DIR).join(&name);
        let is_catalog = name.ends_with(".sst") && !known.contains(&name) && {
            let bytes = env.read_file(&path).unwrap();
            bytes.windows(5).any(|window| window == b"empty")
        };
        if is_catalog {
            env.flip(&path, env.read_file(&path).unwrap().len() as u64 - 3).unwrap();
        }
    }

    let salvage = sim_options(&env).recovery(Recovery::Salvage);
    let db = Database::open(DIR, salvage.clone()).unwrap();
    assert_eq!(db.recovery_report().renamed_tables, ["recovered-3-2", "recovered-4"]);
    let value = |name: &str| all_rows(&db.table(name).unwrap())[0].2.clone();
    assert_eq!(value("old"), b"old");
    assert_eq!(value("recovered-3-2"), b"third");
    assert_eq!(value("recovered-4"), b"fourth");
    assert_eq!(all_rows(&db.table("recovered-3").unwrap()), []);
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(all_rows(&db.create_table(name).wait().unwrap()), [], "{name}");
    }
    // Names are given once.
    db.close().unwrap();
    let db = Database::open(DIR, salvage).unwrap();
    assert_eq!(db.recovery_report().renamed_tables, [""; 0]);
}

#[test]
fn r_e10_without_sync_a_crash_leaves_a_prefix_and_sync_a_promise() {
    let env = SimEnv::new(21);
    let options = sim_options(&env).durability(Durability::Os);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..20u8 {
        t.insert("p", [n], [n]).wait().unwrap();
    }
    db.sync().unwrap();
    for n in 20..40u8 {
        t.insert("p", [n], [n]).wait().unwrap();
    }
    env.crash(CrashStyle::Torn);
    drop((t, db));
    let rows = all_rows(&Database::open(DIR, options).unwrap().table("t").unwrap());
    assert!((20..=40).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().enumerate().all(|(n, row)| row.1 == [n as u8]), "a prefix");
}

#[test]
fn r_e10_an_interval_sync_bounds_what_a_crash_takes() {
    let env = SimEnv::new(22);
    let interval = std::time::Duration::from_millis(100);
    let options = sim_options(&env).durability(Durability::Interval(interval));
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "v").wait().unwrap();
    env.advance(interval);
    env.run_all();
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = Database::open(DIR, options).unwrap();
    assert!(db.table("t").unwrap().exists("p", "r").unwrap());
}

/// Under `Os` the log is the system's to write, whatever comes of it; but what a flush puts in table files is
/// durable, and so is what somebody asks for.
#[test]
fn r_e10_the_log_of_an_unsynced_database_is_left_to_the_system() {
    let env = SimEnv::new(25);
    let options = sim_options(&env).durability(Durability::Os).memory_budget(1 << 20);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..200u8 {
        t.insert("p", [n], vec![n; 10 << 10]).wait().unwrap();
        env.run_all();
    }
    assert_eq!(db.stats().syncs, 0);
    t.insert("p", "asked", "").durable().wait().unwrap();
    assert_eq!(db.stats().syncs, 1);
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = Database::open(DIR, options).unwrap();
    assert_eq!(all_rows(&db.table("t").unwrap()).len(), 201);
}

/// Large values stay in the log, so what nobody asks to sync is synced all the same: a flush has little to
/// wait for.
#[test]
fn r_e10_much_that_is_not_synced_is_written_back() {
    let env = SimEnv::new(23);
    let options = sim_options(&env).durability(Durability::Os).memory_budget(256 << 20);
    let db = Database::open(DIR, options.clone()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..6u8 {
        t.insert("p", [n], vec![n; 1 << 20]).wait().unwrap();
    }
    assert_eq!(db.stats().syncs, 0);
    env.run_all();
    assert_eq!(db.stats().syncs, 1);
    env.crash(CrashStyle::LoseUnsynced);
    drop((t, db));
    let db = Database::open(DIR, options).unwrap();
    assert!(all_rows(&db.table("t").unwrap()).len() >= 4);
}

#[test]
fn r_e10_a_writeback_that_fails_ends_the_writing() {
    let env = SimEnv::new(24);
    let options = sim_options(&env).durability(Durability::Os).memory_budget(256 << 20);
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in 0..6u8 {
        t.insert("p", [n], vec![n; 1 << 20]).wait().unwrap();
    }
    // Of the segment that is written: the next, which is being made ready, is nobody's promise.
    let mut names = env.list(DIR.as_ref()).into_iter();
    let log = names.find(|name| name.ends_with(".log")).unwrap();
    env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, &log, ErrorKind::Other) });
    env.run_all();
    assert!(matches!(t.insert("p", "more", "").wait(), Err(Error::Poisoned(_))));
    assert!(db.stats().poisoned.is_some());
    assert_eq!(all_rows(&t).len(), 6, "reads go on");
}

#[test]
fn r_e10_a_real_directory_survives_many_openings() {
    let mut db = TestDb::new();
    for round in 0..20u8 {
        let t = db.t();
        let mut batch = Batch::new("p");
        for n in 0..50u8 {
            batch.insert([round, n], vec![round; 200]);
        }
        t.commit(batch).wait().unwrap();
        drop(t);
        db.reopen();
        assert_eq!(all_rows(&db.t()).len(), 50 * (usize::from(round) + 1));
    }
}
