//! [`ClientError`]: why a server did not do what it was asked.

use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

use http::StatusCode;

use crate::error::ErrorCode;

/// Why a call of a [`Client`](super::Client) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no request for what was asked: its address would be too long.
    #[error("there can be no such request to {address}: {source}")]
    Request {
        /// The account's address.
        address: Box<str>,
        /// Why.
        source: http::Error,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("no server answers at {address}: {source}{}", hint(.source))]
    NoAnswer {
        /// The account's address.
        address: Box<str>,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The answer is longer than answers may be.
    #[error("an answer of {address} is longer than {most} bytes")]
    TooLong {
        /// The account's address.
        address: Box<str>,
        /// How long it may be.
        most: u64,
    },
    /// The server refused.
    #[error("{address} refused: {code}: {message}")]
    Refused {
        /// The account's address.
        address: Box<str>,
        /// The status of the answer.
        status: StatusCode,
        /// The error's code.
        code: Box<str>,
        /// What the server says about it.
        message: Box<str>,
        /// Of a transaction, the operation that it is about, from 0.
        index: Option<usize>,
    },
    /// The answer is not of the protocol.
    #[error("the answer of {address} is not that of a table server: {reason}")]
    Answer {
        /// The account's address.
        address: Box<str>,
        /// What was expected.
        reason: Box<str>,
    },
}

impl ClientError {
    /// Whether the server refused with this code.
    #[must_use]
    pub fn is(&self, wanted: ErrorCode) -> bool {
        matches!(self, Self::Refused { code, .. } if **code == *wanted.as_str())
    }

    /// Whether the server has done nothing, and may do it later.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { status: StatusCode::SERVICE_UNAVAILABLE, .. })
    }

    /// Whether the connection ended before there was an answer, as one does of a server that has as many as it may.
    pub(super) fn was_cut(&self) -> bool {
        matches!(self, Self::NoAnswer { source, .. } if is_cut(source))
    }

    /// Whether there was no connection, or it ended before there was an answer.
    pub(super) fn is_unconnected(&self) -> bool {
        matches!(self, Self::NoAnswer { source, .. } if matches!(**source, ureq::Error::Io(_)))
    }

    /// Of a transaction, the operation that the refusal is about, from 0.
    #[must_use]
    pub fn index(&self) -> Option<usize> {
        match self {
            Self::Refused { index, .. } => *index,
            _ => None,
        }
    }
}

fn is_cut(error: &ureq::Error) -> bool {
    let kind = match error {
        ureq::Error::Io(error) => error.kind(),
        _ => return false,
    };
    matches!(kind, ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
}

/// What may be behind an error.
fn hint(error: &ureq::Error) -> &'static str {
    if is_cut(error) {
        " (a server closes connections that are more than its limits.connections)"
    } else {
        ""
    }
}
