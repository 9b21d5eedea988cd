//! Percent-encoding: the one decoding of a request's path and query, and the encoding of keys.

use std::borrow::Cow;

use memchr::memchr2;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{ErrorCode, ServiceError};

/// What is encoded in addresses that are made here: all but RFC 3986's unreserved.
pub(crate) const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whether `+` is a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plus {
    Itself,
    Space,
}

/// The text that a percent-encoded part of an address stands for.
pub(super) fn decode(encoded: &str, plus: Plus) -> Result<Cow<'_, str>, ServiceError> {
    let bytes = encoded.as_bytes();
    let second = if plus == Plus::Space { b'+' } else { b'%' };
    let Some(first) = memchr2(b'%', second, bytes) else {
        return Ok(Cow::Borrowed(encoded));
    };
    let (plain, mut rest) = bytes.split_at(first);
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(plain);
    while let [byte, tail @ ..] = rest {
        rest = tail;
        decoded.push(match *byte {
            b'%' => {
                let [high, low, tail @ ..] = rest else {
                    return Err(malformed(encoded));
                };
                rest = tail;
                let digits = hex(*high).zip(hex(*low)).ok_or_else(|| malformed(encoded))?;
                digits.0 << 4 | digits.1
            }
            b'+' if plus == Plus::Space => b' ',
            other => other,
        });
    }
    let text = String::from_utf8(decoded);
    text.map(Cow::Owned)
        .map_err(|_| ErrorCode::InvalidUri.because("The address does not encode UTF-8."))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cold]
fn malformed(encoded: &str) -> ServiceError {
    let shown: String = encoded.chars().take(100).collect();
    ErrorCode::InvalidUri.because(format_args!(
        "The address has a percent sign that is not followed by two hexadecimal digits: {shown}"
    ))
}

/// Appends a key as it stands between the quotes of an address: as of the service, quotes in it are doubled and not
/// encoded, as JavaScript's SDK takes the row's key out of a batch's answer so.
pub(super) fn push_key(address: &mut String, key: &str) {
    // Most keys are plain.
    if key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        return address.push_str(key);
    }
    for (index, part) in key.split('\'').enumerate() {
        if index > 0 {
            address.push_str("''");
        }
        address.extend(utf8_percent_encode(part, ENCODED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S02: decoded exactly once.
    #[test]
    fn r_s02_a_percent_sign_is_decoded_once() {
        for (encoded, plus, decoded) in [
            ("plain", Plus::Itself, "plain"),
            ("a%20b+c", Plus::Itself, "a b+c"),
            ("a%20b+c%2B", Plus::Space, "a b c+"),
            ("100%25", Plus::Itself, "100%"),
            ("%2525", Plus::Space, "%25"),
            ("%C3%A9%e2%82%AC%F0%9F%98%80", Plus::Itself, "é€😀"),
            ("é+", Plus::Itself, "é+"),
            ("", Plus::Space, ""),
            ("%00", Plus::Itself, "\0"),
        ] {
            assert_eq!(decode(encoded, plus).unwrap(), decoded, "{encoded}");
        }
    }

    #[test]
    fn what_encodes_no_text_is_refused() {
        for encoded in ["%", "a%2", "%zz", "%2g", "%+1", "100%", "%é", "%FF", "%C3", "%ED%A0%80"] {
            let error = decode(encoded, Plus::Space).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidUri, "{encoded}");
        }
    }
}
