//! The type and value of a cell of CSV.

use std::borrow::Cow;
use std::str::FromStr;

use tablestone::{DateTime, Guid, Value, ValueType};

use crate::error::shown;
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
    found.ok_or_else(|| format!("expected a type such as Edm.Int64, found {:?}", shown(name)))
}

/// The value of that type.
pub(super) fn typed(text: &str, value_type: ValueType) -> Result<Value, String> {
    edm::parse(value_type, Cow::Borrowed(text)).map_err(|error| error.to_string())
}

/// The value that a text which is not empty looks like: whatever its type, printing the value gives
/// the text again, but for the case of `true`, trailing zeros of fractions and the sign of zero. So
/// what has more digits than its type can hold is text.
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
    // Display writes all digits that tell it from others, and no exponent. As many as a Double holds in
    // any case, and the point, need not be compared.
    let keeps_digits = text.len() <= f64::DIGITS as usize + 1
        || number.to_string() == text.trim_end_matches('0').trim_end_matches('.');
    keeps_digits.then_some(Value::Double(number + 0.0))
}

/// Digits of a second that a DateTime holds.
const FRACTION_DIGITS: usize = 7;

/// `2001-01-01T00:01Z`: date, time and zone, which nothing else looks like.
fn instant(text: &str) -> Option<Value> {
    let (_, fraction) = text.strip_suffix('Z')?.split_once('.').unwrap_or_default();
    let keeps_digits = fraction.trim_end_matches('0').len() <= FRACTION_DIGITS;
    let looks = keeps_digits && text.as_bytes().get(10) == Some(&b'T');
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

    /// Digits are lost by nobody who did not say the type.
    #[test]
    fn what_has_more_digits_than_its_type_holds_is_text() {
        let all = |value_type, texts: &[&str]| {
            assert_eq!(types(texts), vec![value_type; texts.len()], "{texts:?}");
        };
        all(
            ValueType::Double,
            &[
                "0.1",
                "0.30000000000000004",
                "3.141592653589793",
                "-3.1415926535897930",
                "1234567890.12345",
                "9007199254740993000.0",
                "0.000000000000000000000123",
                "100.0",
                "0.0",
                "-0.0",
                "-0.000",
            ],
        );
        assert_eq!(infer("-0.0"), Value::Double(0.0));
        let longest = format!("{}.0", f64::MAX);
        assert_eq!(infer(&longest), Value::Double(f64::MAX));
        all(
            ValueType::String,
            &[
                "3.14159265358979323846",
                "12345678901234567.89",
                "9007199254740993.0",
                "123456789012345678.5",
                "0.1000000000000000055",
                &format!("0.{}1", "0".repeat(400)),
                &format!("1{}.0", "0".repeat(400)),
            ],
        );
        let instant = |fraction: &str| format!("2001-01-01T00:00:00.{fraction}Z");
        for fraction in ["1", "1234567", "12345670", "1234567000000", "000000000"] {
            assert_eq!(infer(&instant(fraction)).value_type(), ValueType::DateTime, "{fraction}");
        }
        for fraction in ["12345678", "00000001", "123456789", "123456700001"] {
            assert_eq!(infer(&instant(fraction)), Value::String(instant(fraction)));
        }
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
