//! [`Snapshot`]: the database as it was at one version, for as long as the handle lives.

use std::fmt;
use std::sync::Arc;

use super::database::Inner;
use crate::version::Version;

/// A version of the database that stays readable while a handle on it lives.
///
/// Reads through [`Table::at`](crate::Table::at). It keeps the versions it needs from being
/// collected, so a long-lived one costs space.
///
/// ```
/// use tablestone::{Database, Options, Precondition};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.insert("de", "karl", "born 1854").wait()?;
/// let snapshot = database.snapshot();
/// table.delete("de", "karl", Precondition::Exists).wait()?;
/// assert!(table.at(&snapshot)?.exists("de", "karl")?);
/// assert!(!table.exists("de", "karl")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

struct Pin {
    inner: Arc<Inner>,
    version: Version,
}

impl Snapshot {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let version = inner.pipeline().tree().register_snapshot();
        Self { pin: Arc::new(Pin { inner, version }) }
    }

    /// The version it reads: every commit up to it, none after.
    #[must_use]
    pub fn version(&self) -> Version {
        self.pin.version
    }

    pub(super) fn is_of(&self, inner: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.pin.inner, inner)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.inner.pipeline().tree().release_snapshot(self.version);
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("version", &self.version()).finish()
    }
}
