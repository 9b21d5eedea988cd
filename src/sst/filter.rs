//! The filter: which keys and partitions a file certainly lacks.
//!
//! One Bloom filter for each about 4 KiB of bits, so that all probes of a lookup share a page; a
//! hash's high bits choose the filter. Every distinct key is an item, and every partition (the
//! encoded prefix of its keys). Each filter is sized for the items it got. It is stored as the
//! crate `bloomfilter` lays it out: version u8, length u64, k u32, seed 32 bytes, the bits. Bits are
//! set and asked where they lie, by the arithmetic of that crate.

use std::ops::Range;

use bloomfilter::reexports::siphasher::sip::SipHasher13;

use super::frame::TRAILER_BYTES;
use crate::error::Damage;

/// Stored in every filter; fixed so that a file's bytes depend on its entries alone.
pub(super) const SEED: [u8; 32] = *b"tablestone filters: a fixed seed";
/// The layout that the crate writes.
const LAYOUT: u8 = 1;
/// The modulus of the third probe and all after it.
const LARGEST_PRIME: u64 = u64::MAX - 58;
/// More probes than any size of filter asks for.
const MAX_PROBES: u32 = 64;

/// Which filter answers for a hash.
#[inline]
pub(super) fn filter_of(hash: u64, filters: usize) -> usize {
    ((u128::from(hash) * filters as u128) >> 64) as usize
}

/// Bytes before the bits.
pub(super) const HEAD_BYTES: usize = 1 + 8 + 4 + 32;

/// A divisor of many numbers, whose remainders take two multiplications each and no division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    divisor: u64,
    /// 2^64 divided by it, rounded down, or one less.
    inverse: u64,
}

impl Divisor {
    /// For a divisor from 1 to 2^63.
    pub(super) fn new(divisor: u64) -> Self {
        Self { divisor, inverse: u64::MAX / divisor }
    }

    #[inline]
    pub(super) fn remainder(self, number: u64) -> u64 {
        // It lacks less than number / 2^64 of the quotient, so rounded down it is that or one less.
        let quotient = ((u128::from(number) * u128::from(self.inverse)) >> 64) as u64;
        let rest = number - quotient * self.divisor;
        rest.checked_sub(self.divisor).unwrap_or(rest)
    }
}

/// The first probe of the item with this hash, before it is taken modulo the number of bits.
#[inline]
fn first_probe([a, b, _, _]: [u64; 4], hash: u64) -> u64 {
    SipHasher13::new_with_keys(a, b).hash(&hash.to_le_bytes())
}

#[inline]
fn second_probe([_, _, c, d]: [u64; 4], hash: u64) -> u64 {
    SipHasher13::new_with_keys(c, d).hash(&hash.to_le_bytes())
}

/// A probe after these: `sum` is the first and as many times the second as there are probes before it.
#[inline]
pub(super) fn later_probe(sum: u64) -> u64 {
    sum.checked_sub(LARGEST_PRIME).unwrap_or(sum)
}

/// After so many probes, one absent key in sixty is left.
const FIRST_PROBES: u32 = 4;

/// The seed as the hashes take it.
const SEED_KEYS: [u64; 4] = match SEED.as_chunks().0 {
    [a, b, c, d] => [
        u64::from_le_bytes(*a),
        u64::from_le_bytes(*b),
        u64::from_le_bytes(*c),
        u64::from_le_bytes(*d),
    ],
    _ => [0; 4],
};

/// What an item's hash is hashed to by every filter, as long as all have the one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probes {
    pub(super) first: u64,
    pub(super) second: u64,
}

impl Probes {
    #[inline]
    pub(crate) fn of(hash: u64) -> Self {
        Self { first: first_probe(SEED_KEYS, hash), second: second_probe(SEED_KEYS, hash) }
    }

    /// A probe, before it is taken modulo the number of bits.
    #[inline]
    fn probe(self, number: u32) -> u64 {
        match number {
            0 => self.first,
            1 => self.second,
            _ => later_probe(self.second.wrapping_mul(number.into()).wrapping_add(self.first)),
        }
    }
}

/// Number of bits in a filter that is stored in so many bytes; at least 1.
pub(super) fn bits_in(stored: usize) -> Divisor {
    let bytes = stored.saturating_sub(HEAD_BYTES + TRAILER_BYTES);
    Divisor::new((bytes as u64 * 8).max(1))
}

/// Which bits the first probes of an item ask of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstBits {
    /// Of the filter's; 0 for what none of ours has.
    bytes: u32,
    numbers: [u32; FIRST_PROBES as usize],
    probes: Probes,
}

impl FirstBits {
    /// Those in a filter of so many bits, whose memory is not touched.
    #[inline]
    pub(super) fn new(probes: Probes, bits: Divisor) -> Self {
        if bits.divisor > u32::MAX.into() {
            return Self { bytes: 0, numbers: [0; FIRST_PROBES as usize], probes };
        }
        let number = |probe| bits.remainder(probes.probe(probe as u32)) as u32;
        let numbers = std::array::from_fn(number);
        Self { bytes: (bits.divisor / 8) as u32, numbers, probes }
    }

    /// Where in the filter they are, and what is looked at before.
    #[inline]
    pub(super) fn offsets(&self) -> impl Iterator<Item = u64> {
        let offset = |number: u32| HEAD_BYTES as u64 + u64::from(number / 8);
        std::iter::once(0).chain(self.numbers.map(offset))
    }
}

/// The bit that a probe asks of so many bytes.
#[inline]
fn bit_of(probe: u64, bytes: usize) -> u64 {
    // There are bits, else it were no filter.
    probe.checked_rem(bytes as u64 * 8).unwrap_or(0)
}

/// A filter to ask, over its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<'a> {
    probes: u32,
    keys: [u64; 4],
    bits: &'a [u8],
}

impl<'a> Filter<'a> {
    /// Checks all that the payload says of itself.
    #[inline]
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Damage> {
        Self::parse_parts(payload).ok_or_else(|| {
            let found = "another layout, length or number";
            Damage::new(0, "a Bloom filter with all its bits and 1 to 64 probes", found)
        })
    }

    #[inline]
    fn parse_parts(payload: &'a [u8]) -> Option<Self> {
        let (&layout, rest) = payload.split_first()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (probes, rest) = rest.split_first_chunk()?;
        let (seed, bits) = rest.split_first_chunk::<32>()?;
        let &[a, b, c, d] = seed.as_chunks().0 else { return None };
        let probes = u32::from_le_bytes(*probes);
        let is_whole = layout == LAYOUT
            && u64::from_le_bytes(*len) == bits.len() as u64
            && (1..=MAX_PROBES).contains(&probes)
            && !bits.is_empty();
        is_whole.then_some(Self { probes, keys: [a, b, c, d].map(u64::from_le_bytes), bits })
    }

    /// `false`: the item with this hash is not in it.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        self.ask(hash).is_some_and(Rest::may_contain)
    }

    /// Asks the first probes: `None` if they show that the item with this hash is not in it.
    #[inline]
    pub(super) fn ask(&self, hash: u64) -> Option<Rest<'a>> {
        let ask = |keys| {
            let first = first_probe(keys, hash);
            let has_first = self.has_bit(bit_of(first, self.bits.len()));
            let probes = has_first.then(|| Probes { first, second: second_probe(keys, hash) })?;
            let has_others = self.has_all(probes, 1..FIRST_PROBES.min(self.probes));
            has_others.then_some(Rest { filter: *self, probes })
        };
        // The seed that every filter has is known before the filter was fetched from memory.
        if self.keys == SEED_KEYS { ask(SEED_KEYS) } else { ask(self.keys) }
    }

    /// The same of an item whose first probes ask these bits.
    #[inline]
    pub(super) fn ask_bits(&self, hash: u64, bits: &FirstBits) -> Option<Rest<'a>> {
        if self.keys != SEED_KEYS || self.bits.len() != bits.bytes as usize {
            return self.ask(hash);
        }
        let mut first = bits.numbers.iter().take(self.probes as usize);
        let has_first = first.all(|&number| self.has_bit(number.into()));
        has_first.then_some(Rest { filter: *self, probes: bits.probes })
    }

    #[inline]
    fn has_all(&self, probes: Probes, mut numbers: Range<u32>) -> bool {
        numbers.all(|number| self.has_bit(bit_of(probes.probe(number), self.bits.len())))
    }

    #[inline]
    fn has_bit(&self, bit: u64) -> bool {
        self.bits.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }
}

/// A filter whose first probes were asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest<'a> {
    filter: Filter<'a>,
    probes: Probes,
}

impl Rest<'_> {
    /// `false`: the item is not in it.
    #[inline]
    pub(super) fn may_contain(self) -> bool {
        self.filter.has_all(self.probes, FIRST_PROBES..self.filter.probes)
    }
}

#[cfg(test)]
mod tests {
    use bloomfilter::Bloom;
    use proptest::prelude::*;

    use super::super::filter_builder::{FilterBuilder, encode_filter};
    use super::*;
    use crate::key;

    fn filters(items: u64) -> Vec<Vec<u8>> {
        let mut builder = FilterBuilder::default();
        for item in 0..items {
            builder.add(key::hash(&item.to_le_bytes()));
        }
        builder.finish().collect()
    }

    fn passes(filters: &[Vec<u8>], item: u64) -> bool {
        let hash = key::hash(&item.to_le_bytes());
        Filter::parse(&filters[filter_of(hash, filters.len())]).unwrap().may_contain(hash)
    }

    #[test]
    fn all_items_pass_and_one_in_a_thousand_of_others() {
        for items in [1, 10, 1_000, 20_000] {
            let filters = filters(items);
            assert!((0..items).all(|item| passes(&filters, item)));
            let strangers = 20_000;
            let passed = (items..items + strangers).filter(|&i| passes(&filters, i)).count() as u64;
            // One item alone has a filter of two bytes, and is not worth a bound.
            assert!(items == 1 || passed * 500 < strangers, "{passed} passed of {strangers}");
        }
    }

    #[test]
    fn a_filter_without_bits_or_probes_is_damage() {
        let whole = encode_filter(&[1, 2, 3]);
        assert!(Filter::parse(&whole).is_ok());
        for len in 0..whole.len() {
            assert!(Filter::parse(&whole[..len]).is_err());
        }
        for probes in [0, MAX_PROBES as u8 + 1] {
            let mut other = whole.clone();
            other[9] = probes;
            assert!(Filter::parse(&other).is_err());
        }
        let mut no_bits = whole[..whole.len() - Filter::parse(&whole).unwrap().bits.len()].to_vec();
        no_bits[1..9].fill(0);
        assert!(Filter::parse(&no_bits).is_err());
        let mut later_layout = whole;
        later_layout[0] = 2;
        assert!(Filter::parse(&later_layout).is_err());
    }

    proptest! {
        /// Its answer is the crate's, for any bits, seeds and number of probes.
        #[test]
        fn it_answers_as_the_crate_that_writes_it(
            bits in proptest::collection::vec(prop_oneof![Just(0xFFu8), any::<u8>()], 1..300),
            seed in prop_oneof![Just(SEED), any::<[u8; 32]>()],
            probes in 1..=MAX_PROBES,
            hashes in proptest::collection::vec(any::<u64>(), 1..30),
        ) {
            let len = (bits.len() as u64).to_le_bytes();
            let payload = [&[LAYOUT][..], &len, &probes.to_le_bytes(), &seed, &bits].concat();
            let filter = Filter::parse(&payload).unwrap();
            let bloom = Bloom::<u64>::from_slice(&payload).unwrap();
            let stored = bits_in(payload.len() + TRAILER_BYTES);
            for hash in hashes {
                // It hashes a number as it is in memory.
                let expected = bloom.check(&hash.to_le());
                prop_assert_eq!(filter.may_contain(hash), expected);
                let rest = filter.ask_bits(hash, &FirstBits::new(Probes::of(hash), stored));
                prop_assert_eq!(rest.is_some_and(Rest::may_contain), expected);
                prop_assert_eq!(rest.is_some(), filter.ask(hash).is_some());
            }
        }

        #[test]
        fn a_remainder_is_one(
            number in prop_oneof![any::<u64>(), Just(u64::MAX), 0u64..99],
            divisor in prop_oneof![1u64..99, 1u64..1 << 18, 1u64..=1 << 63],
            power in 0u32..64,
        ) {
            for divisor in [divisor, 1 << power] {
                let multiple = number - number % divisor;
                for number in [number, multiple, multiple.wrapping_sub(1)] {
                    prop_assert_eq!(Divisor::new(divisor).remainder(number), number % divisor);
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            super::super::fuzz::fuzz_filter(&bytes);
        }
    }
}
