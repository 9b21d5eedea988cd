//! [`CompressionRule`]: which table files are compressed.
//!
//! Compression takes processor time when a file is written and when a block is first read, and gives
//! space, in the file system and so in memory. The youngest levels are rewritten soon, and where all
//! that is stored is smaller than the memory that the database may use there is little to be had for
//! it (DESIGN.md, section 9). Where compactions are [behind](HURRY_TARGETS), what is merged into the first level that is
//! compressed is plain, too: most of what is rewritten is there.
//!
//! Invariant: if new files for a level are compressed, so are those for any deeper one. What was
//! written before there was so much, about a memory budget of it, stays as it is until it is rewritten.
//! Once there is [several times as much](AT_REST_BUDGETS), most of what is read is not in memory any more: what
//! is left of it is rewritten when nothing else is to be done, and the youngest levels too after a while.

use super::state::{Level, LevelState};
use super::targets::debt;
use crate::options::{Compression, Options, Sizing};

/// The zstd level of [`Compression::Automatic`].
const AUTOMATIC_ZSTD: i32 = 1;

/// So many memory budgets of keys and values are too much for what is not compressed to stay so. The system
/// may have more memory than the budget for the pages of files, which gives the fastest reads there are. Where it
/// is known to have less, that is too much.
const AT_REST_BUDGETS: u64 = 4;

/// From so many targets of level 1 on that are to be rewritten, compactions are behind: twice what one of level 0 brings,
/// and an eighth of the debt from which on writes are [slowed](super::pressure). What makes up for it in the end rewrites
/// most of the level once more, compressed.
const HURRY_TARGETS: u64 = 2;

/// What is compressed, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompressionRule {
    zstd: Option<i32>,
    /// Blocks of the levels above this one are not compressed.
    first: Level,
    /// Nothing is compressed until there are so many bytes of keys and values.
    plain_bytes: u64,
    /// With so many, what is not compressed does not stay so.
    rest_bytes: u64,
}

impl CompressionRule {
    /// For a process that may have `memory` bytes with the pages of files, if that is known.
    pub(super) fn of(options: &Options, memory: Option<u64>) -> Self {
        let budget = options.budget() as u64;
        let beside = memory.map_or(u64::MAX, |memory| memory.saturating_sub(budget));
        match options.compression {
            Compression::Automatic => Self {
                zstd: Some(AUTOMATIC_ZSTD),
                first: Level::ONE.below(),
                plain_bytes: budget,
                rest_bytes: AT_REST_BUDGETS.saturating_mul(budget).min(beside).max(budget),
            },
            Compression::None => {
                Self { zstd: None, first: Level::ZERO, plain_bytes: 0, rest_bytes: 0 }
            }
            Compression::Zstd(zstd) => Self::always(zstd),
        }
    }

    /// Everything, however little there is.
    pub(super) fn always(zstd: i32) -> Self {
        Self { zstd: Some(zstd), first: Level::ZERO, plain_bytes: 0, rest_bytes: 0 }
    }

    /// The zstd level of a new file for that level, if it is to be compressed. It counts what the
    /// tree has down to there, and `added` bytes of keys and values that are not part of it yet.
    pub(super) fn zstd_at(&self, level: Level, state: &LevelState, added: u64) -> Option<i32> {
        let stored = || state.raw_bytes_down_to(level).saturating_add(added);
        self.zstd.filter(|_| level >= self.first && stored() >= self.plain_bytes)
    }

    /// The zstd level of what is merged into that level: while compactions are behind, none for the first level
    /// that is compressed.
    pub(super) fn zstd_merged(
        &self,
        level: Level,
        state: &LevelState,
        sizing: &Sizing,
    ) -> Option<i32> {
        let is_behind = || debt(state, sizing) >= HURRY_TARGETS * sizing.level_base_bytes;
        let is_put_off = level == self.first && is_behind();
        self.zstd_at(level, state, 0).filter(|_| !is_put_off)
    }

    /// The zstd level with which files of that level are to be rewritten that were not compressed when they
    /// were written; `is_quiet` says that they will hardly be rewritten soon for another reason.
    pub(super) fn zstd_at_rest(
        &self,
        level: Level,
        state: &LevelState,
        is_quiet: bool,
    ) -> Option<i32> {
        let is_much = state.raw_bytes() >= self.rest_bytes;
        let is_due = is_quiet || self.zstd_at(level, state, 0).is_some();
        self.zstd.filter(|_| is_much && is_due)
    }

    /// Whether the next level is the first to be compressed: files are not moved there as they are.
    pub(super) fn begins_below(&self, level: Level, state: &LevelState) -> bool {
        let compressed = |level| self.zstd_at(level, state, 0).is_some();
        compressed(level.below()) && !compressed(level)
    }
}
