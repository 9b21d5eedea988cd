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
    for lane in bytes.chunks_exact(LANE) {
        if lane.iter().fold(false, |any, &byte| any | special(byte)) {
            break;
        }
        at += LANE;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| special(byte)).unwrap_or(rest.len())
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
