//! What the engine can do with a loaded table, step by step; each step checks what it gets.

use tablestone::{Batch, Database, Error, Precondition, Table};

use crate::input::{self, text};
use crate::load::Loaded;
use crate::support::{Outcome, each, ensure, grouped, rate, say, step, time};

/// How many point reads to time.
const POINT_READS: u64 = 20_000;
const PAGE: usize = 1_000;
/// The table that is dropped.
pub(crate) const SCRATCH: &str = "scratch";

/// Reads single entities: some that are there, some that are not, and many at once.
pub(crate) fn point_reads(table: &Table, loaded: &Loaded) -> Outcome {
    let began = step("Read single entities");
    let mut reads = 0;
    for (partition_key, row_key, value) in loaded.some(POINT_READS) {
        let same = table.read(partition_key, row_key, |_, stored| stored == value)?;
        ensure(same == Some(true), || differs(partition_key, row_key))?;
        reads += 1;
    }
    say(format!("{} found, {} each", grouped(reads), each(began.elapsed(), reads)));

    let began = std::time::Instant::now();
    for (partition_key, row_key, _) in loaded.some(POINT_READS) {
        let other = [row_key, b"?"].concat();
        let is_there = loaded.has(partition_key, &other);
        ensure(table.exists(partition_key, &other)? == is_there, || {
            format!("{:?} is there, {is_there} by the lines", text(&other))
        })?;
    }
    say(format!("{} not found, {} each", grouped(reads), each(began.elapsed(), reads)));

    let (partition_key, rows) = loaded.largest();
    let row_keys: Vec<_> = rows.keys().step_by(rows.len().div_ceil(PAGE)).collect();
    let began = std::time::Instant::now();
    let found = table.get_many(partition_key, &row_keys)?;
    let took = began.elapsed();
    ensure(found.iter().all(Option::is_some), || "get_many misses an entity".into())?;
    say(format!(
        "{} of {} in one call, {} each",
        grouped(found.len() as u64),
        text(partition_key),
        each(took, found.len() as u64)
    ));
    if let Some((partition_key, row_key, _)) = loaded.some(3).nth(1)
        && let Some(row) = table.get(partition_key, row_key)?
    {
        let shown = input::describe(&row.value).unwrap_or_else(|| "not decodable".into());
        let key = format!("{} / {}", text(partition_key), text(row_key));
        say(format!("for example {key}: {shown}; version {}", row.version));
    }
    Ok(())
}

/// Reads the largest partition a page at a time, each from the continuation of the one before.
pub(crate) fn partition_by_pages(table: &Table, loaded: &Loaded) -> Outcome {
    let (partition_key, rows) = loaded.largest();
    let began = step(format!("Read partition {} page by page", text(partition_key)));
    let (mut pages, mut seen, mut next) = (0, 0, None);
    let mut first_continuation = None;
    loop {
        let mut query = table.query().partition(partition_key).limit(PAGE);
        if let Some(next) = next {
            query = query.continue_from(next);
        }
        let page = query.page()?;
        pages += 1;
        seen += page.len() as u64;
        next = page.continuation().cloned();
        if first_continuation.is_none() {
            first_continuation.clone_from(&next);
        }
        if next.is_none() {
            break;
        }
    }
    let took = began.elapsed();
    ensure(seen == rows.len() as u64, || format!("{seen} entities, not {}", rows.len()))?;
    say(format!(
        "{} entities in {pages} pages of up to {PAGE}: {}, {} entities a second",
        grouped(seen),
        time(took),
        rate(seen, took)
    ));
    if let Some(next) = first_continuation {
        let (partition_key, row_key) = (text(next.partition_key()), text(next.row_key()));
        say(format!("the second page began at {partition_key:?}, {row_key:?}"));
    }
    Ok(())
}

/// Reads the rows with one prefix, in one partition and in all.
pub(crate) fn row_key_prefix(table: &Table, loaded: &Loaded) -> Outcome {
    let (partition_key, rows) = loaded.largest();
    let middle = rows.keys().nth(rows.len() / 2).map_or(&[][..], Vec::as_slice);
    let prefix = middle.split_inclusive(|&byte| byte == b'|').next().unwrap_or_default();
    let began = step(format!("Read the rows whose RowKey begins with {:?}", text(prefix)));
    let mut found = 0;
    for page in table.query().partition(partition_key).row_prefix(prefix).pages() {
        found += page?.len();
    }
    let took = began.elapsed();
    let wanted = rows.keys().filter(|row_key| row_key.starts_with(prefix)).count();
    ensure(found == wanted, || format!("{found} entities, not {wanted}"))?;
    let (of, partition) = (grouped(rows.len() as u64), text(partition_key));
    say(format!(
        "{} of the {of} in partition {partition}, in {}",
        grouped(found as u64),
        time(took)
    ));

    let began = std::time::Instant::now();
    let (mut found, mut examined) = (0, 0);
    for page in table.query().row_prefix(prefix).pages() {
        let page = page?;
        found += page.len();
        examined += page.examined();
    }
    let took = began.elapsed();
    let all = loaded.partitions.values().flat_map(|rows| rows.keys());
    let wanted = all.filter(|row_key| row_key.starts_with(prefix)).count();
    ensure(found == wanted, || format!("{found} entities, not {wanted}"))?;
    say(format!(
        "{} in all {} partitions, in {}: {} of {} entries were looked at",
        grouped(found as u64),
        grouped(loaded.partitions.len() as u64),
        time(took),
        grouped(examined),
        grouped(loaded.entities),
    ));
    Ok(())
}

/// Two writers read one version of an entity; the second to write loses.
pub(crate) fn lost_race(table: &Table, loaded: &Loaded) -> Outcome {
    let began = step("Lose an ETag race");
    let (partition_key, rows) = loaded.largest();
    let (row_key, value) = rows.first_key_value().ok_or("the input has no entities")?;
    let read = table.get(partition_key, row_key)?.ok_or("the entity is gone")?.version;
    let if_match = Precondition::Version(read);
    let first = table.replace(partition_key, row_key, if_match, "the first writer's").wait()?;
    match table.replace(partition_key, row_key, if_match, "the second writer's").wait() {
        Err(lost @ Error::VersionMismatch { .. }) => {
            say(format!("both writers read version {read}; the second got: {lost}"));
        }
        other => return Err(format!("the second writer got {other:?}").into()),
    }
    let winner = table.get(partition_key, row_key)?.ok_or("the entity is gone")?;
    ensure(winner.value == b"the first writer's", || "the first writer's value is gone".into())?;
    table.replace(partition_key, row_key, Precondition::Version(first), value.clone()).wait()?;
    say(format!("the old value was put back; {} for it all", time(began.elapsed())));
    Ok(())
}

/// A batch whose last operation cannot be done changes nothing.
pub(crate) fn rolled_back_batch(table: &Table, loaded: &Loaded) -> Outcome {
    let began = step("Roll back a batch");
    let (partition_key, rows) = loaded.largest();
    let (taken, _) = rows.first_key_value().ok_or("the input has no entities")?;
    let (last, _) = rows.last_key_value().ok_or("the input has no entities")?;
    let new = [last.as_slice(), b" (new)"].concat();
    let mut batch = Batch::new(partition_key);
    batch.insert(new.clone(), "new");
    if last != taken {
        batch.delete(last.clone(), Precondition::Exists);
    }
    let operations = batch.len();
    batch.insert(taken.clone(), "taken");
    match table.commit(batch).wait() {
        Err(refused @ Error::EntityExists { .. }) => {
            say(format!("a batch of {} operations got: {refused}", operations + 1));
        }
        other => return Err(format!("the batch got {other:?}").into()),
    }
    ensure(!table.exists(partition_key, &new)?, || "its insert was done".into())?;
    ensure(table.exists(partition_key, last)?, || "its delete was done".into())?;
    say(format!("none of the others was done; {} for it all", time(began.elapsed())));
    Ok(())
}

/// Copies a partition into a table of its own and drops that.
pub(crate) fn dropped_table(database: &Database, loaded: &Loaded) -> Outcome {
    let began = step("Drop a table");
    let (partition_key, rows) = loaded.largest();
    let scratch = database.create_table(SCRATCH).wait()?;
    let copies = rows.iter().map(|(row_key, value)| (&**partition_key, &**row_key, &**value));
    let imported = scratch.import(copies)?;
    say(format!("{} entities imported in {}", grouped(imported.rows), time(began.elapsed())));

    let began = std::time::Instant::now();
    database.drop_table(SCRATCH).wait()?;
    say(format!("dropped in {}", time(began.elapsed())));
    match scratch.get(partition_key, "") {
        Err(gone @ Error::TableNotFound(_)) => say(format!("its handle says: {gone}")),
        other => return Err(format!("the dropped table's handle got {other:?}").into()),
    }
    let again = database.create_table(SCRATCH).wait()?;
    ensure(again.query().page()?.is_empty(), || "the new table is not empty".into())?;
    say("created again, it is empty at once");
    Ok(())
}

fn differs(partition_key: &[u8], row_key: &[u8]) -> String {
    format!("{} / {} is not what the input has", text(partition_key), text(row_key))
}
