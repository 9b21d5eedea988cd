//! The text of a continuation token: `1!<length>!<base64>`, as the service has it.
//!
//! It goes out in a header and comes back in a query string, so it is ASCII, never empty (an empty
//! NextPartitionKey means the end to the JavaScript SDK, and an empty PartitionKey is legal), and
//! free of characters that a client who forgets to percent-encode would damage.

use base64::Engine;
use base64::alphabet::Alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use crate::error::{ErrorCode, ServiceError, shown};

impl From<TokenError> for ServiceError {
    fn from(error: TokenError) -> Self {
        ErrorCode::InvalidInput.because(error)
    }
}

/// Prefix and version of the form.
const PREFIX: &str = "1!";

/// Why a continuation token was refused: 400 InvalidInput to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is not of the form.
    #[error("expected a continuation token 1!<length>!<base64>, found {found:?}")]
    Form {
        /// The beginning of the token.
        found: String,
    },
    /// What it encodes is no key.
    #[error("the continuation token {found:?} encodes no UTF-8")]
    NotUtf8 {
        /// The beginning of the token.
        found: String,
    },
}

/// The token for a key or a table name.
///
/// ```
/// use tablestone_server::wire::continuation;
/// assert_eq!(continuation::encode("Smith"), "1!8!U21pdGg-");
/// assert_eq!(continuation::encode(""), "1!0!");
/// assert_eq!(continuation::decode("1!8!U21pdGg-").unwrap(), "Smith");
/// assert_eq!(continuation::decode("Smith").unwrap(), "Smith");
/// ```
#[must_use]
pub fn encode(key: &str) -> String {
    let text = engine().encode(key);
    let padding = text.len().next_multiple_of(4) - text.len();
    format!("{PREFIX}{}!{text}{}", text.len() + padding, "-".repeat(padding))
}

/// The key of a token, or of what is no token and so the key itself: the PHP SDK lets its users say at which
/// table to begin.
///
/// # Errors
/// [`TokenError`] for what begins as a token unless [`encode`] could have made it.
pub fn decode(token: &str) -> Result<String, TokenError> {
    let form = || TokenError::Form { found: shown(token) };
    let Some(rest) = token.strip_prefix(PREFIX) else {
        return Ok(token.to_owned());
    };
    let (length, text) = rest.split_once('!').ok_or_else(form)?;
    if length.parse() != Ok(text.len()) || !text.len().is_multiple_of(4) {
        return Err(form());
    }
    let unpadded = text.strip_suffix("--").or_else(|| text.strip_suffix('-')).unwrap_or(text);
    let bytes = engine().decode(unpadded).map_err(|_| form())?;
    String::from_utf8(bytes).map_err(|_| TokenError::NotUtf8 { found: shown(token) })
}

/// Base64 whose last two characters need no percent-encoding, and whose padding is added by hand.
fn engine() -> GeneralPurpose {
    GeneralPurpose::new(&ALPHABET, CONFIG)
}

const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone);

const ALPHABET: Alphabet =
    match Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*_") {
        Ok(alphabet) => alphabet,
        Err(_) => base64::alphabet::URL_SAFE,
    };

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// R-S06: the empty key too has a token that is not empty.
    #[test]
    fn empty_and_odd_keys() {
        for key in ["", "a", "ab", "abc", "ключ", "a+b/c?d", "\u{10ffff}\u{fffe}>>>???"] {
            let token = encode(key);
            assert!(!token.is_empty() && token.is_ascii());
            assert!(token.bytes().all(|it| it.is_ascii_alphanumeric() || b"!-_*".contains(&it)));
            assert_eq!(decode(&token).as_deref(), Ok(key));
        }
    }

    /// What begins as a token, and is none that the server made, is refused, not guessed at.
    #[test]
    fn refused() {
        for token in [
            "1!",
            "1!4!YQ=",
            "1!3!YQ-",
            "1!4!YQ==",
            "1!4!Y---",
            "1!4!YR--",
            "1!4!YQ--x",
            "1!x!YQ--",
            "1!4!Y Q-",
        ] {
            assert!(matches!(decode(token), Err(TokenError::Form { .. })), "{token}");
        }
        assert!(matches!(decode("1!4!_w--"), Err(TokenError::NotUtf8 { .. })));
        for long in [format!("1!4000!{}", "_".repeat(4_000)), format!("1!{}", "x".repeat(4_000))] {
            assert!(
                decode(&long).unwrap_err().to_string().len() < 200,
                "R-S12: errors are bounded"
            );
        }
    }

    proptest! {
        #[test]
        fn comes_back(key in any::<String>(), noise in any::<String>()) {
            prop_assert_eq!(decode(&encode(&key)), Ok(key));
            if let Ok(key) = decode(&noise) {
                prop_assert!(encode(&key) == noise || key == noise);
            }
        }
    }
}
