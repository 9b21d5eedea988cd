//! Random tables and queries. Values come from small sets, so that conditions often meet them.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::judge::{Entity, Expression, Operator, Value};

const ENTITIES: usize = 24;
const QUERIES: usize = 12;

/// Keys that ask for quotes to be doubled, for encoding, for the order of bytes; and none at all.
const KEYS: [&str; 14] = [
    "",
    "a",
    "b",
    "B",
    "ab",
    "O'Neil",
    "''",
    "100%",
    "%41",
    "a b",
    "+&=",
    "é",
    "\u{FFFD}",
    "\u{1F600}",
];
const NAMES: [&str; 4] = ["A", "B", "C", "Größe"];
const SELECTED: [&str; 7] = ["PartitionKey", "RowKey", "Timestamp", "A", "B", "Größe", "Missing"];
const DATES: [&str; 6] = [
    "1601-01-01T00:00:00Z",
    "1969-12-31T23:59:59.9999999Z",
    "2020-02-29T12:00:00Z",
    "2020-02-29T12:00:00.0000001Z",
    "2020-02-29T12:00:00.5Z",
    "9999-12-31T23:59:59.9999999Z",
];
const GUIDS: [&str; 4] = [
    "00000000-0000-0000-0000-000000000000",
    "00000001-0000-0000-0000-000000000000",
    "c9da6455-213d-42c9-9a79-3e9149a57833",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];

const TEXTS: [&str; 11] =
    ["", "a", "B", "b", "bB", "é", "O'Neil", "a b", "x' or A eq 'y", "%27", "\u{1F600}"];
const BYTES: [&[u8]; 5] = [&[], &[0], &[0, 0], &[1], &[255]];

/// A query of a table.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) filter: Option<Expression>,
    pub(super) top: Option<usize>,
    pub(super) select: Option<Vec<&'static str>>,
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        select(&TEXTS[..]).prop_map(|text| Value::String(text.into())),
        any::<bool>().prop_map(Value::Boolean),
        select(&[i32::MIN, -1, 0, 1, 2, i32::MAX][..]).prop_map(Value::Int32),
        select(&[i64::MIN, -1, 0, 1, 2, 1 << 40, (1 << 53) + 1, i64::MAX][..])
            .prop_map(Value::Int64),
        select(&[-1e300, -1.5, 0.0, 0.5, 1.0, 2.0, 2e-300, 9_007_199_254_740_992.0][..])
            .prop_map(Value::Double),
        select(&DATES[..]).prop_map(Value::DateTime),
        select(&GUIDS[..]).prop_map(Value::Guid),
        select(&BYTES[..]).prop_map(|bytes| Value::Binary(bytes.into())),
    ]
}

/// Values that an entity can have, and a filter cannot name.
fn stored() -> impl Strategy<Value = Value> {
    let unnamed = select(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY][..]);
    prop_oneof![30 => value(), 1 => unnamed.prop_map(Value::Double)]
}

fn key() -> impl Strategy<Value = &'static str> {
    select(&KEYS[..])
}

/// Entities of one table, in no order, and how many of them are flushed before the others come.
pub(super) fn entities() -> impl Strategy<Value = (Vec<Entity>, usize)> {
    let properties = btree_map(select(&NAMES[..]), stored(), 0..=NAMES.len());
    // Few partitions, so that they have several entities.
    let keys = (key(), any::<Index>());
    let table = (vec(key(), 1..5), vec((keys, properties), 0..ENTITIES));
    let table = table.prop_map(|(partitions, rows)| {
        let mut table = BTreeMap::new();
        for ((row_key, partition), properties) in rows {
            table.insert((*partition.get(&partitions), row_key), properties);
        }
        let entity =
            |((partition_key, row_key), properties): ((&str, &str), BTreeMap<_, _>)| Entity {
                partition_key: partition_key.into(),
                row_key: row_key.into(),
                properties: properties.into_iter().collect(),
                timestamp: String::new(),
                etag: String::new(),
            };
        table.into_iter().map(entity).collect::<Vec<_>>()
    });
    (table.prop_shuffle(), prop_oneof![Just(ENTITIES), 0..ENTITIES])
}

pub(super) fn queries() -> impl Strategy<Value = Vec<Query>> {
    let top = option::of(prop_oneof![1..6usize, Just(1_000)]);
    let names = option::weighted(0.3, subsequence(&SELECTED[..], 1..=SELECTED.len()));
    let query = (option::weighted(0.95, filter()), top, names)
        .prop_map(|(filter, top, select)| Query { filter, top, select });
    vec(query, 1..=QUERIES)
}

fn operator() -> impl Strategy<Value = Operator> {
    use Operator::*;
    select(&[Eq, Ne, Lt, Le, Gt, Ge][..])
}

/// A condition on one key or property.
fn comparison() -> impl Strategy<Value = Expression> {
    let keyed = (select(&["PartitionKey", "RowKey"][..]), key());
    let sides = prop_oneof![
        6 => keyed.prop_map(|(name, key)| (name, Value::String(key.into()))),
        7 => (select(&NAMES[..]), value()),
        1 => (select(&["PartitionKey", "RowKey", "Timestamp", "Missing"][..]), value()),
    ];
    (sides, operator(), any::<bool>()).prop_map(|((name, value), operator, mirrored)| {
        Expression::Compare { name, operator, value, mirrored }
    })
}

/// What is planned as a point or a range: a partition, and perhaps bounds on its rows.
fn planned() -> impl Strategy<Value = Expression> {
    let equal = |name, key: &str| Expression::Compare {
        name,
        operator: Operator::Eq,
        value: Value::String(key.into()),
        mirrored: false,
    };
    let bounds = vec((operator(), key()), 0..3);
    (key(), bounds).prop_map(move |(partition, bounds)| {
        let mut all = vec![equal("PartitionKey", partition)];
        all.extend(bounds.into_iter().map(|(operator, key)| {
            let value = Value::String(key.into());
            Expression::Compare { name: "RowKey", operator, value, mirrored: false }
        }));
        Expression::And(all)
    })
}

fn filter() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        12 => comparison(),
        3 => planned(),
        1 => select(&NAMES[..]).prop_map(Expression::Bare),
        1 => any::<bool>().prop_map(Expression::Constant),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            4 => vec(inner.clone(), 2..5).prop_map(Expression::And),
            4 => vec(inner.clone(), 2..5).prop_map(Expression::Or),
            2 => inner.clone().prop_map(|it| Expression::Not(Box::new(it))),
            1 => inner.prop_map(|it| Expression::Within(Box::new(it))),
        ]
    })
}
