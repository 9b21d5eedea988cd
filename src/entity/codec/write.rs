//! Rows in the making: one pass over the properties for each part of the row, or one for all parts if
//! the names are those of the row before.

use super::kind::Kind;
use super::row::Stored;
use super::{FORMAT, HEADER, WIDE, fingerprint};
use crate::entity::entity::Entity;
use crate::entity::error::EntityError;
use crate::entity::limits::EntityLimits;
use crate::entity::value::ValueRef;

/// Most bytes of values that are encoded before their lengths are known: offsets are narrow.
const MOST_VALUES: usize = 32 << 10;
const _: () = assert!(MOST_VALUES <= u16::MAX as usize);
/// Offsets reach as far as names or values may: a UTF-16 unit, which counts 2, has up to 3 bytes.
const _: () = assert!(EntityLimits::LARGEST.size / 2 * 3 <= u32::MAX as usize);

/// The stored form of an entity, which is checked against the default limits.
pub(crate) fn encode(entity: &Entity) -> Result<Vec<u8>, EntityError> {
    Encoder::new(&EntityLimits::default()).encode_whole(entity)
}

/// Encodes entities one after the other. Names that are those of the entity before, as they mostly are,
/// were checked and hashed with it.
#[derive(Debug)]
pub(crate) struct Encoder {
    limits: EntityLimits,
    /// Bytes of values of which no String or Binary is too long.
    most_values: usize,
    /// Names that differ, each of which a property may have.
    names: Vec<u8>,
    /// Where each name ends.
    ends: Vec<usize>,
    fingerprints: Vec<u8>,
    /// All of a row of these names but its values, if there were two such rows.
    directory: Vec<u8>,
    /// The values of a row in the making.
    values: Vec<u8>,
}

impl Encoder {
    /// An encoder of entities that are checked against these limits.
    pub(crate) fn new(limits: &EntityLimits) -> Self {
        Self {
            limits: *limits,
            most_values: limits.string_length.min(limits.binary_length).min(MOST_VALUES),
            names: Vec::new(),
            ends: Vec::new(),
            fingerprints: Vec::new(),
            directory: Vec::new(),
            values: Vec::new(),
        }
    }

    /// What entities are held against.
    pub(crate) fn limits(&self) -> &EntityLimits {
        &self.limits
    }

    /// The stored form of an entity in one piece.
    pub(crate) fn encode_whole(&mut self, entity: &Entity) -> Result<Vec<u8>, EntityError> {
        let properties = entity.properties().map(|(name, value)| (name, value.borrowed()));
        let whole = |parts: [&[u8]; 2]| parts.concat();
        self.encode_properties(entity.partition_key(), entity.row_key(), properties, whole)
    }

    /// What `with` makes of the stored form of an entity of these keys and properties, which is checked
    /// against the limits and comes in two parts.
    pub(crate) fn encode_properties<'p, R>(
        &mut self,
        partition_key: &str,
        row_key: &str,
        properties: impl ExactSizeIterator<Item = (&'p str, ValueRef<'p>)> + Clone,
        with: impl FnOnce([&[u8]; 2]) -> R,
    ) -> Result<R, EntityError> {
        self.limits.check_count(properties.len())?;
        if self.encode_alike(partition_key, row_key, properties.clone()).is_some() {
            return Ok(with([&self.directory, &self.values]));
        }
        self.limits.check_entity_size(partition_key, row_key, properties.clone())?;
        self.learn(properties.clone())?;
        let mut row = Vec::new();
        let fingerprints = self.fingerprints.iter().copied();
        let property = |((name, value), fingerprint)| Checked { name, value, fingerprint };
        push_row(&mut row, properties.zip(fingerprints).map(property));
        Ok(with([&row, &[]]))
    }

    /// Makes directory and values the row of properties with the names of those before, in one pass; none if
    /// they have others, or are so large that a limit may be near.
    fn encode_alike<'p>(
        &mut self,
        partition_key: &str,
        row_key: &str,
        properties: impl ExactSizeIterator<Item = (&'p str, ValueRef<'p>)>,
    ) -> Option<()> {
        let count = properties.len();
        if count != self.ends.len() || !self.make_directory() {
            return None;
        }
        let Self { limits, most_values, names, ends, directory, values, .. } = self;
        let value_ends_at = directory.len() - 2 * count;
        let (shape, value_ends) = directory.split_at_mut_checked(value_ends_at)?;
        let kinds = shape.get_mut(HEADER + count..)?;
        let slots = ends.iter().zip(kinds).zip(value_ends.as_chunks_mut().0);
        let mut start = 0;
        values.clear();
        for ((name, value), ((&end, kind), value_end)) in properties.zip(slots) {
            if names.get(start..end) != Some(name.as_bytes()) {
                return None;
            }
            start = end;
            *kind = Kind::of(value) as u8;
            push_value(values, value);
            if values.len() > *most_values {
                return None;
            }
            *value_end = (values.len() as u16).to_le_bytes();
        }
        // No text has more UTF-16 units than bytes.
        let keys = 4 + 2 * (partition_key.len() + row_key.len());
        limits.check_size(keys + 2 * (names.len() + values.len()) + (8 + 4) * count).ok()
    }

    /// Makes the directory of rows of the names, with room for kinds and ends of values, unless it is
    /// there; says whether there is one: there is none with wide offsets.
    fn make_directory(&mut self) -> bool {
        let Self { names, ends, fingerprints, directory, .. } = self;
        if directory.is_empty() && names.len() <= usize::from(u16::MAX) {
            let count = ends.len();
            directory.extend_from_slice(&[FORMAT, 0, count as u8]);
            directory.extend_from_slice(fingerprints);
            directory.resize(directory.len() + count, 0);
            directory.extend(ends.iter().flat_map(|&end| (end as u16).to_le_bytes()));
            directory.extend_from_slice(names);
            directory.resize(directory.len() + 2 * count, 0);
        }
        !directory.is_empty()
    }

    /// Checks names and values in their order.
    fn learn<'p>(
        &mut self,
        properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
    ) -> Result<(), EntityError> {
        self.names.clear();
        self.ends.clear();
        self.fingerprints.clear();
        self.directory.clear();
        for (name, value) in properties {
            self.limits.check_name(name)?;
            self.limits.check_value(name, value)?;
            let fingerprint = fingerprint(name.as_bytes());
            let mut alike = memchr::memchr_iter(fingerprint, &self.fingerprints);
            if alike.any(|at| self.name(at) == Some(name.as_bytes())) {
                return Err(EntityError::NameTwice { name: name.into() });
            }
            self.names.extend_from_slice(name.as_bytes());
            self.ends.push(self.names.len());
            self.fingerprints.push(fingerprint);
        }
        Ok(())
    }

    fn name(&self, at: usize) -> Option<&[u8]> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.names.get(start..*self.ends.get(at)?)
    }
}

/// A property to be encoded, whose name is one that a property may have.
struct Checked<'a> {
    name: &'a str,
    value: ValueRef<'a>,
    fingerprint: u8,
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

impl Property for Checked<'_> {
    fn fingerprint(&self) -> u8 {
        self.fingerprint
    }

    fn kind(&self) -> Kind {
        Kind::of(self.value)
    }

    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn value_len(&self) -> usize {
        match self.value {
            ValueRef::String(text) => text.len(),
            ValueRef::Binary(bytes) => bytes.len(),
            ValueRef::Boolean(_) => 0,
            ValueRef::Int32(_) => 4,
            ValueRef::DateTime(_) | ValueRef::Double(_) | ValueRef::Int64(_) => 8,
            ValueRef::Guid(_) => 16,
        }
    }

    fn push_value(&self, out: &mut Vec<u8>) {
        push_value(out, self.value);
    }
}

#[inline]
fn push_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
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
