//! Names of properties: how long one may be to be read, and how much of it an error shows.

use tablestone::{Entity, EntityLimits};

/// How much of a name an error shows, in characters: all of one that the service takes.
const SHOWN_NAME: usize = Entity::MAX_NAME_LENGTH;

/// Longest name of a property that is read, in bytes: none that an entity can have is longer, whatever
/// the limits are. A UTF-16 unit is three bytes of UTF-8 at most.
pub(super) const MAX_NAME_BYTES: usize = 3 * EntityLimits::LARGEST.name_length;

/// A name, for an error: the beginning of it, if it is very long.
pub(super) fn shown_name(name: &str) -> String {
    name.chars().take(SHOWN_NAME).collect()
}
