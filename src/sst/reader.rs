//! Reads a table file.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FileMeta, Lookup, SstCursor};
use crate::cache::BlockCache;
use crate::entry::Found;
use crate::env::Disk;
use crate::error::Result;
use crate::options::ReadMode;
use crate::version::Version;

/// Approximate content of a key range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Stored bytes, after compression.
    pub(crate) bytes: u64,
    /// Entries, tombstones and older versions included.
    pub(crate) entries: u64,
}

/// An open table file; shared by all threads.
#[derive(Debug)]
pub(crate) struct Reader {
    path: PathBuf,
}

impl Reader {
    /// Opens a file that must be the one `meta` describes.
    pub(crate) fn open(
        _disk: &dyn Disk,
        _path: &Path,
        _meta: &FileMeta,
        _cache: Arc<BlockCache>,
        _mode: ReadMode,
    ) -> Result<Self> {
        unimplemented!()
    }

    /// What the file says of itself, for finding out about a file that no manifest describes.
    pub(crate) fn read_meta(_disk: &dyn Disk, _path: &Path) -> Result<FileMeta> {
        unimplemented!()
    }

    /// Shows the newest entry of the key at or before `at` to `visit`.
    pub(crate) fn get<R>(
        &self,
        _lookup: &Lookup<'_>,
        _at: Version,
        _visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        unimplemented!()
    }

    /// `false`: the file has no entry of the key with this hash.
    pub(crate) fn may_contain(&self, _key_hash: u64) -> Result<bool> {
        unimplemented!()
    }

    /// `false`: the file has no entry of the partition whose encoded prefix has this hash.
    pub(crate) fn may_contain_partition(&self, _partition_hash: u64) -> Result<bool> {
        unimplemented!()
    }

    /// A cursor that keeps the blocks it passes in the cache.
    pub(crate) fn cursor(&self) -> SstCursor<'_> {
        unimplemented!()
    }

    /// A cursor for reading the file once through (compaction): leaves the cache as it is.
    pub(crate) fn passing_cursor(&self) -> SstCursor<'_> {
        unimplemented!()
    }

    /// About how much there is with `start <= key < end`.
    pub(crate) fn estimate(&self, _start: &[u8], _end: &[u8]) -> Result<Estimate> {
        unimplemented!()
    }

    /// Shows fence keys in `start <= key < end`, ascending, each with the stored bytes since the
    /// fence before it: where the range can be cut into parts of known size.
    pub(crate) fn split_keys(
        &self,
        _start: &[u8],
        _end: &[u8],
        _visit: &mut dyn FnMut(&[u8], u64),
    ) -> Result<()> {
        unimplemented!()
    }

    /// Reads the whole file: all checksums, the order of all entries, all that index and filter
    /// say.
    pub(crate) fn verify(&self) -> Result<()> {
        unimplemented!()
    }
}
