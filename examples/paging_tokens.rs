//! Large results in pages: a token says where the next page begins, and can be kept (design guide,
//! "Retrieving large numbers of entities from a query"; white paper, §6.2).
//!
//! A query returns at most 1,000 entities at a time, and as a token the keys at which it goes on.
//! That and the query are all there is: no cursor is open meanwhile. So a client may keep the token
//! in a file or in a link on a web page, and go on tomorrow, after a restart, or never. The next
//! page is of the data as they are then: what was inserted behind the token is in it, what was
//! inserted before it is not, and nobody minds if the entity that the token names is gone.
//!
//! Use it for anything that may be longer than a page. To read one state over all pages, query a
//! snapshot instead (`table.at(&database.snapshot())`), which lasts as long as the process does.
//!
//! `cargo run --release --example paging_tokens`

use std::error::Error;
use std::fs;

use tablestone::{
    Continuation, Database, Entity, EntityPage, EntityTable, Filter, Options, Precondition,
};

const EMPLOYEES: usize = 260;
const PAGE: usize = 50;
const FIRST: [&str; 13] =
    ["Ann", "Ben", "Cem", "Dora", "Eva", "Finn", "Gül", "Hans", "Ida", "Jun", "Ken", "Lea", "Max"];
const LAST: [&str; 10] =
    ["Abel", "Bauer", "Cao", "Dvořák", "Eriksen", "Fox", "Garcia", "Hall", "Ito", "Jones"];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let token_file = dir.path().join("token");
    let database_dir = dir.path().join("database");
    let database = Database::open(&database_dir, Options::default())?;
    let employees = database.create_table("Employees").wait()?.entities();
    employees.import((0..EMPLOYEES).map(|n| {
        let (first, last) = (FIRST[n % FIRST.len()], LAST[n / FIRST.len() % LAST.len()]);
        Entity::new("Sales", format!("{last}_{first}_{n:03}"))
            .with("Name", format!("{first} {last}"))
    }))?;
    println!("Page  {:<18}    {:<18}    the next begins at", "first", "last");

    // The first process reads two pages, and keeps the token of the second.
    let first = page(&employees, None)?;
    show(1, &first);
    let second = page(&employees, first.continuation().cloned())?;
    show(2, &second);
    let token = second.continuation().ok_or("there are more pages")?;
    fs::write(&token_file, token.to_string())?;
    let last_read = second.iter().next_back().ok_or("the page has rows")?.row_key().to_owned();
    drop(employees);
    database.close()?;
    println!("      -- the process ends; another one opens the database --");

    // Meanwhile there are changes around the token.
    let database = Database::open(&database_dir, Options::default())?;
    let employees = database.table("Employees")?.entities();
    let text = fs::read_to_string(&token_file)?;
    println!("      -- the token was kept as {text} --");
    let token: Continuation = text.parse()?;
    let named = String::from_utf8(token.row_key().to_vec())?;
    employees.delete("Sales", &named, Precondition::Exists).wait()?;
    let before = format!("{last_read}_new");
    let behind = format!("{named}_new");
    for row_key in [&before, &behind] {
        employees.insert(&Entity::new("Sales", row_key).with("Name", "New Here")).wait()?;
    }
    println!("      -- deleted {named}, inserted {before} and {behind} --");

    let mut next = Some(token);
    let mut read = Vec::new();
    for number in 3.. {
        let page = page(&employees, next.take())?;
        show(number, &page);
        read.extend(page.iter().map(|employee| employee.row_key().to_owned()));
        next = page.continuation().cloned();
        if next.is_none() {
            break;
        }
    }
    println!();
    for (what, row_key) in [
        ("The deleted employee, at the token", &named),
        ("The new one before the token", &before),
        ("The new one behind the token", &behind),
    ] {
        println!("{what:<36} {}", if read.contains(row_key) { "read" } else { "not read" });
    }
    println!("\nAll pages in one loop, by last name from C to before F:");
    let range = Filter::parse("PartitionKey eq 'Sales' and RowKey ge 'C' and RowKey lt 'F'")?;
    for page in employees.query().filter(range).limit(30).pages() {
        let page = page?;
        println!(
            "  {} entities, {} examined, {:?}",
            page.len(),
            page.examined(),
            page.stop_reason()
        );
    }
    Ok(())
}

/// One page of the sales department, from a token on.
fn page(employees: &EntityTable, from: Option<Continuation>) -> tablestone::Result<EntityPage> {
    let query = employees.query().filter(Filter::partition_key().eq("Sales")).limit(PAGE);
    match from {
        Some(token) => query.continue_from(token).page(),
        None => query.page(),
    }
}

fn show(number: usize, page: &EntityPage) {
    let mut row_keys = page.iter().map(|employee| employee.row_key());
    let (first, last) = (row_keys.next().unwrap_or("-"), row_keys.next_back().unwrap_or("-"));
    let next = page.continuation().map(|token| String::from_utf8_lossy(token.row_key()));
    let next = next.as_deref().unwrap_or("the end");
    println!("{number:>4}  {first:<18} .. {last:<18} -> {next}");
}
