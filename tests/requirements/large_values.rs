//! R-E20, R-E21: values to 2 MiB, batches to 4 MiB, at a memory budget that is smaller. R-E22: salvage leaves a segment of
//! the log as it is where table files refer to values in it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Batch, Database, Durability, Options, Precondition, Recovery, Table};

use crate::support::fixture::value;
use crate::support::model;
use crate::support::sim::{DIR, find, sim_options};
use crate::support::{Depth, TestDb};

fn incompressible(seed: u32, len: usize) -> Vec<u8> {
    let mut noise = u64::from(seed) | 1 << 40;
    let mut next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn r_e20_values_of_every_size_come_back() {
    let sizes = [0, 1, 100, 4095, 4096, 8191, 8192, 8193, 16 << 10, 100_000, 1 << 20, 2 << 20];
    for depth in Depth::ALL {
        let mut db = TestDb::new();
        let t = db.t();
        for (n, size) in sizes.into_iter().enumerate() {
            t.insert("noise", [n as u8], incompressible(n as u32, size)).wait().unwrap();
            t.insert("zeros", [n as u8], vec![0; size]).wait().unwrap();
        }
        depth.settle(&db);
        drop(t);
        db.reopen();
        let t = db.t();
        for (n, size) in sizes.into_iter().enumerate() {
            let noise = value(t.get("noise", [n as u8]).unwrap());
            assert!(noise == incompressible(n as u32, size), "{depth:?} {size}");
            assert!(value(t.get("zeros", [n as u8]).unwrap()) == vec![0; size], "{depth:?} {size}");
        }
        let read: usize = t
            .query()
            .pages()
            .map(|page| page.unwrap().iter().map(|row| row.value.len()).sum::<usize>())
            .sum();
        assert_eq!(read, 2 * sizes.iter().sum::<usize>(), "{depth:?}");
    }
}

#[test]
fn r_e20_batches_of_four_mebibytes_do_not_stop_at_a_small_memory_budget() {
    let mut db = TestDb::new();
    let t = db.t();
    for round in 0..4u8 {
        let mut batch = Batch::new([round]);
        for n in 0..99u8 {
            batch.insert([n], incompressible(u32::from(round) << 8 | u32::from(n), 42_000));
        }
        t.commit(batch).wait().unwrap();
    }
    drop(t);
    db.reopen();
    let t = db.t();
    for (round, n) in (0..4u8).flat_map(|round| (0..99u8).map(move |n| (round, n))) {
        let expected = incompressible(u32::from(round) << 8 | u32::from(n), 42_000);
        assert!(value(t.get([round], [n]).unwrap()) == expected, "{round} {n}");
    }
    t.insert("and", "on", "").wait().unwrap();
}

/// As long as flushes and compactions get their turn, at the options that a user has who sets none.
#[test]
fn r_e20_large_values_and_batches_do_not_stall_by_default() {
    let machine = SimEnv::new(20);
    let options = Options::default().env(Arc::new(machine.clone()));
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for round in 0..40u8 {
        let mut batch = Batch::new("batches");
        (0..99u8).for_each(|n| _ = batch.upsert([round % 8, n], incompressible(n.into(), 42_000)));
        t.commit(batch).wait().unwrap();
        t.upsert("values", [round], incompressible(round.into(), 1 << 20)).wait().unwrap();
        machine.run_all();
    }
    let stats = db.stats();
    assert_eq!((stats.stalls, stats.stall_time), Default::default(), "{stats:?}");
    assert!(stats.flushes > 1, "{stats:?}");
}

#[test]
fn r_e20_a_merge_grows_a_value_to_its_limit() {
    let db = TestDb::new();
    let t = db.t();
    t.insert("p", "r", "").wait().unwrap();
    for n in 0..32u8 {
        t.merge("p", "r", tablestone::Precondition::Exists, move |old| {
            Ok([old.unwrap(), &[n; 1 << 16]].concat())
        })
        .wait()
        .unwrap();
    }
    let whole = value(t.get("p", "r").unwrap());
    assert_eq!(whole.len(), 2 << 20);
    assert!((0..32u8).all(|n| whole[usize::from(n) << 16] == n));
}

#[test]
fn r_e20_large_and_small_values_lie_side_by_side() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        let len = |n: u32| if n.is_multiple_of(10) { 30_000 } else { 20 };
        for n in 0..100u32 {
            t.insert("p", n.to_be_bytes(), model::value(n, 0, len(n))).wait().unwrap();
        }
        depth.settle(&db);
        for n in 0..100u32 {
            let found = value(t.get("p", n.to_be_bytes()).unwrap());
            assert!(found == model::value(n, 0, len(n)), "{depth:?} {n}");
        }
    }
}

/// A power cut has left a segment its name in the log that table files refer to, and one of its values is damaged.
/// Nothing says that its last record was synced where nobody syncs.
#[test]
fn r_e22_salvage_leaves_the_values_beside_a_damaged_one_where_they_are() {
    for durability in [Durability::Sync, Durability::Os] {
        let env = SimEnv::new(1);
        let options = sim_options(&env).durability(durability).large_value_bytes(200);
        let db = Database::open(DIR, options.clone()).unwrap();
        let t = db.create_table("t").wait().unwrap();
        let mut batch = Batch::new("p");
        (0..80u8).for_each(|n| _ = batch.insert([n], [n; 600]));
        t.commit(batch).wait().unwrap();
        db.flush().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        drop((t, db));

        env.remove_file(&Path::new(DIR).join("CURRENT"));
        let (path, at) = find(&env, "", &[7; 600]);
        assert_eq!(path.extension(), Some("log".as_ref()));
        env.flip(&path, at + 300).unwrap();

        for recovery in [Recovery::Salvage, Recovery::Strict] {
            let db = Database::open(DIR, options.clone().recovery(recovery)).unwrap();
            let t = db.table("t").unwrap();
            for n in 0..80 {
                let expected = (n != 7).then(|| vec![n; 600]);
                let found = t.get("p", [n]).unwrap().map(|row| row.value);
                assert_eq!(found, expected, "{durability:?}, {recovery:?}");
            }
            db.verify().unwrap();
            drop(t);
            db.close().unwrap();
        }
    }
}

/// R-E19, R-E20: little of a table file refers to them, and little of what is flushed hides them. So their space comes
/// back although nothing else is written, also after an opening; once nobody looks behind the deletions.
#[test]
fn r_e19_large_values_that_are_deleted_among_small_rows_give_their_space_back() {
    const VALUES: [u32; 10] = [7, 101, 202, 303, 404, 505, 606, 707, 808, 999];
    let one_by_one = |t: &Table, n: u32| t.delete("p", n.to_be_bytes(), Precondition::Exists);
    let ranges = |t: &Table, n: u32| t.delete_range("p", n.to_be_bytes()..(n + 1).to_be_bytes());
    let overwrites = |t: &Table, n: u32| {
        t.delete("p", (n - 1).to_be_bytes(), Precondition::Exists).wait().unwrap();
        t.upsert("p", n.to_be_bytes(), "")
    };
    for (how, delete) in [one_by_one, ranges, overwrites].iter().enumerate() {
        for (opens_again, looks_behind) in [(false, false), (true, false), (false, true)] {
            let env = SimEnv::new(7);
            let options = sim_options(&env).memory_budget(1 << 20);
            let mut db = Database::open(DIR, options.clone()).unwrap();
            let mut t = db.create_table("t").wait().unwrap();
            t.import((0..1000u32).map(|n| ("p", n.to_be_bytes(), model::value(n, 0, 60)))).unwrap();
            for n in VALUES {
                t.upsert("p", n.to_be_bytes(), incompressible(n, 1 << 17)).wait().unwrap();
            }
            db.compact().unwrap();
            let rest = |db: &Database| {
                for _ in 0..6 {
                    env.advance(Duration::from_secs(6));
                    env.run_all();
                }
                db.stats().value_bytes
            };
            assert!(rest(&db) > 1_000_000);
            let snapshot = looks_behind.then(|| db.snapshot());
            VALUES.iter().for_each(|&n| _ = delete(&t, n).wait().unwrap());
            if opens_again {
                drop((t, db));
                db = Database::open(DIR, options).unwrap();
                t = db.table("t").unwrap();
            }
            if let Some(snapshot) = snapshot {
                assert!(rest(&db) > 1_000_000, "{how}");
                drop(snapshot);
            }
            assert_eq!(rest(&db), 0, "{how}, {opens_again}, {looks_behind}");
            let compactions = db.stats().compactions;
            rest(&db);
            assert_eq!(db.stats().compactions, compactions, "it ends");
            assert!(t.query().page().unwrap().len() >= 990);
        }
    }
}

/// R-E19: where more would be rewritten than comes back, they wait for others that go; nobody looks again and again.
#[test]
fn r_e19_large_values_that_are_not_worth_it_wait_for_others() {
    let env = SimEnv::new(7);
    let db = Database::open(DIR, sim_options(&env).memory_budget(1 << 20)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.import((0..40_000u32).map(|n| ("p", n.to_be_bytes(), model::value(n, 0, 60)))).unwrap();
    for n in 0..10u32 {
        t.upsert("p", (n * 4_000).to_be_bytes(), incompressible(n, 1 << 17)).wait().unwrap();
    }
    db.compact().unwrap();
    // Beside other writes: a file of deletions goes down in any case.
    let delete = |n: u32| {
        t.delete("p", (n * 4_000).to_be_bytes(), Precondition::Exists).wait().unwrap();
        (1..20u32)
            .for_each(|m| _ = t.upsert("p", (n * 4_000 + m).to_be_bytes(), "").wait().unwrap());
    };
    let rest = || {
        for _ in 0..6 {
            env.advance(Duration::from_secs(6));
            assert!((0..1_000).any(|_| !env.step()), "it does not end");
        }
        db.stats().value_bytes
    };
    [0, 9].into_iter().for_each(delete);
    assert!(rest() > 1_000_000);
    (1..9).for_each(delete);
    assert_eq!(rest(), 0);
}
