//! The payload of a log record: what one commit changes, all of it or nothing.
//!
//! Invariant: its checksums are those of the bytes that the log gets. Sections, each starting with a tag byte:
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
use crate::key;
use crate::reference::LARGE_VALUE_BYTES;
use crate::varint::{MAX_VARINT, push_slice, push_varint};

pub(super) const TAG_ROWS: u8 = 1;
pub(super) const TAG_DELETE_RANGE: u8 = 2;

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
    pub(super) values: Vec<ValueSum>,
    pub(super) partitions: usize,
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
    pub(super) buffer: Arc<Vec<u8>>,
    pub(super) start: usize,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::TableId;

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
}
