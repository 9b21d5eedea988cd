//! `tablestone import`: entities of a file into a table.

mod groups;
mod local;
mod remote;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use tablestone::Compression;

use self::groups::{Group, Groups};
use super::ask::table_name;
use super::export::Format;
use super::input::{ColumnType, Input, Line, Mapping};
use super::output::{Output, counted};
use super::place::{Place, Purpose};
use super::store::{Local, Store};
use super::{CliError, with_causes};
use crate::client::{Client, Write as Mode};
use crate::config::{File, Limits, parse_compression};
use crate::service::NewTable;

/// What the short help ends with.
const EXAMPLES: &str = "\
Examples:
  tablestone import cities.jsonl.zst --table cities
  tablestone import cities.csv --table cities --partition-key country --row-key id";

/// What the long help has before it.
const FORMS: &str = "\
JSON: an object a line, with PartitionKey, RowKey and properties as the protocol has them, such as
  {\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Age\":7,\"Big@odata.type\":\"Edm.Int64\",\"Big\":\"7\"}

CSV: a header and a record a line. A cell has the type that its column NAME@type or --types says, else
that of what it looks like: true, 12, 12.5, 2001-01-01T00:01Z, a GUID; numbers with leading zeros or with
more digits than their type holds, and all else, are text. An empty cell is no property.

What is counted are rows that were written. Of rows with the same keys each counts, though they make one
entity, which with --mode replace is as the last of them.";

/// Writes entities of a file into a table, which is created if it is not there
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{FORMS}\n\n{EXAMPLES}"))]
pub(super) struct Import {
    /// The file, read as compressed if it ends with .zst; - is stdin
    file: PathBuf,
    /// The table
    #[arg(long, value_name = "NAME", value_parser = table_name)]
    table: String,
    /// json: an object a line, or csv: with a header [default: what the file's name ends with, else
    /// json]
    #[arg(long)]
    format: Option<Format>,
    /// The column that is the PartitionKey [default: PartitionKey]
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    partition_key: Option<String>,
    /// The column that is the RowKey [default: RowKey]
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    row_key: Option<String>,
    /// Types of columns of CSV, such as Population=Edm.Int64,Zip=Edm.String [default: what each
    /// cell looks like]
    #[arg(long, value_name = "COLUMN=TYPE", value_delimiter = ',')]
    types: Vec<ColumnType>,
    /// What to do where there is an entity of the same keys
    #[arg(long, default_value = "replace")]
    mode: IfThere,
    /// Connections to a server, if it has so many left
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// How files of a data directory are compressed: automatic, zstd, zstd:LEVEL or none, as of serve
    #[arg(long, value_name = "HOW", env = "TABLESTONE_COMPRESSION", default_value = "automatic", value_parser = parse_compression)]
    compression: Compression,
    /// A TOML file as of serve, of whose settings the limits of entities and keys count here [default: the
    /// table service's limits]
    #[arg(long, value_name = "FILE", env = "TABLESTONE_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// What becomes of an entity that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IfThere {
    /// Stop: there must be none
    Insert,
    /// Replace it
    Replace,
    /// Keep its properties that the file does not have
    Merge,
}

/// An input, or what is left of it.
trait Lines: Iterator<Item = Result<Line, CliError>> {}

impl<T: Iterator<Item = Result<Line, CliError>>> Lines for T {}

/// Why an import stopped, and what it had done by then.
#[derive(Debug, thiserror::Error)]
#[error("{}\n{count}", with_causes(&**.reason))]
struct Stopped {
    #[source]
    reason: CliError,
    count: Count,
}

/// How many rows were written. Several may be of one entity: each counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    /// So many in any case.
    written: u64,
    /// Of so many more nobody knows: what they were given to broke.
    unknown: u64,
}

/// Where groups of entities are written.
trait Sink {
    /// Writes a group, or begins to.
    fn write(&mut self, group: Group) -> Result<(), CliError>;

    /// Waits until all groups are written.
    fn settle(&mut self) -> Result<(), CliError>;

    /// How many rows were written, once nothing is under way.
    fn count(&self) -> Count;
}

impl Import {
    pub(super) fn run(self) -> Result<(), CliError> {
        let limits = match &self.config {
            Some(path) => File::read(path)?.limits()?,
            None => Limits::default(),
        };
        let mapping =
            Mapping { partition_key: self.partition_key, row_key: self.row_key, types: self.types };
        let mut input = Input::open(&self.file, self.format, mapping, &limits)?;
        let source = input.name().to_owned();
        // Nothing is made for what cannot even begin.
        let first = input.next().transpose().map_err(Stopped::at_once)?;
        let connections = usize::from(self.connections);
        let store = self.place.open(Purpose::Write(self.compression, &limits), connections)?;
        let target = Target::open(&store, &self.table)?;
        let began = Instant::now();
        let lines = first.map(Ok).into_iter().chain(&mut input);
        let outcome = write(target, &self.table, self.mode, connections, &source, lines);
        drop(input);
        let rows = outcome?;
        let seconds = began.elapsed().as_secs_f64();
        let rate = rows as f64 / seconds.max(1e-9);
        let mut output = Output::stdout();
        let table = &self.table;
        let rows = counted(rows, "row", "rows");
        writeln!(output, "{rows} into {table} of {store} in {seconds:.2} s: {rate:.0}/s")?;
        output.finish()
    }
}

impl From<IfThere> for Mode {
    fn from(mode: IfThere) -> Self {
        match mode {
            IfThere::Insert => Self::Insert,
            IfThere::Replace => Self::InsertOrReplace,
            IfThere::Merge => Self::InsertOrMerge,
        }
    }
}

impl Stopped {
    /// Before anything was written.
    fn at_once(reason: impl Into<CliError>) -> Self {
        Self { reason: reason.into(), count: Count::default() }
    }

    /// The same, when so many rows had been written before.
    fn after(mut self, rows: u64) -> Self {
        self.count.written += rows;
        self
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} written", counted(self.written, "row was", "rows were"))?;
        match self.unknown {
            0 => Ok(()),
            rows => write!(f, "; whether {} is not known", counted(rows, "more was", "more were")),
        }
    }
}

/// Where entities go.
enum Target<'a> {
    /// A table that is not there yet may be loaded.
    Local(&'a Local, Option<Box<NewTable>>),
    Remote {
        client: &'a Client,
        /// Whether the table was made for this.
        is_new: bool,
    },
}

impl<'a> Target<'a> {
    /// Makes the table if it is not there, or begins to.
    fn open(store: &'a Store, table: &str) -> Result<Self, CliError> {
        match store {
            Store::Local(local) => Ok(Self::Local(local, local.load_table(table)?.map(Box::new))),
            Store::Remote(client) => {
                Ok(Self::Remote { client, is_new: client.create_table_if_missing(table)? })
            }
        }
    }
}

/// Writes an input into a table; gives the number of rows.
fn write(
    target: Target<'_>,
    table: &str,
    mode: IfThere,
    connections: usize,
    source: &str,
    mut lines: impl Lines,
) -> Result<u64, Stopped> {
    let mode = Mode::from(mode);
    match target {
        Target::Local(local, None) => local::write(local, table, mode, source, lines),
        Target::Local(local, Some(new_table)) => {
            let (loaded, next) = local::load(local, *new_table, &mut lines)?;
            let Some(next) = next else { return Ok(loaded) };
            let rest = std::iter::once(Ok(next)).chain(lines);
            let written = local::write(local, table, mode, source, rest);
            written.map(|written| loaded + written).map_err(|stopped| stopped.after(loaded))
        }
        Target::Remote { client, is_new } => {
            let outcome = std::thread::scope(|scope| {
                let work = remote::Work { client, table, mode, source };
                feed(lines, remote::Pool::start(scope, connections, work))
            });
            outcome.inspect_err(|stopped| {
                if is_new && stopped.count == Count::default() {
                    remote::remove_unused(client, table);
                }
            })
        }
    }
}

/// The error of a line whose entity cannot be written.
fn at_line(source: &str, line: &Line, reason: &str) -> CliError {
    let (partition_key, row_key) = (line.entity.partition_key(), line.entity.row_key());
    let number = line.number;
    format!("{source}, line {number}, entity ({partition_key:?}, {row_key:?}): {reason}").into()
}

/// Writes all of an input, or all before the first line that cannot be read.
fn feed(lines: impl Lines, mut sink: impl Sink) -> Result<u64, Stopped> {
    let mut fault = None;
    let outcome = write_all(lines, &mut sink, &mut fault);
    // What is under way is waited for in any case, to be counted.
    let outcome = outcome.and(sink.settle());
    let count = sink.count();
    match outcome.err().or(fault) {
        Some(reason) => Err(Stopped { reason, count }),
        None => Ok(count.written),
    }
}

fn write_all(
    lines: impl Lines,
    sink: &mut impl Sink,
    fault: &mut Option<CliError>,
) -> Result<(), CliError> {
    let mut groups = Groups::default();
    for line in lines {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                *fault = Some(error);
                break;
            }
        };
        if groups.must_settle(&line.entity) {
            groups.drain().try_for_each(|group| sink.write(group))?;
            sink.settle()?;
            groups.settled();
        }
        if let Some(full) = groups.add(line) {
            sink.write(full)?;
        }
        if groups.is_full() {
            groups.drain().try_for_each(|group| sink.write(group))?;
        }
    }
    groups.drain().try_for_each(|group| sink.write(group))
}
