//! Entities and filters at random, over few names, keys and values, so that they meet.

use proptest::prelude::*;

use crate::entity::filter::expr::{Node, Operator, is_comparable};
use crate::entity::filter::{Filter, lex};
use crate::entity::{DateTime, Entity, Guid, Value};
use crate::version::Version;

/// Names that properties have, some of them words of the language.
const NAMES: [&str; 8] = ["A", "a", "Größe", "名前", "not", "NaN", "True", "_1"];
/// Neighbours in the order of keys: a key and the first one after it among them, characters that
/// UTF-16 orders otherwise, and no key at all.
const KEYS: [&str; 9] = ["", "\0", "a", "a\0", "a\0\0", "ab", "b", "\u{E000}", "\u{10000}"];

pub(super) fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&KEYS[..])
}

/// Values of all types around the edges where types and orders meet.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let integers = [i64::MIN, i64::from(i32::MIN) - 1, -1, 0, 1, 1 << 31, (1 << 53) + 1, i64::MAX];
    let doubles = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN,
        -1.0,
        -0.0,
        0.0,
        5e-324,
        0.5,
        1.0,
        2_147_483_648.0,
        9_007_199_254_740_992.0,
        9_223_372_036_854_775_808.0,
        f64::MAX,
    ];
    let ticks = [0, 1, 5, 128_673_484_544_838_174, DateTime::MAX.ticks()];
    let texts = ["", "a", "it''s", "'", "Ä", "\u{FFFD}", "\u{10000}", "true", "1"];
    prop_oneof![
        prop::sample::select(vec![i32::MIN, -1, 0, 1, 2, i32::MAX]).prop_map(Value::Int32),
        prop::sample::select(integers.to_vec()).prop_map(Value::Int64),
        prop::sample::select(doubles.to_vec()).prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        prop::sample::select(ticks.to_vec())
            .prop_map(|ticks| Value::DateTime(DateTime::from_ticks(ticks).unwrap())),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        prop::collection::vec(prop::sample::select(vec![0, 1, 255]), 0..3).prop_map(Value::Binary),
        prop::sample::select(vec![0, 1, 255]).prop_map(|byte| Value::Guid(Guid::from_bytes(
            [0, 1, 2, byte].repeat(4).try_into().unwrap()
        ))),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>().prop_map(Value::Double),
        any::<String>().prop_map(Value::String),
    ]
}

pub(super) fn entity() -> impl Strategy<Value = Entity> {
    let properties = prop::collection::vec((prop::sample::select(&NAMES[..]), value()), 0..6);
    (key(), key(), properties).prop_map(|(partition_key, row_key, properties)| {
        let with = |entity: Entity, (name, value): (&str, Value)| entity.with(name, value);
        properties.into_iter().fold(Entity::new(partition_key, row_key), with)
    })
}

pub(super) fn version() -> impl Strategy<Value = Version> {
    prop::sample::select(vec![0, 5, 128_673_484_544_838_174, u64::MAX])
        .prop_map(Version::from_ticks)
}

fn compare(name: &'static str, operator: Operator, constant: Value) -> Filter {
    assert!(is_comparable(name));
    Filter { nodes: vec![Node::compare(name, operator, constant)] }
}

fn operator() -> impl Strategy<Value = Operator> {
    prop::sample::select(&Operator::ALL[..])
}

/// A comparison with a key; sometimes with something that is no String.
pub(super) fn key_condition() -> impl Strategy<Value = Filter> {
    let name = prop::sample::select(vec!["PartitionKey", "RowKey"]);
    let constant = prop_oneof![8 => key().prop_map(Value::from), 1 => value()];
    (name, operator(), constant).prop_map(|(name, operator, key)| compare(name, operator, key))
}

fn property_condition() -> impl Strategy<Value = Filter> {
    let name = prop_oneof![6 => prop::sample::select(&NAMES[..]), 1 => Just("Timestamp")];
    (name, operator(), value()).prop_map(|(name, operator, value)| compare(name, operator, value))
}

pub(super) fn condition() -> impl Strategy<Value = Filter> {
    prop_oneof![
        6 => property_condition(),
        4 => key_condition(),
        1 => any::<bool>()
            .prop_map(|value| if value { Filter::everything() } else { Filter::nothing() }),
    ]
}

/// Any expression of such conditions.
pub(super) fn expression(
    condition: impl Strategy<Value = Filter> + 'static,
) -> impl Strategy<Value = Filter> {
    condition.prop_recursive(5, 24, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 2..5);
        prop_oneof![
            list().prop_map(|list| list.into_iter().reduce(Filter::and).unwrap()),
            list().prop_map(|list| list.into_iter().reduce(Filter::or).unwrap()),
            inner.prop_map(|filter| !filter),
        ]
    })
}

pub(super) fn filter() -> impl Strategy<Value = Filter> {
    expression(condition())
}

#[test]
fn some_names_are_reserved_and_all_are_valid() {
    assert!(NAMES.iter().any(|name| lex::is_reserved(name)));
    assert!(NAMES.iter().all(|name| is_comparable(name)));
}
