//! [`SerdeError`]: why a struct and an entity do not go into each other.

use std::fmt;

use crate::entity::error::RowError;

/// A Rust value that is no entity, or an entity that is not the Rust value asked for.
///
/// With the feature `serde` a struct's fields are an entity's properties, by their names in serde:
///
/// | Rust | property |
/// | --- | --- |
/// | `bool` | Boolean |
/// | `i8`, `i16`, `i32`, `u8`, `u16` | Int32 |
/// | `i64`, `u32`; `u64` that fits | Int64 |
/// | `f32`, `f64` | Double |
/// | text, `char`, an enum's variant without fields | String |
/// | bytes, a sequence of `u8`, an empty one of anything | Binary |
/// | [`DateTime`](crate::DateTime), [`Guid`](crate::Guid) | DateTime, Guid |
/// | [`Value`](crate::Value), but for `#[serde(flatten)]` on the way back | what it is |
/// | [`Version`](crate::Version), [`Continuation`](crate::Continuation), [`Filter`](crate::Filter) | String |
/// | `None`; `()`, to be read back with `#[serde(default)]` | absent |
/// | a newtype | what is in it |
///
/// `PartitionKey` and `RowKey` are the keys. `Timestamp`, and a field `ETag` with the tag of a version, an
/// [`ETag`](crate::ETag) or its text, are read from the version and never stored. Everything else is an error.
/// On the way back an integer may go into any whole number that holds it, into `f32` up to 2^24 and `f64` up to
/// 2^53, below which these hold every one; a Double into `f32` if that holds it exactly, and a DateTime or Guid
/// into a text. In a struct that is flattened, serde makes numbers floating point before it can be asked whether
/// that holds them.
///
/// ```
/// # #[derive(serde::Serialize)]
/// # #[serde(rename_all = "PascalCase")]
/// # struct Person { partition_key: String, row_key: String, age: u64 }
/// use tablestone::{Entity, SerdeError};
///
/// // Person has the fields PartitionKey, RowKey and Age, a u64.
/// let person = Person { partition_key: "Sales".into(), row_key: "1".into(), age: u64::MAX };
/// let refused = Entity::from_serialize(&person);
/// assert!(matches!(refused, Err(SerdeError::OutOfRange { number: u64::MAX, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SerdeError {
    /// The value is no struct or map with names for keys.
    #[error("an entity is made of a struct or of a map with names for keys, not of {shape}")]
    NotAStruct {
        /// What it is.
        shape: &'static str,
    },
    /// A field is nothing that a property can hold.
    #[error("field {field:?}: {shape} cannot be a property")]
    Unsupported {
        /// The field.
        field: Box<str>,
        /// What it is.
        shape: &'static str,
    },
    /// A whole number does not fit an Int64.
    #[error("field {field:?}: {number} does not fit an Int64")]
    OutOfRange {
        /// The field.
        field: Box<str>,
        /// The number.
        number: u64,
    },
    /// The value has no field for a key, or null in it.
    #[error("there is no {0}")]
    KeyMissing(&'static str),
    /// A key is not text.
    #[error("the {0} is not a text")]
    KeyNotText(&'static str),
    /// Two fields have one name.
    #[error("field {field:?} is there twice")]
    Duplicate {
        /// The field.
        field: Box<str>,
    },
    /// A field or the whole is not what its type in Rust needs.
    #[error("{}{message}", In(field))]
    Mismatch {
        /// The field, if it is one.
        field: Option<Box<str>>,
        /// What serde says.
        message: Box<str>,
    },
    /// The stored row is damaged.
    #[error(transparent)]
    Row(#[from] RowError),
}

impl SerdeError {
    /// The field it is about, if it is one.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Unsupported { field, .. }
            | Self::OutOfRange { field, .. }
            | Self::Duplicate { field } => Some(field),
            Self::Mismatch { field, .. } => field.as_deref(),
            Self::KeyMissing(key) | Self::KeyNotText(key) => Some(key),
            Self::NotAStruct { .. } | Self::Row(_) => None,
        }
    }

    /// The error as one of a field, if it does not say of which.
    pub(super) fn in_field(self, name: &str) -> Self {
        match self {
            Self::Mismatch { field: None, message } => {
                Self::Mismatch { field: Some(name.into()), message }
            }
            other => other,
        }
    }
}

struct In<'a>(&'a Option<Box<str>>);

impl fmt::Display for In<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |field| write!(f, "field {field:?}: "))
    }
}

impl serde::ser::Error for SerdeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Mismatch { field: None, message: message.to_string().into() }
    }
}

impl serde::de::Error for SerdeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        serde::ser::Error::custom(message)
    }
}
