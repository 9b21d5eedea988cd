//! The payload of a log record: what one commit changes, all of it or nothing.
//!
//! Invariant: a payload is applied to a memtable in the same way when it is committed ([`apply`]) and
//! when the log is replayed ([`apply_again`]). Sections, each starting with a tag byte:
//!
//! | tag | then |
//! | --- | --- |
//! | 1, rows of a partition | prefix (table id and PartitionKey, encoded) as length and bytes; number of rows; per row: kind byte (0 delete, 1 put), RowKey (encoded) as length and bytes, for a put the value as length and bytes |
//! | 2, range deletion | start and end (encoded keys), each as length and bytes |
//!
//! Lengths and counts are varints.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::entry::Kind;
use crate::error::Damage;
use crate::key;
use crate::memtable::{Inserts, LargeRow, Memtable, NewRow};
use crate::reference::LARGE_VALUE_BYTES;
use crate::tombstone::RangeTombstone;
use crate::varint::{Decoder, MAX_VARINT, push_slice, push_varint};
use crate::version::Version;

const TAG_ROWS: u8 = 1;
const TAG_DELETE_RANGE: u8 = 2;

/// A payload in the making.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    /// Where it begins in the bytes: what is before is room, or was.
    start: usize,
    /// With places in the bytes.
    values: Vec<ValueSum>,
    /// Sections of rows.
    partitions: usize,
}

/// The checksum of a large value in a payload. It is part of the payload's, and what a table file will
/// have of the value: so no byte of it is looked at twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueSum {
    /// Where the value is in the payload.
    pub(crate) value: Range<usize>,
    pub(crate) crc: u32,
}

impl Payload {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// A payload that begins with the rows of a partition whose prefix and number are said later, by
    /// [`rows_before`](Self::rows_before): a prefix of at most `prefix_len` bytes.
    pub(crate) fn with_rows_first(prefix_len: usize, capacity: usize) -> Self {
        let start = 1 + 2 * MAX_VARINT + prefix_len;
        // The head is built behind the rows.
        let mut bytes = Vec::with_capacity(start + capacity + start);
        bytes.resize(start, 0);
        Self { bytes, start, ..Self::default() }
    }

    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Makes the `rows` rows that came first a section of their partition: its head goes where room was left.
    pub(crate) fn rows_before(&mut self, prefix: &[u8], rows: usize) {
        let end = self.bytes.len();
        self.rows(prefix, rows);
        let start = self.start.checked_sub(self.bytes.len() - end);
        debug_assert!(start.is_some(), "the section's head has its room");
        if let Some(start) = start {
            self.bytes.copy_within(end.., start);
            self.start = start;
        }
        self.bytes.truncate(end);
    }

    /// Starts a section of `rows` rows of one partition; exactly that many follow.
    pub(crate) fn rows(&mut self, prefix: &[u8], rows: usize) {
        self.partitions += 1;
        self.bytes.push(TAG_ROWS);
        push_slice(&mut self.bytes, prefix);
        push_varint(&mut self.bytes, rows as u64);
    }

    pub(crate) fn put(&mut self, row_key: &[u8], value: &[u8]) -> Row {
        self.put_parts(row_key, [value])
    }

    /// As [`put`](Self::put), with a value in parts.
    pub(crate) fn put_parts<const N: usize>(&mut self, row_key: &[u8], value: [&[u8]; N]) -> Row {
        let row_key = self.row(Kind::Put, row_key);
        self.value(value);
        Row { row_key, end: self.bytes.len() }
    }

    /// As [`put`](Self::put), with a RowKey that is encoded.
    pub(crate) fn put_encoded(&mut self, row_key: &[u8], value: &[u8]) {
        self.row_encoded(Kind::Put, row_key);
        self.value([value]);
    }

    fn value<const N: usize>(&mut self, parts: [&[u8]; N]) {
        let len = parts.iter().map(|part| part.len()).sum();
        push_varint(&mut self.bytes, len as u64);
        let start = self.bytes.len();
        self.bytes.reserve(len);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        if len >= LARGE_VALUE_BYTES {
            let crc = crc32fast::hash(self.bytes.get(start..).unwrap_or_default());
            self.values.push(ValueSum { value: start..start + len, crc });
        }
    }

    pub(crate) fn delete(&mut self, row_key: &[u8]) -> Row {
        Row { row_key: self.row(Kind::Delete, row_key), end: self.bytes.len() }
    }

    /// As [`delete`](Self::delete), with a RowKey that is encoded.
    pub(crate) fn delete_encoded(&mut self, row_key: &[u8]) {
        self.row_encoded(Kind::Delete, row_key);
    }

    fn row(&mut self, kind: Kind, row_key: &[u8]) -> Range<usize> {
        let len = key::component_len(row_key);
        self.bytes.reserve(1 + MAX_VARINT + len);
        self.bytes.push(kind as u8);
        push_varint(&mut self.bytes, len as u64);
        let start = self.bytes.len();
        key::push_component(&mut self.bytes, row_key);
        start..self.bytes.len()
    }

    fn row_encoded(&mut self, kind: Kind, row_key: &[u8]) {
        self.bytes.push(kind as u8);
        push_slice(&mut self.bytes, row_key);
    }

    /// Deletes every key in [start, end).
    pub(crate) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.bytes.push(TAG_DELETE_RANGE);
        push_slice(&mut self.bytes, start);
        push_slice(&mut self.bytes, end);
    }

    /// All bytes, room included: where rows said that they are.
    pub(crate) fn buffer(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where a row was put.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The encoded RowKey.
    pub(crate) row_key: Range<usize>,
    /// The end of the row, and of its value.
    pub(crate) end: usize,
}

/// A payload that is ready for the log: its checksum is computed outside every lock.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) payload: Shared,
    pub(super) crc: u32,
    /// With places in the payload.
    values: Vec<ValueSum>,
    partitions: usize,
}

impl Prepared {
    /// Length of the payload in bytes.
    pub(crate) fn payload_len(&self) -> usize {
        self.payload.len()
    }
}

/// The bytes of a payload, shared by all that need them.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// Not a slice: that would be a copy.
    buffer: Arc<Vec<u8>>,
    start: usize,
}

impl Deref for Shared {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }
}

impl Prepared {
    pub(crate) fn new(payload: Payload) -> Self {
        let Payload { mut bytes, start, mut values, partitions } = payload;
        if !values.is_empty() {
            // The memtable may keep it.
            bytes.shrink_to_fit();
        }
        let mut hasher = crc32fast::Hasher::new();
        let mut summed = start;
        for ValueSum { value, crc } in &mut values {
            hasher.update(bytes.get(summed..value.start).unwrap_or_default());
            hasher.combine(&crc32fast::Hasher::new_with_initial_len(*crc, value.len() as u64));
            summed = value.end;
            *value = value.start - start..value.end - start;
        }
        hasher.update(bytes.get(summed..).unwrap_or_default());
        let payload = Shared { buffer: Arc::new(bytes), start };
        Self { payload, crc: hasher.finalize(), values, partitions }
    }

    /// All bytes, as [`Payload::buffer`] had them.
    pub(crate) fn buffer(&self) -> &[u8] {
        &self.payload.buffer
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

/// Shows the changes of those partitions, by their prefixes, and of those ranges, by their starts, that
/// are `wanted`.
fn decode<'a>(
    payload: &'a [u8],
    wanted: impl Fn(&[u8]) -> bool,
    mut visit: impl FnMut(Change<'a>),
) -> Result<(), Damage> {
    let mut decoder = Decoder::new(payload);
    while !decoder.is_empty() {
        match decoder.u8("a section tag")? {
            TAG_ROWS => {
                let prefix = decoder.slice("a partition's encoded key")?;
                if wanted(prefix) {
                    decode_rows(&mut decoder, prefix, payload.len(), &mut visit)?;
                } else {
                    decode_rows(&mut decoder, prefix, payload.len(), &mut |_| ())?;
                }
            }
            TAG_DELETE_RANGE => {
                let start = decoder.slice("the start of a range deletion")?;
                let end = decoder.slice("the end of a range deletion")?;
                if wanted(start) {
                    visit(Change::DeleteRange { start, end });
                }
            }
            tag => return Err(decoder.damage("a section tag before this byte", format!("{tag}"))),
        }
    }
    Ok(())
}

fn decode_rows<'a>(
    decoder: &mut Decoder<'a>,
    prefix: &'a [u8],
    payload_len: usize,
    visit: &mut impl FnMut(Change<'a>),
) -> Result<(), Damage> {
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

/// Puts the changes of a commit into a memtable, and notes there which values have `large` bytes. A
/// large value that is most of what was committed is not copied: the memtable keeps the payload.
pub(crate) fn apply(
    committed: &Prepared,
    version: Version,
    memtable: &Memtable,
    large: usize,
) -> Result<(), Damage> {
    let changes =
        Changes { payload: &committed.payload, committed: Some(committed), version, large };
    let mut inserts = match committed.partitions {
        0 | 1 => memtable.inserts_in_turn(),
        _ => memtable.inserts(),
    };
    let applied = changes.apply(&mut inserts, |_| true);
    inserts.finish();
    applied
}

/// What is wrong with a payload from the log, if anything is.
pub(crate) fn check(payload: &[u8]) -> Result<(), Damage> {
    decode(payload, |_| false, |_| ())
}

/// As [`apply`], for a payload from the log that was [checked](check), and only the changes of those
/// partitions, by their prefixes, and of those ranges, by their starts, that are `wanted`. Rows are in the
/// memtable once the `inserts` are [finished](Inserts::finish).
pub(crate) fn apply_again<'a>(
    payload: &'a [u8],
    version: Version,
    inserts: &mut Inserts<'_, 'a>,
    large: usize,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<(), Damage> {
    Changes { payload, committed: None, version, large }.apply(inserts, wanted)
}

/// A payload to apply.
#[derive(Clone, Copy)]
struct Changes<'a> {
    payload: &'a [u8],
    /// What has it, if it was built by this process just now.
    committed: Option<&'a Prepared>,
    version: Version,
    large: usize,
}

impl<'a> Changes<'a> {
    fn apply(
        &self,
        inserts: &mut Inserts<'_, 'a>,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Damage> {
        let Self { payload, version, large, .. } = *self;
        let memtable = inserts.memtable();
        decode(payload, wanted, |change| match change {
            Change::Row { prefix, row_key, value, end, .. } if value.len() >= large => {
                // Versions of a key come in order.
                inserts.finish();
                self.insert_large(memtable, prefix, row_key, end - value.len()..end);
            }
            Change::Row { prefix, row_key: suffix, kind, value, .. } => {
                inserts.push(NewRow { prefix, suffix, version, kind, value });
            }
            Change::DeleteRange { start, end } => memtable.add_range_tombstone(RangeTombstone {
                start: start.into(),
                end: end.into(),
                version,
            }),
        })
    }

    #[cold]
    fn insert_large(
        &self,
        memtable: &Memtable,
        prefix: &[u8],
        row_key: &[u8],
        value: Range<usize>,
    ) {
        let Self { payload, committed, version, .. } = *self;
        let sums = committed.map_or(&[][..], |committed| &committed.values);
        let row = LargeRow {
            key: [prefix, row_key].concat().into(),
            offset: value.start,
            len: value.len(),
            crc: sums.iter().find(|sum| sum.value.end == value.end).map(|sum| sum.crc),
        };
        match committed.filter(|_| 2 * value.len() > payload.len()) {
            Some(Prepared { payload: Shared { buffer, start }, .. }) => {
                let value = value.start + start..value.end + start;
                memtable.insert_kept(prefix, row_key, version, buffer, value);
            }
            None => {
                let bytes = payload.get(value).unwrap_or_default();
                memtable.insert(prefix, row_key, version, Kind::Put, bytes);
            }
        }
        memtable.add_large(version, row);
    }
}

/// Decodes arbitrary bytes as a payload.
#[cfg(fuzzing)]
pub fn fuzz_payload(data: &[u8]) {
    let memtable = Memtable::new();
    let mut inserts = memtable.inserts();
    let applied = apply_again(data, Version::from_ticks(1), &mut inserts, 64, |_| true);
    inserts.finish();
    assert_eq!(applied.is_ok(), check(data).is_ok());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::TableId;

    #[test]
    fn what_was_built_is_decoded() {
        let mut payload = Payload::default();
        payload.rows(b"p", 2);
        payload.put(b"a\0b", b"value");
        payload.delete(b"");
        payload.delete_range(b"x", b"y");
        let prepared = Prepared::new(payload);
        let mut changes = Vec::new();
        decode(&prepared.payload, |_| true, |change| changes.push(change)).unwrap();
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

    #[test]
    fn rows_that_came_first_make_the_same_payload() {
        let partition_key = [0; 40];
        let prefix = key::encode_partition(TableId::LAST, &partition_key);
        assert_eq!(prefix.len(), key::longest_partition(partition_key.len()));
        let values = [vec![1; 20], vec![2; LARGE_VALUE_BYTES]];
        let mut known = Payload::default();
        known.rows(&prefix, 3);
        let mut late = Payload::with_rows_first(prefix.len(), 0);
        for payload in [&mut known, &mut late] {
            payload.delete(b"a");
            payload.put(b"b\x01", &values[0]);
            payload.put_parts(b"c", [&values[1], b"more"]);
        }
        late.rows_before(&prefix, 3);
        let [known, late] = [known, late].map(Prepared::new);
        assert_eq!(late.payload[..], known.payload[..]);
        assert_eq!((late.crc, &late.values), (known.crc, &known.values));
    }

    /// R-E22: the checksum is that of all bytes, with large values and without.
    #[test]
    fn a_payload_and_its_large_values_have_their_checksums() {
        let values = [&[1; 10][..], &[2; LARGE_VALUE_BYTES], &[], &[3; 2 * LARGE_VALUE_BYTES + 5]];
        for used in 0..=values.len() {
            let mut payload = Payload::default();
            payload.rows(b"p", used);
            let used = values.get(..used).unwrap();
            for value in used {
                payload.put(b"row", value);
            }
            payload.delete_range(b"x", b"y");
            let built = Prepared::new(payload);
            assert_eq!(built.crc, crc32fast::hash(&built.payload));
            let large: Vec<_> = used.iter().filter(|v| v.len() >= LARGE_VALUE_BYTES).collect();
            assert_eq!(built.values.len(), large.len());
            for (sum, value) in built.values.iter().zip(large) {
                assert_eq!(&built.payload[sum.value.clone()], *value);
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
            for row in rows.into_iter().take(values) {
                payload.put(row, &[7; 1000]);
            }
            let built = Prepared::new(payload);
            let memtable = Memtable::new();
            apply(&built, Version::from_ticks(1), &memtable, 1000).unwrap();
            let found = memtable.get(b"pa\0", Version::MAX).unwrap();
            assert_eq!(found.value, [7; 1000]);
            let place = found.value.as_ptr();
            assert_eq!(built.payload.as_ptr_range().contains(&place), is_kept, "{values} values");
        }
    }

    #[test]
    fn versions_of_a_row_are_in_order_whether_large_or_not() {
        let memtable = Memtable::new();
        let values = [&[1; 10][..], &[2; 1000], &[3; 10]];
        let payloads = values.map(|value| {
            let mut payload = Payload::default();
            payload.rows(b"p", 1);
            payload.put(b"row", value);
            payload.buffer().to_vec()
        });
        let mut inserts = memtable.inserts();
        for (payload, version) in payloads.iter().zip(1..) {
            let version = Version::from_ticks(version);
            apply_again(payload, version, &mut inserts, 1000, |_| true).unwrap();
        }
        inserts.finish();
        for (value, version) in values.into_iter().zip(1..) {
            let found = memtable.get(b"prow\0", Version::from_ticks(version)).unwrap();
            assert_eq!(found.value, value);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes, |_| true, |_| ());
        }
    }
}
