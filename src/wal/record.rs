//! One record: a header with its checksum, a payload, zeros up to a multiple of 8 bytes.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | CRC-32 of the segment's salt plus the record's offset (u64), then bytes 4..40 |
//! | 4..8 | length of the payload |
//! | 8..12 | CRC-32 of the payload |
//! | 12..16 | kind: 1 batch, 2 seal; three zeros |
//! | 16..24 | segment id |
//! | 24..32 | version |
//! | 32..40 | durable end: every byte of the segment below it was synced when this was written, and every segment before; 0 if one of these was not known to be |
//!
//! All numbers are little-endian. Since salt and offset are in the checksum, bytes are a record
//! only where they were written as one: neither a copy of the log that a user stores as a value
//! nor a record of a recycled file's earlier life is taken for one.

use super::SegmentId;
use crate::version::Version;

/// Length of a record's header.
pub(super) const HEADER_BYTES: usize = 40;
/// Where in it the segment's id is.
pub(super) const ID_AT: usize = 16;
/// Records begin at multiples of this.
pub(super) const ALIGNMENT: usize = 8;
/// Longest payload: twice the largest batch that the options allow, and safely a u32.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 2 << 30;
/// The durable end of a record that proves nothing: a segment before its own was perhaps not synced yet.
pub(super) const NOTHING_DURABLE: u64 = 0;
/// What stands behind the last record: no record begins with that many zeros, as a kind is not 0.
pub(super) const TERMINATOR: [u8; 16] = [0; 16];

/// The checksum a record carries for its payload. Computed by whoever has the payload at hand,
/// before the group is formed.
pub(crate) fn payload_crc(payload: &[u8]) -> u32 {
    crc32fast::hash(payload)
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A commit.
    Batch = 1,
    /// The end of a segment that was ended on purpose.
    Seal = 2,
}

/// Where a record is: part of its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) segment: SegmentId,
    pub(super) salt: u64,
    pub(super) offset: u64,
}

/// The decoded header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) payload_len: u32,
    pub(super) payload_crc: u32,
    pub(super) kind: Kind,
    pub(super) version: Version,
    pub(super) durable_end: u64,
}

impl Header {
    /// The seal of a segment that is synced up to there.
    pub(super) fn seal(version: Version, durable_end: u64) -> Self {
        let payload_crc = payload_crc(&[]);
        Self { payload_len: 0, payload_crc, kind: Kind::Seal, version, durable_end }
    }

    /// Length of header, payload and padding.
    pub(super) fn record_bytes(&self) -> u64 {
        record_bytes(self.payload_len as usize) as u64
    }

    pub(super) fn encode(&self, place: Place) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (crc, rest) = bytes.split_at_mut(4);
        put(rest, 0, &self.payload_len.to_le_bytes());
        put(rest, 4, &self.payload_crc.to_le_bytes());
        put(rest, 8, &[self.kind as u8]);
        put(rest, 12, &place.segment.get().to_le_bytes());
        put(rest, 20, &self.version.ticks().to_le_bytes());
        put(rest, 28, &self.durable_end.to_le_bytes());
        crc.copy_from_slice(&checksum(place, rest).to_le_bytes());
        bytes
    }

    /// The header that `bytes` are at this place; else what is wrong with them.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES], place: Place) -> Result<Self, &'static str> {
        let (crc, rest) = bytes.split_at(4);
        if crc != checksum(place, rest).to_le_bytes() {
            return Err("a record header whose checksum does not match");
        }
        let (kind, reserved) = rest.get(8..12).and_then(<[u8]>::split_first).unwrap_or((&0, &[]));
        let kind = match kind {
            1 => Kind::Batch,
            2 => Kind::Seal,
            _ => return Err("a record of unknown kind"),
        };
        let header = Self {
            payload_len: get_u32(rest, 0),
            payload_crc: get_u32(rest, 4),
            kind,
            version: Version::from_ticks(get_u64(rest, 20)),
            durable_end: get_u64(rest, 28),
        };
        if reserved != [0; 3] || get_u64(rest, 12) != place.segment.get() {
            return Err("a record of another segment");
        }
        if header.payload_len as usize > MAX_PAYLOAD_BYTES || header.durable_end > place.offset {
            return Err("a record header that no writer writes");
        }
        Ok(header)
    }
}

/// Length of a record with a payload of that length.
pub(super) const fn record_bytes(payload_len: usize) -> usize {
    (HEADER_BYTES + payload_len).next_multiple_of(ALIGNMENT)
}

/// Appends a record, with its padding.
pub(super) fn push_record(out: &mut Vec<u8>, header: Header, place: Place, payload: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&header.encode(place));
    out.extend_from_slice(payload);
    out.resize(start + record_bytes(payload.len()), 0);
}

fn checksum(place: Place, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.salt.wrapping_add(place.offset).to_le_bytes());
    hasher.update(rest);
    hasher.finalize()
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(target) = bytes.get_mut(at..at + value.len()) {
        target.copy_from_slice(value);
    }
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(offset: u64) -> Place {
        Place { segment: SegmentId::new(7), salt: 99, offset }
    }

    fn header() -> Header {
        Header {
            payload_len: 5,
            payload_crc: payload_crc(b"hello"),
            kind: Kind::Batch,
            version: Version::from_ticks(1 << 40),
            durable_end: 64,
        }
    }

    /// The stored bytes must not change: they are in files.
    #[test]
    fn a_header_has_its_documented_bytes() {
        let bytes = header().encode(place(128));
        let mut expected = vec![0; 4];
        expected.extend([5, 0, 0, 0, 0x86, 0xA6, 0x10, 0x36, 1, 0, 0, 0]);
        expected.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0, 0, 0, 0, 0, 1, 0, 0]);
        expected.extend([64, 0, 0, 0, 0, 0, 0, 0]);
        let mut covered = (99u64 + 128).to_le_bytes().to_vec();
        covered.extend(&expected[4..]);
        expected[..4].copy_from_slice(&crc32fast::hash(&covered).to_le_bytes());
        assert_eq!(bytes.to_vec(), expected);
        assert_eq!(Header::decode(&bytes, place(128)), Ok(header()));
        assert_eq!(bytes[ID_AT..][..8], 7u64.to_le_bytes());
    }

    #[test]
    fn a_header_is_none_elsewhere_nor_with_another_salt_or_segment() {
        let bytes = header().encode(place(128));
        assert!(Header::decode(&bytes, place(136)).is_err());
        assert!(Header::decode(&bytes, Place { salt: 98, ..place(128) }).is_err());
        let other = Place { segment: SegmentId::new(8), ..place(128) };
        assert!(Header::decode(&bytes, other).is_err());
        assert!(Header::decode(&[0; HEADER_BYTES], place(128)).is_err());
    }

    #[test]
    fn a_header_that_claims_to_be_synced_beyond_itself_is_refused() {
        let bytes = Header { durable_end: 129, ..header() }.encode(place(128));
        assert!(Header::decode(&bytes, place(128)).is_err());
    }

    /// R-E22: also where its checksum is right.
    #[test]
    fn r_e22_a_header_that_no_writer_writes_is_refused() {
        let decodes_with = |at: usize, field: &[u8]| {
            let mut bytes = header().encode(place(128));
            bytes[at..][..field.len()].copy_from_slice(field);
            let crc = checksum(place(128), &bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            Header::decode(&bytes, place(128)).is_ok()
        };
        let longest = MAX_PAYLOAD_BYTES as u32;
        assert!(decodes_with(4, &longest.to_le_bytes()));
        assert!(!decodes_with(4, &(longest + 1).to_le_bytes()));
        assert_eq!([0, 1, 2, 3].map(|kind| decodes_with(12, &[kind])), [false, true, true, false]);
        assert!((13..16).all(|reserved| !decodes_with(reserved, &[1])));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_noticed(bit in 0..HEADER_BYTES * 8) {
            let mut bytes = header().encode(place(64));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&bytes, place(64)).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_decoded_without_a_panic(bytes in any::<[u8; HEADER_BYTES]>()) {
            let _ = Header::decode(&bytes, place(0));
        }
    }
}
