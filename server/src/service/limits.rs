//! What clients hear of limits: the service's texts, with the limits in force. The service has its own in
//! them, which are the defaults.

use std::fmt;

use super::Limits;
use crate::error::{ErrorCode, ServiceError};

/// The error with the limit in force in its text, if it is about one.
#[cold]
pub(super) fn told(error: ServiceError, limits: &Limits) -> ServiceError {
    if error.is_explained() {
        return error;
    }
    let (code, entity, default) = (error.code(), &limits.entity, Limits::default());
    match code {
        ErrorCode::EntityTooLarge => code.because(format_args!(
            "The entity is larger than the maximum allowed size ({}).",
            Bytes(entity.size)
        )),
        ErrorCode::PropertyNameTooLong => code.because(format_args!(
            "The property name exceeds the maximum allowed length ({}).",
            entity.name_length
        )),
        ErrorCode::PropertyValueTooLarge => {
            value_too_large(entity.binary_length, entity.string_length)
        }
        ErrorCode::TooManyProperties => code.because(format_args!(
            "The entity contains more properties than allowed. Each entity can include up to {} \
             properties to store data. Each entity also has 3 system properties.",
            entity.properties
        )),
        ErrorCode::RequestBodyTooLarge if limits.body.bytes != default.body.bytes => {
            code.because(format_args!(
                "The request body is too large and exceeds the maximum permissible limit ({}).",
                Bytes(limits.body.bytes)
            ))
        }
        _ => error,
    }
}

/// The error of a key that has more UTF-16 units than this.
#[cold]
pub(super) fn key_too_long(limit: usize) -> ServiceError {
    if limit == Limits::default().key_length {
        // The service says of keys what it says of properties.
        let code = ErrorCode::PropertyValueTooLarge;
        return code.because(code.message());
    }
    value_too_large(2 * limit, limit)
}

fn value_too_large(bytes: usize, units: usize) -> ServiceError {
    ErrorCode::PropertyValueTooLarge.because(format_args!(
        "The property value exceeds the maximum allowed size ({}). If the property value is a string, \
         it is UTF-16 encoded and the maximum number of characters should be {} or less.",
        Bytes(bytes),
        Count(units)
    ))
}

/// A number of bytes as the service writes it: 64KB, 1MB.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(f, "{}MB", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(f, "{}KB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// A number as the service writes it: 32K.
struct Count(usize);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            count if count.is_multiple_of(1 << 10) => write!(f, "{}K", count >> 10),
            count => write!(f, "{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S05: within the service's limits, which are the defaults, texts are the service's, to the letter.
    #[test]
    fn r_s05_texts_of_default_limits_are_the_services() {
        let limits = Limits::default();
        for code in ErrorCode::ALL {
            let told = told(code.error(), &limits);
            assert_eq!((told.code(), told.message()), (*code, code.message()));
        }
        let key = key_too_long(limits.key_length);
        assert_eq!(key.message(), ErrorCode::PropertyValueTooLarge.message());
    }

    /// R-S05: a text gives the limit in force.
    #[test]
    fn r_s05_texts_have_the_limits_in_force() {
        let mut limits = Limits::default();
        limits.entity.size = 2 << 20;
        limits.entity.name_length = 300;
        limits.entity.properties = 255;
        limits.entity.binary_length = 1_000;
        limits.entity.string_length = 64 << 10;
        limits.body.bytes = 8 << 20;
        let text = |code: ErrorCode| told(code.error(), &limits).message().to_owned();
        for (code, expected) in [
            (ErrorCode::EntityTooLarge, "(2MB)"),
            (ErrorCode::PropertyNameTooLong, "(300)"),
            (ErrorCode::TooManyProperties, "up to 255 properties"),
            (ErrorCode::PropertyValueTooLarge, "(1000 bytes)"),
            (ErrorCode::PropertyValueTooLarge, "should be 64K or less"),
            (ErrorCode::RequestBodyTooLarge, "limit (8MB)."),
        ] {
            assert!(text(code).contains(expected), "{}", text(code));
        }
        let key = key_too_long(100);
        assert!(key.message().contains("(200 bytes)"), "{key}");
        assert!(key.message().contains("should be 100 or less"), "{key}");
        let own = ErrorCode::EntityTooLarge.because("Its own.");
        assert_eq!(told(own.clone(), &limits), own);
    }
}
