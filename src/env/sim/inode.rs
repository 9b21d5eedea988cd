//! [`Inode`]: a simulated file: its bytes, its durable bytes, and what lies between.
//!
//! Invariant: the durable bytes with all unsynced changes applied in order are the live bytes,
//! unless a sync failed since.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use super::CrashStyle;
use crate::env::BLOCK_BYTES;

/// What a disk writes in one piece.
const SECTOR_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// The blocks that cannot be read once they were read so many times more.
    spoiled: BTreeMap<usize, u32>,
    maps: Vec<Weak<[u8]>>,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    SetLen(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => write(bytes, *offset, data),
            Self::SetLen(len) => bytes.resize(*len, 0),
        }
    }

    /// Has these bytes be in it as well, where it writes to their place.
    fn overlay(&mut self, at: usize, bytes: &[u8]) {
        let Self::Write { offset, data } = self else { return };
        let start = at.max(*offset);
        let end = (at + bytes.len()).min(*offset + data.len());
        if start < end
            && let Some(target) = data.get_mut(start - *offset..end - *offset)
            && let Some(source) = bytes.get(start - at..end - at)
        {
            target.copy_from_slice(source);
        }
    }

    /// Applies what a torn crash leaves of the change.
    fn apply_torn(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let Self::Write { offset, data } = self else {
            if random.coin() {
                self.apply(bytes);
            }
            return;
        };
        let fate = random.below(4);
        let cut = random.below(data.len() + 1);
        for piece in sectors(*offset, data.len()) {
            let kept = match fate {
                0 => true,
                1 => false,
                2 => piece.end <= cut,
                _ => random.coin(),
            };
            if let (true, Some(sector)) = (kept, data.get(piece.clone())) {
                write(bytes, offset + piece.start, sector);
            }
        }
        // A length may become durable before the bytes it is for: they read as zeros.
        let end = offset + data.len();
        if bytes.len() < end && random.coin() {
            bytes.resize(end, 0);
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(target) = bytes.get_mut(offset..end) {
        target.copy_from_slice(data);
    }
}

/// Splits a write of `len` bytes at `offset` of a file at the file's sectors.
fn sectors(offset: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let to_boundary = SECTOR_BYTES - (offset + start) % SECTOR_BYTES;
        let piece = start..len.min(start + to_boundary);
        start = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The blocks that a piece of a file is in.
fn blocks(bytes: Range<usize>) -> Range<usize> {
    bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES)
}

impl Inode {
    pub(super) fn durable(bytes: &[u8]) -> Self {
        Self { live: bytes.to_vec(), durable: bytes.to_vec(), ..Self::default() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn map(&mut self) -> Arc<[u8]> {
        let map = Arc::from(self.bytes());
        self.maps.push(Arc::downgrade(&map));
        map
    }

    /// Whether somebody has a map of it.
    pub(super) fn is_mapped(&mut self) -> bool {
        self.maps.retain(|map| map.strong_count() > 0);
        !self.maps.is_empty()
    }

    pub(super) fn spoil(&mut self, offset: usize, reads: u32) {
        self.spoiled.insert(offset / BLOCK_BYTES, reads);
    }

    /// Whether all of it can be read, as it is now.
    pub(super) fn is_readable(&mut self, bytes: Range<usize>) -> bool {
        let read = if bytes.is_empty() { 0..0 } else { blocks(bytes) };
        if self.spoiled.range(read.clone()).any(|(_, reads)| *reads == 0) {
            return false;
        }
        self.spoiled.range_mut(read).for_each(|(_, reads)| *reads -= 1);
        true
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        self.heal(offset, data.len());
        self.change(Change::Write { offset, data: data.to_vec() });
    }

    /// What is written to can be read again.
    fn heal(&mut self, offset: usize, len: usize) {
        let written = blocks(offset..offset + len);
        self.spoiled.retain(|block, _| !written.contains(block));
    }

    /// Writes bytes that are durable at once, and no other changes with them unless one cuts the file there.
    pub(super) fn write_durably(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        let is_cut = |change: &Change| matches!(change, Change::SetLen(len) if *len < end);
        if self.unsynced.iter().any(is_cut) {
            self.write(offset, data);
            return self.sync();
        }
        self.heal(offset, data.len());
        self.unsynced.iter_mut().for_each(|change| change.overlay(offset, data));
        write(&mut self.live, offset, data);
        write(&mut self.durable, offset, data);
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.change(Change::SetLen(len));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// The operating system forgets which pages it failed to write: each change is durable, or
    /// never will be.
    pub(super) fn sync_failed(&mut self, random: &mut Random) {
        for change in self.unsynced.drain(..) {
            if random.coin() {
                change.apply(&mut self.durable);
            }
        }
    }

    pub(super) fn crash(&mut self, style: CrashStyle, random: &mut Random) {
        for change in self.unsynced.drain(..) {
            match style {
                CrashStyle::LoseUnsynced => {}
                CrashStyle::KeepAll => change.apply(&mut self.durable),
                CrashStyle::Torn => change.apply_torn(&mut self.durable, random),
            }
        }
        self.live.clone_from(&self.durable);
    }
}

/// A small generator (SplitMix64), so that a seed means the same tearing in every build.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
