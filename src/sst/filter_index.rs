//! [`FilterIndex`]: where the filters of a table file are.

use super::filter::{Divisor, bits_in};
use super::index::BlockHandle;
use crate::cache::BlockOffset;
use crate::error::Damage;
use crate::varint::{Decoder, push_varint};

/// Where the filters are: back to back, one block each.
#[derive(Debug, Default)]
pub(super) struct FilterIndex {
    start: u64,
    /// End of each, from `start`.
    ends: Vec<u64>,
    /// Number of bits in each.
    bits: Vec<Divisor>,
}

impl FilterIndex {
    pub(super) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    pub(super) fn push(&mut self, stored_len: usize) {
        self.ends.push(self.ends.last().unwrap_or(&0) + stored_len as u64);
        self.bits.push(bits_in(stored_len));
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where a filter starts.
    #[inline]
    pub(super) fn start_of(&self, filter: usize) -> Option<u64> {
        let before = match filter.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.start.checked_add(before)
    }

    /// The block of a filter. `ordinals` is that of the first.
    #[inline]
    pub(super) fn handle(&self, filter: usize, ordinals: usize) -> Option<BlockHandle> {
        let (start, end) = (self.start_of(filter)?, *self.ends.get(filter)?);
        Some(BlockHandle {
            offset: BlockOffset(start),
            len: usize::try_from(self.start.checked_add(end)? - start).ok()?,
            compressed: false,
            ordinal: ordinals.saturating_add(filter),
            entries_before: 0,
        })
    }

    /// Number of bits in a filter.
    #[inline]
    pub(super) fn bits(&self, filter: usize) -> Option<Divisor> {
        self.bits.get(filter).copied()
    }

    /// Memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.ends.capacity() * size_of::<u64>() + self.bits.capacity() * size_of::<Divisor>()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.start);
        push_varint(out, self.ends.len() as u64);
        let mut before = 0;
        for &end in &self.ends {
            push_varint(out, end - before);
            before = end;
        }
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Damage> {
        let start = decoder.varint("the offset of the filters")?;
        let at = *decoder;
        // Every filter takes a byte here, so their number cannot exceed what is left.
        let count = decoder.length("a number of filters", decoder.rest().len())?;
        if count == 0 {
            return Err(at.damage("at least one filter", "none"));
        }
        let mut index = Self::new(start);
        for _ in 0..count {
            index.push(decoder.length("a filter's length", u32::MAX as usize)?);
        }
        if index.ends.last().and_then(|end| start.checked_add(*end)).is_none() {
            return Err(at.damage("filters that end within a file", "others"));
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn filters_beyond_any_file_are_damage() {
        for (start, is_right) in [(u64::MAX - 30, true), (u64::MAX - 29, false)] {
            let mut index = FilterIndex::new(start);
            [10, 20].into_iter().for_each(|len| index.push(len));
            let mut bytes = Vec::new();
            index.encode(&mut bytes);
            assert_eq!(FilterIndex::decode(&mut Decoder::new(&bytes)).is_ok(), is_right);
        }
    }

    proptest! {
        #[test]
        fn the_filter_index_round_trips(lens in proptest::collection::vec(1usize..5000, 1..20)) {
            let mut index = FilterIndex::new(1234);
            for &len in &lens {
                index.push(len);
            }
            let mut bytes = Vec::new();
            index.encode(&mut bytes);
            let decoded = FilterIndex::decode(&mut Decoder::new(&bytes)).unwrap();
            prop_assert_eq!(decoded.len(), lens.len());
            let mut offset = 1234;
            for (filter, &len) in lens.iter().enumerate() {
                let handle = decoded.handle(filter, 10).unwrap();
                prop_assert_eq!((handle.offset.0, handle.len), (offset, len));
                prop_assert_eq!(handle.ordinal, 10 + filter);
                offset += len as u64;
            }
            prop_assert!(decoded.handle(lens.len(), 0).is_none());
        }
    }
}
