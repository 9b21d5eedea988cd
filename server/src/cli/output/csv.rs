//! Entities as CSV: a header, and a record each.

use std::collections::HashSet;

use super::{Output, Rows, text, values};
use crate::cli::CliError;
use crate::cli::ask::Ask;
use crate::cli::store::{Pages, Row, Store};

/// Whether each property has a column of its type beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Types {
    /// `NAME@type`, from which an import makes the same entities.
    Shown,
    /// Values alone, for other programs.
    Hidden,
}

/// Writes a record an entity.
pub(in crate::cli) struct CsvRows {
    writer: ::csv::Writer<Output>,
    names: Vec<String>,
    types: Types,
    /// Whether an entity may have other properties than the header has.
    selected: bool,
}

/// The names of all that entities have: their keys, then properties as they come up.
pub(in crate::cli) struct Names {
    list: Vec<String>,
    known: HashSet<String>,
}

impl Names {
    fn new() -> Self {
        Self { list: vec!["PartitionKey".into(), "RowKey".into()], known: HashSet::new() }
    }

    /// Of all entities of these pages.
    fn of_pages(pages: Pages<'_>) -> Result<Vec<String>, CliError> {
        let mut names = Self::new();
        for page in pages {
            names.add(&page?);
        }
        Ok(names.list)
    }

    /// Of all these entities.
    pub(in crate::cli) fn of_rows(rows: &[Row]) -> Vec<String> {
        let mut names = Self::new();
        names.add(rows);
        names.list
    }

    fn add(&mut self, rows: &[Row]) {
        let properties = rows.iter().flat_map(|(entity, _)| entity.properties());
        for (name, _) in properties {
            if !self.known.contains(name) {
                self.known.insert(name.to_owned());
                self.list.push(name.to_owned());
            }
        }
    }
}

fn has_type(name: &str) -> bool {
    !matches!(name, "PartitionKey" | "RowKey" | "Timestamp")
}

impl CsvRows {
    /// Writes the header of a table's entities: the properties that are asked for, else all that these entities have,
    /// which is found out by reading them before there is an output.
    pub(in crate::cli) fn new(
        store: &Store,
        table: &str,
        ask: &Ask,
        output: impl FnOnce() -> Result<Output, CliError>,
        types: Types,
    ) -> Result<Self, CliError> {
        let (names, selected) = match ask.select.names() {
            Some(names) => (names.to_vec(), true),
            None => (Names::of_pages(store.pages(table, ask)?)?, false),
        };
        let mut writer = ::csv::Writer::from_writer(output()?);
        for name in &names {
            write(&mut writer, name)?;
            if types == Types::Shown && has_type(name) {
                write(&mut writer, &format!("{name}@type"))?;
            }
        }
        end(&mut writer)?;
        Ok(Self { writer, names, types, selected })
    }
}

impl Rows for CsvRows {
    fn row(&mut self, row: &Row) -> Result<(), CliError> {
        let values = values(row);
        let mut found = 0;
        for name in &self.names {
            let value = values.get(&**name).copied();
            write(&mut self.writer, &text(value))?;
            if has_type(name) {
                found += usize::from(value.is_some());
                if self.types == Types::Shown {
                    write(&mut self.writer, value.map_or("", |it| it.value_type().edm_name()))?;
                }
            }
        }
        if found < row.0.len() && !self.selected {
            return Err("properties were added to the table while it was read: try again, or \
                        say with --select which are wanted"
                .into());
        }
        end(&mut self.writer)
    }

    fn finish(self: Box<Self>) -> Result<(), CliError> {
        let output = self.writer.into_inner();
        output.map_err(::csv::IntoInnerError::into_error)?.finish()
    }
}

fn write(writer: &mut ::csv::Writer<Output>, field: &str) -> Result<(), CliError> {
    writer.write_field(field).map_err(told)
}

fn end(writer: &mut ::csv::Writer<Output>) -> Result<(), CliError> {
    writer.write_record(None::<&[u8]>).map_err(told)
}

/// The error of the output itself: a CSV error does not tell that it has one.
fn told(error: ::csv::Error) -> CliError {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error.into(),
        other => format!("cannot write CSV: {other:?}").into(),
    }
}
