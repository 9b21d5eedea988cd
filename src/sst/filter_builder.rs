//! [`FilterBuilder`]: writes a table file's filters.

use bloomfilter::Bloom;

use super::filter::{Divisor, Probes, SEED, filter_of, later_probe};

/// At 16 bits and 7 probes an item, 0.07 % of absent keys pass. Each costs a read of the device where
/// data outgrows memory, and at 10 bits they were a half of what absent keys cost there.
const BITS_PER_ITEM: usize = 16;
/// The crate takes as many probes as suit so many bits an item: 7. With the 11 that suit 16 bits a
/// third less would pass, and every item would cost half as much again when it is written.
const BITS_PROBED_FOR: usize = 10;
const FILTER_BYTES: usize = 4 << 10;

/// Collects the hashes of a file's keys and partitions.
#[derive(Debug, Default)]
pub(super) struct FilterBuilder {
    hashes: Vec<u64>,
}

impl FilterBuilder {
    pub(super) fn add(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    /// Bytes the filters will take.
    pub(super) fn len(&self) -> usize {
        self.hashes.len() * BITS_PER_ITEM / 8
    }

    /// The encoded filters; at least one.
    pub(super) fn finish(self) -> impl Iterator<Item = Vec<u8>> {
        let filters = self.len().div_ceil(FILTER_BYTES).max(1);
        let (grouped, ends) = self.group(filters);
        let mut start = 0;
        ends.into_iter().map(move |end| {
            let hashes = grouped.get(start..end).unwrap_or_default();
            start = end;
            encode_filter(hashes)
        })
    }

    /// The hashes with those of one filter next to each other, and where those of each end. Their
    /// order within a filter makes no difference, so they need not be sorted.
    fn group(self, filters: usize) -> (Vec<u64>, Vec<usize>) {
        let mut next = vec![0; filters];
        for &hash in &self.hashes {
            if let Some(count) = next.get_mut(filter_of(hash, filters)) {
                *count += 1;
            }
        }
        let mut start = 0;
        for count in &mut next {
            start += std::mem::replace(count, start);
        }
        let mut grouped = vec![0; self.hashes.len()];
        for hash in self.hashes {
            if let Some(at) = next.get_mut(filter_of(hash, filters))
                && let Some(place) = grouped.get_mut(*at)
            {
                *place = hash;
                *at += 1;
            }
        }
        (grouped, next)
    }
}

pub(super) fn encode_filter(hashes: &[u64]) -> Vec<u8> {
    let bytes = (hashes.len().max(1) * BITS_PER_ITEM).div_ceil(8);
    // Fails only for a size or number of items of zero.
    let Ok(bloom) = Bloom::<u64>::new_with_seed(bytes, bytes * 8 / BITS_PROBED_FOR, &SEED) else {
        return Vec::new();
    };
    let probes = bloom.number_of_hash_functions();
    let mut encoded = bloom.into_bytes();
    let head = encoded.len() - bytes;
    let (_, bits) = encoded.split_at_mut(head);
    let len = Divisor::new(bytes as u64 * 8);
    for hash in hashes {
        set(bits, len, probes, *hash);
    }
    encoded
}

/// Sets the bits of the item with this hash.
#[inline]
fn set(bits: &mut [u8], len: Divisor, probes: u32, hash: u64) {
    let mut set_bit = |probe| {
        let bit = len.remainder(probe);
        if let Some(byte) = bits.get_mut((bit / 8) as usize) {
            *byte |= 1 << (bit % 8);
        }
    };
    // Sums, not the products of `Probes::probe`: these are 3 to 4 % of a flush's or compaction's instructions.
    let Probes { first, second } = Probes::of(hash);
    set_bit(first);
    if probes > 1 {
        set_bit(second);
    }
    let mut sum = first.wrapping_add(second);
    for _ in 2..probes {
        sum = sum.wrapping_add(second);
        set_bit(later_probe(sum));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::filter::HEAD_BYTES;
    use super::*;
    use crate::key;

    #[test]
    fn filters_are_about_a_page_each() {
        let mut builder = FilterBuilder::default();
        (0..20_000u64).for_each(|item| builder.add(key::hash(&item.to_le_bytes())));
        let filters: Vec<_> = builder.finish().collect();
        assert_eq!(filters.len(), 10);
        assert!(filters.iter().all(|f| f.len() < FILTER_BYTES + 512));
    }

    proptest! {
        #[test]
        fn each_hash_goes_to_its_filter(
            hashes in proptest::collection::vec(any::<u64>(), 0..300),
            filters in 1usize..20,
        ) {
            let (grouped, ends) = FilterBuilder { hashes: hashes.clone() }.group(filters);
            let mut start = 0;
            for (filter, &end) in ends.iter().enumerate() {
                prop_assert!(grouped[start..end].iter().all(|&h| filter_of(h, filters) == filter));
                start = end;
            }
            let sorted = |mut hashes: Vec<u64>| { hashes.sort_unstable(); hashes };
            prop_assert_eq!(sorted(grouped), sorted(hashes));
        }

        /// The bits are those that the crate sets.
        #[test]
        fn a_filter_is_what_the_crate_writes(
            hashes in proptest::collection::vec(any::<u64>(), 0..300),
        ) {
            let encoded = encode_filter(&hashes);
            let bits = encoded.len() - HEAD_BYTES;
            let items = bits * 8 / BITS_PROBED_FOR;
            let mut bloom = Bloom::<u64>::new_with_seed(bits, items, &SEED).unwrap();
            // It hashes a number as it is in memory.
            hashes.iter().for_each(|hash| bloom.set(&hash.to_le()));
            prop_assert_eq!(encoded, bloom.into_bytes());
        }
    }
}
