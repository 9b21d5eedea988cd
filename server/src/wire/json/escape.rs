//! Strings of JSON: how far they go as they are, and how the rest is escaped.

/// Bytes that are looked at together; compilers turn it into one comparison each.
const LANE: usize = 16;

/// Whether a byte within a string must be escaped: quote, backslash, control characters.
const fn special(byte: u8) -> bool {
    // The first exchanges the quote and the space, so that the quote comes right after control characters.
    ((byte ^ 2) < 0x21) | (byte == b'\\')
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
    for lane in bytes.get(at..).unwrap_or_default().as_chunks::<LANE>().0 {
        if any_special(lane) {
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

/// Copies bytes to as many, unless one of them must be escaped; whether it did.
#[inline]
pub(super) fn copy_plain(room: &mut [u8], bytes: &[u8]) -> bool {
    let (lanes, _) = bytes.as_chunks::<LANE>();
    for (to, lane) in room.as_chunks_mut().0.iter_mut().zip(lanes) {
        if any_special(lane) {
            return false;
        }
        *to = *lane;
    }
    // What is copied last may overlap what was copied before.
    match bytes.len() {
        0..8 => room.iter_mut().zip(bytes).all(|(to, &byte)| {
            *to = byte;
            !special(byte)
        }),
        8..LANE => {
            copy_word(room.first_chunk_mut(), bytes.first_chunk())
                && copy_word(room.last_chunk_mut(), bytes.last_chunk())
        }
        _ => match (room.last_chunk_mut(), bytes.last_chunk::<LANE>()) {
            (Some(to), Some(lane)) if !any_special(lane) => {
                *to = *lane;
                true
            }
            _ => false,
        },
    }
}

#[inline]
fn copy_word(to: Option<&mut [u8; 8]>, word: Option<&[u8; 8]>) -> bool {
    match (to, word) {
        (Some(to), Some(word)) if specials(u64::from_le_bytes(*word)) == 0 => {
            *to = *word;
            true
        }
        _ => false,
    }
}

#[inline]
fn any_special<const N: usize>(lane: &[u8; N]) -> bool {
    lane.iter().fold(false, |any, &byte| any | special(byte))
}

/// The highest bit of each of eight bytes that is [`special`], all looked at together: subtracting
/// from a byte that is smaller borrows from its highest bit. Above the first such byte, others may be
/// taken for one.
const fn specials(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    const fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(limit * ONES) & !word
    }
    // Of control characters and the quote this makes all that is below 0x21: it exchanges the quote and the space.
    let low = word ^ (0x02 * ONES);
    let backslash = word ^ (b'\\' as u64 * ONES);
    (below(low, 0x21) | below(backslash, 1)) & HIGH
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

    #[test]
    fn what_must_be_escaped_is_what_json_says() {
        let expected = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        assert!((0..=255).all(|byte| special(byte) == expected(byte)));
    }

    /// R-S04: another reader finds each character again.
    #[test]
    fn r_s04_each_character_is_read_as_it_was() {
        let text: String = ('\0'..='\u{ff}').collect();
        let mut printed = Vec::new();
        push_string(&mut printed, &text);
        assert_eq!(serde_json::from_slice::<String>(&printed).unwrap(), text);
    }

    /// Wherever the first byte is that must be escaped, and whatever is around it, it is found, and
    /// what has none is copied.
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
                    let mut copy = vec![0; length];
                    assert_eq!(copy_plain(&mut copy, &bytes), !special(byte), "{byte} at {at}");
                    assert!(special(byte) || copy == bytes, "{byte} at {at} of {length}");
                }
            }
        }
    }
}
