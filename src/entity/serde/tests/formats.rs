//! Values, entities and what queries are made of, in every format of serde.

use super::*;
use crate::{Continuation, Filter};

/// What comes back of a value through a text, through a tree of JSON, and through a binary format.
fn through_formats<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> [T; 3] {
    let text = serde_json::to_string(value).unwrap();
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    [
        serde_json::from_str(&text).unwrap(),
        serde_json::from_value(serde_json::to_value(value).unwrap()).unwrap(),
        ciborium::from_reader(&bytes[..]).unwrap(),
    ]
}

/// One of each type at its ends.
fn values() -> Vec<Value> {
    let doubles = [0.1, -0.0, 5.0, f64::MIN, f64::MIN_POSITIVE, 5e-324, f64::NAN, f64::INFINITY];
    let mut values = vec![
        "".into(),
        "NaN".into(),
        "\u{0}\u{1F600}\"".into(),
        Value::Binary(Vec::new()),
        Value::Binary((0..=255).collect()),
        true.into(),
        false.into(),
        DateTime::MIN.into(),
        DateTime::MAX.into(),
        Guid::from_bytes([0xAB; 16]).into(),
        i32::MIN.into(),
        i32::MAX.into(),
        i64::MIN.into(),
        i64::MAX.into(),
        f64::NEG_INFINITY.into(),
    ];
    values.extend(doubles.map(Value::from));
    values
}

/// Equal to the bit; a NaN is one.
fn assert_same(one: &Value, other: &Value) {
    match (one, other) {
        (Value::Double(one), Value::Double(other)) => assert_eq!(one.to_bits(), other.to_bits()),
        _ => assert_eq!(one, other),
    }
}

/// R-D01: also where a format has fewer types, or no number that is large enough.
#[test]
fn r_d01_a_value_is_read_as_it_was_written_in_every_format() {
    for value in values() {
        through_formats(&value).iter().for_each(|read| assert_same(&value, read));
    }
    let text = |value: Value| serde_json::to_string(&value).unwrap();
    assert_eq!(text(i64::MAX.into()), r#"{"Int64":"9223372036854775807"}"#);
    assert_eq!(text(0.1.into()), r#"{"Double":"0.1"}"#);
    assert_eq!(text(f64::NAN.into()), r#"{"Double":"NaN"}"#);
    assert_eq!(text(DateTime::MIN.into()), r#"{"DateTime":"1601-01-01T00:00:00Z"}"#);
    for wrong in [
        r#"5"#,
        r#"{"Int16":5}"#,
        r#"{"Int32":2147483648}"#,
        r#"{"Int64":5}"#,
        r#"{"Double":"five"}"#,
        r#"{"Binary":"0"}"#,
        r#"{"Binary":"0g"}"#,
        r#"{"Guid":"7"}"#,
    ] {
        assert!(serde_json::from_str::<Value>(wrong).is_err(), "{wrong}");
    }
}

/// R-D08: with its version, and its properties in their order.
#[test]
fn r_d08_an_entity_is_read_as_it_was_written_in_every_format() {
    let equal = values().into_iter().filter(|it| !matches!(it, Value::Double(x) if x.is_nan()));
    let named = (10..).zip(equal).map(|(number, value)| (format!("P{number}"), value)).collect();
    let made = Entity::from_properties("\0", "名", named);
    let read = made.clone().at_version(Version::from_ticks(i64::MAX as u64));
    for entity in [made, read, Entity::new("", "")] {
        assert_eq!(through_formats(&entity), [(); 3].map(|()| entity.clone()));
    }
    let twice = r#"{"PartitionKey":"p","RowKey":"r","Properties":{"B":{"Int32":1},"A":{"Int32":2},
        "Timestamp":{"Int32":3},"B":{"String":"b"}}}"#;
    let expected = Entity::new("p", "r").with("B", "b").with("A", 2);
    assert_eq!(serde_json::from_str::<Entity>(twice).unwrap(), expected);
    let unknown = r#"{"PartitionKey":"p","RowKey":"r","Properties":{},"ETag":""}"#;
    let error = serde_json::from_str::<Entity>(unknown).unwrap_err().to_string();
    assert!(error.contains("unknown field `ETag`"), "{error}");
}

/// R-D01: a struct may leave the type of a property to whoever fills it.
#[test]
fn r_d01_a_value_is_a_property_of_its_type() {
    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
    #[serde(rename_all = "PascalCase")]
    struct Reading {
        partition_key: String,
        row_key: String,
        value: Value,
        unit: Option<Value>,
    }
    for value in values() {
        let reading = Reading { partition_key: "p".into(), row_key: "r".into(), value, unit: None };
        let entity = Entity::from_serialize(&reading).unwrap();
        assert_same(entity.get("Value").unwrap(), &reading.value);
        assert_same(&entity.deserialize::<Reading>().unwrap().value, &reading.value);
    }
    let entity = Entity::new("p", "r").with("Value", 1).with("Unit", "m");
    assert_eq!(entity.deserialize::<Reading>().unwrap().unit, Some("m".into()));
    let all: BTreeMap<String, Value> = entity.deserialize().unwrap();
    let names: Vec<_> = all.keys().map(String::as_str).collect();
    assert_eq!(names, ["PartitionKey", "RowKey", "Unit", "Value"]);
    assert_eq!(all["Value"], Value::Int32(1));
}

/// R-E04, R-E12: in formats for people texts, of which every digit counts.
#[test]
fn r_e12_versions_continuations_and_filters_are_texts() {
    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
    #[serde(rename_all = "PascalCase")]
    struct Job {
        partition_key: String,
        row_key: String,
        seen: Version,
        next: Option<Continuation>,
        wanted: Filter,
    }
    let job = Job {
        partition_key: "p".into(),
        row_key: "r".into(),
        seen: Version::MAX,
        next: Some(Continuation::new("p", [0xFF])),
        wanted: "Age ge 18".parse().unwrap(),
    };
    assert_eq!(through_formats(&job), [(); 3].map(|()| job.clone()));
    assert_eq!(
        serde_json::to_value(&job).unwrap(),
        serde_json::json!({
            "PartitionKey": "p", "RowKey": "r",
            "Seen": "18446744073709551615", "Next": "70.ff", "Wanted": "Age ge 18",
        })
    );
    let entity = Entity::from_serialize(&job).unwrap();
    assert_eq!(entity.get_as("Seen"), Some("18446744073709551615"));
    assert_eq!(entity.deserialize::<Job>().unwrap(), job);
    assert!(serde_json::from_str::<Version>("128673484544838174").is_err(), "may be rounded");
    assert!(serde_json::from_str::<Continuation>(r#""70""#).is_err());
    assert!(serde_json::from_str::<Filter>(r#""Age ge""#).is_err());
    let other = Filter::property("B").eq(true);
    let deeper = |filter: Filter, _| !filter.or(other.clone());
    let nested = |levels| (0..levels).fold(job.wanted.clone(), deeper);
    assert!(serde_json::to_string(&nested(Filter::MAX_NESTING)).is_ok());
    let error = serde_json::to_string(&nested(Filter::MAX_NESTING + 1)).unwrap_err();
    assert!(error.to_string().contains("nest"), "what could not be read is not written: {error}");
}
