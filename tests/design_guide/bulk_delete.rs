//! P-09: old sign-ins go, entity by entity, or with the table of their day.

use std::collections::BTreeSet;

use tablestone::env::SimEnv;
use tablestone::{Database, Entity, EntityBatch, EntityTable, Error, Precondition, Result};

use crate::support::sim::{CRASH_STYLES, open};
use crate::support::{Depth, TestDb};
use crate::{filter, matching, table};

fn sign_in(user: usize, day: usize) -> Entity {
    Entity::new(format!("user-{user:03}"), format!("day-{day:03}"))
        .with("Address", "192.0.2.7")
        .with("Agent", "a browser with a name of some length")
}

/// Design A: everything older than 60 days is looked for in all partitions and deleted in batches
/// of each user. What is left is right, and a scan over what was deleted can be bounded and goes on.
#[test]
fn p_09_old_sign_ins_of_one_table_are_deleted_user_by_user() {
    const USERS: usize = 40;
    const DAYS: usize = 100;
    let db = TestDb::new();
    let sign_ins = table(&db, "SignIns");
    let rows = (0..USERS).flat_map(|user| (0..DAYS).map(move |day| sign_in(user, day)));
    sign_ins.import(rows).unwrap();
    let mut deleted = 0;
    let old = sign_ins.query().filter(filter("RowKey lt 'day-040'")).stop_at_partition_end();
    for page in old.pages() {
        let page = page.unwrap();
        let Some(first) = page.iter().next() else { continue };
        let mut batch = EntityBatch::new(first.partition_key());
        for old in &page {
            batch.delete(old.row_key(), Precondition::Exists);
            deleted += 1;
        }
        sign_ins.commit(batch).wait().unwrap();
    }
    assert_eq!(deleted, 40 * USERS);
    for depth in Depth::ALL {
        depth.settle(&db);
        // Bounded work: pages may be empty, and always get on.
        let (mut left, mut pages) = (0, 0);
        for page in sign_ins.query().examine_at_most(50).pages() {
            let page = page.unwrap();
            assert!(page.examined() <= 50);
            assert!(page.iter().all(|e| e.row_key() >= "day-040"), "{depth:?}");
            left += page.len();
            pages += 1;
        }
        assert_eq!(left, 60 * USERS, "{depth:?}");
        assert!(pages <= USERS * DAYS / 50 + 1, "{depth:?}: {pages} pages");
    }
    // Compacted, what was deleted is not in the way any more; a full page looks at one row more.
    let pages: Vec<_> = sign_ins.query().pages().map(Result::unwrap).collect();
    let beside = pages.iter().map(|page| page.examined() as usize - page.len()).sum::<usize>();
    assert!(beside < pages.len(), "{beside} keys examined beside what is there");
}

fn day_table(day: usize) -> String {
    format!("SignIns{day:03}")
}

fn write_day(database: &Database, day: usize, users: usize) -> EntityTable {
    let table = table(database, &day_table(day));
    table.import((0..users).map(|user| sign_in(user, day))).unwrap();
    table
}

/// Design B: a table a day, of which the oldest is dropped each day. A drop writes as much for
/// thousands of entities as for one.
#[test]
fn p_09_a_day_goes_with_one_operation_whatever_its_size() {
    let db = TestDb::new();
    let drop_bytes = |day: usize, users: usize| {
        write_day(&db, day, users);
        let before = db.stats();
        db.drop_table(&day_table(day)).wait().unwrap();
        let after = db.stats();
        assert_eq!(after.commits - before.commits, 1);
        after.log_bytes - before.log_bytes
    };
    let (small, large) = (drop_bytes(1, 1), drop_bytes(2, 3_000));
    assert!(large <= small + 8, "{large} bytes for 3,000 entities, {small} for one");
}

/// Sixty days live at a time; each day a table comes and one goes, and the space of what went is
/// used again.
#[test]
fn p_09_sixty_days_live_and_the_space_of_the_rest_comes_back() {
    const LIVE: usize = 60;
    let db = TestDb::new();
    let mut largest = 0;
    for day in 0..3 * LIVE {
        write_day(&db, day, 60);
        if day >= LIVE {
            db.drop_table(&day_table(day - LIVE)).wait().unwrap();
        }
        if day % LIVE == LIVE - 1 {
            db.compact().unwrap();
            let bytes = db.stats().file_bytes();
            if day >= LIVE {
                assert!(bytes <= largest * 3 / 2, "{bytes} bytes in files after {largest}");
            }
            largest = largest.max(bytes);
        }
    }
    let names = db.tables(None, 100).unwrap().names;
    let expected: Vec<_> = (2 * LIVE..3 * LIVE).map(day_table).collect();
    assert_eq!(names, expected);
    for day in [2 * LIVE, 3 * LIVE - 1] {
        assert_eq!(matching(&table(&db, &day_table(day)), "").len(), 60);
    }
}

/// A drop in the middle of a query ends it with an error that says so; a snapshot taken before goes
/// on; a new table of the name is empty (G-044).
#[test]
fn p_09_a_drop_during_a_scan_is_told_and_nothing_rises_again() {
    let db = TestDb::new();
    let day = write_day(&db, 1, 300);
    let snapshot = db.snapshot();
    let mut pages = day.query().limit(100).pages();
    let mut kept = day.at(&snapshot).unwrap().query().limit(100).pages();
    assert_eq!(pages.next().unwrap().unwrap().len(), 100);
    assert_eq!(kept.next().unwrap().unwrap().len(), 100);
    db.drop_table(&day_table(1)).wait().unwrap();
    let again = table(&db, &day_table(1));
    for depth in Depth::ALL {
        depth.settle(&db);
        assert!(matching(&again, "").is_empty(), "{depth:?}");
    }
    assert!(matches!(pages.next(), Some(Err(Error::TableNotFound(_)))));
    assert!(pages.next().is_none());
    assert!(matches!(day.insert(&sign_in(1, 1)).wait(), Err(Error::TableNotFound(_))));
    let rest: usize = kept.map(|page| page.unwrap().len()).sum();
    assert_eq!(rest, 200, "the snapshot still has the table");
    again.insert(&sign_in(7, 1)).wait().unwrap();
    assert_eq!(matching(&again, "").len(), 1);
}

/// A day is dropped and made again, all of it written out on the way.
fn drop_and_create(env: &SimEnv) -> Result<()> {
    let database = open(env)?;
    let day = database.table("SignIns001")?.entities();
    database.flush()?;
    database.drop_table("SignIns001").wait()?;
    drop(day);
    let again = database.create_table("SignIns001").wait()?.entities();
    again.insert(&sign_in(7, 999)).wait()?;
    database.compact()
}

/// The power goes at every operation: the table is whole, gone, empty, or the new one; the old
/// entities never rise in the new table.
#[test]
fn p_09_power_loss_around_a_drop_brings_nothing_back() {
    let prepared = |seed: u64| {
        let env = SimEnv::new(seed);
        let database = open(&env).unwrap();
        write_day(&database, 1, 100);
        database.close().unwrap();
        env
    };
    let env = prepared(0);
    let before = env.operations();
    drop_and_create(&env).unwrap();
    let operations = env.operations() - before;
    let mut seen = BTreeSet::new();
    for style in CRASH_STYLES {
        for after in 0..=operations {
            let env = prepared(after);
            env.crash_after(after);
            let done = drop_and_create(&env).is_ok();
            env.crash(style);
            let database = open(&env).unwrap();
            let found = match database.table("SignIns001") {
                Ok(day) => Some(matching(&day.entities(), "")),
                Err(Error::TableNotFound(_)) => None,
                Err(error) => panic!("{error}"),
            };
            let days = found.as_ref().map(|all| {
                let days: BTreeSet<_> = all.iter().map(|e| e.row_key().to_owned()).collect();
                (all.len(), days.into_iter().collect::<Vec<_>>().join(","))
            });
            let state = match &days {
                None => "gone",
                Some((0, _)) => "empty",
                Some((1, days)) if days == "day-999" => "new",
                Some((100, days)) if days == "day-001" => "old",
                other => panic!("{style:?} after {after} operations: {other:?}"),
            };
            assert!(!done || state == "new", "{style:?} after {after} operations: {state}");
            seen.insert(state);
        }
    }
    assert_eq!(seen.len(), 4, "crashes before, between and after the steps: {seen:?}");
}
