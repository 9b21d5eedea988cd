//! `tablestone export`: a table's entities into a file that `import` reads.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};

use super::CliError;
use super::ask::{Ask, table_name};
use super::output::{CsvRows, JsonRows, Output, Rows, Types, counted, note, write_all};
use super::place::{Place, Purpose};
use super::store::Store;

/// What the help ends with.
const EXAMPLES: &str = "\
Examples:
  tablestone export --table cities -o cities.jsonl.zst
  tablestone export --table cities --format csv --url http://127.0.0.1:10002";

/// Names of stdout. As a file the second would be replaced where it is redirected to one.
const STDOUT: [&str; 2] = ["-", "/dev/stdout"];

/// Writes a table's entities as JSON lines or CSV, for import to read
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Export {
    /// The table
    #[arg(long, value_name = "NAME", value_parser = table_name)]
    table: String,
    /// json: an object a line, or csv: with a type beside each property [default: what the file's
    /// name ends with, else json]
    #[arg(long)]
    format: Option<Format>,
    /// The file, compressed if it ends with .zst; - is stdout [default: -]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    place: Place,
}

/// A form that can be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Json,
    Csv,
}

impl Format {
    /// What a file's name says, with or without `.zst`.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        match name.trim_end_matches(".zst").rsplit_once('.')?.1 {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Whether a file's name says that it is compressed.
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zst"))
}

impl Export {
    pub(super) fn run(mut self) -> Result<(), CliError> {
        let began = Instant::now();
        self.output.take_if(|path| STDOUT.contains(&path.to_string_lossy().as_ref()));
        let store = self.place.open(Purpose::Read, 1)?;
        let pages = store.pages(&self.table, &self.ask)?;
        let entities = write_all(pages, self.rows(&store)?)?;
        if let Some(file) = &self.output {
            let seconds = began.elapsed().as_secs_f64();
            let (entities, file) = (counted(entities, "entity", "entities"), file.display());
            note(format_args!("{entities} into {file} in {seconds:.2} s"));
        }
        Ok(())
    }

    fn rows(&self, store: &Store) -> Result<Box<dyn Rows>, CliError> {
        let said = self.format.or_else(|| Format::of(self.output.as_deref()?));
        let output =
            || self.output.as_ref().map_or_else(|| Ok(Output::stdout()), |p| Output::file(p));
        Ok(match said.unwrap_or(Format::Json) {
            Format::Json => Box::new(JsonRows::new(output()?, self.ask.select.clone())),
            Format::Csv => {
                Box::new(CsvRows::new(store, &self.table, &self.ask, output, Types::Shown)?)
            }
        })
    }
}
