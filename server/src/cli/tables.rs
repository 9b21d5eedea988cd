//! `tablestone tables`: an account's tables, and about how much they hold.

use std::io::Write;

use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use tablestone::Estimate;

use super::CliError;
use super::output::{Align, Output, TextTable};
use super::place::{Place, Purpose};
use super::store::Store;

/// What the help ends with.
const EXAMPLES: &str = "\
Examples:
  tablestone tables
  tablestone tables --url http://127.0.0.1:10002";

/// Lists tables, those of a data directory with estimates of how much they hold
///
/// Of entities, overwritten and deleted ones count until they are compacted away.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Tables {
    /// Show an object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Tables {
    pub(super) fn run(self) -> Result<(), CliError> {
        let store = self.place.open(Purpose::Read, 1)?;
        let mut tables = Vec::new();
        for name in store.tables()? {
            let estimate = estimate(&store, &name)?;
            tables.push((name, estimate));
        }
        let mut output = Output::stdout();
        if self.json {
            for (name, estimate) in &tables {
                let table = match estimate {
                    Some(Estimate { entries, bytes, .. }) => json!({
                        "TableName": name,
                        "estimatedEntities": entries,
                        "estimatedBytes": bytes,
                    }),
                    None => json!({ "TableName": name }),
                };
                writeln!(output, "{table}")?;
            }
        } else {
            text(&store, &tables).print(&mut output)?;
        }
        output.finish()
    }
}

/// About how much a table of a data directory holds.
fn estimate(store: &Store, table: &str) -> Result<Option<Estimate>, CliError> {
    Ok(match store {
        Store::Local(local) => {
            local.table(table).map(|table| table.as_bytes().estimate()).transpose()?
        }
        Store::Remote(_) => None,
    })
}

fn text(store: &Store, tables: &[(String, Option<Estimate>)]) -> TextTable {
    let header: &[&str] = match store {
        Store::Local(_) => &["table", "entities, about", "bytes, about"],
        Store::Remote(_) => &["table"],
    };
    let mut shown = TextTable::new(header.iter().copied());
    for (name, estimate) in tables {
        let mut cells = vec![(name.clone(), Align::Left)];
        if let Some(Estimate { entries, bytes, .. }) = estimate {
            cells.push((entries.to_string(), Align::Right));
            cells.push((HumanBytes(*bytes).to_string(), Align::Right));
        }
        shown.push(cells);
    }
    shown
}
