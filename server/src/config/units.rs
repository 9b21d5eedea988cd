//! Sizes, times and addresses as people write them: `256MiB`, `30s`, `127.0.0.1:10002`.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use tablestone::{Compression, Durability};

/// Why a text is no size, no time, no durability, no compression or no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: expected {expected}")]
pub struct UnitError {
    what: &'static str,
    text: Box<str>,
    expected: &'static str,
}

/// A number of bytes: `65536`, `64KiB`, `16MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(usize);

impl Size {
    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text);
        let factor = match unit {
            "" | "B" => 1,
            "KiB" | "K" => 1 << 10,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            _ => 0,
        };
        let bytes = number.and_then(|number| number.checked_mul(factor));
        let bytes = bytes.filter(|_| factor > 0).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| UnitError {
            what: "size",
            text: text.into(),
            expected: "a number of bytes, or of KiB, MiB or GiB, such as 64MiB",
        })
    }
}

impl From<u64> for Size {
    fn from(bytes: u64) -> Self {
        Self(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

/// A length of time: `250ms`, `30s`, `5min`; a number alone is of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(Duration);

impl Time {
    /// The time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text);
        let time = number.and_then(|number| match unit {
            "ms" => Some(Duration::from_millis(number)),
            "" | "s" => Some(Duration::from_secs(number)),
            "min" | "m" => number.checked_mul(60).map(Duration::from_secs),
            "h" => number.checked_mul(3600).map(Duration::from_secs),
            _ => None,
        });
        time.filter(|time| !time.is_zero()).map(Self).ok_or_else(|| UnitError {
            what: "time",
            text: text.into(),
            expected: "a number of ms, s, min or h above zero, such as 30s",
        })
    }
}

impl From<u64> for Time {
    fn from(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

/// Reads `sync`, `os`, or the interval between syncs.
///
/// # Errors
/// [`UnitError`] if it is neither.
pub fn parse_durability(text: &str) -> Result<Durability, UnitError> {
    match text {
        "sync" => Ok(Durability::Sync),
        "os" => Ok(Durability::Os),
        interval => match interval.parse::<Time>() {
            Ok(Time(interval)) => Ok(Durability::Interval(interval)),
            Err(_) => Err(UnitError {
                what: "durability",
                text: text.into(),
                expected: "sync, os, or the time between syncs, such as 100ms",
            }),
        },
    }
}

/// Reads `automatic`, `none`, or `zstd` with a level of 1 to 19 after a colon, if it is not 1.
///
/// # Errors
/// [`UnitError`] if it is none of these.
pub fn parse_compression(text: &str) -> Result<Compression, UnitError> {
    let zstd = |level: &str| level.parse().ok().filter(|level| (1..=19).contains(level));
    let level = match text {
        "automatic" => return Ok(Compression::Automatic),
        "none" => return Ok(Compression::None),
        "zstd" => Some(1),
        text => text.strip_prefix("zstd:").and_then(zstd),
    };
    level.map(Compression::Zstd).ok_or_else(|| UnitError {
        what: "compression",
        text: text.into(),
        expected: "automatic, none, zstd, or zstd:LEVEL with a level of 1 to 19",
    })
}

/// Reads an address to listen on.
///
/// # Errors
/// [`UnitError`] if it is none.
pub fn parse_address(text: &str) -> Result<SocketAddr, UnitError> {
    text.parse().map_err(|_| UnitError {
        what: "address to listen on",
        text: text.into(),
        expected: "an IP address and a port, such as 127.0.0.1:10002 or [::1]:10002",
    })
}

/// A number and what follows it.
fn split(text: &str) -> (Option<u64>, &str) {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    (number.parse().ok(), unit.trim_start())
}

/// Reads what a file has as a text or as a number.
struct TextOrNumber<T>(PhantomData<T>);

impl<T: FromStr<Err = UnitError> + From<u64>> Visitor<'_> for TextOrNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text of a number and a unit")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        u64::try_from(number).map(T::from).map_err(|_| E::custom("expected a number above zero"))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Ok(number.into())
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        let size = |text: &str| text.parse().map(Size::bytes).ok();
        assert_eq!(size("65536"), Some(65_536));
        assert_eq!(
            (size("64KiB"), size("3 MiB"), size("1G")),
            (Some(65_536), Some(3 << 20), Some(1 << 30))
        );
        for text in
            ["", "KiB", "-1", "1.5GiB", "1TiB", "99999999999999999999", "18446744073709551615K"]
        {
            assert_eq!(size(text), None, "{text}");
        }
        let time = |text: &str| text.parse().map(Time::duration).ok();
        assert_eq!(time("250ms"), Some(Duration::from_millis(250)));
        assert_eq!((time("30"), time("30s")), (time("30 s"), Some(Duration::from_secs(30))));
        assert_eq!((time("2min"), time("1h")), (time("120"), time("3600")));
        for text in ["", "0", "0ms", "s", "1d", "-1s", "18446744073709551615h"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn durability_is_named_or_an_interval() {
        assert_eq!(parse_durability("sync"), Ok(Durability::Sync));
        assert_eq!(parse_durability("os"), Ok(Durability::Os));
        let interval = Durability::Interval(Duration::from_secs(1));
        assert_eq!(parse_durability("1s"), Ok(interval));
        let error = parse_durability("none").unwrap_err().to_string();
        assert_eq!(
            error,
            "\"none\" is no durability: expected sync, os, or the time between syncs, such as 100ms"
        );
    }

    #[test]
    fn compression_is_named_and_may_have_a_level() {
        for (text, expected) in [
            ("automatic", Compression::Automatic),
            ("none", Compression::None),
            ("zstd", Compression::Zstd(1)),
            ("zstd:19", Compression::Zstd(19)),
        ] {
            assert_eq!(parse_compression(text), Ok(expected));
        }
        for text in ["", "zstd:", "zstd:0", "zstd:20", "zstd1", "lz4", "Zstd"] {
            let error = parse_compression(text).unwrap_err().to_string();
            assert!(error.contains("is no compression: expected automatic"), "{error}");
        }
    }
}
