//! P-04: an employee moves from one table to another by steps that may be done again, with a
//! crash anywhere. She may be seen in both tables, but never in neither.

use tablestone::env::SimEnv;
use tablestone::{Database, Entity, EntityTable, Error, Precondition, Result};

use crate::support::TestDb;
use crate::support::sim::{CRASH_STYLES, open};
use crate::{properties, table};

const KEYS: (&str, &str) = ("Sales", "000456");

fn employee() -> Entity {
    Entity::new(KEYS.0, KEYS.1).with("Name", "Ann Jones").with("Age", 61)
}

/// The worker's part of the task: steps 3 to 5. It may be run again at any time.
fn archive(current: &EntityTable, archived: &EntityTable) -> Result<()> {
    if let Some(employee) = current.get(KEYS.0, KEYS.1)? {
        archived.insert_or_replace(&employee).wait()?;
        current.delete(KEYS.0, KEYS.1, Precondition::None).wait()?;
    }
    Ok(())
}

fn tables(database: &Database) -> (EntityTable, EntityTable) {
    (table(database, "Current"), table(database, "Archive"))
}

/// Where the employee is: in `Current`, in `Archive`; she is the one who was hired.
fn whereabouts(current: &EntityTable, archived: &EntityTable) -> (bool, bool) {
    let is_in = |table: &EntityTable| match table.get(KEYS.0, KEYS.1).unwrap() {
        Some(found) => {
            assert_eq!(properties(&found), properties(&employee()));
            true
        }
        None => false,
    };
    (is_in(current), is_in(archived))
}

/// The worker dies after each step in turn, and the task is run again, twice.
#[test]
fn p_04_each_step_may_be_the_last_before_the_task_runs_again() {
    for steps in 0..=2 {
        let db = TestDb::new();
        let (current, archived) = tables(&db);
        current.insert(&employee()).wait().unwrap();
        if steps > 0 {
            archived.insert_or_replace(&employee()).wait().unwrap();
        }
        if steps > 1 {
            current.delete(KEYS.0, KEYS.1, Precondition::None).wait().unwrap();
        }
        for _ in 0..2 {
            archive(&current, &archived).unwrap();
            assert_eq!(whereabouts(&current, &archived), (false, true), "after {steps} steps");
        }
    }
}

/// "Delete if exists" is harmless where there is nothing, and tells so to those who ask (G-106).
#[test]
fn p_04_deleting_what_is_gone_is_harmless_or_told() {
    let db = TestDb::new();
    let (current, _) = tables(&db);
    current.delete(KEYS.0, KEYS.1, Precondition::None).wait().unwrap();
    let told = current.delete(KEYS.0, KEYS.1, Precondition::Exists).wait();
    assert!(matches!(told, Err(Error::EntityNotFound { index: 0 })));
}

/// Hires the employee on a new machine; then the task runs until the power goes.
fn run_until_power_goes(env: &SimEnv, after: Option<u64>) -> Result<()> {
    let database = open(env)?;
    let (current, archived) = tables(&database);
    current.insert(&employee()).wait()?;
    if let Some(after) = after {
        env.crash_after(after);
    }
    archive(&current, &archived)
}

fn operations_of_the_task() -> u64 {
    let (hired, archived) = (SimEnv::new(0), SimEnv::new(0));
    let database = open(&hired).unwrap();
    let (current, _archived) = tables(&database);
    current.insert(&employee()).wait().unwrap();
    let before = hired.operations();
    run_until_power_goes(&archived, None).unwrap();
    archived.operations() - before
}

/// The power goes at every operation on the disk: what comes back has the employee in a table, and
/// the task, run again, ends as if nothing had happened.
#[test]
fn p_04_power_loss_at_every_operation_leaves_her_in_one_table_at_least() {
    let operations = operations_of_the_task();
    assert!(operations >= 4, "two commits are written and synced: {operations}");
    let mut seen = std::collections::BTreeSet::new();
    for style in CRASH_STYLES {
        for after in 0..=operations {
            let context = format!("{style:?} after {after} operations");
            let env = SimEnv::new(after);
            let done = run_until_power_goes(&env, Some(after)).is_ok();
            env.crash(style);
            let database = open(&env).unwrap();
            let (current, archived) = tables(&database);
            let found = whereabouts(&current, &archived);
            assert_ne!(found, (false, false), "{context}: she is in neither table");
            assert!(!done || found == (false, true), "{context}: what was acknowledged is lost");
            seen.insert(found);
            archive(&current, &archived).unwrap();
            assert_eq!(whereabouts(&current, &archived), (false, true), "{context}");
        }
    }
    assert_eq!(seen.len(), 3, "crashes before, between and after the steps: {seen:?}");
}

/// A reader of both tables at one version finds the employee in one of them at least, however
/// often she is moved to and fro.
#[test]
fn p_04_no_reader_finds_her_in_neither_table() {
    let db = TestDb::new();
    let (current, archived) = tables(&db);
    current.insert(&employee()).wait().unwrap();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for round in 0..400 {
                match round % 2 {
                    0 => archive(&current, &archived).unwrap(),
                    _ => archive(&archived, &current).unwrap(),
                }
            }
        });
        loop {
            let was_done = worker.is_finished();
            let snapshot = db.snapshot();
            let is_in =
                |table: &EntityTable| table.at(&snapshot).unwrap().exists(KEYS.0, KEYS.1).unwrap();
            assert!(is_in(&current) || is_in(&archived));
            if was_done {
                break;
            }
        }
    });
    assert_eq!(whereabouts(&current, &archived), (true, false));
}
