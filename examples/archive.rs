//! Archives an employee: moves an entity from one table to another, which no transaction spans,
//! by steps that may be repeated (design guide, "Eventually consistent transactions pattern").
//!
//! Use it where a change touches two partitions, two tables, or a table and another store. A
//! message in a queue says what is to be done; a worker inserts or replaces the entity in
//! `Archive`, deletes it from `Current` if it exists, and then removes the message. Whoever finds
//! the message again, after a crash anywhere, does all of it again, and the outcome is the same.
//! In between the employee may be in both tables, but never in neither: the copy is durable before
//! the original goes.
//!
//! The example takes the power from a simulated machine after every single operation on its disk,
//! in three ways, and looks at what is left.
//!
//! `cargo run --release --example archive`

use std::collections::BTreeMap;
use std::sync::Arc;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Entity, EntityTable, Error, Options, Precondition};

const DEPARTMENT: &str = "Sales";
const ID: &str = "000456";
const STYLES: [CrashStyle; 3] = [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A run without a crash tells how many operations there are to crash after.
    let machine = SimEnv::new(0);
    let office = Office::open(&machine)?;
    office.current.insert(&employee()).wait()?;
    let before = machine.operations();
    office.archive()?;
    let operations = machine.operations() - before;
    println!("archiving {ID} is {operations} operations on the disk; the power goes after each\n");

    println!(
        "{:<14} {:>7} {:>12} {:>9} {:>12} {:>8}  after the task ran again",
        "", "crashes", "in Current", "in both", "in Archive", "neither"
    );
    for style in STYLES {
        let mut found = BTreeMap::new();
        let mut again = BTreeMap::new();
        for after in 0..=operations {
            let machine = SimEnv::new(after);
            crash_after(&machine, after)?;
            machine.crash(style);
            // The machine is up again; the message is still in the queue.
            let office = Office::open(&machine)?;
            *found.entry(office.whereabouts()?).or_insert(0) += 1;
            office.archive()?;
            *again.entry(office.whereabouts()?).or_insert(0) += 1;
        }
        let count = |place| found.get(&place).copied().unwrap_or(0);
        let [current, both, archived, neither] =
            [Place::Current, Place::Both, Place::Archive, Place::Neither].map(count);
        println!(
            "{:<14} {:>7} {current:>12} {both:>9} {archived:>12} {neither:>8}  {again:?}",
            format!("{style:?}"),
            operations + 1
        );
        assert_eq!(neither, 0, "an employee was lost");
        let finished = BTreeMap::from([(Place::Archive, operations + 1)]);
        assert_eq!(again, finished, "a task that ran again did not finish");
    }
    Ok(())
}

/// Where the employee was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Current,
    Both,
    Archive,
    Neither,
}

fn employee() -> Entity {
    Entity::new(DEPARTMENT, ID).with("Name", "Ann Jones").with("Hired", 1987)
}

/// The database on a machine, with both tables.
struct Office {
    current: EntityTable,
    archived: EntityTable,
}

impl Office {
    fn open(machine: &SimEnv) -> Result<Self, Error> {
        // Synced commits are the default: what is acknowledged survives.
        let options = Options::default().env(Arc::new(machine.clone()));
        let database = Database::open("/office", options)?;
        let table =
            |name| database.create_table_if_missing(name).wait().map(|table| table.entities());
        Ok(Self { current: table("Current")?, archived: table("Archive")? })
    }

    /// The worker's task. It may be begun any number of times, and break off anywhere.
    fn archive(&self) -> Result<(), Error> {
        if let Some(employee) = self.current.get(DEPARTMENT, ID)? {
            // First the copy, which must be durable before the original goes.
            self.archived.insert_or_replace(&employee).wait()?;
            // Without a precondition it is "delete if exists".
            self.current.delete(DEPARTMENT, ID, Precondition::None).wait()?;
        }
        Ok(())
    }

    fn whereabouts(&self) -> Result<Place, Error> {
        let in_current = self.current.exists(DEPARTMENT, ID)?;
        Ok(match (in_current, self.archived.exists(DEPARTMENT, ID)?) {
            (true, false) => Place::Current,
            (true, true) => Place::Both,
            (false, true) => Place::Archive,
            (false, false) => Place::Neither,
        })
    }
}

/// Hires the employee and begins to archive her, on a machine whose power goes on the way.
fn crash_after(machine: &SimEnv, operations: u64) -> Result<(), Error> {
    let office = Office::open(machine)?;
    office.current.insert(&employee()).wait()?;
    machine.crash_after(operations);
    // It fails where the power goes, and the worker with it: nobody is there to handle the error.
    match office.archive() {
        Ok(()) | Err(Error::Io(_) | Error::Poisoned(_) | Error::OutcomeUnknown(_)) => Ok(()),
        Err(other) => Err(other),
    }
}
