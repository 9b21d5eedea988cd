//! What is printed: the recorded forms, and that it reads back as what it was (R-S04).

use proptest::prelude::*;
use serde_json::json;
use tablestone::{DateTime, Entity, Guid, Value, Version};

use super::tests_support::entity;
use super::*;
use crate::headers::Metadata;
use crate::wire::select::MAX_NAMES;
use crate::wire::{Context, Select, Written};

const CONTEXT: Context<'static> = Context { base: "http://h/a", account: "a", table: "T" };

fn printed(entity: &Entity, ticks: u64, metadata: Metadata, select: &Select) -> String {
    let mut out = b"before".to_vec();
    let written = Written { entity, version: Version::from_ticks(ticks) };
    let printer = EntityPrinter::new(CONTEXT, metadata, select);
    printer.single(&mut out, &written).expect("a sound row");
    String::from_utf8(out.split_off(6)).expect("UTF-8")
}

fn all(entity: &Entity, metadata: Metadata) -> String {
    printed(entity, 132_766_592_431_536_324, metadata, &Select::ALL)
}

fn every_type() -> Entity {
    Entity::new("p/'", "r é")
        .with("S", "a\"b\\c\n\u{1}é\u{1f600}")
        .with("T", true)
        .with("I", -5)
        .with("L", i64::MAX)
        .with("D", 5.0)
        .with("E", 1e300)
        .with("N", f64::NAN)
        .with("M", f64::NEG_INFINITY)
        .with("W", "2008-10-01T15:27:34.48Z".parse::<DateTime>().expect("a date"))
        .with("G", Guid::from_bytes([0xAB; 16]))
        .with("B", b"\xff\xfe")
}

/// A line has keys, properties and their types; what is selected and absent is null.
#[test]
fn lines() {
    let entity = Entity::new("p", "r").with("A", 5i64).with("B", 1);
    let line = |names: &str| {
        let mut out = Vec::new();
        let written = Written { entity: &entity, version: Version::ZERO };
        let select = Select::parse(names).expect("few names");
        let printer = EntityPrinter::new(CONTEXT, Metadata::Minimal, &select);
        printer.line(&mut out, &written).expect("a sound row");
        String::from_utf8(out).expect("UTF-8")
    };
    let expected = r#"{"PartitionKey":"p","RowKey":"r","A@odata.type":"Edm.Int64","A":"5","B":1}"#;
    assert_eq!(line(""), expected);
    let expected = r#"{"B":1,"C":null,"Timestamp":"1601-01-01T00:00:00Z","RowKey":"r"}"#;
    assert_eq!(line("B,C,Timestamp,RowKey"), expected);
}

/// The recorded form at each level, byte by byte (protocol 2).
#[test]
fn levels_of_metadata() {
    let etag = r#""odata.etag":"W/\"datetime'2021-09-21T00%3A54%3A03.1536324Z'\"","#;
    let system = r#""PartitionKey":"p/'","RowKey":"r é","#;
    let plain = concat!(
        r#""S":"a\"b\\c\n\u0001é😀","T":true,"I":-5,"L":"9223372036854775807","D":5.0,"#,
        r#""E":1e300,"N":"NaN","M":"-Infinity","W":"2008-10-01T15:27:34.48Z","#,
        r#""G":"abababab-abab-abab-abab-abababababab","B":"//4="}"#
    );
    let typed = plain
        .replace("\"L\"", "\"L@odata.type\":\"Edm.Int64\",\"L\"")
        .replace("\"N\"", "\"N@odata.type\":\"Edm.Double\",\"N\"")
        .replace("\"M\"", "\"M@odata.type\":\"Edm.Double\",\"M\"")
        .replace("\"W\"", "\"W@odata.type\":\"Edm.DateTime\",\"W\"")
        .replace("\"G\"", "\"G@odata.type\":\"Edm.Guid\",\"G\"")
        .replace("\"B\"", "\"B@odata.type\":\"Edm.Binary\",\"B\"");
    let timestamp = r#""Timestamp":"2021-09-21T00:54:03.1536324Z","#;
    let metadata = r#""odata.metadata":"http://h/a/$metadata#T/@Element","#;
    let address = "T(PartitionKey='p%2F''',RowKey='r%20%C3%A9')";
    let described = format!(r#""odata.type":"a.T","odata.id":"http://h/a/{address}","#);

    let entity = every_type();
    assert_eq!(all(&entity, Metadata::None), format!("{{{system}{timestamp}{plain}"));
    let minimal = format!("{{{metadata}{etag}{system}{timestamp}{typed}");
    assert_eq!(all(&entity, Metadata::Minimal), minimal);
    let full = format!(
        "{{{metadata}{described}{etag}\"odata.editLink\":\"{address}\",{system}\
         \"Timestamp@odata.type\":\"Edm.DateTime\",{timestamp}{typed}"
    );
    assert_eq!(all(&entity, Metadata::Full), full);
}

/// Protocol 6: `$select` gives exactly these, in this order, and null for one that is not there.
#[test]
fn selected_properties() {
    let entity = Entity::new("p", "r").with("A", 1).with("B", 2i64);
    let select = Select::parse("B, Missing ,RowKey").unwrap();
    let expected = r#"{"B":"2","Missing":null,"RowKey":"r"}"#;
    assert_eq!(printed(&entity, 0, Metadata::None, &select), expected);
    let minimal = printed(&entity, 0, Metadata::Minimal, &select);
    let minimal: serde_json::Value = serde_json::from_str(&minimal).expect("JSON");
    let expected = json!({
        "odata.metadata": "http://h/a/$metadata#T/@Element&$select=B,Missing,RowKey",
        "odata.etag": "W/\"datetime'1601-01-01T00%3A00%3A00Z'\"",
        "B@odata.type": "Edm.Int64", "B": "2", "Missing": null, "RowKey": "r",
    });
    assert_eq!(minimal, expected);
    let select = Select::parse("Timestamp,PartitionKey").unwrap();
    let expected = r#"{"Timestamp":"1601-01-01T00:00:00Z","PartitionKey":"p"}"#;
    assert_eq!(printed(&entity, 0, Metadata::None, &select), expected);
}

/// R-S06: an entity is read back with as many names selected as may be, each of which it has or lacks.
#[test]
fn r_s06_the_longest_selection_comes_back() {
    let names: Vec<String> = (0..MAX_NAMES).map(|n| format!("N{n}")).collect();
    let select = Select::parse(&names.join(",")).expect("no name too many");
    let printed = printed(&Entity::new("p", "r").with("N7", 7), 0, Metadata::Full, &select);
    assert_eq!(printed.matches("\":null").count(), MAX_NAMES - 1);
    let again = decode_entity(printed.as_bytes()).expect("our own JSON").owned_properties();
    assert_eq!(again, [("N7".to_owned(), Value::Int32(7))]);
}

#[test]
fn pages() {
    let page = |count: usize, metadata| {
        let printer = EntityPrinter::new(CONTEXT, metadata, &Select::ALL);
        let mut out = Vec::new();
        printer.begin_page(&mut out);
        for at in 0..count {
            let entity = Entity::new("p", at.to_string());
            let written = Written { entity: &entity, version: Version::ZERO };
            printer.page_entity(&mut out, &written).expect("a sound row");
        }
        printer.end_page(&mut out);
        serde_json::from_slice::<serde_json::Value>(&out).expect("JSON")
    };
    assert_eq!(page(0, Metadata::None), json!({"value": []}));
    let empty = json!({"odata.metadata": "http://h/a/$metadata#T", "value": []});
    assert_eq!(page(0, Metadata::Minimal), empty);
    let page = page(3, Metadata::Full);
    let rows: Vec<_> = page["value"].as_array().expect("rows").iter().collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[2]["RowKey"], "2");
    assert_eq!(rows[2]["odata.editLink"], "T(PartitionKey='p',RowKey='2')");
}

#[test]
fn tables_and_errors() {
    let one: serde_json::Value =
        serde_json::from_slice(&print_table(CONTEXT, Metadata::Full, "T1")).expect("JSON");
    let expected = json!({
        "odata.metadata": "http://h/a/$metadata#Tables/@Element", "odata.type": "a.Tables",
        "odata.id": "http://h/a/Tables('T1')", "odata.editLink": "Tables('T1')",
        "TableName": "T1",
    });
    assert_eq!(one, expected);
    let list = print_tables(CONTEXT, Metadata::None, ["T1", "T2"]);
    assert_eq!(list, br#"{"value":[{"TableName":"T1"},{"TableName":"T2"}]}"#);
    assert_eq!(print_tables(CONTEXT, Metadata::None, []), br#"{"value":[]}"#);
}

/// Text with what must be escaped.
const ANY: &str = "(?s)(.|[\"\\\\\u{0}-\u{1f}]){0,20}";

proptest! {
    /// What is printed with types is read back as the same entity, and printed the same again.
    #[test]
    fn printed_entities_come_back(entity in entity(ANY), ticks in 0..=DateTime::MAX.ticks()) {
        for metadata in [Metadata::Minimal, Metadata::Full] {
            let text = printed(&entity, ticks, metadata, &Select::ALL);
            let again = decode_entity(text.as_bytes()).expect("our own JSON");
            let again = again.with_own_keys().expect("keys");
            // Debug compares NaN with itself.
            prop_assert_eq!(format!("{entity:?}"), format!("{again:?}"));
            prop_assert_eq!(printed(&again, ticks, metadata, &Select::ALL), text);
        }
    }

    /// Another reader finds in it what is there.
    #[test]
    fn another_reader_finds_the_same(entity in entity(ANY), ticks in 0..=DateTime::MAX.ticks()) {
        let text = printed(&entity, ticks, Metadata::None, &Select::ALL);
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let found = found.as_object().expect("an object");
        prop_assert_eq!(found.len(), 3 + entity.len());
        prop_assert_eq!(&found["PartitionKey"], entity.partition_key());
        prop_assert_eq!(&found["RowKey"], entity.row_key());
        prop_assert_eq!(&found["Timestamp"], &json!(DateTime::from_ticks(ticks).map(|it| it.to_string())));
        for (name, value) in entity.properties() {
            let expected = match value {
                Value::String(text) => json!(text),
                Value::Boolean(value) => json!(value),
                Value::Int32(number) => json!(number),
                Value::Int64(number) => json!(number.to_string()),
                Value::Double(number) if number.is_finite() => json!(number),
                Value::Double(number) if number.is_nan() => json!("NaN"),
                Value::Double(number) if *number > 0.0 => json!("Infinity"),
                Value::Double(_) => json!("-Infinity"),
                Value::DateTime(instant) => json!(instant.to_string()),
                Value::Guid(id) => json!(id.to_string()),
                Value::Binary(bytes) => {
                    use base64::Engine;
                    json!(base64::engine::general_purpose::STANDARD.encode(bytes))
                }
            };
            prop_assert_eq!(&found[name], &expected);
        }
    }
}

/// A Double that is whole hundredths prints as the general way prints it.
fn prints_as_the_shortest(number: f64) {
    let text = all(&Entity::new("p", "r").with("D", number), Metadata::None);
    let shortest = ryu::Buffer::new().format_finite(number + 0.0).to_owned();
    assert!(text.ends_with(&format!(",\"D\":{shortest}}}")), "{text} {shortest}");
}

#[test]
fn doubles_of_few_digits_print_as_others_do() {
    for number in [
        0.0,
        -0.0,
        0.01,
        -0.01,
        0.1,
        0.29,
        1.0,
        -1.5,
        4.35,
        1.005,
        0.07,
        99.99,
        1e13,
        -1e13,
        9_999_999_999_999.99,
        9_999_999_999_999.98,
        10_000_000_000_000.01,
        1e15,
        1e16,
        0.001,
        5e-324,
    ] {
        prints_as_the_shortest(number);
    }
}

proptest! {
    #[test]
    fn hundredths_print_as_other_doubles_do(whole in -2_000_000_000_000_000i64..2_000_000_000_000_000, few in -100_000i64..100_000) {
        prints_as_the_shortest(whole as f64 / 100.0);
        prints_as_the_shortest(few as f64 / 100.0);
        prints_as_the_shortest(few as f64 / 1000.0);
    }
}
