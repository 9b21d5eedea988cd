//! One line of input as an entity: keys, and the other properties in a compact encoding.
//!
//! The value is one property after the other, in order of their names: the name's length (a
//! byte) and the name, a byte that says the type, and the value. Text is preceded by its length as
//! a `u32`, numbers are 8 bytes, all little endian.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::support::BadLine;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INTEGER: u8 = 3;
const DOUBLE: u8 = 4;
const TEXT: u8 = 5;

/// An entity of the input.
#[derive(Debug)]
pub(crate) struct Entity {
    pub(crate) partition_key: Vec<u8>,
    pub(crate) row_key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Reads one line: a JSON object with text under `PartitionKey` and `RowKey`.
pub(crate) fn parse(line: &str) -> Result<Entity, BadLine> {
    let mut properties = match serde_json::from_str(line) {
        Ok(Value::Object(properties)) => properties,
        Ok(other) => return Err(BadLine::new("a JSON object", kind(&other))),
        Err(error) => return Err(BadLine::new("a JSON object", error.to_string())),
    };
    let partition_key = take_key(&mut properties, "PartitionKey")?;
    let row_key = take_key(&mut properties, "RowKey")?;
    let mut value = Vec::with_capacity(line.len());
    for (name, property) in &properties {
        encode(&mut value, name, property)?;
    }
    Ok(Entity { partition_key, row_key, value })
}

fn take_key(properties: &mut Map<String, Value>, name: &str) -> Result<Vec<u8>, BadLine> {
    match properties.remove(name) {
        Some(Value::String(key)) => Ok(key.into_bytes()),
        Some(other) => Err(BadLine::new(format!("text as {name}"), kind(&other))),
        None => Err(BadLine::new(format!("a property {name}"), "none")),
    }
}

fn encode(out: &mut Vec<u8>, name: &str, property: &Value) -> Result<(), BadLine> {
    let Ok(name_len) = u8::try_from(name.len()) else {
        return Err(BadLine::new("a property's name of up to 255 bytes", name));
    };
    out.push(name_len);
    out.extend_from_slice(name.as_bytes());
    match property {
        Value::Null => out.push(NULL),
        Value::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
        Value::Number(number) => {
            if let Some(integer) = number.as_i64() {
                out.push(INTEGER);
                out.extend_from_slice(&integer.to_le_bytes());
            } else {
                out.push(DOUBLE);
                out.extend_from_slice(&number.as_f64().unwrap_or(f64::NAN).to_le_bytes());
            }
        }
        Value::String(text) => {
            let len = u32::try_from(text.len())
                .map_err(|_| BadLine::new("text of less than 4 GiB", name))?;
            out.push(TEXT);
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        Value::Array(_) | Value::Object(_) => {
            let expected = format!("text, a number, true, false or null as {name}");
            return Err(BadLine::new(expected, kind(property)));
        }
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Keys as people read them.
pub(crate) fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// A stored value for people: `Admin1 40, Latitude 35.6895, …`; `None` if it is none of ours.
pub(crate) fn describe(mut value: &[u8]) -> Option<String> {
    let mut out = String::new();
    while let Some((&name_len, rest)) = value.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(name_len))?;
        let (&tag, rest) = rest.split_first()?;
        let (shown, rest) = describe_property(tag, rest)?;
        let comma = if out.is_empty() { "" } else { ", " };
        write!(out, "{comma}{} {shown}", String::from_utf8_lossy(name)).ok()?;
        value = rest;
    }
    Some(out)
}

fn describe_property(tag: u8, rest: &[u8]) -> Option<(String, &[u8])> {
    Some(match tag {
        NULL => ("null".into(), rest),
        FALSE => ("false".into(), rest),
        TRUE => ("true".into(), rest),
        INTEGER => {
            let (number, rest) = rest.split_first_chunk()?;
            (i64::from_le_bytes(*number).to_string(), rest)
        }
        DOUBLE => {
            let (number, rest) = rest.split_first_chunk()?;
            (f64::from_le_bytes(*number).to_string(), rest)
        }
        TEXT => {
            let (len, rest) = rest.split_first_chunk()?;
            let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            (format!("{:?}", String::from_utf8_lossy(text)), rest)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_keys_and_a_value() {
        let line = r#"{"RowKey":"x","PartitionKey":"JP","Name":"é","Latitude":1.5,"N":-3}"#;
        let entity = parse(line).unwrap();
        assert_eq!((&*entity.partition_key, &*entity.row_key), (&b"JP"[..], &b"x"[..]));
        assert_eq!(describe(&entity.value).unwrap(), r#"Latitude 1.5, N -3, Name "é""#);
    }

    #[test]
    fn a_bad_line_says_what_was_expected() {
        for (line, expected) in [
            ("{", "a JSON object"),
            ("[]", "a JSON object"),
            (r#"{"PartitionKey":"a"}"#, "a property RowKey"),
            (r#"{"PartitionKey":1,"RowKey":"b"}"#, "text as PartitionKey"),
            (
                r#"{"PartitionKey":"a","RowKey":"b","c":[]}"#,
                "text, a number, true, false or null as c",
            ),
        ] {
            assert_eq!(parse(line).unwrap_err().expected, expected, "{line}");
        }
    }
}
