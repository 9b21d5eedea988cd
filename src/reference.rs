//! [`Reference`]: what a table file has of a large value that stays where the log wrote it.
//!
//! Layout: four varints: the number of the log segment, offset of the value's first byte in it,
//! length, CRC-32 of the value. Never empty, which tells it from a deletion in a table file.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Damage;
use crate::varint::{Decoder, push_varint};

/// Values from this length on are stored once: where the log wrote them. A large value is copied to
/// a table file by the flush and by one compaction at least, three writes where one will do. Smaller
/// ones are better off in blocks: a reference costs a read of its own, in a place of its own.
pub(crate) const LARGE_VALUE_BYTES: usize = 64 << 10;

/// Number of a log segment; segments are numbered without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(u64);

impl SegmentId {
    /// Before the first segment: a log of which nothing is known to exist.
    pub(crate) const NONE: Self = Self(0);
    /// The first segment of a database.
    pub(crate) const FIRST: Self = Self(1);

    pub(crate) const fn new(id: u64) -> Self {
        Self(id)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// The segment that follows.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where bytes of the log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) segment: SegmentId,
    /// From the start of the segment's file.
    pub(crate) offset: u64,
}

/// A value in a log segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) place: LogPlace,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

impl Reference {
    /// To a value that is stored there, with its checksum if it is known.
    pub(crate) fn new(place: LogPlace, value: &[u8], crc: Option<u32>) -> Self {
        let crc = crc.unwrap_or_else(|| crc32fast::hash(value));
        Self { place, len: value.len() as u32, crc }
    }

    /// Whether these are the bytes it was made for.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        value.len() == self.len as usize && crc32fast::hash(value) == self.crc
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        let LogPlace { segment, offset } = self.place;
        for number in [segment.get(), offset, u64::from(self.len), u64::from(self.crc)] {
            push_varint(&mut out, number);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut decoder = Decoder::new(bytes);
        let segment = SegmentId::new(decoder.varint("the log segment of a reference")?);
        let offset = decoder.varint("the offset of a reference")?;
        let len = decoder.length("the length of a value", u32::MAX as usize)? as u32;
        let crc = decoder.length("the checksum of a value", u32::MAX as usize)? as u32;
        decoder.finish()?;
        Ok(Self { place: LogPlace { segment, offset }, len, crc })
    }
}

/// How many bytes of each log segment a table file refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReferencedBytes(BTreeMap<SegmentId, u64>);

impl ReferencedBytes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, segment: SegmentId, bytes: u64) {
        let sum = self.0.entry(segment).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// The segments with their bytes, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SegmentId, u64)> {
        self.0.iter().map(|(segment, bytes)| (*segment, *bytes))
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Appends their number and, for each, segment and bytes, all as varints.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.0.len() as u64);
        for (segment, bytes) in self.iter() {
            push_varint(out, segment.get());
            push_varint(out, bytes);
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Damage> {
        // Each takes two bytes or more, so a length that lies runs into the end.
        let len = decoder.length("a number of log segments", decoder.rest().len())?;
        let mut all = Self::default();
        for _ in 0..len {
            let start = *decoder;
            let segment = SegmentId::new(decoder.varint("a log segment that is referred to")?);
            let bytes = decoder.varint("bytes that are referred to")?;
            if all.0.keys().next_back().is_some_and(|last| *last >= segment) {
                return Err(start.damage("log segments in order", "one out of order"));
            }
            all.0.insert(segment, bytes);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reference() -> Reference {
        let place = LogPlace { segment: SegmentId::new(5), offset: 300 };
        Reference { place, len: 70_000, crc: 0xFFFF_FFFF }
    }

    /// The stored bytes must not change: they are in files.
    #[test]
    fn a_reference_has_its_documented_bytes() {
        let expected = [5, 0xAC, 2, 0xF0, 0xA2, 4, 0xFF, 0xFF, 0xFF, 0xFF, 0xF];
        assert_eq!(reference().encode(), expected);
        assert_eq!(Reference::decode(&expected).unwrap(), reference());
    }

    #[test]
    fn referenced_bytes_round_trip_and_are_in_order() {
        let mut all = ReferencedBytes::default();
        for (segment, bytes) in [(7, 10), (3, 300), (7, 5)] {
            all.add(SegmentId::new(segment), bytes);
        }
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        assert_eq!(bytes, [2, 3, 0xAC, 2, 7, 15]);
        assert_eq!(ReferencedBytes::decode(&mut Decoder::new(&bytes)).unwrap(), all);
        assert_eq!(all.total(), 315);
        let unordered = [2, 7, 15, 3, 1];
        assert!(ReferencedBytes::decode(&mut Decoder::new(&unordered)).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = Reference::decode(&bytes);
            let _ = ReferencedBytes::decode(&mut Decoder::new(&bytes));
        }
    }
}
