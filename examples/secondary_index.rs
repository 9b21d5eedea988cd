//! A secondary index within a partition: every employee is stored twice in its department, under
//! `empid_…` and under `email_…`, so that either is a point read or a range (design guide,
//! "Intra-partition secondary index pattern").
//!
//! Use it where entities are looked up by one or two properties besides their key. Both copies are
//! written by one entity group transaction, so they never disagree, and each is the whole entity:
//! a look-up is one read, where an index that only names the entity would make it two.
//!
//! `cargo run --release --example secondary_index`

use std::error::Error;

use tablestone::{
    Database, Entity, EntityBatch, EntityTable, Error as TableError, Filter, Options, Precondition,
    Version,
};

const DEPARTMENT: &str = "Sales";
const EMPLOYEES: usize = 2_000;
const FIRST_NAMES: [&str; 8] = ["ann", "ben", "cleo", "don", "jun", "ken", "mia", "zoe"];
const LAST_NAMES: [&str; 7] = ["cao", "hall", "jones", "kwok", "miller", "smith", "young"];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path(), Options::default())?;
    let employees = database.create_table("employees").wait()?.entities();

    // Fifty employees to a transaction: it takes a hundred operations at most.
    let ids: Vec<_> = (0..EMPLOYEES).collect();
    for ids in ids.chunks(50) {
        let mut batch = EntityBatch::new(DEPARTMENT);
        for &id in ids {
            let (by_id, by_mail) = copies(id, &address(id));
            batch.insert(&by_id).insert(&by_mail);
        }
        employees.commit(batch).wait()?;
    }
    println!("{EMPLOYEES} employees of {DEPARTMENT} under two keys each\n");

    println!(
        "{:<56} {:>5} {:>8}  plan",
        "filter, after PartitionKey eq 'Sales' and", "found", "examined"
    );
    show(&employees, "RowKey eq 'empid_000223'", 1)?;
    show(&employees, &format!("RowKey eq 'email_{}'", address(223)), 1)?;
    show(&employees, "RowKey ge 'empid_000100' and RowKey le 'empid_000199'", 100)?;
    show(&employees, "RowKey ge 'email_j' and RowKey lt 'email_k'", EMPLOYEES / 8)?;
    // What has no key of its own costs the whole partition, both copies of everybody.
    show(&employees, "Age eq 33", EMPLOYEES / 40)?;

    let (old, new) = (address(223), "ken.jones@contoso.example");
    println!("\n000223 changes {old} to {new}:");
    let version = change_mail(&employees, 223, &old, new)?;
    show_copies(&employees, 223, &[&old, new])?;
    let both = employees.get_many(DEPARTMENT, &[key_by_id(223), key_by_mail(new)])?;
    let versions = both.iter().map(|copy| copy.as_ref().and_then(Entity::version));
    assert!(
        versions.into_iter().all(|of| of == Some(version)),
        "one transaction wrote both copies"
    );

    let (old, taken) = (address(224), address(7));
    println!("\n000224 wants {taken}, which is somebody else's:");
    match change_mail(&employees, 224, &old, &taken) {
        Err(error @ TableError::EntityExists { .. }) => println!("  refused: {error}"),
        other => return Err(format!("it should have been refused: {other:?}").into()),
    }
    show_copies(&employees, 224, &[&old])?;
    Ok(())
}

fn address(id: usize) -> String {
    let (first, last) = (FIRST_NAMES[id % 8], LAST_NAMES[id % 7]);
    format!("{first}.{last}.{id}@contoso.example")
}

fn key_by_id(id: usize) -> String {
    // Padded, so that the order of texts is the order of numbers.
    format!("empid_{id:06}")
}

fn key_by_mail(mail: &str) -> String {
    format!("email_{mail}")
}

/// The same employee under both keys; the copy may leave out what nobody asks it for.
fn copies(id: usize, mail: &str) -> (Entity, Entity) {
    let common = |row_key| {
        Entity::new(DEPARTMENT, row_key).with("EmployeeId", id as i32).with("Email", mail)
    };
    (common(key_by_id(id)).with("Age", 20 + (id % 40) as i32), common(key_by_mail(mail)))
}

/// One transaction: the row of the old address goes, that of the new one comes, and the employee
/// is updated. If the new address is taken, nothing happens.
fn change_mail(
    employees: &EntityTable,
    id: usize,
    old: &str,
    new: &str,
) -> Result<Version, TableError> {
    let (_, by_mail) = copies(id, new);
    let update = Entity::new(DEPARTMENT, key_by_id(id)).with("Email", new);
    let mut batch = EntityBatch::new(DEPARTMENT);
    batch
        .delete(key_by_mail(old), Precondition::Exists)
        .insert(&by_mail)
        .merge(&update, Precondition::Exists);
    employees.commit(batch).wait()
}

fn show(employees: &EntityTable, rows: &str, expected: usize) -> Result<(), Box<dyn Error>> {
    let filter: Filter = format!("PartitionKey eq '{DEPARTMENT}' and {rows}").parse()?;
    let query = employees.query().filter(filter);
    let plan = query.explain().plan();
    let page = query.page()?;
    println!("{rows:<56} {:>5} {:>8}  {plan:?}", page.len(), page.examined());
    assert_eq!(page.len(), expected, "{rows}");
    Ok(())
}

fn show_copies(employees: &EntityTable, id: usize, mails: &[&str]) -> Result<(), Box<dyn Error>> {
    let keys = mails.iter().map(|mail| key_by_mail(mail));
    for key in std::iter::once(key_by_id(id)).chain(keys) {
        match employees.get(DEPARTMENT, &key)? {
            Some(copy) => println!("  {key:<42} Email = {}", copy.get_as("Email").unwrap_or("?")),
            None => println!("  {key:<42} is gone"),
        }
    }
    Ok(())
}
