//! Evaluation as the requirement words it, on a decoded entity: what tests and fuzzing hold the
//! planner and the compiled evaluator against. It shares nothing with them but the nodes.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "only tests and fuzzing run it")]

use std::cmp::Ordering;

use super::expr::{Comparison, Connective, Filter, Node, Operand, Operator};
use crate::entity::{Entity, Value};
use crate::version::Version;

/// Whether an entity passes the filter, if it was written at that version.
pub(super) fn passes(filter: &Filter, entity: &Entity, version: Version) -> bool {
    let mut operands: Vec<bool> = Vec::new();
    for node in &filter.nodes {
        let value = match node {
            Node::Constant(value) => *value,
            Node::Compare(comparison) => holds(comparison, entity, version),
            Node::Not => !operands.pop().expect("an operand"),
            Node::List(connective, n) => {
                let mut listed = operands.split_off(operands.len() - n).into_iter();
                match connective {
                    Connective::And => listed.all(|value| value),
                    Connective::Or => listed.any(|value| value),
                }
            }
        };
        operands.push(value);
    }
    assert_eq!(operands.len(), 1, "{filter:?}");
    operands[0]
}

fn holds(comparison: &Comparison, entity: &Entity, version: Version) -> bool {
    let property = match &comparison.operand {
        Operand::PartitionKey => Some(Value::from(entity.partition_key())),
        Operand::RowKey => Some(Value::from(entity.row_key())),
        Operand::Timestamp => Some(Value::DateTime(version.into())),
        Operand::Property(name) => entity.get(name).cloned(),
    };
    // An absent property makes every comparison false.
    let Some(property) = property else {
        return false;
    };
    let order = match (property, comparison.constant.clone()) {
        (Value::String(a), Value::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Binary(a), Value::Binary(b)) => Some(a.cmp(&b)),
        (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(&b)),
        (Value::DateTime(a), Value::DateTime(b)) => Some(a.ticks().cmp(&b.ticks())),
        (Value::Guid(a), Value::Guid(b)) => Some(a.to_string().cmp(&b.to_string())),
        (Value::Int32(a), Value::Int32(b)) => Some(a.cmp(&b)),
        (Value::Int64(a), Value::Int64(b)) => Some(a.cmp(&b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(&b),
        // Number literals widen towards the property.
        (Value::Int64(a), Value::Int32(b)) => Some(a.cmp(&i64::from(b))),
        (Value::Double(a), Value::Int32(b)) => a.partial_cmp(&f64::from(b)),
        (Value::Double(a), Value::Int64(b)) => a.partial_cmp(&(b as f64)),
        // Any other difference of types.
        _ => {
            return match comparison.operator {
                Operator::Eq | Operator::Gt | Operator::Ge => false,
                Operator::Ne | Operator::Lt | Operator::Le => true,
            };
        }
    };
    // NaN has no order to anything: all false but `ne`.
    match comparison.operator {
        Operator::Eq => order == Some(Ordering::Equal),
        Operator::Ne => order != Some(Ordering::Equal),
        Operator::Gt => order == Some(Ordering::Greater),
        Operator::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Operator::Lt => order == Some(Ordering::Less),
        Operator::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
    }
}
