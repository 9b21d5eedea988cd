//! From a Rust value to keys and properties.

use serde::ser::{Error, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};
use serde::ser::{SerializeSeq, SerializeTuple};

use super::error::SerdeError;
use super::values::from_text;
use super::{DATE_TIME, ETAG_FIELD, GUID, VALUE};
use crate::entity::entity::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::entity::etag::IfMatch;
use crate::entity::value::Value;

type Result<T, E = SerdeError> = std::result::Result<T, E>;

/// What a struct's fields make of an entity.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) partition_key: Option<String>,
    pub(super) row_key: Option<String>,
    /// Of different names, none of which is the system's.
    pub(super) properties: Vec<(String, Value)>,
}

/// What serde made of a value.
pub(super) enum Made {
    /// Nothing that is stored.
    Null,
    Value(Value),
    /// An Int32, or in a sequence an element of a Binary.
    Byte(u8),
    Fields(Fields),
}

pub(super) fn fields<T: Serialize + ?Sized>(value: &T) -> Result<Fields> {
    match value.serialize(Part { field: None })? {
        Made::Fields(fields) => Ok(fields),
        _ => Err(SerdeError::NotAStruct { shape: "a single value" }),
    }
}

impl Fields {
    fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        if name == TIMESTAMP {
            return Ok(());
        }
        let made = value.serialize(Part { field: Some(name) });
        let value = match made.map_err(|error| error.in_field(name))? {
            // Also where it came as the text that whoever has no field for it got.
            Made::Value(Value::String(text)) if name == ETAG_FIELD && is_tag(&text) => {
                return Ok(());
            }
            Made::Value(value) => value,
            Made::Byte(byte) => Value::Int32(byte.into()),
            Made::Null | Made::Fields(_) => return Ok(()),
        };
        let duplicate = || Err(SerdeError::Duplicate { field: name.into() });
        let key = match name {
            PARTITION_KEY => (&mut self.partition_key, PARTITION_KEY),
            ROW_KEY => (&mut self.row_key, ROW_KEY),
            _ if self.properties.iter().any(|(other, _)| other == name) => return duplicate(),
            _ => {
                self.properties.push((name.to_owned(), value));
                return Ok(());
            }
        };
        match (value, key) {
            (Value::String(_), (Some(_), _)) => duplicate(),
            (Value::String(text), (key, _)) => {
                *key = Some(text);
                Ok(())
            }
            (_, (_, name)) => Err(SerdeError::KeyNotText(name)),
        }
    }
}

/// The fields of a struct, or the entries of a map, one after the other.
#[derive(Default)]
pub(super) struct Collect {
    fields: Fields,
    /// A map's key whose value follows.
    key: String,
}

impl SerializeStruct for Collect {
    type Ok = Made;
    type Error = SerdeError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        self.fields.add(name, value)
    }

    fn end(self) -> Result<Made> {
        Ok(Made::Fields(self.fields))
    }
}

impl SerializeMap for Collect {
    type Ok = Made;
    type Error = SerdeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        match key.serialize(Part { field: Some("") }) {
            Ok(Made::Value(Value::String(name))) => self.key = name,
            _ => return Err(SerdeError::NotAStruct { shape: "a map with other keys" }),
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.fields.add(&std::mem::take(&mut self.key), value)
    }

    fn end(self) -> Result<Made> {
        Ok(Made::Fields(self.fields))
    }
}

/// The whole value, or one of its fields.
#[derive(Clone, Copy)]
struct Part<'n> {
    field: Option<&'n str>,
}

impl<'n> Part<'n> {
    fn unsupported(self, shape: &'static str) -> SerdeError {
        match self.field {
            Some(name) => SerdeError::Unsupported { field: name.into(), shape },
            None => SerdeError::NotAStruct { shape },
        }
    }

    /// The fields of the whole; within a field there are none.
    fn collect(self, shape: &'static str) -> Result<Collect> {
        if self.field.is_some() { Err(self.unsupported(shape)) } else { Ok(Collect::default()) }
    }

    fn bytes(self, len: usize) -> Bytes<'n> {
        // The length is a hint, and not ours to believe.
        Bytes { part: self, bytes: Vec::with_capacity(len.min(64 << 10)) }
    }
}

/// A value of one of our types, which came as text.
fn special(newtype: &str, made: Made) -> Result<Made> {
    let text = match made {
        Made::Value(Value::String(text)) => text,
        other => return Ok(other),
    };
    Ok(match newtype {
        DATE_TIME => Made::Value(Value::DateTime(text.parse().map_err(SerdeError::custom)?)),
        GUID => Made::Value(Value::Guid(text.parse().map_err(SerdeError::custom)?)),
        _ => Made::Value(Value::String(text)),
    })
}

/// Whether it is the tag of a version.
fn is_tag(text: &str) -> bool {
    matches!(text.parse(), Ok(IfMatch::Version(_)))
}

/// What becomes of simple values, by the names of serde's methods.
macro_rules! values {
    ($($method:ident($type:ty) |$value:ident| $made:expr;)*) => {$(
        fn $method(self, $value: $type) -> Result<Made> {
            Ok(Made::Value($made.into()))
        }
    )*};
}

impl<'n> Serializer for Part<'n> {
    type Ok = Made;
    type Error = SerdeError;
    type SerializeSeq = Bytes<'n>;
    type SerializeTuple = Bytes<'n>;
    type SerializeTupleStruct = Impossible<Made, SerdeError>;
    type SerializeTupleVariant = Impossible<Made, SerdeError>;
    type SerializeMap = Collect;
    type SerializeStruct = Collect;
    type SerializeStructVariant = Impossible<Made, SerdeError>;

    values! {
        serialize_bool(bool) |value| value;
        serialize_i8(i8) |value| i32::from(value);
        serialize_i16(i16) |value| i32::from(value);
        serialize_i32(i32) |value| value;
        serialize_i64(i64) |value| value;
        serialize_u16(u16) |value| i32::from(value);
        serialize_u32(u32) |value| i64::from(value);
        serialize_f32(f32) |value| f64::from(value);
        serialize_f64(f64) |value| value;
        serialize_char(char) |value| value.to_string();
        serialize_str(&str) |value| value;
        serialize_bytes(&[u8]) |value| value;
    }

    fn serialize_u8(self, byte: u8) -> Result<Made> {
        Ok(Made::Byte(byte))
    }

    fn serialize_u64(self, number: u64) -> Result<Made> {
        match i64::try_from(number) {
            Ok(number) => Ok(Made::Value(number.into())),
            Err(_) => {
                let field = self.field.unwrap_or_default().into();
                Err(SerdeError::OutOfRange { field, number })
            }
        }
    }

    fn serialize_none(self) -> Result<Made> {
        Ok(Made::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Made> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Made> {
        Ok(Made::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Made> {
        Err(self.unsupported("a struct without fields"))
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Made> {
        Ok(Made::Value(variant.into()))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        newtype: &'static str,
        value: &T,
    ) -> Result<Made> {
        special(newtype, value.serialize(self)?)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Made> {
        if name != VALUE {
            return Err(self.unsupported("an enum's variant with fields"));
        }
        match value.serialize(self)? {
            Made::Value(Value::String(text)) => from_text(variant, text).map(Made::Value),
            typed => Ok(typed),
        }
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Bytes<'n>> {
        Ok(self.bytes(len.unwrap_or(0)))
    }

    fn serialize_tuple(self, len: usize) -> Result<Bytes<'n>> {
        Ok(self.bytes(len))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct> {
        Err(self.unsupported("a tuple"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        Err(self.unsupported("an enum's variant with fields"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Collect> {
        self.collect("a map")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Collect> {
        self.collect("a struct")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        Err(self.unsupported("an enum's variant with fields"))
    }
}

/// A sequence: of `u8` alone, which are a Binary.
pub(super) struct Bytes<'n> {
    part: Part<'n>,
    bytes: Vec<u8>,
}

impl SerializeSeq for Bytes<'_> {
    type Ok = Made;
    type Error = SerdeError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, element: &T) -> Result<()> {
        match element.serialize(self.part) {
            Ok(Made::Byte(byte)) => self.bytes.push(byte),
            _ => return Err(self.part.unsupported("a sequence of anything but bytes")),
        }
        Ok(())
    }

    fn end(self) -> Result<Made> {
        Ok(Made::Value(Value::Binary(self.bytes)))
    }
}

impl SerializeTuple for Bytes<'_> {
    type Ok = Made;
    type Error = SerdeError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, element: &T) -> Result<()> {
        SerializeSeq::serialize_element(self, element)
    }

    fn end(self) -> Result<Made> {
        SerializeSeq::end(self)
    }
}
