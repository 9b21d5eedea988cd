//! What of a client's text an error shows, and how long a name may be that one repeats whole.
//!
//! Invariant: what an error says has a bound. It is in no budget, and each character may take seven
//! times its bytes once it is escaped, twice in JSON.

use tablestone::Entity;

/// How much of a text an error shows, in characters.
const SHOWN: usize = 60;

/// Longest name of a property that is read, in bytes: none that an entity can have is longer.
pub(super) const MAX_NAME_BYTES: usize = 1 << 10;

// A UTF-16 unit is three bytes of UTF-8 at most.
const _: () = assert!(3 * Entity::MAX_NAME_LENGTH <= MAX_NAME_BYTES);

/// The beginning of a text, for an error.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
