//! Entities and bodies made by chance, for the tests of every form.

use proptest::prelude::*;
use tablestone::{DateTime, Entity, Guid, Value};

/// A value; text is of this pattern.
fn value(text: &'static str) -> impl Strategy<Value = Value> {
    prop_oneof![
        text.prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..50).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|it| Value::from(it + 0.0)),
        prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e21, 5e-324, 0.1])
            .prop_map(Value::from),
        any::<[u8; 16]>().prop_map(|it| Value::from(Guid::from_bytes(it))),
        (0..=DateTime::MAX.ticks())
            .prop_map(|it| Value::from(DateTime::from_ticks(it).expect("in range"))),
    ]
}

/// An entity; keys and text are of this pattern.
pub(in crate::wire) fn entity(text: &'static str) -> impl Strategy<Value = Entity> {
    let properties = prop::collection::vec(("[A-Za-z_é][A-Za-z0-9_é]{0,8}", value(text)), 0..12);
    (text, text, properties).prop_map(|(partition, row, properties)| {
        let system = |name: &str| matches!(name, "PartitionKey" | "RowKey");
        let properties = properties.into_iter().filter(|(name, _)| !system(name));
        properties.fold(Entity::new(partition, row), |it, (name, value)| it.with(name, value))
    })
}

/// Text that is nearly JSON.
pub(super) fn nearly_json() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        4 => prop::sample::select(vec![
            "{", "}", "[", "]", ":", ",", "\"A\"", "\"B\"", "\"A@odata.type\"", "\"Edm.Int64\"",
            "\"odata.x\"", "1", "-0", "1.5", "1e9", "true", "null", "\"\\u00e9\"", "\"\\ud83d\\ude00\"",
            "\\", "\"", " ", "\"PartitionKey\"", "\"Timestamp\"",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(fragment, 0..24).prop_map(|parts| parts.concat())
}
