//! One line of input as a flight, and its keys in time order and newest first.

use crate::support::BadLine;

/// What the first line must be.
pub(crate) const HEADER: &str = "date,delay,distance,origin,destination";

/// One flight.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    /// UTC minute, as `2001-01-01T00:01Z`.
    pub(crate) date: String,
    /// The same in minutes since 1970.
    pub(crate) minute: u32,
    pub(crate) delay_minutes: i16,
    pub(crate) distance_miles: u16,
    pub(crate) origin: String,
    pub(crate) destination: String,
}

impl Flight {
    /// RowKey in time order. The running number tells apart flights that agree in all else.
    pub(crate) fn row_key(&self, number: u64) -> String {
        format!("{}|{}|{number:08}", self.date, self.destination)
    }

    /// RowKey newest first: minutes counted down from the largest `u32`, so that what is new
    /// sorts to the front of its partition.
    pub(crate) fn newest_first_row_key(&self, number: u64) -> String {
        format!("{:010}|{}|{number:08}", u32::MAX - self.minute, self.destination)
    }

    /// Delay and distance in four bytes.
    pub(crate) fn value(&self) -> [u8; 4] {
        let ([a, b], [c, d]) =
            (self.delay_minutes.to_le_bytes(), self.distance_miles.to_le_bytes());
        [a, b, c, d]
    }
}

/// The delay in a stored value, in minutes.
pub(crate) fn delay_minutes(value: &[u8]) -> Option<i16> {
    value.first_chunk().copied().map(i16::from_le_bytes)
}

/// Reads the header line.
pub(crate) fn parse_header(line: &str) -> Result<(), BadLine> {
    if line == HEADER { Ok(()) } else { Err(BadLine::new(format!("{HEADER:?}"), quoted(line))) }
}

/// Reads one line.
pub(crate) fn parse(line: &str) -> Result<Flight, BadLine> {
    let fields: Vec<_> = line.split(',').collect();
    let &[date, delay, distance, origin, destination] = &*fields else {
        let expected = format!("5 fields: {HEADER}");
        return Err(BadLine::new(expected, format!("{} in {}", fields.len(), quoted(line))));
    };
    let bad = |expected: &str, found: &str| BadLine::new(expected, quoted(found));
    Ok(Flight {
        date: date.to_owned(),
        minute: minutes_since_1970(date)
            .ok_or_else(|| bad("a date as 2001-01-01T00:01Z, from 1970 on", date))?,
        delay_minutes: delay.parse().map_err(|_| bad("a delay in minutes", delay))?,
        distance_miles: distance.parse().map_err(|_| bad("a distance in miles", distance))?,
        origin: airport(origin)?,
        destination: airport(destination)?,
    })
}

fn airport(code: &str) -> Result<String, BadLine> {
    if code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Ok(code.to_owned())
    } else {
        Err(BadLine::new("an airport's code of 3 letters", quoted(code)))
    }
}

fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Minutes since 1970-01-01T00:00Z of a date written as `2001-01-01T00:01Z`.
fn minutes_since_1970(date: &str) -> Option<u32> {
    let bytes = date.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b'Z')];
    if bytes.len() != 17 || separators.iter().any(|&(at, byte)| bytes[at] != byte) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = bytes[from..to].iter().all(u8::is_ascii_digit);
        digits.then(|| date[from..to].parse().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let valid = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    (valid && hour < 24 && minute < 60)
        .then(|| (days_since_1970(year, month, day) * 24 + hour) * 60 + minute)
}

/// Days of the Gregorian calendar, counted in years that begin in March, so that a leap day is
/// the last of its year.
fn days_since_1970(year: u32, month: u32, day: u32) -> u32 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_flight() {
        let flight = parse("2001-01-01T00:01Z,-13,2176,LAS,PHL").unwrap();
        assert_eq!((flight.delay_minutes, flight.distance_miles), (-13, 2176));
        assert_eq!(flight.minute, 16_305_121);
        assert_eq!(flight.row_key(7), "2001-01-01T00:01Z|PHL|00000007");
        assert_eq!(delay_minutes(&flight.value()), Some(-13));
    }

    #[test]
    fn dates_count_minutes() {
        for (date, minutes) in [
            ("1970-01-01T00:00Z", Some(0)),
            ("1970-03-01T00:00Z", Some(59 * 1440)),
            ("2000-03-01T00:01Z", Some(11_017 * 1440 + 1)),
            ("2001-13-01T00:00Z", None),
            ("2001-01-01 00:00Z", None),
            ("2001-01-01T00:0éZ", None),
            ("1969-12-31T23:59Z", None),
        ] {
            assert_eq!(minutes_since_1970(date), minutes, "{date}");
        }
    }

    #[test]
    fn newest_first_reverses_time() {
        let [early, late] = ["2001-01-01T00:01Z", "2001-05-02T09:00Z"]
            .map(|date| parse(&format!("{date},0,1,LAS,PHL")).unwrap());
        assert!(early.newest_first_row_key(1) > late.newest_first_row_key(2));
    }

    #[test]
    fn a_bad_line_says_what_was_expected() {
        for (line, expected) in [
            ("x", "5 fields: date,delay,distance,origin,destination"),
            ("x,1,2,LAS,PHL", "a date as 2001-01-01T00:01Z, from 1970 on"),
            ("2001-01-01T00:01Z,a,2,LAS,PHL", "a delay in minutes"),
            ("2001-01-01T00:01Z,1,-2,LAS,PHL", "a distance in miles"),
            ("2001-01-01T00:01Z,1,2,LA,PHL", "an airport's code of 3 letters"),
        ] {
            assert_eq!(parse(line).unwrap_err().expected, expected, "{line}");
        }
    }
}
