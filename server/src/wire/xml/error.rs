//! [`XmlError`]: what is wrong with a client's XML.

use crate::error::{ErrorCode, ServiceError};

/// Why an XML document was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// It is not well-formed.
    #[error("the XML is not well-formed at byte {offset}: {reason}")]
    Malformed {
        /// Where, in bytes from 0.
        offset: u64,
        /// What the parser says.
        reason: String,
    },
    /// It is deeper or has more elements than any document of the protocol.
    #[error("the XML has more than {limit} {what}")]
    TooLarge {
        /// What there are too many of.
        what: &'static str,
        /// How many are taken.
        limit: usize,
    },
    /// An element that must be there is not.
    #[error("expected an element {expected} in {parent}, found none")]
    Missing {
        /// The element that lacks it.
        parent: String,
        /// The missing one.
        expected: &'static str,
    },
    /// An element stands where it may not.
    #[error("unexpected element {found} in {parent}")]
    Unexpected {
        /// The element it is in; empty for the document.
        parent: String,
        /// The element.
        found: String,
    },
    /// Text stands where only elements may.
    #[error("expected elements alone in {parent}, found {found:?}")]
    UnexpectedText {
        /// The element it is in.
        parent: String,
        /// The beginning of it.
        found: String,
    },
    /// There are more elements of one name than allowed.
    #[error("more than {limit} elements {name}")]
    TooMany {
        /// Their name.
        name: &'static str,
        /// How many are allowed.
        limit: usize,
    },
    /// An element's number is one that it may not have.
    #[error("element {element}: expected {expected}, found {found:?}")]
    OutOfRange {
        /// The element.
        element: String,
        /// What it may have.
        expected: &'static str,
        /// The beginning of what was found.
        found: String,
    },
    /// An element's text is not what it holds.
    #[error("element {element}: expected {expected}, found {found:?}")]
    Value {
        /// The element.
        element: String,
        /// What it holds.
        expected: &'static str,
        /// The beginning of what was found.
        found: String,
    },
}

impl From<XmlError> for ServiceError {
    fn from(error: XmlError) -> Self {
        match error {
            XmlError::Value { .. } => ErrorCode::InvalidXmlNodeValue.error(),
            _ => ErrorCode::InvalidXmlDocument.error(),
        }
    }
}
