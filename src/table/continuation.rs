//! [`Continuation`]: where a query goes on, as keys or as text.
//!
//! The text of a continuation is both keys in hexadecimal with a dot between them; it is never
//! empty, and every pair of keys has exactly one.

use std::fmt;
use std::str::FromStr;

use crate::entity::ParseError;
#[cfg(feature = "serde")]
use crate::entity::deserialize_text;
use crate::text::{Hex, Shown};

/// Where a query goes on: the first key that was not examined (R-E12).
///
/// It is plain data. It stays valid when the database is restarted or compacted and when the row
/// it names is deleted (R-E13): the query goes on at the next row there is.
///
/// ```
/// use tablestone::Continuation;
/// let next = Continuation::new("Sales", "00042");
/// assert_eq!(next.partition_key(), b"Sales");
///
/// // As text: letters, digits and a dot, to be stored or handed to a client.
/// assert_eq!(next.to_string(), "53616c6573.3030303432");
/// assert_eq!(next.to_string().parse(), Ok(next));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Continuation {
    partition_key: Vec<u8>,
    row_key: Vec<u8>,
}

impl Continuation {
    /// A continuation at these keys, inclusive.
    #[must_use]
    pub fn new(partition_key: impl Into<Vec<u8>>, row_key: impl Into<Vec<u8>>) -> Self {
        Self { partition_key: partition_key.into(), row_key: row_key.into() }
    }

    /// The next PartitionKey.
    #[must_use]
    pub fn partition_key(&self) -> &[u8] {
        &self.partition_key
    }

    /// The next RowKey.
    #[must_use]
    pub fn row_key(&self) -> &[u8] {
        &self.row_key
    }

    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.partition_key, self.row_key)
    }
}

impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", Hex(&self.partition_key), Hex(&self.row_key))
    }
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation")
            .field("partition_key", &Shown(&self.partition_key))
            .field("row_key", &Shown(&self.row_key))
            .finish()
    }
}

impl FromStr for Continuation {
    type Err = ParseError;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (mut keys, mut high) = (vec![Vec::new()], None);
        for (index, found) in text.chars().enumerate() {
            let digit = found.to_digit(16).filter(|_| !found.is_ascii_uppercase());
            match (digit, high.take(), &mut keys[..]) {
                (Some(digit), None, _) => high = Some(digit),
                (Some(low), Some(high), [.., key]) => key.push((high << 4 | low) as u8),
                (None, None, [_]) if found == '.' => keys.push(Vec::new()),
                _ => return Err(error(text, index, Some(found))),
            }
        }
        match <[Vec<u8>; 2]>::try_from(keys) {
            Ok([partition_key, row_key]) if high.is_none() => Ok(Self { partition_key, row_key }),
            _ => Err(error(text, text.chars().count(), None)),
        }
    }
}

/// With the feature `serde`: its text.
///
/// ```
/// use tablestone::Continuation;
///
/// let next = Continuation::new("Sales", "00042");
/// assert_eq!(serde_json::to_string(&next)?, r#""53616c6573.3030303432""#);
/// assert_eq!(serde_json::from_str::<Continuation>(r#""53616c6573.3030303432""#)?, next);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[cfg(feature = "serde")]
impl serde::Serialize for Continuation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// With the feature `serde`.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Continuation {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer, "a continuation")
    }
}

fn error(text: &str, index: usize, found: Option<char>) -> ParseError {
    let expected = "two keys in lower-case hexadecimal, with a dot between them".into();
    ParseError::new("continuation", text, index + 1, expected, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-E12: plain data, also as text; empty keys are keys.
    #[test]
    fn every_continuation_has_a_text_and_no_other_text_is_one() {
        for (pk, rk) in [("", ""), ("a", ""), ("", "b"), ("a.b", "\0"), ("\u{10ffff}", "ä/%")] {
            let continuation = Continuation::new(pk, rk);
            assert_eq!(continuation.to_string().parse(), Ok(continuation));
        }
        let wrong =
            [("", 1), ("61", 3), ("6.61", 2), ("61.6", 5), ("61.61.61", 6), ("6A.", 2), ("é.", 1)];
        for (text, column) in wrong {
            let error = text.parse::<Continuation>().unwrap_err();
            assert_eq!(error.column(), column, "{error}");
        }
    }
}
