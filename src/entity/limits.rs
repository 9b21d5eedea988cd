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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entity::{DateTime, Guid};

    fn entity() -> Entity {
        Entity::new("p", "r")
    }

    /// R-D02, C-11: 252 properties are accepted, 253 refused.
    #[test]
    fn r_d02_the_number_of_properties() {
        let of = |n: usize| (0..n).fold(entity(), |e, i| e.with(format!("P{i}"), true));
        assert_eq!(of(252).validate(), Ok(()));
        let error = EntityError::TooManyProperties { found: 253, limit: 252 };
        assert_eq!(of(253).validate(), Err(error));
    }

    /// R-D02, C-11: names are identifiers of at most 255 characters.
    #[test]
    fn r_d02_names_are_identifiers() {
        let check = |name: &str| entity().with(name, 1).validate();
        for name in ["A", "_", "a1", "_1", "Überschrift", "名前", "a\u{301}", "a\u{203F}b", "𝒳"]
        {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let invalid = [("a-b", 2, '-'), ("1a", 1, '1'), ("a b", 2, ' '), ("a.b", 2, '.')];
        for (name, column, character) in invalid {
            let error = EntityError::NameInvalid { name: name.into(), column, character };
            assert_eq!(check(name), Err(error));
        }
        for name in ["-", "\u{301}a", "a\0", "a\u{200B}", "@a", "a€"] {
            assert!(matches!(check(name), Err(EntityError::NameInvalid { .. })), "{name:?}");
        }
        assert_eq!(check(""), Err(EntityError::NameEmpty));
        for name in ["PartitionKey", "RowKey"] {
            assert_eq!(check(name), Err(EntityError::NameReserved { name: name.into() }));
        }
        assert_eq!(check("partitionkey"), Ok(()));
        assert_eq!(entity().with("Timestamp", 1).validate(), Ok(()), "it is ignored");
        // Characters of two UTF-16 units and four bytes count as two.
        for (name, length) in [("a", 1), ("é", 1), ("名", 1), ("𝒳", 2)] {
            let fits = name.repeat(255 / length);
            assert_eq!(check(&fits), Ok(()));
            match check(&format!("{fits}{name}")) {
                Err(EntityError::NameTooLong { length: found, limit: 255, .. }) => {
                    assert_eq!(found, 255 / length * length + length);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// R-D01, C-23: 32 Ki UTF-16 units of text, whatever they are in UTF-8; 64 KiB of bytes.
    #[test]
    fn r_d01_lengths_of_strings_and_binaries() {
        for (text, units) in [("a", 1), ("é", 1), ("名", 1), ("𝒳", 2)] {
            let fits = text.repeat(32_768 / units);
            assert_eq!(entity().with("S", fits.as_str()).validate(), Ok(()));
            let length = 32_768 + units;
            let over = entity().with("S", fits + text).validate();
            let error = EntityError::StringTooLong { name: "S".into(), length, limit: 32_768 };
            assert_eq!(over, Err(error));
        }
        assert_eq!(entity().with("B", vec![0; 65_536]).validate(), Ok(()));
        let error = EntityError::BinaryTooLong { name: "B".into(), length: 65_537, limit: 65_536 };
        assert_eq!(entity().with("B", vec![0; 65_537]).validate(), Err(error));
    }

    /// R-D04, C-21: the formula, part by part.
    #[test]
    fn r_d04_the_size_is_that_of_the_formula() {
        assert_eq!(Entity::new("", "").size(), 4);
        assert_eq!(Entity::new("ä𝒳", "abc").size(), 4 + 2 * (3 + 3));
        let bare = entity().size();
        let of = |name: &str, value: crate::Value| entity().with(name, value).size() - bare;
        assert_eq!(of("Na", "𝒳a".into()), 8 + 2 * 2 + 2 * 3 + 4);
        assert_eq!(of("Nä", vec![0; 5].into()), 8 + 2 * 2 + 5 + 4);
        assert_eq!(of("N", true.into()), 8 + 2 + 1);
        assert_eq!(of("N", DateTime::MIN.into()), 8 + 2 + 8);
        assert_eq!(of("N", 1.5.into()), 8 + 2 + 8);
        assert_eq!(of("N", 1i64.into()), 8 + 2 + 8);
        assert_eq!(of("N", 1.into()), 8 + 2 + 4);
        assert_eq!(of("N", Guid::default().into()), 8 + 2 + 16);
    }

    /// R-D04: an entity of exactly 1 MiB is accepted, one byte more refused.
    #[test]
    fn r_d04_the_size_of_an_entity() {
        let of = |last: usize| {
            let mut entity = entity();
            for i in 0..15 {
                entity.set(format!("B{i:02}"), vec![0; 65_536]);
            }
            entity.set("Last", vec![0; last]);
            entity
        };
        let rest = (1 << 20) - of(0).size();
        assert_eq!((of(rest).size(), of(rest).validate()), (1 << 20, Ok(())));
        let error = EntityError::TooLarge { size: (1 << 20) + 1, limit: 1 << 20 };
        assert_eq!(of(rest + 1).validate(), Err(error));
    }

    proptest! {
        #[test]
        fn utf16_units_are_counted_in_utf8(text in any::<String>()) {
            prop_assert_eq!(utf16_length(text.as_bytes()), text.encode_utf16().count());
        }
    }
}
