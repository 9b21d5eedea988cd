//! Simplification: an equivalent filter without constants, without `not` except on properties, and
//! without lists inside of lists of their kind.
//!
//! Keys and Timestamp are never absent, so `not` of a comparison with one is the opposite
//! comparison, and a comparison with a constant of another type is a constant. Of a property
//! neither holds: if it is absent, the comparison is false and `not` of it true.

use super::expr::{Comparison, Connective, Filter, Node, Operand};
use crate::entity::value::{Value, ValueType};

impl Filter {
    /// An equivalent filter in which `Not` stands on comparisons with properties only, lists are of
    /// the other kind than the list around them, and constants are only the whole filter.
    pub(super) fn simplified(&self) -> Self {
        let lengths = self.operand_lengths();
        let known = self.known();
        let root = self.nodes.len().saturating_sub(1);
        if let Some(&Some(value)) = known.get(root) {
            return Self { nodes: vec![Node::Constant(value)] };
        }
        let mut normal =
            Normal { filter: self, lengths, known, nodes: Vec::new(), visits: Vec::new() };
        normal.visits.push(Visit { at: root, negated: false, list: None });
        while let Some(visit) = normal.visits.pop() {
            normal.visit(visit);
        }
        // What was taken from the end to the beginning.
        normal.nodes.reverse();
        Self { nodes: normal.nodes }
    }

    /// For each node, what the expression that ends at it is for every entity, if it is the same.
    fn known(&self) -> Vec<Option<bool>> {
        let mut all: Vec<Option<bool>> = Vec::with_capacity(self.nodes.len());
        let mut operands: Vec<Option<bool>> = Vec::new();
        for node in &self.nodes {
            let mut last = |count: usize| operands.split_off(operands.len().saturating_sub(count));
            let value = match *node {
                Node::Constant(value) => Some(value),
                Node::Compare(ref comparison) => comparison.known(),
                Node::Not => last(1).first().copied().flatten().map(|value| !value),
                Node::And(count) => decided(&last(count), Connective::And),
                Node::Or(count) => decided(&last(count), Connective::Or),
            };
            all.push(value);
            operands.push(value);
        }
        all
    }
}

/// What a list is if these are its operands.
fn decided(operands: &[Option<bool>], connective: Connective) -> Option<bool> {
    let deciding = connective == Connective::Or;
    if operands.contains(&Some(deciding)) {
        Some(deciding)
    } else if operands.contains(&None) {
        None
    } else {
        Some(!deciding)
    }
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

    /// What the PartitionKey or RowKey is compared with.
    pub(super) fn key_text(&self) -> Option<&str> {
        match (&self.operand, &self.constant) {
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
    nodes: Vec<Node>,
    visits: Vec<Visit>,
}

impl Normal<'_> {
    fn visit(&mut self, visit: Visit) {
        let filter = self.filter;
        match filter.nodes.get(visit.at) {
            Some(Node::Compare(comparison)) => self.comparison(comparison, visit),
            Some(Node::Not) => {
                let at = visit.at.saturating_sub(1);
                self.visits.push(Visit { at, negated: !visit.negated, ..visit });
            }
            Some(&Node::And(operands)) => self.list(Connective::And, operands, visit),
            Some(&Node::Or(operands)) => self.list(Connective::Or, operands, visit),
            // Known, so nobody visits it.
            Some(Node::Constant(_)) | None => {}
        }
    }

    fn comparison(&mut self, comparison: &Comparison, visit: Visit) {
        self.count_in(visit.list);
        let mut comparison = comparison.clone();
        if visit.negated {
            match comparison.operand {
                Operand::Property(_) => self.nodes.push(Node::Not),
                _ => comparison.operator = comparison.operator.negated(),
            }
        }
        self.nodes.push(Node::Compare(comparison));
    }

    fn list(&mut self, connective: Connective, operands: usize, visit: Visit) {
        let connective = if visit.negated { connective.other() } else { connective };
        let mut undecided: Vec<usize> = self.operands(visit.at, operands);
        undecided.retain(|&at| self.known.get(at) == Some(&None));
        let list = match (undecided.len(), visit.list.and_then(|list| self.nodes.get(list))) {
            (1, _) => visit.list,
            (_, Some(Node::And(_))) if connective == Connective::And => visit.list,
            (_, Some(Node::Or(_))) if connective == Connective::Or => visit.list,
            _ => {
                self.count_in(visit.list);
                self.nodes.push(connective.node(0));
                Some(self.nodes.len() - 1)
            }
        };
        // The last operand is copied first, so it goes on top.
        let visits = undecided.into_iter().rev();
        self.visits.extend(visits.map(|at| Visit { at, negated: visit.negated, list }));
    }

    /// The last nodes of the operands of the list that ends at `at`, from the last operand on.
    fn operands(&self, at: usize, count: usize) -> Vec<usize> {
        let mut end = at;
        let mut last_nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let last = end.saturating_sub(1);
            last_nodes.push(last);
            end = end.saturating_sub(self.lengths.get(last).copied().unwrap_or(1));
        }
        last_nodes
    }

    fn count_in(&mut self, list: Option<usize>) {
        let list = list.and_then(|list| self.nodes.get_mut(list));
        if let Some(Node::And(operands) | Node::Or(operands)) = list {
            *operands += 1;
        }
    }
}
