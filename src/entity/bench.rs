//! Stored rows as a benchmark of this package sees them.

use super::codec::{EncodedRow, Patch, Projection, PropertyName, RawValue, Slot, encode};
use super::{Entity, EntityError, EntityLimits, EntityRef, RowError};
use crate::version::Version;

/// The stored form of an entity.
#[derive(Clone, Debug)]
pub struct BenchRow(Vec<u8>);

impl BenchRow {
    /// Encodes an entity.
    ///
    /// # Errors
    /// What limit it breaks.
    pub fn encode(entity: &Entity) -> Result<Self, EntityError> {
        Ok(Self(encode(entity)?))
    }

    /// The stored bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The entity in its stored form.
    ///
    /// # Errors
    /// Damage.
    pub fn view(&self) -> Result<EntityRef<'_>, RowError> {
        EntityRef::new(b"partition", b"row", Version::from_ticks(1), &self.0)
    }

    /// The row with an entity's properties merged in; `None` if it cannot be.
    #[must_use]
    pub fn merge(&self, patch: &Entity) -> Option<Self> {
        let limits = EntityLimits::default();
        Patch::new(patch, &limits).ok()?.apply(Some(&self.0), &limits).map(Self).ok()
    }
}

/// A look-up of one property in row after row.
#[derive(Debug)]
pub struct BenchFind(PropertyName, Slot);

impl BenchFind {
    /// Of the property of that name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(PropertyName::new(name), Slot::default())
    }

    /// Parses the row and reads the property's Int32; `None` if it is absent or of another type.
    ///
    /// # Errors
    /// Damage.
    pub fn int32(&mut self, row: &[u8]) -> Result<Option<i32>, RowError> {
        let row = EncodedRow::parse(row)?;
        Ok(match row.find(&self.0, &mut self.1)? {
            Some(slot) => match row.raw(slot)? {
                RawValue::Int32(value) => Some(value),
                _ => None,
            },
            None => None,
        })
    }
}

/// A projection of row after row.
#[derive(Debug)]
pub struct BenchProjection(Projection);

impl BenchProjection {
    /// On these names.
    #[must_use]
    pub fn new(names: &[&str]) -> Self {
        Self(Projection::new(names.iter().copied()))
    }

    /// Appends the projected row.
    ///
    /// # Errors
    /// Damage.
    pub fn push(&mut self, row: &[u8], out: &mut Vec<u8>) -> Result<(), RowError> {
        self.0.push(&EncodedRow::parse(row)?, out)
    }
}
