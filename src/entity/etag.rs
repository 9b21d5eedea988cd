//! [`ETag`]: a version as text; how the ticks of one are read. [`IfMatch`]: which version a caller insists on.

use std::fmt;
use std::str::FromStr;

use super::datetime::DateTime;
use super::error::ParseError;
use super::text::Reader;
use crate::version::Version;

/// What our tags have around the Timestamp.
const BEFORE: &str = "datetime'";
const AFTER: &str = "'";

/// An entity's version as the text that HTTP clients keep:
/// `W/"datetime'2008-10-01T15%3A27%3A34.4838174Z'"` (R-D08).
///
/// ```
/// use tablestone::{ETag, IfMatch, Version};
/// let tag = ETag(Version::from_ticks(128_673_484_544_838_174));
/// assert_eq!(tag.to_string(), "W/\"datetime'2008-10-01T15%3A27%3A34.4838174Z'\"");
/// assert_eq!(tag.to_string().parse(), Ok(IfMatch::Version(tag.0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ETag(pub Version);

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "W/\"{BEFORE}")?;
        DateTime::from(self.0).write(f, "%3A")?;
        write!(f, "{AFTER}\"")
    }
}

impl FromStr for Version {
    type Err = ParseError;

    /// Reads what `Display` writes: ticks, in decimal.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::new("Version", text);
        let digits = reader.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(reader.error("a digit"));
        }
        reader.finish()?;
        let ticks =
            digits.parse().map_err(|_| reader.out_of_range(format!("at most {}", Version::MAX)))?;
        Ok(Self::from_ticks(ticks))
    }
}

/// What a caller says an entity's tag must be: the value of an `If-Match` header.
///
/// A weak tag that is none of ours ([`IfMatch::Unknown`]) matches no entity; it is not an error, because the
/// tag may come from another server (R-D08). A strong one, without `W/`, is: a table's entities have weak tags
/// alone. Make a [`Precondition`](crate::Precondition) of it with `into()`.
///
/// ```
/// use tablestone::{IfMatch, Precondition, Version};
/// assert_eq!(Precondition::from("*".parse::<IfMatch>()?), Precondition::Exists);
/// let tag: IfMatch = "W/\"datetime'2008-10-01T15:27:34.4838174Z'\"".parse()?;
/// assert_eq!(tag, IfMatch::Version(Version::from_ticks(128_673_484_544_838_174)));
/// assert_eq!("W/\"another\"".parse(), Ok(IfMatch::Unknown));
/// assert!("\"strong\"".parse::<IfMatch>().is_err());
/// # Ok::<(), tablestone::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IfMatch {
    /// `*`: any version.
    Any,
    /// A tag of ours.
    Version(Version),
    /// A weak tag of another make, which no entity has.
    Unknown,
}

impl FromStr for IfMatch {
    type Err = ParseError;

    /// Reads `*` or one weak tag, `W/"…"`. The Timestamp in a tag of ours may have its colons
    /// escaped or not, and trailing zeros in its fraction.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::new("ETag", text);
        if reader.accepts(&['*']).is_some() {
            reader.finish()?;
            return Ok(Self::Any);
        }
        reader.literal('W')?;
        reader.literal('/')?;
        reader.literal('"')?;
        let tag = reader.take_while(|c| !matches!(c, '\0'..=' ' | '"' | '\x7F'));
        reader.literal('"')?;
        reader.finish()?;
        let ours = timestamp(tag).map(|instant| Version::from_ticks(instant.ticks()));
        Ok(ours.map_or(Self::Unknown, Self::Version))
    }
}

/// The instant in a tag, if it is one that we could have made.
fn timestamp(tag: &str) -> Option<DateTime> {
    let text = tag.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
    let text = text.replace("%3A", ":").replace("%3a", ":");
    let instant: DateTime = text.parse().ok()?;
    // Other texts of the same instant are none that a client got from us.
    let ours = instant.to_string();
    let seconds = text.strip_suffix('Z')?;
    let cut = match seconds.split_once('.') {
        Some((_, fraction)) if fraction.len() > 7 => return None,
        Some(_) => seconds.trim_end_matches('0').trim_end_matches('.'),
        None => seconds,
    };
    (ours.strip_suffix('Z')? == cut).then_some(instant)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<IfMatch, ParseError> {
        text.parse()
    }

    /// R-D08: the service's text, with the fraction's trailing zeros cut.
    #[test]
    fn ticks_are_read_and_what_is_none_is_refused() {
        for ticks in [0, 1, u64::MAX] {
            let version = Version::from_ticks(ticks);
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        for (text, expected) in [
            ("", "\"\" is no Version: expected a digit at column 1, found the end"),
            ("-1", "\"-1\" is no Version: expected a digit at column 1, found '-'"),
            ("12a", "\"12a\" is no Version: expected the end at column 3, found 'a'"),
            (
                "18446744073709551616",
                "\"18446744073709551616\" is no Version: expected at most 18446744073709551615",
            ),
        ] {
            assert_eq!(text.parse::<Version>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn r_d08_the_text_is_that_of_the_service() {
        let version = Version::from_ticks(128_673_484_544_838_174);
        let of = |ticks| ETag(Version::from_ticks(ticks)).to_string();
        assert_eq!(of(version.ticks()), "W/\"datetime'2008-10-01T15%3A27%3A34.4838174Z'\"");
        assert_eq!(of(0), "W/\"datetime'1601-01-01T00%3A00%3A00Z'\"");
        assert_eq!(of(1_000_000), "W/\"datetime'1601-01-01T00%3A00%3A00.1Z'\"");
        for text in [
            "W/\"datetime'2008-10-01T15%3A27%3A34.4838174Z'\"",
            "W/\"datetime'2008-10-01T15%3a27%3a34.4838174Z'\"",
            "W/\"datetime'2008-10-01T15:27:34.4838174Z'\"",
        ] {
            assert_eq!(parse(text), Ok(IfMatch::Version(version)));
        }
        for fraction in ["", ".0", ".00", ".0000000"] {
            let text = format!("W/\"datetime'1601-01-01T00%3A00%3A00{fraction}Z'\"");
            assert_eq!(parse(&text), Ok(IfMatch::Version(Version::ZERO)), "{text}");
        }
    }

    /// R-D08: any other tag is a mismatch, what is no tag an error.
    #[test]
    fn r_d08_other_tags_are_unknown_and_malformed_ones_errors() {
        assert_eq!(parse("*"), Ok(IfMatch::Any));
        for text in [
            "W/\"wrong\"",
            "W/\"\"",
            "W/\"datetime'2008-10-01T15%3A27%3A34.48381740Z'\"",
            "W/\"datetime'2008-10-01T15%3A27%3A34.4838174'\"",
            "W/\"datetime'2008-10-01T16%3A27%3A34.4838174+01%3A00'\"",
            "W/\"datetime'2008-10-01T15%3A27Z'\"",
            "W/\"datetime'2008-10-01'\"",
            "W/\"datetime'1600-10-01T15%3A27%3A34Z'\"",
            "W/\"datetime'2008-10-01T15%3A27%3A34Z\"",
            "W/\"0x8D1AE7\u{e9}\"",
        ] {
            assert_eq!(parse(text), Ok(IfMatch::Unknown), "{text}");
        }
        for (text, column) in [
            ("", 1),
            ("**", 2),
            ("wrong", 1),
            ("w/\"wrong\"", 1),
            ("W\"wrong\"", 2),
            ("W/wrong", 3),
            ("\"\"", 1),
            ("\"strong\"", 1),
            ("\"datetime'2008-10-01T15%3A27%3A34.4838174Z'\"", 1),
            ("W/\"wrong", 9),
            ("W/\"a b\"", 5),
            ("W/\"a\"b\"", 6),
            ("W/\"a\", W/\"b\"", 6),
            (" *", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.column(), column, "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_tag_is_read_as_the_version_it_was_made_of(ticks in 0..=DateTime::MAX.ticks()) {
            let version = Version::from_ticks(ticks);
            prop_assert_eq!(parse(&ETag(version).to_string()), Ok(IfMatch::Version(version)));
        }

        #[test]
        fn any_text_is_a_tag_or_an_error(text in "(W/)?\"?(datetime')?.{0,30}'?\"?") {
            let _ = parse(&text);
        }
    }
}
