//! [`Patch`]: the properties of a merge, put over a stored row without decoding either (R-D09).

use super::kind::Kind;
use super::row::{EncodedRow, Stored};
use super::write::{Encoder, push_row};
use crate::entity::entity::Entity;
use crate::entity::error::{EntityError, RowError};
use crate::entity::limits::{EntityLimits, keys_size, utf16_length};

/// Why a merge has no result.
#[derive(Debug, PartialEq)]
pub(crate) enum MergeError {
    /// The result would break a limit.
    Entity(EntityError),
    /// What is stored is no entity.
    Row(RowError),
}

impl From<EntityError> for MergeError {
    fn from(error: EntityError) -> Self {
        Self::Entity(error)
    }
}

impl From<RowError> for MergeError {
    fn from(error: RowError) -> Self {
        Self::Row(error)
    }
}

/// An entity to be merged with the stored one of the same keys. Properties of the stored entity keep
/// their places; those that the patch has too get its value and type; its others follow.
#[derive(Debug)]
pub(crate) struct Patch {
    row: Vec<u8>,
    keys_size: usize,
}

impl Patch {
    /// A patch that, by itself, is an entity within these limits.
    pub(crate) fn new(entity: &Entity, limits: &EntityLimits) -> Result<Self, EntityError> {
        let keys_size = keys_size(entity.partition_key(), entity.row_key());
        Ok(Self { row: Encoder::new(limits).encode_whole(entity)?, keys_size })
    }

    /// The row of the patch alone.
    pub(crate) fn row(&self) -> &[u8] {
        &self.row
    }

    /// The row of the merged entity, which is checked against the limits: of the patch alone, if nothing
    /// is stored.
    pub(crate) fn apply(
        &self,
        stored: Option<&[u8]>,
        limits: &EntityLimits,
    ) -> Result<Vec<u8>, MergeError> {
        match stored {
            Some(row) => merge(row, &self.row, self.keys_size, limits),
            None => Ok(self.row.clone()),
        }
    }
}

pub(super) fn merge(
    row: &[u8],
    patch: &[u8],
    keys_size: usize,
    limits: &EntityLimits,
) -> Result<Vec<u8>, MergeError> {
    let (row, patch) = (EncodedRow::parse(row)?, EncodedRow::parse(patch)?);
    let mut merged = Vec::with_capacity(row.len() + patch.len());
    for slot in row.slots() {
        merged.push(row.stored(slot)?);
    }
    for slot in patch.slots() {
        let new = patch.stored(slot)?;
        let place = row.search(new.name, new.fingerprint)?;
        match place.and_then(|place| merged.get_mut(place.0)) {
            Some(old) => *old = new,
            None => merged.push(new),
        }
    }
    limits.check_count(merged.len())?;
    check_stored_size(&merged, keys_size, limits)?;
    let mut out = Vec::new();
    push_row(&mut out, merged.into_iter());
    Ok(out)
}

/// Checks R-D04. Text is only counted if the bytes leave a doubt: it has no more UTF-16 units.
fn check_stored_size(
    properties: &[Stored<'_>],
    keys_size: usize,
    limits: &EntityLimits,
) -> Result<(), EntityError> {
    let bound = |p: &Stored<'_>| 8 + 2 * p.name.len() + 2 * p.value.len() + 4;
    if limits.check_size(keys_size + properties.iter().map(bound).sum::<usize>()).is_ok() {
        return Ok(());
    }
    limits.check_size(keys_size + properties.iter().map(stored_size).sum::<usize>())
}

/// What [`property_size`](crate::entity::limits::property_size) says of the decoded property.
fn stored_size(property: &Stored<'_>) -> usize {
    let value = match property.kind {
        Kind::String => 2 * utf16_length(property.value) + 4,
        Kind::Binary => property.value.len() + 4,
        Kind::False | Kind::True => 1,
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::DateTime | Kind::Guid => {
            property.value.len()
        }
    };
    8 + 2 * utf16_length(property.name) + value
}
