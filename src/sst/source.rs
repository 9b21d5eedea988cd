//! [`Source`]: the stored blocks of one open file, from its mapping or through the cache.
//!
//! Invariant: a block is given out only after its checksum was found right, once: for a block read
//! in place a bit remembers it as long as the file is open, and so does every hint of it; any other is
//! checked on its way into the cache.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::bits::Bits;
use super::frame::{Frame, zeros};
use super::held::{Held, prefetch_lines};
use super::index::BlockHandle;
use super::way::Way;
use super::windows::Windows;
use crate::cache::{BlockCache, BlockOffset, FileId, FileNumber};
use crate::env::{self, Backing, Disk, DiskFile, Mapping};
use crate::error::{Damage, Error, Result};
use crate::options::ReadMode;
use crate::prefetch::{LINE_BYTES, prefetch};

/// What a read does to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caching {
    /// Leaves what it read there.
    Keep,
    /// Uses what is there and adds nothing: reading a file once through for a compaction, or a point read,
    /// which knows only afterwards what is worth keeping.
    Pass,
    /// Trusts neither the cache nor an earlier check.
    Distrust,
}

#[derive(Debug)]
pub(super) enum Access {
    Mapped(Mapped),
    Positioned(Arc<dyn DiskFile>),
}

#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) map: Mapping,
    /// Which blocks were found right.
    checked: Bits,
    windows: Windows,
}

/// The blocks of one file.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    pub(super) id: FileId,
    len: u64,
    pub(super) cache: Arc<BlockCache>,
    /// By which hints name it.
    pub(super) number: Option<FileNumber>,
    /// Whether rows of this file were put into the cache: of what is read in place none are.
    has_rows: AtomicBool,
    pub(super) access: Access,
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(number) = &self.number {
            self.cache.hints().close_file(number);
        }
    }
}

impl Source {
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        id: FileId,
        cache: Arc<BlockCache>,
        mode: ReadMode,
    ) -> Result<Self> {
        let io = |action, error| Error::io(action, path, error);
        let file = disk.open(path).map_err(|error| io("open", error))?;
        let map = match mode {
            ReadMode::Mmap => env::map(&*file).map_err(|error| io("map", error))?,
            ReadMode::Pread => None,
        };
        let (access, len) = match map {
            Some(map) => {
                let len = map.len() as u64;
                let (checked, windows) = (Bits::default(), Windows::new(len));
                (Access::Mapped(Mapped { map, checked, windows }), len)
            }
            None => {
                let len = file.len().map_err(|error| io("read the length of", error))?;
                (Access::Positioned(file), len)
            }
        };
        let number = cache.hints().open_file();
        let has_rows = AtomicBool::new(false);
        Ok(Self { path: path.to_owned(), id, len, cache, number, has_rows, access })
    }

    /// Makes room to remember which blocks were checked.
    pub(super) fn set_blocks(&mut self, blocks: usize) {
        if let Access::Mapped(mapped) = &mut self.access {
            mapped.checked = Bits::new(blocks);
        }
    }

    /// What keeps the bytes of the file.
    pub(super) fn backing(&self) -> Backing {
        match &self.access {
            Access::Mapped(mapped) => Box::new(mapped.map.clone()),
            Access::Positioned(file) => Box::new(Arc::clone(file)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// The row of the key with this hash, if the cache has it.
    #[inline]
    pub(super) fn row(&self, key_hash: u64) -> Option<Arc<[u8]>> {
        self.has_rows.load(Ordering::Relaxed).then(|| self.cache.row(self.id, key_hash)).flatten()
    }

    /// Has the cache hold a row.
    pub(super) fn keep_row(&self, key_hash: u64, row: Arc<[u8]>) {
        self.has_rows.store(true, Ordering::Relaxed);
        self.cache.insert_row(self.id, key_hash, row);
    }

    /// Whether a block that a point read had to read is to be kept whole.
    pub(super) fn wants_block(&self, handle: &BlockHandle) -> bool {
        self.cache.wants_block(self.id, handle.offset)
    }

    /// Has the cache hold a block, which was read of this file.
    pub(super) fn keep_block(&self, offset: BlockOffset, block: Arc<[u8]>) -> Held<'_> {
        self.cache.insert_block(self.id, offset, Arc::clone(&block));
        Held::Shared(block)
    }

    /// Brings near what is read in place there.
    #[inline]
    pub(super) fn prefetch(&self, offsets: Range<u64>) {
        let Access::Mapped(mapped) = &self.access else { return };
        let mut at = offsets.start;
        while at < offsets.end {
            prefetch(mapped.map.as_ptr().wrapping_add(at as usize));
            at += LINE_BYTES as u64;
        }
    }

    /// The same of one byte.
    #[inline]
    pub(super) fn prefetch_line(&self, offset: u64) {
        if let Access::Mapped(mapped) = &self.access {
            prefetch(mapped.map.as_ptr().wrapping_add(offset as usize));
        }
    }

    /// Brings near the last bytes of a block, if it is read in place.
    #[inline]
    pub(super) fn prefetch_end(&self, handle: &BlockHandle, bytes: usize) {
        if !handle.compressed {
            let end = handle.end();
            self.prefetch(end.saturating_sub(bytes.min(handle.len) as u64)..end);
        }
    }

    /// The same for one who goes from block to block.
    pub(super) fn prefetch_next_end(&self, handle: &BlockHandle, bytes: usize) {
        if let Some(block) = self.next_in_place(handle) {
            prefetch_lines(block, block.len().saturating_sub(bytes)..block.len());
        }
    }

    /// Brings near so many bytes at the front of the block that such a one comes to next, and its very
    /// end, if it is in memory. Gives the block if it is the cache's.
    pub(super) fn approach(&self, handle: &BlockHandle, bytes: usize) -> Option<Held<'_>> {
        let ends = |block: &[u8]| {
            prefetch_lines(block, 0..bytes.min(block.len()));
            prefetch_lines(block, block.len().saturating_sub(LINE_BYTES)..block.len());
        };
        if let Some(block) = self.next_in_place(handle) {
            ends(block);
            return None;
        }
        let block = self.cache.block_ahead(self.id, handle.offset)?;
        ends(&block);
        Some(Held::Shared(block))
    }

    /// The stored bytes of a block that is read in place by one who goes from block to block.
    fn next_in_place(&self, handle: &BlockHandle) -> Option<&[u8]> {
        match &self.access {
            Access::Mapped(mapped) if !handle.compressed => stored(&mapped.map, handle, true),
            _ => None,
        }
    }

    /// Length of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The payload of a block.
    #[inline]
    pub(super) fn load(&self, handle: &BlockHandle, caching: Caching) -> Result<Held<'_>> {
        self.load_as(handle, caching, None)
    }

    /// The payload of a block, by one who goes from block to block.
    #[inline]
    pub(super) fn load_next(
        &self,
        handle: &BlockHandle,
        caching: Caching,
        way: &mut Way,
    ) -> Result<Held<'_>> {
        self.load_as(handle, caching, Some(way))
    }

    #[inline]
    fn load_as(
        &self,
        handle: &BlockHandle,
        caching: Caching,
        way: Option<&mut Way>,
    ) -> Result<Held<'_>> {
        match self.at_hand(handle, way.is_some()) {
            Some(payload) if caching != Caching::Distrust => Ok(Held::Mapped(payload)),
            _ => self.load_checked(handle, caching, way),
        }
    }

    /// The payload of a block that is read in place, if it was found right before.
    #[inline]
    pub(super) fn at_hand(&self, handle: &BlockHandle, in_order: bool) -> Option<&[u8]> {
        let Access::Mapped(Mapped { map, checked, .. }) = &self.access else { return None };
        if handle.compressed || !checked.is_set(handle.ordinal) {
            return None;
        }
        Frame::plain_payload(stored(map, handle, in_order)?)
    }

    fn load_checked(
        &self,
        handle: &BlockHandle,
        caching: Caching,
        mut way: Option<&mut Way>,
    ) -> Result<Held<'_>> {
        if let Access::Mapped(mapped) = &self.access
            && !handle.compressed
        {
            let frame = self.mapped(mapped, handle, caching, way.as_deref_mut())?;
            if !frame.is_compressed() {
                return Ok(Held::Mapped(frame.payload));
            }
        }
        self.load_shared(handle, caching, way)
    }

    fn load_shared(
        &self,
        handle: &BlockHandle,
        caching: Caching,
        way: Option<&mut Way>,
    ) -> Result<Held<'_>> {
        if caching != Caching::Distrust
            && let Some(block) = self.cache.block(self.id, handle.offset)
        {
            return Ok(Held::Shared(block));
        }
        let block = match &self.access {
            Access::Mapped(mapped) => {
                let frame = self.mapped(mapped, handle, caching, way)?;
                frame.expand().map_err(|damage| self.damage(damage, handle))?
            }
            Access::Positioned(file) => {
                let stored = self.read(&**file, handle)?;
                let frame = self.checked(&stored, handle)?;
                if frame.is_compressed() {
                    frame.expand().map_err(|damage| self.damage(damage, handle))?
                } else {
                    stored
                }
            }
        };
        Ok(match caching {
            Caching::Keep => self.keep_block(handle.offset, block),
            Caching::Pass | Caching::Distrust => Held::Read(block),
        })
    }

    /// Bytes that are in no block: the footer.
    pub(super) fn read_plain(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        match &self.access {
            Access::Mapped(Mapped { map, .. }) => {
                map.will_need(offset..offset.saturating_add(len as u64));
                bytes.copy_from_slice(part(map, offset, len).ok_or_else(|| self.beyond(offset))?);
            }
            Access::Positioned(file) => {
                file.read_at(&mut bytes, offset).map_err(|error| self.unread(error, offset))?;
            }
        }
        Ok(bytes)
    }

    fn mapped<'a>(
        &'a self,
        mapped: &'a Mapped,
        handle: &BlockHandle,
        caching: Caching,
        way: Option<&mut Way>,
    ) -> Result<Frame<'a>> {
        let Mapped { map, checked, windows } = mapped;
        let stored = stored(map, handle, way.is_some());
        let stored = stored.ok_or_else(|| self.beyond(handle.offset.0))?;
        // It may be missing: it is read for the first time, or was not in the cache.
        let block = handle.offset.0..handle.end();
        map.will_need(match way {
            Some(way) => way.ask(block.start, block.end),
            None => windows.ask(block, handle.compressed, self.cache.is_filling()),
        });
        if checked.is_set(handle.ordinal) && caching != Caching::Distrust {
            return Frame::parse(stored).map_err(|damage| self.damage(damage, handle));
        }
        let frame = self.checked(stored, handle)?;
        checked.set(handle.ordinal);
        Ok(frame)
    }

    fn read(&self, file: &dyn DiskFile, handle: &BlockHandle) -> Result<Arc<[u8]>> {
        // Before memory is taken for it: a length from the file is not to be believed.
        if handle.end() > self.len {
            return Err(self.beyond(handle.offset.0));
        }
        let mut bytes = zeros(handle.len);
        let room = Arc::get_mut(&mut bytes).unwrap_or_default();
        file.read_at(room, handle.offset.0).map_err(|error| self.unread(error, handle.offset.0))?;
        Ok(bytes)
    }

    /// Damage, if the file is no longer as long as it was when it was opened.
    #[cold]
    fn unread(&self, error: io::Error, offset: u64) -> Error {
        if error.kind() != io::ErrorKind::UnexpectedEof {
            return Error::io("read", &self.path, error);
        }
        let found = "the end of a file that was cut since it was opened";
        Damage::new(0, "a whole block", found).in_file(&self.path, offset)
    }

    fn checked<'b>(&self, stored: &'b [u8], handle: &BlockHandle) -> Result<Frame<'b>> {
        let frame = Frame::parse(stored).and_then(|frame| {
            frame.check(self.id, handle.offset)?;
            Ok(frame)
        });
        frame.map_err(|damage| self.damage(damage, handle))
    }

    #[cold]
    fn damage(&self, damage: Damage, handle: &BlockHandle) -> Error {
        damage.in_file(&self.path, handle.offset.0)
    }

    #[cold]
    fn beyond(&self, offset: u64) -> Error {
        let found = format!("the end of the file at {}", self.len);
        Damage::new(0, "a whole block", found).in_file(&self.path, offset)
    }
}

/// The bytes of a stored block, with its trailer.
#[inline]
fn stored<'a>(map: &'a Mapping, handle: &BlockHandle, in_order: bool) -> Option<&'a [u8]> {
    part(if in_order { map.in_order() } else { map }, handle.offset.0, handle.len)
}

#[inline]
pub(super) fn part(bytes: &[u8], offset: u64, len: usize) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)?.get(..len)
}
