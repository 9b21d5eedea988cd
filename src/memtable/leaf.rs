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
//! written once touches neighbouring cache lines. A value is in the block of its record, or kept
//! elsewhere for as long as the arena: what is large was copied once already, into the payload
//! of its commit.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::arena::Arena;
use crate::entry::{Found, Kind};
use crate::prefetch::{LINE_BYTES, prefetch};
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

/// What the block of a record begins with; its value follows, or a pointer to it.
#[repr(C)]
struct Record {
    older: *const Record,
    version: Version,
    /// Length of the value, shifted left by two, [`KEPT`], and the kind in the lowest bit.
    len_and_flags: usize,
}

/// The value is not in the block; a pointer to it is.
const KEPT: usize = 2;

const KEY_AT: usize = size_of::<Leaf>();
const VALUE_AT: usize = size_of::<Record>();
const _: () = assert!(align_of::<Leaf>() <= ALIGN && align_of::<Record>() <= ALIGN);
const _: () = assert!(VALUE_AT.is_multiple_of(align_of::<*const u8>()));

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
    version: Version,
    kind: Kind,
    value: &'v [u8],
    is_kept: bool,
}

impl<'v> NewRecord<'v> {
    /// A record with its value.
    pub(super) fn new(version: Version, kind: Kind, value: &'v [u8]) -> Self {
        Self { version, kind, value, is_kept: false }
    }

    /// A record of a value that is kept elsewhere.
    ///
    /// # Safety
    /// The bytes stay where they are, and as they are, until the arena is dropped that the record is
    /// written to.
    pub(super) unsafe fn kept(version: Version, value: &'v [u8]) -> Self {
        Self { version, kind: Kind::Put, value, is_kept: true }
    }

    /// Length of the block that the record takes.
    #[inline]
    fn block_len(&self) -> usize {
        VALUE_AT + if self.is_kept { size_of::<*const u8>() } else { self.value.len() }
    }
}

impl<'a> LeafRef<'a> {
    /// A new leaf with one record.
    pub(super) fn new(arena: &'a LeafArena, key: &[u8], first: NewRecord<'_>) -> Self {
        let record_at = (KEY_AT + key.len()).next_multiple_of(ALIGN);
        let block = arena.alloc(record_at + first.block_len());
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

    /// Has the lines brought near that its key and first record begin in.
    #[inline]
    pub(super) fn prefetch(self) {
        let leaf = self.leaf.as_ptr().cast::<u8>();
        prefetch(leaf);
        prefetch(leaf.wrapping_add(LINE_BYTES));
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
        self.newest().newest_at(at)
    }

    /// Puts a record before the others.
    pub(super) fn push(self, arena: &'a LeafArena, new: NewRecord<'_>) {
        let block = arena.alloc(new.block_len());
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
        if self.header().len_and_flags & 1 == 0 { Kind::Delete } else { Kind::Put }
    }

    pub(super) fn value(self) -> &'a [u8] {
        let flags = self.header().len_and_flags;
        // SAFETY: the value, or the pointer to one that is kept until the arena is dropped, lies after
        // the header since the record was made.
        unsafe {
            let at = self.record.cast::<u8>().add(VALUE_AT);
            let start = if flags & KEPT == 0 { at.as_ptr() } else { at.cast::<*mut u8>().read() };
            std::slice::from_raw_parts(start, flags >> 2)
        }
    }

    pub(super) fn older(self) -> Option<Self> {
        let older = NonNull::new(self.header().older.cast_mut())?;
        Some(Self { record: older, arena: PhantomData })
    }

    /// Of this record and those before it, the newest at or before `at`.
    #[inline]
    pub(super) fn newest_at(self, at: Version) -> Option<Self> {
        let mut record = self;
        while record.version() > at {
            record = record.older()?;
        }
        Some(record)
    }

    pub(super) fn found(self) -> Found<'a> {
        Found { version: self.version(), kind: self.kind(), value: self.value() }
    }
}

impl NewRecord<'_> {
    /// Writes the record to a block.
    ///
    /// # Safety
    /// The block is the caller's alone, aligned to [`ALIGN`], and [`block_len`](Self::block_len) long;
    /// `older` is null or a whole record of the same arena.
    unsafe fn write(self, block: NonNull<u8>, older: *const Record) -> NonNull<Record> {
        let record = block.cast::<Record>();
        let kept = if self.is_kept { KEPT } else { 0 };
        let len_and_flags = self.value.len() << 2 | kept | usize::from(self.kind.byte());
        // SAFETY: as the caller promises.
        unsafe {
            record.write(Record { older, version: self.version, len_and_flags });
            let value = block.add(VALUE_AT);
            if self.is_kept {
                value.cast::<*const u8>().write(self.value.as_ptr());
            } else {
                let (from, len) = (self.value.as_ptr(), self.value.len());
                ptr::copy_nonoverlapping(from, value.as_ptr(), len);
            }
        }
        record
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn put(version: u64, value: &[u8]) -> NewRecord<'_> {
        NewRecord::new(Version::from_ticks(version), Kind::Put, value)
    }

    #[test]
    fn a_kept_value_is_read_where_it_is() {
        let value = vec![5; 1000];
        let arena = LeafArena::new(Arc::default());
        let kept = |version, value| {
            // SAFETY: `value` is dropped after the arena.
            unsafe { NewRecord::kept(Version::from_ticks(version), value) }
        };
        let leaf = LeafRef::new(&arena, b"key", kept(4, &value));
        leaf.push(&arena, kept(9, &value[10..20]));
        assert!(arena.bytes() < 100, "neither was copied");
        let [newest, first] = [9, 4].map(|at| leaf.newest_at(Version::from_ticks(at)).unwrap());
        assert_eq!(
            (newest.kind(), newest.value().as_ptr_range()),
            (Kind::Put, value[10..20].as_ptr_range())
        );
        assert_eq!(first.value().as_ptr_range(), value.as_ptr_range());
    }

    #[test]
    fn a_leaf_holds_its_key_and_its_versions_newest_first() {
        let arena = LeafArena::new(Arc::default());
        let leaf = LeafRef::new(&arena, b"key", put(4, b"first"));
        leaf.push(&arena, NewRecord::new(Version::from_ticks(7), Kind::Delete, b""));
        leaf.push(&arena, put(9, b"third"));
        assert_eq!(leaf.key(), b"key");
        let at = |v| leaf.newest_at(Version::from_ticks(v)).map(|r| (r.kind(), r.value()));
        assert_eq!(at(3), None);
        assert_eq!(at(4), Some((Kind::Put, &b"first"[..])));
        assert_eq!(at(8), Some((Kind::Delete, &b""[..])));
        assert_eq!(at(u64::MAX), Some((Kind::Put, &b"third"[..])));
    }
}
