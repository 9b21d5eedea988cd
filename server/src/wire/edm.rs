//! Values as text (protocol 3): what JSON has in strings and Atom has in elements.

use std::borrow::Cow;
use std::num::{IntErrorKind, ParseIntError};

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use tablestone::{DateTime, Guid, ParseError, Value, ValueRef, ValueType};

use crate::error::{ErrorCode, NOT_PROCESSED, ServiceError, shown};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Why a text is not a value of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It is not of the type's form.
    #[error("expected {expected}, found {found:?}")]
    Form {
        /// The type's name in OData.
        expected: &'static str,
        /// The beginning of the text.
        found: String,
    },
    /// It is a whole number that is no Int64.
    #[error("expected Edm.Int64, found {found:?}")]
    Overflow {
        /// The beginning of the text.
        found: String,
    },
    /// It is a date of before 1601, stated in UTC.
    #[error("{reason}")]
    TooEarly {
        /// What is wrong.
        reason: Box<str>,
        /// The date as the service shows it: `12/31/1600 23:59:59`.
        date: Box<str>,
    },
    /// It is no date or Guid, or another date that is out of range.
    #[error(transparent)]
    Parse(ParseError),
}

impl ValueError {
    pub(super) fn form(expected: ValueType, found: &str) -> Self {
        Self::Form { expected: expected.edm_name(), found: shown(found) }
    }

    /// Whether the text is of the right form, but the value outside of the type's range.
    #[must_use]
    pub fn is_out_of_range(&self) -> bool {
        match self {
            Self::TooEarly { .. } => true,
            Self::Parse(error) => error.is_out_of_range(),
            _ => false,
        }
    }

    pub(super) fn code(&self) -> ErrorCode {
        if self.is_out_of_range() { ErrorCode::OutOfRangeInput } else { ErrorCode::InvalidInput }
    }

    /// The service's own error of a property with this value, if it has one.
    pub(super) fn told(&self, name: &str) -> Option<ServiceError> {
        match self {
            Self::Overflow { .. } => Some(ErrorCode::InvalidInput.because(NOT_PROCESSED)),
            Self::TooEarly { date, .. } => Some(ErrorCode::OutOfRangeInput.because(format_args!(
                "The '{name}' parameter of value '{date}' is out of range."
            ))),
            _ => None,
        }
    }
}

/// The value of this type that the text shows.
pub(crate) fn parse(value_type: ValueType, text: Cow<'_, str>) -> Result<Value, ValueError> {
    let wrong = || ValueError::form(value_type, &text);
    Ok(match value_type {
        ValueType::String => Value::String(text.into_owned()),
        ValueType::Binary => Value::Binary(binary(&text).ok_or_else(wrong)?),
        ValueType::Boolean => Value::Boolean(boolean(text.trim()).ok_or_else(wrong)?),
        ValueType::DateTime => Value::DateTime(date(text.trim())?),
        ValueType::Double => Value::Double(double(text.trim()).ok_or_else(wrong)?),
        ValueType::Guid => Value::Guid(guid(text.trim()).map_err(ValueError::Parse)?),
        ValueType::Int32 => Value::Int32(text.trim().parse().map_err(|_| wrong())?),
        ValueType::Int64 => Value::Int64(int64(text.trim())?),
    })
}

fn int64(text: &str) -> Result<i64, ValueError> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
            ValueError::Overflow { found: shown(text) }
        }
        _ => ValueError::form(ValueType::Int64, text),
    })
}

fn date(text: &str) -> Result<DateTime, ValueError> {
    text.parse().map_err(|error: ParseError| match shown_date(text) {
        Some(date) if error.is_out_of_range() => {
            ValueError::TooEarly { reason: error.to_string().into(), date: shown(&date).into() }
        }
        _ => ValueError::Parse(error),
    })
}

/// A date of the right form as the service shows it; none of one with an offset or a longer year.
fn shown_date(text: &str) -> Option<String> {
    let (date, time) = text.split_once(['T', 't']).unwrap_or((text, "00:00"));
    let (year, month_and_day) = date.split_once('-').filter(|(year, _)| year.len() == 4)?;
    let (month, day) = month_and_day.split_once('-')?;
    let time = time.trim_end_matches(['Z', 'z']);
    if time.contains(['+', '-']) {
        return None;
    }
    let time = time.split_once('.').map_or(time, |(whole, _)| whole);
    let seconds = if time.len() == "00:00".len() { ":00" } else { "" };
    Some(format!("{month}/{day}/{year} {time}{seconds}"))
}

/// The text that [`parse`] reads as this value of its type.
pub(crate) fn text(value: ValueRef<'_>) -> Cow<'_, str> {
    match value {
        ValueRef::String(text) => Cow::Borrowed(text),
        ValueRef::Binary(bytes) => STANDARD.encode(bytes).into(),
        ValueRef::Boolean(value) => if value { "true" } else { "false" }.into(),
        ValueRef::DateTime(instant) => instant.to_string().into(),
        ValueRef::Double(number) => match not_a_number(number) {
            Some(name) => name.into(),
            None => ryu::Buffer::new().format_finite(number + 0.0).to_owned().into(),
        },
        ValueRef::Guid(id) => id.to_string().into(),
        ValueRef::Int32(number) => number.to_string().into(),
        ValueRef::Int64(number) => number.to_string().into(),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Base64 as .NET reads it: with padding; white space, and bits of the last digit that belong to no byte, are passed
/// over.
fn binary(text: &str) -> Option<Vec<u8>> {
    if let Ok(bytes) = BASE64.decode(text) {
        return Some(bytes);
    }
    let compact: String = text.chars().filter(|it| !it.is_ascii_whitespace()).collect();
    BASE64.decode(compact).ok()
}

/// A Guid as .NET reads it: one with hyphens may be in braces or parentheses.
fn guid(text: &str) -> Result<Guid, ParseError> {
    let within = |(open, close)| text.strip_prefix(open)?.strip_suffix(close);
    let within = [('{', '}'), ('(', ')')].into_iter().find_map(within);
    let guid = within.filter(|text| text.contains('-')).and_then(|text| text.parse().ok());
    guid.map_or_else(|| text.parse(), Ok)
}

/// The names of what is no number, or a finite number.
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ if text.bytes().all(|it| it.is_ascii_digit() || b"+-.eE".contains(&it)) => finite(text),
        _ => None,
    }
}

/// A finite number; minus zero is zero, as in the service.
pub(super) fn finite(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(number + 0.0)
}

/// The name of a Double that is no number: infinite or NaN, of which there is one.
pub(super) fn not_a_number(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_finite() => None,
        _ if number.is_nan() => Some("NaN"),
        _ if number > 0.0 => Some("Infinity"),
        _ => Some("-Infinity"),
    }
}

#[cfg(test)]
mod tests {
    use tablestone::{DateTime, Guid};

    use super::*;

    fn read(value_type: ValueType, text: &str) -> Result<Value, ErrorCode> {
        parse(value_type, text.into()).map_err(|error| error.code())
    }

    /// R-S04: what is printed is read as the same.
    #[test]
    fn r_s04_a_text_is_that_of_its_value() {
        for value in [
            Value::from("a 'b' <c>"),
            vec![0, 255].into(),
            true.into(),
            false.into(),
            DateTime::MIN.into(),
            1.5.into(),
            f64::INFINITY.into(),
            f64::NEG_INFINITY.into(),
            Guid::default().into(),
            (-1).into(),
            i64::MIN.into(),
        ] {
            let text = text(value.borrowed()).into_owned();
            assert_eq!(read(value.value_type(), &text), Ok(value), "{text}");
        }
        assert_eq!(text(ValueRef::Double(f64::NAN)), "NaN");
        assert_eq!(text(ValueRef::Double(-0.0)), "0.0");
    }

    /// XML Schema has two forms of each.
    #[test]
    fn r_s04_booleans_are_those_of_xml() {
        let boolean = |text| read(ValueType::Boolean, text);
        assert_eq!(["1", "true", "True"].map(boolean), [(); 3].map(|()| Ok(true.into())));
        assert_eq!(["0", "false", " FALSE "].map(boolean), [(); 3].map(|()| Ok(false.into())));
        let wrong = Err(ErrorCode::InvalidInput);
        assert_eq!(["", "2", "yes"].map(boolean), [(); 3].map(|()| wrong.clone()));
    }

    /// R-S05: a date of the right form that is none of the type's is out of its range, whatever the form.
    #[test]
    fn r_s05_a_date_that_is_too_early_is_out_of_range() {
        let date = |text| read(ValueType::DateTime, text).map(drop);
        for text in ["1600-12-31T23:59:59Z", "1601-01-01T00:00:00+00:01"] {
            assert_eq!(date(text), Err(ErrorCode::OutOfRangeInput), "{text}");
        }
        for text in ["", "yesterday", "2020-13-01T00:00:00Z"] {
            assert_eq!(date(text), Err(ErrorCode::InvalidInput), "{text}");
        }
        assert_eq!(date("1601-01-01T00:00:00Z"), Ok(()));
    }
}
