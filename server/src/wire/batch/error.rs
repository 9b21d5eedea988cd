//! [`BatchError`]: what is wrong with a batch body, and where.

use crate::error::{ErrorCode, ServiceError};

/// Why a batch body was refused: all are 400 InvalidInput to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of the batch: {kind}")]
pub struct BatchError {
    /// Where in the body, in bytes from 0.
    pub offset: usize,
    /// What is wrong there.
    pub kind: BatchErrorKind,
}

/// What is wrong with a batch body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchErrorKind {
    /// The request's Content-Type names no boundary.
    #[error("expected Content-Type multipart/mixed with a boundary, found {found:?}")]
    NotMultipart {
        /// The Content-Type.
        found: String,
    },
    /// No line of the body is the boundary.
    #[error("expected a line that is the boundary --{boundary}, found none")]
    NoBoundary {
        /// The boundary, without its hyphens.
        boundary: String,
    },
    /// A part is neither a change set nor a request.
    #[error("expected a part of type multipart/mixed or application/http, found {found:?}")]
    PartType {
        /// The part's Content-Type.
        found: String,
    },
    /// A line among headers is none.
    #[error("expected a header, found {found:?}")]
    Header {
        /// The beginning of the line.
        found: String,
    },
    /// A part has more headers than any client sends.
    #[error("more than {limit} headers")]
    TooManyHeaders {
        /// How many are taken.
        limit: usize,
    },
    /// The first line of a request is not method, address and protocol.
    #[error("expected METHOD ADDRESS HTTP/1.1, found {found:?}")]
    RequestLine {
        /// The beginning of the line.
        found: String,
    },
    /// A request's Content-Length is not where its body ends.
    #[error("Content-Length {length} of a request is not followed by a boundary")]
    ContentLength {
        /// The header's value.
        length: String,
    },
    /// The batch has more than one change set, or a query beside a change set or another query.
    #[error("a batch has one change set, or one query alone")]
    SecondPart,
    /// The change set has more operations than allowed.
    #[error("more than {limit} operations in a change set")]
    TooManyOperations {
        /// How many are allowed.
        limit: usize,
    },
}

impl From<BatchError> for ServiceError {
    fn from(error: BatchError) -> Self {
        match error.kind {
            BatchErrorKind::TooManyOperations { limit } => {
                ErrorCode::InvalidInput.because(format_args!(
                    "{}:The batch request operation exceeds the maximum {limit} changes per \
                     change set.",
                    limit.saturating_sub(1)
                ))
            }
            _ => ErrorCode::InvalidInput.because(error),
        }
    }
}
