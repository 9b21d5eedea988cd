//! Behaviour of the memtable, against a `BTreeMap` and under threads.

mod threads;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::entry::{Cursor, Entry, go};
use crate::key::{self, TableId};

type Model = BTreeMap<(Vec<u8>, Reverse<u64>), (Kind, Vec<u8>)>;

fn v(ticks: u64) -> Version {
    Version::from_ticks(ticks)
}

fn put(memtable: &Memtable, key: &[u8], version: u64, value: &[u8]) {
    memtable.insert(key, b"", v(version), Kind::Put, value);
}

type Row = (Vec<u8>, u64, Kind, Vec<u8>);

fn row(cursor: &impl Cursor) -> Option<Row> {
    let Entry { key, version, kind, value } = cursor.entry()?;
    Some((key.to_vec(), version.ticks(), kind, value.to_vec()))
}

fn rows_from(cursor: &mut impl Cursor) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(found) = row(cursor) {
        rows.push(found);
        go(cursor, Cursor::next);
    }
    rows
}

fn keys_back_from(cursor: &mut impl Cursor) -> Vec<(Vec<u8>, u64)> {
    let mut rows = Vec::new();
    while let Some((key, version, ..)) = row(cursor) {
        rows.push((key, version));
        go(cursor, Cursor::previous_key);
    }
    rows
}

/// What a reader at a version sees from there on.
fn seen_from(cursor: &mut impl Cursor, at: Version, forward: bool) -> Vec<(Vec<u8>, u64)> {
    let mut seen = Vec::new();
    while let Some((key, version, ..)) = row(cursor) {
        let is_newer = v(version) > at;
        if !is_newer {
            seen.push((key, version));
        }
        go(cursor, |cursor| match (forward, is_newer) {
            (true, true) => cursor.next_at(at),
            (true, false) => cursor.next_key(),
            (false, true) => cursor.previous_at(at),
            (false, false) => cursor.previous_key(),
        });
    }
    seen
}

#[test]
fn an_empty_memtable_has_nothing() {
    let memtable = Memtable::new();
    assert!(memtable.is_empty());
    assert_eq!((memtable.entries(), memtable.bytes()), (0, 0));
    assert_eq!(memtable.get(b"", Version::MAX), None);
    let mut cursor = memtable.cursor();
    let moves: [fn(&mut MemtableCursor<'_>) -> crate::Result<()>; 7] = [
        |c| c.next(),
        |c| c.next_key(),
        |c| c.previous_key(),
        |c| c.seek(b""),
        |c| c.seek_to_first(),
        |c| c.seek_before(b"z"),
        |c| c.seek_to_last(),
    ];
    for go in moves {
        go(&mut cursor).unwrap();
        assert!(!cursor.valid());
    }
}

#[test]
fn a_key_is_its_prefix_and_suffix_however_long() {
    let memtable = Memtable::new();
    for len in [0usize, 1, 64, 127, 128, 129, 1_000, 100_000] {
        for split in [0, len / 2, len] {
            let key: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let version = v((len * 3 + split) as u64 + 1);
            memtable.insert(&key[..split], &key[split..], version, Kind::Put, b"x");
            assert_eq!(memtable.get(&key, Version::MAX).unwrap().version, version);
        }
    }
}

#[test]
fn a_hot_row_grows_by_its_versions_alone() {
    let memtable = Memtable::new();
    for version in 1..=1_000 {
        put(&memtable, b"hot", version, b"");
    }
    assert!(memtable.bytes() <= 1_000 * 24 + 5_000, "{}", memtable.bytes());
    assert_eq!(memtable.entries(), 1_000);
    assert_eq!(memtable.get(b"hot", v(500)).unwrap().version, v(500));
}

#[test]
fn large_values_come_back_and_are_accounted_for() {
    let memtable = Memtable::new();
    let large = vec![7; 1 << 20];
    for i in 0..4u8 {
        put(&memtable, &[i], 1, &large);
    }
    assert!(memtable.bytes() >= 4 << 20 && memtable.bytes() < (4 << 20) + 4_096);
    assert_eq!(memtable.get(&[2], Version::MAX).unwrap().value, &large[..]);
}

/// What is kept is what was committed, also once the commit has let go of it; cursors and gets see it.
#[test]
fn a_value_of_a_kept_payload_is_there_as_long_as_the_memtable() {
    let memtable = Memtable::new();
    put(&memtable, b"key", 1, b"small");
    for version in 2..5u8 {
        let payload = Arc::new([b"before".to_vec(), vec![version; 1 << 20]].concat());
        memtable.insert_kept(b"k", b"ey", v(version.into()), &payload, 6..payload.len());
    }
    assert!(memtable.bytes() >= 3 << 20 && memtable.bytes() < (3 << 20) + 4_096);
    for version in 2..5u8 {
        let found = memtable.get(b"key", v(version.into())).unwrap();
        assert_eq!((found.kind, found.value), (Kind::Put, &vec![version; 1 << 20][..]));
    }
    let mut cursor = memtable.cursor();
    go(&mut cursor, Cursor::seek_to_first);
    let values: Vec<_> = rows_from(&mut cursor).into_iter().map(|(.., value)| value).collect();
    assert_eq!(values, [vec![4; 1 << 20], vec![3; 1 << 20], vec![2; 1 << 20], b"small".to_vec()]);
}

#[test]
fn range_tombstones_are_those_added() {
    let memtable = Memtable::new();
    assert!(!memtable.has_range_tombstones());
    let tombstone = |start: &[u8], end: &[u8], version| RangeTombstone {
        start: start.into(),
        end: end.into(),
        version: v(version),
    };
    memtable.add_range_tombstones(&[tombstone(b"a", b"c", 5)]);
    memtable.add_range_tombstones(&[tombstone(b"b", b"d", 7)]);
    assert!(memtable.has_range_tombstones() && !memtable.is_empty());
    let set = memtable.range_tombstones();
    assert_eq!(set.covering(b"b", v(6)), v(5));
    assert_eq!(set.covering(b"b", v(7)), v(7));
    assert_eq!(set.covering(b"d", Version::MAX), Version::ZERO);
}

/// Keys that share prefixes, are prefixes of one another, and branch at every kind of fan-out.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop_oneof![4 => 0u8..3, 2 => b'0'..=b'9', 2 => any::<u8>(), 1 => Just(255u8)];
    prop_oneof![
        4 => proptest::collection::vec(byte(), 0..5),
        1 => any::<u8>().prop_map(|b| vec![1, b]),
        2 => (0u8..3, byte(), byte()).prop_map(|(p, a, b)| {
            let mut key = [b"a long common part of the partition ", &[p][..]].concat();
            key.extend([a, b"in between"[0], b]);
            key
        }),
    ]
}

fn any_rows(len: usize) -> impl Strategy<Value = Vec<(Vec<u8>, bool, u8)>> {
    proptest::collection::vec((any_key(), prop::bool::weighted(0.8), any::<u8>()), 0..len)
}

fn build(rows: &[(Vec<u8>, bool, u8)]) -> (Memtable, Model) {
    let memtable = Memtable::new();
    let mut model = Model::new();
    for (i, (key, is_put, value)) in rows.iter().enumerate() {
        let version = 10 + i as u64;
        let (kind, value) =
            if *is_put { (Kind::Put, vec![*value; 3]) } else { (Kind::Delete, Vec::new()) };
        let split = key.len() / 2;
        memtable.insert(&key[..split], &key[split..], v(version), kind, &value);
        model.insert((key.clone(), Reverse(version)), (kind, value));
    }
    (memtable, model)
}

fn model_rows<'m>(
    entries: impl Iterator<Item = (&'m (Vec<u8>, Reverse<u64>), &'m (Kind, Vec<u8>))>,
) -> Vec<Row> {
    entries.map(|((k, Reverse(v)), (kind, value))| (k.clone(), *v, *kind, value.clone())).collect()
}

fn model_newest(model: &Model) -> BTreeMap<Vec<u8>, u64> {
    // Older versions come later in the model and do not replace the newest.
    let mut newest = BTreeMap::new();
    for (key, Reverse(version)) in model.keys() {
        newest.entry(key.clone()).or_insert(*version);
    }
    newest
}

proptest! {
    #[test]
    fn gets_at_a_version_agree_with_the_model(
        rows in any_rows(300),
        probes in proptest::collection::vec((any_key(), 0u64..350), 50),
    ) {
        let (memtable, model) = build(&rows);
        prop_assert_eq!(memtable.entries(), rows.len() as u64);
        let known = rows.iter().enumerate().map(|(i, (key, ..))| (key.clone(), i as u64 * 7 % 350));
        for (key, at) in known.chain(probes) {
            let expected = model
                .range((key.clone(), Reverse(at))..)
                .next()
                .filter(|((k, _), _)| *k == key)
                .map(|((_, Reverse(v)), (kind, value))| (*v, *kind, value.clone()));
            let found = memtable.get(&key, v(at));
            prop_assert_eq!(found.map(|f| (f.version.ticks(), f.kind, f.value.to_vec())), expected);
        }
    }

    #[test]
    fn forward_cursors_agree_with_the_model(
        rows in any_rows(300),
        seeks in proptest::collection::vec(any_key(), 12),
    ) {
        let (memtable, model) = build(&rows);
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        prop_assert_eq!(rows_from(&mut cursor), model_rows(model.iter()));
        for key in seeks.into_iter().chain(rows.into_iter().map(|r| r.0).take(20)) {
            cursor.seek(&key).unwrap();
            let expected = model_rows(model.range((key, Reverse(u64::MAX))..));
            prop_assert_eq!(rows_from(&mut cursor), expected);
        }
    }

    #[test]
    fn next_key_visits_the_newest_of_each_key(rows in any_rows(300)) {
        let (memtable, model) = build(&rows);
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        let mut keys = Vec::new();
        while let Some((key, version, ..)) = row(&cursor) {
            keys.push((key, version));
            // From any of its versions, the next key is the same.
            if keys.len() % 2 == 0 && model.len() % 2 == 0 {
                let here = keys.last().unwrap().0.clone();
                cursor.next().unwrap();
                if cursor.key() != here {
                    continue;
                }
            }
            go(&mut cursor, Cursor::next_key);
        }
        prop_assert_eq!(keys, model_newest(&model).into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn reverse_cursors_agree_with_the_model(
        rows in any_rows(300),
        seeks in proptest::collection::vec(any_key(), 12),
    ) {
        let (memtable, model) = build(&rows);
        let newest = model_newest(&model);
        let mut cursor = memtable.cursor();
        cursor.seek_to_last().unwrap();
        let all: Vec<_> = newest.clone().into_iter().rev().collect();
        prop_assert_eq!(keys_back_from(&mut cursor), all);
        for key in seeks.into_iter().chain(rows.into_iter().map(|r| r.0).take(20)) {
            cursor.seek_before(&key).unwrap();
            let expected: Vec<_> = newest.range(..key).rev().map(|(k, v)| (k.clone(), *v)).collect();
            prop_assert_eq!(keys_back_from(&mut cursor), expected);
        }
    }

    #[test]
    fn walks_at_a_version_find_what_gets_find(rows in any_rows(300), at in 0u64..350) {
        let (memtable, model) = build(&rows);
        let keys = model_newest(&model).into_keys();
        let expected = keys.filter_map(|key| {
            let version = memtable.get(&key, v(at))?.version.ticks();
            Some((key, version))
        });
        let mut expected: Vec<_> = expected.collect();
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        prop_assert_eq!(&seen_from(&mut cursor, v(at), true), &expected);
        cursor.seek_to_last().unwrap();
        expected.reverse();
        prop_assert_eq!(seen_from(&mut cursor, v(at), false), expected);
    }

    #[test]
    fn a_cursor_turns_around_anywhere(
        rows in any_rows(120),
        start in any_key(),
        steps in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let (memtable, model) = build(&rows);
        let newest = model_newest(&model);
        let mut cursor = memtable.cursor();
        cursor.seek(&start).unwrap();
        let mut expected = newest.range(start..).next();
        for forward in steps {
            let Some((key, version)) = expected else { break };
            prop_assert_eq!((cursor.key(), cursor.version()), (&key[..], v(*version)));
            if forward {
                go(&mut cursor, Cursor::next_key);
                let after = (std::ops::Bound::Excluded(key.clone()), std::ops::Bound::Unbounded);
                expected = newest.range(after).next();
            } else {
                go(&mut cursor, Cursor::previous_key);
                expected = newest.range(..key.clone()).next_back();
            }
        }
        prop_assert_eq!(cursor.valid(), expected.is_some());
    }
}

/// Rows in the order R-E18 names: at the front of a partition, at its end, at random.
#[test]
fn rows_inserted_at_front_end_and_at_random_come_back_in_order() {
    let count = 20_000u64;
    let orders: [fn(u64) -> u64; 3] =
        [|i| u64::MAX - i, |i| i, |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20];
    for order in orders {
        let memtable = Memtable::new();
        for i in 0..count {
            let row = format!("{:020}", order(i));
            let partition = key::encode_partition(TableId::FIRST, b"a partition");
            let mut row_key = Vec::new();
            key::push_component(&mut row_key, row.as_bytes());
            memtable.insert(&partition, &row_key, v(i + 1), Kind::Put, row.as_bytes());
        }
        let mut expected: Vec<String> = (0..count).map(|i| format!("{:020}", order(i))).collect();
        expected.sort();
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        for row in &expected {
            assert_eq!(cursor.value(), row.as_bytes());
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        for row in expected.iter().rev() {
            assert_eq!(cursor.value(), row.as_bytes());
            cursor.previous_key().unwrap();
        }
    }
}

/// Keys that part in one byte, so many that the node there has every size in turn, with and
/// without a key that ends there.
#[test]
fn branches_of_every_number_are_found_and_in_order() {
    for count in [1usize, 2, 3, 4, 5, 15, 16, 17, 47, 48, 49, 255, 256] {
        for (stride, with_shorter) in [(1, false), (255, true), (97, false), (97, true)] {
            let memtable = Memtable::new();
            let key = |byte: u8| [b"before the branch ", &[byte][..], b"after"].concat();
            let bytes: Vec<u8> = (0..count).map(|i| (i * stride + 200) as u8).collect();
            let mut expected: Vec<_> = bytes.iter().map(|&byte| key(byte)).collect();
            for (i, key) in expected.iter().enumerate() {
                put(&memtable, key, i as u64 + 1, key);
            }
            if with_shorter {
                put(&memtable, b"before the branch ", 1_000, b"before the branch ");
                expected.push(b"before the branch ".to_vec());
            }
            expected.sort();
            check_order(&memtable, &expected);
            for byte in 0..=u8::MAX {
                check_seeks(&memtable, &expected, &key(byte));
                check_seeks(&memtable, &expected, &key(byte)[..19]);
            }
        }
    }
}

fn check_order(memtable: &Memtable, expected: &[Vec<u8>]) {
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    let forward: Vec<_> = rows_from(&mut cursor).into_iter().map(|row| row.0).collect();
    assert_eq!(forward, expected);
    cursor.seek_to_last().unwrap();
    let mut back: Vec<_> = keys_back_from(&mut cursor).into_iter().map(|row| row.0).collect();
    back.reverse();
    assert_eq!(back, expected);
}

fn check_seeks(memtable: &Memtable, expected: &[Vec<u8>], key: &[u8]) {
    let at = expected.partition_point(|other| &other[..] < key);
    let here = expected.get(at);
    let found = memtable.get(key, Version::MAX);
    assert_eq!(found.map(|f| f.value), here.filter(|k| *k == key).map(|k| &k[..]));
    let mut cursor = memtable.cursor();
    cursor.seek(key).unwrap();
    assert_eq!((cursor.valid(), cursor.key()), (here.is_some(), here.map_or(&b""[..], |k| &k[..])));
    cursor.seek_before(key).unwrap();
    let before = at.checked_sub(1).map(|at| &expected[at][..]);
    assert_eq!((cursor.valid(), cursor.key()), (before.is_some(), before.unwrap_or_default()));
}
