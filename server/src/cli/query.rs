//! `tablestone query`: entities for people to look at, and the plan by which they are found.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::json;
use tablestone::Filter;

use super::CliError;
use super::ask::{Ask, Condition, table_name};
use super::output::{
    CsvRows, JsonRows, Names, Output, Rows, TextTable, Types, cells, note, write_all,
};
use super::place::{Place, Purpose};
use super::store::{Row, Store};

/// Entities of an aligned table unless --top says otherwise: all are in memory before the first is
/// printed.
const TABLE_TOP: u64 = 1_000;

/// What the help ends with.
const EXAMPLES: &str = "\
Examples:
  tablestone query cities --filter \"PartitionKey eq 'DE'\" --select Name,Latitude --top 5
  tablestone query cities --filter \"Latitude gt 54.0\" --explain";

/// Shows entities of a table
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Query {
    /// The table
    #[arg(value_parser = table_name)]
    table: String,
    /// table: aligned columns, the first 1000 entities unless --top says otherwise; json: an object
    /// a line; csv
    #[arg(long, default_value = "table")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Show how the entities would be found, not the entities; with --json an object
    #[arg(long, conflicts_with = "format")]
    explain: bool,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
}

impl Query {
    pub(super) fn run(self) -> Result<(), CliError> {
        let output = Output::stdout();
        let format = if self.json { Format::Json } else { self.format };
        if self.explain {
            return explain(self.ask.filter.as_ref(), format, output);
        }
        let store = self.place.open(Purpose::Read, 1)?;
        let (ask, table) = (&self.ask, &self.table);
        if format == Format::Table {
            return show(&store, table, ask, output);
        }
        let pages = store.pages(table, ask)?;
        let rows: Box<dyn Rows> = match format {
            Format::Csv => {
                Box::new(CsvRows::new(&store, table, ask, || Ok(output), Types::Hidden)?)
            }
            _ => Box::new(JsonRows::new(output, ask.select.clone())),
        };
        write_all(pages, rows).map(drop)
    }
}

/// Shows how entities would be found.
fn explain(
    condition: Option<&Condition>,
    format: Format,
    mut output: Output,
) -> Result<(), CliError> {
    let all = Filter::everything();
    let plan = condition.map_or(&all, |condition| &condition.filter).explain().to_string();
    match format {
        Format::Json => writeln!(output, "{}", json!({ "plan": plan }))?,
        Format::Table | Format::Csv => writeln!(output, "{plan}")?,
    }
    output.finish()
}

/// Shows entities in aligned columns.
fn show(store: &Store, table: &str, ask: &Ask, mut output: Output) -> Result<(), CliError> {
    // One more tells whether these are all.
    let ask_one_more = Ask { top: ask.top.or(Some(TABLE_TOP + 1)), ..ask.clone() };
    let mut rows: Vec<Row> = Vec::new();
    for page in store.pages(table, &ask_one_more)? {
        rows.append(&mut page?);
    }
    let more = ask.top.is_none() && rows.len() as u64 > TABLE_TOP;
    if more {
        rows.pop();
    }
    let names = match ask.select.names() {
        Some(names) => names.to_vec(),
        None => Names::of_rows(&rows),
    };
    let mut shown = TextTable::new(&names);
    for row in &rows {
        shown.push(cells(row, &names));
    }
    shown.print(&mut output)?;
    output.finish()?;
    if more {
        note(format_args!(
            "these are the first {TABLE_TOP}: --top N shows more, --format csv or json all"
        ));
    }
    Ok(())
}
