//! The block cache as a benchmark of this package sees it.

use std::sync::Arc;

use super::{BlockCache, BlockOffset, FileId};

/// A cache of blocks.
#[derive(Debug)]
pub struct BenchCache(BlockCache);

impl BenchCache {
    /// A cache of about so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(BlockCache::new(bytes))
    }

    /// Keeps a block.
    pub fn insert(&self, file: u64, offset: u64, block: Arc<[u8]>) {
        self.0.insert_block(FileId::new(file), BlockOffset(offset), block);
    }

    /// The length of a block that is kept.
    #[must_use]
    pub fn get(&self, file: u64, offset: u64) -> Option<usize> {
        self.0.block(FileId::new(file), BlockOffset(offset)).map(|block| block.len())
    }
}
