//! The encoded entity key: table id, PartitionKey, RowKey as one byte string.
//!
//! Invariant: comparing two encoded keys with `memcmp` orders them by table, then PartitionKey,
//! then RowKey, each by its bytes (R-E01), and no encoded key is a prefix of another. Rooms below
//! the commit and read paths treat an encoded key as opaque bytes, but for [`partition_len`].
//!
//! Layout: the table id in an ordered variable-length form (one byte below 0xF8, else 0xF7 + n and
//! n big-endian bytes), then each component escaped and terminated: bytes 0x00 and 0x01 are
//! written as 0x01 0x01 and 0x01 0x02, any other byte as itself, and 0x00 ends the component.

mod bytes;

use std::fmt;
use std::ops::Bound;

use self::bytes::{bytes_up_to, has_byte_up_to};
pub(crate) use self::bytes::{common_prefix, first_eight};

const TERMINATOR: u8 = 0x00;
const ESCAPE: u8 = 0x01;
/// Table ids below this take one byte.
const SHORT_TABLE_ID: u64 = 0xF8;
/// Most bytes of an encoded table id.
const LONGEST_TABLE: usize = 9;

/// The incarnation of a table: a name created again gets a new id (R-E17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(u64);

impl TableId {
    /// The table that holds the catalog.
    pub(crate) const CATALOG: Self = Self(0);
    /// The first id given to a user's table.
    pub(crate) const FIRST: Self = Self(1);
    /// Above every id that is given out.
    pub(crate) const LAST: Self = Self(u64::MAX);

    pub(crate) const fn new(id: u64) -> Self {
        Self(id)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Both ends of a range of PartitionKeys or RowKeys.
pub(crate) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Every key.
pub(crate) const ALL_KEYS: KeyBounds = (Bound::Unbounded, Bound::Unbounded);

/// The only key within the bounds, if there is only one.
pub(crate) fn single(bounds: &KeyBounds) -> Option<&[u8]> {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) if from == to => Some(from),
        _ => None,
    }
}

/// Appends the encoded table id: the prefix of all keys of that table.
pub(crate) fn push_table(out: &mut Vec<u8>, table: TableId) {
    if table.0 < SHORT_TABLE_ID {
        out.push(table.0 as u8);
        return;
    }
    let bytes = table.0.to_be_bytes();
    let skip = table.0.leading_zeros() as usize / 8;
    out.push(0xF7 + (8 - skip) as u8);
    out.extend(bytes.iter().skip(skip));
}

/// Appends one escaped and terminated component (a PartitionKey or a RowKey).
pub(crate) fn push_component(out: &mut Vec<u8>, component: &[u8]) {
    push_escaped(out, component);
    out.push(TERMINATOR);
}

/// How many bytes [`push_component`] appends.
pub(crate) fn component_len(component: &[u8]) -> usize {
    let escapes = match has_byte_up_to(ESCAPE, component) {
        true => component.iter().filter(|&&byte| byte <= ESCAPE).count(),
        false => 0,
    };
    component.len() + escapes + 1
}

fn push_escaped(out: &mut Vec<u8>, component: &[u8]) {
    if !has_byte_up_to(ESCAPE, component) {
        return out.extend_from_slice(component);
    }
    let mut rest = component;
    while let Some(at) = memchr::memchr2(TERMINATOR, ESCAPE, rest) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        if let Some((byte, after)) = special.split_first() {
            out.extend_from_slice(&[ESCAPE, byte + 1]);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
}

/// The prefix of all keys of one table.
pub(crate) fn encode_table(table: TableId) -> Vec<u8> {
    let mut out = Vec::new();
    push_table(&mut out, table);
    out
}

/// The encoded keys of one table: the first there can be, and the first behind all of them.
pub(crate) fn table_range(table: TableId) -> (Vec<u8>, Vec<u8>) {
    let low = encode_table(table);
    let high = prefix_end(&low);
    (low, high)
}

/// The encoded prefix of all keys of one partition.
pub(crate) fn encode_partition(table: TableId, partition_key: &[u8]) -> Vec<u8> {
    encode_partition_before(table, partition_key, 0)
}

/// The same with room for a RowKey of `row_len` bytes, unless much of it has to be escaped.
pub(crate) fn encode_partition_before(
    table: TableId,
    partition_key: &[u8],
    row_len: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(partition_key.len() + row_len + 12);
    push_table(&mut out, table);
    push_component(&mut out, partition_key);
    out
}

/// The same, in the memory of the PartitionKey where that is nothing to escape.
pub(crate) fn into_partition(table: TableId, mut partition_key: Vec<u8>) -> Vec<u8> {
    if table.0 >= SHORT_TABLE_ID || has_byte_up_to(ESCAPE, &partition_key) {
        return encode_partition(table, &partition_key);
    }
    partition_key.reserve(SHORT_PREFIX_BYTES);
    partition_key.insert(0, table.0 as u8);
    partition_key.push(TERMINATOR);
    partition_key
}

/// What [`into_partition`] adds to most PartitionKeys.
pub(crate) const SHORT_PREFIX_BYTES: usize = 2;

/// Most bytes that [`encode_partition`] makes of a PartitionKey of `len` bytes.
pub(crate) const fn longest_partition(len: usize) -> usize {
    LONGEST_TABLE + 2 * len + 1
}

/// The encoded key of one entity.
pub(crate) fn encode(table: TableId, partition_key: &[u8], row_key: &[u8]) -> Vec<u8> {
    let mut out = encode_partition_before(table, partition_key, row_key.len());
    push_component(&mut out, row_key);
    out
}

/// Keys up to this length are encoded without an allocation.
const SHORT_KEY: usize = 96;

/// What `with` makes of the encoded key of one entity, which is gone then.
#[inline]
pub(crate) fn with_encoded<R>(
    table: TableId,
    partition_key: &[u8],
    row_key: &[u8],
    with: impl FnOnce(&[u8]) -> R,
) -> R {
    let mut short = [TERMINATOR; SHORT_KEY];
    match encode_short(&mut short, table, partition_key, row_key) {
        Some(key) => with(key),
        None => with(&encode(table, partition_key, row_key)),
    }
}

/// The encoded key in `out`, which is all terminators, if it fits and has nothing to escape.
#[inline]
fn encode_short<'a>(
    out: &'a mut [u8; SHORT_KEY],
    table: TableId,
    partition_key: &[u8],
    row_key: &[u8],
) -> Option<&'a [u8]> {
    let is_plain = |component| !has_byte_up_to(ESCAPE, component);
    if table.0 >= SHORT_TABLE_ID || !is_plain(partition_key) || !is_plain(row_key) {
        return None;
    }
    let (first, rest) = out.split_first_mut()?;
    *first = table.0 as u8;
    rest.get_mut(..partition_key.len())?.copy_from_slice(partition_key);
    let rest = rest.get_mut(partition_key.len() + 1..)?;
    rest.get_mut(..row_key.len())?.copy_from_slice(row_key);
    out.get(..partition_key.len() + row_key.len() + 3)
}

/// The first encoded key after every key that starts with `prefix`, where `prefix` ends with a
/// terminator or is an encoded table id (which never is all 0xFF).
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut out = prefix.to_vec();
    while let Some(last) = out.last_mut() {
        if *last < 0xFF {
            *last += 1;
            break;
        }
        out.pop();
    }
    out
}

/// Length of the encoded table id and PartitionKey: the part that names the partition. An
/// encoded key that is cut short counts whole.
pub(crate) fn partition_len(key: &[u8]) -> usize {
    let table = table_len(key);
    let rest = key.get(table..).unwrap_or_default();
    memchr::memchr(TERMINATOR, rest).map_or(key.len(), |end| table + end + 1)
}

/// The component at the front of `bytes` with its terminator, if that is there and nothing is escaped.
pub(crate) fn plain_component(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr2(TERMINATOR, ESCAPE, bytes)?;
    bytes.get(..=end).filter(|component| component.last() == Some(&TERMINATOR))
}

/// Length of the encoded table id.
pub(crate) fn table_len(key: &[u8]) -> usize {
    match key.first() {
        Some(&first) if first > 0xF7 => 1 + usize::from(first - 0xF7),
        _ => 1,
    }
}

/// The table of an encoded key, or one of its neighbours if the key is cut short.
pub(crate) fn table_of(key: &[u8]) -> TableId {
    let id = match key.get(..table_len(key)).unwrap_or(key) {
        [short] => u64::from(*short),
        long => long.iter().skip(1).fold(0, |id, byte| id << 8 | u64::from(*byte)),
    };
    TableId(id)
}

/// PartitionKey and RowKey of an encoded key, which may be cut short.
pub(crate) fn decode(key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (partition, row) = key.split_at(partition_len(key));
    let partition = partition.get(table_len(key)..).unwrap_or_default();
    (decode_component(partition), decode_component(row))
}

/// What the caller gave to [`push_component`]; its terminator may be cut off.
pub(crate) fn decode_component(terminated: &[u8]) -> Vec<u8> {
    let escaped = terminated.strip_suffix(&[TERMINATOR]).unwrap_or(terminated);
    if !has_byte_up_to(ESCAPE, escaped) {
        return escaped.to_vec();
    }
    let mut out = Vec::with_capacity(escaped.len());
    push_unescaped(&mut out, escaped);
    out
}

/// Appends a component without its escapes: what the caller gave to [`push_component`].
pub(crate) fn push_unescaped(out: &mut Vec<u8>, escaped: &[u8]) {
    if !has_byte_up_to(ESCAPE, escaped) {
        return out.extend_from_slice(escaped);
    }
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        match special {
            [_, code, after @ ..] => {
                out.push(code.wrapping_sub(1));
                rest = after;
            }
            _ => rest = &[],
        }
    }
    out.extend_from_slice(rest);
}

/// A component without its escapes; `scratch` is where it is put if it has any. The first `plain`
/// bytes are known to have none.
#[inline]
pub(crate) fn unescaped<'a>(escaped: &'a [u8], plain: usize, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let has_escape = match escaped.last_chunk() {
        Some(last) if escaped.len() <= plain.saturating_add(8) => bytes_up_to(ESCAPE, last) != 0,
        _ => has_byte_up_to(ESCAPE, escaped),
    };
    if !has_escape {
        return escaped;
    }
    scratch.clear();
    push_unescaped(scratch, escaped);
    scratch
}

/// The 64-bit hash that filters, latches and the point-read path share. It is stored in files:
/// XXH3 with seed 0, pinned by a golden test.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unescaped(escaped: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_unescaped(&mut out, escaped);
        out
    }

    fn component() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![0u8..4, any::<u8>(), 0xFEu8..=0xFF], 0..6)
    }

    fn table() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..4, 0xF0u64..0x110, any::<u64>(), (0u32..64).prop_map(|b| 1 << b)]
    }

    proptest! {
        /// R-E01, R-E02, R-E21: memcmp orders by table, PartitionKey, RowKey; any bytes.
        #[test]
        fn order_is_that_of_the_parts(
            a in (table(), component(), component()),
            b in (table(), component(), component()),
        ) {
            let (ka, kb) = (
                encode(TableId(a.0), &a.1, &a.2),
                encode(TableId(b.0), &b.1, &b.2),
            );
            prop_assert_eq!(ka.cmp(&kb), a.cmp(&b));
            prop_assert!(ka == kb || !ka.starts_with(&kb));
            prop_assert_eq!(&ka[..partition_len(&ka)], &encode_partition(TableId(a.0), &a.1)[..]);
            prop_assert_eq!(table_of(&ka), TableId(a.0));
            let partition = encode_partition(TableId(a.0), &a.1);
            prop_assert_eq!(into_partition(TableId(a.0), a.1), partition);
        }

        #[test]
        fn a_component_is_given_back(t in table(), pk in component(), rk in component()) {
            let key = encode(TableId(t), &pk, &rk);
            for cut in 0..key.len() {
                let (partition_key, row_key) = decode(&key[..cut]);
                prop_assert!(pk.starts_with(&partition_key) && rk.starts_with(&row_key));
            }
            prop_assert_eq!(decode(&key), (pk, rk));
        }

        #[test]
        fn a_key_is_the_same_without_an_allocation(
            t in table(),
            pk in prop_oneof![component(), proptest::collection::vec(2u8.., 0..100)],
            rk in prop_oneof![component(), proptest::collection::vec(2u8.., 0..100)],
        ) {
            let expected = encode(TableId(t), &pk, &rk);
            with_encoded(TableId(t), &pk, &rk, |key| assert_eq!(key, expected));
            let is_short = t < SHORT_TABLE_ID && expected.len() == pk.len() + rk.len() + 3;
            let mut out = [TERMINATOR; SHORT_KEY];
            let short = encode_short(&mut out, TableId(t), &pk, &rk);
            prop_assert_eq!(short.is_some(), is_short && expected.len() <= SHORT_KEY);
        }

        #[test]
        fn prefix_end_is_past_the_prefix_and_before_all_else(
            t in table(), pk in component(), rk in component(), other in component(),
        ) {
            let end = prefix_end(&encode_partition(TableId(t), &pk));
            prop_assert!(encode(TableId(t), &pk, &rk) < end);
            if other > pk {
                prop_assert!(encode(TableId(t), &other, &rk) >= end);
            }
        }

        /// What is known to have no escapes need not be looked at.
        #[test]
        fn a_component_comes_back_whatever_is_known_of_its_front(
            component in proptest::collection::vec(prop_oneof![1 => 0u8..3, 8 => Just(b'a')], 0..24),
            known in any::<prop::sample::Index>(),
        ) {
            let mut escaped = Vec::new();
            push_escaped(&mut escaped, &component);
            let plain = escaped.iter().take_while(|byte| **byte != ESCAPE).count();
            let known = known.index(plain + 1);
            let mut scratch = Vec::new();
            prop_assert_eq!(super::unescaped(&escaped, known, &mut scratch), component);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            let _ = partition_len(&bytes);
            let _ = unescaped(&bytes);
        }
    }

    #[test]
    fn the_hash_is_pinned() {
        assert_eq!(hash(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(hash(b"tablestone"), 16_233_901_059_843_329_249);
    }
}
