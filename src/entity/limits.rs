//! [`EntityLimits`], and the one place where an entity is held against them (R-D01, R-D02, R-D04).

use super::entity::{Entity, is_system};
use super::error::{EntityError, cut};
use super::value::ValueRef;

/// How large an entity may be that is written: [`Options::entity_limits`](crate::Options::entity_limits).
/// The defaults are the service's.
///
/// What is stored is read, filtered and deleted whatever the limits are, so they may be changed whenever a
/// database is opened. What a merge makes of a stored entity is held against them as what is written whole.
///
/// ```
/// use tablestone::{Database, Entity, EntityError, EntityLimits, Error, Options};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let limits = EntityLimits::default().string_length(64 << 10).properties(100);
/// let database = Database::open(dir.path(), Options::default().entity_limits(limits))?;
/// let notes = database.create_table("notes").wait()?.entities();
/// let note = |length| Entity::new("p", "r").with("Text", "x".repeat(length));
/// notes.insert(&note(64 << 10)).wait()?;
///
/// let Err(Error::Entity { source, .. }) = notes.insert(&note(70_000)).wait() else { panic!() };
/// assert!(matches!(*source, EntityError::StringTooLong { length: 70_000, limit: 65_536, .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityLimits {
    /// Properties of an entity, its keys and Timestamp not counted (R-D02). Default
    /// [`Entity::MAX_PROPERTIES`], 252; at most 255, as a stored row has their number in a byte.
    pub properties: usize,
    /// Length of a property's name in UTF-16 code units (R-D02). Default [`Entity::MAX_NAME_LENGTH`], 255;
    /// at most 64 Ki: whoever reads or reports a property has its name whole.
    pub name_length: usize,
    /// Length of a String in UTF-16 code units (R-D01). Default [`Entity::MAX_STRING_LENGTH`], 32 Ki; at
    /// most 64 Mi.
    pub string_length: usize,
    /// Length of a Binary in bytes (R-D01). Default [`Entity::MAX_BINARY_LENGTH`], 64 KiB; at most 64 MiB.
    pub binary_length: usize,
    /// [Size](Entity::size) of an entity in bytes (R-D04). Default [`Entity::MAX_SIZE`], 1 MiB; at most
    /// 64 MiB. What is stored of it may be one and a half times as much where text is of three bytes a
    /// unit, and is limited by [`Options::value_bytes`](crate::Options::value_bytes) and
    /// [`Options::batch_bytes`](crate::Options::batch_bytes) too.
    pub size: usize,
}

impl Default for EntityLimits {
    fn default() -> Self {
        Self {
            properties: Entity::MAX_PROPERTIES,
            name_length: Entity::MAX_NAME_LENGTH,
            string_length: Entity::MAX_STRING_LENGTH,
            binary_length: Entity::MAX_BINARY_LENGTH,
            size: Entity::MAX_SIZE,
        }
    }
}

macro_rules! setters {
    ($($name:ident)*) => {
        /// The same limits but for one.
        impl EntityLimits {
            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
                #[must_use]
                pub fn $name(mut self, $name: usize) -> Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

setters! { properties name_length string_length binary_length size }

impl EntityLimits {
    /// The largest that a database may have, so that nothing stored is larger, whatever the limits were when it
    /// was written.
    pub const LARGEST: Self = Self {
        properties: u8::MAX as usize,
        name_length: 64 << 10,
        string_length: 64 << 20,
        binary_length: 64 << 20,
        size: 64 << 20,
    };

    /// What must hold of limits that a database has, and how that is said.
    pub(crate) fn rules(&self) -> [(bool, &'static str); 5] {
        let within = |limit: usize, largest: usize| (1..=largest).contains(&limit);
        let largest = Self::LARGEST;
        [
            (
                within(self.properties, largest.properties),
                "entity_limits: properties must be 1 to 255",
            ),
            (
                within(self.name_length, largest.name_length),
                "entity_limits: name_length must be 1 to 64 Ki",
            ),
            (
                within(self.string_length, largest.string_length),
                "entity_limits: string_length must be 1 to 64 Mi",
            ),
            (
                within(self.binary_length, largest.binary_length),
                "entity_limits: binary_length must be 1 to 64 MiB",
            ),
            (within(self.size, largest.size), "entity_limits: size must be 1 to 64 MiB"),
        ]
    }

    /// Whether all that is within the other limits is within these.
    pub(crate) fn allow(&self, other: &Self) -> bool {
        self.properties >= other.properties
            && self.name_length >= other.name_length
            && self.string_length >= other.string_length
            && self.binary_length >= other.binary_length
            && self.size >= other.size
    }

    /// Holds an entity against all rules.
    pub(super) fn check<'p>(
        &self,
        partition_key: &str,
        row_key: &str,
        properties: impl ExactSizeIterator<Item = (&'p str, ValueRef<'p>)> + Clone,
    ) -> Result<(), EntityError> {
        self.check_count(properties.len())?;
        // Before each property is looked at, as the service does it.
        self.check_entity_size(partition_key, row_key, properties.clone())?;
        for (name, value) in properties {
            self.check_name(name)?;
            self.check_value(name, value)?;
        }
        Ok(())
    }

    pub(super) fn check_count(&self, found: usize) -> Result<(), EntityError> {
        let limit = self.properties;
        if found > limit { Err(EntityError::TooManyProperties { found, limit }) } else { Ok(()) }
    }

    /// What a property may be called.
    pub(super) fn check_name(&self, name: &str) -> Result<(), EntityError> {
        if is_system(name) {
            return Err(EntityError::NameReserved { name: name.into() });
        }
        self.check_identifier(name)
    }

    /// The rule for C# identifiers, by Unicode's XID classes: a letter or `_`, then letters, digits,
    /// marks and connectors.
    pub(super) fn check_identifier(&self, name: &str) -> Result<(), EntityError> {
        if name.is_empty() {
            return Err(EntityError::NameEmpty);
        }
        let (bytes, limit) = (name.as_bytes(), self.name_length);
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if bytes.len() <= limit
            && bytes.iter().all(plain)
            && !bytes.first().is_some_and(u8::is_ascii_digit)
        {
            return Ok(());
        }
        let fits = |i: usize, c: char| match i {
            0 => c == '_' || unicode_ident::is_xid_start(c),
            _ => unicode_ident::is_xid_continue(c),
        };
        if let Some((i, character)) = name.chars().enumerate().find(|&(i, c)| !fits(i, c)) {
            return Err(EntityError::NameInvalid { name: cut(name), column: i + 1, character });
        }
        match utf16_length(bytes) {
            length if length > limit => {
                Err(EntityError::NameTooLong { name: cut(name), length, limit })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_value(&self, name: &str, value: ValueRef<'_>) -> Result<(), EntityError> {
        match value {
            // Text has no more UTF-16 units than bytes.
            ValueRef::String(text) if text.len() > self.string_length => {
                let (length, limit) = (utf16_length(text.as_bytes()), self.string_length);
                if length > limit {
                    return Err(EntityError::StringTooLong { name: name.into(), length, limit });
                }
                Ok(())
            }
            ValueRef::Binary(bytes) if bytes.len() > self.binary_length => {
                let (length, limit) = (bytes.len(), self.binary_length);
                Err(EntityError::BinaryTooLong { name: name.into(), length, limit })
            }
            _ => Ok(()),
        }
    }

    /// Checks R-D04. Text is only counted if its bytes leave a doubt: it has no more UTF-16 units.
    pub(super) fn check_entity_size<'p>(
        &self,
        partition_key: &str,
        row_key: &str,
        properties: impl Iterator<Item = (&'p str, ValueRef<'p>)> + Clone,
    ) -> Result<(), EntityError> {
        let bound = |(name, value): (&str, ValueRef<'_>)| {
            let bytes = match value {
                ValueRef::String(text) => text.len(),
                ValueRef::Binary(bytes) => bytes.len(),
                _ => 0,
            };
            8 + 2 * name.len() + 2 * bytes + 16
        };
        let keys = 4 + 2 * (partition_key.len() + row_key.len());
        if self.check_size(keys + properties.clone().map(bound).sum::<usize>()).is_ok() {
            return Ok(());
        }
        let size = |(name, value)| property_size(name, value);
        self.check_size(keys_size(partition_key, row_key) + properties.map(size).sum::<usize>())
    }

    pub(super) fn check_size(&self, size: usize) -> Result<(), EntityError> {
        let limit = self.size;
        if size > limit { Err(EntityError::TooLarge { size, limit }) } else { Ok(()) }
    }
}

impl Entity {
    /// Properties an entity may have by default, its keys and Timestamp not counted (R-D02).
    pub const MAX_PROPERTIES: usize = 252;
    /// Default limit of a property's name in UTF-16 code units (R-D02).
    pub const MAX_NAME_LENGTH: usize = 255;
    /// Default limit of a String in UTF-16 code units: 64 KiB of them (R-D01).
    pub const MAX_STRING_LENGTH: usize = 32 << 10;
    /// Default limit of a Binary in bytes (R-D01).
    pub const MAX_BINARY_LENGTH: usize = 64 << 10;
    /// Default limit of an entity's [size](Self::size) in bytes (R-D04).
    pub const MAX_SIZE: usize = 1 << 20;

    /// The size that [`EntityLimits::size`] limits, in bytes, as the service counts (R-D04):
    /// 4, and 2 for each UTF-16 unit of the keys; for each property 8, 2 for each unit of its name,
    /// and the value: for a String 4 and 2 for each unit, for a Binary 4 and its bytes, for
    /// DateTime, Double and Int64 8, Int32 4, Guid 16, Boolean 1. What is stored is smaller, unless it is
    /// mostly text of three bytes a unit.
    ///
    /// ```
    /// use tablestone::Entity;
    /// let entity = Entity::new("p", "r").with("Name", "Karl");
    /// assert_eq!(entity.size(), 4 + 2 * 2 + 8 + 2 * 4 + 4 + 2 * 4);
    /// ```
    #[must_use]
    pub fn size(&self) -> usize {
        let property = |(name, value)| property_size(name, ValueRef::from(value));
        keys_size(self.partition_key(), self.row_key())
            + self.properties().map(property).sum::<usize>()
    }

    /// Whether the entity may be stored within the default limits: every write checks it, within those of
    /// the database, before anything else. The limits on the length of keys are the database's, see
    /// [`Options::key_bytes`](crate::Options::key_bytes).
    ///
    /// # Errors
    /// [`EntityError`], one variant for each rule; of several broken ones the first found.
    pub fn validate(&self) -> Result<(), EntityError> {
        self.validate_within(&EntityLimits::default())
    }

    /// Whether the entity may be stored in a database of these limits.
    ///
    /// ```
    /// use tablestone::{Entity, EntityError, EntityLimits};
    /// let pair = Entity::new("p", "r").with("A", 1).with("B", 2);
    /// let error = pair.validate_within(&EntityLimits::default().properties(1));
    /// assert_eq!(error, Err(EntityError::TooManyProperties { found: 2, limit: 1 }));
    /// ```
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn validate_within(&self, limits: &EntityLimits) -> Result<(), EntityError> {
        let properties = self.properties().map(|(name, value)| (name, value.borrowed()));
        limits.check(self.partition_key(), self.row_key(), properties)
    }
}

/// What the keys and the entity itself add to its size.
pub(super) fn keys_size(partition_key: &str, row_key: &str) -> usize {
    4 + 2 * (utf16_length(partition_key.as_bytes()) + utf16_length(row_key.as_bytes()))
}

/// What a property adds to the size of its entity.
pub(super) fn property_size(name: &str, value: ValueRef<'_>) -> usize {
    let value = match value {
        ValueRef::String(text) => 2 * utf16_length(text.as_bytes()) + 4,
        ValueRef::Binary(bytes) => bytes.len() + 4,
        ValueRef::DateTime(_) | ValueRef::Double(_) | ValueRef::Int64(_) => 8,
        ValueRef::Guid(_) => 16,
        ValueRef::Int32(_) => 4,
        ValueRef::Boolean(_) => 1,
    };
    8 + 2 * utf16_length(name.as_bytes()) + value
}

/// UTF-16 code units of a UTF-8 text: one for each character's first byte, two where that begins
/// a character of four bytes.
pub(super) fn utf16_length(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(byte & 0xC0 != 0x80) + usize::from(byte >= 0xF0)).sum()
}

#[cfg(test)]
mod tests;
