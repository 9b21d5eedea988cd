//! The codec against the decoded entity, against damage, and against its own bytes of yesterday.

use proptest::prelude::*;

use super::merge::merge;
use super::*;
use crate::Version;
use crate::entity::testing::{entities, merged, names, values};
use crate::entity::{
    DateTime, Entity, EntityError, EntityLimits, EntityRef, Guid, RowError, Value, ValueRef,
};

const AT: Version = Version::from_ticks(1);

fn encoder() -> Encoder {
    Encoder::new(&EntityLimits::default())
}

/// The patch that an entity is, put over a row.
fn patched(patch: &Entity, row: Option<&[u8]>) -> Result<Vec<u8>, MergeError> {
    let limits = EntityLimits::default();
    Patch::new(patch, &limits).unwrap().apply(row, &limits)
}

fn whole(parts: [&[u8]; 2]) -> Vec<u8> {
    parts.concat()
}

fn view(row: &[u8]) -> Result<EntityRef<'_>, RowError> {
    EntityRef::new(b"p", b"r", AT, row)
}

fn decode(row: &[u8]) -> Result<Entity, RowError> {
    view(row)?.to_entity()
}

fn entity(properties: &[(&str, Value)]) -> Entity {
    let set = |entity: Entity, (name, value): &(&str, Value)| entity.with(*name, value.clone());
    properties.iter().fold(Entity::new("p", "r"), set)
}

proptest! {
    /// What an encoder knows of the names before changes nothing, whatever follows what.
    #[test]
    fn rows_in_a_row_are_as_rows_alone(
        several in prop::collection::vec((entities(6), 1usize..3, any::<bool>()), 1..6),
    ) {
        let mut encoder = encoder();
        for (entity, times, breaks) in several {
            for _ in 0..times {
                prop_assert_eq!(encoder.encode_whole(&entity), encode(&entity));
            }
            if breaks {
                let broken = entity.with("a-b", 1);
                prop_assert_eq!(encoder.encode_whole(&broken), encode(&broken));
            }
        }
    }
}

proptest! {
    /// R-D01: values of any type and length under the names before are encoded as alone, wide offsets
    /// included.
    #[test]
    fn r_d01_rows_of_the_same_names_are_as_rows_alone(
        names in prop::collection::btree_set(names(), 0..6),
        rows in prop::collection::vec(prop::collection::vec(values(), 6), 1..6),
    ) {
        let mut encoder = encoder();
        for values in rows {
            let entity = names.iter().zip(values);
            let entity = entity.fold(Entity::new("p", "r"), |it, (name, value)| it.with(name, value));
            prop_assert_eq!(encoder.encode_whole(&entity), encode(&entity));
        }
    }
}

proptest! {
    /// R-D01, R-D02, R-D04, W-091: an encoder refuses what is beyond its limits and nothing else, whatever
    /// it knows of the names before.
    #[test]
    fn w_091_rows_keep_the_limits_of_their_encoder(
        several in prop::collection::vec((entities(6), 1usize..3), 1..6),
        (properties, name, text) in (1usize..7, 1usize..12, 1usize..14),
        (binary, size) in (1usize..14, 20usize..200),
    ) {
        let limits = EntityLimits::default()
            .properties(properties)
            .name_length(name)
            .string_length(text)
            .binary_length(binary)
            .size(size);
        let mut encoder = Encoder::new(&limits);
        for (entity, times) in several {
            let expected = entity.validate_within(&limits).and_then(|()| encode(&entity));
            for _ in 0..times {
                prop_assert_eq!(&encoder.encode_whole(&entity), &expected);
            }
            let row = encode(&entity).unwrap();
            let checked = check_row(entity.partition_key(), entity.row_key(), &row, &limits);
            prop_assert_eq!(checked, expected.map(|_| ()));
        }
    }
}

/// R-D01, R-D02, R-D04: what follows a row of the same names is held against the same limits.
#[test]
fn r_d04_rows_of_the_same_names_keep_the_limits() {
    let rows = |names: &[String], values: [&Value; 3]| {
        let mut encoder = encoder();
        values.map(|value| {
            let entity = |it: Entity, name: &String| it.with(name.as_str(), value.clone());
            let entity = names.iter().fold(Entity::new("p".repeat(1_000), "r"), entity);
            let row = encoder.encode_whole(&entity);
            assert_eq!(row, encode(&entity));
            row.map(|row| row.len())
        })
    };
    let small = Value::from(1);
    let one = ["A".to_owned()];
    for (large, fits) in [
        (Value::from("é".repeat(32_768)), true),
        (Value::from("é".repeat(32_769)), false),
        (Value::from("a".repeat(32_768)), true),
        (Value::from("a".repeat(32_769)), false),
        (Value::from(vec![0; 65_536]), true),
        (Value::from(vec![0; 65_537]), false),
    ] {
        let [before, found, after] = rows(&one, [&small, &large, &small]);
        assert_eq!((before.is_ok(), found.is_ok(), after.is_ok()), (true, fits, true));
    }
    // 252 values of each 4 KiB are no more than 1 MiB, but their names are.
    let value = Value::from(vec![0; 4_096]);
    let names = |length: usize| -> Vec<String> {
        (0..252).map(|at| format!("P{at:03}{}", "x".repeat(length - 4))).collect()
    };
    assert!(rows(&names(4), [&small, &value, &small])[1].is_ok());
    let found = rows(&names(60), [&small, &value, &small]);
    assert!(matches!(found[1], Err(EntityError::TooLarge { .. })));
    // Names that alone make offsets wide.
    let [first, second, _] = rows(&names(255), [&small, &small, &small]);
    assert!(first.is_ok_and(|length| length > 252 * 255) && second.is_ok());
    let mut encoder = encoder();
    let many = Entity::new("", "");
    let many = (0..253).fold(many, |it, at| it.with(format!("P{at}"), true));
    assert_eq!(encoder.encode_whole(&many), encode(&many));
    let keys = |keys: usize| Entity::new("p".repeat(keys), "r").with("A", 1);
    for length in [1, (1 << 19) - 50, 1 << 19, 1] {
        assert_eq!(encoder.encode_whole(&keys(length)), encode(&keys(length)), "{length}");
    }
}

/// R-D02: names are unique, also where no [`Entity`] sees to it.
#[test]
fn r_d02_a_name_may_not_come_twice() {
    let of = |names: &[&'static str]| {
        let properties: Vec<_> = names.iter().map(|name| (*name, ValueRef::Int32(1))).collect();
        encoder().encode_properties("p", "r", properties.into_iter(), whole)
    };
    assert!(of(&["A", "B", "a"]).is_ok());
    for names in [&["A", "B", "A"][..], &["A", "A"], &["B", "A", "A"]] {
        assert_eq!(of(names), Err(EntityError::NameTwice { name: "A".into() }));
    }
    let many: Vec<String> = (0..252).map(|at| format!("P{at}")).collect();
    let many = many.iter().map(|name| (&**name, ValueRef::Int32(1)));
    assert!(encoder().encode_properties("p", "r", many, whole).is_ok());
    assert_eq!(of(&["Timestamp"]), Err(EntityError::NameReserved { name: "Timestamp".into() }));
}

fn same_properties(a: &Entity, b: &Entity) -> bool {
    a.properties().eq(b.properties())
}

/// One of each type, in an order that is not that of their names.
fn one_of_each() -> Entity {
    entity(&[
        ("Text", "Zoë".into()),
        ("Bytes", b"\x00\xFF".into()),
        ("Yes", true.into()),
        ("No", false.into()),
        ("When", "2008-10-01T15:27:34.4838174Z".parse::<DateTime>().unwrap().into()),
        ("Ratio", (-0.5).into()),
        ("Id", Guid::from_bytes(*b"0123456789abcdef").into()),
        ("Small", (-2).into()),
        ("Large", (1i64 << 40).into()),
    ])
}

/// Rows are on disk: neither layout nor fingerprints may change without a new format.
#[test]
fn the_bytes_of_a_row_are_pinned() {
    let mut expected = vec![1, 0, 9];
    expected.extend([0xFF, 0x35, 0x88, 0x38, 0x24, 0x83, 0x6E, 0x9F, 0xC8]);
    expected.extend([7, 8, 1, 0, 5, 4, 6, 2, 3]);
    for end in [4u16, 9, 12, 14, 18, 23, 25, 30, 35] {
        expected.extend(end.to_le_bytes());
    }
    expected.extend(b"TextBytesYesNoWhenRatioIdSmallLarge");
    for end in [4u16, 6, 6, 6, 14, 22, 38, 42, 50] {
        expected.extend(end.to_le_bytes());
    }
    expected.extend("Zoë\x00".as_bytes());
    expected.push(0xFF);
    expected.extend(128_673_484_544_838_174u64.to_le_bytes());
    expected.extend((-0.5f64).to_le_bytes());
    expected.extend(b"0123456789abcdef");
    expected.extend((-2i32).to_le_bytes());
    expected.extend((1i64 << 40).to_le_bytes());
    assert_eq!(encode(&one_of_each()).unwrap(), expected);
}

#[test]
fn the_fingerprint_is_pinned() {
    let of = |names: [&str; 6]| names.map(|name| fingerprint(name.as_bytes()));
    let names = ["", "A", "Name", "PartitionKey", "名前", "a name of more than sixteen bytes"];
    assert_eq!(of(names), [0xC2, 0x85, 0x2F, 0x38, 0xBE, 0x22]);
}

/// R-D01: edges of each type come back as they were; NaN keeps its bits.
#[test]
fn r_d01_every_type_round_trips() {
    let all = one_of_each()
        .with("Min", i32::MIN)
        .with("Max", i64::MAX)
        .with("First", DateTime::MIN)
        .with("Last", DateTime::MAX)
        .with("Zero", -0.0)
        .with("Most", f64::INFINITY)
        .with("EmptyText", "")
        .with("EmptyBytes", b"");
    let row = encode(&all).unwrap();
    let read = decode(&row).unwrap();
    assert!(same_properties(&read, &all));
    assert_eq!((read.version(), read.partition_key(), read.row_key()), (Some(AT), "p", "r"));
    let odd = f64::from_bits(0xFFF8_0000_0000_1234);
    let row = encode(&entity(&[("NaN", odd.into())])).unwrap();
    let bits = view(&row).unwrap().get_as::<f64>("NaN").unwrap().map(f64::to_bits);
    assert_eq!(bits, Some(odd.to_bits()));
}

/// R-D02: 252 properties; each is found by its name alone and by a hint, right or wrong.
#[test]
fn r_d02_each_of_252_properties_is_found() {
    let wide = (0..252).fold(Entity::new("p", "r"), |e, i| e.with(format!("P{i}"), i));
    let row = encode(&wide).unwrap();
    let parsed = EncodedRow::parse(&row).unwrap();
    for i in 0..252 {
        let name = PropertyName::new(&format!("P{i}"));
        for hint in [0, i as usize, 251, 252, usize::MAX] {
            let mut hint = Slot(hint);
            let slot = parsed.find(&name, &mut hint).unwrap().unwrap();
            assert_eq!((slot, hint), (Slot(i as usize), slot));
            assert_eq!(parsed.value(slot), Ok(ValueRef::Int32(i)));
        }
    }
    let mut hint = Slot(5);
    assert_eq!(parsed.find(&PropertyName::new("P252"), &mut hint), Ok(None));
    assert_eq!(hint, Slot(5), "an absent property leaves the hint");
}

/// R-D04: an entity of 1 MiB may be 1.5 MiB of UTF-8, and offsets grow with it.
#[test]
fn r_d04_the_largest_entity_round_trips() {
    let mut large = Entity::new("p", "r");
    for i in 0..15 {
        large.set(format!("S{i}"), "名".repeat(32_768));
    }
    assert_eq!(large.validate(), Ok(()));
    let row = encode(&large).unwrap();
    assert!(row.len() > 15 * 98_304 && row.len() < 2 << 20);
    assert!(same_properties(&decode(&row).unwrap(), &large));
}

#[test]
fn offsets_are_wide_from_64_kibibytes_on() {
    for (len, flags) in [(65_535, 0), (65_536, WIDE)] {
        let entity = entity(&[("A", vec![1; len - 4].into()), ("B", 7.into())]);
        let row = encode(&entity).unwrap();
        assert_eq!(row[1], flags);
        assert!(same_properties(&decode(&row).unwrap(), &entity));
    }
}

/// R-D02, R-D04, R-D09: a merge's result is held against the limits as a whole.
#[test]
fn r_d09_a_merge_that_grows_over_a_limit_is_refused() {
    let numbered = |from: usize, to: usize| {
        (from..to).fold(Entity::new("p", "r"), |e, i| e.with(format!("P{i}"), true))
    };
    let apply = |old: &Entity, patch: &Entity| patched(patch, Some(&encode(old).unwrap()));
    assert!(apply(&numbered(0, 200), &numbered(100, 252)).is_ok());
    let many = EntityError::TooManyProperties { found: 253, limit: 252 };
    assert_eq!(apply(&numbered(0, 200), &numbered(100, 253)), Err(many.into()));

    // Text of one, two and three bytes a UTF-16 unit.
    for unit in ["a", "ä", "名"] {
        let mut old = Entity::new("p", "r");
        for i in 0..15 {
            old.set(format!("S{i:02}"), unit.repeat(32_768));
        }
        let room = (1 << 20) - old.size() - 8 - 2 - 4;
        let patch = |len: usize| entity(&[("B", vec![0; len].into())]);
        let full = apply(&old, &patch(room)).unwrap();
        assert_eq!(decode(&full).unwrap().size(), 1 << 20);
        let large = EntityError::TooLarge { size: (1 << 20) + 1, limit: 1 << 20 };
        assert_eq!(apply(&old, &patch(room + 1)), Err(large.into()));
        // A patch that makes room fits, no matter how full the entity was.
        assert!(patched(&entity(&[("S00", 1.into())]), Some(&full)).is_ok());
    }
}

/// R-D05, R-D09: insert-or-merge of nothing stored is the patch; null in a patch changes nothing.
#[test]
fn r_d05_a_merge_keeps_what_the_patch_leaves_out() {
    let patch = entity(&[("A", 1.into())]).with("B", None::<i32>);
    let alone = patched(&patch, None).unwrap();
    assert!(same_properties(&decode(&alone).unwrap(), &patch));
    let old = entity(&[("A", "text".into()), ("B", 2.into())]);
    let row = patched(&patch, Some(&encode(&old).unwrap())).unwrap();
    let expected = entity(&[("A", 1.into()), ("B", 2.into())]);
    assert!(same_properties(&decode(&row).unwrap(), &expected));
}

/// R-D07: chosen properties only, in the order chosen; absent ones are left out.
#[test]
fn r_d07_a_projection_copies_what_it_names() {
    let row = encode(&one_of_each()).unwrap();
    let mut projection = Projection::new(["Large", "Nope", "Text", "Large", "Yes"]);
    let names: Vec<_> = projection.names().collect();
    assert_eq!(names, ["Large", "Nope", "Text", "Yes"]);
    let mut out = b"before".to_vec();
    projection.push(&EncodedRow::parse(&row).unwrap(), &mut out).unwrap();
    let expected =
        entity(&[("Large", (1i64 << 40).into()), ("Text", "Zoë".into()), ("Yes", true.into())]);
    assert_eq!(out, [b"before", &*encode(&expected).unwrap()].concat());
}

fn damaged(row: &[u8]) -> RowError {
    decode(row).unwrap_err()
}

/// Every kind of damage is told with its place.
#[test]
fn damage_is_told_with_its_offset() {
    let at = |offset, expected, found| RowError::Damaged { offset, expected, found };
    let header = "a row's header of 3 bytes, not the end";
    assert_eq!(damaged(b""), at(0, header, 0));
    assert_eq!(damaged(&[1, 0]), at(2, header, 2));
    assert_eq!(damaged(&[0, 0, 0]), at(0, "the number of a format", 0));
    assert_eq!(damaged(&[2, 0, 0]), RowError::UnsupportedFormat { found: 2, supported: 1 });
    assert_eq!(damaged(&[1, 2, 0]), at(1, "flags this build knows", 2));
    let end = "the end where directory and offsets say it is";
    assert_eq!(damaged(&[1, 0, 0, 9]), at(4, end, 4));
    assert_eq!(damaged(&[1, 0, 255]), at(3, end, 3));

    // [1, 0, 2 | fp fp | 7 2 | 1 2 | "AB" | 3 7 | "abc" 4 bytes]
    let row = encode(&entity(&[("A", "abc".into()), ("B", 5.into())])).unwrap();
    assert_eq!(row.len(), 3 + 2 + 2 + 4 + 2 + 4 + 7);
    let with = |place: usize, byte: u8| {
        let mut row = row.clone();
        row[place] = byte;
        damaged(&row)
    };
    assert_eq!(damaged(&row[..row.len() - 1]), at(23, end, 23));
    let unique = "the fingerprint of a name that no other property has";
    assert!(
        matches!(with(3, row[3] ^ 1), RowError::Damaged { offset: 3, expected, .. } if expected == unique)
    );
    assert_eq!(with(5, 9), at(5, "the kind of a value", 9));
    assert_eq!(with(7, 3), at(7, "an offset between its neighbours", 3));
    assert_eq!(with(11, 0xFF), at(3, unique, u64::from(row[3])));
    assert_eq!(with(13, 8), at(13, "an offset between its neighbours", 8));
    let length = |offset, value_type, length| RowError::ValueLength { offset, value_type, length };
    assert_eq!(with(13, 2), length(19, crate::ValueType::Int32, 5));
    assert_eq!(with(6, 0), length(20, crate::ValueType::Boolean, 4));
    assert_eq!(with(18, 0xC0), RowError::NotUtf8 { what: "a String", offset: 18 });
    let duplicate = {
        let mut row = row.clone();
        (row[4], row[12]) = (row[3], row[11]);
        row
    };
    assert_eq!(damaged(&duplicate), at(4, unique, u64::from(row[3])));
    // Who asks for the values alone is told the same, after what is before the damage.
    let values = |mut row: Vec<u8>, place: usize, byte: u8, sound: usize| {
        row[place] = byte;
        let (view, mut values) = (view(&row).unwrap(), Vec::new());
        let told = view.each_value(&mut values).unwrap_err();
        let property = view.properties().nth(sound).unwrap();
        assert_eq!((values.len(), Err(told)), (sound, property.map(|_| ())), "{place}");
    };
    for (place, byte, sound) in [(5, 9, 0), (13, 2, 1), (13, 8, 0), (6, 0, 1), (18, 0xC0, 0)] {
        values(row.clone(), place, byte, sound);
    }
    // A value that ends before it begins.
    let three = entity(&[("A", "abc".into()), ("B", "".into()), ("C", 5.into())]);
    values(encode(&three).unwrap(), 20, 2, 1);
    let late = {
        let mut row = encode(&entity(&[("A", DateTime::MAX.into())])).unwrap();
        let at = row.len() - 8;
        row[at..].copy_from_slice(&(DateTime::MAX.ticks() + 1).to_le_bytes());
        row
    };
    assert_eq!(damaged(&late), at(10, "the ticks of a DateTime", DateTime::MAX.ticks() + 1));
    let keys = EntityRef::new(b"\xFF", b"r", AT, &row).unwrap_err();
    assert_eq!(keys, RowError::KeyNotUtf8 { key: "PartitionKey" });
}

/// A damaged property is no matter to those that are looked up beside it.
#[test]
fn only_what_is_asked_for_is_decoded() {
    let mut row = encode(&entity(&[("A", "abc".into()), ("B", 5.into())])).unwrap();
    row[18] = 0xC0;
    let view = view(&row).unwrap();
    assert_eq!(view.get("B"), Ok(Some(ValueRef::Int32(5))));
    assert_eq!(view.get("C"), Ok(None));
    assert!(view.get("A").is_err());
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(entity in entities(40)) {
        let row = encode(&entity).unwrap();
        let view = view(&row).unwrap();
        prop_assert!(same_properties(&view.to_entity().unwrap(), &entity));
        prop_assert_eq!(view.len(), entity.len());
        for (property, (name, value)) in view.properties().zip(entity.properties()) {
            prop_assert_eq!(property, Ok((name, value.borrowed())));
        }
        let mut values = Vec::new();
        view.each_value(&mut values).unwrap();
        prop_assert!(values.into_iter().eq(entity.properties().map(|(_, value)| value.borrowed())));
    }

    #[test]
    fn a_property_is_found_as_in_the_decoded_entity(
        entity in entities(12), name in names(), hint in 0usize..16,
    ) {
        let row = encode(&entity).unwrap();
        let expected = entity.get(&name).map(Value::borrowed);
        prop_assert_eq!(view(&row).unwrap().get(&name), Ok(expected));
        let parsed = EncodedRow::parse(&row).unwrap();
        let slot = parsed.find(&PropertyName::new(&name), &mut Slot(hint)).unwrap();
        prop_assert_eq!(slot.map(|slot| parsed.value(slot).unwrap()), expected);
    }

    /// R-D09: what the encoded merge makes is what setting each property makes.
    #[test]
    fn r_d09_a_merge_is_that_of_the_decoded_entities(old in entities(12), patch in entities(12)) {
        let (row, expected) = (encode(&old).unwrap(), merged(&old, &patch));
        let merged = patched(&patch, Some(&row)).unwrap();
        prop_assert_eq!(merged, encode(&expected).unwrap());
    }

    #[test]
    fn a_projection_is_that_of_the_decoded_entity(
        rows in proptest::collection::vec(entities(12), 1..4),
        chosen in proptest::collection::vec(names(), 0..6),
    ) {
        // One projection over several rows: its hints are right or wrong.
        let mut projection = Projection::new(chosen.iter().map(String::as_str));
        for entity in rows {
            let row = encode(&entity).unwrap();
            let mut out = Vec::new();
            projection.push(&EncodedRow::parse(&row).unwrap(), &mut out).unwrap();
            let mut expected = Entity::new("p", "r");
            for name in &chosen {
                expected.set(name.as_str(), entity.get(name).cloned());
            }
            prop_assert_eq!(out, encode(&expected).unwrap());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        a in proptest::collection::vec(any::<u8>(), 0..64),
        b in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        crate::entity::fuzz::check_row(&a);
        crate::entity::fuzz::check_merge(&a, &b);
    }

    /// Rows that were good, with bytes changed, cut or added.
    #[test]
    fn mutated_rows_never_panic(
        old in entities(6),
        patch in entities(6),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in 0usize..4,
    ) {
        let mut row = encode(&old).unwrap();
        let at = at.index(row.len().min(200));
        row[at] = byte;
        row.truncate(row.len() - cut.min(row.len()));
        crate::entity::fuzz::check_row(&row);
        crate::entity::fuzz::check_merge(&row, &encode(&patch).unwrap());
        crate::entity::fuzz::check_merge(&encode(&patch).unwrap(), &row);
        let _ = merge(&row, &row, 4, &EntityLimits::default());
    }
}
