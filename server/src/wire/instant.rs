//! Instants: the time, and its text in the forms that the protocol's documents have.

use std::time::SystemTime;

use tablestone::DateTime;

/// The time by the system's clock.
pub(crate) fn now() -> DateTime {
    DateTime::from_system_time(SystemTime::now()).unwrap_or(DateTime::MAX)
}

/// With all seven digits of the fraction, as access policies and errors have it: clients cut off so much. Elsewhere
/// trailing zeros are cut, as [`DateTime`] prints.
#[must_use]
pub(crate) fn with_seven_digits(instant: DateTime) -> String {
    let text = instant.to_string();
    let text = text.strip_suffix('Z').unwrap_or(&text);
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{seconds}.{fraction:0<7}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_filled_up() {
        for (text, expected) in [
            ("2009-09-28T08:49:37Z", "2009-09-28T08:49:37.0000000Z"),
            ("2009-09-28T08:49:37.12Z", "2009-09-28T08:49:37.1200000Z"),
            ("2009-09-28T08:49:37.1234567Z", "2009-09-28T08:49:37.1234567Z"),
        ] {
            assert_eq!(with_seven_digits(text.parse().expect("a date")), expected);
        }
    }
}
