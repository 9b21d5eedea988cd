//! Conditions, and what R-D06 says of an entity under them: written from its words, to hold the
//! engine against.

use std::cmp::Ordering;
use std::fmt;

use proptest::prelude::*;
use proptest::sample::select;
use tablestone::{DateTime, Entity, Filter, Guid, Value};

/// A condition on an entity.
#[derive(Clone)]
pub(super) enum Condition {
    Compare(&'static str, Operator, Value),
    Constant(bool),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Condition {
    /// The same as a filter.
    pub(super) fn filter(&self) -> Filter {
        match self {
            Self::Compare(name, operator, value) => {
                let (property, value) = (Filter::property(name), value.clone());
                match operator {
                    Operator::Eq => property.eq(value),
                    Operator::Ne => property.ne(value),
                    Operator::Gt => property.gt(value),
                    Operator::Ge => property.ge(value),
                    Operator::Lt => property.lt(value),
                    Operator::Le => property.le(value),
                }
            }
            Self::Constant(true) => Filter::everything(),
            Self::Constant(false) => Filter::nothing(),
            Self::Not(condition) => !condition.filter(),
            Self::And(all) => all.iter().map(Self::filter).reduce(Filter::and).unwrap(),
            Self::Or(any) => any.iter().map(Self::filter).reduce(Filter::or).unwrap(),
        }
    }

    /// Whether an entity that was read meets it.
    pub(super) fn holds(&self, entity: &Entity) -> bool {
        match self {
            Self::Compare(name, operator, value) => compare(entity, name, *operator, value),
            Self::Constant(value) => *value,
            Self::Not(condition) => !condition.holds(entity),
            Self::And(all) => all.iter().all(|condition| condition.holds(entity)),
            Self::Or(any) => any.iter().any(|condition| condition.holds(entity)),
        }
    }
}

fn compare(entity: &Entity, name: &str, operator: Operator, literal: &Value) -> bool {
    let property = match name {
        "PartitionKey" => Some(Value::from(entity.partition_key())),
        "RowKey" => Some(Value::from(entity.row_key())),
        "Timestamp" => Some(Value::from(entity.timestamp().unwrap())),
        _ => entity.get(name).cloned(),
    };
    // "An absent property makes every comparison false, ne too."
    let Some(property) = property else { return false };
    // "Number literals widen Int32 -> Int64 -> Double towards the property."
    let literal = match (&property, literal) {
        (Value::Int64(_), Value::Int32(n)) => Value::Int64(i64::from(*n)),
        (Value::Double(_), Value::Int32(n)) => Value::Double(f64::from(*n)),
        (Value::Double(_), Value::Int64(n)) => Value::Double(*n as f64),
        (_, other) => other.clone(),
    };
    // "Any other difference of types: eq, gt, ge false and ne, lt, le true."
    if property.value_type() != literal.value_type() {
        return matches!(operator, Operator::Ne | Operator::Lt | Operator::Le);
    }
    let order = match (&property, &literal) {
        (Value::String(a), Value::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Binary(a), Value::Binary(b)) => Some(a.cmp(b)),
        (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
        (Value::DateTime(a), Value::DateTime(b)) => Some(a.cmp(b)),
        (Value::Guid(a), Value::Guid(b)) => Some(a.to_string().cmp(&b.to_string())),
        (Value::Int32(a), Value::Int32(b)) => Some(a.cmp(b)),
        (Value::Int64(a), Value::Int64(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        other => unreachable!("{other:?}"),
    };
    match operator {
        Operator::Eq => order == Some(Ordering::Equal),
        Operator::Ne => order != Some(Ordering::Equal),
        Operator::Gt => order == Some(Ordering::Greater),
        Operator::Ge => order.is_some_and(Ordering::is_ge),
        Operator::Lt => order == Some(Ordering::Less),
        Operator::Le => order.is_some_and(Ordering::is_le),
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.filter())
    }
}

/// PartitionKeys and RowKeys: few, so that tests collide, with neighbours and odd ones, the last two of which
/// have another order by UTF-16 units.
pub(super) const KEYS: [&str; 8] = ["", "a", "a\0", "ab", "b", "é", "\u{FFFF}", "\u{10000}"];
/// Names of properties.
pub(super) const NAMES: [&str; 4] = ["A", "B", "Number", "Text"];

pub(super) fn key() -> impl Strategy<Value = &'static str> {
    select(&KEYS[..])
}

/// Values of every type, few of each, and some that are near each other.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let number = || select(vec![-1, 0, 1, 2]);
    prop_oneof![
        3 => number().prop_map(Value::Int32),
        2 => number().prop_map(|n| Value::Int64(i64::from(n))),
        1 => Just(Value::Int64(1 << 40)),
        2 => select(vec![-1.0, -0.0, 0.0, 0.5, 1.0, f64::NAN, f64::INFINITY]).prop_map(Value::Double),
        3 => select(vec!["", "a", "ab", "it's", "é"]).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => select(vec![&b""[..], b"\0", b"a"]).prop_map(Value::from),
        1 => number().prop_map(|n| {
            Value::DateTime(DateTime::from_ticks(134_000_000_000_000_000 + u64::from(n.unsigned_abs())).unwrap())
        }),
        1 => number().prop_map(|n| Value::Guid(Guid::from_bytes([n as u8; 16]))),
    ]
}

fn comparison() -> impl Strategy<Value = Condition> {
    use Operator::{Eq, Ge, Gt, Le, Lt, Ne};
    let operator = || prop_oneof![4 => Just(Eq), 1 => Just(Ne), 5 => select(vec![Gt, Ge, Lt, Le])];
    let on_key = (select(vec!["PartitionKey", "RowKey"]), operator(), key())
        .prop_map(|(name, operator, key)| Condition::Compare(name, operator, key.into()));
    let on_property = (select(&NAMES[..]), operator(), value())
        .prop_map(|(name, operator, value)| Condition::Compare(name, operator, value));
    let on_system = (select(vec!["PartitionKey", "RowKey", "Timestamp"]), operator(), value())
        .prop_map(|(name, operator, value)| Condition::Compare(name, operator, value));
    prop_oneof![6 => on_key, 4 => on_property, 1 => on_system]
}

/// Any condition, those on keys often enough to plan something.
pub(super) fn condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![12 => comparison(), 1 => any::<bool>().prop_map(Condition::Constant)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 2..5);
        prop_oneof![
            3 => list.clone().prop_map(Condition::And),
            3 => list.prop_map(Condition::Or),
            1 => inner.prop_map(|condition| Condition::Not(Box::new(condition))),
        ]
    })
}
