//! [`SigningKey`]: an account's key, its HMAC state prepared once.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account's key must be base64 of at least one byte: {0}")]
pub struct InvalidKey(Box<str>);

/// A key that signs requests. Preparing it costs two rounds of SHA-256, which no request pays again.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Reads a key as it stands in connection strings: base64.
    ///
    /// # Errors
    /// [`InvalidKey`] if it is no base64, or of nothing. The error does not show the key.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let bytes = STANDARD.decode(text).map_err(|error| InvalidKey(error.to_string().into()))?;
        if bytes.is_empty() {
            return Err(InvalidKey("it is empty".into()));
        }
        Self::from_bytes(&bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKey> {
        let prepared = Hmac::new_from_slice(bytes);
        prepared.map(Self).map_err(|error| InvalidKey(error.to_string().into()))
    }

    /// The signature of what `write` writes, in base64.
    #[must_use]
    pub fn sign(&self, write: impl FnOnce(&mut Signer<'_>)) -> String {
        let mut hmac = self.0.clone();
        write(&mut Signer(&mut hmac));
        STANDARD.encode(hmac.finalize().into_bytes())
    }

    /// Whether a signature in base64 is that of what `write` writes; the time it takes does not
    /// depend on how much of it is right.
    pub(super) fn verifies(&self, signature: &str, write: impl FnOnce(&mut Signer<'_>)) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else {
            return false;
        };
        let mut hmac = self.0.clone();
        write(&mut Signer(&mut hmac));
        hmac.verify_slice(&signature).is_ok()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// Where a string to sign is written, part by part.
pub struct Signer<'a>(&'a mut Hmac<Sha256>);

impl Signer<'_> {
    /// Adds a part.
    pub fn push(&mut self, part: &str) -> &mut Self {
        self.0.update(part.as_bytes());
        self
    }

    /// Adds a part and a line's end.
    pub fn line(&mut self, part: &str) -> &mut Self {
        self.push(part).push("\n")
    }
}

impl fmt::Debug for Signer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_signature_is_hmac_sha256() {
        let key = SigningKey::from_bytes(b"Jefe").unwrap();
        let expected = "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=";
        let sign = |s: &mut Signer<'_>| {
            s.push("what do ya want ").push("for nothing?");
        };
        assert_eq!(key.sign(sign), expected);
        assert!(key.verifies(expected, sign));
        assert!(key.verifies(expected, sign), "a key can be used again");
    }

    #[test]
    fn a_wrong_cut_or_malformed_signature_is_refused() {
        let key = SigningKey::parse("a2V5").unwrap();
        let right = key.sign(|s| {
            s.line("text");
        });
        let verifies = |signature: &str, text: &str| {
            key.verifies(signature, |s| {
                s.line(text);
            })
        };
        assert!(verifies(&right, "text"));
        assert!(!verifies(&right, "Text"));
        assert!(!verifies(&right[..40], "text"));
        assert!(!verifies("", "text"));
        assert!(!verifies("?", "text"));
        let other = SigningKey::parse("a2V6").unwrap();
        assert!(!other.verifies(&right, |s| {
            s.line("text");
        }));
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = SigningKey::parse("a2V5").unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(..)");
        let error = SigningKey::parse("not base64 but secret").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
        assert!(SigningKey::parse("").is_err());
    }
}
