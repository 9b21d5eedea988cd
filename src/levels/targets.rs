//! Targets: how much each level may have, and how far beyond it the tree is.
//!
//! Invariant: a tree without [`debt`] has every level within its target.

use super::state::{Level, LevelState};
use crate::options::Sizing;

/// So many files in level 0 are compacted into level 1: every read looks into each of them.
pub(super) const LEVEL_0_TRIGGER: usize = 4;
/// Each level is this much larger than the one above.
const FANOUT: u64 = 10;

/// What level `level` may hold; without limit in the last one, and level 0 counts files.
pub(super) fn target(sizing: &Sizing, level: Level) -> u64 {
    let factor = FANOUT.saturating_pow(u32::from(level.get()).saturating_sub(1));
    sizing.level_base_bytes.saturating_mul(factor)
}

/// Bytes to rewrite before every level is within its target.
pub(super) fn debt(state: &LevelState, sizing: &Sizing) -> u64 {
    let level_0 = match state.level(Level::ZERO).len() {
        0..LEVEL_0_TRIGGER => 0,
        _ => state.bytes(Level::ZERO),
    };
    let inner = Level::all().filter(|&level| level > Level::ZERO && level < Level::LAST);
    inner.fold(level_0, |sum, level| sum + state.bytes(level).saturating_sub(target(sizing, level)))
}

/// The first level from `first` on that has room for so many bytes.
pub(super) fn level_for(bytes: u64, first: Level, sizing: &Sizing) -> Level {
    let mut level = first;
    while level < Level::LAST && target(sizing, level) < bytes {
        level = level.below();
    }
    level
}
