//! `tablestone salvage`: keeps what is whole of a damaged data directory, and names its tables again.
//!
//! Invariant: what was lost is shown even if naming fails, as the next run finds the damage no more.

use std::fmt;
use std::io::Write;

use clap::Args;
use serde_json::{Value, json};
use tablestone::{Corruption, Options, Recovery};

use super::CliError;
use super::output::Output;
use super::place::{Place, STOP_THE_SERVER};
use super::store::{account_of, open_database, wait};
use crate::service::{Kept, Named, NamedAgain, name_again};

/// What the help ends with.
const EXAMPLES: &str = "\
Examples:
  tablestone salvage
  tablestone salvage --data tablestone-data --account mine

Copy the directory before, if there is room: damaged files are set aside with the extension .damaged,
and what was deleted may show again. Tables whose names are lost become recoveredN of --account.";

/// Keeps what is whole of a damaged data directory, and names its tables again
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Salvage {
    /// Show one object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Salvage {
    pub(super) fn run(self) -> Result<(), CliError> {
        let data = self.place.directory("salvage", STOP_THE_SERVER)?;
        let account = account_of(self.place.account())?;
        let options = Options::default().recovery(Recovery::Salvage);
        let database = open_database(&data, options, "salvage needs it for itself")?;
        let mut failure = None;
        let tables = wait(name_again(&database, &account))?.unwrap_or_else(|error| {
            failure = Some(error.into());
            NamedAgain::default()
        });
        let closed = database.clone().close().map_err(CliError::from);
        let failure = failure.or(closed.err());
        let found = Found { lost: &database.recovery_report().lost, tables, failure: &failure };
        let mut output = Output::stdout();
        if self.json {
            writeln!(output, "{}", found.object())?;
        } else {
            write!(output, "{found}")?;
        }
        output.finish()?;
        failure.map_or(Ok(()), Err)
    }
}

/// What was lost, and what became of tables.
struct Found<'a> {
    lost: &'a [Corruption],
    tables: NamedAgain,
    /// Why that may not be all.
    failure: &'a Option<CliError>,
}

impl Found<'_> {
    fn object(&self) -> Value {
        let lost = self.lost.iter().map(|damage| {
            json!({
                "file": damage.file.display().to_string(),
                "offset": damage.offset,
                "expected": damage.expected,
                "found": damage.found,
            })
        });
        let named = self.tables.named.iter().map(|Named { account, name, engine_table }| {
            json!({ "account": account, "TableName": name, "engineTable": engine_table })
        });
        let kept = self
            .tables
            .kept
            .iter()
            .map(|Kept { engine_table, reason }| json!({ "engineTable": engine_table, "reason": reason }));
        json!({
            "lost": lost.collect::<Vec<_>>(),
            "catalog": self.tables.catalog,
            "named": named.collect::<Vec<_>>(),
            "kept": kept.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NamedAgain { catalog, named, kept } = &self.tables;
        for damage in self.lost {
            writeln!(f, "{damage}")?;
        }
        if let Some(engine_table) = catalog {
            writeln!(f, "the catalog of tables is back: it has what was in {engine_table}")?;
        }
        for Named { account, name, engine_table } in named {
            writeln!(
                f,
                "table {name} of account {account} is back: it has what is in {engine_table}"
            )?;
        }
        for Kept { engine_table, reason } in kept {
            writeln!(f, "{engine_table} is kept under this name, and not served: {reason}")?;
        }
        let is_whole = self.lost.is_empty() && catalog.is_none() && named.is_empty();
        if is_whole && self.failure.is_none() {
            writeln!(f, "nothing is damaged")?;
        }
        Ok(())
    }
}
