//! Leaves and records: a key with the chain of its versions, in blocks of the arena.
//!
//! Invariant: a leaf is whole before a pointer to it is published, and but for its `newest`
//! pointer never changes; a record never changes. The chain is newest first.
//!
//! ```text
//! leaf: key
//!   └ newest ──► record v9 ──older──► record v4 ──older──► null
//! ```
//!
//! The first record of a key is in the same block as its leaf, so that reading a key that was
//! written once touches neighbouring cache lines.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::arena::Arena;
use crate::entry::{Found, Kind};
use crate::sync::{AtomicPtr, Ordering};
use crate::version::Version;

/// Alignment of leaves and records.
const ALIGN: usize = 8;

/// Where leaves and records are.
pub(super) type LeafArena = Arena<ALIGN>;

/// What the block of a leaf begins with; its key and first record follow.
#[repr(C)]
pub(super) struct Leaf {
    newest: AtomicPtr<Record>,
    key_len: usize,
}

/// What the block of a record begins with; its value follows.
#[repr(C)]
struct Record {
    older: *const Record,
    version: Version,
    /// Length of the value, shifted left by one, and the kind in the lowest bit.
    len_and_kind: usize,
}

const KEY_AT: usize = size_of::<Leaf>();
const VALUE_AT: usize = size_of::<Record>();
const _: () = assert!(align_of::<Leaf>() <= ALIGN && align_of::<Record>() <= ALIGN);

/// A leaf in an arena that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct LeafRef<'a> {
    leaf: NonNull<Leaf>,
    arena: PhantomData<&'a LeafArena>,
}

/// A record in an arena that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct RecordRef<'a> {
    record: NonNull<Record>,
    arena: PhantomData<&'a LeafArena>,
}

// SAFETY: these are shared references to what is atomic or never changes.
unsafe impl Send for LeafRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for LeafRef<'_> {}
// SAFETY: as above.
unsafe impl Send for RecordRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for RecordRef<'_> {}

/// What is to be written as a record.
#[derive(Clone, Copy)]
pub(super) struct NewRecord<'v> {
    pub(super) version: Version,
    pub(super) kind: Kind,
    pub(super) value: &'v [u8],
}

impl<'a> LeafRef<'a> {
    /// A new leaf with one record.
    pub(super) fn new(arena: &'a LeafArena, key: &[u8], first: NewRecord<'_>) -> Self {
        let record_at = (KEY_AT + key.len()).next_multiple_of(ALIGN);
        let block = arena.alloc(record_at + VALUE_AT + first.value.len());
        // SAFETY: the block is new and ours alone; the parts written lie side by side within the
        // bytes asked for, header and record at multiples of ALIGN.
        unsafe {
            let record = first.write(block.add(record_at), ptr::null());
            let leaf = block.cast::<Leaf>();
            leaf.write(Leaf { newest: AtomicPtr::new(record.as_ptr()), key_len: key.len() });
            ptr::copy_nonoverlapping(key.as_ptr(), block.add(KEY_AT).as_ptr(), key.len());
            Self { leaf, arena: PhantomData }
        }
    }

    /// The leaf at a pointer.
    ///
    /// # Safety
    /// The pointer is from [`as_ptr`](Self::as_ptr) of a leaf in an arena that lives for `'a`, and
    /// came here through a `Release` store and an `Acquire` load.
    pub(super) unsafe fn from_ptr(leaf: NonNull<Leaf>) -> Self {
        Self { leaf, arena: PhantomData }
    }

    pub(super) fn as_ptr(self) -> NonNull<Leaf> {
        self.leaf
    }

    fn header(self) -> &'a Leaf {
        // SAFETY: a `LeafRef` is made of whole leaves alone, which live for `'a`; what changes of
        // the header is atomic.
        unsafe { self.leaf.as_ref() }
    }

    pub(super) fn key(self) -> &'a [u8] {
        // SAFETY: the key lies there since the leaf was made, and never changes.
        unsafe {
            let key = self.leaf.cast::<u8>().add(KEY_AT);
            std::slice::from_raw_parts(key.as_ptr(), self.header().key_len)
        }
    }

    pub(super) fn newest(self) -> RecordRef<'a> {
        let newest = self.header().newest.load(Ordering::Acquire);
        // SAFETY: never null: a leaf is made with a record, and replaced by newer ones alone,
        // which are whole before they are stored with `Release`.
        RecordRef { record: unsafe { NonNull::new_unchecked(newest) }, arena: PhantomData }
    }

    /// The newest record at or before `at`.
    #[inline]
    pub(super) fn newest_at(self, at: Version) -> Option<RecordRef<'a>> {
        let mut record = self.newest();
        while record.version() > at {
            record = record.older()?;
        }
        Some(record)
    }

    /// Puts a record before the others.
    pub(super) fn push(self, arena: &'a LeafArena, new: NewRecord<'_>) {
        let block = arena.alloc(VALUE_AT + new.value.len());
        let newest = &self.header().newest;
        let mut older = newest.load(Ordering::Acquire);
        loop {
            // SAFETY: the block is large enough, aligned, and ours until the exchange succeeds.
            let record = unsafe { new.write(block, older) };
            let exchanged = newest.compare_exchange_weak(
                older,
                record.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match exchanged {
                Ok(_) => return,
                Err(found) => older = found,
            }
        }
    }
}

impl<'a> RecordRef<'a> {
    fn header(self) -> &'a Record {
        // SAFETY: a `RecordRef` is made of whole records alone, which live for `'a` and never
        // change.
        unsafe { self.record.as_ref() }
    }

    pub(super) fn version(self) -> Version {
        self.header().version
    }

    pub(super) fn kind(self) -> Kind {
        if self.header().len_and_kind & 1 == 0 { Kind::Delete } else { Kind::Put }
    }

    pub(super) fn value(self) -> &'a [u8] {
        let len = self.header().len_and_kind >> 1;
        // SAFETY: the value lies after the header since the record was made.
        unsafe { std::slice::from_raw_parts(self.record.cast::<u8>().add(VALUE_AT).as_ptr(), len) }
    }

    pub(super) fn older(self) -> Option<Self> {
        let older = NonNull::new(self.header().older.cast_mut())?;
        Some(Self { record: older, arena: PhantomData })
    }

    pub(super) fn found(self) -> Found<'a> {
        Found { version: self.version(), kind: self.kind(), value: self.value() }
    }
}

impl NewRecord<'_> {
    /// Writes the record to a block.
    ///
    /// # Safety
    /// The block is the caller's alone, aligned to [`ALIGN`], and has room for header and value;
    /// `older` is null or a whole record of the same arena.
    unsafe fn write(self, block: NonNull<u8>, older: *const Record) -> NonNull<Record> {
        let record = block.cast::<Record>();
        let len_and_kind = self.value.len() << 1 | usize::from(self.kind.byte());
        // SAFETY: as the caller promises.
        unsafe {
            record.write(Record { older, version: self.version, len_and_kind });
            let value = block.add(VALUE_AT).as_ptr();
            ptr::copy_nonoverlapping(self.value.as_ptr(), value, self.value.len());
        }
        record
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn put(version: u64, value: &[u8]) -> NewRecord<'_> {
        NewRecord { version: Version::from_ticks(version), kind: Kind::Put, value }
    }

    #[test]
    fn a_leaf_holds_its_key_and_its_versions_newest_first() {
        let arena = LeafArena::new();
        let leaf = LeafRef::new(&arena, b"key", put(4, b"first"));
        leaf.push(&arena, NewRecord { kind: Kind::Delete, ..put(7, b"") });
        leaf.push(&arena, put(9, b"third"));
        assert_eq!(leaf.key(), b"key");
        let at = |v| leaf.newest_at(Version::from_ticks(v)).map(|r| (r.kind(), r.value()));
        assert_eq!(at(3), None);
        assert_eq!(at(4), Some((Kind::Put, &b"first"[..])));
        assert_eq!(at(8), Some((Kind::Delete, &b""[..])));
        assert_eq!(at(u64::MAX), Some((Kind::Put, &b"third"[..])));
    }
}
