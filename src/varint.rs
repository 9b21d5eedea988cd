//! Bytes of the file formats: LEB128 varints, length-prefixed slices, fixed little-endian numbers.
//!
//! [`Decoder`] never trusts a length: every read is checked against what is left, and says where
//! in the decoded bytes it failed.

use crate::error::Damage;

/// Longest encoding of a u64.
pub(crate) const MAX_VARINT: usize = 10;

/// Appends `value` in 1 to 10 bytes, seven bits a byte, least significant first.
#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The same, without a branch for how many bytes it takes if these are at most eight.
#[inline]
pub(crate) fn push_wide_varint(out: &mut Vec<u8>, value: u64) {
    let len = varint_len(value);
    if len > 8 {
        return push_varint(out, value);
    }
    // Seven bits to each of eight bytes, and the mark of those that others follow.
    let x = value & 0x0FFF_FFFF | (value & 0x00FF_FFFF_F000_0000) << 4;
    let x = x & 0x0000_3FFF_0000_3FFF | (x & 0x0FFF_C000_0FFF_C000) << 2;
    let x = x & 0x007F_007F_007F_007F | (x & 0x3F80_3F80_3F80_3F80) << 1;
    let marks = 0x8080_8080_8080_8080 & ((1 << (8 * (len - 1))) - 1);
    let end = out.len() + len;
    out.extend_from_slice(&(x | marks).to_le_bytes());
    out.truncate(end);
}

/// How many bytes a varint takes.
#[inline]
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a varint length and the bytes.
pub(crate) fn push_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a varint at the front: its value and its length; `None` if it is cut short or too long.
#[inline]
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    // Nearly all are lengths and differences of one or two bytes.
    match *bytes {
        [a, ..] if a < 0x80 => Some((u64::from(a), 1)),
        [a, b, ..] if b < 0x80 => Some((u64::from(a & 0x7F) | u64::from(b) << 7, 2)),
        _ => read_wide_varint(bytes),
    }
}

/// The same, without a branch for how many bytes it has if more follow.
#[inline]
pub(crate) fn read_wide_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let Some(eight) = bytes.first_chunk() else { return read_any_varint(bytes) };
    let word = u64::from_le_bytes(*eight);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return read_any_varint(bytes);
    }
    // All bits up to the first byte that ends the number, then seven of each eight.
    let x = word & (ends ^ (ends - 1)) & 0x7F7F_7F7F_7F7F_7F7F;
    let x = (x & 0x7F00_7F00_7F00_7F00) >> 1 | (x & 0x007F_007F_007F_007F);
    let x = (x & 0x3FFF_0000_3FFF_0000) >> 2 | (x & 0x0000_3FFF_0000_3FFF);
    let x = (x & 0x0FFF_FFFF_0000_0000) >> 4 | (x & 0x0000_0000_0FFF_FFFF);
    Some((x, ends.trailing_zeros() as usize / 8 + 1))
}

#[cold]
fn read_any_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(MAX_VARINT).enumerate() {
        let bits = u64::from(byte & 0x7F);
        if i == MAX_VARINT - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Reads one encoded structure from front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// A damage report for the next byte.
    pub(crate) fn damage(&self, expected: &'static str, found: impl Into<String>) -> Damage {
        Damage::new(self.offset(), expected, found.into())
    }

    #[inline]
    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, Damage> {
        match read_varint(self.rest()) {
            Some((value, len)) => {
                self.at += len;
                Ok(value)
            }
            None => Err(self.damage(what, "no whole varint")),
        }
    }

    /// A varint that must fit a usize no larger than `limit`.
    #[inline]
    pub(crate) fn length(&mut self, what: &'static str, limit: usize) -> Result<usize, Damage> {
        let before = *self;
        let value = self.varint(what)?;
        match usize::try_from(value) {
            Ok(len) if len <= limit => Ok(len),
            _ => Err(before.over_the_limit(what, value, limit)),
        }
    }

    #[cold]
    fn over_the_limit(&self, what: &'static str, value: u64, limit: usize) -> Damage {
        self.damage(what, format!("{value}, over the limit of {limit}"))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Damage> {
        let rest = self.rest();
        match rest.get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.damage(what, format!("{} of {len} bytes", rest.len()))),
        }
    }

    /// A varint length and that many bytes.
    #[inline]
    pub(crate) fn slice(&mut self, what: &'static str) -> Result<&'a [u8], Damage> {
        let len = self.varint(what)?;
        self.bytes(usize::try_from(len).unwrap_or(usize::MAX), what)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, Damage> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Damage> {
        match self.rest().first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.damage(what, "the end")),
        }
    }

    /// Fails unless everything was read.
    pub(crate) fn finish(self) -> Result<(), Damage> {
        if self.is_empty() { Ok(()) } else { Err(self.damage("the end", "more bytes")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(number in any::<u64>(), shift in 0..64, power in any::<bool>()) {
            let value = if power { 1u64 << shift } else { number >> shift };
            let mut out = Vec::new();
            push_varint(&mut out, value);
            prop_assert_eq!(read_varint(&out), Some((value, out.len())));
            prop_assert_eq!(read_varint(&out[..out.len() - 1]), None);
            let mut wide = Vec::new();
            push_wide_varint(&mut wide, value);
            prop_assert_eq!((&wide, varint_len(value)), (&out, out.len()));
            let len = out.len();
            for after in [0x00, 0x7F, 0x80, 0xFF] {
                out.truncate(len);
                out.extend([after; 9]);
                prop_assert_eq!(read_varint(&out), Some((value, len)));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            let mut decoder = Decoder::new(&bytes);
            let _ = decoder.slice("a slice");
            let _ = decoder.u64("a number");
            let _ = decoder.length("a length", 7);
            let _ = decoder.finish();
        }
    }
}
