//! Inner nodes of up to 48 and of any number of children: a table over all 256 bytes.
//!
//! Invariant: an entry of the table of a `Node48` is stored with `Release` after the link in its
//! slot, and never changes again.

#![expect(
    clippy::indexing_slicing,
    reason = "arrays of 32 words and 256 slots, indexed by a byte's upper bits and by a byte"
)]

use std::array;

use super::inner::Header;
use super::link::{Link, Slot};
use crate::sync::{AtomicU64, Ordering};

#[repr(C)]
pub(super) struct Node48 {
    pub(super) header: Header,
    pub(super) any_leaf: Slot,
    count: AtomicU64,
    /// For every byte one more than its slot, or zero; eight entries in a word.
    table: [AtomicU64; 32],
    slots: [Slot; 48],
}

#[repr(C)]
pub(super) struct Node256 {
    pub(super) header: Header,
    pub(super) any_leaf: Slot,
    slots: [Slot; 256],
}

impl Node48 {
    pub(super) fn new(header: Header, any_leaf: Link<'_>) -> Self {
        Self {
            header,
            any_leaf: Slot::new(Some(any_leaf)),
            count: AtomicU64::new(0),
            table: array::from_fn(|_| AtomicU64::new(0)),
            slots: array::from_fn(|_| Slot::new(None)),
        }
    }

    #[inline]
    pub(super) fn slot(&self, byte: u8) -> Option<&Slot> {
        let word = self.table[usize::from(byte / 8)].load(Ordering::Acquire);
        let entry = (word >> (byte % 8 * 8)) as usize & 0xFF;
        self.slots.get(entry.checked_sub(1)?)
    }

    pub(super) fn at_or_after(&self, from: usize) -> Option<(u8, &Slot)> {
        let mut words = self.table.iter().enumerate().skip(from / 8);
        let byte = words.find_map(|(i, word)| {
            let first = (from.max(8 * i) - 8 * i) * 8;
            let rest = word.load(Ordering::Acquire) & (u64::MAX << first);
            (rest != 0).then(|| (8 * i) as u8 + (rest.trailing_zeros() / 8) as u8)
        })?;
        Some((byte, self.slot(byte)?))
    }

    pub(super) fn before(&self, end: usize) -> Option<(u8, &Slot)> {
        let mut words = self.table.iter().enumerate().take(end.div_ceil(8)).rev();
        let byte = words.find_map(|(i, word)| {
            let beyond = (8 * i + 8).saturating_sub(end) * 8;
            let rest = word.load(Ordering::Acquire) & (u64::MAX >> beyond);
            (rest != 0).then(|| (8 * i) as u8 + 7 - (rest.leading_zeros() / 8) as u8)
        })?;
        Some((byte, self.slot(byte)?))
    }

    /// Adds a child, if there is room. The caller holds the latch, or the node is its own.
    pub(super) fn add(&self, byte: u8, child: Link<'_>) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let Some(slot) = self.slots.get(count as usize) else { return false };
        slot.store(child);
        let word = &self.table[usize::from(byte / 8)];
        let entry = (count + 1) << (byte % 8 * 8);
        word.store(word.load(Ordering::Relaxed) | entry, Ordering::Release);
        self.count.store(count + 1, Ordering::Relaxed);
        true
    }
}

impl Node256 {
    pub(super) fn new(header: Header, any_leaf: Link<'_>) -> Self {
        Self {
            header,
            any_leaf: Slot::new(Some(any_leaf)),
            slots: array::from_fn(|_| Slot::new(None)),
        }
    }

    #[inline]
    pub(super) fn slot(&self, byte: u8) -> Option<&Slot> {
        let slot = &self.slots[usize::from(byte)];
        slot.load().map(|_| slot)
    }

    pub(super) fn at_or_after(&self, from: usize) -> Option<(u8, &Slot)> {
        let mut slots = self.slots.iter().enumerate().skip(from);
        slots.find(|(_, slot)| slot.load().is_some()).map(|(byte, slot)| (byte as u8, slot))
    }

    pub(super) fn before(&self, end: usize) -> Option<(u8, &Slot)> {
        let mut slots = self.slots.iter().enumerate().take(end).rev();
        slots.find(|(_, slot)| slot.load().is_some()).map(|(byte, slot)| (byte as u8, slot))
    }

    /// Adds a child. The caller holds the latch, or the node is its own.
    pub(super) fn add(&self, byte: u8, child: Link<'_>) -> bool {
        self.slots[usize::from(byte)].store(child);
        true
    }
}
