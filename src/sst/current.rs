//! [`Current`]: the entry that a cursor is on.
//!
//! Invariant: while it is valid, `key` is the entry's whole key, and its value is within the payload of the block that
//! the cursor has open.

use super::block::Block;
use super::raw_entry::RawEntry;
use crate::entry::{Entry, Kind};
use crate::error::{Damage, Result};
use crate::key::common_prefix;
use crate::version::Version;

/// The entry that the cursor is on.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) valid: bool,
    pub(super) key: Vec<u8>,
    pub(super) version: Version,
    pub(super) kind: Kind,
    /// Where its value is in the payload of the open block: up to `next`.
    pub(super) value: usize,
    /// Offset of the entry after.
    pub(super) next: usize,
    /// See [`Cursor::kept`](crate::entry::Cursor::kept).
    pub(super) kept: usize,
}

/// After so many versions of one key, what is wanted is looked up rather than walked to.
pub(super) const VERSIONS_WALKED: usize = 16;

/// What a walk over older entries of a key came to.
pub(super) enum Older {
    Found,
    IsNone,
    /// The end of the block, or many entries of the key.
    MayFollow,
}

/// Where a step within a block came to.
pub(super) struct Advanced<'b> {
    /// It is the same key.
    pub(super) is_same: bool,
    /// How many bytes it has in common with the key before, as far as that is known.
    pub(super) kept: usize,
    pub(super) value: &'b [u8],
}

impl Current {
    /// Before a cursor was on any.
    pub(super) const fn none() -> Self {
        Self {
            valid: false,
            key: Vec::new(),
            version: Version::ZERO,
            kind: Kind::Delete,
            value: 0,
            next: 0,
            kept: 0,
        }
    }

    /// Goes on an entry whose key begins with the first `entry.shared` bytes of `self.key`.
    pub(super) fn set(&mut self, block: &Block<'_>, entry: &RawEntry<'_>) -> Result<(), Damage> {
        if entry.shared > self.key.len() {
            let at = entry.next as u64;
            return Err(Damage::new(at, "an entry after its key's prefix", "another"));
        }
        self.set_key(entry);
        self.set_body(block, entry)
    }

    /// The same for the entry at `offset`, the one after.
    /// `None`, and no change, if [`set`](Self::set) has something to say against it.
    // Always: every row of every scan goes through it.
    #[inline(always)]
    pub(super) fn advance<'b>(&mut self, block: &Block<'b>, offset: usize) -> Option<Advanced<'b>> {
        let entry = block.entry_parts(offset)?;
        let (version, value) = block.body_parts(&entry)?;
        let before = self.key.len();
        if entry.shared > before {
            return None;
        }
        // An entry shares all that it can, but at a restart.
        let kept = match entry.shared {
            0 => common_prefix(&self.key, entry.suffix),
            shared => shared,
        };
        let is_same = kept == before && kept == entry.shared + entry.suffix.len();
        entry.put_key(&mut self.key, kept);
        self.set_parts(&entry, version, value);
        Some(Advanced { is_same, kept, value })
    }

    /// Goes on an entry whose key is `self.key`.
    pub(super) fn set_body(
        &mut self,
        block: &Block<'_>,
        entry: &RawEntry<'_>,
    ) -> Result<(), Damage> {
        let (version, value) = block.body(entry)?;
        self.set_parts(entry, version, value);
        Ok(())
    }

    /// Goes over older entries of its key, of which the next is the entry after, to the newest at or before
    /// `at`.
    pub(super) fn go_older(&mut self, block: &Block<'_>, at: Version) -> Result<Older, Damage> {
        for _ in 0..VERSIONS_WALKED {
            if self.next >= block.end() {
                return Ok(Older::MayFollow);
            }
            let entry = block.entry(self.next)?;
            if !entry.has_key(&self.key) {
                return Ok(Older::IsNone);
            }
            self.set_body(block, &entry)?;
            if self.version <= at {
                return Ok(Older::Found);
            }
        }
        Ok(Older::MayFollow)
    }

    #[inline]
    fn set_key(&mut self, entry: &RawEntry<'_>) {
        self.kept = self.kept.min(entry.shared);
        entry.put_key(&mut self.key, entry.shared);
    }

    /// Its value, in the payload of the open block.
    #[inline]
    pub(super) fn value<'b>(&self, payload: &'b [u8]) -> &'b [u8] {
        payload.get(self.value..self.next).unwrap_or_default()
    }

    /// The entry, in the payload of the open block.
    #[inline]
    pub(super) fn entry<'e>(&'e self, payload: &'e [u8]) -> Entry<'e> {
        let value = self.value(payload);
        Entry { key: &self.key, version: self.version, kind: self.kind, value }
    }

    #[inline]
    fn set_parts(&mut self, entry: &RawEntry<'_>, version: Version, value: &[u8]) {
        self.version = version;
        self.kind = entry.kind(value);
        self.value = entry.next - value.len();
        self.next = entry.next;
        self.valid = true;
    }
}
