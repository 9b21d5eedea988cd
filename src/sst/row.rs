//! A row as the cache holds it: the newest entry that a file has of a key, apart from its block.
//!
//! ```text
//! version u64 | kind u8 | length of the key u32 | key | value
//! ```
//!
//! Invariant: it was copied from a block that was found right, by a lookup that saw all versions the
//! file has of the key.

use std::sync::Arc;

use crate::entry::{Found, Kind};
use crate::version::Version;

const HEAD_BYTES: usize = 8 + 1 + 4;

/// What the cache is to hold of a key.
pub(super) fn encode(key: &[u8], found: &Found<'_>) -> Arc<[u8]> {
    let mut row = Vec::with_capacity(HEAD_BYTES + key.len() + found.value.len());
    row.extend_from_slice(&found.version.ticks().to_le_bytes());
    row.push(found.kind.bit());
    row.extend_from_slice(&(key.len() as u32).to_le_bytes());
    row.extend_from_slice(key);
    row.extend_from_slice(found.value);
    row.into()
}

/// The entry of `key` at or before `at`, if the row is of that key and is no newer.
pub(super) fn find<'a>(row: &'a [u8], key: &[u8], at: Version) -> Option<Found<'a>> {
    let (version, rest) = row.split_first_chunk::<8>()?;
    let (&[bit, l0, l1, l2, l3], rest) = rest.split_first_chunk::<5>()?;
    let (own_key, value) = rest.split_at_checked(u32::from_le_bytes([l0, l1, l2, l3]) as usize)?;
    let version = Version::from_ticks(u64::from_le_bytes(*version));
    let found = Found { version, kind: Kind::of_stored(bit, value), value };
    (own_key == key && version <= at).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_its_key_from_its_version_on() {
        let at = Version::from_ticks;
        for (kind, value) in [
            (Kind::Put, &b"value"[..]),
            (Kind::Put, b""),
            (Kind::Delete, b""),
            (Kind::Reference, b"r"),
        ] {
            let found = Found { version: at(7), kind, value };
            let row = encode(b"key", &found);
            assert_eq!(find(&row, b"key", at(7)), Some(found));
            assert_eq!(find(&row, b"key", at(u64::MAX)), Some(found));
            assert_eq!(find(&row, b"key", at(6)), None);
            assert_eq!(find(&row, b"keyv", at(7)), None, "another key with the same hash");
            for len in 0..HEAD_BYTES + 3 {
                assert_eq!(find(&row[..len], b"key", at(7)), None);
            }
        }
    }
}
