//! Names of properties as names of elements, and back.
//!
//! A property's name may have characters that no name of XML has, such as `ª`. Those are written `_xHHHH_`
//! or `_xHHHHHHHH_`, in hexadecimal, as .NET's `XmlConvert.EncodeLocalName` does, and so is the `_` of
//! what would otherwise be read as such an escape. Invariant: what [`encode`] writes, [`decode`] reads as
//! the same name, and it is an NCName of XML 1.0 if the name is one of a property.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a name of an element may have this character elsewhere than at its beginning.
fn is_plain(character: char) -> bool {
    matches!(character,
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' | '.' | '\u{B7}' | '\u{C0}'..='\u{D6}'
        | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}'
        | '\u{200C}'..='\u{200D}' | '\u{203F}'..='\u{2040}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}'
        | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

/// The name of the element that a property is.
pub(super) fn encode(name: &str) -> Cow<'_, str> {
    let mut encoded = String::new();
    let mut from = 0;
    for (at, character) in name.char_indices() {
        let rest = name.get(at..).unwrap_or_default();
        if is_plain(character) && !(character == '_' && would_be_escape(rest)) {
            continue;
        }
        encoded.push_str(name.get(from..at).unwrap_or_default());
        let (code, digits) = (u32::from(character), if character > '\u{FFFF}' { 8 } else { 4 });
        // Writing to a String does not fail.
        let _ = write!(encoded, "_x{code:0digits$X}_");
        from = at + character.len_utf8();
    }
    if from == 0 {
        return Cow::Borrowed(name);
    }
    encoded.push_str(name.get(from..).unwrap_or_default());
    Cow::Owned(encoded)
}

/// The name of the property that an element is.
pub(super) fn decode(name: &str) -> Cow<'_, str> {
    if !name.contains("_x") && !name.contains("_X") {
        return Cow::Borrowed(name);
    }
    let mut decoded = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('_') {
        let (plain, tail) = rest.split_at(at);
        decoded.push_str(plain);
        let escape = escaped(tail);
        decoded.push(escape.map_or('_', |(character, _)| character));
        rest = tail.get(escape.map_or(1, |(_, length)| length)..).unwrap_or_default();
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// The character whose escape a text begins with, and the escape's length.
fn escaped(text: &str) -> Option<(char, usize)> {
    [4, 8].into_iter().find_map(|count| {
        let digits = digits(text, count)?;
        let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
        let length = "_x".len() + count;
        text.get(length..)?.starts_with('_').then_some((character, length + 1))
    })
}

/// Whether a text, once what follows in it is encoded, begins with what is no escape and looks like one.
fn would_be_escape(text: &str) -> bool {
    [4, 8].into_iter().any(|count| {
        let after = digits(text, count).and_then(|_| text.get("_x".len() + count..));
        let next = after.and_then(|after| after.chars().next());
        // What is not plain becomes an escape, which begins with `_`.
        next.is_some_and(|next| next == '_' || !is_plain(next))
    })
}

/// The hexadecimal digits after the `_x` that a text begins with, if there are so many.
fn digits(text: &str, count: usize) -> Option<&str> {
    let rest = text.strip_prefix("_x").or_else(|| text.strip_prefix("_X"))?;
    let digits = rest.get(..count)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tablestone::Entity;

    use super::*;

    #[test]
    fn names_are_escaped_as_dotnet_does() {
        for (name, encoded) in [
            ("Name_1", "Name_1"),
            ("größe", "größe"),
            ("名前", "名前"),
            ("\u{10400}a", "\u{10400}a"),
            ("ª", "_x00AA_"),
            ("aµb", "a_x00B5_b"),
            ("º_", "_x00BA__"),
            ("a\u{2054}b", "a_x2054_b"),
            ("\u{F0000}", "_x000F0000_"),
            ("_x0041_", "_x005F_x0041_"),
            ("a_X00aa_", "a_x005F_X00aa_"),
            ("_x00000041_", "_x005F_x00000041_"),
            ("_x0041_x0042_", "_x005F_x0041_x005F_x0042_"),
            // .NET makes `_x0041_x00AA_` of it, which it reads as another name.
            ("_x0041ª", "_x005F_x0041_x00AA_"),
            ("_x004_", "_x004_"),
            ("_x00411_", "_x00411_"),
            ("_xG041_", "_xG041_"),
            ("_x0041", "_x0041"),
        ] {
            assert_eq!(encode(name), encoded);
            assert_eq!(decode(encoded), name);
        }
    }

    /// Escapes of other writers; what is none stays.
    #[test]
    fn other_escapes_are_read() {
        for (encoded, name) in [
            ("_x0041_", "A"),
            ("_X0041_b", "Ab"),
            ("_x00010400_", "\u{10400}"),
            ("__x0041__", "_A_"),
            ("_x0041_x0042_", "Ax0042_"),
            ("_xD800_", "_xD800_"),
            ("_x+041_", "_x+041_"),
            ("_x", "_x"),
            ("_x004é_", "_x004é_"),
        ] {
            assert_eq!(decode(encoded), name, "{encoded}");
        }
    }

    /// Of characters that a property's name may have, none but those that XML lacks is escaped.
    #[test]
    fn every_name_is_an_ncname() {
        let may_be = |name: &str| Entity::new("", "").with(name, true).validate().is_ok();
        for character in '\0'..=char::MAX {
            let (first, other) = (character.to_string(), format!("a{character}"));
            let plain = is_plain(character);
            if may_be(&first) {
                assert!(!"-.0123456789\u{B7}\u{203F}\u{2040}".contains(character));
                assert!(!('\u{300}'..='\u{36F}').contains(&character));
                assert_eq!(encode(&first) == first, plain);
            }
            if may_be(&other) {
                assert_eq!(encode(&other) == other, plain);
                assert_eq!(decode(&encode(&other)), other);
            }
        }
    }

    proptest! {
        #[test]
        fn any_name_comes_back(name in "[_xX0041AF\u{AA}\u{B5}é]{0,24}|.{0,12}") {
            let encoded = encode(&name).into_owned();
            prop_assert!(encoded.chars().all(is_plain));
            prop_assert_eq!(decode(&encoded), name);
        }
    }
}
