//! What is there after a cut, beside what the notes allow.
//!
//! Invariant: a database that opens, is whole, has of each table one of the states that are allowed, and
//! takes writes that the next opening finds. Anything else is an error that says what.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tablestone::{Database, Error, Options};

use crate::notes::{self, Allowed, Notes};
use crate::story::{Rows, State, Value, Writer};
use crate::worker::When;

/// What is to be checked.
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// Where the database and its checkpoints are.
    #[arg(long)]
    dir: PathBuf,
    /// Where the notes are.
    #[arg(long)]
    notes: PathBuf,
    /// After how many events the power went, of each round.
    #[arg(long, value_delimiter = ',')]
    cuts: Vec<usize>,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    writers: u64,
    #[arg(long)]
    durability: When,
}

pub fn run(check: &Check) -> Result<()> {
    let options = || check.durability.options();
    let data = check.dir.join("data");
    let database = Database::open(&data, options()).context("opening")?;
    database.verify().context("verifying")?;
    for number in 0..check.writers {
        let writer = Writer { seed: check.seed, number };
        let allowed = allowed(check, writer)?;
        holds_one_of(&database, writer, &allowed.states).context(writer.table())?;
        if let Some((step, state)) = allowed.checkpoint {
            let dir = check.dir.join(format!("checkpoint-{}-{step}", writer.table()));
            check_checkpoint(&dir, writer, &state, options())
                .with_context(|| format!("the checkpoint of step {step}"))?;
        }
    }
    let version =
        database.create_table_if_missing("after").wait()?.upsert("the", "cut", "written").wait()?;
    database.close()?;
    let database = Database::open(&data, options()).context("opening again")?;
    let row =
        database.table("after")?.get("the", "cut")?.context("what was written after the cut")?;
    ensure!(row.version == version, "what was written after the cut is another");
    Ok(database.close()?)
}

fn allowed(check: &Check, writer: Writer) -> Result<Allowed> {
    let mut allowed = Allowed::at_first();
    for (round, events) in check.cuts.iter().enumerate() {
        let notes = Notes::read(&notes::file(&check.notes, round, writer))?;
        allowed.go_on(writer, &notes, *events, check.durability == When::Sync);
    }
    Ok(allowed)
}

fn check_checkpoint(dir: &Path, writer: Writer, state: &State, options: Options) -> Result<()> {
    let database = Database::open(dir, options.read_only(true)).context("opening")?;
    database.verify().context("verifying")?;
    holds_one_of(&database, writer, std::slice::from_ref(state))?;
    Ok(database.close()?)
}

fn holds_one_of(database: &Database, writer: Writer, states: &[State]) -> Result<()> {
    let table = match database.table(&writer.table()) {
        Ok(table) => table,
        Err(Error::TableNotFound(_)) if states.contains(&None) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for row in table.query().keyed_rows() {
        let row = row?;
        let ([partition], [number]) = (&row.partition_key[..], &row.row_key[..]) else {
            bail!("a key that nobody wrote: {:?}, {:?}", row.partition_key, row.row_key);
        };
        found.push(((*partition, *number), row.value.to_vec()));
    }
    let is_it = |state: &Rows| {
        state.len() == found.len()
            && state.iter().zip(&found).all(|(row, found)| is_same(writer, row, found))
    };
    if states.iter().rev().flatten().any(is_it) {
        return Ok(());
    }
    let Some(Some(last)) = states.last() else { bail!("a table of {} rows", found.len()) };
    let differing =
        last.iter().filter(|row| !found.iter().any(|found| is_same(writer, *row, found)));
    let differing: Vec<_> = differing.take(5).collect();
    bail!(
        "{} rows, none of {} states that it may be in; the last has {}, among them {differing:?}",
        found.len(),
        states.len(),
        last.len()
    );
}

fn is_same(writer: Writer, row: (&(u8, u8), &Value), found: &((u8, u8), Vec<u8>)) -> bool {
    *row.0 == found.0 && writer.bytes(*row.0, *row.1) == found.1
}
