//! What of a client's text an error shows.
//!
//! Invariant: what an error says has a bound. It is in no budget, and each character may take seven
//! times its bytes once it is escaped, twice in JSON.

use tablestone::{Entity, EntityLimits};

/// How much of a text an error shows, in characters.
const SHOWN: usize = 60;

/// How much of a property's name, in characters: all of one that the service takes.
const SHOWN_NAME: usize = Entity::MAX_NAME_LENGTH;

/// Longest name of a property that is read, in bytes: none that an entity can have is longer, whatever
/// the limits are. A UTF-16 unit is three bytes of UTF-8 at most.
pub(super) const MAX_NAME_BYTES: usize = 3 * EntityLimits::LARGEST.name_length;

/// The beginning of a text, for an error.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// A property's name, for an error: the beginning of it, if it is very long.
pub(super) fn shown_name(name: &str) -> String {
    name.chars().take(SHOWN_NAME).collect()
}
