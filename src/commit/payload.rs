//! The payload of a log record: what one commit changes, all of it or nothing.
//!
//! Invariant: a payload is applied to a memtable by [`apply`] in the same way when it is
//! committed and when the log is replayed. Sections, each starting with a tag byte:
//!
//! | tag | then |
//! | --- | --- |
//! | 1, rows of a partition | prefix (table id and PartitionKey, encoded) as length and bytes; number of rows; per row: kind byte (0 delete, 1 put), RowKey (encoded) as length and bytes, for a put the value as length and bytes |
//! | 2, range deletion | start and end (encoded keys), each as length and bytes |
//!
//! Lengths and counts are varints.

use std::ops::Range;
use std::sync::Arc;

use crate::entry::Kind;
use crate::error::Damage;
use crate::key;
use crate::memtable::{LargeRow, Memtable};
use crate::reference::LARGE_VALUE_BYTES;
use crate::tombstone::RangeTombstone;
use crate::varint::{Decoder, push_slice, push_varint};
use crate::version::Version;

const TAG_ROWS: u8 = 1;
const TAG_DELETE_RANGE: u8 = 2;

/// Builds a payload, with its checksum.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    /// Of the bytes up to `summed`.
    hasher: crc32fast::Hasher,
    summed: usize,
    values: Vec<ValueSum>,
}

/// The checksum of a large value in a payload. It is part of the payload's, and what a table file will
/// have of the value: so no byte of it is looked at twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueSum {
    /// Where the value ends in the payload.
    pub(crate) end: usize,
    pub(crate) crc: u32,
}

/// What was built.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) bytes: Vec<u8>,
    pub(crate) crc: u32,
    pub(crate) values: Vec<ValueSum>,
}

impl Payload {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Starts a section of `rows` rows of one partition; exactly that many follow.
    pub(crate) fn rows(&mut self, prefix: &[u8], rows: usize) {
        self.bytes.push(TAG_ROWS);
        push_slice(&mut self.bytes, prefix);
        push_varint(&mut self.bytes, rows as u64);
    }

    pub(crate) fn put(&mut self, row_key: &[u8], value: &[u8]) {
        self.row(Kind::Put, row_key);
        push_slice(&mut self.bytes, value);
        if value.len() >= LARGE_VALUE_BYTES {
            self.sum_value(value.len());
        }
    }

    /// Sums a value that was added last by itself, and adds that to the whole's checksum.
    fn sum_value(&mut self, len: usize) {
        let end = self.bytes.len();
        let (before, value) = self.bytes.split_at(end - len);
        self.hasher.update(before.get(self.summed..).unwrap_or_default());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(value);
        self.hasher.combine(&hasher);
        self.summed = end;
        self.values.push(ValueSum { end, crc: hasher.finalize() });
    }

    pub(crate) fn delete(&mut self, row_key: &[u8]) {
        self.row(Kind::Delete, row_key);
    }

    /// The RowKey is encoded after its length, which is known only afterwards: keys without
    /// escapes take one byte more than they have.
    fn row(&mut self, kind: Kind, row_key: &[u8]) {
        self.bytes.push(kind as u8);
        let escapes = row_key.iter().filter(|&&byte| byte <= 1).count();
        push_varint(&mut self.bytes, (row_key.len() + escapes + 1) as u64);
        key::push_component(&mut self.bytes, row_key);
    }

    /// Deletes every key in [start, end).
    pub(crate) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.bytes.push(TAG_DELETE_RANGE);
        push_slice(&mut self.bytes, start);
        push_slice(&mut self.bytes, end);
    }

    pub(crate) fn build(self) -> Built {
        let Self { bytes, mut hasher, summed, values } = self;
        hasher.update(bytes.get(summed..).unwrap_or_default());
        Built { bytes, crc: hasher.finalize(), values }
    }
}

/// One change of a payload. The key of a row is `prefix` followed by `row_key`.
#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    /// `end` is where the row ends in the payload.
    Row {
        prefix: &'a [u8],
        row_key: &'a [u8],
        kind: Kind,
        value: &'a [u8],
        end: usize,
    },
    DeleteRange {
        start: &'a [u8],
        end: &'a [u8],
    },
}

fn decode<'a>(payload: &'a [u8], mut visit: impl FnMut(Change<'a>)) -> Result<(), Damage> {
    let mut decoder = Decoder::new(payload);
    while !decoder.is_empty() {
        match decoder.u8("a section tag")? {
            TAG_ROWS => decode_rows(&mut decoder, payload.len(), &mut visit)?,
            TAG_DELETE_RANGE => {
                let start = decoder.slice("the start of a range deletion")?;
                let end = decoder.slice("the end of a range deletion")?;
                visit(Change::DeleteRange { start, end });
            }
            tag => return Err(decoder.damage("a section tag before this byte", format!("{tag}"))),
        }
    }
    Ok(())
}

fn decode_rows<'a>(
    decoder: &mut Decoder<'a>,
    payload_len: usize,
    visit: &mut impl FnMut(Change<'a>),
) -> Result<(), Damage> {
    let prefix = decoder.slice("a partition's encoded key")?;
    let rows = decoder.varint("a number of rows")?;
    for _ in 0..rows {
        let byte = decoder.u8("the kind of a row")?;
        let Some(kind) = Kind::from_byte(byte) else {
            return Err(decoder.damage("a kind of row before this byte", format!("{byte}")));
        };
        let row_key = decoder.slice("an encoded RowKey")?;
        let value = match kind {
            Kind::Put => decoder.slice("a value")?,
            Kind::Delete | Kind::Reference => &[],
        };
        let end = payload_len - decoder.rest().len();
        visit(Change::Row { prefix, row_key, kind, value, end });
    }
    Ok(())
}

/// Puts the changes of a payload into a memtable, and notes there which values have `large` bytes.
/// A large value that is most of what was committed is not copied: the memtable keeps the payload.
///
/// A damaged payload changes nothing: one from the log is decoded to its end first.
pub(crate) fn apply(
    origin: Origin<'_>,
    version: Version,
    memtable: &Memtable,
    large: usize,
) -> Result<(), Damage> {
    let (payload, committed, sums) = match origin {
        Origin::Commit(payload, sums) => (&payload[..], Some(payload), sums),
        Origin::Log(payload) => {
            decode(payload, |_| ())?;
            (payload, None, &[][..])
        }
    };
    let insert_large = |prefix: &[u8], row_key: &[u8], value: Range<usize>| {
        let sum = sums.iter().find(|sum| sum.end == value.end);
        let row = LargeRow {
            key: [prefix, row_key].concat().into(),
            offset: value.start,
            len: value.len(),
            crc: sum.map(|sum| sum.crc),
        };
        match committed.filter(|_| 2 * value.len() > payload.len()) {
            Some(kept) => memtable.insert_kept(prefix, row_key, version, kept, value),
            None => {
                let bytes = payload.get(value).unwrap_or_default();
                memtable.insert(prefix, row_key, version, Kind::Put, bytes);
            }
        }
        memtable.add_large(version, row);
    };
    decode(payload, |change| match change {
        Change::Row { prefix, row_key, value, end, .. } if value.len() >= large => {
            insert_large(prefix, row_key, end - value.len()..end);
        }
        Change::Row { prefix, row_key, kind, value, .. } => {
            memtable.insert(prefix, row_key, version, kind, value);
        }
        Change::DeleteRange { start, end } => memtable.add_range_tombstone(RangeTombstone {
            start: start.into(),
            end: end.into(),
            version,
        }),
    })
}

/// A payload, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// Built by this process just now, with these values summed.
    Commit(&'a Arc<Vec<u8>>, &'a [ValueSum]),
    /// Read from the log.
    Log(&'a [u8]),
}

/// Decodes arbitrary bytes as a payload.
#[cfg(fuzzing)]
pub fn fuzz_payload(data: &[u8]) {
    let memtable = Memtable::new();
    if apply(Origin::Log(data), Version::from_ticks(1), &memtable, 64).is_err() {
        assert!(memtable.is_empty(), "a damaged payload changes nothing");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_built_is_decoded() {
        let mut payload = Payload::default();
        payload.rows(b"p", 2);
        payload.put(b"a\0b", b"value");
        payload.delete(b"");
        payload.delete_range(b"x", b"y");
        let bytes = payload.build().bytes;
        let mut changes = Vec::new();
        decode(&bytes, |change| changes.push(change)).unwrap();
        assert_eq!(
            changes,
            [
                Change::Row {
                    prefix: b"p",
                    row_key: b"a\x01\x01b\0",
                    kind: Kind::Put,
                    value: b"value",
                    end: 17,
                },
                Change::Row {
                    prefix: b"p",
                    row_key: b"\0",
                    kind: Kind::Delete,
                    value: b"",
                    end: 20,
                },
                Change::DeleteRange { start: b"x", end: b"y" },
            ]
        );
    }

    /// R-E22: the checksum is that of all bytes, with large values and without.
    #[test]
    fn a_payload_and_its_large_values_have_their_checksums() {
        let values = [&[1; 10][..], &[2; LARGE_VALUE_BYTES], &[], &[3; 2 * LARGE_VALUE_BYTES + 5]];
        for used in 0..=values.len() {
            let mut payload = Payload::default();
            payload.rows(b"p", used);
            let used = values.get(..used).unwrap();
            used.iter().for_each(|value| payload.put(b"row", value));
            payload.delete_range(b"x", b"y");
            let built = payload.build();
            assert_eq!(built.crc, crc32fast::hash(&built.bytes));
            let large: Vec<_> = used.iter().filter(|v| v.len() >= LARGE_VALUE_BYTES).collect();
            assert_eq!(built.values.len(), large.len());
            for (sum, value) in built.values.iter().zip(large) {
                assert_eq!(&built.bytes[sum.end - value.len()..sum.end], *value);
                assert_eq!(sum.crc, crc32fast::hash(value));
            }
        }
    }

    /// What is kept of a payload is at most twice the values that the memtable counts.
    #[test]
    fn a_value_that_is_most_of_its_commit_is_kept_and_others_are_copied() {
        for (values, is_kept) in [(1, true), (2, false)] {
            let mut payload = Payload::default();
            payload.rows(b"p", values);
            let rows = [b"a", b"b"];
            rows.iter().take(values).for_each(|row| payload.put(*row, &[7; 1000]));
            let Built { bytes, values: sums, .. } = payload.build();
            let bytes = Arc::new(bytes);
            let memtable = Memtable::new();
            apply(Origin::Commit(&bytes, &sums), Version::from_ticks(1), &memtable, 1000).unwrap();
            let found = memtable.get(b"pa\0", Version::MAX).unwrap();
            assert_eq!(found.value, [7; 1000]);
            let place = found.value.as_ptr();
            assert_eq!(bytes.as_ptr_range().contains(&place), is_kept, "{values} values");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes, |_| ());
        }
    }
}
