//! [`FilterError`]: why a text is no filter, and where in it.

use std::borrow::Cow;
use std::fmt;

/// Why a text is not a filter: what was expected where, and what stands there (R-D06).
///
/// The service names the position behind what it found, from 0: `column - 1 + length`.
///
/// ```
/// use tablestone::{Filter, FilterErrorKind};
///
/// let error = Filter::parse("Age ge 21 und Name eq 'Ada'").unwrap_err();
/// assert_eq!(error.kind, FilterErrorKind::Syntax);
/// assert_eq!((error.column, error.length), (11, 3));
/// assert_eq!(error.to_string(), "column 11: expected `and`, `or` or the end, found `und`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: expected {expected}, found {found}")]
#[non_exhaustive]
pub struct FilterError {
    /// Where what was found begins, in characters from 1.
    pub column: usize,
    /// How many characters it has; 0 at the end of the text.
    pub length: usize,
    /// Which rule is broken.
    pub kind: FilterErrorKind,
    /// What could have stood there.
    pub expected: Cow<'static, str>,
    /// What stands there; a long text is cut.
    pub found: Box<str>,
}

/// Which rule of the filter language a text breaks: what a server must tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterErrorKind {
    /// It does not follow the grammar.
    Syntax,
    /// It compares with `null`: an absent property cannot be asked for.
    NullLiteral,
    /// It compares two properties, which the language has no meaning for.
    PropertyAgainstProperty,
    /// It compares two constants, which the language has no meaning for.
    ConstantAgainstConstant,
    /// It has a key or Timestamp for a condition, which is no Boolean in any entity.
    NoBoolean,
    /// It calls a function of OData, of which the language has none: a prefix is a range, as
    /// `RowKey ge 'abc' and RowKey lt 'abd'`.
    Function,
    /// A constant is well-formed, and beyond the range of its type.
    LiteralOutOfRange,
    /// It nests deeper than [`Filter::MAX_NESTING`](super::Filter::MAX_NESTING).
    NestedTooDeep,
    /// It is longer than [`Filter::MAX_TEXT_BYTES`](super::Filter::MAX_TEXT_BYTES).
    TextTooLong,
}

/// Characters of the text that an error repeats.
const FOUND_CHARACTERS: usize = 40;

impl FilterError {
    /// About the bytes from `start` to `end` of `text`.
    pub(super) fn at(
        text: &str,
        (start, end): (usize, usize),
        kind: FilterErrorKind,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        let before = text.get(..start).unwrap_or(text);
        let found = text.get(start..end).unwrap_or_default();
        Self {
            column: before.chars().count() + 1,
            length: found.chars().count(),
            kind,
            expected: expected.into(),
            found: shown(found),
        }
    }

    pub(super) fn too_long(bytes: usize) -> Self {
        let limit = super::Filter::MAX_TEXT_BYTES;
        Self {
            column: 1,
            length: 0,
            kind: FilterErrorKind::TextTooLong,
            expected: format!("at most {limit} bytes").into(),
            found: format!("{bytes} bytes").into(),
        }
    }
}

fn shown(found: &str) -> Box<str> {
    if found.is_empty() {
        return "the end of the text".into();
    }
    match found.char_indices().nth(FOUND_CHARACTERS) {
        Some((cut, _)) => format!("`{}...`", found.get(..cut).unwrap_or_default()).into(),
        None => format!("`{found}`").into(),
    }
}

impl fmt::Display for FilterErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "syntax error",
            Self::NullLiteral => "comparison with null",
            Self::PropertyAgainstProperty => "property compared with property",
            Self::ConstantAgainstConstant => "constant compared with constant",
            Self::NoBoolean => "condition that is no Boolean",
            Self::Function => "function",
            Self::LiteralOutOfRange => "constant out of range",
            Self::NestedTooDeep => "nested too deep",
            Self::TextTooLong => "text too long",
        })
    }
}
