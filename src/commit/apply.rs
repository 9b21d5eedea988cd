//! Applying a [payload](super::payload) to a memtable.
//!
//! Invariant: it is applied in the same way when it is committed ([`apply`]) and when the log is replayed
//! ([`apply_again`]), which trusts no byte of it: what does not decode is [`Damage`].

use std::ops::Range;

use super::payload::{Prepared, Shared, TAG_DELETE_RANGE, TAG_ROWS};
use crate::entry::Kind;
use crate::error::Damage;
use crate::memtable::{Inserts, LargeRow, Memtable, NewRow};
use crate::tombstone::RangeTombstone;
use crate::varint::Decoder;
use crate::version::Version;

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
        let mut deleted = Vec::new();
        decode(payload, wanted, |change| match change {
            Change::Row { prefix, row_key, value, end, .. } if value.len() >= large => {
                // Versions of a key come in order.
                inserts.finish();
                self.insert_large(memtable, prefix, row_key, end - value.len()..end);
            }
            Change::Row { prefix, row_key: suffix, kind, value, .. } => {
                inserts.push(NewRow { prefix, suffix, version, kind, value });
            }
            Change::DeleteRange { start, end } => {
                deleted.push(RangeTombstone { start: start.into(), end: end.into(), version });
            }
        })?;
        memtable.add_range_tombstones(&deleted);
        Ok(())
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

    use super::super::payload::Payload;
    use super::*;
    use crate::tombstone::MADE;

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

    /// R-E19: as many ranges as a batch may have cost no more than as many rows.
    #[test]
    fn r_e19_ranges_of_a_commit_are_put_in_order_once() {
        let mut payload = Payload::default();
        for number in 0..1_000u16 {
            payload.delete_range(&number.to_be_bytes(), &(number + 1).to_be_bytes());
        }
        let (prepared, memtable) = (Prepared::new(payload), Memtable::new());
        let before = MADE.get();
        apply(&prepared, Version::from_ticks(1), &memtable, 1_000).unwrap();
        assert_eq!(MADE.get() - before, 1);
        assert_eq!(memtable.range_tombstones().len(), 1_000);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes, |_| true, |_| ());
        }
    }
}
