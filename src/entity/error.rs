//! What can be wrong with an entity ([`EntityError`]), with stored bytes that should be one
//! ([`RowError`], [`NotAnEntity`]), and with a text that should be a value ([`ParseError`]).

use std::fmt;

use super::value::ValueType;

/// An entity that breaks a rule of the data model: it was not stored (R-D01, R-D02, R-D04).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntityError {
    /// It was added to a batch on another partition.
    #[error("its PartitionKey is {found:?}; the batch is on partition {expected:?}")]
    OtherPartition {
        /// The batch's PartitionKey.
        expected: Box<str>,
        /// The entity's.
        found: Box<str>,
    },
    /// It has more properties of its own than an entity may have; also as a merge's result.
    #[error("the entity has {found} properties, over the limit of {limit}")]
    TooManyProperties {
        /// How many it has, keys and Timestamp not counted.
        found: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A property has the empty string for a name.
    #[error("a property's name is empty")]
    NameEmpty,
    /// A property's name is no identifier.
    #[error("property {name:?}: its name may not have {character:?} at column {column}")]
    NameInvalid {
        /// The name, cut if it is long.
        name: Box<str>,
        /// Which character, counted from 1.
        column: usize,
        /// The character.
        character: char,
    },
    /// A property's name is too long.
    #[error("property {name:?}: its name has {length} characters, over the limit of {limit}")]
    NameTooLong {
        /// The name, cut.
        name: Box<str>,
        /// Its length in UTF-16 code units.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A property has the name of a key.
    #[error("property {name:?}: the name is the system's; keys are no properties")]
    NameReserved {
        /// The name.
        name: Box<str>,
    },
    /// Two properties have the same name.
    #[error("property {name:?}: another has the same name")]
    NameTwice {
        /// The name.
        name: Box<str>,
    },
    /// A String is too long.
    #[error("property {name:?}: the String has {length} UTF-16 units, over the limit of {limit}")]
    StringTooLong {
        /// The property's name.
        name: Box<str>,
        /// Its length in UTF-16 code units.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A Binary is too long.
    #[error("property {name:?}: the Binary has {length} bytes, over the limit of {limit}")]
    BinaryTooLong {
        /// The property's name.
        name: Box<str>,
        /// Its length in bytes.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The entity is too large in all; also as a merge's result.
    #[error("the entity has a size of {size} bytes, over the limit of {limit}")]
    TooLarge {
        /// Its size by the formula of [`Entity::size`](crate::Entity::size).
        size: usize,
        /// How large it may be.
        limit: usize,
    },
}

/// Stored bytes that are no entity: written by other means than the entity calls, by a later
/// version of this crate, or damaged. Offsets are in bytes from the start of the stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A later version of this crate wrote it.
    #[error("the row has format {found}; this build reads formats up to {supported}")]
    UnsupportedFormat {
        /// The format it states.
        found: u8,
        /// The newest this build knows.
        supported: u8,
    },
    /// Its structure does not hold together.
    #[error("the row is damaged at offset {offset}: expected {expected}, found {found}")]
    Damaged {
        /// Where.
        offset: usize,
        /// What a row has there.
        expected: &'static str,
        /// The number that is there.
        found: u64,
    },
    /// A value's length does not fit its type.
    #[error("the row is damaged at offset {offset}: a {value_type} of {length} bytes")]
    ValueLength {
        /// Where the value starts.
        offset: usize,
        /// The type.
        value_type: ValueType,
        /// How long it is.
        length: usize,
    },
    /// A name or a String is not UTF-8.
    #[error("the row is damaged at offset {offset}: {what} is not UTF-8")]
    NotUtf8 {
        /// What is not.
        what: &'static str,
        /// Where the first byte is that fits no character.
        offset: usize,
    },
    /// The row's PartitionKey or RowKey is not UTF-8, as an entity's is.
    #[error("the {key} is not UTF-8")]
    KeyNotUtf8 {
        /// Which key.
        key: &'static str,
    },
}

/// A stored row that is no entity, and which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "row ({:?}, {:?}) of table {table:?} is no entity",
    String::from_utf8_lossy(partition_key),
    String::from_utf8_lossy(row_key)
)]
#[non_exhaustive]
pub struct NotAnEntity {
    /// The table's name.
    pub table: Box<str>,
    /// The row's PartitionKey.
    pub partition_key: Box<[u8]>,
    /// The row's RowKey.
    pub row_key: Box<[u8]>,
    /// What is wrong with its value.
    pub source: RowError,
}

/// A text that is not what it should be: a [`DateTime`](crate::DateTime), [`Guid`](crate::Guid),
/// [`ETag`](crate::ETag), [`Version`](crate::Version) or [`Continuation`](crate::Continuation).
///
/// ```
/// use tablestone::Guid;
/// let error = "c9da6455-213d-42c9-9a79-3e9149a5783x".parse::<Guid>().unwrap_err();
/// assert_eq!(error.column(), 36);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    what: &'static str,
    text: Box<str>,
    expected: Box<str>,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    At { column: usize, found: Option<char> },
    OutOfRange,
}

impl ParseError {
    pub(crate) fn new(
        what: &'static str,
        text: &str,
        column: usize,
        expected: Box<str>,
        found: Option<char>,
    ) -> Self {
        Self { what, text: cut(text), expected, place: Place::At { column, found } }
    }

    pub(super) fn out_of_range(what: &'static str, text: &str, expected: Box<str>) -> Self {
        Self { what, text: cut(text), expected, place: Place::OutOfRange }
    }

    /// The character that does not fit, counted from 1; one past the last if the text ends too
    /// early, 1 if the value is out of range.
    #[must_use]
    pub fn column(&self) -> usize {
        match self.place {
            Place::At { column, .. } => column,
            Place::OutOfRange => 1,
        }
    }

    /// What would fit there.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// Whether the text is of the right form, but its value is outside of the type's range.
    #[must_use]
    pub fn is_out_of_range(&self) -> bool {
        self.place == Place::OutOfRange
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, text, expected, place } = self;
        write!(f, "{text:?} is no {what}: expected {expected}")?;
        match place {
            Place::At { column, found: Some(c) } => write!(f, " at column {column}, found {c:?}"),
            Place::At { column, found: None } => write!(f, " at column {column}, found the end"),
            Place::OutOfRange => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}

/// Characters of a user's text that an error repeats.
const SHOWN: usize = 64;

/// A text short enough to be shown in an error.
pub(super) fn cut(text: &str) -> Box<str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_and_show_only_the_start_of_a_long_text() {
        assert!(size_of::<RowError>() <= 40);
        assert!(size_of::<EntityError>() <= 48);
        let error = "9".repeat(100_000).parse::<crate::DateTime>().unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
    }
}
