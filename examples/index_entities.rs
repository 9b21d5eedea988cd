//! Index entities under contention: beside the employees of a department stands one entity for each
//! last name, with the list of their ids (design guide, "Index entities pattern").
//!
//! Use it to find entities by a property that many of them share: one read of the list, then the
//! entities it names in one call. Every insert rewrites a list, so writers meet; the ETag of the
//! list decides who was first, and the others start again from the read. No id is ever lost, and no
//! list ever names somebody who is not there, because both are written by one transaction.
//!
//! `cargo run --release --example index_entities`

use std::collections::BTreeMap;
use std::error::Error;

use tablestone::{
    Database, Entity, EntityBatch, EntityTable, Error as TableError, Options, Precondition,
};

const DEPARTMENT: &str = "Sales";
const THREADS: usize = 4;
const EACH: usize = 60;
const LAST_NAMES: [&str; 4] = ["Cao", "Jones", "Jones", "Smith"];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path(), Options::default())?;
    let employees = database.create_table("employees").wait()?.entities();

    println!("{THREADS} threads hire {EACH} employees each\n");
    println!("{:<8} {:>6} {:>14}", "thread", "hired", "started again");
    let retries = std::thread::scope(|scope| {
        let hire = |thread| {
            let employees = &employees;
            scope.spawn(move || hire_all(employees, thread))
        };
        let threads: Vec<_> = (0..THREADS).map(hire).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread failed"));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    for (thread, retries) in retries.into_iter().enumerate() {
        println!("{thread:<8} {EACH:>6} {:>14}", retries?);
    }

    println!("\n{:<10} {:>12} {:>10} {:>10}", "last name", "in the list", "found", "expected");
    let mut expected = BTreeMap::new();
    for id in 0..THREADS * EACH {
        *expected.entry(last_name(id)).or_insert(0) += 1;
    }
    for (last, expected) in expected {
        let list = employees.get(DEPARTMENT, last)?.ok_or("the name has a list")?;
        // One read of the list, one call for all that it names.
        let ids = ids(Some(&list));
        let found: Vec<_> = employees.get_many(DEPARTMENT, &ids)?.into_iter().flatten().collect();
        println!("{last:<10} {:>12} {:>10} {expected:>10}", ids.len(), found.len());
        assert_eq!((ids.len(), found.len()), (expected, expected), "an id of {last} was lost");
        assert!(found.iter().all(|employee| employee.get_as("LastName") == Some(last)));
    }
    Ok(())
}

fn last_name(id: usize) -> &'static str {
    LAST_NAMES[id % LAST_NAMES.len()]
}

/// Hires a thread's employees; how often another thread was faster.
fn hire_all(employees: &EntityTable, thread: usize) -> Result<usize, TableError> {
    let mut retries = 0;
    for id in (thread * EACH)..(thread * EACH + EACH) {
        while !try_hire(employees, id)? {
            retries += 1;
        }
    }
    Ok(retries)
}

/// One attempt: reads the list, then writes employee and list in one transaction that insists on
/// the list being as it was read. Whether that was so.
fn try_hire(employees: &EntityTable, id: usize) -> Result<bool, TableError> {
    let (row_key, last) = (format!("{id:06}"), last_name(id));
    let list = employees.get(DEPARTMENT, last)?;
    // No list yet is a state like any other: it must still be missing when it is written.
    let unchanged = Precondition::from(list.as_ref().and_then(Entity::version));
    let mut ids = ids(list.as_ref());
    ids.push(&row_key);

    let employee = Entity::new(DEPARTMENT, &*row_key).with("LastName", last).with("Floor", 2);
    let longer = Entity::new(DEPARTMENT, last).with("EmployeeIDs", ids.join(","));
    let mut batch = EntityBatch::new(DEPARTMENT);
    batch.insert(&employee).put(&longer, unchanged);
    match employees.commit(batch).wait() {
        Ok(_) => Ok(true),
        // Operation 1 is the list: somebody else wrote it first. Nothing was changed.
        Err(TableError::VersionMismatch { index: 1, .. })
        | Err(TableError::EntityExists { index: 1, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The ids that a list names. A String takes 32 Ki characters: longer lists go on in further
/// properties, up to the mebibyte that an entity may have.
fn ids(list: Option<&Entity>) -> Vec<&str> {
    let text = list.and_then(|list| list.get_as::<&str>("EmployeeIDs")).unwrap_or_default();
    text.split_terminator(',').collect()
}
