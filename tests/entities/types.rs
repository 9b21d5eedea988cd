//! R-D01, R-D02, R-D03: values of every type come back as they were, wherever they are stored.

use tablestone::{DateTime, Entity, Guid, Value, ValueRef, ValueType};

use super::support::{Depth, TestDb};
use super::{content, entities};

/// The edges of each type.
fn everything() -> Entity {
    Entity::new("päñ/\\#?", "\u{1}\u{10FFFF}")
        .with("StringEmpty", "")
        .with("StringLong", "𝒳".repeat(16_384))
        .with("StringControl", "a\0b\u{1}")
        .with("BinaryEmpty", Vec::new())
        .with("BinaryLong", vec![0xFF; 65_536])
        .with("True", true)
        .with("False", false)
        .with("DateTimeMin", DateTime::MIN)
        .with("DateTimeMax", DateTime::MAX)
        .with("Double", -0.1)
        .with("DoubleNegativeZero", -0.0)
        .with("DoubleMin", f64::MIN_POSITIVE)
        .with("DoubleNan", f64::NAN)
        .with("DoubleInfinity", f64::NEG_INFINITY)
        .with("Guid", Guid::from_bytes(*b"0123456789abcdef"))
        .with("Int32Min", i32::MIN)
        .with("Int32Max", i32::MAX)
        .with("Int64Min", i64::MIN)
        .with("Int64Max", i64::MAX)
}

#[test]
fn r_d01_values_of_every_type_come_back_as_they_were() {
    for depth in Depth::ALL {
        let mut db = TestDb::new();
        let entity = everything();
        let (pk, rk) = (entity.partition_key().to_owned(), entity.row_key().to_owned());
        entities(&db).insert(&entity).wait().unwrap();
        depth.settle(&db);
        for _ in 0..2 {
            let t = entities(&db);
            let got = t.get(&pk, &rk).unwrap().unwrap();
            assert_eq!((got.partition_key(), got.row_key()), (&*pk, &*rk));
            assert_eq!(content(&got), content(&entity));
            let many = t.get_many(&pk, &["", &rk]).unwrap();
            assert_eq!(many.first(), Some(&None));
            assert_eq!(many.last().unwrap().as_ref().map(content), Some(content(&entity)));
            let page = t.query().page().unwrap();
            assert_eq!(content(&page.to_entities().unwrap()[0]), content(&entity));
            // The sign of zero is in the bits.
            let zero = got.get_as::<f64>("DoubleNegativeZero").unwrap();
            assert!(zero.is_sign_negative());
            drop(t);
            db.reopen();
        }
    }
}

#[test]
fn r_d01_a_property_is_read_where_it_is_stored() {
    let db = TestDb::new();
    let t = entities(&db);
    t.insert(&everything()).wait().unwrap();
    let entity = everything();
    let read = t.read(entity.partition_key(), entity.row_key(), |stored| {
        assert_eq!(stored.len(), entity.len());
        assert_eq!(stored.get("Absent")?, None);
        assert_eq!(stored.get("true")?, None, "names are case-sensitive");
        assert_eq!(stored.get("Int64Max")?, Some(ValueRef::Int64(i64::MAX)));
        assert_eq!(stored.get_as::<&str>("StringControl")?, Some("a\0b\u{1}"));
        let types: Vec<ValueType> = stored
            .properties()
            .map(|property| Ok(property?.1.value_type()))
            .collect::<Result<_, tablestone::RowError>>()?;
        assert!(ValueType::ALL.iter().all(|value_type| types.contains(value_type)));
        Ok(stored.etag())
    });
    let version = t.query().entities().next().unwrap().unwrap().etag();
    assert_eq!(read.unwrap(), version);
    assert_eq!(t.read("no", "body", |_| Ok(())).unwrap(), None);
}

/// R-D03: one name has different types in two entities, and entities differ freely.
#[test]
fn r_d03_entities_of_a_table_differ_freely() {
    let db = TestDb::new();
    let t = entities(&db);
    let values = [
        Value::from("5"),
        Value::from(5),
        Value::from(5i64),
        Value::from(5.0),
        Value::from(true),
        Value::from(b"5"),
    ];
    for (row, value) in values.iter().enumerate() {
        let entity = Entity::new("p", row.to_string()).with("V", value.clone());
        t.insert(&entity.with(format!("Own{row}"), row as i32)).wait().unwrap();
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        for (row, value) in values.iter().enumerate() {
            let got = t.get("p", row.to_string()).unwrap().unwrap();
            assert_eq!((got.get("V"), got.len()), (Some(value), 2));
        }
    }
}

/// R-D02: 252 properties of one entity, each found.
#[test]
fn r_d02_an_entity_has_up_to_252_properties() {
    let db = TestDb::new();
    let t = entities(&db);
    let wide = (0..252).fold(Entity::new("p", "r"), |e, n| e.with(format!("P{n:03}"), n));
    t.insert(&wide).wait().unwrap();
    for depth in Depth::ALL {
        depth.settle(&db);
        assert_eq!(content(&t.get("p", "r").unwrap().unwrap()), content(&wide));
        for n in 0..252 {
            let name = format!("P{n:03}");
            let read = t.read("p", "r", |entity| entity.get_as(&name)).unwrap();
            assert_eq!(read, Some(Some(n)));
        }
    }
}
