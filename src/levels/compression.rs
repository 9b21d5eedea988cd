//! [`CompressionRule`]: which table files are compressed.
//!
//! Compression takes processor time when a file is written and when a block is first read, and gives
//! space, in the file system and so in memory. The youngest levels are rewritten soon, and where all
//! that is stored is smaller than the memory that the database may use there is little to be had for
//! it (DESIGN.md, section 9).
//!
//! Invariant: if new files for a level are compressed, so are those for any deeper one. What was
//! written before there was so much stays as it is until it is rewritten: about a memory budget of it
//! each time that the tree grows past that.

use super::state::{Level, LevelState};
use crate::options::{Compression, Options};

/// The zstd level of [`Compression::Automatic`].
const AUTOMATIC_ZSTD: i32 = 1;

/// What is compressed, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompressionRule {
    zstd: Option<i32>,
    /// Blocks of the levels above this one are not compressed.
    first: Level,
    /// Nothing is compressed until there are so many bytes of keys and values.
    plain_bytes: u64,
}

impl CompressionRule {
    pub(super) fn of(options: &Options) -> Self {
        match options.compression {
            Compression::Automatic => Self {
                zstd: Some(AUTOMATIC_ZSTD),
                first: Level::ONE.below(),
                plain_bytes: options.memory_budget as u64,
            },
            Compression::None => Self { zstd: None, first: Level::ZERO, plain_bytes: 0 },
            Compression::Zstd(zstd) => Self::always(zstd),
        }
    }

    /// Everything, however little there is.
    pub(super) fn always(zstd: i32) -> Self {
        Self { zstd: Some(zstd), first: Level::ZERO, plain_bytes: 0 }
    }

    /// The zstd level of a new file for that level, if it is to be compressed. It counts what the
    /// tree has down to there, and `added` bytes of keys and values that are not part of it yet.
    pub(super) fn zstd_at(&self, level: Level, state: &LevelState, added: u64) -> Option<i32> {
        let stored = || state.raw_bytes_down_to(level).saturating_add(added);
        self.zstd.filter(|_| level >= self.first && stored() >= self.plain_bytes)
    }

    /// Whether the next level is the first to be compressed: files are not moved there as they are.
    pub(super) fn begins_below(&self, level: Level, state: &LevelState) -> bool {
        let compressed = |level| self.zstd_at(level, state, 0).is_some();
        compressed(level.below()) && !compressed(level)
    }
}
