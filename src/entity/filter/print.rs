//! `Display` of a [`Filter`]: text that parses to the same filter.
//!
//! A filter that was built deeper than [`Filter::MAX_NESTING`], or whose text is longer than
//! [`Filter::MAX_TEXT_BYTES`], prints all the same; only parsing refuses it.

use std::fmt::{self, Write};

use super::expr::{self, Comparison, Connective, Filter, Node};
use super::lex::{NAME_SIGN, is_reserved};
use crate::entity::value::Value;
use crate::text::Hex;

/// What is left to print, the next on top.
enum Piece {
    /// The expression that ends at this node.
    Expression(usize),
    /// The same as an operand of `not` or of an `and`: in parentheses if it has to be.
    Operand(usize),
    Text(&'static str),
}

/// The text that [`Filter::parse`](Self::parse) takes.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = Node::lengths(&self.nodes);
        let mut pieces: Vec<Piece> =
            self.nodes.len().checked_sub(1).map(Piece::Expression).into_iter().collect();
        while let Some(piece) = pieces.pop() {
            let (at, is_operand) = match piece {
                Piece::Text(text) => {
                    f.write_str(text)?;
                    continue;
                }
                Piece::Expression(at) => (at, false),
                Piece::Operand(at) => (at, true),
            };
            let Some(node) = self.nodes.get(at) else {
                return Err(fmt::Error);
            };
            match *node {
                Node::Constant(value) => write!(f, "{value}")?,
                Node::Compare(ref comparison) => write!(f, "{comparison}")?,
                Node::Not => {
                    pieces.push(Piece::Text(")"));
                    pieces.push(Piece::Expression(at.saturating_sub(1)));
                    pieces.push(Piece::Text("not ("));
                }
                Node::List(connective, operands) => {
                    let in_parentheses = is_operand && connective == Connective::Or;
                    if in_parentheses {
                        pieces.push(Piece::Text(")"));
                    }
                    push_list(&mut pieces, connective, at, operands, &lengths);
                    if in_parentheses {
                        pieces.push(Piece::Text("("));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Pushes the operands of the list that ends at `at`, the first on top.
fn push_list(
    pieces: &mut Vec<Piece>,
    connective: Connective,
    at: usize,
    operands: usize,
    lengths: &[usize],
) {
    for (after, last) in expr::operands(lengths, at, operands).enumerate() {
        if after > 0 {
            pieces.push(Piece::Text(match connective {
                Connective::And => " and ",
                Connective::Or => " or ",
            }));
        }
        pieces.push(match connective {
            Connective::And => Piece::Operand(last),
            Connective::Or => Piece::Expression(last),
        });
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.operand.name();
        if is_reserved(name) {
            f.write_char(NAME_SIGN)?;
        }
        write!(f, "{name} {} ", self.operator.name())?;
        match &self.constant {
            Value::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Value::Binary(bytes) => write!(f, "X'{}'", Hex(bytes)),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::DateTime(value) => write!(f, "datetime'{value}'"),
            Value::Double(number) if number.is_nan() => f.write_str("NaN"),
            Value::Double(f64::INFINITY) => f.write_str("INF"),
            Value::Double(f64::NEG_INFINITY) => f.write_str("-INF"),
            // With a point or an exponent, always.
            Value::Double(number) => write!(f, "{number:?}"),
            Value::Guid(value) => write!(f, "guid'{value}'"),
            Value::Int32(number) => write!(f, "{number}"),
            Value::Int64(number) => write!(f, "{number}L"),
        }
    }
}
