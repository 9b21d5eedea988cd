//! [`Filter`]: a condition on entities, as it was written or built.
//!
//! Invariant: the nodes are one expression in postfix order; a list has two operands at least, none of
//! which is a list of its own kind (chains are flat lists), and a `Not` never stands on a `Not`. Nothing
//! that walks an expression recurses, so no nesting and no length is too much for the stack.

use std::str::FromStr;

use super::error::FilterError;
use crate::entity::entity::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::entity::limits::EntityLimits;
use crate::entity::value::Value;

/// A condition on the properties and keys of entities (R-D06): parsed from the text of a `$filter`,
/// or built without text. A query evaluates it on stored rows, and reads only the keys that it
/// leaves possible.
///
/// # Text
///
/// ```text
/// filter   = [ or ]                         an empty text means everything
/// or       = and *( "or" and )
/// and      = unary *( "and" unary )         and binds tighter than or
/// unary    = "not" unary | "(" or ")" | comparison | property | "true" | "false"
/// comparison = property operator constant | constant operator property
/// operator = "eq" | "ne" | "gt" | "ge" | "lt" | "le"
/// constant = 'text' (a quote is '') | 5 | 5L | 1.5 | 1e300 | 1D | NaN | INF | -INF | true | false
///          | datetime'2008-10-01T15:27:34.4838174Z' | guid'...' | X'0aff' | binary'0aff'
/// ```
///
/// A property alone stands for `property eq true`, and is none of the keys and Timestamp. Constants
/// `true` and `false`, and what is before a quote, may be in any case. An integer without suffix is
/// an Int32 if it fits, else an Int64.
/// `PartitionKey`, `RowKey` (String) and `Timestamp` (DateTime) are properties of every entity. A
/// property whose name is a word of the language is written with `@` before it: `@not eq 5`.
///
/// # Meaning
///
/// * A property that the entity does not have makes every comparison false, `ne` too; `not` of it
///   is then true.
/// * Strings compare by their UTF-8 bytes, as keys do; Guids by their text; Binary bytewise;
///   `false` before `true`; a Double that is NaN is `ne` to everything and nothing else.
/// * A constant widens to the property's type from Int32 to Int64 to Double, to the nearest Double.
///   Any other difference of types: `eq`, `gt`, `ge` are false and `ne`, `lt`, `le` are true. A
///   constant on the left side means the mirrored comparison: `5 lt Age` is `Age gt 5`.
///
/// ```
/// use tablestone::Filter;
///
/// let parsed: Filter = "PartitionKey eq 'Sales' and (Age ge 21 or not Active)".parse()?;
/// let adult = Filter::property("Age").ge(21);
/// let active = Filter::property("Active").eq(true);
/// let built = Filter::partition_key().eq("Sales").and(adult.or(!active));
/// assert_eq!(parsed, built);
/// assert_eq!(built.to_string(), "PartitionKey eq 'Sales' and (Age ge 21 or not (Active eq true))");
/// # Ok::<(), tablestone::FilterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub(super) nodes: Vec<Node>,
}

/// One step of an expression in postfix order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node<C = Comparison> {
    Constant(bool),
    Compare(C),
    /// Of the operand before it.
    Not,
    /// Of that many operands before it.
    List(Connective, usize),
}

/// A property and a constant.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    pub(super) operand: Operand,
    pub(super) operator: Operator,
    pub(super) constant: Value,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operand {
    PartitionKey,
    RowKey,
    Timestamp,
    Property(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Operator {
    pub(super) const ALL: [Self; 6] = [Self::Eq, Self::Ne, Self::Gt, Self::Ge, Self::Lt, Self::Le];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Gt => "gt",
            Self::Ge => "ge",
            Self::Lt => "lt",
            Self::Le => "le",
        }
    }

    /// With its sides exchanged.
    pub(super) const fn mirrored(self) -> Self {
        match self {
            Self::Eq => Self::Eq,
            Self::Ne => Self::Ne,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
        }
    }

    /// The one that holds of two values exactly if this one does not, where any two have an order.
    pub(super) const fn negated(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Gt => Self::Le,
            Self::Ge => Self::Lt,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
        }
    }

    /// What it says of a property of another type than the constant.
    pub(super) const fn on_other_type(self) -> bool {
        matches!(self, Self::Ne | Self::Lt | Self::Le)
    }
}

impl Operand {
    fn named(name: &str) -> Self {
        match name {
            PARTITION_KEY => Self::PartitionKey,
            ROW_KEY => Self::RowKey,
            TIMESTAMP => Self::Timestamp,
            _ => Self::Property(name.into()),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::PartitionKey => PARTITION_KEY,
            Self::RowKey => ROW_KEY,
            Self::Timestamp => TIMESTAMP,
            Self::Property(name) => name,
        }
    }
}

/// Whether an entity can have something of that name, whatever the limits are or were.
pub(super) fn is_comparable(name: &str) -> bool {
    EntityLimits::LARGEST.check_identifier(name).is_ok()
}

impl<C> Node<C> {
    /// How many of the expressions before it are its operands.
    pub(super) fn operands(&self) -> usize {
        match *self {
            Self::Constant(_) | Self::Compare(_) => 0,
            Self::Not => 1,
            Self::List(_, operands) => operands,
        }
    }

    /// For each node of an expression, how many nodes the expression has that ends at it.
    pub(super) fn lengths(nodes: &[Self]) -> Vec<usize> {
        let mut lengths: Vec<usize> = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let first = operands(&lengths, at, node.operands()).last();
            let start = first.map_or(at, |last| start(&lengths, last));
            lengths.push(at + 1 - start);
        }
        lengths
    }
}

/// The last nodes of the operands of what ends at `at`, from the last operand on.
pub(super) fn operands(lengths: &[usize], at: usize, count: usize) -> impl Iterator<Item = usize> {
    let mut end = at;
    (0..count).map(move |_| {
        let last = end.saturating_sub(1);
        end = start(lengths, last);
        last
    })
}

/// The first node of the expression that ends at `at`.
pub(super) fn start(lengths: &[usize], at: usize) -> usize {
    (at + 1).saturating_sub(lengths.get(at).copied().unwrap_or(1))
}

impl Node {
    /// A comparison with the property of that name, which is a valid one.
    pub(super) fn compare(name: &str, operator: Operator, constant: Value) -> Self {
        let constant = match constant {
            // One NaN, so that equal filters are equal.
            Value::Double(number) if number.is_nan() => Value::Double(f64::NAN),
            other => other,
        };
        Self::Compare(Comparison { operand: Operand::named(name), operator, constant })
    }
}

impl PartialEq for Comparison {
    fn eq(&self, other: &Self) -> bool {
        let constants_equal = match (&self.constant, &other.constant) {
            (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        };
        constants_equal && self.operand == other.operand && self.operator == other.operator
    }
}

impl Eq for Comparison {}

/// Both list operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connective {
    /// All of the operands.
    And,
    /// One of them at least.
    Or,
}

impl Connective {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::And => Self::Or,
            Self::Or => Self::And,
        }
    }

    /// How many operands the last operand in `nodes` is for this connective: those of a list of
    /// the same kind, which is taken apart, or one.
    pub(super) fn absorb(self, nodes: &mut Vec<Node>) -> usize {
        match nodes.last() {
            Some(&Node::List(connective, operands)) if connective == self => {
                nodes.pop();
                operands
            }
            _ => 1,
        }
    }
}

/// Negates the last operand in `nodes`.
pub(super) fn negate(nodes: &mut Vec<Node>) {
    match nodes.last() {
        Some(Node::Not) => {
            nodes.pop();
        }
        _ => nodes.push(Node::Not),
    }
}

impl Filter {
    /// Longest text of a filter, in bytes of UTF-8.
    pub const MAX_TEXT_BYTES: usize = 1 << 20;

    /// How deep parentheses and `not` may nest in a text. It is this much because clients that
    /// combine conditions pairwise put another pair of parentheses around each of a long list.
    pub const MAX_NESTING: usize = 10_000;

    /// Parses a text; [`Filter`] has the grammar. An empty text is [`everything`](Self::everything).
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        super::parse::parse(text)
    }

    /// The filter that every entity passes: `true`.
    #[must_use]
    pub fn everything() -> Self {
        Self { nodes: vec![Node::Constant(true)] }
    }

    /// The filter that no entity passes: `false`.
    #[must_use]
    pub fn nothing() -> Self {
        Self { nodes: vec![Node::Constant(false)] }
    }

    /// The property of that name, to compare it with a constant.
    ///
    /// A name that no property can have (R-D02) is as one that no entity has: comparisons are
    /// [`nothing`](Self::nothing).
    pub fn property(name: &str) -> FilterProperty<'_> {
        FilterProperty { name }
    }

    /// The PartitionKey, a String, to compare it with a constant.
    pub fn partition_key() -> FilterProperty<'static> {
        FilterProperty { name: PARTITION_KEY }
    }

    /// The RowKey, a String, to compare it with a constant.
    pub fn row_key() -> FilterProperty<'static> {
        FilterProperty { name: ROW_KEY }
    }

    /// When the entity was last written, a DateTime, to compare it with a constant.
    pub fn timestamp() -> FilterProperty<'static> {
        FilterProperty { name: TIMESTAMP }
    }

    /// The names of the properties that are asked for, keys and Timestamp among them; each as often
    /// as it is.
    ///
    /// ```
    /// let filter: tablestone::Filter = "PartitionKey eq 'Sales' and Age ge 21".parse()?;
    /// assert_eq!(filter.properties().collect::<Vec<_>>(), ["PartitionKey", "Age"]);
    /// # Ok::<(), tablestone::FilterError>(())
    /// ```
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Compare(comparison) => Some(comparison.operand.name()),
            Node::Constant(_) | Node::Not | Node::List(..) => None,
        })
    }

    /// What passes both filters.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.joined(Connective::And, other)
    }

    /// What passes one of the filters at least.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.joined(Connective::Or, other)
    }

    /// What does not pass the filter; the operator `!` is the same.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it does; chains read better with a method")]
    pub fn not(mut self) -> Self {
        negate(&mut self.nodes);
        self
    }

    fn joined(mut self, connective: Connective, mut other: Self) -> Self {
        let left = connective.absorb(&mut self.nodes);
        let right = connective.absorb(&mut other.nodes);
        self.nodes.append(&mut other.nodes);
        self.nodes.push(Node::List(connective, left + right));
        self
    }
}

impl Default for Filter {
    /// [`Filter::everything`].
    fn default() -> Self {
        Self::everything()
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl std::ops::Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        Self::not(self)
    }
}

/// A property that a [`Filter`] compares with a constant.
///
/// ```
/// use tablestone::Filter;
///
/// let filter = Filter::property("Rating").gt(1.5).or(Filter::row_key().lt("m"));
/// assert_eq!(filter, Filter::parse("Rating gt 1.5 or RowKey lt 'm'")?);
/// # Ok::<(), tablestone::FilterError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it is no filter before it is compared"]
pub struct FilterProperty<'a> {
    name: &'a str,
}

impl FilterProperty<'_> {
    /// It is equal to `constant`.
    pub fn eq(self, constant: impl Into<Value>) -> Filter {
        self.compared(Operator::Eq, constant.into())
    }

    /// It is there and not equal to `constant`.
    pub fn ne(self, constant: impl Into<Value>) -> Filter {
        self.compared(Operator::Ne, constant.into())
    }

    /// It is greater than `constant`.
    pub fn gt(self, constant: impl Into<Value>) -> Filter {
        self.compared(Operator::Gt, constant.into())
    }

    /// It is greater than or equal to `constant`.
    pub fn ge(self, constant: impl Into<Value>) -> Filter {
        self.compared(Operator::Ge, constant.into())
    }

    /// It is less than `constant`.
    pub fn lt(self, constant: impl Into<Value>) -> Filter {
        self.compared(Operator::Lt, constant.into())
    }

    /// It is less than or equal to `constant`.
    pub fn le(self, constant: impl Into<Value>) -> Filter {
        self.compared(Operator::Le, constant.into())
    }

    fn compared(self, operator: Operator, constant: Value) -> Filter {
        if !is_comparable(self.name) {
            return Filter::nothing();
        }
        Filter { nodes: vec![Node::compare(self.name, operator, constant)] }
    }
}
