//! [`EntitySource`]: an entity to be printed, wherever it is.

use tablestone::{Entity, EntityRef, RowError, ValueRef, Version};

/// An entity with keys, version and properties, which [`json`](super::json) and
/// [`atom`](super::atom) print without a copy.
pub trait EntitySource {
    /// The PartitionKey.
    fn partition_key(&self) -> &str;

    /// The RowKey.
    fn row_key(&self) -> &str;

    /// The version: Timestamp and ETag.
    fn version(&self) -> Version;

    /// A property, `None` if it is absent.
    ///
    /// # Errors
    /// [`RowError`] if what is stored is damaged.
    fn get(&self, name: &str) -> Result<Option<ValueRef<'_>>, RowError>;

    /// Calls a function with each property, in order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn each(&self, property: impl FnMut(&str, ValueRef<'_>)) -> Result<(), RowError>;
}

impl EntitySource for EntityRef<'_> {
    fn partition_key(&self) -> &str {
        self.partition_key()
    }

    fn row_key(&self) -> &str {
        self.row_key()
    }

    fn version(&self) -> Version {
        self.version()
    }

    fn get(&self, name: &str) -> Result<Option<ValueRef<'_>>, RowError> {
        self.get(name)
    }

    fn each(&self, mut property: impl FnMut(&str, ValueRef<'_>)) -> Result<(), RowError> {
        for found in self.properties() {
            let (name, value) = found?;
            property(name, value);
        }
        Ok(())
    }
}

/// An entity that was just written, at the version it was given: the answer to an insert.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The entity.
    pub entity: &'a Entity,
    /// Its version.
    pub version: Version,
}

impl EntitySource for Written<'_> {
    fn partition_key(&self) -> &str {
        self.entity.partition_key()
    }

    fn row_key(&self) -> &str {
        self.entity.row_key()
    }

    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, name: &str) -> Result<Option<ValueRef<'_>>, RowError> {
        Ok(self.entity.get(name).map(ValueRef::from))
    }

    fn each(&self, mut property: impl FnMut(&str, ValueRef<'_>)) -> Result<(), RowError> {
        for (name, value) in self.entity.properties() {
            property(name, ValueRef::from(value));
        }
        Ok(())
    }
}
