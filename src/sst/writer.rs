//! [`Writer`]: entries in order become a table file.
//!
//! Data blocks go to the file as they fill; what reading needs to find them (index, filters,
//! directory) is kept in memory and follows at the end. Until [`finish`](Writer::finish) returns
//! the file is no table file: it has no footer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::block_builder::{BlockBuilder, RestartInterval};
use super::filter_builder::FilterBuilder;
use super::filter_index::FilterIndex;
use super::footer::Directory;
use super::frame::Body;
use super::index::{BlockHandle, Fence, IndexBuilder, NEWEST, TopIndex};
use super::meta::{FileMeta, Tally};
use super::sink::Sink;
use super::squeeze::{Label, Squeeze, Squeezed};
use crate::cache::FileId;
use crate::entry::Entry;
use crate::env::{DiskFile, Jobs};
use crate::error::{Error, Result};
use crate::key;

/// How far a lookup walks in a data block. Point reads of 110-byte entries, 22 MB in memory, by
/// bytes between restarts: 256: 0.55 µs (8 % more space than 16 entries), 512: 0.50 µs (4 %),
/// 1024: 0.54 µs (1.5 %), 16 entries: 0.63 µs.
const RESTART_INTERVAL: RestartInterval = RestartInterval { entries: 16, bytes: 512 };

/// Default size of a data block. Point reads of 110-byte entries, by size of block:
///
/// | | 4 KiB | 8 KiB | 16 KiB |
/// | --- | --- | --- | --- |
/// | mapped, in memory | 0.54 µs | 0.50 µs | 0.48 µs |
/// | zstd, in the cache | 0.66 µs | 0.62 µs | 0.58 µs |
/// | zstd, not in the cache | 5.7 µs | 7.6 µs | 12.5 µs |
/// | bytes an entry with zstd | 48 | 45 | 44 |
pub(crate) const BLOCK_BYTES: usize = 8 << 10;

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
        Self { compression: None, block_bytes: BLOCK_BYTES }
    }
}

/// Writes one table file from entries in order.
pub(crate) struct Writer {
    sink: Sink,
    /// Where data blocks are compressed.
    squeeze: Option<Squeeze>,
    block_bytes: usize,
    block: BlockBuilder,
    data_blocks: usize,
    /// Entries in the blocks that are finished.
    entries_before: u64,
    /// Length of the part of the last key that names its partition.
    partition_len: usize,
    index: IndexBuilder,
    filter: FilterBuilder,
    tally: Tally,
}

impl Writer {
    /// Starts an empty file; `path` is for messages.
    pub(crate) fn new(
        file: Arc<dyn DiskFile>,
        path: PathBuf,
        id: FileId,
        options: WriterOptions,
    ) -> Self {
        Self {
            sink: Sink::new(file, path, id),
            squeeze: options.compression.map(Squeeze::new),
            block_bytes: options.block_bytes,
            block: BlockBuilder::new(RESTART_INTERVAL),
            data_blocks: 0,
            entries_before: 0,
            partition_len: 0,
            index: IndexBuilder::new(),
            filter: FilterBuilder::default(),
            tally: Tally::new(),
        }
    }

    /// Lets helpers, if there are any, compress and write beside who adds entries. The file is the
    /// same, byte for byte. It takes 3 MiB of memory, so it is for files much larger.
    pub(crate) fn help(mut self, helpers: &Arc<dyn Jobs>) -> Self {
        if helpers.helpers() > 0 {
            self.sink.help(Arc::clone(helpers));
            if let Some(squeeze) = &mut self.squeeze {
                squeeze.help(Arc::clone(helpers));
            }
        }
        self
    }

    /// Adds the next entry: keys ascend, versions descend within a key.
    ///
    /// # Errors
    /// An entry out of order; what the file system refuses.
    pub(crate) fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let is_first = self.tally.entries() == 0;
        let common = self.block.common(entry.key);
        let is_new_key = is_first || common < entry.key.len().max(self.block.last_key().len());
        self.check_order(&entry, is_first, is_new_key, common)?;
        let len = self.block.entry_len(&entry, common);
        if !self.block.is_empty() && self.block.len() + len > self.block_bytes {
            let fence = if is_new_key {
                Fence::between(self.block.last_key(), entry.key)
            } else {
                Fence::at(self.block.last_key(), self.block.last_version())
            };
            self.end_block(fence)?;
        }
        let counted = if is_new_key {
            self.add_to_filter(entry.key, common);
            self.tally.add_key(&entry)
        } else {
            self.tally.add(&entry)
        };
        counted.map_err(|damage| damage.in_file(self.sink.path(), self.sink.end().0))?;
        self.block.add(&entry, common);
        Ok(())
    }

    /// The entry's key has `common` bytes at its front in common with the last one, and no more.
    fn check_order(
        &self,
        entry: &Entry<'_>,
        is_first: bool,
        is_new_key: bool,
        common: usize,
    ) -> Result<()> {
        let in_order = is_first
            || if is_new_key {
                entry.key.get(common) > self.block.last_key().get(common)
            } else {
                entry.version < self.block.last_version()
            };
        if in_order && entry.version <= NEWEST {
            return Ok(());
        }
        debug_assert!(false, "entries of a table file must come in order");
        Err(Error::InvalidArgument("entries of a table file must come in order".into()))
    }

    /// Adds a key that has `common` bytes of the last one, and its partition, if that is another.
    fn add_to_filter(&mut self, entry_key: &[u8], common: usize) {
        self.filter.add(key::hash(entry_key));
        // What has no RowKey, or is no key yet, is all its partition.
        let has_row = self.partition_len < self.block.last_key().len();
        if common < self.partition_len || !has_row {
            self.partition_len = key::partition_len(entry_key);
            let partition = entry_key.get(..self.partition_len).unwrap_or(entry_key);
            self.filter.add(key::hash(partition));
        }
    }

    fn end_block(&mut self, fence: Fence) -> Result<()> {
        let label = Label { fence, entries_before: self.entries_before };
        let payload = self.block.finish();
        match &mut self.squeeze {
            None => {
                let body = Body::plain(payload);
                store(&mut self.sink, &mut self.index, &mut self.data_blocks, body, &label)?;
            }
            Some(squeeze) => {
                squeeze.push(payload, label);
                self.store_squeezed(Squeeze::pop)?;
            }
        }
        self.block.clear();
        self.entries_before = self.tally.entries();
        Ok(())
    }

    /// Stores what comes out of the squeeze, if there is one.
    fn store_squeezed(
        &mut self,
        pop: impl Fn(&mut Squeeze) -> io::Result<Option<Squeezed>>,
    ) -> Result<()> {
        let Self { sink, index, data_blocks, squeeze: Some(squeeze), .. } = self else {
            return Ok(());
        };
        let failed = |sink: &Sink, e| Error::io("compress a block of", sink.path(), e);
        while let Some(batch) = pop(squeeze).map_err(|e| failed(sink, e))? {
            for (body, label) in batch.blocks() {
                store(sink, index, data_blocks, body, label)?;
            }
        }
        Ok(())
    }

    /// About the length the file would have if it were finished now.
    pub(crate) fn written_bytes(&self) -> u64 {
        let inside = self.squeeze.as_ref().map_or(0, Squeeze::inside);
        let rest = self.block.len() + self.index.len() + self.filter.len();
        self.sink.end().0 + (inside + rest) as u64
    }

    /// Ends and syncs the file; making its name durable is the caller's.
    ///
    /// # Errors
    /// No entry was added; what the file system refuses.
    pub(crate) fn finish(mut self) -> Result<FileMeta> {
        if self.block.is_empty() {
            return Err(Error::InvalidArgument("a table file needs an entry".into()));
        }
        self.end_block(Fence::at(self.block.last_key(), self.block.last_version()))?;
        self.store_squeezed(Squeeze::pop_any)?;
        let mut top = TopIndex::default();
        for (number, partition) in self.index.finish().iter().enumerate() {
            let (offset, len) = self.sink.append(Body::plain(&partition.payload))?;
            top.push(partition, offset, len, self.data_blocks + number);
        }
        let mut filters = FilterIndex::new(self.sink.end().0);
        for payload in self.filter.finish() {
            let (_, len) = self.sink.append(Body::plain(&payload))?;
            filters.push(len);
        }
        let meta = self.tally.finish(self.sink.id(), self.sink.end().0, self.block.last_key());
        let directory = Directory { meta, data_blocks: self.data_blocks, top, filters };
        let bytes = self.sink.finish(&directory)?;
        Ok(FileMeta { bytes, ..directory.meta })
    }
}

/// Stores the next data block, and notes in the index where.
fn store(
    sink: &mut Sink,
    index: &mut IndexBuilder,
    data_blocks: &mut usize,
    body: Body<'_>,
    label: &Label,
) -> Result<()> {
    let (offset, len) = sink.append(body)?;
    let handle = BlockHandle {
        offset,
        len,
        compressed: body.is_compressed(),
        ordinal: *data_blocks,
        entries_before: label.entries_before,
    };
    index.add(&label.fence, &handle);
    *data_blocks += 1;
    Ok(())
}
