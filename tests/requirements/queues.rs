//! R-E19: whoever reads the first rows that are left and deletes them, again and again, does not step over all that was
//! deleted before.

use std::path::Path;
use std::sync::Arc;

use tablestone::env::SimEnv;
use tablestone::{Database, Durability, Options, Precondition, Table, TableView};

use crate::support::sim::DIR;

/// Of the usual size, in which nothing is flushed for want of room.
fn open(env: &SimEnv) -> Database {
    let options = Options::default().durability(Durability::Os).env(Arc::new(env.clone()));
    Database::open(Path::new(DIR), options).unwrap()
}

/// How many keys are looked at for the first row.
fn examined_for_the_first(t: &Table) -> u64 {
    t.query().partition("queue").limit(1).page().unwrap().examined()
}

fn push(t: &Table, numbers: std::ops::Range<u32>) {
    t.import(numbers.map(|n| ("queue", n.to_be_bytes(), [7; 40]))).unwrap();
}

fn delete(t: &Table, n: u32) {
    t.delete("queue", n.to_be_bytes(), Precondition::Exists).wait().unwrap();
}

/// Reads and deletes the first row, again and again; the most keys that were looked at for one.
fn pop(env: &SimEnv, t: &Table, numbers: std::ops::Range<u32>) -> u64 {
    let examined = numbers.map(|n| {
        let examined = examined_for_the_first(t);
        delete(t, n);
        env.run_all();
        examined
    });
    examined.max().unwrap()
}

#[test]
fn r_e19_what_is_popped_does_not_stay_in_the_way() {
    let env = SimEnv::new(1);
    let db = open(&env);
    let t = db.create_table("t").wait().unwrap();
    push(&t, 0..6_000);
    let most = pop(&env, &t, 0..5_000);
    assert!(most < 2_500, "{most} keys for one row");
    assert!(db.stats().flushes > 1, "{:?}", db.stats());
}

#[test]
fn r_e19_what_was_deleted_in_level_0_does_not_stay_in_the_way() {
    let env = SimEnv::new(1);
    let db = open(&env);
    let t = db.create_table("t").wait().unwrap();
    push(&t, 0..20_000);
    db.compact().unwrap();
    // Too few of all for their space to be worth it.
    (0..1_500).for_each(|n| delete(&t, n));
    db.flush().unwrap();
    env.run_all();
    assert_eq!(db.stats().levels[0].files, 1);
    assert!(examined_for_the_first(&t) > 1_500);
    for _ in 0..1_000 {
        examined_for_the_first(&t);
        env.run_all();
    }
    let examined = examined_for_the_first(&t);
    assert!(examined < 10, "{examined} keys for one row");
    let compactions = db.stats().compactions;
    for _ in 0..1_000 {
        examined_for_the_first(&t);
    }
    env.run_all();
    assert_eq!(db.stats().compactions, compactions, "there is nothing left to be rid of");
}

/// What came after a snapshot and was popped is no part of it.
#[test]
fn r_e19_what_is_popped_does_not_stay_in_the_way_while_a_snapshot_is_held() {
    let env = SimEnv::new(1);
    let db = open(&env);
    let t = db.create_table("t").wait().unwrap();
    push(&t, 0..100);
    let snapshot = db.snapshot();
    push(&t, 100..11_000);
    let most = pop(&env, &t, 0..10_000);
    assert!(most < 5_000, "{most} keys for one row");
    let rows = |view: &TableView| view.query().keyed_rows().map(Result::unwrap).count();
    assert_eq!((rows(&t.at(&snapshot).unwrap()), rows(&t)), (100, 1_000));
}

/// In memory, rows that are deleted by their range are stepped over as others are.
#[test]
fn r_e19_what_a_range_deletes_in_memory_does_not_stay_in_the_way() {
    for is_held in [false, true] {
        let env = SimEnv::new(1);
        let db = open(&env);
        let t = db.create_table("t").wait().unwrap();
        let snapshot = is_held.then(|| db.snapshot());
        push(&t, 0..5_000);
        t.delete_range("queue", ..4_000u32.to_be_bytes()).wait().unwrap();
        assert!(examined_for_the_first(&t) > 4_000);
        for _ in 0..300 {
            examined_for_the_first(&t);
            env.run_all();
        }
        let examined = examined_for_the_first(&t);
        assert!(examined < 10, "{is_held}: {examined} keys for one row");
        assert_eq!(db.stats().levels.iter().map(|level| level.entries).sum::<u64>(), 1_002);
        drop(snapshot);
    }
}
