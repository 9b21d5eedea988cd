//! Stored entries and the cursor over them: what memtable, table files and merge have in common.
//!
//! Invariant: entries are ordered by key ascending, then version descending, so the newest
//! version of a key is its first entry.

use crate::error::Result;
use crate::version::Version;

/// What an entry does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key is absent from this version on.
    Delete = 0,
    /// The key has the entry's value from this version on.
    Put = 1,
    /// As a put, but the entry's value is a [reference](crate::reference) to where the value is. In
    /// table files only, where it is stored as a deletion with a value.
    Reference = 2,
}

impl Kind {
    /// The kind a byte of the log stands for.
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Delete),
            1 => Some(Self::Put),
            _ => None,
        }
    }

    /// The byte that the log has for this kind.
    pub(crate) const fn byte(self) -> u8 {
        self as u8
    }

    /// The bit that is stored with an entry.
    pub(crate) const fn bit(self) -> u8 {
        matches!(self, Self::Put) as u8
    }

    /// The kind of an entry in a table file by its bit and its value.
    #[inline]
    pub(crate) const fn of_stored(bit: u8, value: &[u8]) -> Self {
        match bit {
            0 if value.is_empty() => Self::Delete,
            0 => Self::Reference,
            _ => Self::Put,
        }
    }
}

/// One version of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    /// Empty for [`Kind::Delete`].
    pub(crate) value: &'a [u8],
}

/// What a point lookup found: the newest entry of the key at or before a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    /// Empty for [`Kind::Delete`].
    pub(crate) value: &'a [u8],
}

/// A position in a sequence of entries.
///
/// A new cursor is not positioned: it is invalid until one of the seeks finds an entry. While it
/// is invalid, [`next`](Cursor::next) and its like do nothing. Forward it visits entries, in
/// reverse it visits keys, each at its newest entry or, in both directions, at the newest that is
/// not after a version ([`next_at`](Cursor::next_at), [`previous_at`](Cursor::previous_at)).
pub(crate) trait Cursor {
    /// Positions on the first entry with a key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Positions on the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Positions on the newest entry of the largest key before `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// Positions on the newest entry of the last key.
    fn seek_to_last(&mut self) -> Result<()>;

    /// Whether the cursor is on an entry.
    fn valid(&self) -> bool;
    /// Key of the current entry; empty if there is none.
    fn key(&self) -> &[u8];
    /// Version of the current entry; [`Version::ZERO`] if there is none.
    fn version(&self) -> Version;
    /// Kind of the current entry; [`Kind::Delete`] if there is none.
    fn kind(&self) -> Kind;
    /// Value of the current entry; empty if there is none.
    fn value(&self) -> &[u8];

    /// At least how many bytes at its front the key has in common with the key that the last move left:
    /// 0 where nothing is known.
    fn kept(&self) -> usize {
        0
    }

    /// Moves to the next entry, which may be an older version of the same key.
    fn next(&mut self) -> Result<()>;
    /// Moves to the newest entry of the next key.
    fn next_key(&mut self) -> Result<()>;
    /// Where the current entry is newer than `at`, moves to the newest entry of its key that is not, or
    /// if there is none, to the newest entry of the next key.
    fn next_at(&mut self, at: Version) -> Result<()>;
    /// Moves to the newest entry of the previous key.
    fn previous_key(&mut self) -> Result<()>;
    /// As [`next_at`](Self::next_at), but if there is none, to the newest entry of the previous key.
    fn previous_at(&mut self, at: Version) -> Result<()>;

    /// Shows the current entry to `walker`, then the newest entry of each later key, for as long as
    /// it wants to go on. Stays on the entry at which it did not.
    #[inline]
    fn walk(&mut self, walker: &mut impl Walker) -> Result<()> {
        walk_by_steps(self, walker)
    }

    /// The current entry.
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let entry = || Entry {
            key: self.key(),
            version: self.version(),
            kind: self.kind(),
            value: self.value(),
        };
        self.valid().then(entry)
    }
}

/// Who goes from key to key with a cursor: see [`Cursor::walk`].
pub(crate) trait Walker {
    /// Looks at an entry, of whose key so many bytes are known to be [`kept`](Cursor::kept). Whether
    /// to go on.
    fn meet(&mut self, entry: Entry<'_>, kept: usize) -> bool;
}

/// A [walk](Cursor::walk) by [`next_key`](Cursor::next_key).
#[inline]
pub(crate) fn walk_by_steps<C: Cursor + ?Sized>(
    cursor: &mut C,
    walker: &mut impl Walker,
) -> Result<()> {
    while let Some(entry) = cursor.entry() {
        if !walker.meet(entry, cursor.kept()) {
            break;
        }
        cursor.next_key()?;
    }
    Ok(())
}

/// Moves a cursor, and holds it to what it says of [`kept`](Cursor::kept).
#[cfg(test)]
pub(crate) fn go<C: Cursor>(cursor: &mut C, step: impl FnOnce(&mut C) -> Result<()>) {
    let before = cursor.valid().then(|| cursor.key().to_vec());
    step(cursor).unwrap();
    if let (Some(before), true) = (before, cursor.valid()) {
        let common = crate::key::common_prefix(&before, cursor.key());
        assert!(cursor.kept() <= common, "{before:?}, {:?}: {}", cursor.key(), cursor.kept());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_the_byte_it_is_stored_as() {
        for byte in 0..=u8::MAX {
            assert_eq!(Kind::from_byte(byte).map_or(byte, Kind::byte), byte);
        }
        assert_eq!(Kind::from_byte(Kind::Reference.byte()), None);
        for (kind, value) in [(Kind::Delete, &[][..]), (Kind::Put, &[]), (Kind::Reference, &[1])] {
            assert_eq!(Kind::of_stored(kind.bit(), value), kind);
        }
    }
}
