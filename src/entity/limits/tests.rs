//! Each limit, at it and one beyond; and which limits allow what others do.

use proptest::prelude::*;

use super::*;
use crate::entity::{DateTime, Guid};

fn entity() -> Entity {
    Entity::new("p", "r")
}

/// R-D02, C-11: 252 properties are accepted, 253 refused.
#[test]
fn r_d02_the_number_of_properties() {
    let of = |n: usize| (0..n).fold(entity(), |e, i| e.with(format!("P{i}"), true));
    assert_eq!(of(252).validate(), Ok(()));
    let error = EntityError::TooManyProperties { found: 253, limit: 252 };
    assert_eq!(of(253).validate(), Err(error));
}

/// R-D02, C-11: names are identifiers of at most 255 characters.
#[test]
fn r_d02_names_are_identifiers() {
    let check = |name: &str| entity().with(name, 1).validate();
    for name in ["A", "_", "a1", "_1", "Überschrift", "名前", "a\u{301}", "a\u{203F}b", "𝒳"] {
        assert_eq!(check(name), Ok(()), "{name}");
    }
    let invalid = [("a-b", 2, '-'), ("1a", 1, '1'), ("a b", 2, ' '), ("a.b", 2, '.')];
    for (name, column, character) in invalid {
        let error = EntityError::NameInvalid { name: name.into(), column, character };
        assert_eq!(check(name), Err(error));
    }
    for name in ["-", "\u{301}a", "a\0", "a\u{200B}", "@a", "a€"] {
        assert!(matches!(check(name), Err(EntityError::NameInvalid { .. })), "{name:?}");
    }
    assert_eq!(check(""), Err(EntityError::NameEmpty));
    for name in ["PartitionKey", "RowKey"] {
        assert_eq!(check(name), Err(EntityError::NameReserved { name: name.into() }));
    }
    assert_eq!(check("partitionkey"), Ok(()));
    assert_eq!(entity().with("Timestamp", 1).validate(), Ok(()), "it is ignored");
    // Characters of two UTF-16 units and four bytes count as two.
    for (name, length) in [("a", 1), ("é", 1), ("名", 1), ("𝒳", 2)] {
        let fits = name.repeat(255 / length);
        assert_eq!(check(&fits), Ok(()));
        match check(&format!("{fits}{name}")) {
            Err(EntityError::NameTooLong { length: found, limit: 255, .. }) => {
                assert_eq!(found, 255 / length * length + length);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// R-D01, C-23: 32 Ki UTF-16 units of text, whatever they are in UTF-8; 64 KiB of bytes.
#[test]
fn r_d01_lengths_of_strings_and_binaries() {
    for (text, units) in [("a", 1), ("é", 1), ("名", 1), ("𝒳", 2)] {
        let fits = text.repeat(32_768 / units);
        assert_eq!(entity().with("S", fits.as_str()).validate(), Ok(()));
        let length = 32_768 + units;
        let over = entity().with("S", fits + text).validate();
        let error = EntityError::StringTooLong { name: "S".into(), length, limit: 32_768 };
        assert_eq!(over, Err(error));
    }
    assert_eq!(entity().with("B", vec![0; 65_536]).validate(), Ok(()));
    let error = EntityError::BinaryTooLong { name: "B".into(), length: 65_537, limit: 65_536 };
    assert_eq!(entity().with("B", vec![0; 65_537]).validate(), Err(error));
}

/// R-D04, C-21: the formula, part by part.
#[test]
fn r_d04_the_size_is_that_of_the_formula() {
    assert_eq!(Entity::new("", "").size(), 4);
    assert_eq!(Entity::new("ä𝒳", "abc").size(), 4 + 2 * (3 + 3));
    let bare = entity().size();
    let of = |name: &str, value: crate::Value| entity().with(name, value).size() - bare;
    assert_eq!(of("Na", "𝒳a".into()), 8 + 2 * 2 + 2 * 3 + 4);
    assert_eq!(of("Nä", vec![0; 5].into()), 8 + 2 * 2 + 5 + 4);
    assert_eq!(of("N", true.into()), 8 + 2 + 1);
    assert_eq!(of("N", DateTime::MIN.into()), 8 + 2 + 8);
    assert_eq!(of("N", 1.5.into()), 8 + 2 + 8);
    assert_eq!(of("N", 1i64.into()), 8 + 2 + 8);
    assert_eq!(of("N", 1.into()), 8 + 2 + 4);
    assert_eq!(of("N", Guid::default().into()), 8 + 2 + 16);
}

/// R-D04: an entity of exactly 1 MiB is accepted, one byte more refused.
#[test]
fn r_d04_the_size_of_an_entity() {
    let of = |last: usize| {
        let mut entity = entity();
        for i in 0..15 {
            entity.set(format!("B{i:02}"), vec![0; 65_536]);
        }
        entity.set("Last", vec![0; last]);
        entity
    };
    let rest = (1 << 20) - of(0).size();
    assert_eq!((of(rest).size(), of(rest).validate()), (1 << 20, Ok(())));
    let error = EntityError::TooLarge { size: (1 << 20) + 1, limit: 1 << 20 };
    assert_eq!(of(rest + 1).validate(), Err(error));
}

/// R-D04: the same whatever it is made of, though what is far from the limit is not counted.
#[test]
fn r_d04_no_part_of_an_entity_is_taken_for_less_than_it_is() {
    let many = |name: &str, value: crate::Value| {
        (0..20).fold(entity(), |e, i| e.with(format!("{name}{i}"), value.clone()))
    };
    let long = "k".repeat(500);
    for entity in [
        many(&"N".repeat(200), true.into()),
        many("S", "a".repeat(1_000).into()),
        many("S", "é".repeat(1_000).into()),
        many("S", "𝒳".repeat(1_000).into()),
        many("B", vec![0; 1_000].into()),
        many("I", 1i64.into()),
        many("G", Guid::default().into()),
        Entity::new(&*long, ""),
        Entity::new("", &*long),
        Entity::new("", ""),
    ] {
        let (size, limits) = (entity.size(), EntityLimits::default());
        assert_eq!(entity.validate_within(&limits.size(size)), Ok(()));
        let error = EntityError::TooLarge { size, limit: size - 1 };
        assert_eq!(entity.validate_within(&limits.size(size - 1)), Err(error));
    }
}

/// What is within limits is looked at again under others unless each of these is as wide.
#[test]
fn limits_allow_what_is_within_all_of_them() {
    let limits = EntityLimits::default();
    assert!(limits.allow(&limits));
    type Set = fn(EntityLimits, usize) -> EntityLimits;
    let each: [(Set, usize); 5] = [
        (EntityLimits::properties, limits.properties),
        (EntityLimits::name_length, limits.name_length),
        (EntityLimits::string_length, limits.string_length),
        (EntityLimits::binary_length, limits.binary_length),
        (EntityLimits::size, limits.size),
    ];
    for (set, limit) in each {
        let (less, more) = (set(limits, limit - 1), set(limits, limit + 1));
        assert!(limits.allow(&less) && !less.allow(&limits), "{less:?}");
        assert!(more.allow(&limits) && !limits.allow(&more), "{more:?}");
    }
}

proptest! {
    #[test]
    fn utf16_units_are_counted_in_utf8(text in any::<String>()) {
        prop_assert_eq!(utf16_length(text.as_bytes()), text.encode_utf16().count());
    }
}
