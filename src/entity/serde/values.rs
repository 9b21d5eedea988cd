//! Value in serde: an enum whose variants are the eight types.
//!
//! Invariant: every value is read as it was written, in every format. So in formats for people, of whose
//! numbers many readers make a floating point, and which have none for NaN, an Int64 and a Double are texts.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::texts::{Text, deserialize_text};
use crate::entity::datetime::DateTime;
use crate::entity::guid::Guid;
use crate::entity::value::Value;
use crate::text::{Hex, unhex};

/// What derives the form of a [`Value`]; the name is [`VALUE`](super::VALUE).
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "Value", rename = "$tablestone::Value")]
enum Typed {
    String(String),
    #[serde(with = "binary")]
    Binary(Vec<u8>),
    Boolean(bool),
    DateTime(DateTime),
    #[serde(with = "number")]
    Double(f64),
    Guid(Guid),
    Int32(i32),
    #[serde(with = "number")]
    Int64(i64),
}

/// With the feature `serde`: `{"Int32":5}` in JSON, and so on for the eight types, of which each comes back as
/// it was. There an Int64 and a Double are texts, of every digit, and a Binary is hexadecimal. In a struct that
/// becomes an entity it is a property of its type.
///
/// ```
/// use tablestone::Value;
///
/// let text = serde_json::to_string(&[Value::from(5), Value::from(5i64), Value::from(b"\x0f")])?;
/// assert_eq!(text, r#"[{"Int32":5},{"Int64":"5"},{"Binary":"0f"}]"#);
/// assert_eq!(serde_json::from_str::<Vec<Value>>(&text)?[1], Value::Int64(5));
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Typed::serialize(self, serializer)
    }
}

/// With the feature `serde`.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Typed::deserialize(deserializer)
    }
}

/// A value of the type that a variant is of, from what it is in formats for people.
pub(super) fn from_text<E: Error>(variant: &str, text: String) -> Result<Value, E> {
    Ok(match variant {
        "Int64" => Value::Int64(text.parse().map_err(E::custom)?),
        "Double" => Value::Double(text.parse().map_err(E::custom)?),
        "Binary" => Value::Binary(unhex(&text).ok_or_else(|| E::custom(NOT_HEX))?),
        _ => Value::String(text),
    })
}

const NOT_HEX: &str = "expected pairs of hexadecimal digits";

mod number {
    use super::*;

    pub(super) fn serialize<S: Serializer, T: Serialize + fmt::Debug>(
        number: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            Text(&Digits(number)).serialize(to)
        } else {
            number.serialize(to)
        }
    }

    pub(super) fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: Deserialize<'de> + FromStr<Err: fmt::Display>,
    {
        if from.is_human_readable() {
            deserialize_text(from, "a number as text")
        } else {
            T::deserialize(from)
        }
    }
}

mod binary {
    use super::*;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            Text(&Hex(bytes)).serialize(to)
        } else {
            to.serialize_bytes(bytes)
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        if from.is_human_readable() {
            from.deserialize_str(Bytes)
        } else {
            from.deserialize_byte_buf(Bytes)
        }
    }
}

/// The shortest text of a number that is read as the same, of a Double with an exponent where that is shorter.
pub(super) struct Digits<'a, T>(pub(super) &'a T);

impl<T: fmt::Debug> fmt::Display for Digits<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        unhex(text).ok_or_else(|| E::custom(NOT_HEX))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = elements.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}
