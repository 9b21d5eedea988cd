//! Nodes and records: a key with the chain of its versions, each one block of the arena.
//!
//! Invariant: a node is whole before a pointer to it is published, and but for its `newest`
//! pointer and its tower never changes; a record never changes. The chain is newest first.
//!
//! ```text
//! node ──► key, tower ──► next nodes
//!  └ newest ──► record v9 ──older──► record v4 ──older──► null
//! ```
//!
//! The first record of a key is in the same block as its node, so that reading a key that was
//! written once touches neighbouring cache lines.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::arena::{ALIGN, Arena};
use crate::entry::{Found, Kind};
use crate::sync::{AtomicPtr, Ordering};
use crate::version::Version;

/// What a block of a node begins with; its tower, key and first record follow.
#[repr(C)]
pub(super) struct Node {
    newest: AtomicPtr<Record>,
    key_len: u32,
    height: u32,
}

/// What a block of a record begins with; its value follows.
#[repr(C)]
pub(super) struct Record {
    older: *const Record,
    version: Version,
    /// Length of the value, shifted left by one, and the kind in the lowest bit.
    len_and_kind: usize,
}

type Link = AtomicPtr<Node>;

const TOWER_AT: usize = size_of::<Node>();
const VALUE_AT: usize = size_of::<Record>();
const _: () = {
    assert!(align_of::<Node>() <= ALIGN && align_of::<Record>() <= ALIGN);
    assert!(align_of::<Link>() <= ALIGN && TOWER_AT.is_multiple_of(align_of::<Link>()));
};

/// A node of an arena that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'a> {
    node: NonNull<Node>,
    arena: PhantomData<&'a Arena>,
}

/// A record of an arena that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct RecordRef<'a> {
    record: NonNull<Record>,
    arena: PhantomData<&'a Arena>,
}

/// What is to be written as a record.
#[derive(Clone, Copy)]
pub(super) struct NewRecord<'v> {
    pub(super) version: Version,
    pub(super) kind: Kind,
    pub(super) value: &'v [u8],
}

impl<'a> NodeRef<'a> {
    /// A new node with one record; its tower of `height` links is null.
    ///
    /// # Panics
    /// If the key has 4 GiB or more.
    pub(super) fn new(arena: &'a Arena, key: &[u8], height: usize, first: NewRecord<'_>) -> Self {
        assert!(u32::try_from(key.len()).is_ok(), "a key is shorter than 4 GiB");
        let key_at = TOWER_AT + height * size_of::<Link>();
        let record_at = (key_at + key.len()).next_multiple_of(ALIGN);
        let block = arena.alloc(record_at + VALUE_AT + first.value.len());
        // SAFETY: the block is new and ours alone; the parts written lie side by side within the
        // bytes asked for, each at an offset that is a multiple of its alignment (ALIGN for the
        // record, asserted above for the tower).
        unsafe {
            let record = first.write(block.add(record_at), ptr::null());
            let node = block.cast::<Node>();
            node.write(Node {
                newest: AtomicPtr::new(record.as_ptr()),
                key_len: key.len() as u32,
                height: height as u32,
            });
            for level in 0..height {
                let link = block.add(TOWER_AT).cast::<Link>().add(level);
                link.write(AtomicPtr::new(ptr::null_mut()));
            }
            ptr::copy_nonoverlapping(key.as_ptr(), block.add(key_at).as_ptr(), key.len());
            Self { node, arena: PhantomData }
        }
    }

    /// The node a published link points to.
    ///
    /// # Safety
    /// The pointer is null or that of a node of an arena that lives for `'a`, read with `Acquire`
    /// from where it was stored with `Release`.
    pub(super) unsafe fn from_link(pointer: *mut Node) -> Option<Self> {
        NonNull::new(pointer).map(|node| Self { node, arena: PhantomData })
    }

    pub(super) fn as_ptr(self) -> *mut Node {
        self.node.as_ptr()
    }

    fn header(self) -> &'a Node {
        // SAFETY: a `NodeRef` is made of whole nodes alone, which live for `'a`; what changes of
        // the header is atomic.
        unsafe { self.node.as_ref() }
    }

    pub(super) fn key(self) -> &'a [u8] {
        let header = self.header();
        let key_at = TOWER_AT + header.height as usize * size_of::<Link>();
        // SAFETY: the key lies there since the node was made and never changes.
        unsafe {
            let key = self.node.cast::<u8>().add(key_at);
            std::slice::from_raw_parts(key.as_ptr(), header.key_len as usize)
        }
    }

    pub(super) fn height(self) -> usize {
        self.header().height as usize
    }

    /// The link to the next node on `level`; `None` at and above the node's height.
    pub(super) fn link(self, level: usize) -> Option<&'a Link> {
        if level >= self.height() {
            return None;
        }
        // SAFETY: the tower has `height` links, written when the node was made.
        Some(unsafe { self.node.cast::<u8>().add(TOWER_AT).cast::<Link>().add(level).as_ref() })
    }

    pub(super) fn newest(self) -> RecordRef<'a> {
        let newest = self.header().newest.load(Ordering::Acquire);
        // SAFETY: never null: a node is made with a record, and replaced by newer ones alone,
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
    pub(super) fn push(self, arena: &'a Arena, new: NewRecord<'_>) {
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
    fn a_node_holds_its_key_and_its_versions_newest_first() {
        let arena = Arena::new();
        let node = NodeRef::new(&arena, b"key", 3, put(4, b"first"));
        node.push(&arena, NewRecord { kind: Kind::Delete, ..put(7, b"") });
        node.push(&arena, put(9, b"third"));
        assert_eq!((node.key(), node.height()), (&b"key"[..], 3));
        assert!(node.link(2).is_some() && node.link(3).is_none());
        let at = |v| node.newest_at(Version::from_ticks(v)).map(|r| (r.kind(), r.value()));
        assert_eq!(at(3), None);
        assert_eq!(at(4), Some((Kind::Put, &b"first"[..])));
        assert_eq!(at(8), Some((Kind::Delete, &b""[..])));
        assert_eq!(at(u64::MAX), Some((Kind::Put, &b"third"[..])));
    }
}
