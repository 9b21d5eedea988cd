//! From keys, version and properties to a Rust value.

use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::SerdeError;
use super::values::Digits;
use super::{DATE_TIME, ETAG, ETAG_FIELD, GUID, VALUE};
use crate::entity::datetime::DateTime;
use crate::entity::entity::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::entity::error::RowError;
use crate::entity::etag::ETag;
use crate::entity::value::{ValueRef, ValueType};
use crate::text::Hex;

type Result<T, E = SerdeError> = std::result::Result<T, E>;

/// The largest whole numbers up to which floating points hold every one.
const EXACT_IN_F32: u64 = 1 << 24;
const EXACT_IN_F64: u64 = 1 << 53;

/// What a field is read from.
#[derive(Clone, Copy)]
enum Shown<'de> {
    Value(ValueRef<'de>),
    ETag(ETag),
}

/// Reads an entity as a map: of its keys, what its version shows, and its properties.
pub(super) fn entity<'de>(
    (partition_key, row_key): (&'de str, &'de str),
    (timestamp, tag): (Option<DateTime>, Option<ETag>),
    properties: impl Iterator<Item = Result<(&'de str, ValueRef<'de>), RowError>>,
) -> impl Deserializer<'de, Error = SerdeError> {
    let system = [
        Some((PARTITION_KEY, Shown::Value(ValueRef::String(partition_key)))),
        Some((ROW_KEY, Shown::Value(ValueRef::String(row_key)))),
        timestamp.map(|instant| (TIMESTAMP, Shown::Value(ValueRef::DateTime(instant)))),
        tag.map(|tag| (ETAG_FIELD, Shown::ETag(tag))),
    ];
    let properties = properties.map(|property| {
        let (name, value) = property?;
        Ok((name, Shown::Value(value)))
    });
    Whole { entries: system.into_iter().flatten().map(Ok).chain(properties) }
}

struct Whole<I> {
    entries: I,
}

impl<'de, I: Iterator<Item = Result<(&'de str, Shown<'de>)>>> Deserializer<'de> for Whole<I> {
    type Error = SerdeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_map(Entries { entries: self.entries, value: None })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Entries<'de, I> {
    entries: I,
    /// Name and value of the entry whose name was taken.
    value: Option<(&'de str, Shown<'de>)>,
}

impl<'de, I: Iterator<Item = Result<(&'de str, Shown<'de>)>>> MapAccess<'de> for Entries<'de, I> {
    type Error = SerdeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.value = self.entries.next().transpose()?;
        match self.value {
            Some((name, _)) => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        match self.value.take() {
            Some((name, value)) => seed.deserialize(value).map_err(|error| error.in_field(name)),
            None => Err(SerdeError::custom("a value was asked for before its name")),
        }
    }
}

impl<'de> Shown<'de> {
    /// The value as a floating point, if a type that holds whole numbers up to `exact` holds it.
    fn float(self, exact: u64, fits: impl Fn(f64) -> bool) -> Result<Option<f64>> {
        let (number, unexpected) = match self {
            Self::Value(ValueRef::Double(value)) if value.is_nan() || fits(value) => {
                return Ok(Some(value));
            }
            Self::Value(ValueRef::Double(value)) => return Err(inexact(Unexpected::Float(value))),
            Self::Value(ValueRef::Int32(value)) => (i64::from(value), value.into()),
            Self::Value(ValueRef::Int64(value)) => (value, value),
            _ => return Ok(None),
        };
        if number.unsigned_abs() <= exact {
            return Ok(Some(number as f64));
        }
        Err(inexact(Unexpected::Signed(unexpected)))
    }
}

#[cold]
fn inexact(found: Unexpected<'_>) -> SerdeError {
    Error::invalid_value(found, &"a number that the floating point holds exactly")
}

impl<'de> Deserializer<'de> for Shown<'de> {
    type Error = SerdeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Self::Value(ValueRef::String(text)) => visitor.visit_borrowed_str(text),
            // Who keeps it for later, as `flatten` does, makes a `Vec<u8>` of a sequence alone.
            Self::Value(ValueRef::Binary(bytes)) => {
                let mut elements = SeqDeserializer::<_, SerdeError>::new(bytes.iter().copied());
                let value = visitor.visit_seq(&mut elements)?;
                elements.end()?;
                Ok(value)
            }
            Self::Value(ValueRef::Boolean(value)) => visitor.visit_bool(value),
            Self::Value(ValueRef::DateTime(value)) => visitor.visit_string(value.to_string()),
            Self::Value(ValueRef::Double(value)) => visitor.visit_f64(value),
            Self::Value(ValueRef::Guid(value)) => visitor.visit_string(value.to_string()),
            Self::Value(ValueRef::Int32(value)) => visitor.visit_i32(value),
            Self::Value(ValueRef::Int64(value)) => visitor.visit_i64(value),
            Self::ETag(tag) => visitor.visit_string(tag.to_string()),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let fits = |value: f64| f64::from(value as f32) == value;
        match self.float(EXACT_IN_F32, fits)? {
            Some(value) => visitor.visit_f32(value as f32),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.float(EXACT_IN_F64, |_| true)? {
            Some(value) => visitor.visit_f64(value),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        newtype: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        match (newtype, self) {
            (DATE_TIME, Self::Value(ValueRef::DateTime(value))) => visitor.visit_u64(value.ticks()),
            (GUID, Self::Value(ValueRef::Guid(value))) => visitor.visit_bytes(value.as_bytes()),
            (GUID, Self::Value(ValueRef::Binary(bytes))) => {
                Err(Error::invalid_type(Unexpected::Bytes(bytes), &visitor))
            }
            (ETAG, Self::ETag(tag)) => visitor.visit_u64(tag.0.ticks()),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Self::Value(ValueRef::Binary(bytes)) => visitor.visit_borrowed_bytes(bytes),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self {
            typed if name == VALUE => visitor.visit_enum(Typed(typed)),
            Self::Value(ValueRef::String(text)) => visitor.visit_enum(text.into_deserializer()),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 char str string unit unit_struct seq
        tuple tuple_struct map struct identifier
    }
}

/// A value as the enum that a `Value` is: its type is the variant.
struct Typed<'de>(Shown<'de>);

impl<'de> EnumAccess<'de> for Typed<'de> {
    type Error = SerdeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let variant = match self.0 {
            Shown::Value(value) => value.value_type(),
            Shown::ETag(_) => ValueType::String,
        };
        let name = variant.edm_name().trim_start_matches("Edm.");
        Ok((seed.deserialize(BorrowedStrDeserializer::<SerdeError>::new(name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Typed<'de> {
    type Error = SerdeError;

    /// As in formats for people, one of which an entity is.
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        let text = match self.0 {
            Shown::Value(ValueRef::Int64(number)) => number.to_string(),
            Shown::Value(ValueRef::Double(number)) => Digits(&number).to_string(),
            Shown::Value(ValueRef::Binary(bytes)) => Hex(bytes).to_string(),
            as_it_is => return seed.deserialize(as_it_is),
        };
        seed.deserialize(text.into_deserializer())
    }

    fn unit_variant(self) -> Result<()> {
        Err(Error::invalid_type(Unexpected::NewtypeVariant, &"a unit variant"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        Err(Error::invalid_type(Unexpected::NewtypeVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        Err(Error::invalid_type(Unexpected::NewtypeVariant, &visitor))
    }
}
