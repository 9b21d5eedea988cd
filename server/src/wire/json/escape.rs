//! Strings of JSON: how far they go as they are, and how the rest is escaped.

/// Bytes that are looked at together; compilers turn it into one comparison each.
const LANE: usize = 16;

/// Whether a byte within a string must be escaped: quote, backslash, control characters.
const fn special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// How many bytes at the beginning are none that must be escaped.
#[inline]
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Most names and many values are no longer than this.
    if let Some(word) = bytes.first_chunk::<8>() {
        let special = specials(u64::from_le_bytes(*word));
        if special != 0 {
            return first(special);
        }
        at = word.len();
    }
    for lane in bytes.get(at..).unwrap_or_default().chunks_exact(LANE) {
        if lane.iter().fold(false, |any, &byte| any | special(byte)) {
            break;
        }
        at += LANE;
    }
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        let special = specials(u64::from_le_bytes(*word));
        if special != 0 {
            return at + first(special);
        }
        at += word.len();
        rest = tail;
    }
    at + rest.iter().position(|&byte| special(byte)).unwrap_or(rest.len())
}

/// The highest bit of each of eight bytes that is [`special`], all looked at together: subtracting
/// from a byte that is smaller borrows from its highest bit. Above the first such byte, others may be
/// taken for one.
const fn specials(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    const fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(limit * ONES) & !word & HIGH
    }
    let quote = word ^ (b'"' as u64 * ONES);
    let backslash = word ^ (b'\\' as u64 * ONES);
    below(word, 0x20) | below(quote, 1) | below(backslash, 1)
}

/// Which of eight bytes the first of these bits is in.
const fn first(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize
}

/// Adds a string with its quotes.
#[inline]
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let (plain, tail) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        let Some((&byte, tail)) = tail.split_first() else { break };
        push_escape(out, byte);
        rest = tail;
    }
    out.push(b'"');
}

#[cold]
fn push_escape(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        b'"' | b'\\' => byte,
        _ => {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever the first byte is that must be escaped, and whatever is around it, it is found.
    #[test]
    fn the_plain_prefix_ends_at_the_first_special_byte() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255u8 {
                    let mut bytes = b"\x7f\x80\xff!#[] ".repeat(5);
                    bytes.truncate(length);
                    assert_eq!(plain_prefix(&bytes), length);
                    bytes[at] = byte;
                    let expected = if special(byte) { at } else { length };
                    assert_eq!(plain_prefix(&bytes), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }
}
