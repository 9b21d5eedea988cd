//! [`Raw`]: a value as it stands in a body, whose annotation may come before or after it.

use std::borrow::Cow;

use tablestone::{Value, ValueType};

use super::lexer::Token;
use crate::wire::BodyValue;
use crate::wire::edm::{self, ValueError};

/// A value as it stands in the body.
#[derive(Debug)]
pub(super) enum Raw<'a> {
    String(Cow<'a, str>),
    Number(&'a str),
    Boolean(bool),
    Null,
}

impl<'a> Raw<'a> {
    /// The value that a token is, if it is one.
    #[inline]
    pub(super) fn of(token: Token<'a>) -> Option<Self> {
        Some(match token {
            Token::String(text) => Self::String(text),
            Token::Number(text) => Self::Number(text),
            Token::Boolean(value) => Self::Boolean(value),
            Token::Null => Self::Null,
            _ => return None,
        })
    }

    /// The key that it is, none inside if it is null; none if it can be no key.
    pub(super) fn key(self) -> Option<Option<Cow<'a, str>>> {
        match self {
            Self::String(text) => Some(Some(text)),
            Self::Null => Some(None),
            Self::Number(_) | Self::Boolean(_) => None,
        }
    }

    /// The value of a property with this annotation; none if it is null.
    pub(super) fn value(
        self,
        annotation: Option<ValueType>,
    ) -> Result<Option<BodyValue<'a>>, ValueError> {
        let value = match (self, annotation) {
            (Self::Null, _) => return Ok(None),
            (Self::String(Cow::Borrowed(text)), None | Some(ValueType::String)) => {
                return Ok(Some(BodyValue::Text(text)));
            }
            (Self::String(text), None) => Value::String(text.into_owned()),
            (Self::String(text), Some(value_type)) => edm::parse(value_type, text)?,
            (Self::Boolean(value), None | Some(ValueType::Boolean)) => Value::Boolean(value),
            (Self::Number(text), None) => plain_number(text)?,
            (
                Self::Number(text),
                Some(value_type @ (ValueType::Int32 | ValueType::Int64 | ValueType::Double)),
            ) => edm::parse(value_type, Cow::Borrowed(text))?,
            (raw, Some(value_type)) => return Err(ValueError::form(value_type, raw.shown())),
        };
        Ok(Some(BodyValue::Value(value)))
    }

    fn shown(&self) -> &str {
        match self {
            Self::String(text) => text,
            Self::Number(text) => text,
            Self::Boolean(true) => "true",
            Self::Boolean(false) => "false",
            Self::Null => "null",
        }
    }
}

/// A number without annotation: an Int32 if it is one, else a Double.
fn plain_number(text: &str) -> Result<Value, ValueError> {
    let whole = text.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    if whole && let Ok(number) = text.parse() {
        return Ok(Value::Int32(number));
    }
    let number = edm::finite(text).ok_or_else(|| ValueError::form(ValueType::Double, text))?;
    Ok(Value::Double(number))
}
