//! What a filter says of an entity (R-D06, protocol 6, W-130 to W-135).

use proptest::prelude::*;

use super::generate::{entity, filter, version};
use crate::entity::codec::encode;
use crate::entity::filter::fuzz::fuzz_filter_eval;
use crate::entity::filter::naive::passes;
use crate::entity::filter::{CompiledFilter, Filter, StoredRow};
use crate::entity::{DateTime, Entity, Guid, Value};
use crate::version::Version;

/// When the entities of these tests were written.
const WRITTEN: Version = Version::from_ticks(5);

/// Whether every evaluator says so.
#[track_caller]
fn check(text: &str, entity: &Entity, expected: bool) {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(passes(&filter, entity, WRITTEN), expected, "{text}");
    fuzz_filter_eval(&filter, &[(entity.clone(), WRITTEN)]);
}

fn with(value: impl Into<Value>) -> Entity {
    Entity::new("p", "r").with("P", value.into())
}

/// What each operator says of property `P` and a constant: those that hold, by name.
#[track_caller]
fn holding(entity: &Entity, constant: &str, expected: &str) {
    for operator in ["eq", "ne", "gt", "ge", "lt", "le"] {
        let holds = expected.split(' ').any(|name| name == operator);
        check(&format!("P {operator} {constant}"), entity, holds);
    }
}

const EQUAL: &str = "eq ge le";
const LESS: &str = "ne lt le";
const GREATER: &str = "ne gt ge";
const NOT_COMPARABLE: &str = "ne";
const OTHER_TYPE: &str = "ne lt le";

/// R-D06, W-135: an absent property makes every comparison false, `ne` too, and `not` of it true.
#[test]
fn r_d06_an_absent_property_fails_every_comparison() {
    let entity = Entity::new("p", "r").with("Q", 1);
    holding(&entity, "1", "");
    holding(&entity, "'x'", "");
    check("P", &entity, false);
    for operator in ["eq", "ne", "gt", "ge", "lt", "le"] {
        check(&format!("not (P {operator} 1)"), &entity, true);
        check(&format!("1 {operator} P"), &entity, false);
    }
    check("not (P eq 1 or P ne 1) and Q eq 1", &entity, true);
}

/// R-D06: within a type, its order.
#[test]
fn r_d06_values_of_one_type_have_its_order() {
    for (value, less, equal, greater) in [
        (Value::from("b"), "'a'", "'b'", "'ba'"),
        (Value::from("B"), "'A'", "'B'", "'a'"),
        (Value::from("\u{10000}"), "'\u{E000}'", "'\u{10000}'", "'\u{10001}'"),
        (Value::from(b"\x01"), "X'00ff'", "X'01'", "X'0100'"),
        (Value::from(false), "P", "false", "true"),
        (Value::from(true), "false", "true", "P"),
        (
            Value::DateTime(DateTime::from_ticks(1).unwrap()),
            "datetime'1601-01-01T00:00:00Z'",
            "datetime'1601-01-01T00:00:00.0000001Z'",
            "datetime'1601-01-01T00:00:00.0000002Z'",
        ),
        (
            Value::Guid(Guid::from_bytes([0x11; 16])),
            "guid'10ffffff-ffff-ffff-ffff-ffffffffffff'",
            "guid'11111111-1111-1111-1111-111111111111'",
            "guid'11111111-1111-1111-1111-111111111112'",
        ),
        (Value::from(-1), "-2", "-1", "0"),
        (Value::from(i64::MIN + 1), "-9223372036854775808", "-9223372036854775807L", "0L"),
        (Value::from(0.5), "0.25", "0.5", "INF"),
    ] {
        let entity = with(value);
        for (constant, holds) in [(less, GREATER), (equal, EQUAL), (greater, LESS)] {
            if constant != "P" {
                holding(&entity, constant, holds);
            }
        }
    }
}

/// R-D06: number constants widen from Int32 to Int64 to Double, towards the property.
#[test]
fn r_d06_number_constants_widen_towards_the_property() {
    holding(&with(5i64), "5", EQUAL);
    holding(&with(i64::from(i32::MAX) + 1), "2147483647", GREATER);
    holding(&with(5.0), "5", EQUAL);
    holding(&with(5.0), "5L", EQUAL);
    holding(&with(4.5), "5", LESS);
    holding(&with(f64::NEG_INFINITY), "-9223372036854775808", LESS);
    // To the nearest Double: two integers become one.
    holding(&with(9_007_199_254_740_992.0), "9007199254740993", EQUAL);
}

/// R-D06, W-134: any other difference of types: `eq`, `gt`, `ge` false; `ne`, `lt`, `le` true.
#[test]
fn r_d06_other_types_are_no_error() {
    // A Double constant on an Int32 property is such a mismatch.
    holding(&with(2), "2.5", OTHER_TYPE);
    holding(&with(3), "2.5", OTHER_TYPE);
    holding(&with(2), "2.0", OTHER_TYPE);
    holding(&with(2i64), "2.0", OTHER_TYPE);
    holding(&with(2), "2L", OTHER_TYPE);
    holding(&with(2), "-3000000000", OTHER_TYPE);
    holding(&with("5"), "5", OTHER_TYPE);
    holding(&with(5), "'5'", OTHER_TYPE);
    holding(&with(true), "'true'", OTHER_TYPE);
    holding(&with(1), "true", OTHER_TYPE);
    holding(&with("a"), "X'61'", OTHER_TYPE);
    holding(&with(b"a"), "'a'", OTHER_TYPE);
    holding(&with(DateTime::MIN), "0", OTHER_TYPE);
    holding(&with(Guid::default()), "'00000000-0000-0000-0000-000000000000'", OTHER_TYPE);
    check("P", &with(1), false);
    check("P", &with("true"), false);
    check("not P", &with(1), true);
    // The mirrored comparison decides for a constant on the left.
    check("5 gt P", &with("x"), true);
    check("5 lt P", &with("x"), false);
}

/// W-134: the paper's own case, `Rating > 1.2` on an Int32 and a Double.
#[test]
fn w_134_a_property_of_another_type_is_left_out() {
    check("P gt 1.2", &with(2), false);
    check("P gt 1.2", &with(1.3), true);
}

/// R-D06: doubles as IEEE 754 has them: NaN differs from everything, zeros are equal.
#[test]
fn r_d06_nan_and_negative_zero() {
    for constant in ["0.0", "NaN", "INF", "0", "5L"] {
        holding(&with(f64::NAN), constant, NOT_COMPARABLE);
    }
    holding(&with(1.0), "NaN", NOT_COMPARABLE);
    holding(&with("1"), "NaN", OTHER_TYPE);
    holding(&with(-0.0), "0.0", EQUAL);
    holding(&with(0.0), "-0.0", EQUAL);
    holding(&with(-0.0), "0", EQUAL);
    check("not (P eq NaN)", &with(f64::NAN), true);
    check("not (P lt 1.0) and not (P ge 1.0)", &with(f64::NAN), true);
}

/// R-D06: keys are Strings, Timestamp a DateTime, with the rule for types as any property.
#[test]
fn r_d06_keys_and_timestamp_are_properties() {
    let entity = with(1);
    check("PartitionKey eq 'p' and RowKey eq 'r'", &entity, true);
    check("PartitionKey lt 'p' or RowKey gt 'r'", &entity, false);
    check("PartitionKey eq 5 or PartitionKey gt 5 or PartitionKey ge 5", &entity, false);
    check("PartitionKey ne 5 and PartitionKey lt 5 and RowKey le true", &entity, true);
    check("not (PartitionKey eq 5)", &entity, true);
    check("PartitionKey eq true or RowKey eq true or Timestamp eq true", &entity, false);
    check("Timestamp eq datetime'1601-01-01T00:00:00.0000005Z'", &entity, true);
    check("Timestamp gt datetime'1601-01-01T00:00:00.0000005Z'", &entity, false);
    check("not (Timestamp gt datetime'1601-01-01T00:00:00.0000004Z')", &entity, false);
    check("Timestamp eq 5", &entity, false);
    check("Timestamp lt 5", &entity, true);
}

/// W-016, W-131: entities of different kinds in one table; conditions combined.
#[test]
fn r_d06_conditions_combine() {
    let entity = Entity::new("p", "r").with("Age", 40).with("Name", "Ada").with("Active", true);
    check("Age ge 21 and Name eq 'Ada' and Active", &entity, true);
    check("Age lt 21 or Name eq 'Bob' or Active", &entity, true);
    check("Age lt 21 or Name eq 'Bob' and Active", &entity, false);
    check("not (Age lt 21 or Name eq 'Bob')", &entity, true);
    check("(Age lt 21 or Name eq 'Ada') and not Active", &entity, false);
    check("true", &entity, true);
    check("false", &entity, false);
    check("false or (true and Active)", &entity, true);
    check("", &entity, true);
}

/// A row is looked at as far as deciding needs: bytes that are none are an error where they are.
#[test]
fn r_d06_only_what_decides_is_looked_at() {
    let row = |bytes| StoredRow { partition_key: b"p", row_key: b"r", version: WRITTEN, bytes };
    let matches =
        |text: &str, bytes| CompiledFilter::new(&Filter::parse(text).unwrap()).matches(row(bytes));
    assert_eq!(matches("PartitionKey eq 'p' or P", b"no row"), Ok(true));
    assert_eq!(matches("PartitionKey eq 'x' and P", b"no row"), Ok(false));
    assert!(matches("PartitionKey eq 'p' and P", b"no row").is_err());
    let stored = encode(&Entity::new("p", "r").with("A", 1).with("B", "text")).unwrap();
    let (mut cut, text) = (stored.clone(), stored.len() - 4);
    cut[text] = 0xFF;
    assert_eq!(matches("A eq 1 or B eq 'text'", &cut), Ok(true));
    assert_eq!(matches("B eq 'text'", &cut), Ok(false), "text is compared by its bytes");
    assert_eq!(matches("A eq 1", &stored[..stored.len() - 1]).ok(), None);
}

/// W-018: where a property was found in one row is only a hint for the next.
#[test]
fn r_d06_rows_of_different_kinds_follow_each_other() {
    let filter = Filter::parse("A eq 1 and not (B eq 1)").unwrap();
    let entity = |names: &str| {
        let named = |entity: Entity, name: char| entity.with(name, i32::from(name == 'A'));
        names.chars().fold(Entity::new("p", "r"), named)
    };
    let mut entities = Vec::new();
    for (names, expected) in
        [("AB", true), ("BA", true), ("A", true), ("B", false), ("", false), ("CDBA", true)]
    {
        assert_eq!(passes(&filter, &entity(names), WRITTEN), expected, "{names}");
        entities.push((entity(names), WRITTEN));
    }
    fuzz_filter_eval(&filter, &entities);
}

proptest! {
    /// R-D06: on stored rows a filter says what the requirement says of entities; one evaluator
    /// sees row after row.
    #[test]
    fn r_d06_stored_rows_pass_as_entities_do(
        filter in filter(), entities in prop::collection::vec((entity(), version()), 1..8),
    ) {
        fuzz_filter_eval(&filter, &entities);
    }

    /// Simplifying a filter changes nothing of what it says.
    #[test]
    fn a_simplified_filter_says_the_same(
        filter in filter(), entity in entity(), version in version(),
    ) {
        let (simplified, expected) = (filter.simplified().to_filter(), passes(&filter, &entity, version));
        prop_assert_eq!(passes(&simplified, &entity, version), expected, "{}", simplified);
        prop_assert_eq!(&simplified.simplified().to_filter(), &simplified);
        prop_assert_eq!(Filter::parse(&simplified.to_string()), Ok(simplified), "in normal form");
    }
}
