//! [`Bits`]: what was done to the parts of one open file, a bit each.
//!
//! Invariant: a bit that was set stays set. A bit says something about bytes that never change, and
//! orders nothing, so all access is relaxed.

use std::sync::atomic::{AtomicU64, Ordering};

/// As many bits as were asked for, or a few more; beyond them there are none that are set.
#[derive(Debug, Default)]
pub(super) struct Bits(Box<[AtomicU64]>);

impl Bits {
    /// So many bits, none of them set.
    pub(super) fn new(bits: usize) -> Self {
        Self((0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(super) fn is_set(&self, bit: usize) -> bool {
        let word = self.0.get(bit / 64).map_or(0, |word| word.load(Ordering::Relaxed));
        word >> (bit % 64) & 1 != 0
    }

    #[inline]
    pub(super) fn set(&self, bit: usize) {
        if let Some(word) = self.0.get(bit / 64) {
            word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_set_alone() {
        let bits = Bits::new(130);
        [0, 63, 64, 129].into_iter().for_each(|bit| bits.set(bit));
        let set: Vec<_> = (0..1_000).filter(|bit| bits.is_set(*bit)).collect();
        assert_eq!(set, [0, 63, 64, 129]);
    }

    #[test]
    fn there_are_no_bits_beyond_the_last() {
        let bits = Bits::new(1);
        bits.set(64);
        bits.set(usize::MAX);
        assert!(!bits.is_set(64) && !bits.is_set(usize::MAX));
    }
}
