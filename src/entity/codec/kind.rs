//! [`Kind`]: the stored type of a value, and its length.

use crate::entity::value::{ValueRef, ValueType};

/// The type of a stored value. The numbers are stored in rows. The value of a Boolean is in its
/// kind, and takes no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    False = 0,
    True = 1,
    Int32 = 2,
    Int64 = 3,
    Double = 4,
    DateTime = 5,
    Guid = 6,
    String = 7,
    Binary = 8,
}

impl Kind {
    #[inline]
    pub(super) const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::False,
            1 => Self::True,
            2 => Self::Int32,
            3 => Self::Int64,
            4 => Self::Double,
            5 => Self::DateTime,
            6 => Self::Guid,
            7 => Self::String,
            8 => Self::Binary,
            _ => return None,
        })
    }

    #[inline]
    pub(super) const fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Boolean(false) => Self::False,
            ValueRef::Boolean(true) => Self::True,
            ValueRef::Int32(_) => Self::Int32,
            ValueRef::Int64(_) => Self::Int64,
            ValueRef::Double(_) => Self::Double,
            ValueRef::DateTime(_) => Self::DateTime,
            ValueRef::Guid(_) => Self::Guid,
            ValueRef::String(_) => Self::String,
            ValueRef::Binary(_) => Self::Binary,
        }
    }

    pub(super) const fn value_type(self) -> ValueType {
        match self {
            Self::False | Self::True => ValueType::Boolean,
            Self::Int32 => ValueType::Int32,
            Self::Int64 => ValueType::Int64,
            Self::Double => ValueType::Double,
            Self::DateTime => ValueType::DateTime,
            Self::Guid => ValueType::Guid,
            Self::String => ValueType::String,
            Self::Binary => ValueType::Binary,
        }
    }
}
