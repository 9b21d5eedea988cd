//! [`Reader`]: an open table file, shared by all threads.
//!
//! Opening reads footer and directory; everything else is read when it is asked for: by
//! [lookups](super::lookup) of keys, and by cursors.

use std::path::Path;
use std::sync::Arc;

use super::filter::{Filter, filter_of};
use super::footer::{Directory, FOOTER_BYTES, FORMAT, Footer, Parsed};
use super::frame::Frame;
use super::held::Held;
use super::index::{BlockHandle, IndexPartition};
use super::source::{Caching, Source};
use super::{FileId, FileMeta, SstCursor};
use crate::cache::BlockCache;
use crate::env::{Backing, Disk};
use crate::error::{Damage, Error, Result};
use crate::options::ReadMode;
use crate::version::Version;

/// What a search reads of the end of an index partition of the usual size, and of a data block: the
/// restarts.
pub(super) const INDEX_END_BYTES: usize = 1 << 10;
pub(super) const BLOCK_END_BYTES: usize = 256;

/// An open table file.
#[derive(Debug)]
pub(crate) struct Reader {
    source: Source,
    directory: Directory,
}

impl Reader {
    /// Opens a file that must be the one `meta` describes.
    ///
    /// # Errors
    /// Damage to footer or directory, another file than expected, a format of a later version.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &Path,
        meta: &FileMeta,
        cache: Arc<BlockCache>,
        mode: ReadMode,
    ) -> Result<Self> {
        let mut source = Source::open(disk, path, meta.id, cache, mode)?;
        if source.len() != meta.bytes {
            let expected = format!("a file of {} bytes", meta.bytes);
            let damage = Damage::new(0, expected, format!("one of {} bytes", source.len()));
            return Err(damage.in_file(path, source.len().min(meta.bytes)));
        }
        let directory = read_directory(&source)?;
        if directory.meta != *meta {
            let damage = Damage::new(0, "the file that the manifest describes", "another");
            return Err(damage.in_file(path, 0));
        }
        source.set_blocks(directory.blocks());
        Ok(Self { source, directory })
    }

    /// What a file says of itself.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(crate) fn describe(
        disk: &dyn Disk,
        path: &Path,
        id: FileId,
        cache: Arc<BlockCache>,
        mode: ReadMode,
    ) -> Result<FileMeta> {
        Ok(read_directory(&Source::open(disk, path, id, cache, mode)?)?.meta)
    }

    /// What keeps the bytes of the file.
    pub(crate) fn backing(&self) -> Backing {
        self.source.backing()
    }

    /// What the file holds.
    pub(crate) fn meta(&self) -> &FileMeta {
        &self.directory.meta
    }

    /// Memory that is held as long as the file is open.
    pub(crate) fn pinned_bytes(&self) -> usize {
        let directory = &self.directory;
        directory.top.bytes() + directory.filters.bytes() + directory.blocks() / 8
    }

    /// `false`: the file has no entry of the key with this hash.
    #[inline]
    pub(super) fn may_contain(&self, key_hash: u64) -> Result<bool> {
        let filter = filter_of(key_hash, self.directory.filters.len());
        self.ask_filter(filter, |filter| filter.may_contain(key_hash))
    }

    /// Shows a filter to `ask`.
    #[inline]
    pub(super) fn ask_filter<R>(
        &self,
        filter: usize,
        ask: impl FnOnce(Filter<'_>) -> R,
    ) -> Result<R> {
        let handle = self.filter_handle(filter)?;
        let held;
        let payload = match self.source.at_hand(&handle, false) {
            Some(payload) => payload,
            None => {
                held = self.source.load(&handle, Caching::Keep)?;
                held.payload()
            }
        };
        Filter::parse(payload).map(ask).map_err(|damage| self.damage(damage, &handle))
    }

    /// `false`: the file has no entry of the partition whose encoded prefix has this hash.
    pub(crate) fn may_contain_partition(&self, partition_hash: u64) -> Result<bool> {
        self.may_contain(partition_hash)
    }

    /// A cursor that keeps the blocks it passes in the cache.
    pub(crate) fn cursor(&self) -> SstCursor<'_> {
        SstCursor::new(self, Caching::Keep)
    }

    /// A cursor for reading the file once through (compaction): adds nothing to the cache.
    pub(crate) fn passing_cursor(&self) -> SstCursor<'_> {
        SstCursor::new(self, Caching::Pass)
    }

    #[inline]
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    #[inline]
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// A filter's payload, looked through for damage.
    pub(super) fn filter(&self, filter: usize, caching: Caching) -> Result<Held<'_>> {
        let handle = self.filter_handle(filter)?;
        let held = self.source.load(&handle, caching)?;
        match Filter::parse(held.payload()) {
            Ok(_) => Ok(held),
            Err(damage) => Err(self.damage(damage, &handle)),
        }
    }

    #[inline]
    pub(super) fn filter_handle(&self, filter: usize) -> Result<BlockHandle> {
        let directory = &self.directory;
        match directory.filters.handle(filter, directory.filter_ordinals()) {
            Some(handle) => Ok(handle),
            None => Err(self.damage_at(Damage::new(0, "a filter", "none"), self.source.len())),
        }
    }

    /// The data block that has the first entry at or after (`key`, `at`), out of the index partition
    /// that has it: what [`place`](Self::place) finds, for a lookup that does not go on from there.
    /// `None` if there is no such partition.
    #[inline]
    pub(super) fn locate(
        &self,
        number: usize,
        key: &[u8],
        at: Version,
    ) -> Result<Option<BlockHandle>> {
        let Some(partition) = self.directory.top.handle(number) else { return Ok(None) };
        let held = self.source.load(partition, Caching::Keep)?;
        let located = IndexPartition::parse(held.payload())
            .and_then(|index| index.handle(index.find(key, at)?));
        located.map(Some).map_err(|damage| self.damage(damage, partition))
    }

    /// The place of the first data block that may have an entry at or after (`key`, `at`).
    pub(super) fn place(
        &self,
        key: &[u8],
        at: Version,
        caching: Caching,
    ) -> Result<Option<Place<'_>>> {
        let partition = self.directory.top.find(key, at);
        let Some(mut place) = self.partition(partition, caching)? else { return Ok(None) };
        place.position = place.read(|index| index.find(key, at))?;
        if place.position < place.len {
            return Ok(Some(place));
        }
        let damage = Damage::new(0, "an index partition up to its fence", "one that ends before");
        Err(self.damage(damage, &place.partition_handle))
    }

    /// The place of the first data block of an index partition; `None` past the last.
    pub(super) fn partition(
        &self,
        partition: usize,
        caching: Caching,
    ) -> Result<Option<Place<'_>>> {
        let Some(&handle) = self.directory.top.handle(partition) else { return Ok(None) };
        self.source.prefetch_end(&handle, INDEX_END_BYTES);
        let held = self.source.load(&handle, caching)?;
        let len = IndexPartition::parse(held.payload())
            .map_err(|damage| self.damage(damage, &handle))?
            .len();
        if len == 0 {
            let damage = Damage::new(0, "an index partition", "an empty one");
            return Err(self.damage(damage, &handle));
        }
        let place = Place {
            reader: self,
            caching,
            partition,
            partition_handle: handle,
            held,
            len,
            position: 0,
        };
        Ok(Some(place))
    }

    #[cold]
    pub(super) fn damage(&self, damage: Damage, handle: &BlockHandle) -> Error {
        self.damage_at(damage, handle.offset.0)
    }

    #[cold]
    pub(super) fn damage_at(&self, damage: Damage, base: u64) -> Error {
        damage.in_file(self.source.path(), base)
    }
}

/// Where a data block is in the index: a partition, and a position in it.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    reader: &'a Reader,
    caching: Caching,
    partition: usize,
    partition_handle: BlockHandle,
    held: Held<'a>,
    /// Data blocks in the partition, at least one.
    len: usize,
    position: usize,
}

impl<'a> Place<'a> {
    pub(super) fn handle(&self) -> Result<BlockHandle> {
        self.read(|index| index.handle(self.position))
    }

    /// The fence of the data block: its key and version.
    pub(super) fn fence(&self) -> Result<(&[u8], Version)> {
        self.read(|index| index.fence(self.position))
    }

    /// The place of the next data block, in the same partition or the next.
    pub(super) fn next(mut self) -> Result<Option<Self>> {
        if self.position + 1 < self.len {
            self.position += 1;
            return Ok(Some(self));
        }
        self.reader.partition(self.partition + 1, self.caching)
    }

    /// The next data block, if the same partition has it.
    pub(super) fn next_at_hand(&self) -> Option<BlockHandle> {
        let position = (self.position + 1 < self.len).then_some(self.position + 1)?;
        IndexPartition::parse(self.held.payload()).ok()?.handle(position).ok()
    }

    /// Goes on to the next data block, which is [at hand](Self::next_at_hand).
    pub(super) fn go_on(&mut self) {
        self.position += 1;
    }

    /// The blocks of the file.
    pub(super) fn source(&self) -> &'a Source {
        &self.reader.source
    }

    /// The place of the data block before.
    pub(super) fn previous(mut self) -> Result<Option<Self>> {
        if let Some(position) = self.position.checked_sub(1) {
            self.position = position;
            return Ok(Some(self));
        }
        match self.partition.checked_sub(1) {
            Some(partition) => Ok(self.reader.partition(partition, self.caching)?.map(Self::last)),
            None => Ok(None),
        }
    }

    /// The last data block of the partition.
    pub(super) fn last(mut self) -> Self {
        self.position = self.len - 1;
        self
    }

    fn read<'s, R>(
        &'s self,
        read: impl FnOnce(IndexPartition<'s>) -> Result<R, Damage>,
    ) -> Result<R> {
        IndexPartition::parse(self.held.payload())
            .and_then(read)
            .map_err(|damage| self.reader.damage(damage, &self.partition_handle))
    }
}

fn read_directory(source: &Source) -> Result<Directory> {
    let path = source.path();
    let Some(footer_offset) = source.len().checked_sub(FOOTER_BYTES as u64) else {
        let found = format!("{} bytes", source.len());
        return Err(Damage::new(0, "a table file", found).in_file(path, 0));
    };
    let bytes = source.read_plain(footer_offset, FOOTER_BYTES)?;
    let footer = match Footer::decode(&bytes) {
        Ok(Parsed::Footer(footer)) => footer,
        Ok(Parsed::Unsupported(found)) => {
            return Err(Error::UnsupportedFormat { file: path.into(), found, supported: FORMAT });
        }
        Err(damage) => return Err(damage.in_file(path, footer_offset)),
    };
    if footer.file != source.id() {
        let expected = format!("the footer of table file {}", source.id());
        let damage = Damage::new(0, expected, format!("that of {}", footer.file));
        return Err(damage.in_file(path, footer_offset));
    }
    let len = footer.directory_len as usize;
    if footer.directory.0.saturating_add(len as u64) != footer_offset {
        let damage = Damage::new(0, "the directory right before the footer", "none");
        return Err(damage.in_file(path, footer_offset));
    }
    let stored = source.read_plain(footer.directory.0, len)?;
    let directory = Frame::parse(&stored).and_then(|frame| {
        frame.check(source.id(), footer.directory)?;
        Directory::decode(frame.payload, footer.format)
    });
    let mut directory = directory.map_err(|damage| damage.in_file(path, footer.directory.0))?;
    if directory.meta.bytes != footer.directory.0 {
        let damage = Damage::new(0, "a directory for the blocks before it", "another length");
        return Err(damage.in_file(path, footer.directory.0));
    }
    directory.meta.bytes = source.len();
    Ok(directory)
}
