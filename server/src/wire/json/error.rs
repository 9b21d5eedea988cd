//! [`JsonError`]: what is wrong with a client's JSON, and where.

use crate::error::{ErrorCode, ServiceError};
use crate::wire::edm::ValueError;

/// Why a JSON body was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of the JSON: {kind}")]
pub struct JsonError {
    /// Where in the body, in bytes from 0.
    pub offset: usize,
    /// What is wrong there.
    pub kind: JsonErrorKind,
}

/// What is wrong with a JSON body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The text is not JSON.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A property's value is an object or an array.
    #[error("property {name:?}: expected a string, number, true, false or null")]
    Nested {
        /// The property.
        name: String,
    },
    /// A member is twice in the object.
    #[error("{name:?} is specified more than once")]
    Duplicate {
        /// The member.
        name: String,
    },
    /// There are many times more members than an entity has properties.
    #[error("more than {limit} members")]
    TooManyMembers {
        /// How many are taken.
        limit: usize,
    },
    /// A property's name is longer than any that an entity can have.
    #[error("a property's name of more than {limit} bytes")]
    NameTooLong {
        /// How long it may be to be looked at.
        limit: usize,
    },
    /// An annotation names no type of the data model.
    #[error("property {name:?}: expected a type such as Edm.String, found {found:?}")]
    UnknownType {
        /// The property.
        name: String,
        /// What the annotation says.
        found: String,
    },
    /// A value is not of its type.
    #[error("property {name:?}: {source}")]
    Value {
        /// The property.
        name: String,
        /// What is wrong.
        source: ValueError,
    },
    /// PartitionKey, RowKey or TableName is no string.
    #[error("expected a string for {name}")]
    NotText {
        /// Which.
        name: &'static str,
    },
}

impl From<JsonError> for ServiceError {
    fn from(error: JsonError) -> Self {
        match &error.kind {
            JsonErrorKind::Duplicate { .. } => ErrorCode::DuplicatePropertiesSpecified.error(),
            JsonErrorKind::NameTooLong { .. } => ErrorCode::PropertyNameTooLong.error(),
            JsonErrorKind::TooManyMembers { .. } => ErrorCode::TooManyProperties.error(),
            JsonErrorKind::NotText { name: "PartitionKey" | "RowKey" } => {
                ErrorCode::InvalidInput.error()
            }
            JsonErrorKind::Value { name, source } => {
                source.told(name).unwrap_or_else(|| source.code().because(&error))
            }
            _ => ErrorCode::InvalidInput.because(error),
        }
    }
}
