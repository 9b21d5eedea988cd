//! Filters and entities: compiled evaluation and plan against an evaluator that follows the
//! requirement word by word.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tablestone::{DateTime, Entity, Filter, Guid, Value, Version};

/// A filter in postfix order, so that it may be as deep as the input is long.
#[derive(Arbitrary, Debug)]
enum Step {
    Compare(Name, Operator, Constant),
    Constant(bool),
    Not,
    And,
    Or,
}

#[derive(Arbitrary, Debug)]
enum Operator {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

/// Few names, so that filters and entities meet.
#[derive(Arbitrary, Debug)]
enum Name {
    PartitionKey,
    RowKey,
    Timestamp,
    Listed(u8),
    Any(String),
}

/// A value; what is small or listed is likely to be met again.
#[derive(Arbitrary, Debug)]
enum Constant {
    Key(Key),
    Binary(Vec<u8>),
    Boolean(bool),
    DateTime(u64),
    Double(f64),
    Guid([u8; 16]),
    Int32(i32),
    Int64(i64),
    SmallDouble(i8),
    SmallInt32(i8),
    SmallInt64(i8),
    SmallDateTime(u8),
}

#[derive(Arbitrary, Debug)]
enum Key {
    Listed(u8),
    Any(String),
}

#[derive(Arbitrary, Debug)]
struct Stored {
    partition_key: Key,
    row_key: Key,
    version: u64,
    properties: Vec<(Name, Constant)>,
}

#[derive(Arbitrary, Debug)]
struct Input {
    filter: Vec<Step>,
    entities: Vec<Stored>,
}

const NAMES: [&str; 6] = ["A", "B", "not", "NaN", "Größe", "真"];
const KEYS: [&str; 8] = ["", "\0", "a", "a\0", "ab", "b", "\u{E000}", "\u{10000}"];

impl Name {
    fn text(&self) -> &str {
        match self {
            Self::PartitionKey => "PartitionKey",
            Self::RowKey => "RowKey",
            Self::Timestamp => "Timestamp",
            Self::Listed(which) => NAMES[usize::from(*which) % NAMES.len()],
            Self::Any(name) => name,
        }
    }
}

impl Key {
    fn text(&self) -> &str {
        match self {
            Self::Listed(which) => KEYS[usize::from(*which) % KEYS.len()],
            Self::Any(key) => key,
        }
    }
}

impl Constant {
    fn value(&self) -> Value {
        let date_time = |ticks| DateTime::from_ticks(ticks).unwrap_or(DateTime::MAX);
        match self {
            Self::Key(key) => key.text().into(),
            Self::Binary(bytes) => bytes[..].into(),
            Self::Boolean(value) => (*value).into(),
            Self::DateTime(ticks) => date_time(*ticks).into(),
            Self::Double(number) => (*number).into(),
            Self::Guid(bytes) => Guid::from_bytes(*bytes).into(),
            Self::Int32(number) => (*number).into(),
            Self::Int64(number) => (*number).into(),
            Self::SmallDouble(number) => (f64::from(*number) / 2.0).into(),
            Self::SmallInt32(number) => i32::from(*number).into(),
            Self::SmallInt64(number) => i64::from(*number).into(),
            Self::SmallDateTime(ticks) => date_time((*ticks).into()).into(),
        }
    }
}

impl Step {
    fn apply(&self, operands: &mut Vec<Filter>) {
        match self {
            Self::Compare(name, operator, constant) => {
                let (property, value) = (Filter::property(name.text()), constant.value());
                operands.push(match operator {
                    Operator::Eq => property.eq(value),
                    Operator::Ne => property.ne(value),
                    Operator::Gt => property.gt(value),
                    Operator::Ge => property.ge(value),
                    Operator::Lt => property.lt(value),
                    Operator::Le => property.le(value),
                });
            }
            Self::Constant(true) => operands.push(Filter::everything()),
            Self::Constant(false) => operands.push(Filter::nothing()),
            Self::Not => {
                let last = operands.pop();
                operands.extend(last.map(|filter| !filter));
            }
            Self::And => join(operands, Filter::and),
            Self::Or => join(operands, Filter::or),
        }
    }
}

fn join(operands: &mut Vec<Filter>, joined: fn(Filter, Filter) -> Filter) {
    match (operands.pop(), operands.pop()) {
        (Some(last), Some(before)) => operands.push(joined(before, last)),
        (last, _) => operands.extend(last),
    }
}

impl Stored {
    fn entity(&self) -> (Entity, Version) {
        let mut entity = Entity::new(self.partition_key.text(), self.row_key.text());
        for (name, value) in &self.properties {
            entity.set(name.text(), value.value());
        }
        (entity, Version::from_ticks(self.version))
    }
}

fuzz_target!(|input: Input| {
    let mut operands = Vec::new();
    for step in &input.filter {
        step.apply(&mut operands);
    }
    let filter = operands.into_iter().reduce(Filter::or).unwrap_or_default();
    tablestone::fuzzing::fuzz_filter_parse(&filter.to_string());
    let entities: Vec<_> = input.entities.iter().map(Stored::entity).collect();
    tablestone::fuzzing::fuzz_filter_eval(&filter, &entities);
});
