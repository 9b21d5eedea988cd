//! [`Value`]: what a property holds, in one of eight types; [`ValueRef`], the same borrowed.

use std::borrow::Cow;
use std::fmt;

use super::datetime::DateTime;
use super::guid::Guid;

/// The type of a property (R-D01). Two entities of a table may give one name different types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "said at Value")]
pub enum ValueType {
    String,
    Binary,
    Boolean,
    DateTime,
    Double,
    Guid,
    Int32,
    Int64,
}

impl ValueType {
    /// The eight types.
    pub const ALL: [Self; 8] = [
        Self::String,
        Self::Binary,
        Self::Boolean,
        Self::DateTime,
        Self::Double,
        Self::Guid,
        Self::Int32,
        Self::Int64,
    ];

    /// The type's name in OData: `Edm.String` and so on.
    ///
    /// ```
    /// use tablestone::ValueType;
    /// assert_eq!(ValueType::Int64.edm_name(), "Edm.Int64");
    /// assert_eq!(ValueType::from_edm_name("Edm.Int64"), Some(ValueType::Int64));
    /// ```
    #[must_use]
    pub const fn edm_name(self) -> &'static str {
        match self {
            Self::String => "Edm.String",
            Self::Binary => "Edm.Binary",
            Self::Boolean => "Edm.Boolean",
            Self::DateTime => "Edm.DateTime",
            Self::Double => "Edm.Double",
            Self::Guid => "Edm.Guid",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
        }
    }

    /// The type of that name in OData; `None` for types the data model lacks (C-24).
    #[must_use]
    pub fn from_edm_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value_type| value_type.edm_name() == name)
    }
}

/// The name without `Edm.`.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.edm_name().trim_start_matches("Edm."))
    }
}

/// The value of a property.
///
/// Values are equal if type and content are: `Int32(5)`, `Int64(5)` and `Double(5.0)` differ. A
/// Double that is NaN equals nothing, as `f64` has it. There is no null: a property that is null
/// is absent (R-D05).
///
/// ```
/// use tablestone::{Value, ValueType};
/// assert_eq!(Value::from(5), Value::Int32(5));
/// assert_eq!(Value::from("five").value_type(), ValueType::String);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, by default of up to 32 Ki UTF-16 code units.
    String(String),
    /// Bytes, by default up to 64 KiB.
    Binary(Vec<u8>),
    /// True or false.
    Boolean(bool),
    /// An instant in UTC, to 100 ns.
    DateTime(DateTime),
    /// A number of 64 bits with a floating point, infinities and NaN included.
    Double(f64),
    /// A 128-bit identifier.
    Guid(Guid),
    /// A whole number of 32 bits.
    Int32(i32),
    /// A whole number of 64 bits.
    Int64(i64),
}

impl Value {
    /// The value's type.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        self.borrowed().value_type()
    }

    /// The value, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> ValueRef<'_> {
        match *self {
            Self::String(ref text) => ValueRef::String(text),
            Self::Binary(ref bytes) => ValueRef::Binary(bytes),
            Self::Boolean(value) => ValueRef::Boolean(value),
            Self::DateTime(value) => ValueRef::DateTime(value),
            Self::Double(value) => ValueRef::Double(value),
            Self::Guid(value) => ValueRef::Guid(value),
            Self::Int32(value) => ValueRef::Int32(value),
            Self::Int64(value) => ValueRef::Int64(value),
        }
    }
}

/// The value of a property where it is stored: a [`Value`] that borrows text and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "said at Value")]
pub enum ValueRef<'a> {
    String(&'a str),
    Binary(&'a [u8]),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32(i32),
    Int64(i64),
}

impl ValueRef<'_> {
    /// The value's type.
    #[must_use]
    pub const fn value_type(self) -> ValueType {
        match self {
            Self::String(_) => ValueType::String,
            Self::Binary(_) => ValueType::Binary,
            Self::Boolean(_) => ValueType::Boolean,
            Self::DateTime(_) => ValueType::DateTime,
            Self::Double(_) => ValueType::Double,
            Self::Guid(_) => ValueType::Guid,
            Self::Int32(_) => ValueType::Int32,
            Self::Int64(_) => ValueType::Int64,
        }
    }

    /// The value with a copy of its text or bytes.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::String(text) => Value::String(text.to_owned()),
            Self::Binary(bytes) => Value::Binary(bytes.to_vec()),
            Self::Boolean(value) => Value::Boolean(value),
            Self::DateTime(value) => Value::DateTime(value),
            Self::Double(value) => Value::Double(value),
            Self::Guid(value) => Value::Guid(value),
            Self::Int32(value) => Value::Int32(value),
            Self::Int64(value) => Value::Int64(value),
        }
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> Self {
        value.borrowed()
    }
}

/// Is shown values, one after the other: see [`EntityRef::each_value`](crate::EntityRef::each_value). A
/// `Vec` collects them.
///
/// There is a call for each type of value, where the type is known: a method with `#[inline(always)]`
/// that looks at the type is made into code that does not.
pub trait ValueVisitor<'a> {
    /// The next value.
    fn visit(&mut self, value: ValueRef<'a>);
}

impl<'a> ValueVisitor<'a> for Vec<ValueRef<'a>> {
    fn visit(&mut self, value: ValueRef<'a>) {
        self.push(value);
    }
}

/// What a property can be set to: a value of a natural Rust type, or an `Option` of one, of which
/// `None` is null.
pub trait IntoValue {
    /// The value, or `None` for null.
    fn into_value(self) -> Option<Value>;
}

impl IntoValue for Value {
    fn into_value(self) -> Option<Value> {
        Some(self)
    }
}

impl IntoValue for ValueRef<'_> {
    fn into_value(self) -> Option<Value> {
        Some(self.to_value())
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Option<Value> {
        self.and_then(IntoValue::into_value)
    }
}

macro_rules! into_value {
    ($($type:ty => |$value:ident| $made:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $made
            }
        }

        impl IntoValue for $type {
            fn into_value(self) -> Option<Value> {
                Some(self.into())
            }
        }
    )*};
}

into_value! {
    String => |value| Self::String(value);
    &String => |value| Self::String(value.clone());
    &str => |value| Self::String(value.to_owned());
    Box<str> => |value| Self::String(value.into());
    Cow<'_, str> => |value| Self::String(value.into_owned());
    Vec<u8> => |value| Self::Binary(value);
    &Vec<u8> => |value| Self::Binary(value.clone());
    &[u8] => |value| Self::Binary(value.to_vec());
    bool => |value| Self::Boolean(value);
    DateTime => |value| Self::DateTime(value);
    f32 => |value| Self::Double(value.into());
    f64 => |value| Self::Double(value);
    Guid => |value| Self::Guid(value);
    i8 => |value| Self::Int32(value.into());
    i16 => |value| Self::Int32(value.into());
    i32 => |value| Self::Int32(value);
    u8 => |value| Self::Int32(value.into());
    u16 => |value| Self::Int32(value.into());
    i64 => |value| Self::Int64(value);
    u32 => |value| Self::Int64(value.into());
}

/// A literal of bytes.
impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Self {
        Self::Binary(bytes.to_vec())
    }
}

impl<const N: usize> IntoValue for &[u8; N] {
    fn into_value(self) -> Option<Value> {
        Some(self.into())
    }
}

/// A Rust type that a property can be read as: the natural one of its type, borrowed or owned;
/// `i64` and `f64` also from an Int32, which they hold exactly, and the other integers from a whole number that
/// they hold.
pub trait FromValue<'a>: Sized {
    /// The value, or `None` if it is of another type, or a number that this does not hold.
    fn from_value(value: ValueRef<'a>) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty: $($pattern:pat => $made:expr),*;)*) => {$(
        impl<'a> FromValue<'a> for $type {
            fn from_value(value: ValueRef<'a>) -> Option<Self> {
                match value {
                    $($pattern => Some($made),)*
                    _ => None,
                }
            }
        }
    )*};
}

from_value! {
    &'a str: ValueRef::String(text) => text;
    String: ValueRef::String(text) => text.to_owned();
    &'a [u8]: ValueRef::Binary(bytes) => bytes;
    Vec<u8>: ValueRef::Binary(bytes) => bytes.to_vec();
    bool: ValueRef::Boolean(value) => value;
    DateTime: ValueRef::DateTime(value) => value;
    f64: ValueRef::Double(value) => value, ValueRef::Int32(value) => f64::from(value);
    Guid: ValueRef::Guid(value) => value;
    i32: ValueRef::Int32(value) => value;
    i64: ValueRef::Int64(value) => value, ValueRef::Int32(value) => i64::from(value);
}

macro_rules! from_whole_number {
    ($($type:ty)*) => {$(
        impl FromValue<'_> for $type {
            fn from_value(value: ValueRef<'_>) -> Option<Self> {
                i64::from_value(value)?.try_into().ok()
            }
        }
    )*};
}

from_whole_number! { i8 i16 u8 u16 u32 u64 }

impl<'a> FromValue<'a> for ValueRef<'a> {
    fn from_value(value: ValueRef<'a>) -> Option<Self> {
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D01: each type has its natural Rust type, in and out.
    #[test]
    fn r_d01_rust_types_become_values_and_values_rust_types() {
        fn both<'a, T: FromValue<'a> + PartialEq + fmt::Debug>(value: &'a Value, rust: T) {
            assert_eq!(T::from_value(value.borrowed()), Some(rust));
        }
        let (date, id) = (DateTime::MAX, Guid::from_bytes([7; 16]));
        both(&Value::from("text"), "text");
        both(&Value::from(&String::from("text")), "text");
        both(&Value::from(Cow::from("text")), "text");
        both(&Value::from(Box::<str>::from("text")), "text");
        both(&Value::from(&b"bytes".to_vec()), &b"bytes"[..]);
        for number in [Value::from(7u8), Value::from(7i8), Value::from(7u16), Value::from(7i16)] {
            both(&number, 7i32);
        }
        both(&Value::from(u32::MAX), i64::from(u32::MAX));
        both(&Value::from(u32::MAX), u32::MAX);
        both(&Value::from(255i32), 255u8);
        both(&Value::from(i64::MAX), i64::MAX as u64);
        assert_eq!(u8::from_value(ValueRef::Int32(256)), None);
        assert_eq!(u64::from_value(ValueRef::Int64(-1)), None);
        assert_eq!(u32::from_value(ValueRef::Double(1.0)), None);
        both(&Value::from(0.5f32), 0.5f64);
        both(&Value::from(String::from("text")), String::from("text"));
        both(&Value::from(&b"bytes"[..]), &b"bytes"[..]);
        both(&Value::from(b"bytes"), b"bytes".to_vec());
        both(&Value::from(true), true);
        both(&Value::from(date), date);
        both(&Value::from(0.5), 0.5);
        both(&Value::from(id), id);
        both(&Value::from(i32::MIN), i32::MIN);
        both(&Value::from(i64::MIN), i64::MIN);
        // Widening loses nothing; narrowing and other types do not happen.
        both(&Value::from(7), 7i64);
        both(&Value::from(7), 7.0);
        assert_eq!(i32::from_value(ValueRef::Int64(7)), None);
        assert_eq!(f64::from_value(ValueRef::Int64(7)), None);
        assert_eq!(<&str>::from_value(ValueRef::Binary(b"text")), None);
    }

    #[test]
    fn types_have_their_names_in_odata() {
        for value_type in ValueType::ALL {
            assert_eq!(ValueType::from_edm_name(value_type.edm_name()), Some(value_type));
            assert_eq!(value_type.edm_name(), format!("Edm.{value_type}"));
        }
        assert_eq!(ValueType::from_edm_name("Edm.Decimal"), None);
    }

    #[test]
    fn values_of_different_types_are_different() {
        assert_ne!(Value::from(5), Value::from(5i64));
        assert_ne!(Value::from(5), Value::from(5.0));
        assert_ne!(Value::from(f64::NAN), Value::from(f64::NAN));
        assert_eq!(Value::from(-0.0), Value::from(0.0));
    }
}
