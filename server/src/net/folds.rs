//! Headers that go on in another line.
//!
//! HTTP/1.1 let the value of a header be folded: go on in a line that begins with white space. None is to be sent any
//! more, and hyper reads none; but the PHP library up to its 1.1.5 sends one with each transaction. A server may take a
//! fold for spaces (RFC 9112, 5.2): they are written over it before hyper sees it.
//!
//! Invariant: of what is read, line ends within a head become spaces where white space follows them. Nothing else
//! changes, no length, and nothing behind the head's end. Two kinds of folds are not found, and hyper refuses them: one
//! at which a read ends, and one in a request that comes before the one before it is answered.

use memchr::memchr;

/// Undoes the folds in what was read of a head, and perhaps of what is behind it.
pub(super) fn unfold(bytes: &mut [u8]) {
    // It may be the head's end, if the line before came with another read.
    let begins_with_line_end = matches!(bytes, [b'\n', ..] | [b'\r', b'\n', ..]);
    if !begins_with_line_end && has_fold(bytes) {
        blank_folds(bytes);
    }
}

/// Whether a line begins with white space, which is rare. Without an end at the first the compiler makes it a few
/// instructions for 16 bytes.
fn has_fold(bytes: &[u8]) -> bool {
    let next = bytes.get(1..).unwrap_or_default();
    let pairs = bytes.iter().zip(next);
    pairs.fold(false, |found, (a, b)| found | ((*a == b'\n') & ((*b == b' ') | (*b == b'\t'))))
}

fn blank_folds(mut bytes: &mut [u8]) {
    while let Some(end) = memchr(b'\n', bytes) {
        let (line, next) = bytes.split_at_mut(end + 1);
        match next {
            [b'\n', ..] | [b'\r', b'\n', ..] => return,
            [b' ' | b'\t', ..] => blank_end(line),
            _ => {}
        }
        bytes = next;
    }
}

fn blank_end(line: &mut [u8]) {
    match line {
        [.., cr @ b'\r', lf] => (*cr, *lf) = (b' ', b' '),
        [.., lf] => *lf = b' ',
        [] => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST / HTTP/1.1\r\nA: 1;\r\n\tb\r\n c\r\nB: 2\n d\r\n\r\n";
    const UNFOLDED: &str = "POST / HTTP/1.1\r\nA: 1;  \tb   c\r\nB: 2  d\r\n\r\n";
    const BODY: &str = "\r\n body\r\n \n\t\r\n\r\n x";

    /// What hyper sees of a request, read in these pieces.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
        let mut seen = String::new();
        for piece in pieces {
            let mut bytes = piece.as_bytes().to_vec();
            if !["\r\n\r\n", "\n\n", "\n\r\n"].iter().any(|end| seen.contains(end)) {
                unfold(&mut bytes);
            }
            seen += std::str::from_utf8(&bytes).unwrap();
        }
        seen
    }

    #[test]
    fn folds_of_a_head_become_spaces() {
        assert_eq!(read([HEAD, BODY]), UNFOLDED.to_owned() + BODY);
        assert_eq!(read([&*(HEAD.to_owned() + BODY)]), UNFOLDED.to_owned() + BODY);
    }

    /// Wherever reads end, a body is left as it is, and a head but for folds that they end at.
    #[test]
    fn a_body_stays_as_it_is_however_it_comes() {
        for head in [HEAD, "GET / HTTP/1.1\n\n", "GET / HTTP/1.1\r\nA: 1\n\r\n", UNFOLDED] {
            let all = head.to_owned() + BODY;
            let whole = read([&*all]);
            for at in 0..all.len() {
                let (one, other) = all.split_at(at);
                let seen = read([one, other]);
                assert!(seen.ends_with(BODY), "{at}: {seen:?}");
                let in_line_end = one.ends_with(['\r', '\n']) || other.starts_with(['\r', '\n']);
                assert!(seen == whole || in_line_end, "{at}: {seen:?}");
            }
            assert_eq!(read(all.split_inclusive(|_| true)), all);
        }
    }
}
