//! [`Lexer`]: the words, constants and signs of a filter's text.
//!
//! Invariant: a token's span is where it stands in the text, in bytes, on boundaries of
//! characters; reading never goes back, so it takes time linear in the length of the text.

use std::borrow::Cow;
use std::str::FromStr;

use super::error::{FilterError, FilterErrorKind};
use super::expr::{Operator, is_comparable};
use crate::entity::datetime::DateTime;
use crate::entity::error::ParseError;
use crate::entity::guid::Guid;
use crate::entity::value::Value;
use crate::text::unhex;

/// Begins the name of a property that would be a word of the language without it.
pub(super) const NAME_SIGN: char = '@';

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Open,
    Close,
    And,
    Or,
    Not,
    Operator(Operator),
    Name(&'a str),
    Constant(Value),
    Null,
    End,
}

/// A token and where it stands, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spanned<'a> {
    pub(super) token: Token<'a>,
    pub(super) span: (usize, usize),
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Of the next character, in bytes.
    at: usize,
}

/// What a word means; `None` if it is a name.
fn reserved(word: &str) -> Option<Token<'static>> {
    if let Some(operator) = Operator::ALL.into_iter().find(|operator| operator.name() == word) {
        return Some(Token::Operator(operator));
    }
    Some(match word {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        "null" => Token::Null,
        "NaN" => Token::Constant(Value::Double(f64::NAN)),
        "INF" => Token::Constant(Value::Double(f64::INFINITY)),
        _ if word.eq_ignore_ascii_case("true") => Token::Constant(Value::Boolean(true)),
        _ if word.eq_ignore_ascii_case("false") => Token::Constant(Value::Boolean(false)),
        _ => return None,
    })
}

/// Whether a name has to be written with [`NAME_SIGN`].
pub(super) fn is_reserved(name: &str) -> bool {
    reserved(name).is_some()
}

/// Functions of OData, which the language lacks.
const FUNCTIONS: [&str; 22] = [
    "cast",
    "ceiling",
    "concat",
    "day",
    "endswith",
    "floor",
    "hour",
    "indexof",
    "isof",
    "length",
    "minute",
    "month",
    "replace",
    "round",
    "second",
    "startswith",
    "substring",
    "substringof",
    "tolower",
    "toupper",
    "trim",
    "year",
];

/// Whether a name before a parenthesis is meant for a function.
pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// Whether words go on with this character. It is more than names may have, so that an error
/// shows the whole of what somebody meant to be one.
fn in_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric() || (!c.is_ascii() && !c.is_whitespace() && !c.is_control())
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Spanned<'a>, FilterError> {
        self.take_while(char::is_whitespace);
        let start = self.at;
        let token = match self.peek() {
            None => Token::End,
            Some('(') => self.sign(Token::Open),
            Some(')') => self.sign(Token::Close),
            Some('\'') => Token::Constant(Value::String(self.quoted()?.into_owned())),
            Some('-' | '0'..='9') => Token::Constant(self.number()?),
            Some(NAME_SIGN) => {
                self.at += NAME_SIGN.len_utf8();
                let word = self.take_while(in_word);
                self.name(start, word)?
            }
            Some(c) if in_word(c) => self.word()?,
            Some(c) => {
                self.at += c.len_utf8();
                return Err(self.syntax(start, "a property, a constant, an operator or `(`"));
            }
        };
        Ok(Spanned { token, span: (start, self.at) })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn sign(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        token
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += taken;
        rest.get(..taken).unwrap_or_default()
    }

    /// That something else is expected than what stands from `start` to here.
    #[cold]
    fn syntax(&self, start: usize, expected: impl Into<Cow<'static, str>>) -> FilterError {
        FilterError::at(self.text, (start, self.at), FilterErrorKind::Syntax, expected)
    }

    #[cold]
    fn out_of_range(&self, start: usize, expected: impl Into<Cow<'static, str>>) -> FilterError {
        let kind = FilterErrorKind::LiteralOutOfRange;
        FilterError::at(self.text, (start, self.at), kind, expected)
    }

    /// A word of the language, a constant with its type before a quote, or a name.
    fn word(&mut self) -> Result<Token<'a>, FilterError> {
        let start = self.at;
        let word = self.take_while(in_word);
        if let Some(token) = reserved(word) {
            return Ok(token);
        }
        if self.peek() != Some('\'') {
            return self.name(start, word);
        }
        let is = |prefix: &str| word.eq_ignore_ascii_case(prefix);
        if is("datetime") {
            self.parsed::<DateTime>(start).map(|value| Token::Constant(Value::DateTime(value)))
        } else if is("guid") {
            self.parsed::<Guid>(start).map(|value| Token::Constant(Value::Guid(value)))
        } else if is("X") || is("binary") {
            self.binary().map(|value| Token::Constant(Value::Binary(value)))
        } else {
            Err(self.syntax(start, "`datetime`, `guid`, `X` or `binary` before a quote"))
        }
    }

    fn name(&self, start: usize, word: &'a str) -> Result<Token<'a>, FilterError> {
        if is_comparable(word) {
            return Ok(Token::Name(word));
        }
        Err(self.syntax(start, "a property's name (an identifier of at most 65,536 characters)"))
    }

    /// The text between quotes, from the first quote on.
    fn quoted(&mut self) -> Result<Cow<'a, str>, FilterError> {
        let start = self.at;
        self.at += 1;
        let mut value = Cow::Borrowed("");
        loop {
            let piece = self.take_while(|c| c != '\'');
            if value.is_empty() {
                value = Cow::Borrowed(piece);
            } else {
                value.to_mut().push_str(piece);
            }
            if self.peek().is_none() {
                return Err(self.syntax(start, "a closing quote"));
            }
            self.at += 1;
            if self.peek() != Some('\'') {
                return Ok(value);
            }
            self.at += 1;
            value.to_mut().push('\'');
        }
    }

    /// A constant that is text of another type between quotes.
    fn parsed<T: FromStr<Err = ParseError>>(&mut self, start: usize) -> Result<T, FilterError> {
        let inside = self.at + 1;
        let value = self.quoted()?;
        value.parse().map_err(|error: ParseError| {
            let expected = error.expected().to_owned();
            if error.is_out_of_range() {
                return self.out_of_range(start, expected);
            }
            let skipped: usize = value.chars().take(error.column() - 1).map(char::len_utf8).sum();
            let from = inside + skipped;
            let found = self.text.get(from..).and_then(|rest| rest.chars().next());
            let span = (from, from + found.map_or(0, char::len_utf8));
            FilterError::at(self.text, span, FilterErrorKind::Syntax, expected)
        })
    }

    /// Pairs of hexadecimal digits between quotes.
    fn binary(&mut self) -> Result<Vec<u8>, FilterError> {
        self.at += 1;
        let bytes = unhex(self.take_while(|c| c.is_ascii_hexdigit()));
        let (end, next) = (self.at, self.peek());
        self.at += next.map_or(0, char::len_utf8);
        let bytes = bytes.filter(|_| next == Some('\''));
        bytes.ok_or_else(|| self.syntax(end, "pairs of hexadecimal digits and a closing quote"))
    }

    /// A number with its sign and suffix.
    fn number(&mut self) -> Result<Value, FilterError> {
        let start = self.at;
        let negative = self.peek() == Some('-');
        self.at += usize::from(negative);
        if negative && self.rest().starts_with("INF") {
            self.take_while(in_word);
            return match self.text.get(start..self.at) {
                Some("-INF") => Ok(Value::Double(f64::NEG_INFINITY)),
                _ => Err(self.syntax(start, "a number")),
            };
        }
        let whole = self.take_while(|c| c.is_ascii_digit());
        let mut is_double = false;
        let mut well_formed = !whole.is_empty();
        if self.peek() == Some('.') {
            self.at += 1;
            is_double = true;
            well_formed &= !self.take_while(|c| c.is_ascii_digit()).is_empty();
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.at += 1;
            is_double = true;
            self.at += usize::from(matches!(self.peek(), Some('+' | '-')));
            well_formed &= !self.take_while(|c| c.is_ascii_digit()).is_empty();
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        let suffix = self.take_while(|c| in_word(c) || c == '.');
        if !well_formed {
            return Err(self.syntax(start, "a number"));
        }
        match (suffix, is_double) {
            ("", false) => self.integer(start, digits),
            ("L" | "l", false) => self.long(start, digits),
            ("", true) | ("D" | "d", _) => self.double(start, digits),
            _ => Err(self.syntax(start, "a number: digits, and `L` or `D` for its type")),
        }
    }

    /// An Int32 if it fits, else an Int64. No Double if it does not fit that either: of an Int64
    /// property a Double constant says nothing about its size, so `A gt` a far too small integer
    /// would be false.
    fn integer(&self, start: usize, digits: &str) -> Result<Value, FilterError> {
        match digits.parse() {
            Ok(number) => Ok(Value::Int32(number)),
            Err(_) => self.long(start, digits),
        }
    }

    fn long(&self, start: usize, digits: &str) -> Result<Value, FilterError> {
        let expected = "an integer from -9223372036854775808 to 9223372036854775807, or a Double with \
                        a point, an exponent or `D`";
        let number = digits.parse().map_err(|_| self.out_of_range(start, expected));
        number.map(Value::Int64)
    }

    fn double(&self, start: usize, digits: &str) -> Result<Value, FilterError> {
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Double(number)),
            _ => Err(self.out_of_range(
                start,
                "a Double from -1.7976931348623157e308 to 1.7976931348623157e308",
            )),
        }
    }
}
