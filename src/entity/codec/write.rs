//! Rows in the making: one pass over the properties for each part of the row.

use super::kind::Kind;
use super::row::Stored;
use super::{FORMAT, HEADER, WIDE, fingerprint};
use crate::entity::entity::Entity;
use crate::entity::error::EntityError;
use crate::entity::value::ValueRef;

/// The stored form of an entity, which is checked against the limits.
pub(crate) fn encode(entity: &Entity) -> Result<Vec<u8>, EntityError> {
    entity.validate()?;
    let mut out = Vec::new();
    push_row(&mut out, entity.properties().map(|(name, value)| (name, value.borrowed())));
    Ok(out)
}

/// What a row is made of: properties that are stored elsewhere, or to be encoded.
pub(super) trait Property {
    fn fingerprint(&self) -> u8;
    fn kind(&self) -> Kind;
    fn name(&self) -> &[u8];
    fn value_len(&self) -> usize;
    fn push_value(&self, out: &mut Vec<u8>);
}

impl Property for Stored<'_> {
    fn fingerprint(&self) -> u8 {
        self.fingerprint
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn name(&self) -> &[u8] {
        self.name
    }

    fn value_len(&self) -> usize {
        self.value.len()
    }

    fn push_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.value);
    }
}

impl Property for (&str, ValueRef<'_>) {
    fn fingerprint(&self) -> u8 {
        fingerprint(self.0.as_bytes())
    }

    fn kind(&self) -> Kind {
        Kind::of(self.1)
    }

    fn name(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn value_len(&self) -> usize {
        match self.1 {
            ValueRef::String(text) => text.len(),
            ValueRef::Binary(bytes) => bytes.len(),
            ValueRef::Boolean(_) => 0,
            ValueRef::Int32(_) => 4,
            ValueRef::DateTime(_) | ValueRef::Double(_) | ValueRef::Int64(_) => 8,
            ValueRef::Guid(_) => 16,
        }
    }

    fn push_value(&self, out: &mut Vec<u8>) {
        match self.1 {
            ValueRef::String(text) => out.extend_from_slice(text.as_bytes()),
            ValueRef::Binary(bytes) => out.extend_from_slice(bytes),
            ValueRef::Boolean(_) => {}
            ValueRef::Int32(value) => out.extend_from_slice(&value.to_le_bytes()),
            ValueRef::DateTime(value) => out.extend_from_slice(&value.ticks().to_le_bytes()),
            ValueRef::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
            ValueRef::Int64(value) => out.extend_from_slice(&value.to_le_bytes()),
            ValueRef::Guid(value) => out.extend_from_slice(value.as_bytes()),
        }
    }
}

/// Appends the row of these properties, whose names differ and which keep the limits.
pub(super) fn push_row<P: Property>(
    out: &mut Vec<u8>,
    properties: impl Iterator<Item = P> + Clone,
) {
    let (mut count, mut names, mut values) = (0, 0, 0);
    for property in properties.clone() {
        count += 1;
        names += property.name().len();
        values += property.value_len();
    }
    let wide = names.max(values) > usize::from(u16::MAX);
    let ends = count * if wide { 4 } else { 2 };
    out.reserve(HEADER + 2 * (count + ends) + names + values);
    out.extend_from_slice(&[FORMAT, if wide { WIDE } else { 0 }, count as u8]);
    out.extend(properties.clone().map(|property| property.fingerprint()));
    out.extend(properties.clone().map(|property| property.kind() as u8));
    push_ends(out, wide, properties.clone().map(|property| property.name().len()));
    for property in properties.clone() {
        out.extend_from_slice(property.name());
    }
    push_ends(out, wide, properties.clone().map(|property| property.value_len()));
    for property in properties {
        property.push_value(out);
    }
}

fn push_ends(out: &mut Vec<u8>, wide: bool, lengths: impl Iterator<Item = usize>) {
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    if wide {
        ends.for_each(|end| out.extend_from_slice(&(end as u32).to_le_bytes()));
    } else {
        ends.for_each(|end| out.extend_from_slice(&(end as u16).to_le_bytes()));
    }
}
