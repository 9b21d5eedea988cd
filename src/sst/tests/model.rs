//! A file read in every way agrees with the sorted entries it was written from.

use proptest::prelude::*;

use super::*;
use crate::entry::go;

/// Keys that share prefixes and extend each other, several versions each.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let key = prop_oneof![
        proptest::collection::vec(0u8..2, 0..10),
        (0u8..3, any::<u8>()).prop_map(|(a, b)| vec![9, 9, 9, 9, 9, 9, 9, 9, 9, a, b]),
    ];
    let value = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => (0usize..600).prop_map(|len| vec![3; len]),
        1 => (any::<u32>(), 0usize..600).prop_map(|(seed, len)| noise(u64::from(seed), len)),
    ];
    let version = prop_oneof![3 => 1u64..30, 1 => 1u64..u64::MAX];
    let row = (key, version, any::<bool>(), value);
    proptest::collection::vec(row, 1..150).prop_map(|rows| {
        let mut rows: Vec<Row> = rows
            .into_iter()
            .map(|(key, version, put, value)| match put {
                true => Row::put(key, version, value),
                false => Row { key, version, kind: Kind::Delete, value: Vec::new() },
            })
            .collect();
        rows.sort_by(|a, b| a.key.cmp(&b.key).then(b.version.cmp(&a.version)));
        rows.dedup_by(|a, b| a.key == b.key && a.version == b.version);
        rows
    })
}

/// The newest entries of all keys, ascending.
fn newest(rows: &[Row]) -> Vec<Row> {
    let mut newest = rows.to_vec();
    newest.dedup_by(|later, earlier| later.key == earlier.key);
    newest
}

/// A step of a cursor, each with a key to go to.
#[derive(Clone, Copy, Debug)]
enum Step {
    Next,
    NextKey,
    NextAt(u64),
    PreviousKey,
    PreviousAt(u64),
    Seek,
    SeekBefore,
    /// Over so many keys.
    Walk(usize),
    First,
    Last,
}

fn steps() -> impl Strategy<Value = Vec<(Step, prop::sample::Index, bool)>> {
    let step = prop_oneof![
        4 => Just(Step::Next),
        2 => Just(Step::NextKey),
        4 => (0u64..30).prop_map(Step::NextAt),
        4 => Just(Step::PreviousKey),
        4 => (0u64..30).prop_map(Step::PreviousAt),
        2 => Just(Step::Seek),
        1 => Just(Step::SeekBefore),
        2 => (0usize..90).prop_map(Step::Walk),
        1 => Just(Step::First),
        1 => Just(Step::Last),
    ];
    proptest::collection::vec((step, any::<prop::sample::Index>(), any::<bool>()), 0..60)
}

/// The position of the model after a step, as an index into `rows`; `rows.len()` for none.
fn model_step(rows: &[Row], at: usize, step: Step, key: &[u8]) -> usize {
    let first = |key: &[u8]| rows.partition_point(|row| *row.key < *key);
    let before = |end: usize| end.checked_sub(1).map_or(rows.len(), |i| first(&rows[i].key));
    let after = |key: &[u8]| rows.partition_point(|row| *row.key <= *key);
    let newest_at =
        |version| rows.iter().position(|row| row.key == rows[at].key && row.version <= version);
    match step {
        Step::Seek => first(key),
        Step::SeekBefore => before(first(key)),
        Step::First => 0,
        Step::Last => before(rows.len()),
        _ if at == rows.len() => at,
        Step::Walk(keys) => {
            let walked = newest(&rows[at..]);
            walked.get(keys).map_or(rows.len(), |next| first(&next.key).max(at))
        }
        Step::Next => at + 1,
        Step::NextKey => after(&rows[at].key),
        Step::PreviousKey => before(first(&rows[at].key)),
        Step::NextAt(version) | Step::PreviousAt(version) if rows[at].version <= version => at,
        Step::NextAt(version) => newest_at(version).unwrap_or_else(|| after(&rows[at].key)),
        Step::PreviousAt(version) => {
            newest_at(version).unwrap_or_else(|| before(first(&rows[at].key)))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_file_agrees_with_its_entries(
        rows in rows(),
        steps in steps(),
        block_bytes in prop_oneof![Just(1usize), 40usize..400, Just(8 << 10)],
        compression in prop_oneof![Just(None), Just(Some(1))],
        mode in prop::sample::select(&MODES[..]),
    ) {
        let fixture = Fixture::write(&rows, WriterOptions { compression, block_bytes });
        let reader = fixture.open(mode).unwrap();
        reader.verify().unwrap();
        prop_assert_eq!(reader.meta(), &fixture.meta);
        prop_assert_eq!(&scan(reader.cursor()).unwrap(), &rows);
        prop_assert_eq!(&scan(reader.passing_cursor()).unwrap(), &rows);
        let mut back = newest(&rows);
        back.reverse();
        prop_assert_eq!(scan_back(&reader).unwrap(), back);

        for row in &rows {
            for at in [row.version - 1, row.version, row.version + 1, u64::MAX] {
                let expected = rows.iter().find(|r| r.key == row.key && r.version <= at);
                let found = get(&reader, &row.key, at).unwrap();
                prop_assert_eq!(found.as_ref(), expected);
            }
            let mut absent = row.key.clone();
            absent.push(7);
            prop_assert_eq!(get(&reader, &absent, u64::MAX).unwrap(), None);
        }

        let mut cursor = reader.cursor();
        let mut at = rows.len();
        for (step, index, exact) in steps {
            let mut key = index.get(&rows).key.clone();
            if !exact {
                key.push(1);
            }
            if let Step::Walk(keys) = step {
                let mut walked = newest(&rows[at..]);
                walked.truncate(keys);
                prop_assert_eq!(walk(&mut cursor, keys).unwrap(), walked);
            }
            go(&mut cursor, |cursor| match step {
                Step::Walk(_) => Ok(()),
                Step::Next => cursor.next(),
                Step::NextKey => cursor.next_key(),
                Step::NextAt(version) => cursor.next_at(Version::from_ticks(version)),
                Step::PreviousKey => cursor.previous_key(),
                Step::PreviousAt(version) => cursor.previous_at(Version::from_ticks(version)),
                Step::Seek => cursor.seek(&key),
                Step::SeekBefore => cursor.seek_before(&key),
                Step::First => cursor.seek_to_first(),
                Step::Last => cursor.seek_to_last(),
            });
            at = model_step(&rows, at, step, &key);
            let found = cursor.entry().map(Row::of);
            prop_assert_eq!(found.as_ref(), rows.get(at), "after {:?}", step);
        }
    }
}
