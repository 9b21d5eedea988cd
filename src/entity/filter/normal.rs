//! Simplification: an equivalent filter without constants, without `not` except on properties, and
//! without lists inside of lists of their kind.
//!
//! Keys and Timestamp are never absent, so `not` of a comparison with one is the opposite
//! comparison, and a comparison with a constant of another type is a constant. Of a property
//! neither holds: if it is absent, the comparison is false and `not` of it true.

use super::expr::{self, Comparison, Connective, Filter, Node, Operand, Operator};
use crate::entity::value::{Value, ValueType};

/// A filter in normal form, of the parts of another: `Not` stands on comparisons with properties only, lists
/// are of the other kind than the list around them, and constants are only the whole filter.
#[derive(Clone, Debug)]
pub(super) struct Simplified<'a> {
    pub(super) nodes: Vec<Node<Term<'a>>>,
}

/// A comparison of a filter, perhaps with the opposite operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term<'a> {
    pub(super) operand: &'a Operand,
    pub(super) operator: Operator,
    pub(super) constant: &'a Value,
}

impl Filter {
    /// An equivalent filter in normal form.
    pub(super) fn simplified(&self) -> Simplified<'_> {
        let lengths = Node::lengths(&self.nodes);
        let known = self.known(&lengths);
        let root = self.nodes.len().saturating_sub(1);
        if let Some(&Some(value)) = known.get(root) {
            return Simplified { nodes: vec![Node::Constant(value)] };
        }
        let (nodes, visits) = (Vec::with_capacity(known.len()), Vec::with_capacity(known.len()));
        let mut normal = Normal { filter: self, lengths, known, nodes, visits };
        normal.visits.push(Visit { at: root, negated: false, list: None });
        while let Some(visit) = normal.visits.pop() {
            normal.visit(visit);
        }
        // What was taken from the end to the beginning.
        normal.nodes.reverse();
        Simplified { nodes: normal.nodes }
    }

    /// For each node, what the expression that ends at it is for every entity, if it is the same.
    fn known(&self, lengths: &[usize]) -> Vec<Option<bool>> {
        let mut all: Vec<Option<bool>> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            let operands = expr::operands(lengths, at, node.operands());
            let mut operands = operands.map(|operand| all.get(operand).copied().flatten());
            let value = match *node {
                Node::Constant(value) => Some(value),
                Node::Compare(ref comparison) => comparison.known(),
                Node::Not => operands.next().flatten().map(|value| !value),
                Node::List(connective, _) => decided(operands, connective),
            };
            all.push(value);
        }
        all
    }
}

/// What a list is if these are its operands.
fn decided(operands: impl Iterator<Item = Option<bool>>, connective: Connective) -> Option<bool> {
    let deciding = connective == Connective::Or;
    let mut all = Some(!deciding);
    for operand in operands {
        match operand {
            Some(value) if value == deciding => return Some(deciding),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

impl Comparison {
    fn known(&self) -> Option<bool> {
        let operand_type = match self.operand {
            Operand::PartitionKey | Operand::RowKey => ValueType::String,
            Operand::Timestamp => ValueType::DateTime,
            Operand::Property(_) => return None,
        };
        (self.constant.value_type() != operand_type).then_some(self.operator.on_other_type())
    }
}

impl Simplified<'_> {
    pub(super) fn to_filter(&self) -> Filter {
        Filter { nodes: self.nodes.iter().map(Node::to_owned).collect() }
    }
}

impl Node<Term<'_>> {
    pub(super) fn to_owned(&self) -> Node {
        match *self {
            Self::Constant(value) => Node::Constant(value),
            Self::Compare(Term { operand, operator, constant }) => {
                let (operand, constant) = (operand.clone(), constant.clone());
                Node::Compare(Comparison { operand, operator, constant })
            }
            Self::Not => Node::Not,
            Self::List(connective, operands) => Node::List(connective, operands),
        }
    }
}

impl<'a> Term<'a> {
    /// What the PartitionKey or RowKey is compared with.
    pub(super) fn key_text(self) -> Option<&'a str> {
        match (self.operand, self.constant) {
            (Operand::PartitionKey | Operand::RowKey, Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// An expression to be copied.
#[derive(Clone, Copy)]
struct Visit {
    /// Its last node.
    at: usize,
    negated: bool,
    /// The list that it is an operand of, by its place in the copy.
    list: Option<usize>,
}

/// Copies expressions from their ends to their beginnings.
struct Normal<'a> {
    filter: &'a Filter,
    lengths: Vec<usize>,
    known: Vec<Option<bool>>,
    nodes: Vec<Node<Term<'a>>>,
    visits: Vec<Visit>,
}

impl<'a> Normal<'a> {
    fn visit(&mut self, visit: Visit) {
        let filter = self.filter;
        match filter.nodes.get(visit.at) {
            Some(Node::Compare(comparison)) => self.comparison(comparison, visit),
            Some(Node::Not) => {
                let at = visit.at.saturating_sub(1);
                self.visits.push(Visit { at, negated: !visit.negated, ..visit });
            }
            Some(&Node::List(connective, operands)) => self.list(connective, operands, visit),
            // Known, so nobody visits it.
            Some(Node::Constant(_)) | None => {}
        }
    }

    fn comparison(&mut self, comparison: &'a Comparison, visit: Visit) {
        self.count_in(visit.list);
        let Comparison { operand, operator, constant } = comparison;
        let mut operator = *operator;
        if visit.negated {
            match operand {
                Operand::Property(_) => self.nodes.push(Node::Not),
                _ => operator = operator.negated(),
            }
        }
        self.nodes.push(Node::Compare(Term { operand, operator, constant }));
    }

    fn list(&mut self, connective: Connective, operands: usize, visit: Visit) {
        let connective = if visit.negated { connective.other() } else { connective };
        let first = self.visits.len();
        let undecided = expr::operands(&self.lengths, visit.at, operands)
            .filter(|&at| self.known.get(at) == Some(&None));
        self.visits.extend(undecided.map(|at| Visit { at, ..visit }));
        let list =
            match (self.visits.len() - first, visit.list.and_then(|list| self.nodes.get(list))) {
                (1, _) => visit.list,
                (_, Some(&Node::List(around, _))) if around == connective => visit.list,
                _ => {
                    self.count_in(visit.list);
                    self.nodes.push(Node::List(connective, 0));
                    Some(self.nodes.len() - 1)
                }
            };
        let visits = self.visits.get_mut(first..).unwrap_or_default();
        visits.iter_mut().for_each(|visit| visit.list = list);
        // The last operand is copied first, so it goes on top.
        visits.reverse();
    }

    fn count_in(&mut self, list: Option<usize>) {
        let list = list.and_then(|list| self.nodes.get_mut(list));
        if let Some(Node::List(_, operands)) = list {
            *operands += 1;
        }
    }
}
