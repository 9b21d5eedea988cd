//! Structs of every shape, in and out.

mod formats;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entity::codec::encode;
use crate::{DateTime, ETag, Entity, EntityRef, Guid, SerdeError, Value, ValueRef, Version};

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
enum Colour {
    Red,
    #[serde(rename = "dark blue")]
    Blue,
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Metres(f64);

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(rename_all = "PascalCase")]
struct Everything {
    partition_key: String,
    row_key: String,
    flag: bool,
    tiny: i8,
    short: i16,
    int: i32,
    long: i64,
    byte: u8,
    word: u16,
    unsigned: u32,
    large: u64,
    single: f32,
    double: f64,
    letter: char,
    text: String,
    bytes: Vec<u8>,
    four: [u8; 4],
    when: DateTime,
    id: Guid,
    colour: Colour,
    length: Metres,
    some: Option<i32>,
    none: Option<i32>,
}

fn everything() -> Everything {
    Everything {
        partition_key: "p".into(),
        row_key: "r".into(),
        flag: true,
        tiny: i8::MIN,
        short: i16::MIN,
        int: i32::MIN,
        long: i64::MIN,
        byte: u8::MAX,
        word: u16::MAX,
        unsigned: u32::MAX,
        large: i64::MAX as u64,
        single: 0.1,
        double: -0.1,
        letter: '名',
        text: "text".into(),
        bytes: vec![0, 255],
        four: [1, 2, 3, 4],
        when: DateTime::MAX,
        id: Guid::from_bytes([0xAB; 16]),
        colour: Colour::Blue,
        length: Metres(1.5),
        some: Some(5),
        none: None,
    }
}

/// R-D01, R-D05: each Rust type has its type of property, and null is absence.
#[test]
fn r_d01_fields_become_properties_of_their_types() {
    let entity = Entity::from_serialize(&everything()).unwrap();
    let expected = Entity::new("p", "r")
        .with("Flag", true)
        .with("Tiny", -128)
        .with("Short", -32_768)
        .with("Int", i32::MIN)
        .with("Long", i64::MIN)
        .with("Byte", 255)
        .with("Word", 65_535)
        .with("Unsigned", 4_294_967_295i64)
        .with("Large", i64::MAX)
        .with("Single", f64::from(0.1f32))
        .with("Double", -0.1)
        .with("Letter", "名")
        .with("Text", "text")
        .with("Bytes", vec![0, 255])
        .with("Four", vec![1, 2, 3, 4])
        .with("When", DateTime::MAX)
        .with("Id", Guid::from_bytes([0xAB; 16]))
        .with("Colour", "dark blue")
        .with("Length", 1.5)
        .with("Some", 5);
    assert_eq!(entity, expected);
}

fn row_of(entity: &Entity) -> Vec<u8> {
    encode(entity).unwrap()
}

fn stored(row: &[u8]) -> EntityRef<'_> {
    EntityRef::new(b"p", b"r", Version::from_ticks(10_000_000), row).unwrap()
}

#[test]
fn a_struct_comes_back_from_an_entity_and_from_a_stored_one() {
    let entity = Entity::from_serialize(&everything()).unwrap();
    assert_eq!(entity.deserialize(), Ok(everything()));
    assert_eq!(stored(&row_of(&entity)).deserialize(), Ok(everything()));
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(rename_all = "PascalCase")]
struct Read<'a> {
    partition_key: &'a str,
    row_key: &'a str,
    text: &'a str,
    #[serde(rename = "ETag")]
    etag: Option<ETag>,
    timestamp: Option<DateTime>,
}

/// R-D02: Timestamp and ETag come from the version and are never stored; text is borrowed.
#[test]
fn r_d02_the_version_is_read_as_timestamp_and_etag() {
    let written = Read {
        partition_key: "p",
        row_key: "r",
        text: "text",
        etag: Some(ETag(Version::from_ticks(5))),
        timestamp: Some(DateTime::MAX),
    };
    let entity = Entity::from_serialize(&written).unwrap();
    assert_eq!(entity, Entity::new("p", "r").with("Text", "text"));
    let unread = Read { etag: None, timestamp: None, ..written };
    assert_eq!(entity.deserialize(), Ok(unread.clone()));

    let (version, row) = (Version::from_ticks(10_000_000), row_of(&entity));
    let read: Read<'_> = stored(&row).deserialize().unwrap();
    let timestamp = DateTime::from_ticks(10_000_000);
    assert_eq!(read, Read { etag: Some(ETag(version)), timestamp, ..unread });
    assert!(row.as_ptr_range().contains(&read.text.as_ptr()), "borrowed");

    // As texts.
    let read: BTreeMap<String, String> = stored(&row).deserialize().unwrap();
    assert_eq!(read["Timestamp"], "1601-01-01T00:00:01Z");
    assert_eq!(read["ETag"], "W/\"datetime'1601-01-01T00%3A00%3A01Z'\"");
    // A property that is called so, and is none of type ETag, is stored as any other.
    let other = BTreeMap::from([("PartitionKey", "p"), ("RowKey", "r"), ("ETag", "mine")]);
    let entity = Entity::from_serialize(&other).unwrap();
    assert_eq!(entity.get("ETag"), Some(&Value::from("mine")));
    assert_eq!(
        stored(&row_of(&entity)).deserialize::<BTreeMap<&str, String>>().unwrap()["ETag"],
        "mine"
    );
}

/// R-D02: who has no field for the tag, and writes back what was read, stores no tag either. It would hide the
/// one of the version from then on.
#[test]
fn r_d02_a_tag_that_was_read_as_text_is_not_stored() {
    let row = row_of(&Entity::new("p", "r").with("Text", "text"));
    let mut read: serde_json::Value = stored(&row).deserialize().unwrap();
    assert_eq!(read["ETag"], "W/\"datetime'1601-01-01T00%3A00%3A01Z'\"");
    read["Text"] = "other".into();
    let written = Entity::from_serialize(&read).unwrap();
    assert_eq!(written, Entity::new("p", "r").with("Text", "other"));
}

/// What is written as bytes is read as bytes, also by whoever looks at it before it knows for what.
#[test]
fn bytes_come_back_through_flattened_fields() {
    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
    struct Inner {
        #[serde(rename = "Data")]
        data: Vec<u8>,
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
    struct Outer {
        #[serde(rename = "PartitionKey")]
        partition: String,
        #[serde(rename = "RowKey")]
        row: String,
        #[serde(flatten)]
        inner: Inner,
    }
    let inner = Inner { data: vec![0, 7, 255] };
    let outer = Outer { partition: "p".into(), row: "r".into(), inner };
    let row = row_of(&Entity::from_serialize(&outer).unwrap());
    assert_eq!(stored(&row).get("Data").unwrap(), Some(ValueRef::Binary(&[0, 7, 255])));
    assert_eq!(stored(&row).deserialize(), Ok(outer));
    let read: serde_json::Value = stored(&row).deserialize().unwrap();
    assert_eq!(read["Data"], serde_json::json!([0, 7, 255]));
}

/// Maps, and fields that are flattened into the struct, are fields as any other.
#[test]
fn flattened_fields_are_properties() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Keys {
        #[serde(rename = "PartitionKey")]
        partition: String,
        #[serde(rename = "RowKey")]
        row: String,
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Outer {
        #[serde(flatten)]
        keys: Keys,
        #[serde(rename = "When")]
        when: DateTime,
        #[serde(rename = "Id")]
        id: Guid,
        #[serde(flatten)]
        rest: BTreeMap<String, i64>,
    }
    let outer = Outer {
        keys: Keys { partition: "p".into(), row: "r".into() },
        when: DateTime::MIN,
        id: Guid::default(),
        rest: BTreeMap::from([("A".into(), 1), ("B".into(), 2)]),
    };
    let entity = Entity::from_serialize(&outer).unwrap();
    let expected = Entity::new("p", "r").with("When", DateTime::MIN).with("Id", Guid::default());
    assert_eq!(entity, expected.with("A", 1i64).with("B", 2i64));
    assert_eq!(entity.deserialize(), Ok(outer));
}

#[test]
fn dates_guids_and_tags_are_text_in_json() {
    type Three = (DateTime, Guid, ETag);
    let three: Three = (DateTime::MAX, Guid::from_bytes([1; 16]), ETag(Version::ZERO));
    let text = "[\"9999-12-31T23:59:59.9999999Z\",\"01010101-0101-0101-0101-010101010101\",\
                \"W/\\\"datetime'1601-01-01T00%3A00%3A00Z'\\\"\"]";
    assert_eq!(serde_json::to_string(&three).unwrap(), text);
    assert_eq!(serde_json::from_str::<Three>(text).unwrap(), three);
    for bad in ["5", "\"2008-13-01\"", "null", "[]"] {
        assert!(serde_json::from_str::<DateTime>(bad).is_err());
        assert!(serde_json::from_str::<Guid>(bad).is_err());
        assert!(serde_json::from_str::<ETag>(bad).is_err());
    }
    let error = serde_json::from_str::<DateTime>("\"2008-13-01\"").unwrap_err();
    assert!(error.to_string().contains("a month from 01 to 12 at column 6"), "{error}");
}

/// One field `F` beside the keys.
#[derive(Serialize)]
struct One<T> {
    #[serde(rename = "PartitionKey")]
    partition: &'static str,
    #[serde(rename = "RowKey")]
    row: &'static str,
    #[serde(rename = "F")]
    field: T,
}

fn refused<T: Serialize>(field: T) -> String {
    let error = Entity::from_serialize(&One { partition: "p", row: "r", field }).unwrap_err();
    assert_eq!(error.field(), Some("F"));
    error.to_string()
}

#[test]
fn what_cannot_be_a_property_is_refused_by_the_name_of_its_field() {
    #[derive(Serialize)]
    struct Empty;
    #[derive(Serialize)]
    struct Pair(i32, i32);
    #[derive(Serialize)]
    enum Shape {
        Circle(f64),
        Square { side: f64 },
        Line(f64, f64),
    }
    let cannot = |shape: &str| format!("field \"F\": {shape} cannot be a property");
    let sequence = cannot("a sequence of anything but bytes");
    assert_eq!(refused(vec![1i32]), sequence);
    assert_eq!(refused(vec![1u16]), sequence);
    assert_eq!(refused(vec![vec![1u8]]), sequence);
    assert_eq!(refused((1u8, "text")), sequence);
    assert_eq!(refused(Some(["text"])), sequence);
    assert_eq!(refused(Empty), cannot("a struct without fields"));
    assert_eq!(refused(Pair(1, 2)), cannot("a tuple"));
    assert_eq!(refused(One { partition: "", row: "", field: 1 }), cannot("a struct"));
    assert_eq!(refused(BTreeMap::from([("a", 1)])), cannot("a map"));
    let variant = cannot("an enum's variant with fields");
    assert_eq!(refused(Shape::Circle(1.0)), variant);
    assert_eq!(refused(Shape::Square { side: 1.0 }), variant);
    assert_eq!(refused(Shape::Line(1.0, 2.0)), variant);
    assert_eq!(refused(1u64 << 63), "field \"F\": 9223372036854775808 does not fit an Int64");
    assert_eq!(refused(1i128), "field \"F\": i128 is not supported");
}

#[test]
fn what_is_no_struct_with_keys_is_refused() {
    let error = |result: Result<Entity, SerdeError>| result.unwrap_err().to_string();
    let not = |shape: &str| {
        format!("an entity is made of a struct or of a map with names for keys, not of {shape}")
    };
    assert_eq!(error(Entity::from_serialize("text")), not("a single value"));
    assert_eq!(error(Entity::from_serialize(&None::<i32>)), not("a single value"));
    assert_eq!(error(Entity::from_serialize(&[1])), not("a sequence of anything but bytes"));
    assert_eq!(
        error(Entity::from_serialize(&BTreeMap::from([(1, 1)]))),
        not("a map with other keys")
    );
    let with = |pairs: &[(&'static str, Option<&'static str>)]| {
        Entity::from_serialize(&pairs.iter().copied().collect::<BTreeMap<_, _>>())
    };
    assert_eq!(with(&[("RowKey", Some("r"))]), Err(SerdeError::KeyMissing("PartitionKey")));
    let null = with(&[("PartitionKey", Some("p")), ("RowKey", None)]);
    assert_eq!(null, Err(SerdeError::KeyMissing("RowKey")));
    let number = BTreeMap::from([("PartitionKey", 1), ("RowKey", 2)]);
    assert_eq!(Entity::from_serialize(&number), Err(SerdeError::KeyNotText("PartitionKey")));
    #[derive(Serialize)]
    struct Twice {
        #[serde(rename = "A")]
        a: i32,
        #[serde(flatten)]
        rest: BTreeMap<&'static str, i32>,
    }
    let twice = Entity::from_serialize(&Twice { a: 1, rest: BTreeMap::from([("A", 2)]) });
    assert_eq!(twice, Err(SerdeError::Duplicate { field: "A".into() }));
}

fn back<T: for<'a> Deserialize<'a>>(value: impl Into<Value>) -> Result<T, SerdeError> {
    let entity = Entity::new("p", "r").with("F", value.into());
    #[derive(Deserialize)]
    struct Field<T> {
        #[serde(rename = "F")]
        field: T,
    }
    Ok(entity.deserialize::<Field<T>>()?.field)
}

/// A number is read as another type exactly, or not at all.
#[test]
fn numbers_are_read_as_what_holds_them() {
    assert_eq!(back::<i64>(5), Ok(5));
    assert_eq!(back::<u8>(255), Ok(255));
    assert_eq!(back::<u64>(i64::MAX), Ok(i64::MAX as u64));
    assert_eq!(back::<i32>(5i64), Ok(5));
    assert_eq!(back::<f64>(i32::MIN), Ok(-2_147_483_648.0));
    assert_eq!(back::<f64>(1i64 << 53), Ok(9_007_199_254_740_992.0));
    assert_eq!(back::<f32>(0.5), Ok(0.5));
    assert_eq!(back::<f32>(f64::INFINITY), Ok(f32::INFINITY));
    assert!(back::<f32>(f64::NAN).unwrap().is_nan());
    let mismatch = |error: SerdeError| {
        assert!(matches!(error, SerdeError::Mismatch { .. }));
        assert_eq!(error.field(), Some("F"), "{error}");
        error.to_string()
    };
    mismatch(back::<u8>(256).unwrap_err());
    mismatch(back::<u32>(-1).unwrap_err());
    mismatch(back::<i32>(1i64 << 31).unwrap_err());
    mismatch(back::<f64>((1i64 << 53) + 1).unwrap_err());
    mismatch(back::<f32>(0.1).unwrap_err());
    mismatch(back::<f32>((1 << 24) + 1).unwrap_err());
    mismatch(back::<i32>(5.0).unwrap_err());
    assert_eq!(
        mismatch(back::<bool>("true").unwrap_err()),
        "field \"F\": invalid type: string \"true\", expected a boolean"
    );
}

#[test]
fn texts_bytes_and_variants_are_read_as_what_they_are() {
    assert_eq!(back::<String>(DateTime::MIN), Ok("1601-01-01T00:00:00Z".into()));
    assert_eq!(back::<String>(Guid::default()), Ok(Guid::default().to_string()));
    assert_eq!(back::<DateTime>("1601-01-01T00:00:00Z"), Ok(DateTime::MIN));
    assert_eq!(back::<Guid>(Guid::default().to_string()), Ok(Guid::default()));
    assert_eq!(back::<Option<Option<u8>>>(1), Ok(Some(Some(1))));
    assert_eq!(back::<Colour>("Red"), Ok(Colour::Red));
    for error in [
        back::<Colour>("Green").map(drop),
        back::<Colour>(1).map(drop),
        back::<DateTime>(5i64).map(drop),
        back::<DateTime>("yesterday").map(drop),
        back::<Guid>(b"0123456789abcdef").map(drop),
        back::<[u8; 4]>(b"12345").map(drop),
        back::<[u8; 4]>(b"123").map(drop),
        back::<Vec<u8>>("text").map(drop),
        back::<BTreeMap<String, i32>>("text").map(drop),
        back::<()>(1).map(drop),
    ] {
        assert_eq!(error.unwrap_err().field(), Some("F"));
    }
    // A field that is absent is only right for what has a default or is an Option.
    #[derive(Deserialize, Debug, PartialEq)]
    struct Absent {
        #[serde(default)]
        number: i32,
        option: Option<i32>,
    }
    assert_eq!(Entity::new("", "").deserialize(), Ok(Absent { number: 0, option: None }));
    #[derive(Deserialize, Debug)]
    struct Needed {
        #[expect(dead_code, reason = "it is never there")]
        number: i32,
    }
    let error = Entity::new("", "").deserialize::<Needed>().unwrap_err();
    assert_eq!(error.to_string(), "missing field `number`");
}

#[test]
fn damage_is_told_and_not_read_over() {
    let mut row = row_of(&Entity::new("p", "r").with("F", "text"));
    *row.last_mut().unwrap() = 0xFF;
    let error = stored(&row).deserialize::<BTreeMap<String, String>>().unwrap_err();
    assert!(matches!(error, SerdeError::Row(_)), "{error}");
}
