//! [`ClientError`]: why a server did not do what it was asked.

use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

use http::StatusCode;

use crate::error::ErrorCode;

/// The code of Windows where a process has as many sockets as it may.
const WSAEMFILE: i32 = 10_024;

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
    #[error("{} {address}: {source}{}", failed(.source), hint(.source, .address))]
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

/// Whether there was no descriptor for a connection, of those of this process or of all.
fn is_short(error: &ureq::Error) -> bool {
    // By POSIX's names ENFILE and EMFILE, for which the standard library has none.
    let codes = if cfg!(unix) { [23, 24] } else { [WSAEMFILE; 2] };
    let ureq::Error::Io(error) = error else { return false };
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn failed(error: &ureq::Error) -> &'static str {
    if is_short(error) { "cannot open a connection to" } else { "no server answers at" }
}

/// What may be behind an error.
fn hint(error: &ureq::Error, address: &str) -> &'static str {
    if is_cut(error) {
        return " (a server closes connections that are more than its limits.connections)";
    }
    if cfg!(unix) && is_short(error) {
        return " (`ulimit -n` says how many files and connections a process may have open)";
    }
    // Texts are all that these have.
    let (text, is_encrypted) = (error.to_string(), address.starts_with("https:"));
    if is_encrypted && text.contains("InvalidContentType") {
        " (it may serve http, not https)"
    } else if is_encrypted && text.contains("UnknownIssuer") {
        " (--tls-certificate names the certificate of a server that made its own)"
    } else if !is_encrypted && matches!(error, ureq::Error::Protocol(_)) {
        " (it may serve https, not http)"
    } else {
        ""
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A limit of this process is not told as if the server were away.
    #[test]
    fn a_process_without_a_descriptor_left_is_not_the_servers_fault() {
        let told = |code| {
            let source = Box::new(ureq::Error::Io(std::io::Error::from_raw_os_error(code)));
            ClientError::NoAnswer { address: "http://x".into(), source }.to_string()
        };
        let short = told(24);
        assert!(short.starts_with("cannot open a connection to http://x: "), "{short}");
        assert!(short.contains("ulimit -n"), "{short}");
        let refused = told(111);
        assert!(refused.starts_with("no server answers at http://x: "), "{refused}");
        assert!(!refused.contains("ulimit"), "{refused}");
    }
}
