//! Inner nodes of up to 4 and up to 16 children: the bytes of the children beside one another.
//!
//! Invariant: slots are filled in ascending order and a slot keeps its byte; `order` lists the
//! slots in the order of their bytes. A reader that knows the number of children finds the bytes
//! and links of that many slots written, because the number is stored after them, with `Release`.

#![expect(
    clippy::indexing_slicing,
    reason = "arrays of constant length, indexed by numbers that were masked to be below it"
)]

use std::array;

use super::inner::Header;
use super::link::{Link, Slot};
use crate::sync::{AtomicU64, Ordering};

#[repr(C)]
pub(super) struct Node4 {
    pub(super) header: Header,
    /// Bits 0..32 the bytes of the slots, 32..48 their order, 48.. their number.
    word: AtomicU64,
    pub(super) slots: [Slot; 4],
}

#[repr(C)]
pub(super) struct Node16 {
    pub(super) header: Header,
    pub(super) any_leaf: Slot,
    count: AtomicU64,
    order: AtomicU64,
    bytes: [AtomicU64; 2],
    slots: [Slot; 16],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Node4>() <= 64 && size_of::<Node16>() <= 192, "cache lines");

/// The order of slots none of which is filled: position p holds slot p.
const UNFILLED: u64 = 0xFEDC_BA98_7654_3210;

/// The bytes and order of the children, as they were at one moment.
#[derive(Clone, Copy)]
struct Sparse {
    bytes: [u64; 2],
    order: u64,
    count: usize,
}

impl Sparse {
    #[inline]
    fn byte_of(&self, slot: usize) -> u8 {
        (self.bytes[(slot / 8) & 1] >> (slot % 8 * 8)) as u8
    }

    /// Slots with their bytes, in the order of the bytes. If the order is newer than the number,
    /// it names slots beyond it, which are passed over.
    fn in_order(self) -> impl DoubleEndedIterator<Item = (usize, u8)> {
        (0..16)
            .map(move |position| (self.order >> (4 * position)) as usize & 15)
            .filter(move |&slot| slot < self.count)
            .map(move |slot| (slot, self.byte_of(slot)))
    }

    /// The order with the first unfilled slot put where its byte belongs.
    fn order_with(&self, byte: u8) -> u64 {
        let slot = self.count;
        let position = (0..slot).filter(|&other| self.byte_of(other) < byte).count();
        let before = self.order & low_digits(position);
        let moved = self.order & low_digits(slot) & !low_digits(position);
        let after = self.order & !low_digits(slot + 1);
        before | (slot as u64) << (4 * position) | moved << 4 | after
    }
}

/// The lowest `n` hexadecimal digits.
fn low_digits(n: usize) -> u64 {
    if n < 16 { (1 << (4 * n)) - 1 } else { u64::MAX }
}

const EACH_BYTE: u64 = 0x0101_0101_0101_0101;

/// The first of eight bytes, from the lowest, that is `byte`.
#[inline]
fn position_of(byte: u8, bytes: u64) -> Option<usize> {
    let differ = bytes ^ (u64::from(byte) * EACH_BYTE);
    let zeros = differ.wrapping_sub(EACH_BYTE) & !differ & (EACH_BYTE << 7);
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

impl Node4 {
    pub(super) fn new(header: Header) -> Self {
        Self {
            header,
            word: AtomicU64::new((UNFILLED & 0xFFFF) << 32),
            slots: array::from_fn(|_| Slot::new(None)),
        }
    }

    fn sparse(&self) -> Sparse {
        let word = self.word.load(Ordering::Acquire);
        let order = (UNFILLED & !0xFFFF) | ((word >> 32) & 0xFFFF);
        Sparse { bytes: [word & 0xFFFF_FFFF, 0], order, count: (word >> 48) as usize }
    }

    #[inline]
    pub(super) fn slot(&self, byte: u8) -> Option<&Slot> {
        let word = self.word.load(Ordering::Acquire);
        let slot = position_of(byte, word)?;
        if slot < (word >> 48) as usize { self.slots.get(slot) } else { None }
    }

    pub(super) fn at_or_after(&self, from: usize) -> Option<(u8, &Slot)> {
        let mut children = self.sparse().in_order();
        let (slot, byte) = children.find(|&(_, byte)| usize::from(byte) >= from)?;
        Some((byte, &self.slots[slot & 3]))
    }

    pub(super) fn before(&self, end: usize) -> Option<(u8, &Slot)> {
        let mut children = self.sparse().in_order().rev();
        let (slot, byte) = children.find(|&(_, byte)| usize::from(byte) < end)?;
        Some((byte, &self.slots[slot & 3]))
    }

    /// Adds a child, if there is room. The caller holds the latch, or the node is its own.
    pub(super) fn add(&self, byte: u8, child: Link<'_>) -> bool {
        let old = self.sparse();
        let Some(slot) = self.slots.get(old.count) else { return false };
        slot.store(child);
        let bytes = old.bytes[0] | u64::from(byte) << (8 * old.count);
        let order = old.order_with(byte) & 0xFFFF;
        let word = bytes | order << 32 | (old.count as u64 + 1) << 48;
        self.word.store(word, Ordering::Release);
        true
    }
}

impl Node16 {
    pub(super) fn new(header: Header, any_leaf: Link<'_>) -> Self {
        Self {
            header,
            any_leaf: Slot::new(Some(any_leaf)),
            count: AtomicU64::new(0),
            order: AtomicU64::new(UNFILLED),
            bytes: array::from_fn(|_| AtomicU64::new(0)),
            slots: array::from_fn(|_| Slot::new(None)),
        }
    }

    fn sparse(&self) -> Sparse {
        let count = self.count.load(Ordering::Acquire) as usize;
        let bytes = array::from_fn(|i| self.bytes[i].load(Ordering::Relaxed));
        Sparse { bytes, order: self.order.load(Ordering::Relaxed), count }
    }

    #[inline]
    pub(super) fn slot(&self, byte: u8) -> Option<&Slot> {
        let count = self.count.load(Ordering::Acquire) as usize;
        let [low, high] = &self.bytes;
        let slot = position_of(byte, low.load(Ordering::Relaxed))
            .or_else(|| Some(8 + position_of(byte, high.load(Ordering::Relaxed))?))?;
        if slot < count { self.slots.get(slot) } else { None }
    }

    pub(super) fn at_or_after(&self, from: usize) -> Option<(u8, &Slot)> {
        let mut children = self.sparse().in_order();
        let (slot, byte) = children.find(|&(_, byte)| usize::from(byte) >= from)?;
        Some((byte, &self.slots[slot & 15]))
    }

    pub(super) fn before(&self, end: usize) -> Option<(u8, &Slot)> {
        let mut children = self.sparse().in_order().rev();
        let (slot, byte) = children.find(|&(_, byte)| usize::from(byte) < end)?;
        Some((byte, &self.slots[slot & 15]))
    }

    /// Adds a child, if there is room. The caller holds the latch, or the node is its own.
    pub(super) fn add(&self, byte: u8, child: Link<'_>) -> bool {
        let old = self.sparse();
        let Some(slot) = self.slots.get(old.count) else { return false };
        slot.store(child);
        let half = old.count / 8;
        let bytes = old.bytes[half] | u64::from(byte) << (old.count % 8 * 8);
        self.bytes[half].store(bytes, Ordering::Relaxed);
        self.order.store(old.order_with(byte), Ordering::Relaxed);
        self.count.store(old.count as u64 + 1, Ordering::Release);
        true
    }
}
