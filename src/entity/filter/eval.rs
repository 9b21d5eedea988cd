//! [`CompiledFilter`]: a filter evaluated on stored rows.
//!
//! Every comparison knows where to go on if it holds and if it does not, so evaluation walks from
//! comparison to comparison, forward only, and looks at no property that does not decide.
//! Invariant: nothing is allocated and nothing is decoded but the values compared.

use super::expr::{self, Connective, Filter, Node, Operand, Operator};
use super::normal::{Simplified, Term};
use crate::entity::RowError;
use crate::entity::codec::{EncodedRow, PropertyName, RawValue, Slot};
use crate::entity::datetime::DateTime;
use crate::entity::guid::Guid;
use crate::entity::value::Value;
use crate::version::Version;

/// A filter in the form that is evaluated. It remembers where it found properties in the row
/// before, so a scan has one of its own.
#[derive(Clone, Debug)]
pub(crate) struct CompiledFilter {
    tests: Box<[Test]>,
    start: Target,
}

/// A row in its stored form, with what is not in the row's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredRow<'a> {
    pub(crate) partition_key: &'a [u8],
    pub(crate) row_key: &'a [u8],
    pub(crate) version: Version,
    pub(crate) bytes: &'a [u8],
}

/// Index of the comparison to go on with. Beyond the last one is the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target(usize);

impl Target {
    /// The row matches.
    const ACCEPT: Self = Self(usize::MAX);
    /// It does not.
    const REJECT: Self = Self(usize::MAX - 1);
}

#[derive(Clone, Debug)]
struct Test {
    subject: Subject,
    operator: Operator,
    constant: Constant,
    on_true: Target,
    on_false: Target,
}

#[derive(Clone, Debug)]
enum Subject {
    PartitionKey,
    RowKey,
    Timestamp,
    Property { name: PropertyName, hint: Slot },
}

/// A constant, in all types that it widens to.
#[derive(Clone, Debug)]
enum Constant {
    String(Box<[u8]>),
    Binary(Box<[u8]>),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32 { narrow: i32, wide: i64, double: f64 },
    Int64 { wide: i64, double: f64 },
}

impl CompiledFilter {
    pub(crate) fn new(filter: &Filter) -> Self {
        let filter = filter.simplified();
        let lengths = Node::lengths(&filter.nodes);
        let layout = Layout::of(&filter, &lengths);
        let mut tests: Vec<Test> = Vec::new();
        let root = filter.nodes.len().saturating_sub(1);
        let mut visits =
            vec![Visit { at: root, on_true: Target::ACCEPT, on_false: Target::REJECT }];
        // From the last comparison to the first.
        while let Some(visit) = visits.pop() {
            match filter.nodes.get(visit.at) {
                Some(Node::Compare(term)) => tests.push(Test::new(term, visit)),
                Some(Node::Not) => visits.push(Visit {
                    at: visit.at.saturating_sub(1),
                    on_true: visit.on_false,
                    on_false: visit.on_true,
                }),
                Some(&Node::List(connective, count)) => {
                    layout.list(connective, count, visit, &mut visits);
                }
                // A constant is the whole filter, if it is there.
                Some(Node::Constant(true)) => return Self::always(Target::ACCEPT),
                Some(Node::Constant(false)) | None => return Self::always(Target::REJECT),
            }
        }
        tests.reverse();
        Self { tests: tests.into(), start: Target(0) }
    }

    fn always(start: Target) -> Self {
        Self { tests: Box::default(), start }
    }

    /// Whether a row passes.
    ///
    /// # Errors
    /// If the bytes are no row, as far as they are looked at.
    pub(crate) fn matches(&mut self, row: StoredRow<'_>) -> Result<bool, RowError> {
        let mut parsed = None;
        let mut next = self.start;
        while let Some(test) = self.tests.get_mut(next.0) {
            let holds = match &mut test.subject {
                Subject::Property { name, hint } => {
                    let properties = match parsed {
                        Some(properties) => properties,
                        None => *parsed.insert(EncodedRow::parse(row.bytes)?),
                    };
                    match properties.find(name, hint)? {
                        Some(slot) => test.constant.holds(properties.raw(slot)?, test.operator),
                        None => false,
                    }
                }
                Subject::PartitionKey => {
                    test.constant.holds(RawValue::String(row.partition_key), test.operator)
                }
                Subject::RowKey => {
                    test.constant.holds(RawValue::String(row.row_key), test.operator)
                }
                Subject::Timestamp => {
                    test.constant.holds(RawValue::DateTime(row.version.into()), test.operator)
                }
            };
            next = if holds { test.on_true } else { test.on_false };
        }
        Ok(next == Target::ACCEPT)
    }
}

/// An expression to compile, and where to go on after it.
#[derive(Clone, Copy)]
struct Visit {
    /// Its last node.
    at: usize,
    on_true: Target,
    on_false: Target,
}

/// Where expressions begin.
struct Layout<'a> {
    lengths: &'a [usize],
    /// For each node, the number of comparisons before it.
    comparisons: Vec<usize>,
}

impl<'a> Layout<'a> {
    fn of(filter: &Simplified<'_>, lengths: &'a [usize]) -> Self {
        let mut before = 0;
        let counted = filter.nodes.iter().map(|node| {
            let comparisons = before;
            before += usize::from(matches!(node, Node::Compare(_)));
            comparisons
        });
        Self { comparisons: counted.collect(), lengths }
    }

    /// The first comparison of the expression that ends at this node.
    fn first(&self, at: usize) -> Target {
        let first_node = expr::start(self.lengths, at);
        Target(self.comparisons.get(first_node).copied().unwrap_or_default())
    }

    /// Visits the operands of the list that ends where `list` says, the last one next.
    fn list(&self, connective: Connective, count: usize, list: Visit, visits: &mut Vec<Visit>) {
        let first = visits.len();
        let mut after = None;
        for at in expr::operands(self.lengths, list.at, count) {
            let (on_true, on_false) = match (connective, after) {
                (_, None) => (list.on_true, list.on_false),
                (Connective::And, Some(after)) => (after, list.on_false),
                (Connective::Or, Some(after)) => (list.on_true, after),
            };
            visits.push(Visit { at, on_true, on_false });
            after = Some(self.first(at));
        }
        if let Some(operands) = visits.get_mut(first..) {
            operands.reverse();
        }
    }
}

impl Test {
    fn new(term: &Term<'_>, visit: Visit) -> Self {
        let subject = match term.operand {
            Operand::PartitionKey => Subject::PartitionKey,
            Operand::RowKey => Subject::RowKey,
            Operand::Timestamp => Subject::Timestamp,
            Operand::Property(name) => {
                Subject::Property { name: PropertyName::new(name), hint: Slot::default() }
            }
        };
        Self {
            subject,
            operator: term.operator,
            constant: Constant::new(term.constant),
            on_true: visit.on_true,
            on_false: visit.on_false,
        }
    }
}

impl Constant {
    fn new(value: &Value) -> Self {
        match *value {
            Value::String(ref text) => Self::String(text.as_bytes().into()),
            Value::Binary(ref bytes) => Self::Binary(bytes[..].into()),
            Value::Boolean(value) => Self::Boolean(value),
            Value::DateTime(value) => Self::DateTime(value),
            Value::Double(number) => Self::Double(number),
            Value::Guid(value) => Self::Guid(value),
            Value::Int32(n) => Self::Int32 { narrow: n, wide: n.into(), double: n.into() },
            // To the nearest Double, as R-D06 has it.
            Value::Int64(n) => Self::Int64 { wide: n, double: n as f64 },
        }
    }

    /// Whether a property of this value compares so with the constant.
    #[inline]
    fn holds(&self, value: RawValue<'_>, operator: Operator) -> bool {
        match (value, self) {
            (RawValue::String(a), Self::String(b)) => operator.holds(a, b),
            (RawValue::Binary(a), Self::Binary(b)) => operator.holds(a, b),
            (RawValue::Boolean(a), Self::Boolean(b)) => operator.holds(&a, b),
            (RawValue::DateTime(a), Self::DateTime(b)) => operator.holds(&a, b),
            (RawValue::Guid(a), Self::Guid(b)) => operator.holds(&a, b),
            (RawValue::Int32(a), Self::Int32 { narrow, .. }) => operator.holds(&a, narrow),
            (RawValue::Int64(a), Self::Int32 { wide, .. } | Self::Int64 { wide, .. }) => {
                operator.holds(&a, wide)
            }
            (
                RawValue::Double(a),
                Self::Double(double) | Self::Int32 { double, .. } | Self::Int64 { double, .. },
            ) => operator.holds(&a, double),
            _ => operator.on_other_type(),
        }
    }
}

impl Operator {
    /// Whether two values of one type compare so; of NaN nothing holds but `ne`.
    #[inline]
    fn holds<T: PartialOrd + ?Sized>(self, a: &T, b: &T) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
            Self::Lt => a < b,
            Self::Le => a <= b,
        }
    }
}
