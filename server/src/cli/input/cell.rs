//! The type and value of a cell of CSV.

use std::borrow::Cow;
use std::str::FromStr;

use tablestone::{DateTime, Guid, Value, ValueType};

use crate::wire::edm;

/// The type that was said of a column: `Population=Edm.Int64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ColumnType {
    pub(super) name: String,
    pub(super) value_type: ValueType,
}

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, type_name) = text.rsplit_once('=').ok_or_else(|| {
            format!("expected COLUMN=TYPE, such as Population=Edm.Int64, found {text:?}")
        })?;
        Ok(Self { name: name.to_owned(), value_type: value_type(type_name)? })
    }
}

/// The type of that name, with or without `Edm.`.
pub(super) fn value_type(name: &str) -> Result<ValueType, String> {
    let found =
        ValueType::from_edm_name(name).or_else(|| ValueType::from_edm_name(&format!("Edm.{name}")));
    found.ok_or_else(|| format!("expected a type such as Edm.Int64, found {name:?}"))
}

/// The value of that type.
pub(super) fn typed(text: &str, value_type: ValueType) -> Result<Value, String> {
    edm::parse(value_type, Cow::Borrowed(text)).map_err(|error| error.to_string())
}

/// The value that a text which is not empty looks like: whatever its type, printing the value gives
/// the text again, but for the case of `true` and trailing zeros.
pub(super) fn infer(text: &str) -> Value {
    let seems = boolean(text)
        .or_else(|| whole(text))
        .or_else(|| decimal(text))
        .or_else(|| instant(text))
        .or_else(|| guid(text));
    seems.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn boolean(text: &str) -> Option<Value> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    (is("true") || is("false")).then(|| Value::Boolean(is("true")))
}

/// Digits without leading zeros, which codes have and numbers do not.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let leads = digits == "0" && text == digits || !digits.starts_with('0');
    leads && !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
}

fn whole(text: &str) -> Option<Value> {
    if !is_whole(text) {
        return None;
    }
    let small = text.parse().ok().map(Value::Int32);
    small.or_else(|| text.parse().ok().map(Value::Int64))
}

/// Digits, a point, digits.
fn decimal(text: &str) -> Option<Value> {
    let (before, after) = text.split_once('.')?;
    let is_fraction = !after.is_empty() && after.bytes().all(|it| it.is_ascii_digit());
    let is_number = is_fraction && (is_whole(before) || before == "-0");
    let number: f64 = text.parse().ok().filter(|_| is_number)?;
    number.is_finite().then_some(Value::Double(number + 0.0))
}

/// `2001-01-01T00:01Z`: date, time and zone, which nothing else looks like.
fn instant(text: &str) -> Option<Value> {
    let looks = text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T');
    looks.then(|| text.parse::<DateTime>().ok().map(Value::DateTime))?
}

fn guid(text: &str) -> Option<Value> {
    let looks = text.len() == Guid::TEXT_LENGTH;
    looks.then(|| text.parse::<Guid>().ok().map(Value::Guid))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(texts: &[&str]) -> Vec<ValueType> {
        texts.iter().map(|text| infer(text).value_type()).collect()
    }

    #[test]
    fn a_cell_is_what_it_looks_like() {
        let all = |value_type, texts: &[&str]| {
            assert_eq!(types(texts), vec![value_type; texts.len()], "{texts:?}");
        };
        all(ValueType::Boolean, &["true", "FALSE", "True"]);
        all(ValueType::Int32, &["0", "7", "-7", "2147483647", "-2147483648"]);
        all(ValueType::Int64, &["2147483648", "-9223372036854775808"]);
        all(ValueType::Double, &["0.5", "-0.5", "12.50", "-1.0"]);
        all(ValueType::DateTime, &["2001-01-01T00:01Z", "1601-01-01T00:00:00.1234567Z"]);
        all(ValueType::Guid, &["c9da6455-213d-42c9-9a79-3e9149a57833"]);
        all(
            ValueType::String,
            &["00501", "+1", "-", "-0", "1e5", "1.", ".5", "1.2.3", "0x1F", "NaN", "1,5", " 1"],
        );
        all(ValueType::String, &["9223372036854775808", "2001-01-01", "01:02", "yes", "１"]);
        all(ValueType::String, &["2001-13-01T00:00Z", "c9da6455-213d-42c9-9a79-3e9149a5783x"]);
        assert_eq!(infer("12.50"), Value::Double(12.5));
        assert_eq!(infer("True"), Value::Boolean(true));
    }

    #[test]
    fn types_are_said_with_or_without_their_prefix() {
        let expected = ColumnType { name: "a=b".into(), value_type: ValueType::Int64 };
        assert_eq!("a=b=Edm.Int64".parse(), Ok(expected.clone()));
        assert_eq!("a=b=Int64".parse(), Ok(expected));
        let error = "a".parse::<ColumnType>().unwrap_err();
        assert!(error.contains("expected COLUMN=TYPE"), "{error}");
        let error = "a=int".parse::<ColumnType>().unwrap_err();
        assert_eq!(error, "expected a type such as Edm.Int64, found \"int\"");
    }
}
