//! A row against limits that it was not encoded for.

use super::row::{EncodedRow, Slot};
use crate::entity::error::EntityError;
use crate::entity::limits::EntityLimits;

/// Whether an entity that an [`Encoder`](super::Encoder) made a row of is within these limits. What cannot be
/// read, as of such a row everything can, is not counted.
pub(crate) fn check_row(
    partition_key: &str,
    row_key: &str,
    row: &[u8],
    limits: &EntityLimits,
) -> Result<(), EntityError> {
    let row = EncodedRow::parse(row).unwrap_or_default();
    let read = |slot: Slot| Some((row.name(slot).ok()?, row.value(slot).ok()?));
    let properties: Vec<_> = row.slots().filter_map(read).collect();
    limits.check(partition_key, row_key, properties.iter().copied())
}
