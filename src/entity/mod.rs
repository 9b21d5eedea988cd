//! Entities: typed properties, their limits, and the form in which they are stored.
//!
//! Invariant: what this room gives out as an entity obeys the data model's rules, and what it is
//! given as stored bytes it believes nothing of. It calls the ground floor only; the rooms between
//! know an entity as opaque bytes.

pub(crate) mod bench;
pub(crate) mod codec;
mod datetime;
#[expect(clippy::module_inception, reason = "the file of the type that the room is named after")]
mod entity;
mod entity_ref;
mod error;
mod etag;
pub(crate) mod filter;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod guid;
mod limits;
#[cfg(feature = "serde")]
mod serde;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod value;

#[cfg(feature = "serde")]
pub use self::serde::SerdeError;
#[cfg(feature = "serde")]
pub(crate) use self::serde::deserialize_text;
pub use datetime::DateTime;
pub use entity::Entity;
pub(crate) use entity::is_system;
pub use entity_ref::{EntityRef, Shape};
pub use error::{EntityError, NotAnEntity, ParseError, RowError};
pub use etag::{ETag, IfMatch};
pub use filter::{Explain, Filter, FilterError, FilterErrorKind, FilterProperty, Plan};
pub use guid::Guid;
pub use limits::EntityLimits;
pub use value::{FromValue, IntoValue, Value, ValueRef, ValueType, ValueVisitor};
