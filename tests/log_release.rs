//! What a flush releases of the log is what the manifest no longer asks for: the database opens
//! after a crash wherever segments end and memtables fill up.

use std::sync::Arc;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Options};

/// R-E10: the first segment of the log ends at 64 KiB, at some distance from a flush that depends
/// on the size of the values; the crash comes some writes before or after.
#[test]
fn a_segment_that_ends_just_when_a_memtable_is_frozen_is_not_missed() {
    for value_bytes in (300..1_200).step_by(23) {
        let at_the_end = (64 << 10) / (value_bytes as u32 + 100);
        for writes in at_the_end - 2..at_the_end + 24 {
            let env = SimEnv::new(1);
            let options = || Options::default().memory_budget(64 << 10).env(Arc::new(env.clone()));
            let database = Database::open("db", options()).unwrap();
            let table = database.create_table("t").wait().unwrap();
            for n in 0..writes {
                table.upsert(n.to_be_bytes(), "", vec![7; value_bytes]).wait().unwrap();
                // A flush ends some writes after the memtable was frozen.
                if n % 4 == 0 {
                    env.run_all();
                }
            }
            env.run_all();
            env.crash(CrashStyle::LoseUnsynced);
            drop((database, table));
            let table = Database::open("db", options()).unwrap().table("t").unwrap();
            assert!((0..writes).all(|n| table.exists(n.to_be_bytes(), "").unwrap()));
        }
    }
}
