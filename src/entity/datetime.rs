//! [`DateTime`]: an instant in UTC to 100 ns, from 1601 to 9999, and its ISO-8601 text.
//!
//! Invariant: the ticks lie in the range of R-D01, so every `DateTime` has a text of four-digit
//! year. The calendar is the proleptic Gregorian one, without leap seconds.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use super::error::ParseError;
use super::text::Reader;
use crate::version::Version;

const TICKS_PER_SECOND: u64 = 10_000_000;
const TICKS_PER_MINUTE: u64 = 60 * TICKS_PER_SECOND;
const TICKS_PER_DAY: u64 = 24 * 60 * TICKS_PER_MINUTE;
/// Digits of a second's fraction that a tick resolves.
const FRACTION_DIGITS: u32 = 7;
/// What errors call the range of R-D01.
const RANGE: &str = "an instant from 1601-01-01 to 9999-12-31 in UTC";
/// Days from 0000-03-01, where the cycle of leap years is counted from, to 1601-01-01.
const DAYS_TO_FIRST_YEAR: u64 = 584_694;
const DAYS_PER_ERA: u64 = 146_097;

/// An instant in UTC: ticks of 100 ns since 1601-01-01T00:00:00Z, up to
/// 9999-12-31T23:59:59.9999999Z (R-D01).
///
/// Its text is ISO 8601 with the trailing zeros of the fraction cut, as the service writes it.
/// Text is read with `Z`, with an offset (`+02:00`) or without either, which means UTC; seconds
/// or the whole time of day may be left out; of the fraction, digits beyond the seventh are cut, as the
/// service does.
///
/// ```
/// use tablestone::DateTime;
/// let instant: DateTime = "2008-10-01T17:27:34.4838100+02:00".parse()?;
/// assert_eq!(instant.to_string(), "2008-10-01T15:27:34.48381Z");
/// let nanoseconds: DateTime = "2023-04-11T21:16:40.331047814Z".parse()?;
/// assert_eq!(nanoseconds.to_string(), "2023-04-11T21:16:40.3310478Z");
/// assert_eq!(DateTime::from_ticks(instant.ticks()), Some(instant));
/// assert!("1600-12-31T23:59:59Z".parse::<DateTime>().is_err_and(|e| e.is_out_of_range()));
/// # Ok::<(), tablestone::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(u64);

impl DateTime {
    /// 1601-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59.9999999Z.
    pub const MAX: Self = Self(2_650_467_743_999_999_999);

    /// The instant that many 100 ns ticks after 1601-01-01T00:00:00Z; `None` after
    /// [`DateTime::MAX`].
    #[must_use]
    pub const fn from_ticks(ticks: u64) -> Option<Self> {
        if ticks <= Self::MAX.0 { Some(Self(ticks)) } else { None }
    }

    /// 100 ns ticks since 1601-01-01T00:00:00Z.
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// The tick that a clock's instant is in; `None` outside of the years 1601 to 9999.
    #[must_use]
    pub fn from_system_time(time: SystemTime) -> Option<Self> {
        let version = Version::from_system_time(time);
        // Whatever is before 1601 has the version of its first tick.
        let before = version == Version::ZERO && Version::ZERO.to_system_time()? > time;
        if before { None } else { Self::from_ticks(version.ticks()) }
    }

    /// The instant on the platform's clock, as far as that reaches.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        Version::from_ticks(self.0).to_system_time()
    }

    /// Length of the longest text.
    pub const MAX_TEXT_LENGTH: usize = 28;

    /// Writes the text into a buffer: what [`Display`](fmt::Display) prints, for callers to whom
    /// formatting is too slow.
    ///
    /// ```
    /// use tablestone::DateTime;
    /// let mut buffer = [0; DateTime::MAX_TEXT_LENGTH];
    /// assert_eq!(DateTime::MIN.encode(&mut buffer), "1601-01-01T00:00:00Z");
    /// ```
    pub fn encode(self, buffer: &mut [u8; Self::MAX_TEXT_LENGTH]) -> &str {
        let (year, month, day) = civil_from_days(DAYS_TO_FIRST_YEAR + self.0 / TICKS_PER_DAY);
        let in_day = self.0 % TICKS_PER_DAY;
        let (minutes, in_minute) = (in_day / TICKS_PER_MINUTE, in_day % TICKS_PER_MINUTE);
        let (hour, minute) = (minutes / 60, minutes % 60);
        let (second, fraction) = (in_minute / TICKS_PER_SECOND, in_minute % TICKS_PER_SECOND);
        let digit = |number: u64| b'0' + (number % 10) as u8;
        #[rustfmt::skip]
        let text = [
            digit(year / 1_000), digit(year / 100), digit(year / 10), digit(year), b'-',
            digit(month / 10), digit(month), b'-', digit(day / 10), digit(day), b'T',
            digit(hour / 10), digit(hour), b':', digit(minute / 10), digit(minute), b':',
            digit(second / 10), digit(second), b'.',
            digit(fraction / 1_000_000), digit(fraction / 100_000), digit(fraction / 10_000),
            digit(fraction / 1_000), digit(fraction / 100), digit(fraction / 10), digit(fraction),
            b'Z',
        ];
        *buffer = text;
        // Before the Z, zeros of the fraction go, and with the last of them the point.
        let zeros = buffer.iter().rev().skip(1).take_while(|&&byte| byte == b'0').count();
        let end = if fraction == 0 { 19 } else { 27 - zeros };
        if let Some(last) = buffer.get_mut(end) {
            *last = b'Z';
        }
        std::str::from_utf8(buffer.get(..=end).unwrap_or_default()).unwrap_or_default()
    }

    /// Writes the text with `colon` between hours, minutes and seconds.
    pub(super) fn write(self, f: &mut fmt::Formatter<'_>, colon: &str) -> fmt::Result {
        let mut buffer = [0; Self::MAX_TEXT_LENGTH];
        for (i, part) in self.encode(&mut buffer).split(':').enumerate() {
            f.write_str(if i > 0 { colon } else { "" })?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

/// The Timestamp of an entity at this version. Versions after the year 9999, which no clock gives,
/// are [`DateTime::MAX`].
impl From<Version> for DateTime {
    fn from(version: Version) -> Self {
        Self(version.ticks().min(Self::MAX.0))
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, ":")
    }
}

impl fmt::Debug for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DateTime {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::new("DateTime", text);
        let year = reader.number(4, 0..=9999, "a year of four digits")?;
        if reader.at_digit() && is_longer_year(reader.rest()) {
            return Err(reader.out_of_range(RANGE));
        }
        reader.literal('-')?;
        let month = reader.number(2, 1..=12, "a month from 01 to 12")?;
        reader.literal('-')?;
        let day = reader.number(2, 1..=days_in_month(year, month), "a day of that month")?;
        let (mut in_day, mut offset) = (0, Offset::default());
        if reader.accepts(&['T', 't']).is_some() {
            in_day = time_of_day(&mut reader)?;
            offset = Offset::read(&mut reader)?;
        }
        reader.finish()?;
        // The range is of UTC: a year before it may be in it by the text's offset.
        days_from_civil(year, month, day)
            .and_then(|days| offset.to_utc(days * TICKS_PER_DAY + in_day))
            .and_then(|ticks| ticks.checked_sub(DAYS_TO_FIRST_YEAR * TICKS_PER_DAY))
            .and_then(Self::from_ticks)
            .ok_or_else(|| reader.out_of_range(RANGE))
    }
}

/// Whether a year goes on with one or two digits: up to six are what programs with later dates write.
fn is_longer_year(rest: &str) -> bool {
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    after.starts_with('-') && rest.len() - after.len() <= 2
}

fn time_of_day(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    let hour = reader.number(2, 0..=23, "an hour from 00 to 23")?;
    reader.literal(':')?;
    let minute = reader.number(2, 0..=59, "a minute from 00 to 59")?;
    let mut ticks = (hour * 60 + minute) * TICKS_PER_MINUTE;
    if reader.accepts(&[':']).is_some() {
        ticks += reader.number(2, 0..=59, "a second from 00 to 59")? * TICKS_PER_SECOND;
        if reader.accepts(&['.']).is_some() {
            ticks += fraction(reader)?;
        }
    }
    Ok(ticks)
}

/// The ticks of a fraction of at least one digit. Clients send nanoseconds too, which are cut.
fn fraction(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    let mut ticks = reader.number(1, 0..=9, "a digit of the fraction")?;
    let mut digits = 1;
    while digits < FRACTION_DIGITS && reader.at_digit() {
        ticks = ticks * 10 + reader.number(1, 0..=9, "a digit")?;
        digits += 1;
    }
    reader.take_while(|c| c.is_ascii_digit());
    Ok(ticks * 10u64.pow(FRACTION_DIGITS - digits))
}

/// How far the clock of the text is ahead of UTC.
#[derive(Clone, Copy, Default)]
struct Offset {
    ticks: u64,
    behind: bool,
}

impl Offset {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let Some(sign) = reader.accepts(&['Z', 'z', '+', '-']) else { return Ok(Self::default()) };
        if matches!(sign, 'Z' | 'z') {
            return Ok(Self::default());
        }
        let hours = reader.number(2, 0..=23, "an offset's hours from 00 to 23")?;
        reader.literal(':')?;
        let minutes = reader.number(2, 0..=59, "an offset's minutes from 00 to 59")?;
        Ok(Self { ticks: (hours * 60 + minutes) * TICKS_PER_MINUTE, behind: sign == '-' })
    }

    fn to_utc(self, local: u64) -> Option<u64> {
        if self.behind { local.checked_add(self.ticks) } else { local.checked_sub(self.ticks) }
    }
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-03-01, or `None` before it. Years are counted from March, so that the leap day
/// is the last day of a year and months have lengths of a pattern.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    Some(era * DAYS_PER_ERA + day_of_era)
}

/// Year, month and day that many days after 0000-03-01.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * of_era + of_era / 4 - of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + of_era + carry, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<DateTime, ParseError> {
        text.parse()
    }

    fn ticks(text: &str) -> u64 {
        parse(text).unwrap().ticks()
    }

    /// Every day from 1601 to 9999, counted one by one by the calendar's rule.
    #[test]
    fn the_calendar_is_the_gregorian_one() {
        let (mut year, mut month, mut day) = (1601, 1, 1);
        let last = DAYS_TO_FIRST_YEAR + DateTime::MAX.ticks() / TICKS_PER_DAY;
        for days in DAYS_TO_FIRST_YEAR..=last {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), Some(days));
            day += 1;
            if day > days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
        assert_eq!(days_from_civil(1600, 12, 31), Some(DAYS_TO_FIRST_YEAR - 1));
        assert_eq!((days_from_civil(0, 3, 1), days_from_civil(0, 2, 29)), (Some(0), None));
    }

    /// R-D01: the range, at the edge and one beyond; instants that other clocks agree on.
    #[test]
    fn r_d01_ticks_count_from_1601_to_9999() {
        assert_eq!(DateTime::MIN.to_string(), "1601-01-01T00:00:00Z");
        assert_eq!(DateTime::MAX.to_string(), "9999-12-31T23:59:59.9999999Z");
        assert_eq!(DateTime::from_ticks(DateTime::MAX.ticks() + 1), None);
        assert_eq!(parse("9999-12-31T23:59:59.9999999Z"), Ok(DateTime::MAX));
        assert_eq!(ticks("1970-01-01T00:00:00Z"), 116_444_736_000_000_000);
        // As .NET's DateTime.ToFileTimeUtc gives it.
        assert_eq!(ticks("2008-10-01T15:27:34.4838174Z"), 128_673_484_544_838_174);
        for text in ["1600-12-31T23:59:59.9999999Z", "1601-01-01T00:00:00+00:01", "0000-01-01"] {
            assert!(parse(text).unwrap_err().is_out_of_range(), "{text}");
        }
        assert_eq!(parse("1600-12-31T23:30:00-01:00"), parse("1601-01-01T00:30:00Z"));
        assert_eq!(parse("1600-12-31T23:59:00-00:01"), Ok(DateTime::MIN));
        assert!(parse("1600-12-31T23:58:59.9999999-00:01").unwrap_err().is_out_of_range());
        for text in ["9999-12-31T23:59:00-00:01", "10000-01-01T00:00:00Z", "123456-01-01"] {
            assert!(parse(text).unwrap_err().is_out_of_range(), "{text}");
        }
    }

    /// R-D01: a tick is what is kept of a finer fraction, however fine.
    #[test]
    fn r_d01_digits_beyond_a_tick_are_cut() {
        let nines = "9".repeat(10_000);
        for (text, expected) in [
            ("2023-04-11T21:16:40.331047814Z", "2023-04-11T21:16:40.3310478Z"),
            ("2023-04-11T23:16:40.000000099+02:00", "2023-04-11T21:16:40Z"),
            ("2023-04-11T21:16:40.99999999", "2023-04-11T21:16:40.9999999Z"),
            (&format!("9999-12-31T23:59:59.{nines}Z"), "9999-12-31T23:59:59.9999999Z"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn text_is_read_as_the_service_reads_it() {
        let expected = ticks("2000-02-29T13:05:00.0000000Z");
        for text in [
            "2000-02-29T13:05:00Z",
            "2000-02-29t13:05:00z",
            "2000-02-29T13:05:00",
            "2000-02-29T13:05",
            "2000-02-29T13:05Z",
            "2000-02-29T13:05:00.000000000000Z",
            "2000-02-29T15:05:00+02:00",
            "2000-02-28T23:35:00.0-13:30",
        ] {
            assert_eq!(ticks(text), expected, "{text}");
        }
        assert_eq!(ticks("2000-02-29"), ticks("2000-02-29T00:00:00Z"));
        assert_eq!(ticks("2000-01-01T00:00:00.12"), ticks("2000-01-01T00:00:00.1200000Z"));
    }

    #[test]
    fn what_is_no_date_is_refused_with_its_column() {
        for (text, column) in [
            ("", 1),
            ("200-01-01", 4),
            ("20000101", 5),
            ("9999999-01-01", 5),
            ("2000/01/01", 5),
            ("2000-13-01", 6),
            ("2000-00-01", 6),
            ("1900-02-29", 9),
            ("2000-04-31", 9),
            ("2000-01-01 00:00", 11),
            ("2000-01-01T", 12),
            ("2000-01-01T24:00", 12),
            ("2000-01-01T00", 14),
            ("2000-01-01T00:60", 15),
            ("2000-01-01T00:00:60", 18),
            ("2000-01-01T00:00:00.", 21),
            ("2000-01-01T00:00:00.12345678a", 29),
            ("2000-01-01T00:00:00ZZ", 21),
            ("2000-01-01T00:00:00+1", 22),
            ("2000-01-01T00:00:00+01", 23),
            ("2000-01-01T00:00:00Ä", 20),
            ("+200-01-01", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.is_out_of_range(), "{text}");
            assert_eq!(error.column(), column, "{text}: {error}");
        }
        let error = parse("2000-13-01").unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"2000-13-01\" is no DateTime: expected a month from 01 to 12 at column 6, found '1'"
        );
    }

    #[test]
    fn a_clock_and_a_version_convert() {
        let instant = parse("2024-02-29T12:00:00.0000001Z").unwrap();
        assert_eq!(DateTime::from_system_time(instant.to_system_time().unwrap()), Some(instant));
        assert_eq!(DateTime::from(Version::from_ticks(instant.ticks())), instant);
        assert_eq!(DateTime::from(Version::MAX), DateTime::MAX);
        let first = DateTime::MIN.to_system_time().unwrap();
        assert_eq!(DateTime::from_system_time(first), Some(DateTime::MIN));
        // A clock may begin there: Windows' does.
        if let Some(before) = first.checked_sub(std::time::Duration::from_nanos(100)) {
            assert_eq!(DateTime::from_system_time(before), None);
        }
        let after = DateTime::MAX.to_system_time().unwrap() + std::time::Duration::from_nanos(100);
        assert_eq!(DateTime::from_system_time(after), None);
    }

    proptest! {
        #[test]
        fn text_and_ticks_convert_both_ways(ticks in 0..=DateTime::MAX.ticks(), zeros in 0u32..8) {
            // Fractions with trailing zeros are the interesting ones.
            let instant = DateTime::from_ticks(ticks / 10u64.pow(zeros) * 10u64.pow(zeros)).unwrap();
            let text = instant.to_string();
            prop_assert_eq!(parse(&text), Ok(instant));
            prop_assert!(!text.contains("0Z") || !text.contains('.'));
        }

        #[test]
        fn any_text_is_a_date_or_an_error(text in "[0-9]{4}-[01][0-9]-[0-3][0-9]T?.{0,20}") {
            if let Ok(instant) = parse(&text) {
                prop_assert_eq!(parse(&instant.to_string()), Ok(instant));
            }
        }
    }
}
