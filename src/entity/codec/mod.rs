//! The stored form of an entity: a directory of its properties, then their values.
//!
//! Invariant: finding one property reads the directory only, decodes no other property, and
//! believes no offset. Bytes that are no row give a [`RowError`](super::RowError), never a panic.
//!
//! A row of `n` properties, `off` being u16, or u32 if names or values take 64 KiB or more:
//!
//! ```text
//! format       u8       1
//! flags        u8       bit 0: off is u32
//! n            u8       0 to 255
//! fingerprints [u8; n]  low byte of the XXH3 hash of each name
//! kinds        [u8; n]  type of each value; Boolean true and false are two
//! name ends    [off; n] where each name ends among the names
//! names        UTF-8    one after the other
//! value ends   [off; n] where each value ends among the values
//! values                one after the other
//! ```
//!
//! Everything before the value ends is the row's shape. Entities of one kind have it in common, so
//! it compresses as one match, and a property is where it was in the row before.

mod check;
mod kind;
mod merge;
mod project;
mod row;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use check::check_row;
pub(crate) use merge::MergeError;
pub(crate) use merge::Patch;
pub(crate) use project::Projection;
pub(crate) use row::{EncodedRow, Names, RawValue, Slot};
pub(crate) use write::{Encoder, encode};

/// The newest format of rows that this build writes and reads.
const FORMAT: u8 = 1;
/// The flag of rows whose offsets are u32.
const WIDE: u8 = 1;
/// Bytes before the fingerprints.
const HEADER: usize = 3;

/// A property's name with what it is looked up by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PropertyName {
    name: Box<str>,
    fingerprint: u8,
}

impl PropertyName {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), fingerprint: fingerprint(name.as_bytes()) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }
}

/// What a name is looked up by: stored in rows, so never to be changed.
#[inline]
fn fingerprint(name: &[u8]) -> u8 {
    xxhash_rust::xxh3::xxh3_64(name) as u8
}
