//! Verification: the reopened table holds every entity of the input, byte for byte, and no other.

use tablestone::{Database, Table};

use crate::input::text;
use crate::load::Loaded;
use crate::support::{Outcome, bytes, each, ensure, grouped, rate, say, step, time};
use crate::tour::SCRATCH;

/// Walks table and input side by side, then reads each entity by its key.
pub(crate) fn every_entity(table: &Table, loaded: &Loaded, from: &str) -> Outcome {
    let began = step(format!("Verify every entity against the input, from {from}"));
    let mut wanted = loaded.some(u64::MAX);
    let mut seen = 0;
    for page in table.query().pages() {
        for row in &page? {
            seen += 1;
            let found = (row.partition_key, row.row_key, row.value);
            ensure(wanted.next() == Some(found), || {
                let (partition_key, row_key) = (text(row.partition_key), text(row.row_key));
                format!("{partition_key} / {row_key} at place {seen} differs from the input")
            })?;
        }
    }
    if let Some((partition_key, row_key, _)) = wanted.next() {
        return Err(format!("{} / {} is missing", text(partition_key), text(row_key)).into());
    }
    let took = began.elapsed();
    say(format!(
        "{} in key order, keys and values the same byte for byte: {}, {} a second",
        grouped(seen),
        time(took),
        rate(seen, took)
    ));

    let began = std::time::Instant::now();
    for (partition_key, row_key, value) in loaded.some(u64::MAX) {
        let same = table.read(partition_key, row_key, |_, stored| stored == value)?;
        ensure(same == Some(true), || {
            format!("{} / {} differs when read by key", text(partition_key), text(row_key))
        })?;
    }
    let took = began.elapsed();
    say(format!("{} by key: {}, {} each", grouped(seen), time(took), each(took, seen)));
    Ok(())
}

/// The table that was dropped and created again is there and empty.
pub(crate) fn dropped_stays_dropped(database: &Database) -> Outcome {
    let page = database.table(SCRATCH)?.query().page()?;
    ensure(page.is_empty(), || "entities of the dropped table are back".into())?;
    say(format!("table {SCRATCH:?} is empty; tables: {:?}", database.tables(None, 10)?.names));
    Ok(())
}

/// Moves everything into table files, and checks each of their checksums.
pub(crate) fn move_to_files(database: &Database) -> Outcome {
    let began = step("Move everything from memory into table files");
    database.compact()?;
    let stats = database.stats();
    let files: u64 = stats.levels.iter().map(|level| level.files).sum();
    let size: u64 = stats.levels.iter().map(|level| level.bytes).sum();
    say(format!("{files} files, {}, in {}", bytes(size), time(began.elapsed())));
    let began = std::time::Instant::now();
    database.verify()?;
    say(format!("every checksum holds; {}", time(began.elapsed())));
    Ok(())
}
