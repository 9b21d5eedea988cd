//! [`Doorkeeper`]: what came by not long ago.
//!
//! Invariant: it never says so of what did not come since others took its place; two that it can't
//! tell apart have the same hash.

use std::sync::atomic::{AtomicU64, Ordering};

/// About so many that came last are known.
const KNOWN: usize = 256;

/// Who came last, each in a place by its hash.
#[derive(Debug)]
pub(super) struct Doorkeeper {
    known: [AtomicU64; KNOWN],
}

impl Default for Doorkeeper {
    fn default() -> Self {
        Self { known: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Doorkeeper {
    /// Whether it came by not long ago. Now it did.
    pub(super) fn knows(&self, hash: u64) -> bool {
        let place = self.known.get(hash as usize % KNOWN);
        place.is_some_and(|place| place.swap(hash, Ordering::Relaxed) == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_who_came_until_another_takes_the_place() {
        let doorkeeper = Doorkeeper::default();
        let same_place = 7 + KNOWN as u64;
        for hash in [7, 8, same_place, 7] {
            assert!(!doorkeeper.knows(hash), "{hash}");
            assert!(doorkeeper.knows(hash), "{hash}");
        }
        assert!(doorkeeper.knows(8));
    }
}
