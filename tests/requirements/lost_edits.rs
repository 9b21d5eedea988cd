//! R-E22: edits of the manifest that are lost or damaged are told from one that was under way.

use std::path::Path;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Durability, Error};

use crate::support::all_rows;
use crate::support::model::dump;
use crate::support::sim::{DIR, contents, machine_with, open, paths, salvage, sim_options};

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
        let manifest = paths(&env, "MANIFEST").swap_remove(0);
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
        let db = salvage(&env).unwrap();
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
    let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    let durable = contents(&env).into_iter().filter(|(path, _)| is_log(path));
    let durable: Vec<_> = durable.collect();
    for row in 0..20u8 {
        t.insert("p", [row], [row]).wait().unwrap();
    }
    db.flush().unwrap();
    let kept = contents(&env).into_iter().filter(|(path, _)| !is_log(path));
    let after_power_cut: Vec<_> = kept.chain(durable).collect();
    let after_power_cut = |seed| machine_with(seed, &after_power_cut);
    let opened = Database::open(DIR, options(&after_power_cut(2))).unwrap();
    assert_eq!(all_rows(&opened.table("t").unwrap()).len(), 20);
    let manifest = paths(&env, "MANIFEST").swap_remove(0);
    let bytes = env.read_file(&manifest).unwrap();
    let [.., start, end, _proof] = record_ends(&bytes)[..] else { panic!("no proof") };
    for at in start..end {
        let env = after_power_cut(at as u64);
        env.flip(&manifest, at as u64).unwrap();
        match Database::open(DIR, options(&env)) {
            Err(Error::Corruption(damage)) => assert_eq!(damage.file, manifest, "{at}"),
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
    let manifest = paths(&env, "MANIFEST").swap_remove(0);
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
