//! Records of CSV as entities: what each column of the header is, then cell by cell.

use std::collections::HashMap;
use std::io::BufRead;

use csv::{Error, ErrorKind, Reader, ReaderBuilder, StringRecord};
use tablestone::{Entity, EntityLimits, Value, ValueType};

use super::strict::Strict;
use super::{ColumnType, Fault, Line, Mapping, Place, cell, longest_line};
use crate::cli::output::{counted, first_of};
use crate::error::shown;

/// What follows a column's name in the name of the column of its types.
const TYPE: &str = "@type";

/// The entities of a text with a header.
pub(super) struct Records<R> {
    reader: Reader<Strict<R>>,
    record: StringRecord,
    columns: Columns,
}

/// The names of the columns, each of them once.
struct Header<'h> {
    names: &'h StringRecord,
    cells: HashMap<&'h str, usize>,
}

/// Which cells are what.
struct Columns {
    partition_key: usize,
    row_key: usize,
    properties: Vec<Property>,
}

struct Property {
    name: String,
    cell: usize,
    /// The cell that has its type.
    type_cell: Option<usize>,
    /// The type that was said.
    value_type: Option<ValueType>,
}

impl<R: BufRead> Records<R> {
    /// Reads the header.
    pub(super) fn new(reader: R, mapping: Mapping, limits: &EntityLimits) -> Result<Self, Fault> {
        let strict = Strict::new(reader, longest_line(limits));
        let strict = strict.map_err(|error| fault(error.into(), 1))?;
        let mut reader = ReaderBuilder::new().from_reader(strict);
        let header = reader.headers().map_err(|error| fault(error, 1))?;
        let columns = Columns::new(header, mapping, limits)?;
        reader.get_mut().next_line();
        Ok(Self { reader, record: StringRecord::new(), columns })
    }

    fn read(&mut self) -> Result<Option<Line>, Fault> {
        let read = self.reader.read_record(&mut self.record);
        let number = self.reader.get_mut().next_line();
        if !read.map_err(|error| fault(error, number))? {
            return Ok(None);
        }
        let entity = self.columns.entity(number, &self.record)?;
        Ok(Some(Line { number, entity }))
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Line, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl<'h> Header<'h> {
    fn new(names: &'h StringRecord) -> Result<Self, Fault> {
        let mut cells = HashMap::with_capacity(names.len());
        for (cell, name) in names.iter().enumerate() {
            if cells.insert(name, cell).is_some() {
                return Err(of_column(name, "the header has it twice".to_owned()));
            }
        }
        Ok(Self { names, cells })
    }

    fn cell(&self, name: &str) -> Option<usize> {
        self.cells.get(name).copied()
    }

    /// The cell of a key, which has that name unless another was said.
    fn key(&self, key: &str, option: &str, named: Option<&str>) -> Result<usize, Fault> {
        let name = named.unwrap_or(key);
        let wanted =
            || if named.is_some() { option.to_owned() } else { format!("{option} to name it") };
        self.cell(name).ok_or_else(|| self.no_column(name, &wanted()))
    }

    fn no_column(&self, name: &str, wanted: &str) -> Fault {
        let columns = match self.names.is_empty() {
            true => "no header".to_owned(),
            false => first_of(self.names.iter().map(shown)),
        };
        let reason = format!("expected a column {name} ({wanted}), found {columns}");
        Fault { line: 1, place: Place::Line, reason }
    }
}

impl Columns {
    fn new(names: &StringRecord, mapping: Mapping, limits: &EntityLimits) -> Result<Self, Fault> {
        let header = Header::new(names)?;
        let partition_key =
            header.key("PartitionKey", "--partition-key", mapping.partition_key.as_deref())?;
        let row_key = header.key("RowKey", "--row-key", mapping.row_key.as_deref())?;
        let mut types = mapping.types;
        let mut properties: Vec<Property> = Vec::new();
        for (cell, name) in names.iter().enumerate() {
            let is_key = cell == partition_key || cell == row_key;
            if is_key || matches!(name, "PartitionKey" | "RowKey" | "Timestamp") {
                continue;
            }
            if name.strip_suffix(TYPE).is_some_and(|column| header.cell(column).is_some()) {
                continue;
            }
            check_name(name, limits)?;
            let said = types.iter().position(|column| column.name == name);
            properties.push(Property {
                name: name.to_owned(),
                cell,
                type_cell: header.cell(&format!("{name}{TYPE}")),
                value_type: said.map(|at| types.remove(at).value_type),
            });
        }
        match types.first() {
            Some(ColumnType { name, .. }) => {
                Err(header.no_column(name, "--types, for columns that are no keys"))
            }
            None => Ok(Self { partition_key, row_key, properties }),
        }
    }

    fn entity(&self, line: u64, record: &StringRecord) -> Result<Entity, Fault> {
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let mut properties = Vec::with_capacity(self.properties.len());
        for property in &self.properties {
            let value = property.value(cell(property.cell), property.type_cell.map(cell));
            let value = value.map_err(|reason| Fault {
                line,
                place: Place::Column(property.name.clone()),
                reason,
            })?;
            properties.extend(value.map(|value| (property.name.clone(), value)));
        }
        let (partition_key, row_key) = (cell(self.partition_key), cell(self.row_key));
        Ok(Entity::from_properties(partition_key, row_key, properties))
    }
}

impl Property {
    /// The value of a cell; none if it is no property.
    fn value(&self, text: &str, type_name: Option<&str>) -> Result<Option<Value>, String> {
        if let Some(name) = type_name.filter(|name| !name.is_empty()) {
            let value_type = cell::value_type(name)?;
            let is_absent =
                text.is_empty() && !matches!(value_type, ValueType::String | ValueType::Binary);
            return if is_absent { Ok(None) } else { cell::typed(text, value_type).map(Some) };
        }
        match self.value_type {
            _ if text.is_empty() => Ok(None),
            Some(value_type) => cell::typed(text, value_type).map(Some),
            None => Ok(Some(cell::infer(text))),
        }
    }
}

/// Refuses what no property can be called, before the first entity has it.
fn check_name(name: &str, limits: &EntityLimits) -> Result<(), Fault> {
    // Nothing but the name is to be wrong.
    let limits = EntityLimits::LARGEST.name_length(limits.name_length);
    let checked = Entity::new("", "").with(name, true).validate_within(&limits);
    checked.map_err(|error| of_column(name, error.to_string()))
}

/// What is wrong with a column's name.
fn of_column(name: &str, reason: String) -> Fault {
    Fault { line: 1, place: Place::Column(shown(name)), reason }
}

/// What keeps the record that begins on a line from being read.
fn fault(error: Error, line: u64) -> Fault {
    let reason = match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let expected = counted(*expected_len, "cell", "cells");
            format!("expected {expected} as in the header, found {len}")
        }
        ErrorKind::Utf8 { err, .. } => {
            format!("expected UTF-8, found another byte in cell {}", err.field() + 1)
        }
        _ => error.to_string(),
    };
    let fault = Fault { line, place: Place::Line, reason };
    match error.into_kind() {
        // What is no CSV says so itself.
        ErrorKind::Io(error) => error.downcast().unwrap_or(fault),
        _ => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, mapping: Mapping) -> Result<Vec<Line>, String> {
        let limits = EntityLimits::default();
        let records =
            Records::new(text.as_bytes(), mapping, &limits).map_err(|fault| fault.to_string())?;
        records.map(|line| line.map_err(|fault| fault.to_string())).collect()
    }

    fn entities(text: &str) -> Vec<Entity> {
        let lines = read(text, Mapping::default()).unwrap();
        lines.into_iter().map(|line| line.entity).collect()
    }

    #[test]
    fn columns_are_keys_properties_and_their_types() {
        let text = "\u{feff}Age,PartitionKey,Name@type,Name,Timestamp,RowKey\r\n\
            7,p,Edm.String,,2020-01-01T00:00:00Z,r\r\n\
            ,p,,,,\r\n\
            x,,Int64,5,,\"a\n\"\"b\"\"\"\r\n";
        let expected = [
            Entity::new("p", "r").with("Age", 7).with("Name", ""),
            Entity::new("p", ""),
            Entity::new("", "a\n\"b\"").with("Age", "x").with("Name", 5i64),
        ];
        assert_eq!(entities(text), expected);
    }

    #[test]
    fn columns_can_be_made_keys_and_given_types() {
        let mapping = Mapping {
            partition_key: Some("zip".into()),
            row_key: Some("id".into()),
            types: vec!["big=Edm.Int64".parse().unwrap(), "name=String".parse().unwrap()],
        };
        let lines = read("id,zip,big,name,PartitionKey\n1,00501,2,3,x\n2,9,,,\n", mapping);
        let lines = lines.unwrap();
        let expected = Entity::new("00501", "1").with("big", 2i64).with("name", "3");
        assert_eq!((&lines[0].entity, lines[0].number), (&expected, 2));
        assert_eq!((&lines[1].entity, lines[1].number), (&Entity::new("9", "2"), 3));
    }

    #[test]
    fn faults_say_where() {
        let keys = "PartitionKey,RowKey";
        for (text, expected) in [
            (
                "a,b\n".to_owned(),
                "line 1: expected a column PartitionKey (--partition-key to name it), found a, b",
            ),
            (
                format!("{keys},First Name\n"),
                "line 1, column \"First Name\": property \"First Name\": its name may not have ' ' at column 6",
            ),
            (format!("{keys},A,A\n"), "line 1, column \"A\": the header has it twice"),
            (
                format!("{keys},A\np,r,1\np,r\n"),
                "line 3: expected 3 cells as in the header, found 2",
            ),
            (
                format!("{keys},A,A@type\np,\"r\n\",1,Edm.Int32\np,r,1.5,Edm.Int32\n"),
                "line 4, column \"A\": expected Edm.Int32, found \"1.5\"",
            ),
            (
                format!("{keys},A,A@type\np,r,1,Edm.Byte\n"),
                "line 2, column \"A\": expected a type such as Edm.Int64, found \"Edm.Byte\"",
            ),
            (
                format!("{keys}\r\n\r\np,1\r\np,2,3\r\n"),
                "line 4: expected 2 cells as in the header, found 3",
            ),
            (format!("{keys},A\np,r,\"x\np,s,y\n"), "line 2: a quote is not closed"),
            (
                format!("{keys},A\np,r,\"Ann\" x\n"),
                "line 2: a cell goes on after its closing quote",
            ),
            (format!("{keys},\"A"), "line 1: a quote is not closed"),
            (
                format!("{keys}\rp,1\rp,\"2\r\n\r\"\r\r\np\r"),
                "line 7: expected 2 cells as in the header, found 1",
            ),
        ] {
            assert_eq!(read(&text, Mapping::default()).unwrap_err(), expected);
        }
        let types = vec!["b=Guid".parse().unwrap()];
        let error = read("PartitionKey,RowKey\n", Mapping { types, ..Mapping::default() });
        assert_eq!(
            error.unwrap_err(),
            "line 1: expected a column b (--types, for columns that are no keys), found PartitionKey, RowKey"
        );
    }

    /// Of two columns one would be lost, whatever they are for.
    #[test]
    fn each_name_is_in_the_header_once() {
        let keys = "PartitionKey,RowKey";
        for (header, column) in [
            (format!("{keys},PartitionKey"), "PartitionKey"),
            (format!("{keys},RowKey"), "RowKey"),
            (format!("{keys},Timestamp,Timestamp"), "Timestamp"),
            (format!("{keys},A,A@type,A@type"), "A@type"),
            (format!("c,c,{keys}"), "c"),
        ] {
            let mapping = Mapping { row_key: Some("c".into()), ..Mapping::default() };
            for mapping in [Mapping::default(), mapping] {
                let expected = format!("line 1, column \"{column}\": the header has it twice");
                assert_eq!(read(&format!("{header}\n"), mapping).unwrap_err(), expected);
            }
        }
    }

    #[test]
    fn a_text_without_a_header_is_told_so() {
        let expected =
            "line 1: expected a column PartitionKey (--partition-key to name it), found no header";
        assert_eq!(read("", Mapping::default()).unwrap_err(), expected);
        assert_eq!(read("\n\n", Mapping::default()).unwrap_err(), expected);
    }

    /// Columns are not searched for each other: that takes half a minute.
    #[test]
    fn a_header_may_be_wide() {
        let names: String = (0..20_000).map(|column| format!(",A{column}")).collect();
        let text = format!("PartitionKey,RowKey{names}\np,r{}7\n", ",".repeat(20_000));
        assert_eq!(entities(&text), [Entity::new("p", "r").with("A19999", 7)]);
    }

    #[test]
    fn a_fault_shows_a_part_of_what_is_long() {
        let (keys, long) = ("PartitionKey,RowKey", "x".repeat(1 << 20));
        let shown = &long[..60];
        let names: String = (0..100_000).map(|column| format!("A{column},")).collect();
        for (text, expected) in [
            (
                format!("{keys},A,A@type\np,r,1,{long}\n"),
                format!(
                    "line 2, column \"A\": expected a type such as Edm.Int64, found \"{shown}\""
                ),
            ),
            (
                format!("{keys},{long},{long}\n"),
                format!("line 1, column \"{shown}\": the header has it twice"),
            ),
            (
                format!("{keys},{long}\n"),
                format!(
                    "line 1, column \"{shown}\": property \"{shown}xxxx…\": its name has 1048576 \
                     characters, over the limit of 255"
                ),
            ),
            (
                format!("{names}{long}\n"),
                "line 1: expected a column PartitionKey (--partition-key to name it), found A0, \
                 A1, A2, A3, A4, A5, A6, A7, A8, A9 and 99991 more"
                    .to_owned(),
            ),
            (
                format!("{long},RowKey\n"),
                format!(
                    "line 1: expected a column PartitionKey (--partition-key to name it), found \
                     {shown}, RowKey"
                ),
            ),
        ] {
            let fault = read(&text, Mapping::default()).unwrap_err();
            assert!(fault == expected, "{}", fault.chars().take(500).collect::<String>());
        }
    }

    /// R-S12: one record is in memory, and it has a bound, as a line of JSON has.
    #[test]
    fn r_s12_a_record_has_a_bound() {
        let limits = EntityLimits::default();
        let longest = longest_line(&limits);
        let text = format!("PartitionKey,RowKey\np,1\np,\"{}\"\n", "x\n".repeat(longest / 2));
        let mut records = Records::new(text.as_bytes(), Mapping::default(), &limits).unwrap();
        assert!(records.next().unwrap().is_ok());
        let fault = records.next().unwrap().unwrap_err().to_string();
        assert_eq!(fault, "line 3: expected a record of at most 16777216 bytes");
        assert!(records.next().is_none());
    }
}
