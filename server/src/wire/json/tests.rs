//! Bodies of writes: every type in every form, what is passed over, what is refused (R-S04).

use proptest::prelude::*;
use serde_json::json;
use tablestone::{DateTime, Guid, Value};

use super::tests_support::nearly_json;
use super::*;
use crate::error::{ErrorCode, ServiceError};

fn properties(body: &str) -> Vec<(String, Value)> {
    match decode_entity(body.as_bytes()) {
        Ok(entity) => entity.owned_properties(),
        Err(error) => panic!("{body}: {error}"),
    }
}

/// The one property of a body.
fn value(members: &str) -> Value {
    let mut properties = properties(&format!("{{{members}}}"));
    assert_eq!(properties.len(), 1, "{members}");
    assert_eq!(properties[0].0, "A");
    properties.remove(0).1
}

fn annotated(value_type: &str, raw: &str) -> Value {
    let after = value(&format!(r#""A":{raw},"A@odata.type":"Edm.{value_type}""#));
    let before = value(&format!(r#""A@odata.type":"Edm.{value_type}","A":{raw}"#));
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    before
}

fn code(body: &str) -> ErrorCode {
    match decode_entity(body.as_bytes()) {
        Ok(entity) => panic!("{body}: {entity:?}"),
        Err(error) => ServiceError::from(error).code(),
    }
}

/// Protocol 3: the type is what the form shows; whole numbers beyond Int32 are Doubles.
#[test]
fn types_by_form() {
    for (raw, expected) in [
        ("\"5\"", Value::from("5")),
        ("true", Value::from(true)),
        ("false", Value::from(false)),
        ("5", Value::Int32(5)),
        ("-0", Value::Int32(0)),
        ("2147483647", Value::Int32(i32::MAX)),
        ("-2147483648", Value::Int32(i32::MIN)),
        ("2147483648", Value::Double(2_147_483_648.0)),
        ("-2147483649", Value::Double(-2_147_483_649.0)),
        ("123456789012345678901234567890", Value::Double(1.234_567_890_123_456_8e29)),
        ("5.0", Value::Double(5.0)),
        ("5e0", Value::Double(5.0)),
        ("1E+2", Value::Double(100.0)),
        ("-1.5e-3", Value::Double(-0.0015)),
        ("1.7976931348623157e308", Value::Double(f64::MAX)),
        ("\"2008-10-01T15:27:34Z\"", Value::from("2008-10-01T15:27:34Z")),
    ] {
        assert_eq!(value(&format!(r#""A":{raw}"#)), expected, "{raw}");
    }
}

/// Protocol 3: the type is what the annotation says, wherever it stands.
#[test]
fn types_by_annotation() {
    let id = Guid::from_bytes(*b"\xc9\xda\x64\x55\x21\x3d\x42\xc9\x9a\x79\x3e\x91\x49\xa5\x78\x33");
    let date: DateTime = "2008-10-01T15:27:34.4838174Z".parse().expect("a date");
    for (value_type, raw, expected) in [
        ("String", "\"5\"", Value::from("5")),
        ("Int32", "5", Value::Int32(5)),
        ("Int32", "\"5\"", Value::Int32(5)),
        ("Int64", "\"-9223372036854775808\"", Value::Int64(i64::MIN)),
        ("Int64", "\"9223372036854775807\"", Value::Int64(i64::MAX)),
        ("Int64", "9007199254740993", Value::Int64(9_007_199_254_740_993)),
        ("Double", "5", Value::Double(5.0)),
        ("Double", "5.5", Value::Double(5.5)),
        ("Double", "\"5.5\"", Value::Double(5.5)),
        ("Double", "\"Infinity\"", Value::Double(f64::INFINITY)),
        ("Double", "\"-Infinity\"", Value::Double(f64::NEG_INFINITY)),
        ("Boolean", "true", Value::from(true)),
        ("Boolean", "\"True\"", Value::from(true)),
        ("DateTime", "\"2008-10-01T15:27:34.4838174Z\"", Value::DateTime(date)),
        ("DateTime", "\"2008-10-01T17:27:34.4838174+02:00\"", Value::DateTime(date)),
        ("DateTime", "\"2008-10-01T15:27:34.4838174\"", Value::DateTime(date)),
        ("Guid", "\"C9DA6455-213d-42c9-9a79-3e9149a57833\"", Value::Guid(id)),
        ("Binary", "\"AQID\"", Value::from(b"\x01\x02\x03")),
        ("Binary", "\"AQ\\r\\nI=\"", Value::from(b"\x01\x02")),
        ("Binary", "\"\"", Value::from(b"")),
    ] {
        assert_eq!(annotated(value_type, raw), expected, "{value_type} {raw}");
    }
    // Minus zero is zero, and there is one NaN (protocol 3).
    let Value::Double(nan) = annotated("Double", "\"NaN\"") else { panic!("a Double") };
    assert!(nan.is_nan() && nan.is_sign_positive());
    for zero in [annotated("Double", "-0"), value("\"A\":-0.0")] {
        assert!(matches!(zero, Value::Double(zero) if zero.is_sign_positive()));
    }
}

/// Protocol 3: a value that is not of its type is 400, a date before 1601 out of range.
#[test]
fn values_that_are_not_of_their_type() {
    for (value_type, raw) in [
        ("Int64", "\"9223372036854775808\""),
        ("Int64", "\"five\""),
        ("Int64", "\"\""),
        ("Int64", "5.0"),
        ("Int64", "true"),
        ("Int32", "2147483648"),
        ("Int32", "\"x\""),
        ("Double", "\"inf\""),
        ("Double", "\"1e999\""),
        ("Double", "1e999"),
        ("Double", "\"\""),
        ("Boolean", "1"),
        ("Boolean", "\"yes\""),
        ("String", "5"),
        ("String", "true"),
        ("DateTime", "\"yesterday\""),
        ("DateTime", "5"),
        ("Guid", "\"5\""),
        ("Binary", "\"A\""),
        ("Binary", "\"AQI\""),
        ("Binary", "\"_-_-\""),
        ("Float", "5"),
        ("DateTimeOffset", "\"2008-10-01T15:27:34Z\""),
    ] {
        let body = format!(r#"{{"A@odata.type":"Edm.{value_type}","A":{raw}}}"#);
        assert_eq!(code(&body), ErrorCode::InvalidInput, "{body}");
    }
    for early in ["1600-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00Z"] {
        let body = format!(r#"{{"A@odata.type":"Edm.DateTime","A":"{early}"}}"#);
        assert_eq!(code(&body), ErrorCode::OutOfRangeInput);
    }
    assert_eq!(code(r#"{"A":1e999}"#), ErrorCode::InvalidInput);
}

/// R-S05: of some mistakes the service has texts of its own; others are told with their place.
#[test]
fn r_s05_texts_are_the_services() {
    let text = |body: &str| {
        let error = decode_entity(body.as_bytes()).expect_err(body);
        ServiceError::from(error).message().to_owned()
    };
    for (date, shown) in [
        ("0001-01-01T00:00:00Z", "01/01/0001 00:00:00"),
        ("1600-12-31T23:58:59.9999999Z", "12/31/1600 23:58:59"),
        ("1600-12-31T23:58", "12/31/1600 23:58:00"),
        ("1600-02-03", "02/03/1600 00:00:00"),
    ] {
        let body =
            format!(r#"{{"DateTimeProp@odata.type":"Edm.DateTime","DateTimeProp":"{date}"}}"#);
        let expected = format!("The 'DateTimeProp' parameter of value '{shown}' is out of range.");
        assert_eq!(text(&body), expected);
    }
    for number in ["\"9223372036854775808\"", "\"-9223372036854775809\"", "9223372036854775808"] {
        let body = format!(r#"{{"A@odata.type":"Edm.Int64","A":{number}}}"#);
        assert_eq!(text(&body), "An error occurred while processing this request.");
    }
    for body in [r#"{"PartitionKey":5}"#, r#"{"RowKey":true}"#, r#"{"RowKey":{}}"#] {
        assert_eq!(text(body), "One of the request inputs is not valid.", "{body}");
    }
    for (value_type, value, place) in [
        ("DateTime", "0001-01-01T00:00:00+01:00", 31),
        ("DateTime", "10000-01-01T00:00:00Z", 31),
        ("DateTime", "yesterday", 31),
        ("Int64", "five", 28),
    ] {
        let body = format!(r#"{{"A@odata.type":"Edm.{value_type}","A":"{value}"}}"#);
        let found = text(&body);
        assert!(
            found.starts_with(&format!("byte {place} of the JSON: property \"A\": ")),
            "{found}"
        );
    }
}

/// R-S04: each escape that JSON has, and a surrogate pair in two of them, next to plain text.
#[test]
fn r_s04_escapes() {
    for (escape, expected) in [
        ("\\\"", "\""),
        ("\\\\", "\\"),
        ("\\/", "/"),
        ("\\b", "\u{8}"),
        ("\\f", "\u{c}"),
        ("\\n", "\n"),
        ("\\r", "\r"),
        ("\\t", "\t"),
        ("\\u00e9", "é"),
        ("\\u0000", "\0"),
        ("\\ud83d\\ude00", "😀"),
        ("\\uD83D\\uDE00\\ud7ff", "😀\u{d7ff}"),
    ] {
        let found = value(&format!(r#""A":"a{escape}z""#));
        assert_eq!(found, Value::from(format!("a{expected}z")), "{escape}");
    }
}

/// Protocol 3: null is absence, with any annotation.
#[test]
fn nulls() {
    assert!(properties(r#"{"A":null,"B@odata.type":"Edm.Int64","B":null}"#).is_empty());
    assert!(properties(r#"{"A":null,"A@odata.type":"Edm.Guid"}"#).is_empty());
    assert!(properties(r#"{"A@odata.type":"Edm.Guid"}"#).is_empty());
}

/// Protocol 3: the client's Timestamp, `odata.` members and annotations of keys are passed over.
#[test]
fn what_is_passed_over() {
    let body = json!({
        "odata.metadata": "https://a/$metadata#T", "odata.etag": "x", "odata.type": {"a": [1, {}]},
        "odata.deep": [[], [[1, "}", {"b": null, "c": {"d": []}}], true]],
        "PartitionKey@odata.type": "Edm.String", "PartitionKey": "p",
        "RowKey": "r", "RowKey@odata.type": "Edm.String",
        "Timestamp@odata.type": "Edm.DateTime", "Timestamp": "never",
        "A@odata.navigationLinkUrl": "x", "A": 1,
    });
    let body = body.to_string();
    let entity = decode_entity(body.as_bytes()).expect("an entity");
    assert_eq!(entity.partition_key.as_deref(), Some("p"));
    assert_eq!(entity.row_key.as_deref(), Some("r"));
    assert_eq!(entity.owned_properties(), [("A".to_owned(), Value::Int32(1))]);
    assert!(properties(r#" {"Timestamp":{"a":1}} "#).is_empty());
    assert!(properties("\u{feff}{}").is_empty());
    // What is no annotation is a name, which the engine will refuse.
    assert_eq!(properties(r#"{"A@b":1}"#)[0].0, "A@b");
}

/// Protocol 3, 5: members twice, keys that are no strings, keys that are missing.
#[test]
fn keys_and_duplicates() {
    for duplicate in [
        r#"{"A":1,"A":1}"#,
        r#"{"A":1,"B":2,"A":null}"#,
        r#"{"A":1,"\u0041":1}"#,
        r#"{"RowKey":"a","RowKey":"a"}"#,
        r#"{"PartitionKey":null,"PartitionKey":"a"}"#,
        r#"{"A@odata.type":"Edm.Int32","A@odata.type":"Edm.Int32","A":1}"#,
        r#"{"Timestamp":null,"A":1,"Timestamp":{}}"#,
        r#"{"Timestamp@odata.type":"Edm.DateTime","Timestamp@odata.type":"Edm.DateTime"}"#,
        r#"{"PartitionKey@odata.type":"Edm.String","\u0050artitionKey@odata.type":"Edm.String"}"#,
        r#"{"RowKey@odata.type":"Edm.String","RowKey":"","RowKey@odata.type":"Edm.String"}"#,
    ] {
        assert_eq!(code(duplicate), ErrorCode::DuplicatePropertiesSpecified, "{duplicate}");
    }
    assert_eq!(properties(r#"{"A":1,"a":1}"#).len(), 2);
    for wrong in [
        r#"{"PartitionKey":5}"#,
        r#"{"RowKey":true}"#,
        r#"{"RowKey":[]}"#,
        r#"{"RowKey@odata.type":"Edm.Int32","RowKey":5}"#,
        r#"{"RowKey@odata.type":"Edm.Boolean","RowKey":true}"#,
        r#"{"RowKey@odata.type":"Edm.Nothing","RowKey":"5"}"#,
        r#"{"RowKey@odata.type":5,"RowKey":"5"}"#,
        r#"{"A@odata.type":5,"A":"5"}"#,
        r#"{"A":{}}"#,
        r#"{"A":[1]}"#,
    ] {
        assert_eq!(code(wrong), ErrorCode::InvalidInput, "{wrong}");
    }
    for missing in [r"{}", r#"{"PartitionKey":"p"}"#, r#"{"PartitionKey":"p","RowKey":null}"#] {
        let body = decode_entity(missing.as_bytes()).expect("a body");
        let error = body.with_own_keys().expect_err("no keys");
        assert_eq!(error.code(), ErrorCode::PropertiesNeedValue);
    }
    let body = decode_entity(br#"{"PartitionKey":"x","A":1}"#).expect("a body");
    let entity = body.with_keys("p".to_owned(), "r".to_owned());
    assert_eq!((entity.partition_key(), entity.row_key()), ("p", "r"));
}

/// Protocol 3: a key is the text that it is, whatever type is stated; of an insert that is String.
#[test]
fn keys_that_are_annotated() {
    for value_type in
        ["String", "DateTime", "Guid", "Binary", "Int32", "Int64", "Double", "Boolean"]
    {
        for body in [
            format!(
                r#"{{"PartitionKey@odata.type":"Edm.{value_type}","PartitionKey":"p","RowKey":"r"}}"#
            ),
            format!(
                r#"{{"PartitionKey":"p","RowKey":"r","RowKey@odata.type":"Edm.{value_type}"}}"#
            ),
        ] {
            let entity = decode_entity(body.as_bytes()).expect("a body");
            let keys = (entity.partition_key.as_deref(), entity.row_key.as_deref());
            assert_eq!(keys, (Some("p"), Some("r")), "{body}");
            match entity.with_own_keys() {
                Ok(_) => assert_eq!(value_type, "String"),
                Err(error) => {
                    assert_ne!(value_type, "String");
                    assert_eq!(error, ErrorCode::InvalidInput.error(), "{body}");
                }
            }
        }
    }
}

/// Many nulls are fine, as many as a hostile client would send are not.
#[test]
fn the_number_of_members() {
    let body = |count: usize| {
        let members: Vec<String> = (0..count).map(|at| format!(r#""P{at}":null"#)).collect();
        format!("{{{}}}", members.join(","))
    };
    assert!(properties(&body(1_024)).is_empty());
    assert_eq!(code(&body(1_025)), ErrorCode::TooManyProperties);
    assert_eq!(
        code(&body(1_025).replace("\":null", "@odata.type\":\"Edm.Int32\"")),
        ErrorCode::TooManyProperties
    );
}

/// R-S12: a name that no entity can have is not repeated, whatever else is wrong with it; the beginning of
/// one that some can have is, with its characters escaped.
#[test]
fn r_s12_errors_are_bounded() {
    let refused = |body: &str| ServiceError::from(decode_entity(body.as_bytes()).unwrap_err());
    for members in [
        r#""NAME":[]"#,
        r#""NAME":1"#,
        r#""NAME":null"#,
        r#""NAME@b":1"#,
        r#""NAME@odata.type":"Edm.Nothing""#,
        r#""NAME@odata.type":"Edm.Int32","NAME":"x""#,
    ] {
        let body = |name: &str| format!("{{{}}}", members.replace("NAME", name));
        let long = refused(&body(&"\u{7f}".repeat(1 << 20)));
        assert_eq!(long.code(), ErrorCode::PropertyNameTooLong, "{members}");
        if !members.ends_with("1") && !members.ends_with("null") {
            for length in [255, 64 << 10] {
                let error = refused(&body(&"\u{ffff}".repeat(length)));
                assert_eq!(error.code(), ErrorCode::InvalidInput, "{members}");
                assert!((2_000..4_096).contains(&error.message().len()), "{error}");
            }
        }
    }
    let twice = format!(r#"{{"{0}":1,"{0}":1}}"#, "n".repeat(64 << 10));
    let JsonErrorKind::Duplicate { name } = decode_entity(twice.as_bytes()).unwrap_err().kind
    else {
        panic!("it is twice in it");
    };
    assert_eq!(name, "n".repeat(255));
    let passed_over = format!("{{\"odata.{0}\":1,\"{0}@a.b\":1}}", "n".repeat(1 << 20));
    assert!(properties(&passed_over).is_empty());
}

/// Each refusal says what was expected where.
#[test]
fn what_is_no_json() {
    for (body, offset, expected) in [
        ("", 0, "an object"),
        ("[]", 0, "an object"),
        ("{", 1, "a name"),
        ("{\"A\"", 4, "a colon"),
        ("{\"A\":", 5, "a value"),
        ("{\"A\":1", 6, "a comma or the end of the object"),
        ("{\"A\":1,}", 7, "a name"),
        ("{\"A\":1}}", 7, "the end"),
        ("{\"A\":01}", 6, "a number without leading zeros"),
        ("{\"A\":-}", 6, "a digit"),
        ("{\"A\":1.}", 7, "a digit"),
        ("{\"A\":1e}", 7, "a digit"),
        ("{\"A\":+1}", 5, "JSON"),
        ("{\"A\":NaN}", 5, "JSON"),
        ("{\"A\":tru}", 5, "JSON"),
        ("{\"A\":'a'}", 5, "JSON"),
        ("{\"A\":\"a}", 8, "the end of a string"),
        ("{\"A\":\"a\nb\"}", 7, "an escaped control character"),
        ("{\"A\":\"\\x\"}", 7, "an escape"),
        ("{\"A\":\"\\u12\"}", 7, "u and four hexadecimal digits"),
        ("{\"A\":\"\\u+123\"}", 7, "u and four hexadecimal digits"),
        ("{\"A\":\"\\ud800\"}", 7, "a whole surrogate pair"),
        ("{\"A\":\"\\ud800\\u0041\"}", 7, "a whole surrogate pair"),
        ("{\"A\":\"\\udc00\"}", 7, "a whole surrogate pair"),
        ("{\"odata.x\":[1 2]}", 14, "a comma or the end of the object or array"),
        ("{\"odata.x\":[1,]}", 14, "a value"),
        ("{\"odata.x\":{1}}", 12, "a name"),
        ("{\"odata.x\":[}}", 12, "a value"),
        ("{\"odata.x\":{]}", 12, "a name"),
        ("{\"odata.x\":[1}}", 13, "a comma or the end of the object or array"),
        ("{\"odata.x\":{\"a\":1]}", 17, "a comma or the end of the object or array"),
    ] {
        let error = decode_entity(body.as_bytes()).expect_err(body);
        assert_eq!(error.offset, offset, "{body}: {error}");
        match error.kind {
            JsonErrorKind::Syntax { expected: found, .. } => assert_eq!(found, expected, "{body}"),
            other => panic!("{body}: {other}"),
        }
    }
    assert_eq!(decode_entity(b"{\"A\":\"\xff\"}").map_err(|it| it.offset), Err(6));
    let deep = format!("{{\"odata.x\":{}}}", "[".repeat(100_000));
    assert_eq!(code(&deep), ErrorCode::InvalidInput);
}

#[test]
fn table_names() {
    let name = |body: &str| decode_table_name(body.as_bytes());
    assert_eq!(name(r#"{"TableName":"t"}"#), Ok(Some("t".to_owned())));
    assert_eq!(name(r#"{"odata.type":"x","TableName":"t"}"#), Ok(Some("t".to_owned())));
    assert_eq!(name(r#"{"TableName":null}"#), Ok(None));
    assert_eq!(name("{}"), Ok(None));
    assert!(name(r#"{"TableName":5}"#).is_err());
    assert!(name("").is_err());
}

/// An object of scalars, as JSON and as what it should be read as.
fn flat() -> impl Strategy<Value = serde_json::Map<String, serde_json::Value>> {
    let value = prop_oneof![
        any::<String>().prop_map(serde_json::Value::from),
        any::<i32>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    let name = "[A-Za-z_\u{e9}\u{4e00}\"\\\\]{1,6}";
    let keys = |name: &String| !matches!(&**name, "RowKey" | "PartitionKey" | "Timestamp");
    prop::collection::btree_map(name.prop_filter("a key", keys), value, 0..12)
        .prop_map(|members| members.into_iter().collect())
}

proptest! {
    /// Whatever comes is answered; what is taken is JSON to another reader too.
    #[test]
    fn nothing_is_taken_that_is_not_json(body in nearly_json(), object in any::<bool>()) {
        let body = if object { format!("{{{body}}}") } else { body };
        match decode_entity(body.as_bytes()) {
            Ok(_) => prop_assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok(), "{}", body),
            Err(error) => prop_assert!(error.offset <= body.len()),
        }
    }

    /// An object that another writer wrote is read as what it says.
    #[test]
    fn another_writers_objects_are_read(object in flat(), pretty in any::<bool>()) {
        let object = serde_json::Value::Object(object);
        let body = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        let found = decode_entity(body.expect("JSON").as_bytes()).expect("an entity").owned_properties();
        let expected: Vec<_> = object.as_object().expect("an object").iter().filter_map(|(name, value)| {
            let value = match value {
                serde_json::Value::String(text) => Value::from(&**text),
                serde_json::Value::Bool(value) => Value::from(*value),
                serde_json::Value::Number(number) => match number.as_i64().map(i32::try_from) {
                    Some(Ok(small)) => Value::Int32(small),
                    _ => Value::Double(number.as_f64().expect("a number")),
                },
                _ => return None,
            };
            Some((name.clone(), value))
        }).collect();
        prop_assert_eq!(found, expected);
    }
}
