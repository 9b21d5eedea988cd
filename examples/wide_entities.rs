//! More than 252 properties: a counter for each day of a year is spread over two entities of one
//! partition (design guide, "Wide entities pattern").
//!
//! Use it where what belongs together has more properties than one entity may have, and is read as
//! a whole. The entities share the partition, so one transaction writes them all, and one call
//! reads them all at one version. A single counter is still one small merge, because its name says
//! which entity it is in.
//!
//! `cargo run --release --example wide_entities`

use std::error::Error;

use tablestone::{
    Database, Entity, EntityBatch, EntityTable, Error as TableError, Options, Precondition,
};

const EMPLOYEE: &str = "000456";
const MONTHS: [(&str, usize); 12] = [
    ("January", 31),
    ("February", 28),
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
    ("November", 30),
    ("December", 31),
];
const DAYS: usize = 365;
/// Days of the first entity: 252 would fit, but the seam is easier to see at the half-year.
const FIRST_HALF: usize = 181;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path(), Options::default())?;
    let messages = database.create_table("messages").wait()?.entities();

    println!("all days in one entity:");
    let mut whole = Entity::new("Sales", EMPLOYEE);
    for day in 1..=DAYS {
        whole.set(property(day), sent(day));
    }
    match messages.insert(&whole).wait() {
        Err(TableError::Entity { source, .. }) => println!("  refused: {source}"),
        other => return Err(format!("it should have been refused: {other:?}").into()),
    }

    println!("\nin two, by one transaction:");
    let mut halves = row_keys().map(|row_key| Entity::new("Sales", row_key));
    for day in 1..=DAYS {
        halves[half_of(day)].set(property(day), sent(day));
    }
    let mut batch = EntityBatch::new("Sales");
    for half in &halves {
        batch.insert(half);
    }
    let version = messages.commit(batch).wait()?;
    println!("  {:<12} {:>10} {:>8}  version", "RowKey", "properties", "size");
    for half in messages.get_many("Sales", &row_keys())?.iter().flatten() {
        let (size, at) = (half.size(), half.version().ok_or("it was read")?);
        println!("  {:<12} {:>10} {size:>8}  {at}", half.row_key(), half.len());
        assert_eq!(at, version, "both are of one transaction");
    }

    // A day is one merge; a correction of two days, one in each entity, is one transaction again.
    add(&messages, 200, 7)?;
    let mut correction = EntityBatch::new("Sales");
    for (day, count) in [(FIRST_HALF, 100), (FIRST_HALF + 1, 200)] {
        let row_key = &row_keys()[half_of(day)];
        let corrected = Entity::new("Sales", row_key.as_str()).with(property(day), count);
        correction.merge(&corrected, Precondition::Exists);
    }
    messages.commit(correction).wait()?;

    println!("\nthe year, from one call for both entities:");
    let year = read_year(&messages)?;
    let mut first = 0;
    for (month, days) in MONTHS {
        let total: i32 = year[first..first + days].iter().sum();
        println!("  {month:<10} {total:>5} {}", "#".repeat(total as usize / 20));
        first += days;
    }
    let changed = 7 + (100 - sent(FIRST_HALF)) + (200 - sent(FIRST_HALF + 1));
    let expected: i32 = (1..=DAYS).map(sent).sum::<i32>() + changed;
    assert_eq!(year.iter().sum::<i32>(), expected, "no day is lost between the entities");
    println!("  {:<10} {expected:>5}", "year");
    Ok(())
}

/// Messages sent on a day; none at weekends.
fn sent(day: usize) -> i32 {
    if day % 7 < 2 { 0 } else { (day * day % 13) as i32 }
}

fn property(day: usize) -> String {
    format!("Day{day:03}")
}

fn row_keys() -> [String; 2] {
    [format!("{EMPLOYEE}_01"), format!("{EMPLOYEE}_02")]
}

fn half_of(day: usize) -> usize {
    usize::from(day > FIRST_HALF)
}

/// Adds to a day's counter, unless somebody else changed the entity in between.
fn add(messages: &EntityTable, day: usize, count: i32) -> Result<(), Box<dyn Error>> {
    let row_key = &row_keys()[half_of(day)];
    let half = messages.get("Sales", row_key)?.ok_or("the year was written")?;
    let counted: i32 = half.get_as(&property(day)).ok_or("every day has a counter")?;
    let version = half.version().ok_or("it was read")?;
    let merged = Entity::new("Sales", row_key.as_str()).with(property(day), counted + count);
    messages.merge(&merged, Precondition::Version(version)).wait()?;
    Ok(())
}

fn read_year(messages: &EntityTable) -> Result<Vec<i32>, Box<dyn Error>> {
    let halves = messages.get_many("Sales", &row_keys())?;
    let day = |day: usize| halves[half_of(day)].as_ref()?.get_as(&property(day));
    let year: Option<Vec<i32>> = (1..=DAYS).map(day).collect();
    Ok(year.ok_or("a day is missing")?)
}
