//! R-E10, R-E17, R-E22: a directory that was a database, and of which files are left, is damaged, and no new database:
//! what a crash left where one was first to be made is.

use std::io::ErrorKind;
use std::path::Path;

use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};
use tablestone::{Database, Error};

use crate::support::all_rows;
use crate::support::model::value;
use crate::support::sim::{DIR, open, paths, salvage, sim_options};

/// A database with a table of rows, values and commits that are not flushed, which was closed.
fn make(env: &SimEnv) {
    let db = Database::open(DIR, sim_options(env).large_value_bytes(1_000)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for row in 0..40u8 {
        t.insert("p", [row], value(1, row, 2_050)).wait().unwrap();
    }
    db.flush().unwrap();
    env.run_all();
    t.insert("p", "in the log", "v").wait().unwrap();
    drop(t);
    db.close().unwrap();
}

#[test]
fn r_e22_what_is_left_of_a_database_is_damage_and_is_left_alone() {
    let kinds = ["MANIFEST", ".log", ".sst", ".values"];
    for left in 1..1 << kinds.len() {
        let env = SimEnv::new(5);
        make(&env);
        let gone = (0..).zip(kinds).filter(|(n, _)| left & 1 << n == 0);
        let gone = gone.map(|(_, kind)| kind).chain(["CURRENT"]);
        gone.flat_map(|kind| paths(&env, kind)).for_each(|path| env.remove_file(&path));
        let names = env.list(Path::new(DIR));
        let refused = open(&env);
        assert!(matches!(refused, Err(Error::Corruption(_))), "{names:?}: {refused:?}");
        assert_eq!(env.list(Path::new(DIR)), names);
        // Salvage says so, and nothing of it shows in a new table.
        let db = salvage(&env).unwrap();
        assert!(!db.recovery_report().lost.is_empty(), "{names:?}");
        assert!(all_rows(&db.create_table("new").wait().unwrap()).is_empty(), "{names:?}");
        drop(db);
        open(&env).unwrap();
    }
}

/// Of a checkpoint, too: what is left of one that failed is damage, or becomes a database that opens again.
#[test]
fn r_e10_what_is_left_of_a_checkpoint_makes_no_database_that_is_damaged() {
    for (has_rows, cut) in [true, false].into_iter().flat_map(|has| (0..60).map(move |n| (has, n)))
    {
        let env = SimEnv::new(5);
        if has_rows {
            make(&env);
        }
        // Segments that have nothing go as well.
        let db = open(&env).and_then(Database::close).and_then(|()| open(&env)).unwrap();
        env.fail(Fault::new(Operation::Rename, "/copy/CURRENT", ErrorKind::Other));
        env.crash_after(cut);
        assert!(db.checkpoint("/copy").is_err());
        env.clear_faults();
        env.crash(CrashStyle::KeepAll);
        drop(db);
        let left = env.list(Path::new("/copy"));
        let Ok(db) = Database::open("/copy", sim_options(&env)) else { continue };
        db.create_table("new").wait().unwrap();
        db.close().unwrap();
        let again = Database::open("/copy", sim_options(&env));
        assert!(again.is_ok_and(|db| db.table("new").is_ok()), "{left:?}");
    }
}
