//! Entities for property tests: any of them, with names and values that collide and reach limits.

use proptest::prelude::*;

use super::{DateTime, Entity, Guid, Value};

/// Names of which two entities have some in common.
pub(crate) fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[A-D]",
        2 => "[a-zA-Z_][a-zA-Z0-9_]{0,20}",
        1 => "[\u{e4}\u{540d}\u{1d4b3}][a-z\u{e4}\u{540d}\u{1d4b3}]{0,4}",
    ]
}

pub(crate) fn date_times() -> impl Strategy<Value = DateTime> {
    let edges = prop_oneof![Just(0), Just(DateTime::MAX.ticks())];
    prop_oneof![edges, 0..=DateTime::MAX.ticks()]
        .prop_map(|ticks| DateTime::from_ticks(ticks).unwrap())
}

/// Values of every type. NaN is left out, because it equals nothing.
pub(crate) fn values() -> impl Strategy<Value = Value> {
    let numbers = any::<f64>().prop_filter("NaN", |value| !value.is_nan());
    prop_oneof![
        ".{0,12}".prop_map(Value::String),
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(Value::Binary),
        any::<bool>().prop_map(Value::Boolean),
        date_times().prop_map(Value::DateTime),
        numbers.prop_map(Value::Double),
        any::<[u8; 16]>().prop_map(|bytes| Value::Guid(Guid::from_bytes(bytes))),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        // So long that a few make offsets wide.
        (0usize..30_000).prop_map(|len| Value::Binary(vec![7; len])),
    ]
}

/// An entity ("p", "r") of up to `most` properties.
pub(crate) fn entities(most: usize) -> impl Strategy<Value = Entity> {
    proptest::collection::vec((names(), values()), 0..=most).prop_map(|properties| {
        let set = |entity: Entity, (name, value)| entity.with(name, value);
        properties.into_iter().fold(Entity::new("p", "r"), set)
    })
}

/// What a merge makes of two entities, by its words: absent properties stay, others are replaced
/// (R-D09).
pub(crate) fn merged(old: &Entity, patch: &Entity) -> Entity {
    let mut merged = old.clone();
    for (name, value) in patch.properties() {
        merged.set(name, value.clone());
    }
    merged
}
