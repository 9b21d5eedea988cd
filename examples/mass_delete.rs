//! Deleting many entities: a table for each day against deletes one by one (design guide,
//! "High volume delete pattern").
//!
//! A site keeps the sign-ins of its users and deletes those that are too old. With all of them in
//! one table that is a search for what is old and a delete for each. With a table for each day it
//! is one call that drops a table, in constant time; the price is that a question over many days
//! asks many tables. The service makes a dropped table's name wait before it can be used again, so
//! its clients always use new names; here a name is free, and empty, at once.
//!
//! Between the two, this engine deletes a range of rows of a partition in constant time: with
//! time-ordered RowKeys, one range for each user.
//!
//! `cargo run --release --example mass_delete`

use std::error::Error;
use std::time::Instant;

use tablestone::{
    Commit, Database, Durability, Entity, EntityBatch, EntityTable, Filter, Options, Precondition,
    Result, Version,
};

const USERS: usize = 200;
const DAYS: usize = 30;
/// Days that are too old.
const OLD: usize = 20;
const SIGN_INS_A_DAY: usize = 1_500;
const CUTOFF: &str = "2014-08-21";

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    println!(
        "{} sign-ins of {USERS} users on {DAYS} days; those of {OLD} days are too old\n",
        DAYS * SIGN_INS_A_DAY
    );
    println!(
        "{:<34} {:>8} {:>9} {:>9} {:>10} {:>9}",
        "way to delete them", "commits", "log KiB", "time", "then: scan", "examined"
    );
    let ways: [(&str, Way); 4] = [
        ("one table: deletes in batches", delete_in_batches),
        ("one table: a range for each user", delete_ranges),
        ("a table a day: drop tables", drop_tables),
        ("the same, and compacted", |database| {
            drop_tables(database)?;
            database.compact()
        }),
    ];
    for (n, (title, way)) in ways.into_iter().enumerate() {
        let options = Options::default().memory_budget(8 << 20).durability(Durability::Sync);
        let database = Database::open(dir.path().join(n.to_string()), options)?;
        let table_a_day = n >= 2;
        for day in 0..DAYS {
            let name = if table_a_day { day_table(day) } else { "SignIns".into() };
            let table = database.create_table_if_missing(&name).wait()?.entities();
            table.import((0..SIGN_INS_A_DAY).map(|sign_in| entity(day, sign_in)))?;
        }
        database.compact()?;

        let before = database.stats();
        let began = Instant::now();
        way(&database)?;
        let millis = began.elapsed().as_secs_f64() * 1e3;
        let after = database.stats();
        let (commits, bytes) = (after.commits - before.commits, after.log_bytes - before.log_bytes);

        // What is left is read once: by then, what was deleted may still be in the way.
        let began = Instant::now();
        let (mut left, mut examined) = (0, 0);
        for name in database.tables(None, 1_000)?.names {
            for page in database.table(&name)?.entities().query().pages() {
                let page = page?;
                left += page.len();
                examined += page.examined();
            }
        }
        let scan = began.elapsed().as_secs_f64() * 1e3;
        println!(
            "{title:<34} {commits:>8} {:>9.1} {millis:>6.1} ms {scan:>7.1} ms {examined:>9}",
            bytes as f64 / 1024.0
        );
        let expected = (DAYS - OLD) * SIGN_INS_A_DAY;
        if left != expected {
            return Err(format!("{left} sign-ins are left, not {expected}").into());
        }
        database.close()?;
    }
    Ok(())
}

type Way = fn(&Database) -> Result<()>;

fn day(n: usize) -> String {
    format!("2014-08-{:02}", n + 1)
}

fn day_table(n: usize) -> String {
    format!("SignIns{}", day(n).replace('-', ""))
}

/// The PartitionKey is the user, the RowKey the time.
fn entity(n: usize, sign_in: usize) -> Entity {
    let user = format!("user-{:03}", sign_in * 31 % USERS);
    let second = sign_in * 86_400 / SIGN_INS_A_DAY;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    Entity::new(user, format!("{}T{hour:02}:{minute:02}:{second:02}", day(n)))
        .with("Address", format!("10.0.{}.{}", sign_in % 256, sign_in * 7 % 256))
        .with("Succeeded", !sign_in.is_multiple_of(20))
}

/// Looks for what is old, a page at a time, and deletes each user's in batches of up to 100. They
/// are under way together, as what the other ways do is, and share their syncs.
fn delete_in_batches(database: &Database) -> Result<()> {
    let table: EntityTable = database.table("SignIns")?.entities();
    let old = Filter::row_key().lt(CUTOFF);
    let keys_only: [&str; 0] = [];
    let mut batch = EntityBatch::new("");
    let mut user = String::new();
    let mut under_way = Vec::new();
    for page in table.query().filter(old).select(keys_only).pages() {
        for sign_in in &page? {
            if batch.len() == 100 || sign_in.partition_key() != user {
                user.replace_range(.., sign_in.partition_key());
                let full = std::mem::replace(&mut batch, EntityBatch::new(&*user));
                if !full.is_empty() {
                    under_way.push(table.commit(full));
                }
            }
            batch.delete(sign_in.row_key(), Precondition::None);
        }
    }
    if !batch.is_empty() {
        under_way.push(table.commit(batch));
    }
    wait_for(under_way)
}

/// One range of rows for each user.
fn delete_ranges(database: &Database) -> Result<()> {
    let table = database.table("SignIns")?;
    let delete = |user| table.delete_range(format!("user-{user:03}"), ..CUTOFF);
    wait_for((0..USERS).map(delete).collect())
}

fn drop_tables(database: &Database) -> Result<()> {
    wait_for((0..OLD).map(|day| database.drop_table(&day_table(day))).collect())
}

fn wait_for(under_way: Vec<Commit<Version>>) -> Result<()> {
    under_way.into_iter().try_for_each(|commit| commit.wait().map(|_| ()))
}
