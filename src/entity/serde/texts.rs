//! DateTime, Guid and ETag in serde: their type in an entity, their text in formats for people,
//! numbers and bytes in others. Versions and filters, which an entity has as texts too.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{DATE_TIME, ETAG, GUID};
use crate::entity::datetime::DateTime;
use crate::entity::etag::{ETag, IfMatch};
use crate::entity::filter::Filter;
use crate::entity::guid::Guid;
use crate::version::Version;

/// With the feature `serde`: ISO text in JSON and its like, ticks in binary formats.
impl Serialize for DateTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_newtype_struct(DATE_TIME, &Text(self))
        } else {
            serializer.serialize_newtype_struct(DATE_TIME, &self.ticks())
        }
    }
}

/// With the feature `serde`: canonical text in JSON and its like, bytes in binary formats.
impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_newtype_struct(GUID, &Text(self))
        } else {
            serializer.serialize_newtype_struct(GUID, self.as_bytes())
        }
    }
}

/// With the feature `serde`: its text. In an entity it is not stored.
impl Serialize for ETag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(ETAG, &Text(self))
    }
}

/// With the feature `serde`: its ticks, in JSON and its like as a text, since there many read a number as a
/// floating point, which is another version. [`ETag`] is the text for HTTP clients.
///
/// ```
/// use tablestone::Version;
///
/// let version = Version::from_ticks(128_673_484_544_838_174);
/// assert_eq!(serde_json::to_string(&version)?, r#""128673484544838174""#);
/// assert_eq!(serde_json::from_str::<Version>(r#""128673484544838174""#)?, version);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.ticks())
        }
    }
}

/// With the feature `serde`: its text. One that was built beyond the limits of texts, which could not be read
/// again, is an error ([`Filter::MAX_NESTING`], [`Filter::MAX_TEXT_BYTES`]).
///
/// ```
/// use tablestone::Filter;
///
/// let adults: Filter = serde_json::from_str(r#""Age ge 18""#)?;
/// assert_eq!(adults, Filter::property("Age").ge(18));
/// assert_eq!(serde_json::to_string(&adults)?, r#""Age ge 18""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        Self::parse(&text).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

/// What is written as its text.
pub(super) struct Text<'a, T>(pub(super) &'a T);

impl<T: fmt::Display> Serialize for Text<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// Reads a text as what it is of.
pub(crate) fn deserialize_text<'de, T, D>(from: D, expected: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    from.deserialize_str(TextVisitor { expected, of: PhantomData })
}

struct TextVisitor<T> {
    expected: &'static str,
    of: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// With the feature `serde`.
impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserialize_text(deserializer, "the ticks of a version as text")
        } else {
            u64::deserialize(deserializer).map(Self::from_ticks)
        }
    }
}

/// With the feature `serde`.
impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer, "a filter")
    }
}

/// With the feature `serde`.
impl<'de> Deserialize<'de> for DateTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(DATE_TIME, DateTimeVisitor)
    }
}

struct DateTimeVisitor;

impl<'de> Visitor<'de> for DateTimeVisitor {
    type Value = DateTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DateTime")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<DateTime, D::Error> {
        if inner.is_human_readable() {
            inner.deserialize_str(self)
        } else {
            inner.deserialize_u64(self)
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DateTime, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, ticks: u64) -> Result<DateTime, E> {
        DateTime::from_ticks(ticks).ok_or_else(|| E::custom("ticks after the year 9999"))
    }
}

/// With the feature `serde`.
impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(GUID, GuidVisitor)
    }
}

struct GuidVisitor;

impl<'de> Visitor<'de> for GuidVisitor {
    type Value = Guid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Guid")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Guid, D::Error> {
        if inner.is_human_readable() {
            inner.deserialize_str(self)
        } else {
            <[u8; 16]>::deserialize(inner).map(Guid::from_bytes)
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Guid, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Guid, E> {
        bytes.try_into().map(Guid::from_bytes).map_err(|_| E::invalid_length(bytes.len(), &self))
    }
}

/// With the feature `serde`.
impl<'de> Deserialize<'de> for ETag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(ETAG, ETagVisitor)
    }
}

struct ETagVisitor;

impl<'de> Visitor<'de> for ETagVisitor {
    type Value = ETag;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an ETag")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<ETag, D::Error> {
        inner.deserialize_str(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ETag, E> {
        match text.parse().map_err(E::custom)? {
            IfMatch::Version(version) => Ok(ETag(version)),
            IfMatch::Any | IfMatch::Unknown => Err(E::custom("an ETag of another make")),
        }
    }

    fn visit_u64<E: Error>(self, ticks: u64) -> Result<ETag, E> {
        Ok(ETag(Version::from_ticks(ticks)))
    }
}
