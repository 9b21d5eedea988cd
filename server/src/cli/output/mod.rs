//! In which forms commands write, and [where](Output).
//!
//! Invariant: a reader of stdout that goes away is no failure: the error that says so is told apart
//! from all others by [`is_closed`].

mod csv;
mod interrupt;
mod json;
mod sink;
mod table;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use tablestone::{DateTime, ValueRef, ValueType};

pub(super) use self::csv::{CsvRows, Names, Types};
pub(super) use self::json::JsonRows;
pub(super) use self::sink::Output;
pub(super) use self::table::{Align, TextTable};

use super::CliError;
use super::store::{Pages, Row};
use crate::wire::edm;

/// Names that an error shows of many.
const SHOWN: usize = 10;

/// Entities written one after the other.
pub(super) trait Rows {
    fn row(&mut self, row: &Row) -> Result<(), CliError>;

    fn finish(self: Box<Self>) -> Result<(), CliError>;
}

/// Writes the entities of all pages; gives their number.
pub(super) fn write_all(pages: Pages<'_>, mut rows: Box<dyn Rows>) -> Result<u64, CliError> {
    let mut entities = 0;
    for page in pages {
        for row in page? {
            rows.row(&row)?;
            entities += 1;
        }
    }
    rows.finish()?;
    Ok(entities)
}

/// Whose reader went away.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the output any more")]
struct Closed;

/// Whether an error says that nobody reads stdout any more.
pub(super) fn is_closed(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Closed>)
}

/// Says something on stderr, if anybody reads that.
pub(super) fn note(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A number of things with their noun.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The first of many names, for an error.
pub(super) fn first_of(names: impl IntoIterator<Item = String>) -> String {
    let mut names = names.into_iter();
    let first = names.by_ref().take(SHOWN).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// What an entity has, by name: keys, Timestamp and properties. A table may have many more columns, and each is looked
/// for in every entity.
fn values((entity, version): &Row) -> HashMap<&str, ValueRef<'_>> {
    let own = [
        ("PartitionKey", ValueRef::String(entity.partition_key())),
        ("RowKey", ValueRef::String(entity.row_key())),
        ("Timestamp", ValueRef::DateTime(DateTime::from(*version))),
    ];
    let properties = entity.properties().map(|(name, value)| (name, value.borrowed()));
    properties.chain(own).collect()
}

/// The cells of an entity in a table for people, of these columns.
pub(super) fn cells(row: &Row, names: &[String]) -> Vec<(String, Align)> {
    let values = values(row);
    let cell = |name: &String| {
        let value = values.get(&**name).copied();
        let align = match value.map(ValueRef::value_type) {
            Some(ValueType::Int32 | ValueType::Int64 | ValueType::Double) => Align::Right,
            _ => Align::Left,
        };
        (text(value).into_owned(), align)
    };
    names.iter().map(cell).collect()
}

/// The text of a value, empty if it is absent.
fn text(value: Option<ValueRef<'_>>) -> Cow<'_, str> {
    value.map_or(Cow::Borrowed(""), edm::text)
}
