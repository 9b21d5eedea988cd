//! [`Guid`]: sixteen bytes in the order of their text.

use std::fmt;
use std::str::FromStr;

use super::error::ParseError;
use super::text::Reader;

/// Where hyphens stand: before these digits.
const HYPHENS: [usize; 4] = [8, 12, 16, 20];
const DIGITS: usize = 32;
const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// A 128-bit identifier (R-D01).
///
/// Its bytes are in the order of its text, so Guids are ordered as their canonical texts are,
/// which is how filters compare them. Text is read with or without hyphens, in any case, and
/// written with hyphens in lower case.
///
/// ```
/// use tablestone::Guid;
/// let id: Guid = "C9DA6455-213D-42C9-9A79-3E9149A57833".parse()?;
/// assert_eq!(id.to_string(), "c9da6455-213d-42c9-9a79-3e9149a57833");
/// assert_eq!(id.as_bytes()[..2], [0xC9, 0xDA]);
/// # Ok::<(), tablestone::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid([u8; 16]);

impl Guid {
    /// The Guid whose text has these bytes from left to right. (The in-memory form of Windows has
    /// the first eight in another order.)
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Length of the text.
    pub const TEXT_LENGTH: usize = DIGITS + HYPHENS.len();

    /// Writes the text into a buffer: what [`Display`](fmt::Display) prints, for callers to whom
    /// formatting is too slow.
    pub fn encode<'b>(&self, buffer: &'b mut [u8; Self::TEXT_LENGTH]) -> &'b str {
        let high = |byte: u8| HEXADECIMAL.get(usize::from(byte >> 4)).copied().unwrap_or_default();
        let low = |byte: u8| HEXADECIMAL.get(usize::from(byte & 15)).copied().unwrap_or_default();
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = self.0;
        #[rustfmt::skip]
        let text = [
            high(a), low(a), high(b), low(b), high(c), low(c), high(d), low(d), b'-',
            high(e), low(e), high(f), low(f), b'-', high(g), low(g), high(h), low(h), b'-',
            high(i), low(i), high(j), low(j), b'-',
            high(k), low(k), high(l), low(l), high(m), low(m), high(n), low(n), high(o), low(o),
            high(p), low(p),
        ];
        *buffer = text;
        std::str::from_utf8(buffer).unwrap_or_default()
    }

    /// The bytes of the text from left to right.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.encode(&mut [0; Self::TEXT_LENGTH]))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::new("Guid", text);
        let mut value = 0u128;
        let mut hyphenated = false;
        for digit in 0..DIGITS {
            // The first hyphen decides whether there are any.
            if digit == HYPHENS[0] {
                hyphenated = reader.accepts(&['-']).is_some();
            } else if hyphenated && HYPHENS.contains(&digit) {
                reader.literal('-')?;
            }
            value = value << 4 | u128::from(reader.hexadecimal()?);
        }
        reader.finish()?;
        Ok(Self(value.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_read_with_or_without_hyphens_in_any_case() {
        let expected =
            Guid::from_bytes(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff");
        for text in [
            "00112233-4455-6677-8899-aabbccddeeff",
            "00112233-4455-6677-8899-AABBCCDDEEFF",
            "00112233445566778899aabbCCDDEEFF",
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
    }

    #[test]
    fn what_is_no_guid_is_refused_with_its_column() {
        for (text, column) in [
            ("", 1),
            ("0011223", 8),
            ("00112233-4455-6677-8899-aabbccddeef", 36),
            ("00112233-4455-6677-8899-aabbccddeeff0", 37),
            ("00112233-44556677-8899-aabbccddeeff", 14),
            ("001122334455-6677-8899-aabbccddeeff", 13),
            ("00112233-4455-6677-8899-aabbccddeefg", 36),
            ("{0112233-4455-6677-8899-aabbccddeeff}", 1),
            ("0011Ä", 5),
        ] {
            let error = text.parse::<Guid>().unwrap_err();
            assert_eq!(error.column(), column, "{text}: {error}");
        }
    }

    proptest! {
        /// Protocol 6: Guids compare by their canonical text.
        #[test]
        fn order_is_that_of_the_text(a: [u8; 16], b: [u8; 16]) {
            let (a, b) = (Guid::from_bytes(a), Guid::from_bytes(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(a.to_string().parse(), Ok(a));
        }
    }
}
