//! The rules of names and keys (protocol 4), which are the service's own: the engine's keys are
//! any bytes.

use super::{Limits, limits};
use crate::error::{ErrorCode, ServiceError};

/// Lengths that a table's name may have.
pub(super) const TABLE_NAME: std::ops::RangeInclusive<usize> = 3..=63;

/// What separates the parts of an address, so that no key in one can hold it.
const SLASHES: [char; 2] = ['/', '\\'];

/// Refuses keys that no entity may have, or that are longer than this in UTF-16 units.
pub(crate) fn check(partition_key: &str, row_key: &str, limit: usize) -> Result<(), ServiceError> {
    check_key("PartitionKey", partition_key, limit)?;
    check_key("RowKey", row_key, limit)
}

/// As [`check`], of keys in an address: the service says less of what is wrong with these.
pub(super) fn check_address(
    partition_key: &str,
    row_key: &str,
    limit: usize,
) -> Result<(), ServiceError> {
    check(partition_key, row_key, limit).map_err(|error| match error.code() {
        ErrorCode::OutOfRangeInput
            if partition_key.contains(SLASHES) || row_key.contains(SLASHES) =>
        {
            ErrorCode::InvalidInput.because("Bad Request - Error in query syntax.")
        }
        ErrorCode::OutOfRangeInput => ErrorCode::OutOfRangeInput.error(),
        _ => error,
    })
}

/// As [`check_address`], of an entity that is only read: with keys that no entity may have it is not found. Keys that
/// no address can hold are refused nevertheless.
pub(super) fn check_sought(partition_key: &str, row_key: &str) -> Result<(), ServiceError> {
    let is_control = |character| matches!(character, '\0'..='\u{1F}' | '\u{7F}');
    check_address(partition_key, row_key, Limits::MOST_KEY_LENGTH).map_err(|error| {
        match error.code() {
            ErrorCode::InvalidInput => error,
            _ if partition_key.contains(is_control) || row_key.contains(is_control) => error,
            _ => ErrorCode::ResourceNotFound.error(),
        }
    })
}

fn check_key(what: &str, key: &str, limit: usize) -> Result<(), ServiceError> {
    // A character has no more UTF-16 units than it has bytes.
    if key.len() > limit && key.encode_utf16().nth(limit).is_some() {
        return Err(limits::key_too_long(limit));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if !key.bytes().all(plain) && key.chars().any(is_forbidden) {
        return Err(ErrorCode::OutOfRangeInput
            .because(format_args!("The '{what}' parameter of value '{key}' is out of range.")));
    }
    Ok(())
}

fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}')
}

/// Refuses names that no table may have.
pub(crate) fn check_table_name(name: &str) -> Result<(), ServiceError> {
    let letters = name.chars().all(|letter| letter.is_ascii_alphanumeric());
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    if !letters || !begins && !name.is_empty() {
        return Err(ErrorCode::InvalidResourceName.error());
    }
    if !TABLE_NAME.contains(&name.len()) {
        return Err(ErrorCode::OutOfRangeInput
            .because("The specified resource name length is not within the permissible limits."));
    }
    if name.eq_ignore_ascii_case("tables") {
        return Err(ErrorCode::InvalidInput.error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str) -> Result<(), ErrorCode> {
        check("", key, 512).map_err(|error| error.code())
    }

    /// R-S05: what a key may hold, and how long it may be.
    #[test]
    fn r_s05_keys_have_their_rules() {
        for good in ["", " ", "a'b%c", "\u{A0}", "é€😀", "x',RowKey='y", "\u{7E}", "."] {
            assert_eq!(key(good), Ok(()), "{good}");
        }
        for bad in
            ["/", "a\\b", "#", "?", "\0", "a\tb", "\n", "\u{1F}", "\u{7F}", "\u{80}", "\u{9F}"]
        {
            assert_eq!(key(bad), Err(ErrorCode::OutOfRangeInput), "{bad:?}");
        }
        // 512 units are 1,536 bytes of some text, and half as many characters of another.
        for (character, most) in [("a", 512), ("€", 512), ("😀", 256)] {
            assert_eq!(key(&character.repeat(most)), Ok(()));
            let longer = key(&character.repeat(most + 1));
            assert_eq!(longer, Err(ErrorCode::PropertyValueTooLarge));
            let partition_key = character.repeat(most + 1);
            assert!(check(&partition_key, "", 512).is_err());
            assert!(check(&partition_key, &partition_key, 514).is_ok());
        }
        let message = check("a/b", "", 512).unwrap_err().message().to_owned();
        assert_eq!(message, "The 'PartitionKey' parameter of value 'a/b' is out of range.");
    }

    /// R-S05: of keys in an address the service tells something else.
    #[test]
    fn r_s05_keys_in_addresses_have_errors_of_their_own() {
        let check = |partition_key, row_key| {
            let error = check_address(partition_key, row_key, 2).unwrap_err();
            (error.code(), error.message().to_owned())
        };
        let syntax = (ErrorCode::InvalidInput, "Bad Request - Error in query syntax.".to_owned());
        assert_eq!(check("a/", "r"), syntax);
        assert_eq!(check("p", "\\"), syntax);
        let range = "One of the request inputs is out of range.".to_owned();
        assert_eq!(check("#", "r"), (ErrorCode::OutOfRangeInput, range));
        assert_eq!(check("p", "abc").0, ErrorCode::PropertyValueTooLarge);
        assert!(check_address("p", "r", 2).is_ok());
    }

    /// R-S05: nobody has stored what cannot be stored.
    #[test]
    fn r_s05_an_entity_that_cannot_be_there_is_not_found() {
        let sought = |partition_key: &str, row_key: &str| {
            check_sought(partition_key, row_key).map_err(|error| error.code())
        };
        assert_eq!(sought("p", "r"), Ok(()));
        assert_eq!(sought("p", &"r".repeat(2_048)), Ok(()), "it may be of other limits");
        let longer = "r".repeat(Limits::MOST_KEY_LENGTH + 1);
        for key in ["#", "a?", "\u{80}", "\u{9F}", &longer] {
            assert_eq!(sought(key, "r"), Err(ErrorCode::ResourceNotFound), "{key:?}");
            assert_eq!(sought("p", key), Err(ErrorCode::ResourceNotFound), "{key:?}");
        }
        for key in ["/", "#\\"] {
            assert_eq!(sought("p", key), Err(ErrorCode::InvalidInput), "{key:?}");
        }
        for key in ["\0", "#\t", "\u{7F}"] {
            assert_eq!(sought(key, "r"), Err(ErrorCode::OutOfRangeInput), "{key:?}");
            assert_eq!(sought("p", key), Err(ErrorCode::OutOfRangeInput), "{key:?}");
        }
    }

    /// R-S05: what a table may be called.
    #[test]
    fn r_s05_tables_have_their_rules() {
        let name = |name: &str| check_table_name(name).map_err(|error| error.code());
        for good in ["abc", "A1b2", &"x".repeat(63)] {
            assert_eq!(name(good), Ok(()));
        }
        for bad in ["a-b-c", "1abc", "täble", "a b c", "$abc", "-"] {
            assert_eq!(name(bad), Err(ErrorCode::InvalidResourceName), "{bad}");
        }
        for bad in ["", "ab", &"x".repeat(64)] {
            assert_eq!(name(bad), Err(ErrorCode::OutOfRangeInput), "{bad}");
        }
        assert_eq!(name("Tables"), Err(ErrorCode::InvalidInput));
    }
}
