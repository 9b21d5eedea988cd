//! [`EncodedRow`]: a stored row, parsed as far as its header, and read property by property.

use super::kind::Kind;
use super::{FORMAT, HEADER, PropertyName, WIDE, fingerprint};
use crate::entity::datetime::DateTime;
use crate::entity::error::RowError;
use crate::entity::guid::Guid;
use crate::entity::value::{ValueRef, ValueVisitor};

/// A place in a row's directory: that of a property, or where one is looked for first. The same
/// property mostly is in the same slot of the next row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot(pub(super) usize);

/// A stored value whose text was not checked to be UTF-8: enough to compare it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RawValue<'a> {
    String(&'a [u8]),
    Binary(&'a [u8]),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32(i32),
    Int64(i64),
}

impl<'a> From<ValueRef<'a>> for RawValue<'a> {
    #[inline]
    fn from(value: ValueRef<'a>) -> Self {
        match value {
            ValueRef::String(text) => Self::String(text.as_bytes()),
            ValueRef::Binary(bytes) => Self::Binary(bytes),
            ValueRef::Boolean(value) => Self::Boolean(value),
            ValueRef::DateTime(value) => Self::DateTime(value),
            ValueRef::Double(value) => Self::Double(value),
            ValueRef::Guid(value) => Self::Guid(value),
            ValueRef::Int32(value) => Self::Int32(value),
            ValueRef::Int64(value) => Self::Int64(value),
        }
    }
}

/// A property as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) fingerprint: u8,
    pub(super) kind: Kind,
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

/// A stored row. The parts have the lengths that header and offsets' ends say, and fill the row;
/// everything within them is checked when it is read.
#[derive(Clone, Copy, Default)]
pub(crate) struct EncodedRow<'a> {
    fingerprints: &'a [u8],
    kinds: &'a [u8],
    name_ends: &'a [u8],
    names: &'a [u8],
    value_ends: &'a [u8],
    values: &'a [u8],
    wide: bool,
}

impl<'a> EncodedRow<'a> {
    #[inline]
    pub(crate) fn parse(row: &'a [u8]) -> Result<Self, RowError> {
        match *row {
            [FORMAT, flags @ 0..=WIDE, count, ref rest @ ..] => {
                Self::split(rest, usize::from(count), flags == WIDE)
                    .ok_or_else(|| wrong_length(row.len()))
            }
            _ => Err(wrong_header(row)),
        }
    }

    #[inline]
    fn split(rest: &'a [u8], count: usize, wide: bool) -> Option<Self> {
        let ends = if wide { 4 * count } else { 2 * count };
        let last = count.wrapping_sub(1);
        let total = |table: &[u8]| if count == 0 { Some(0) } else { end(table, wide, last) };
        let (fingerprints, rest) = rest.split_at_checked(count)?;
        let (kinds, rest) = rest.split_at_checked(count)?;
        let (name_ends, rest) = rest.split_at_checked(ends)?;
        let (names, rest) = rest.split_at_checked(total(name_ends)?)?;
        let (value_ends, values) = rest.split_at_checked(ends)?;
        let row = Self { fingerprints, kinds, name_ends, names, value_ends, values, wide };
        (values.len() == total(value_ends)?).then_some(row)
    }

    /// Number of properties.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.fingerprints.len()
    }

    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = Slot> + use<> {
        (0..self.len()).map(Slot)
    }

    /// Where a property is, if the row has it. It is looked for at the hint first, and the hint
    /// becomes where it was found.
    #[inline]
    pub(crate) fn find(
        &self,
        name: &PropertyName,
        hint: &mut Slot,
    ) -> Result<Option<Slot>, RowError> {
        let bytes = name.name.as_bytes();
        if self.fingerprints.get(hint.0) == Some(&name.fingerprint)
            && self.name_bytes(*hint)? == bytes
        {
            return Ok(Some(*hint));
        }
        let found = self.search(bytes, name.fingerprint)?;
        *hint = found.unwrap_or(*hint);
        Ok(found)
    }

    /// Where a property is, by its name alone.
    pub(crate) fn find_name(&self, name: &str) -> Result<Option<Slot>, RowError> {
        self.search(name.as_bytes(), fingerprint(name.as_bytes()))
    }

    pub(super) fn search(&self, name: &[u8], fingerprint: u8) -> Result<Option<Slot>, RowError> {
        for at in memchr::memchr_iter(fingerprint, self.fingerprints) {
            if self.name_bytes(Slot(at))? == name {
                return Ok(Some(Slot(at)));
            }
        }
        Ok(None)
    }

    /// All names.
    #[inline]
    pub(crate) fn names(&self) -> Names<'a> {
        Names { wide: self.wide, ends: self.name_ends, bytes: self.names }
    }

    /// The name in a slot.
    #[inline]
    pub(crate) fn name(&self, slot: Slot) -> Result<&'a str, RowError> {
        utf8(self.name_bytes(slot)?, "a property's name", || {
            let (start, _) = bounds(self.name_ends, self.wide, slot).unwrap_or_default();
            self.names_at() + start
        })
    }

    /// Shows all values, in order. Each begins where the one before ends, so this reads half of what
    /// asking for them slot by slot does.
    #[inline]
    pub(crate) fn each_value(&self, visitor: &mut impl ValueVisitor<'a>) -> Result<(), RowError> {
        let (mut rest, mut start) = (self.values, 0_usize);
        for slot in self.slots() {
            let end = end(self.value_ends, self.wide, slot.0).unwrap_or(usize::MAX);
            let kind = self.kind(slot)?;
            let value = match rest.split_at_checked(end.wrapping_sub(start)) {
                Some((value, after)) => {
                    (rest, start) = (after, end);
                    value
                }
                // It says what is wrong.
                None => self.value_bytes(slot)?,
            };
            self.decode(slot, kind, value, Show(visitor))?;
        }
        Ok(())
    }

    /// The value in a slot.
    #[inline]
    pub(crate) fn value(&self, slot: Slot) -> Result<ValueRef<'a>, RowError> {
        self.decode(slot, self.kind(slot)?, self.value_bytes(slot)?, |value| value)
    }

    /// The value in a slot, its text unchecked.
    #[inline]
    pub(crate) fn raw(&self, slot: Slot) -> Result<RawValue<'a>, RowError> {
        let (kind, value) = (self.kind(slot)?, self.value_bytes(slot)?);
        match kind {
            Kind::String => Ok(RawValue::String(value)),
            _ => self.decode(slot, kind, value, RawValue::from),
        }
    }

    /// What `then` makes of the value that bytes of a kind are. It is called where the kind is known: a
    /// value that is returned is taken apart again, out of memory that was just written (DESIGN 10.1).
    #[inline]
    fn decode<T: Then<'a>>(
        &self,
        slot: Slot,
        kind: Kind,
        value: &'a [u8],
        then: T,
    ) -> Result<T::Made, RowError> {
        let wrong = || self.wrong_value_length(slot, kind, value.len());
        Ok(match kind {
            Kind::String => {
                then.make(ValueRef::String(utf8(value, "a String", || self.value_at(slot))?))
            }
            Kind::Binary => then.make(ValueRef::Binary(value)),
            Kind::False | Kind::True if !value.is_empty() => return Err(wrong()),
            Kind::False | Kind::True => then.make(ValueRef::Boolean(kind == Kind::True)),
            Kind::Int32 => {
                then.make(ValueRef::Int32(i32::from_le_bytes(array(value).ok_or_else(wrong)?)))
            }
            Kind::Int64 => {
                then.make(ValueRef::Int64(i64::from_le_bytes(array(value).ok_or_else(wrong)?)))
            }
            Kind::Double => {
                then.make(ValueRef::Double(f64::from_le_bytes(array(value).ok_or_else(wrong)?)))
            }
            Kind::Guid => {
                then.make(ValueRef::Guid(Guid::from_bytes(array(value).ok_or_else(wrong)?)))
            }
            Kind::DateTime => {
                let ticks = u64::from_le_bytes(array(value).ok_or_else(wrong)?);
                then.make(ValueRef::DateTime(DateTime::from_ticks(ticks).ok_or_else(|| {
                    damaged(self.value_at(slot), "the ticks of a DateTime", ticks)
                })?))
            }
        })
    }

    /// The property in a slot, undecoded.
    #[inline]
    pub(super) fn stored(&self, slot: Slot) -> Result<Stored<'a>, RowError> {
        let fingerprint = self.fingerprints.get(slot.0).copied().unwrap_or_default();
        let (name, value) = (self.name_bytes(slot)?, self.value_bytes(slot)?);
        Ok(Stored { fingerprint, kind: self.kind(slot)?, name, value })
    }

    /// Fails if the name in a slot cannot be found by its fingerprint, or is that of an earlier
    /// slot.
    pub(crate) fn check_findable(&self, slot: Slot) -> Result<(), RowError> {
        let name = self.name_bytes(slot)?;
        let found = self.search(name, fingerprint(name))?;
        if found == Some(slot) {
            return Ok(());
        }
        let byte = self.fingerprints.get(slot.0).copied().unwrap_or_default();
        let expected = "the fingerprint of a name that no other property has";
        Err(damaged(HEADER + slot.0, expected, u64::from(byte)))
    }

    #[inline]
    fn kind(&self, slot: Slot) -> Result<Kind, RowError> {
        let byte = self.kinds.get(slot.0).copied().unwrap_or(u8::MAX);
        Kind::from_byte(byte).ok_or_else(|| {
            damaged(HEADER + self.len() + slot.0, "the kind of a value", u64::from(byte))
        })
    }

    #[inline]
    fn name_bytes(&self, slot: Slot) -> Result<&'a [u8], RowError> {
        let between = bounds(self.name_ends, self.wide, slot);
        between
            .and_then(|(start, end)| self.names.get(start..end))
            .ok_or_else(|| wrong_end(HEADER + 2 * self.len(), self.name_ends, self.wide, slot))
    }

    #[inline]
    fn value_bytes(&self, slot: Slot) -> Result<&'a [u8], RowError> {
        let between = bounds(self.value_ends, self.wide, slot);
        between.and_then(|(start, end)| self.values.get(start..end)).ok_or_else(|| {
            wrong_end(self.names_at() + self.names.len(), self.value_ends, self.wide, slot)
        })
    }

    /// Where the names start in the row.
    fn names_at(&self) -> usize {
        HEADER + 2 * self.len() + self.name_ends.len()
    }

    /// Where the value of a slot starts in the row.
    fn value_at(&self, slot: Slot) -> usize {
        let (start, _) = bounds(self.value_ends, self.wide, slot).unwrap_or_default();
        self.names_at() + self.names.len() + self.value_ends.len() + start
    }

    #[cold]
    fn wrong_value_length(&self, slot: Slot, kind: Kind, length: usize) -> RowError {
        let (offset, value_type) = (self.value_at(slot), kind.value_type());
        RowError::ValueLength { offset, value_type, length }
    }
}

/// What is done with a value.
trait Then<'a> {
    type Made;

    fn make(self, value: ValueRef<'a>) -> Self::Made;
}

impl<'a, T, F: FnOnce(ValueRef<'a>) -> T> Then<'a> for F {
    type Made = T;

    #[inline]
    fn make(self, value: ValueRef<'a>) -> T {
        self(value)
    }
}

/// Shows the value. No closure: one that does much and is used in many places is called, not inlined.
struct Show<'v, V>(&'v mut V);

impl<'a, V: ValueVisitor<'a>> Then<'a> for Show<'_, V> {
    type Made = ();

    // Always: it is the method of the visitor that decides.
    #[inline(always)]
    fn make(self, value: ValueRef<'a>) {
        self.0.visit(value);
    }
}

/// The names of a row in their stored form.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) wide: bool,
    pub(crate) ends: &'a [u8],
    pub(crate) bytes: &'a [u8],
}

impl Names<'_> {
    fn ends(&self) -> impl Iterator<Item = usize> {
        (0..).map_while(|at| end(self.ends, self.wide, at))
    }
}

/// The same names have ends of another width in a row that is large by its values.
impl PartialEq for Names<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let same_ends = if self.wide == other.wide {
            self.ends == other.ends
        } else {
            self.ends().eq(other.ends())
        };
        same_ends && self.bytes == other.bytes
    }
}

/// The offset at an index of a table of offsets.
#[inline]
fn end(table: &[u8], wide: bool, at: usize) -> Option<usize> {
    if wide {
        table.get(4 * at..)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes) as usize)
    } else {
        table.get(2 * at..)?.first_chunk().map(|&bytes| usize::from(u16::from_le_bytes(bytes)))
    }
}

/// Where what a slot refers to starts and ends.
#[inline]
fn bounds(table: &[u8], wide: bool, Slot(at): Slot) -> Option<(usize, usize)> {
    let start = if at == 0 { 0 } else { end(table, wide, at - 1)? };
    Some((start, end(table, wide, at)?))
}

#[inline]
fn array<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.try_into().ok()
}

/// The text that bytes are; `at` says where they are in the row.
#[inline]
fn utf8<'a>(
    bytes: &'a [u8],
    what: &'static str,
    at: impl FnOnce() -> usize,
) -> Result<&'a str, RowError> {
    crate::text::utf8(bytes)
        .map_err(|error| RowError::NotUtf8 { what, offset: at() + error.valid_up_to() })
}

#[cold]
fn damaged(offset: usize, expected: &'static str, found: u64) -> RowError {
    RowError::Damaged { offset, expected, found }
}

#[cold]
fn wrong_end(table_at: usize, table: &[u8], wide: bool, Slot(at): Slot) -> RowError {
    let found = end(table, wide, at).unwrap_or_default() as u64;
    let offset = table_at + at * if wide { 4 } else { 2 };
    damaged(offset, "an offset between its neighbours", found)
}

#[cold]
fn wrong_length(len: usize) -> RowError {
    damaged(len, "the end where directory and offsets say it is", len as u64)
}

#[cold]
fn wrong_header(row: &[u8]) -> RowError {
    match *row {
        [found, ..] if found > FORMAT => RowError::UnsupportedFormat { found, supported: FORMAT },
        [found, ..] if found < FORMAT => damaged(0, "the number of a format", u64::from(found)),
        [_, flags, ..] if flags > WIDE => damaged(1, "flags this build knows", u64::from(flags)),
        _ => damaged(row.len(), "a row's header of 3 bytes, not the end", row.len() as u64),
    }
}
