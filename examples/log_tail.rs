//! The newest entries first: RowKeys that count down (design guide, "Log tail pattern"; white
//! paper, §8.1).
//!
//! Entities come back in the order of their keys, oldest first if a key begins with the time. Where
//! the newest are wanted, as in "the ten most recent expense claims", the RowKey is what is left of
//! time after the entity was made: 100 ns ticks to the end of the year 9999, in 19 digits, so that
//! text sorts as numbers do. Each new entity is then the first of its partition, and the ten newest
//! cost ten, however long the tail is. What is newer than an instant has a *smaller* key.
//!
//! Use it for feeds, histories and logs that are read from the new end, by any client of the data
//! model. A program that embeds this engine has the choice: `reverse()` reads a partition from its
//! end at the same cost.
//!
//! `cargo run --release --example log_tail`

use std::error::Error;
use std::time::Instant;

use tablestone::{
    Database, DateTime, Entity, EntityQuery, EntityTable, Error as TableError, Filter, Options,
};

const EMPLOYEES: u64 = 100;
const CLAIMS: u64 = 200;
const MINUTE: u64 = 600_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path(), Options::default())?;
    let newest_first = database.create_table("EmployeeExpense").wait()?.entities();
    let oldest_first = database.create_table("OldestFirst").wait()?.entities();

    // Claims of all employees as they come in, 37 minutes apart.
    let begin: DateTime = "2014-01-02T08:00:00Z".parse()?;
    let claims = || (0..EMPLOYEES * CLAIMS).map(|n| (n, after(begin, n * 37 * MINUTE)));
    newest_first.import(claims().map(|(n, at)| claim(n, countdown(at), at)))?;
    oldest_first.import(claims().map(|(n, at)| claim(n, at.to_string(), at)))?;
    database.compact()?;
    println!("{EMPLOYEES} employees with {CLAIMS} claims each\n");

    println!("The ten most recent claims of {}:", employee(42));
    let ten = newest_first.query().partition(employee(42)).top(10).page()?;
    for claim in &ten {
        let (at, amount): (Option<DateTime>, Option<f64>) =
            (claim.get_as("ClaimedAt")?, claim.get_as("Amount")?);
        let at = at.ok_or("a claim has a time")?;
        println!("  {}  {at}  {:>8.2}", claim.row_key(), amount.unwrap_or_default());
    }

    println!("\n{:<46} {:>6} {:>9} {:>9}", "what is asked", "found", "examined", "time");
    let of = |table: &EntityTable| table.query().partition(employee(42));
    show("10 newest, keys count down", of(&newest_first).top(10))?;
    show("10 newest, keys count up, read in reverse", of(&oldest_first).reverse().top(10))?;
    show("all, as the newest end a forward read", of(&oldest_first))?;

    // Newer than an instant: a range of keys that ends before that of the instant.
    let instant = after(begin, (EMPLOYEES * CLAIMS * 19 / 20) * 37 * MINUTE);
    let newer = Filter::row_key().lt(countdown(instant));
    show(&format!("claimed after {instant}"), of(&newest_first).filter(newer))?;
    let by_property = Filter::property("ClaimedAt").gt(instant);
    show("the same, asked of a property", of(&newest_first).filter(by_property))?;

    // An instant is a key only as long as nobody makes two claims in one tick. The second is
    // refused, not lost; the next tick is free.
    let (_, at) = claims().next_back().ok_or("there are claims")?;
    let mut second = at;
    let retries = loop {
        let last = EMPLOYEES * CLAIMS - 1;
        match newest_first.insert(&claim(last, countdown(second), second)).wait() {
            Ok(_) => break second.ticks() - at.ticks(),
            Err(TableError::EntityExists { .. }) => second = after(second, 1),
            Err(error) => return Err(error.into()),
        }
    };
    println!("\nA second claim in the same 100 ns was stored {retries} tick later.");
    Ok(())
}

fn employee(n: u64) -> String {
    format!("employee-{n:03}")
}

fn claim(n: u64, row_key: String, at: DateTime) -> Entity {
    Entity::new(employee(n % EMPLOYEES), row_key)
        .with("ClaimedAt", at)
        .with("Amount", (n * 7_919 % 40_000) as f64 / 100.0)
        .with("Purpose", ["Travel", "Hotel", "Meal"][n as usize % 3])
}

fn countdown(at: DateTime) -> String {
    format!("{:019}", DateTime::MAX.ticks() - at.ticks())
}

fn after(at: DateTime, ticks: u64) -> DateTime {
    DateTime::from_ticks(at.ticks() + ticks).unwrap_or(DateTime::MAX)
}

fn show(what: &str, query: EntityQuery) -> Result<(), TableError> {
    let began = Instant::now();
    let page = query.page()?;
    let micros = began.elapsed().as_micros();
    println!("{what:<46} {:>6} {:>9} {micros:>6} µs", page.len(), page.examined());
    Ok(())
}
