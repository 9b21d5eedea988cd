//! Entities and conditions as the protocol words them (protocol 3, 6), with an evaluation that
//! looks at one entity after the other.

use std::cmp::Ordering;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};

/// A value of one of the eight types. Dates are in the form that the service answers with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    String(String),
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    DateTime(&'static str),
    Guid(&'static str),
    Binary(Vec<u8>),
}

impl Value {
    /// Its form in JSON, and the annotation that it needs.
    fn json(&self) -> (Json, Option<&'static str>) {
        match self {
            Self::String(text) => (json!(text), None),
            Self::Boolean(value) => (json!(value), None),
            Self::Int32(number) => (json!(number), None),
            Self::Int64(number) => (json!(number.to_string()), Some("Edm.Int64")),
            Self::Double(number) if number.is_nan() => (json!("NaN"), Some("Edm.Double")),
            Self::Double(number) if number.is_infinite() => {
                let sign = if *number > 0.0 { "" } else { "-" };
                (json!(format!("{sign}Infinity")), Some("Edm.Double"))
            }
            Self::Double(number) => (json!(number), None),
            Self::DateTime(text) => (json!(text), Some("Edm.DateTime")),
            Self::Guid(text) => (json!(text), Some("Edm.Guid")),
            Self::Binary(bytes) => (json!(STANDARD.encode(bytes)), Some("Edm.Binary")),
        }
    }
}

/// A constant of a filter.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Int32(number) => write!(f, "{number}"),
            Self::Int64(number) => write!(f, "{number}L"),
            // With a point or an exponent, by which it is no Int32.
            Self::Double(number) => write!(f, "{number:?}"),
            Self::DateTime(text) => write!(f, "datetime'{text}'"),
            Self::Guid(text) => write!(f, "guid'{text}'"),
            Self::Binary(bytes) => {
                write!(f, "X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, "'")
            }
        }
    }
}

/// An entity, and what the server said when it was written.
#[derive(Clone, Debug)]
pub(super) struct Entity {
    pub(super) partition_key: String,
    pub(super) row_key: String,
    pub(super) properties: Vec<(&'static str, Value)>,
    pub(super) timestamp: String,
    pub(super) etag: String,
}

impl Entity {
    /// By which entities are ordered: as bytes, PartitionKey before RowKey.
    pub(super) fn keys(&self) -> (&[u8], &[u8]) {
        (self.partition_key.as_bytes(), self.row_key.as_bytes())
    }

    /// The body of its insert.
    pub(super) fn body(&self) -> Map<String, Json> {
        let mut body = Map::new();
        body.insert("PartitionKey".into(), json!(self.partition_key));
        body.insert("RowKey".into(), json!(self.row_key));
        for (name, value) in &self.properties {
            insert(&mut body, name, value);
        }
        body
    }

    /// Takes ETag and Timestamp from the answer to its insert.
    pub(super) fn written(&mut self, answer: &Json) {
        let text = |name: &str| answer[name].as_str().expect("text").to_owned();
        (self.timestamp, self.etag) = (text("Timestamp"), text("odata.etag"));
    }

    /// How an answer shows it.
    pub(super) fn shown(&self, select: Option<&[&'static str]>) -> Json {
        let mut all = self.body();
        all.insert("Timestamp".into(), json!(self.timestamp));
        let mut shown = match select {
            None => all,
            Some(names) => {
                let mut shown = Map::new();
                for name in names {
                    let annotation = format!("{name}@odata.type");
                    shown.insert((*name).into(), all.get(*name).cloned().unwrap_or(Json::Null));
                    shown.extend(all.get(&annotation).map(|it| (annotation, it.clone())));
                }
                shown
            }
        };
        shown.insert("odata.etag".into(), json!(self.etag));
        shown.into()
    }

    fn get(&self, name: &str) -> Option<Found<'_>> {
        match name {
            "PartitionKey" => Some(Found::Text(&self.partition_key)),
            "RowKey" => Some(Found::Text(&self.row_key)),
            "Timestamp" => Some(Found::Instant(&self.timestamp)),
            _ => self.properties.iter().find(|(it, _)| *it == name).map(|(_, it)| it.into()),
        }
    }
}

fn insert(body: &mut Map<String, Json>, name: &str, value: &Value) {
    let (value, annotation) = value.json();
    body.insert(name.into(), value);
    body.extend(annotation.map(|it| (format!("{name}@odata.type"), json!(it))));
}

/// A stored value, or a system property.
enum Found<'a> {
    Text(&'a str),
    Instant(&'a str),
    Other(&'a Value),
}

impl<'a> From<&'a Value> for Found<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Found::Text(text),
            Value::DateTime(text) => Found::Instant(text),
            other => Found::Other(other),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Operator {
    fn text(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
        }
    }

    /// The operator that says the same with its sides exchanged.
    fn mirrored(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            same => same,
        }
    }

    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Eq => order == Some(Ordering::Equal),
            // What has no order, as NaN has none, is not equal.
            Self::Ne => order != Some(Ordering::Equal),
            Self::Lt => order == Some(Ordering::Less),
            Self::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Gt => order == Some(Ordering::Greater),
            Self::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// A condition.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Constant(bool),
    /// A Boolean property alone.
    Bare(&'static str),
    Compare {
        name: &'static str,
        operator: Operator,
        value: Value,
        /// The constant stands before the property.
        mirrored: bool,
    },
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
    /// In parentheses that say nothing.
    Within(Box<Self>),
}

impl Expression {
    /// Whether an entity passes.
    pub(super) fn holds(&self, entity: &Entity) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::Bare(name) => compare(entity, name, Operator::Eq, &Value::Boolean(true)),
            Self::Compare { name, operator, value, .. } => compare(entity, name, *operator, value),
            Self::Not(inner) => !inner.holds(entity),
            Self::And(all) => all.iter().all(|it| it.holds(entity)),
            Self::Or(any) => any.iter().any(|it| it.holds(entity)),
            Self::Within(inner) => inner.holds(entity),
        }
    }

    /// How tightly it binds: `or` least, then `and`.
    fn binding(&self) -> u8 {
        match self {
            Self::Or(_) => 0,
            Self::And(_) => 1,
            _ => 2,
        }
    }
}

fn compare(entity: &Entity, name: &str, operator: Operator, constant: &Value) -> bool {
    // A missing property makes every comparison false.
    let Some(property) = entity.get(name) else { return false };
    let order = match (property, constant) {
        (Found::Text(a), Value::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Found::Instant(a), Value::DateTime(b)) => Some(ticks(a).cmp(&ticks(b))),
        (Found::Other(Value::Boolean(a)), Value::Boolean(b)) => Some(a.cmp(b)),
        (Found::Other(Value::Guid(a)), Value::Guid(b)) => Some(a.cmp(b)),
        (Found::Other(Value::Binary(a)), Value::Binary(b)) => Some(a.cmp(b)),
        // The constant widens to the property's type: Int32, Int64, Double.
        (Found::Other(Value::Int32(a)), Value::Int32(b)) => Some(a.cmp(b)),
        (Found::Other(Value::Int64(a)), Value::Int64(b)) => Some(a.cmp(b)),
        (Found::Other(Value::Int64(a)), Value::Int32(b)) => Some(a.cmp(&i64::from(*b))),
        (Found::Other(Value::Double(a)), Value::Double(b)) => a.partial_cmp(b),
        (Found::Other(Value::Double(a)), Value::Int32(b)) => a.partial_cmp(&f64::from(*b)),
        (Found::Other(Value::Double(a)), Value::Int64(b)) => a.partial_cmp(&(*b as f64)),
        // Any other difference of types.
        _ => return matches!(operator, Operator::Ne | Operator::Lt | Operator::Le),
    };
    operator.holds(order)
}

/// What orders a date: its text without the Z, the fraction filled up.
fn ticks(text: &str) -> String {
    let text = text.trim_end_matches('Z');
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{seconds}.{fraction:0<7}")
}

/// With as few parentheses and spaces as the grammar allows.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operand = |f: &mut fmt::Formatter<'_>, it: &Self, least: u8| {
            if it.binding() < least { write!(f, "({it})") } else { write!(f, "{it}") }
        };
        let list = |f: &mut fmt::Formatter<'_>, all: &[Self], word: &str, least: u8| {
            for (at, it) in all.iter().enumerate() {
                if at > 0 {
                    write!(f, " {word} ")?;
                }
                operand(f, it, least)?;
            }
            Ok(())
        };
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Bare(name) => write!(f, "{name}"),
            Self::Compare { name, operator, value, mirrored: false } => {
                write!(f, "{name} {} {value}", operator.text())
            }
            Self::Compare { name, operator, value, mirrored: true } => {
                write!(f, "{value} {} {name}", operator.mirrored().text())
            }
            Self::Not(inner) => {
                write!(f, "not ")?;
                operand(f, inner, 2)
            }
            Self::And(all) => list(f, all, "and", 2),
            Self::Or(any) => list(f, any, "or", 1),
            Self::Within(inner) => write!(f, "({inner})"),
        }
    }
}
