//! Writes a table file.
use std::path::PathBuf;
use std::sync::Arc;

use super::{FileId, FileMeta};
use crate::entry::Entry;
use crate::env::DiskFile;
use crate::error::Result;

/// How a table file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterOptions {
    /// The zstd level of data blocks; `None` leaves them as they are.
    pub(crate) compression: Option<i32>,
    /// A data block ends at about this size.
    pub(crate) block_bytes: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { compression: None, block_bytes: 8 << 10 }
    }
}

/// Writes one table file from entries in order.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
}

impl Writer {
    /// Starts an empty file; `path` is for messages.
    pub(crate) fn new(_: Arc<dyn DiskFile>, _: PathBuf, _: FileId, _: WriterOptions) -> Self {
        unimplemented!()
    }

    /// Adds the next entry: keys ascend, versions descend within a key.
    pub(crate) fn add(&mut self, _: Entry<'_>) -> Result<()> {
        unimplemented!()
    }

    /// About the length the file would have if it were finished now.
    pub(crate) fn written_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Number of entries added.
    pub(crate) fn entries(&self) -> u64 {
        unimplemented!()
    }

    /// Ends and syncs the file; making its name durable is the caller's.
    pub(crate) fn finish(self) -> Result<FileMeta> {
        unimplemented!()
    }
}
