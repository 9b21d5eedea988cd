//! [`Conditions`]: what must hold of stored entities for a batch to be done (R-E05, R-E07).
//!
//! Invariant: under the partition's latch each operation is checked against the newest entry of its entity,
//! durable or not, before its merge runs; of those that fail the first is named, with the newest version that it
//! and those before it found.

use std::borrow::Cow;

use super::draft::Operation;
use super::latch::Latches;
use crate::entry::{Found, Kind};
use crate::error::{Error, Result};
use crate::levels::View;
use crate::read;
use crate::sst::Lookup;
use crate::version::Version;

/// What must hold of the stored entity for an operation to apply.
///
/// ```
/// use tablestone::{Database, Error, Options, Precondition};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// let version = table.insert("de", "karl", "born 1854").wait()?;
/// // Only if nobody wrote it in between; `Exists` would do with any version of it.
/// table.replace("de", "karl", Precondition::Version(version), "born 1853").wait()?;
/// let late = table.delete("de", "karl", Precondition::Version(version)).wait();
/// assert!(matches!(late, Err(Error::VersionMismatch { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// It must not exist.
    Absent,
    /// It must exist.
    Exists,
    /// It must exist and be at this version: its ETag must match.
    ///
    /// Of those that race for one entity one succeeds for each version that others can read, and under
    /// [`Durability::Sync`](crate::Durability::Sync) that is one a sync, however many they are. What can be
    /// computed from the present value is a [`merge`](crate::Batch::merge), of which a sync takes as many as come.
    Version(Version),
}

/// It must be as it was read: at that version, or still absent.
///
/// ```
/// use tablestone::{Database, Options, Precondition};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("visits").wait()?;
/// for expected in 1..=3 {
///     let read = table.get("de", "karl")?;
///     let visits = read.as_ref().map_or(0, |row| row.value[0]) + 1;
///     let unchanged = Precondition::from(read.map(|row| row.version));
///     table.replace("de", "karl", unchanged, [visits]).wait()?; // the first time an insert
///     assert_eq!(visits, expected);
/// }
/// # Ok(())
/// # }
/// ```
impl From<Option<Version>> for Precondition {
    fn from(read: Option<Version>) -> Self {
        read.map_or(Self::Absent, Self::Version)
    }
}

/// So many entities are looked up together; of fewer it does not pay (DESIGN.md, 9.3).
const MANY: usize = 8;
/// The same where most of them are likely absent.
const MANY_ABSENT: usize = 48;

/// The newest version that was found, or the error and the newest version that it is due to.
pub(super) type Checked = Result<Version, (Version, Error)>;

/// What the operations of a batch are checked against.
pub(super) struct Conditions<'a> {
    pub(super) view: &'a View,
    pub(super) latches: &'a Latches,
    /// The encoded partition.
    pub(super) prefix: &'a [u8],
    /// What rows have their places in.
    pub(super) buffer: &'a [u8],
    /// Bytes that a merged value may have.
    pub(super) value_limit: usize,
}

impl Conditions<'_> {
    /// Checks every operation and runs merges.
    pub(super) fn check(&self, operations: &mut [Operation]) -> Checked {
        if are_many(operations) {
            self.check_together(operations)
        } else {
            self.check_in_turn(operations)
        }
    }

    /// Looks each entity up when its operation is checked.
    fn check_in_turn(&self, operations: &mut [Operation]) -> Checked {
        let (mut key, mut upto) = (Vec::new(), Version::ZERO);
        for (index, operation) in looking(operations) {
            let row_key = operation.row_key(self.buffer);
            key.clear();
            key.reserve(self.prefix.len() + row_key.len());
            key.extend_from_slice(self.prefix);
            key.extend_from_slice(row_key);
            let lookup = match operation.precondition {
                Precondition::Absent => Lookup::likely_absent(&key),
                _ => Lookup::new(&key),
            };
            let visit = |found: Found<'_>| self.check_one(index, operation, Some(found));
            let checked = read::get_raw(self.view, &lookup, Version::MAX, visit)
                .map_err(|error| (Version::ZERO, error))?;
            let checked = checked.unwrap_or_else(|| self.check_one(index, operation, None));
            upto = newest(upto, checked)?;
        }
        Ok(upto)
    }

    /// Looks all entities up together, and checks each operation when its entity is found.
    fn check_together(&self, operations: &mut [Operation]) -> Checked {
        let mut looking: Vec<_> =
            looking(operations).map(|(index, operation)| (index, operation, None)).collect();
        let row_key = |(_, operation, _): &(_, &mut Operation, _)| operation.row_key(self.buffer);
        let row_keys: Vec<&[u8]> = looking.iter().map(row_key).collect();
        let visit = |at: usize, found: Found<'_>| {
            if let Some((index, operation, checked)) = looking.get_mut(at) {
                *checked = Some(self.check_one(*index, operation, Some(found)));
            }
            Ok(())
        };
        read::multi_get_raw(self.view, self.prefix, &row_keys, Version::MAX, visit)
            .map_err(|error| (Version::ZERO, error))?;
        looking.into_iter().try_fold(Version::ZERO, |upto, (index, operation, checked)| {
            newest(upto, checked.unwrap_or_else(|| self.check_one(index, operation, None)))
        })
    }

    /// Checks an operation against the newest entry of its entity, if it ever was, and runs its merge.
    fn check_one(
        &self,
        index: usize,
        operation: &mut Operation,
        found: Option<Found<'_>>,
    ) -> Checked {
        let version = found.as_ref().map_or(Version::ZERO, |found| found.version);
        let stored = found.filter(|found| found.kind != Kind::Delete);
        check_precondition(index, operation.precondition, version, stored.is_some())
            .and_then(|()| self.run_merge(index, operation, stored))
            .map_or_else(|error| Err((version, error)), |()| Ok(version))
    }

    fn run_merge(
        &self,
        index: usize,
        operation: &mut Operation,
        stored: Option<Found<'_>>,
    ) -> Result<()> {
        if !operation.is_merge() {
            return Ok(());
        }
        let value = match stored {
            Some(Found { kind: Kind::Reference, value, .. }) => {
                Some(self.view.levels.values.read(value)?)
            }
            stored => stored.map(|found| Cow::Borrowed(found.value)),
        };
        operation.resolve_merge(index, value.as_deref(), self.value_limit, self.latches)
    }
}

/// The check of an operation, after others that found versions up to `upto`. A failure counts these too: that it is the
/// first to fail rests on what the others found.
fn newest(upto: Version, checked: Checked) -> Checked {
    match checked {
        Ok(version) => Ok(upto.max(version)),
        Err((version, error)) => Err((upto.max(version), error)),
    }
}

/// The operations for which something is looked up.
fn looking(operations: &mut [Operation]) -> impl Iterator<Item = (usize, &mut Operation)> {
    operations.iter_mut().enumerate().filter(|(_, operation)| operation.looks())
}

/// Whether so much is looked up that together it is faster. An entity that is likely absent is looked up in
/// all files at once anyway.
fn are_many(operations: &[Operation]) -> bool {
    let absent = |operation: &&Operation| operation.precondition == Precondition::Absent;
    let looked_up = operations.iter().filter(|operation| operation.looks()).count();
    let absent = operations.iter().filter(absent).count();
    looked_up - absent >= MANY || looked_up >= MANY_ABSENT
}

fn check_precondition(
    index: usize,
    wanted: Precondition,
    found: Version,
    exists: bool,
) -> Result<()> {
    match wanted {
        Precondition::None => Ok(()),
        Precondition::Absent if exists => Err(Error::EntityExists { index, version: found }),
        Precondition::Absent => Ok(()),
        Precondition::Exists | Precondition::Version(_) if !exists => {
            Err(Error::EntityNotFound { index })
        }
        Precondition::Version(expected) if expected != found => {
            Err(Error::VersionMismatch { index, expected, found })
        }
        Precondition::Exists | Precondition::Version(_) => Ok(()),
    }
}
