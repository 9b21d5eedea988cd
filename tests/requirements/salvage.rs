//! R-E22: what salvage keeps of a damaged database, and what it says of the rest.

use std::path::Path;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Error, Precondition, Version};

use crate::support::all_rows;
use crate::support::model::{dump, value};
use crate::support::sim::{DIR, contents, machine_with, open, paths, salvage};

fn damage_end(env: &SimEnv, path: &Path) {
    env.flip(path, env.read_file(path).unwrap().len() as u64 - 3).unwrap();
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
    let path = paths(&env, ".sst").swap_remove(0);
    damage_end(&env, &path);
    assert!(matches!(open(&env), Err(Error::Corruption(_))));

    let db = salvage(&env).unwrap();
    let lost = &db.recovery_report().lost;
    assert!(lost.iter().any(|lost| lost.file == path), "{lost:?}");
    assert!(env.read_file(&path.with_extension("damaged")).is_ok(), "set aside, not removed");
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

    let files = contents(&env);
    let manifest = paths(&env, "MANIFEST").swap_remove(0);
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
        let env = machine_with(number as u64, &files);
        match damage {
            Some(bytes) => env.write_file(&manifest, &bytes),
            None => env.remove_file(&manifest),
        }
        let db = salvage(&env).unwrap();
        let lost = &db.recovery_report().lost;
        assert!(
            lost.iter().all(|lost| lost.file == manifest || env.read_file(&lost.file).is_err()),
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

/// R-E04, R-E22: also where nothing but table files is left, and the clock was set back.
#[test]
fn r_e22_salvage_of_table_files_alone_gives_out_no_version_twice() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let old = db.create_table("t").wait().unwrap().upsert("p", "r", "old").wait().unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let mut tables = contents(&env);
    tables.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "sst"));
    let env = machine_with(2, &tables);
    env.set_now(Version::from_ticks(old.ticks() / 2));
    let db = salvage(&env).unwrap();
    let t = db.table("t").unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().value, b"old");
    assert!(t.upsert("p", "r", "new").wait().unwrap() > old);
    drop((t, db));
    env.crash(CrashStyle::LoseUnsynced);
    let t = open(&env).unwrap().table("t").unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().value, b"new");
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
    let known = paths(&env, ".sst");
    let tables = ["third", "fourth", "empty", "dropped"].map(create);
    db.flush().unwrap();
    for table in [0, 1, 3].map(|at| &tables[at]) {
        table.insert("p", "r", table.name()).wait().unwrap();
    }
    db.drop_table("dropped").wait().unwrap();
    db.flush().unwrap();
    drop((old, tables));
    db.close().unwrap();
    for path in paths(&env, ".sst").iter().filter(|path| !known.contains(path)) {
        let has_catalog = env.read_file(path).unwrap().windows(5).any(|bytes| bytes == b"empty");
        if has_catalog {
            damage_end(&env, path);
        }
    }

    let db = salvage(&env).unwrap();
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
    let db = salvage(&env).unwrap();
    assert_eq!(db.recovery_report().renamed_tables, [""; 0]);
    // They are told again if the salvage that gave them was cut off, and nobody was told.
    db.close().unwrap();
    env.write_file(&Path::new(DIR).join("SALVAGE"), b"");
    let db = salvage(&env).unwrap();
    assert_eq!(db.recovery_report().renamed_tables, ["recovered-3-2", "recovered-4"]);
}
