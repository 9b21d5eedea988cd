//! Lines of JSON: an object each, as the body of an insert has it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::io::{BufRead, Read};

use serde_json::value::RawValue;
use tablestone::EntityLimits;

use super::{BYTE_ORDER_MARK, Fault, Line, Mapping, Place, longest_line};
use crate::wire::json::{JsonErrorKind, decode_entity};

/// The members of a line as they are written.
type Members<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

/// The entities of a text.
pub(super) struct Lines<R> {
    reader: R,
    mapping: Mapping,
    number: u64,
    line: Vec<u8>,
    /// Bytes of a line.
    longest: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R, mapping: Mapping, limits: &EntityLimits) -> Self {
        Self { reader, mapping, number: 0, line: Vec::new(), longest: longest_line(limits) }
    }

    fn fault(&self, place: Place, reason: &dyn Display) -> Fault {
        Fault { line: self.number, place, reason: reason.to_string() }
    }

    /// Reads the next line that is not blank; whether there is one.
    fn read_line(&mut self) -> Result<bool, Fault> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut limited = self.reader.by_ref().take(self.longest as u64);
            let read = limited.read_until(b'\n', &mut self.line);
            // Of files that were put one behind the other each may have one.
            if self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            match read {
                Ok(0) => return Ok(false),
                Ok(read) if read == self.longest && self.line.last() != Some(&b'\n') => {
                    let reason = format!("expected a line of less than {read} bytes");
                    return Err(self.fault(Place::Line, &reason));
                }
                Ok(_) if self.line.trim_ascii().is_empty() => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(self.fault(Place::Line, &error)),
            }
        }
    }

    fn read(&mut self) -> Result<Option<Line>, Fault> {
        if !self.read_line()? {
            return Ok(None);
        }
        let mut body = decode_entity(&self.line).map_err(|error| {
            let before = self.line.get(..error.offset).unwrap_or(&self.line);
            let place = Place::Character(String::from_utf8_lossy(before).chars().count() + 1);
            match error.kind {
                kind @ JsonErrorKind::Syntax { .. } => {
                    self.fault(place, &format_args!("{kind}; each line is one object of JSON"))
                }
                kind => self.fault(place, &kind),
            }
        })?;
        let Mapping { partition_key: partition_name, row_key: row_name, .. } = &self.mapping;
        let (partition_name, row_name) = (partition_name.as_deref(), row_name.as_deref());
        let members: Members<'_> = match (partition_name, row_name) {
            (None, None) => Members::new(),
            _ => serde_json::from_slice(&self.line)
                .map_err(|error| self.fault(Place::Line, &error))?,
        };
        let own = body.partition_key.take();
        let partition_key = self.key("PartitionKey", partition_name, own, &members)?;
        let own = body.row_key.take();
        let row_key = self.key("RowKey", row_name, own, &members)?;
        let is_key = |name: &str| [partition_name, row_name].contains(&Some(name));
        body.properties.retain(|(name, _)| !is_key(name));
        let entity = body.with_keys(partition_key, row_key);
        Ok(Some(Line { number: self.number, entity }))
    }

    /// The member that is a key. If another is named to be it, it is a text, or a number as it is written.
    fn key(
        &self,
        key: &str,
        named: Option<&str>,
        own: Option<Cow<'_, str>>,
        members: &Members<'_>,
    ) -> Result<String, Fault> {
        let option = if key == "RowKey" { "--row-key" } else { "--partition-key" };
        match named {
            None => own.map(Cow::into_owned).ok_or_else(|| {
                let reason = format!("expected a member {key}, or {option} to name another");
                self.fault(Place::Line, &reason)
            }),
            Some(name) if name == key => self.key(key, None, own, members),
            Some(name) => {
                let value = members.get(name).map(|value| value.get());
                let value = value.filter(|value| *value != "null").ok_or_else(|| {
                    self.fault(Place::Line, &format_args!("expected a member {name} for the {key}"))
                })?;
                match value.starts_with('"') {
                    true => {
                        serde_json::from_str(value).map_err(|error| self.fault(Place::Line, &error))
                    }
                    false => Ok(value.to_owned()),
                }
            }
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Line, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
