//! [`ODataVersion`]: what a part of a batch's answer states of its protocol.
//!
//! Invariant: it is the version that introduced the part's form. Clients that know Atom alone refuse a part that states
//! a later one, although what was asked for is done.

use http::header;

use super::answer::Answer;
use crate::headers::BodyFormat;

/// The version of the data service's protocol that a client has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ODataVersion {
    /// Of Atom, and of answers that never have a body.
    V1,
    /// Of JSON, and of an answer without the entity that would be JSON, had that not been preferred.
    V3,
}

impl ODataVersion {
    pub(super) fn of(format: BodyFormat) -> Self {
        match format {
            BodyFormat::Json(_) => Self::V3,
            BodyFormat::Atom => Self::V1,
        }
    }

    /// That of what an answer has for a body.
    pub(super) fn of_answer(answer: &Answer) -> Self {
        let content_type = answer.headers.iter().find(|(name, _)| name == header::CONTENT_TYPE);
        match content_type {
            Some((_, value)) if value.as_bytes().starts_with(b"application/json") => Self::V3,
            _ => Self::V1,
        }
    }

    pub(super) fn header(self) -> (&'static str, &'static str) {
        let version = match self {
            Self::V1 => "1.0;",
            Self::V3 => "3.0;",
        };
        ("DataServiceVersion", version)
    }
}
