//! Text out of stored bytes, and bytes shown as text. Nearly all of it is ASCII and short, for which the
//! standard library's check, made for long texts, takes some four instructions a byte.
//!
//! Invariant: what is given out as text was seen to be UTF-8.

use std::fmt;
use std::str::Utf8Error;

/// The text that bytes are.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Utf8Error> {
    if is_ascii(bytes) {
        // SAFETY: all bytes are below 0x80, and such bytes are UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes)
}

/// Bytes for `Debug`, as a literal of them: most are text, or have text in them.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Bytes for `Display`, as pairs of hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bytes that pairs of hexadecimal digits are, in any case.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, []) = text.as_bytes().as_chunks() else { return None };
    pairs.iter().map(|&[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8)).collect()
}

#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().fold(0, |all, byte| all | byte) < 0x80;
    };
    let is_ascii = |words: &[[u8; 8]]| {
        words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word)) & HIGH == 0
    };
    // Loops that may end early stay simple: one over any number of words is made for many, and takes
    // twice the instructions for a few.
    let (pieces, rest) = bytes.as_chunks::<32>();
    pieces.iter().all(|piece| is_ascii(piece.as_chunks().0))
        && rest.as_chunks().0.iter().all(|word| is_ascii(&[*word]))
        // The last word takes in what is left beside the others.
        && is_ascii(&[*last])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Wherever the one byte that is not ASCII stands.
    #[test]
    fn text_is_what_the_standard_library_takes_for_text() {
        for length in 0..80 {
            let mut bytes = vec![b'\x7f'; length];
            assert_eq!(utf8(&bytes), std::str::from_utf8(&bytes));
            for at in 0..length {
                bytes[at] = 0x80;
                assert_eq!(utf8(&bytes).unwrap_err().valid_up_to(), at);
                bytes[at] = b'a';
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_itself(text in "[a-z\u{80}-\u{10FFFF}]{0,40}") {
            prop_assert_eq!(utf8(text.as_bytes()), Ok(&*text));
        }
    }
}
