//! Random writes, queries and steps for the property tests.

use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use super::model::{Action, Condition, Operation, Write};
use super::query::QuerySpec;

const TABLES: u8 = 3;
/// The first ten are odd keys.
const PARTITIONS: u8 = 12;
const ROWS: u8 = 200;

fn table() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0u8), 2 => Just(1u8), 1 => 2..TABLES]
}

fn partition() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 9..PARTITIONS, 1 => 0..PARTITIONS]
}

fn row() -> impl Strategy<Value = u8> {
    prop_oneof![2 => 0u8..14, 1 => 0..ROWS]
}

fn bound(key: impl Strategy<Value = u8>) -> impl Strategy<Value = Bound<u8>> {
    (key, 0..3).prop_map(|(key, kind)| match kind {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    })
}

fn len() -> impl Strategy<Value = u16> {
    prop_oneof![6 => 0u16..80, 2 => 80u16..1000, 1 => 1000u16..12_000]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        6 => Just(Condition::None),
        2 => Just(Condition::Absent),
        2 => Just(Condition::Exists),
        2 => Just(Condition::Current),
        1 => Just(Condition::Stale),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => len().prop_map(Action::Put),
        2 => (0u16..50).prop_map(Action::Append),
        3 => Just(Action::Delete),
        1 => Just(Action::Refuse),
    ]
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let one = (row(), condition(), action()).prop_map(|(row, condition, action)| Operation {
        row,
        condition,
        action,
    });
    // A batch that does something: rows differ, no condition.
    let plain = vec((len(), any::<bool>()), 1..12).prop_map(|values| {
        let operation = |(n, (len, delete)): (usize, (u16, bool))| {
            let action = if delete && n % 2 == 1 { Action::Delete } else { Action::Put(len % 300) };
            Operation { row: n as u8 * 7, condition: Condition::None, action }
        };
        values.into_iter().enumerate().map(operation).collect()
    });
    // So many that they are looked up together: rows differ, in any order; mostly merges of whatever is there.
    let mixed = prop_oneof![
        9 => (0u16..50).prop_map(|len| (Condition::None, Action::Append(len))),
        2 => (Just(Condition::Current), action()),
        1 => (condition(), action()),
    ];
    let many = (vec(mixed, 8..40), 0usize..14).prop_map(|(operations, first)| {
        let row = |n: usize| ((first + n * 93) % usize::from(ROWS)) as u8;
        let operation = |(n, (condition, action))| Operation { row: row(n), condition, action };
        operations.into_iter().enumerate().map(operation).collect()
    });
    prop_oneof![6 => vec(one, 1..4), 2 => plain, 1 => many]
}

pub fn write() -> impl Strategy<Value = Write> {
    let import = (table(), partition(), row(), 1u8..150, 0u16..120).prop_map(
        |(table, partition, first_row, rows, len)| Write::Import {
            table,
            partition,
            first_row,
            rows,
            len,
        },
    );
    let load = (table(), 0..PARTITIONS, 0u8..60, 0u16..120).prop_map(
        |(table, last_partition, rows, len)| Write::Load { table, last_partition, rows, len },
    );
    let range = (table(), partition(), bound(row()), bound(row())).prop_map(
        |(table, partition, low, high)| Write::DeleteRange { table, partition, rows: (low, high) },
    );
    let ranges = prop_oneof![5 => Just(Vec::new()), 1 => vec((bound(row()), bound(row())), 1..3)];
    prop_oneof![
        2 => table().prop_map(Write::Create),
        1 => table().prop_map(Write::Drop),
        12 => (table(), partition(), ranges, operations()).prop_map(
            |(table, partition, ranges, operations)| {
                Write::Commit { table, partition, ranges, operations }
            }
        ),
        3 => import,
        1 => load,
        1 => (table(), partition())
            .prop_map(|(table, partition)| Write::DeletePartition { table, partition }),
        1 => range,
    ]
}

pub fn query() -> impl Strategy<Value = QuerySpec> {
    let partitions = prop_oneof![
        2 => Just((Bound::Unbounded, Bound::Unbounded)),
        2 => partition().prop_map(|p| (Bound::Included(p), Bound::Included(p))),
        1 => (bound(partition()), bound(partition())),
    ];
    let rows = prop_oneof![
        2 => Just((Bound::Unbounded, Bound::Unbounded)),
        3 => (bound(row()), bound(row())),
    ];
    let limit = prop_oneof![1usize..4, 5usize..50, Just(1000)];
    let bytes = prop_oneof![1usize..300, 300usize..5000, Just(usize::MAX), Just(usize::MAX)];
    (
        (partitions, rows, any::<bool>(), limit, bytes),
        (
            proptest::option::weighted(0.3, prop_oneof![1u64..3, 3u64..100]),
            proptest::bool::weighted(0.2),
            proptest::option::weighted(0.3, 2u8..6),
            proptest::option::weighted(0.3, (partition(), row())),
        ),
    )
        .prop_map(
            |((partitions, rows, reverse, limit, bytes), (examined, stop, one_of, start))| {
                QuerySpec {
                    partitions,
                    rows,
                    reverse,
                    limit,
                    bytes,
                    examined,
                    stop_at_partition: stop,
                    one_of,
                    start,
                }
            },
        )
}

/// A table, a partition and a row.
pub fn entity() -> impl Strategy<Value = (u8, u8, u8)> {
    (table(), partition(), row())
}

pub fn entities() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    (table(), partition(), vec(row(), 0..30))
}

/// As many cases as `PROPTEST_CASES` says, or so many; a failure's seed is kept in `file`.
pub fn config(usual: u32, file: &'static str) -> Config {
    let persistence = Some(Box::new(FileFailurePersistence::Direct(file)) as Box<_>);
    let config = Config { failure_persistence: persistence, ..Config::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => Config { cases: usual, ..config },
    }
}
