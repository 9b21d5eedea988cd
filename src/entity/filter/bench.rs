//! Filters on stored rows as a benchmark of this package sees them.

use super::{CompiledFilter, Filter, StoredRow};
use crate::entity::{Entity, EntityRef, RowError};
use crate::version::Version;

/// A filter in the form that a scan evaluates.
#[derive(Clone, Debug)]
pub struct BenchFilter(CompiledFilter);

impl BenchFilter {
    /// Compiles a filter.
    #[must_use]
    pub fn new(filter: &Filter) -> Self {
        Self(CompiledFilter::new(filter))
    }

    /// Whether a stored row passes.
    ///
    /// # Errors
    /// Damage.
    pub fn matches(&mut self, row: &[u8]) -> Result<bool, RowError> {
        let version = Version::from_ticks(1);
        self.0.matches(StoredRow {
            partition_key: b"partition",
            row_key: b"row",
            version,
            bytes: row,
        })
    }

    /// Decodes a stored row.
    ///
    /// # Errors
    /// Damage.
    pub fn decode(row: &[u8]) -> Result<Entity, RowError> {
        EntityRef::new(b"partition", b"row", Version::from_ticks(1), row)?.to_entity()
    }
}
