//! Lines of JSON: an object each, as the body of an insert has it.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{BufRead, Read};

use tablestone::{EntityLimits, Value};

use super::{Fault, Line, Mapping, Place, longest_line};
use crate::wire::json::{JsonErrorKind, decode_entity};
use crate::wire::{BodyValue, EntityBody, edm};

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
            match limited.read_until(b'\n', &mut self.line) {
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
        let Mapping { partition_key, row_key, .. } = &self.mapping;
        let own = body.partition_key.take();
        let partition_key = self.key(&mut body, "PartitionKey", partition_key.as_deref(), own)?;
        let own = body.row_key.take();
        let row_key = self.key(&mut body, "RowKey", row_key.as_deref(), own)?;
        let entity = body.with_keys(partition_key, row_key);
        Ok(Some(Line { number: self.number, entity }))
    }

    /// The member that is a key, taken out of the properties if another is named to be it.
    fn key(
        &self,
        body: &mut EntityBody<'_>,
        key: &str,
        named: Option<&str>,
        own: Option<Cow<'_, str>>,
    ) -> Result<String, Fault> {
        let option = if key == "RowKey" { "--row-key" } else { "--partition-key" };
        match named {
            None => own.map(Cow::into_owned).ok_or_else(|| {
                let reason = format!("expected a member {key}, or {option} to name another");
                self.fault(Place::Line, &reason)
            }),
            Some(name) if name == key => self.key(body, key, None, own),
            Some(name) => {
                let at = body.properties.iter().position(|(property, _)| property == name);
                let at = at.ok_or_else(|| {
                    self.fault(Place::Line, &format_args!("expected a member {name} for the {key}"))
                })?;
                let (_, value) = body.properties.remove(at);
                Ok(match value {
                    BodyValue::Value(Value::String(text)) => text,
                    value => edm::text(value.borrowed()).into_owned(),
                })
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
