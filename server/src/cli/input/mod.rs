//! [`Input`]: the entities of a file, checked, with the line that each is from.
//!
//! Invariant: what an input gives can be stored: its keys and properties keep the rules of the data
//! model, within the limits that it is opened with. One line, or record of CSV, is in memory at a time, and has
//! a bound.

mod cell;
mod csv;
mod json;
mod strict;

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use tablestone::{Entity, EntityLimits};

pub(super) use self::cell::ColumnType;
use super::CliError;
use super::export::{Format, is_compressed};
use crate::config::Limits;
use crate::error::ErrorCode;
use crate::service::check_keys;

/// What a text may begin with, in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// How a zstd frame is read: in pieces of this size.
const BUFFER: usize = 256 << 10;
/// Entities between two updates of the progress bar.
const REFRESH: u64 = 1_000;

/// How many times as many bytes as an entity's size a line may have: it takes less, however it is escaped.
const ESCAPED: usize = 16;
/// Longest line, if entities are small.
const LONG_LINE: usize = 16 << 20;

/// Bytes that a line of JSON, or a record of CSV, has at most.
fn longest_line(limits: &EntityLimits) -> usize {
    (ESCAPED * limits.size).max(LONG_LINE)
}

/// Which columns are keys and which types they have, where the file does not say it.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapping {
    pub(super) partition_key: Option<String>,
    pub(super) row_key: Option<String>,
    pub(super) types: Vec<ColumnType>,
}

/// An entity, and the line of the file that it begins on, from 1.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) entity: Entity,
}

/// What cannot be read, and where.
#[derive(Debug)]
struct Fault {
    line: u64,
    place: Place,
    reason: String,
}

impl std::error::Error for Fault {}

/// Where in a line.
#[derive(Debug)]
enum Place {
    Line,
    /// A character, from 1.
    Character(usize),
    /// A column of CSV.
    Column(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, place, reason } = self;
        match place {
            Place::Line => write!(f, "line {line}: {reason}"),
            Place::Character(column) => write!(f, "line {line}, column {column}: {reason}"),
            Place::Column(name) => write!(f, "line {line}, column {name:?}: {reason}"),
        }
    }
}

/// The entities of a file.
pub(super) struct Input {
    name: String,
    lines: Box<dyn Iterator<Item = Result<Line, Fault>>>,
    limits: Limits,
    read: u64,
    began: Instant,
    progress: ProgressBar,
}

impl Input {
    /// Opens a file, or stdin if it is `-`; reads the header of CSV.
    pub(super) fn open(
        path: &Path,
        format: Option<Format>,
        mapping: Mapping,
        limits: &Limits,
    ) -> Result<Self, CliError> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
        let format = format.or_else(|| Format::of(path)).unwrap_or(Format::Json);
        check_types(&mapping.types, format)?;
        let wrong = |error: io::Error| format!("cannot read {name}: {error}");
        let (reader, progress) = if is_stdin { stdin() } else { open(path).map_err(wrong)? };
        let lines: Box<dyn Iterator<Item = _>> = match format {
            Format::Json => Box::new(json::Lines::new(reader, mapping, &limits.entity)),
            Format::Csv => {
                let records = csv::Records::new(reader, mapping, &limits.entity);
                Box::new(records.map_err(|fault| format!("{name}, {fault}"))?)
            }
        };
        Ok(Self { name, lines, limits: *limits, read: 0, began: Instant::now(), progress })
    }

    /// What errors call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn count(&mut self) {
        self.read += 1;
        if self.read.is_multiple_of(REFRESH) {
            let rate = self.read as f64 / self.began.elapsed().as_secs_f64();
            self.progress.set_message(format!("{} rows, {rate:.0}/s", self.read));
        }
    }
}

impl Iterator for Input {
    type Item = Result<Line, CliError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?.and_then(|line| checked(line, &self.limits));
        let line = line.map_err(|fault| format!("{}, {fault}", self.name).into());
        if line.is_ok() {
            self.count();
        }
        Some(line)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}

/// Refuses types that no column can have, whatever the columns are.
fn check_types(types: &[ColumnType], format: Format) -> Result<(), CliError> {
    if format == Format::Json && !types.is_empty() {
        return Err("--types is for CSV: JSON has types".into());
    }
    let mut names = HashSet::new();
    for ColumnType { name, .. } in types {
        if name == "Timestamp" {
            return Err("--types is not for the Timestamp: the server sets it".into());
        }
        if !names.insert(name) {
            return Err(format!("--types says twice which type {name:?} has").into());
        }
    }
    Ok(())
}

/// The line, if its entity can be stored within these limits.
fn checked(line: Line, limits: &Limits) -> Result<Line, Fault> {
    let fault = |reason| Fault { line: line.number, place: Place::Line, reason };
    let most = limits.key_length;
    for (name, key) in
        [("PartitionKey", line.entity.partition_key()), ("RowKey", line.entity.row_key())]
    {
        check_keys(key, "", most).map_err(|error| match error.code() {
            ErrorCode::OutOfRangeInput => fault(format!(
                "the {name} {key:?} has a character that no key may have: / \\ # ? or a control \
                 character"
            )),
            _ => fault(format!("the {name} is longer than {most} UTF-16 units")),
        })?;
    }
    let checked = line.entity.validate_within(&limits.entity);
    checked.map_err(|error| fault(error.to_string()))?;
    Ok(line)
}

/// What a compressed file holds. The errors of zstd do not say that they are about that.
struct Decompressed<R: BufRead>(zstd::Decoder<'static, R>);

impl<R: BufRead> Read for Decompressed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(|error| match error.raw_os_error() {
            Some(_) => error,
            None => {
                io::Error::new(error.kind(), format!("cannot be decompressed as zstd: {error}"))
            }
        })
    }
}

type Opened = (Box<dyn BufRead>, ProgressBar);

fn open(path: &Path) -> io::Result<Opened> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let bar = ProgressBar::new(about.len());
    let progress = styled(bar, "{bar:30} {percent:>3} % of {total_bytes}, {msg}, {eta} left");
    let file = progress.wrap_read(file);
    let reader: Box<dyn BufRead> = if is_compressed(path) {
        Box::new(BufReader::with_capacity(BUFFER, Decompressed(zstd::Decoder::new(file)?)))
    } else {
        Box::new(BufReader::with_capacity(BUFFER, file))
    };
    Ok((reader, progress))
}

fn stdin() -> Opened {
    let progress = styled(ProgressBar::new_spinner(), "{spinner} {bytes}, {msg}");
    let reader = progress.wrap_read(io::stdin());
    (Box::new(BufReader::with_capacity(BUFFER, reader)), progress)
}

/// The bar is on stderr, and nowhere if that is no terminal.
fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
