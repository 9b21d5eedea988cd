//! The parser: from a text to the nodes of a [`Filter`].
//!
//! What is open (parentheses, `not`, lists of `and` and `or`) is on a stack of its own, so neither
//! a long nor a deep text can overflow the thread's.

use super::error::{FilterError, FilterErrorKind};
use super::expr::{Connective, Filter, Node, Operator, negate};
use super::lex::{Lexer, Spanned, Token, is_function};
use crate::entity::entity::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::entity::value::Value;

pub(super) fn parse(text: &str) -> Result<Filter, FilterError> {
    if text.len() > Filter::MAX_TEXT_BYTES {
        return Err(FilterError::too_long(text.len()));
    }
    let mut lexer = Lexer::new(text);
    let next = lexer.next()?;
    if next.token == Token::End {
        return Ok(Filter::everything());
    }
    let parser = Parser { text, lexer, next, open: Vec::new(), nesting: 0, nodes: Vec::new() };
    Ok(Filter { nodes: parser.run()? })
}

/// What is not complete yet.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Parenthesis { span: (usize, usize), nests: bool },
    Not,
    List { connective: Connective, operands: usize },
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    next: Spanned<'a>,
    open: Vec<Open>,
    /// Parentheses and `not` among `open`; a pair of parentheses after `not` belongs to it.
    nesting: usize,
    nodes: Vec<Node>,
}

/// One side of a comparison.
enum Side<'a> {
    Property(&'a str),
    Constant(Value),
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Result<Vec<Node>, FilterError> {
        loop {
            self.operand()?;
            if self.after_operand()? {
                return Ok(self.nodes);
            }
        }
    }

    fn advance(&mut self) -> Result<Spanned<'a>, FilterError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    #[cold]
    fn error(&self, kind: FilterErrorKind, expected: &'static str) -> FilterError {
        FilterError::at(self.text, self.next.span, kind, expected)
    }

    #[cold]
    fn syntax(&self, expected: &'static str) -> FilterError {
        self.error(FilterErrorKind::Syntax, expected)
    }

    /// Opens what stands before a condition, and reads the condition.
    fn operand(&mut self) -> Result<(), FilterError> {
        loop {
            let opened = match self.next.token {
                Token::Open => {
                    let nests = self.open.last() != Some(&Open::Not);
                    Open::Parenthesis { span: self.next.span, nests }
                }
                Token::Not => Open::Not,
                _ => return self.condition(),
            };
            let nests = !matches!(opened, Open::Parenthesis { nests: false, .. });
            self.nesting += usize::from(nests);
            if self.nesting > Filter::MAX_NESTING {
                let expected = "no more than 10000 nested parentheses and `not`";
                return Err(self.error(FilterErrorKind::NestedTooDeep, expected));
            }
            self.open.push(opened);
            self.advance()?;
        }
    }

    /// A comparison, a property alone, or a Boolean constant.
    fn condition(&mut self) -> Result<(), FilterError> {
        let span = self.next.span;
        let left = self.side("a condition")?;
        let node = match (left, &self.next.token) {
            (left, &Token::Operator(operator)) => {
                self.advance()?;
                self.comparison(left, operator)?
            }
            (Side::Property(PARTITION_KEY | ROW_KEY | TIMESTAMP), _) => {
                let expected = "a comparison (keys and Timestamp are no Booleans)";
                return Err(FilterError::at(self.text, span, FilterErrorKind::NoBoolean, expected));
            }
            (Side::Property(name), _) => Node::compare(name, Operator::Eq, Value::Boolean(true)),
            (Side::Constant(Value::Boolean(value)), _) => Node::Constant(value),
            (Side::Constant(_), _) => {
                return Err(self.syntax("an operator (eq, ne, gt, ge, lt, le) after a constant"));
            }
        };
        self.nodes.push(node);
        Ok(())
    }

    fn comparison(&mut self, left: Side<'a>, operator: Operator) -> Result<Node, FilterError> {
        let right_span = self.next.span;
        let refused = |kind, expected: &'static str| {
            Err(FilterError::at(self.text, right_span, kind, expected))
        };
        match (left, self.side("a constant or a property")?) {
            (Side::Property(name), Side::Constant(value)) => {
                Ok(Node::compare(name, operator, value))
            }
            (Side::Constant(value), Side::Property(name)) => {
                Ok(Node::compare(name, operator.mirrored(), value))
            }
            (Side::Property(_), Side::Property(_)) => refused(
                FilterErrorKind::PropertyAgainstProperty,
                "a constant to compare the property with",
            ),
            (Side::Constant(_), Side::Constant(_)) => refused(
                FilterErrorKind::ConstantAgainstConstant,
                "a property to compare the constant with",
            ),
        }
    }

    fn side(&mut self, expected: &'static str) -> Result<Side<'a>, FilterError> {
        match self.next.token {
            Token::Name(_) | Token::Constant(_) => {}
            Token::Null => {
                let expected = "a constant other than null (an absent property equals nothing)";
                return Err(self.error(FilterErrorKind::NullLiteral, expected));
            }
            _ => return Err(self.syntax(expected)),
        }
        let read = self.advance()?;
        match read.token {
            Token::Name(name) if self.next.token == Token::Open && is_function(name) => {
                let expected = "a comparison without functions (a prefix is a range)";
                Err(FilterError::at(self.text, read.span, FilterErrorKind::Function, expected))
            }
            Token::Name(name) => Ok(Side::Property(name)),
            Token::Constant(value) => Ok(Side::Constant(value)),
            _ => Err(self.syntax(expected)),
        }
    }

    /// Completes what an operand completes, up to the next `and` or `or`; true at the end.
    fn after_operand(&mut self) -> Result<bool, FilterError> {
        loop {
            while self.open.last() == Some(&Open::Not) {
                self.open.pop();
                self.nesting -= 1;
                negate(&mut self.nodes);
            }
            match self.next.token {
                Token::And => self.join(Connective::And),
                Token::Or => {
                    self.complete(Connective::And);
                    self.join(Connective::Or);
                }
                Token::Close | Token::End => {
                    self.complete(Connective::And);
                    self.complete(Connective::Or);
                    match (self.open.last(), &self.next.token) {
                        (None, Token::End) => return Ok(true),
                        (Some(&Open::Parenthesis { nests, .. }), Token::Close) => {
                            self.open.pop();
                            self.nesting -= usize::from(nests);
                            self.advance()?;
                            continue;
                        }
                        _ => return Err(self.syntax(self.after_condition())),
                    }
                }
                _ => return Err(self.syntax(self.after_condition())),
            }
            self.advance()?;
            return Ok(false);
        }
    }

    /// What could follow a complete condition here.
    fn after_condition(&self) -> &'static str {
        let in_parentheses = self.open.iter().any(|open| matches!(open, Open::Parenthesis { .. }));
        if in_parentheses { "`and`, `or` or `)`" } else { "`and`, `or` or the end" }
    }

    /// Makes the last operand one of a list of this kind.
    fn join(&mut self, connective: Connective) {
        let absorbed = connective.absorb(&mut self.nodes);
        match self.open.last_mut() {
            Some(Open::List { connective: open, operands }) if *open == connective => {
                *operands += absorbed;
            }
            _ => self.open.push(Open::List { connective, operands: absorbed }),
        }
    }

    /// Ends a list of this kind, if one is open, with the last operand.
    fn complete(&mut self, connective: Connective) {
        match self.open.last() {
            Some(&Open::List { connective: open, operands }) if open == connective => {
                let absorbed = connective.absorb(&mut self.nodes);
                self.nodes.push(Node::List(connective, operands + absorbed));
                self.open.pop();
            }
            _ => {}
        }
    }
}
