//! Eight-byte prefixes that stand for ascending keys: what a search looks at before it touches a key.
//!
//! A prefix is what follows the bytes that all the keys begin with, its first eight bytes as a
//! big-endian number (zeros where the key is shorter). The numbers lie side by side, so a search
//! touches two or three places in memory instead of one for each of its steps.
//!
//! Invariant: keys whose prefixes differ are in the order of these.

use std::ops::Range;

use crate::key::{common_prefix, first_eight};

/// After so many equal prefixes, the end of them is searched for.
const SAME_WALKED: usize = 4;

/// Of at most so many prefixes, all are looked at: more than most blocks have.
const COUNTED: usize = 24;

/// What follows the first `common` bytes of a key, as [`find_prefix`] searches for it.
#[inline]
pub(super) fn prefix_of(key: &[u8], common: usize) -> [u8; 8] {
    first_eight(key.get(common..).unwrap_or_default()).to_le_bytes()
}

/// Of ascending keys that all begin with `common`, given by their [prefixes](prefix_of): those
/// that only a comparison in full tells from `key`. Those before are before it, those after are
/// after it.
#[inline]
pub(super) fn find_prefix(prefixes: &[[u8; 8]], common: &[u8], key: &[u8]) -> Range<usize> {
    let Some(rest) = after_common(key, common) else {
        let end = if *key < *common { 0 } else { prefixes.len() };
        return end..end;
    };
    let target = first_eight(rest);
    let number = |prefix: &[u8; 8]| u64::from_le_bytes(*prefix);
    // Halves, until there are few enough to look at all of them.
    let (mut start, mut few) = (0, prefixes);
    while few.len() > COUNTED {
        let (left, right) = few.split_at(few.len() / 2);
        match right.first() {
            Some(middle) if number(middle) < target => {
                start += left.len();
                few = right;
            }
            _ => few = left,
        }
    }
    // All at once: where one step of a search waits for the one before, these wait for memory together.
    let low = start + few.iter().filter(|prefix| number(prefix) < target).count();
    let mut high = low;
    while prefixes.get(high).is_some_and(|prefix| number(prefix) == target) {
        high += 1;
        // Few keys have all eight bytes in common, as a rule.
        if high - low == SAME_WALKED {
            let rest = prefixes.get(high..).unwrap_or_default();
            return low..high + rest.partition_point(|prefix| number(prefix) == target);
        }
    }
    low..high
}

/// What follows `common` in a key that begins with it, without a call.
#[inline]
fn after_common<'k>(key: &'k [u8], common: &[u8]) -> Option<&'k [u8]> {
    let (front, rest) = key.split_at_checked(common.len())?;
    (common_prefix(front, common) == common.len()).then_some(rest)
}
