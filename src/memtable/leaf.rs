//! Leaves and records: a key with the chain of its versions, in blocks of the arena.
//!
//! Invariant: a leaf is whole before a pointer to it is published, and but for its `newest`
//! pointer and its count never changes; a record never changes. The chain is newest first.
//!
//! ```text
//! leaf: key
//!   └ newest ──► record v9 ──older──► record v4 ──older──► null
//! ```
//!
//! A reader of an old version does not walk the whole chain. One record in [`HOP_EVERY`] has a hop: links to the previous
//! record that has one, and to one farther back, chosen so that any record is found in logarithmically many steps
//! (Myers, "An applicative random-access stack", 1983). In a row that was written 100,000 times any version is found in
//! 0.3 µs; the walk took 70 (`cargo bench --bench memtable -- rewritten`).
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
use crate::sync::{AtomicPtr, AtomicU32, Ordering};
use crate::version::Version;

/// Alignment of leaves and records.
const ALIGN: usize = 8;

/// Where leaves and records are.
pub(super) type LeafArena = Arena<ALIGN>;

/// What the block of a leaf begins with; its key and first record follow.
#[repr(C)]
pub(super) struct Leaf {
    newest: AtomicPtr<Record>,
    key_len: u32,
    /// How many records were pushed since the first, which says which of them get a hop.
    pushed: AtomicU32,
}

/// What the block of a record begins with; its value follows, or a pointer to it.
#[repr(C)]
struct Record {
    older: *const Record,
    version: Version,
    /// Length of the value, shifted left by [`FLAG_BITS`], with [`KEPT`], [`HOPS`], and the kind in the lowest bit.
    len_and_flags: usize,
}

/// What lies before a record that has it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Hop<'a> {
    /// The newest of the older records that have one.
    previous: Option<RecordRef<'a>>,
    /// One of those that it leads to.
    far: Option<RecordRef<'a>>,
    /// How many records with one there are from here on.
    depth: usize,
}

/// The value is not in the block; a pointer to it is.
const KEPT: usize = 2;
/// A [`Hop`] lies before the record.
const HOPS: usize = 4;
const FLAG_BITS: u32 = 3;

/// A step to the next record waits for memory as a hop does, so a hop has to save several steps to be worth its bytes.
const HOP_EVERY: u32 = if cfg!(loom) { 1 } else { 16 };
const HOP_BYTES: usize = size_of::<Hop<'_>>();

const KEY_AT: usize = size_of::<Leaf>();
const VALUE_AT: usize = size_of::<Record>();
const _: () = assert!(align_of::<Leaf>() <= ALIGN && align_of::<Record>() <= ALIGN);
const _: () = assert!(VALUE_AT.is_multiple_of(align_of::<*const u8>()));
const _: () = assert!(HOP_BYTES.is_multiple_of(ALIGN) && align_of::<Hop<'_>>() <= ALIGN);

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

    /// Length of the block that the record takes, without a hop.
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
            let record = first.write(block.add(record_at), None, None);
            let leaf = block.cast::<Leaf>();
            leaf.write(Leaf {
                newest: AtomicPtr::new(record.as_ptr()),
                key_len: key.len() as u32,
                pushed: AtomicU32::new(0),
            });
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
            std::slice::from_raw_parts(key.as_ptr(), self.header().key_len as usize)
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
        let hops = self.count_push().is_multiple_of(HOP_EVERY);
        let block = arena.alloc(new.block_len() + if hops { HOP_BYTES } else { 0 });
        let newest = &self.header().newest;
        let mut older = self.newest();
        loop {
            let hop = hops.then(|| Hop::over(older));
            // SAFETY: the block is large enough, aligned, and ours until the exchange succeeds.
            let record = unsafe { new.write(block, hop, Some(older)) };
            let exchanged = newest.compare_exchange_weak(
                older.record.as_ptr(),
                record.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match exchanged {
                Ok(_) => return,
                Err(_) => older = self.newest(),
            }
        }
    }

    /// The number of this push. Pushes to one leaf come one after another, so none is lost; if one were, hops would only
    /// be a few records farther apart.
    fn count_push(self) -> u32 {
        let pushed = self.header().pushed.load(Ordering::Relaxed).wrapping_add(1);
        self.header().pushed.store(pushed, Ordering::Relaxed);
        pushed
    }
}

impl<'a> Hop<'a> {
    /// The hop of a record that is pushed before `newest`. Where the last two far links are of equal length, `far` spans
    /// both of them; else it is `previous`.
    fn over(newest: RecordRef<'a>) -> Self {
        let depth = |record: Option<RecordRef<'a>>| {
            record.and_then(RecordRef::hop).map_or(0, |hop| hop.depth)
        };
        let far = |record: Option<RecordRef<'a>>| record.and_then(RecordRef::hop)?.far;
        let previous = newest.last_with_hop();
        let (second, third) = (far(previous), far(far(previous)));
        let is_even = depth(previous) - depth(second) == depth(second) - depth(third);
        Self { previous, far: if is_even { third } else { previous }, depth: depth(previous) + 1 }
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
            std::slice::from_raw_parts(start, flags >> FLAG_BITS)
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
            record = record.toward(at)?;
        }
        Some(record)
    }

    /// The farthest older record that leads to the newest at or before `at`, which this one is newer than.
    fn toward(self, at: Version) -> Option<Self> {
        let hops = self.hop().map_or([None; 2], |hop| [hop.far, hop.previous]);
        let newer = hops.into_iter().flatten().find(|record| record.version() > at);
        newer.or_else(|| self.older())
    }

    fn hop(self) -> Option<Hop<'a>> {
        if self.header().len_and_flags & HOPS == 0 {
            return None;
        }
        // SAFETY: a hop lies before the record since that was made, of records that live as long.
        Some(unsafe { self.record.cast::<Hop<'_>>().sub(1).read() })
    }

    /// Of this record and those before it, the newest that has a hop.
    fn last_with_hop(self) -> Option<Self> {
        let mut record = self;
        while record.hop().is_none() {
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
    /// The block is the caller's alone, aligned to [`ALIGN`], and [`block_len`](Self::block_len) long, with
    /// [`HOP_BYTES`] more for a hop; `older`, and what the hop leads to, are of the same arena.
    unsafe fn write(
        self,
        block: NonNull<u8>,
        hop: Option<Hop<'_>>,
        older: Option<RecordRef<'_>>,
    ) -> NonNull<Record> {
        let older = older.map_or(ptr::null(), |older| older.record.as_ptr().cast_const());
        let kept = if self.is_kept { KEPT } else { 0 };
        let hops = if hop.is_some() { HOPS } else { 0 };
        let flags = hops | kept | usize::from(self.kind.byte());
        let len_and_flags = self.value.len() << FLAG_BITS | flags;
        // SAFETY: as the caller promises.
        unsafe {
            let record = match hop {
                Some(hop) => {
                    block.cast().write(hop);
                    block.add(HOP_BYTES)
                }
                None => block,
            };
            record.cast().write(Record { older, version: self.version, len_and_flags });
            let value = record.add(VALUE_AT);
            if self.is_kept {
                value.cast::<*const u8>().write(self.value.as_ptr());
            } else {
                let (from, len) = (self.value.as_ptr(), self.value.len());
                ptr::copy_nonoverlapping(from, value.as_ptr(), len);
            }
            record.cast()
        }
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

    /// R-E20: what a snapshot reads costs about the same, however often the row was written since.
    #[test]
    fn r_e20_an_old_version_is_few_steps_away() {
        let arena = LeafArena::new(Arc::default());
        let leaf = LeafRef::new(&arena, b"key", put(2, b""));
        for count in 1..=20_000 {
            let at =
                |ticks| leaf.newest_at(Version::from_ticks(ticks)).map(|r| r.version().ticks());
            let step = if count < 300 { 1 } else { count };
            for version in (1..=count).step_by(step) {
                let version = version as u64 * 2;
                assert_eq!([version, version + 1].map(at), [Some(version); 2]);
            }
            assert_eq!(at(1), None);
            leaf.push(&arena, put(count as u64 * 2 + 2, b""));
        }
        let most = (0..40_000).map(|at| steps_to(leaf, Version::from_ticks(at))).max();
        assert!(most.unwrap() < 60, "{most:?}");
    }

    fn steps_to(leaf: LeafRef<'_>, at: Version) -> usize {
        let newer = |record: &RecordRef<'_>| record.version() > at;
        std::iter::successors(Some(leaf.newest()), |record| record.toward(at))
            .take_while(newer)
            .count()
    }
}
