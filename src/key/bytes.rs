//! What is asked of the bytes of keys, eight at a time: keys are short, and a search of any length costs more
//! to set up.

/// Whether there is a byte of at most `most`, which is less than 0x80.
#[inline]
pub(super) fn has_byte_up_to(most: u8, bytes: &[u8]) -> bool {
    // The last eight bytes may have been looked at in part.
    let Some(last) = bytes.last_chunk() else { return bytes.iter().any(|byte| *byte <= most) };
    let words = bytes.as_chunks().0.iter();
    words.fold(bytes_up_to(most, last), |all, word| all | bytes_up_to(most, word)) != 0
}

/// Not 0 if one of eight bytes is at most `most`, which is less than 0x80.
#[inline]
pub(super) fn bytes_up_to(most: u8, word: &[u8; 8]) -> u64 {
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let word = u64::from_le_bytes(*word);
    // The lowest byte that is less, and has no high bit to begin with, has one after it borrowed.
    word.wrapping_sub(u64::from_ne_bytes([most + 1; 8])) & !word & HIGH
}

/// How many bytes two keys have in common at their front.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let difference = |x: &[u8; 8], y: &[u8; 8]| {
        (u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y)).trailing_zeros()
    };
    let len = a.len().min(b.len());
    let (a, b) = (a.get(..len).unwrap_or_default(), b.get(..len).unwrap_or_default());
    let words = a.as_chunks().0.iter().zip(b.as_chunks().0);
    for (i, (x, y)) in words.enumerate() {
        if x != y {
            return 8 * i + difference(x, y) as usize / 8;
        }
    }
    match (a.last_chunk(), b.last_chunk()) {
        // Eight bytes again, some of which were found equal.
        (Some(x), Some(y)) => len - 8 + difference(x, y) as usize / 8,
        _ => a.iter().zip(b).take_while(|(x, y)| x == y).count(),
    }
}

/// The first eight bytes as a number that orders like them; zeros stand for what is missing.
#[inline]
pub(crate) fn first_eight(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(padded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn common_prefix_counts_equal_bytes(
            a in proptest::collection::vec(0u8..2, 0..40),
            b in proptest::collection::vec(0u8..2, 0..40),
            cut in 0usize..40,
        ) {
            let mut c = a[..cut.min(a.len())].to_vec();
            c.extend_from_slice(&b);
            let expected = a.iter().zip(&c).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_prefix(&a, &c), expected);
        }

        #[test]
        fn a_low_byte_is_found_wherever_it_is(
            bytes in proptest::collection::vec(prop_oneof![0u8..5, 0x7Eu8..0x84, 0xFEu8..], 0..24),
            most in 0u8..4,
        ) {
            let found = bytes.iter().any(|byte| *byte <= most);
            prop_assert_eq!(has_byte_up_to(most, &bytes), found);
        }
    }
}
