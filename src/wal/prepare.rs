//! The next segment of a log, made ahead of the writer that takes it.
//!
//! Invariant: a file with a segment's name has a whole, synced header, and its name is durable,
//! before a record is written to it. Such a file is made under another name, so a crash while it
//! is made leaves nothing that replay would look at.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::record::TERMINATOR;
use super::segment::{HEADER_BYTES, Header, NEW_EXTENSION, SegmentId};
use super::segments::Segments;
use super::spares::{Spare, is_readable};
use super::zeros::write_zeros;
use crate::env::DiskFile;
use crate::error::{Error, Result};

/// How far the first segment that is prepared is written with zeros.
const PREPARED_BYTES: u64 = 4 << 20;
/// Zeros of a segment that is prepared are synced in steps of this. The writer may have to wait for
/// one; a sync of commits meanwhile takes its share of each, so that fewer are better for them.
const ZEROS_STEP_BYTES: u64 = 4 << 20;

/// A segment ready to be written.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) header: Header,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: PathBuf,
    /// Up to here the file's blocks are allocated and written, with zeros or an earlier life's bytes, or there
    /// is room for what is not synced.
    pub(super) prewritten: u64,
    /// How long the file was before its first record.
    pub(super) began_with: u64,
}

impl OpenSegment {
    /// Gives back the space behind the header; there are no records yet.
    fn shorten(&mut self) -> Result<()> {
        let len = (HEADER_BYTES + TERMINATOR.len()) as u64;
        if self.prewritten > len {
            let cut = self.file.set_len(len);
            cut.map_err(|e| Error::io("set the length of", &self.path, e))?;
            (self.prewritten, self.began_with) = (len, len);
        }
        Ok(())
    }
}

/// What comes after the segment that is being written.
#[derive(Debug)]
pub(super) struct Next {
    /// The id of the next segment that is made.
    id: SegmentId,
    prepared: Option<OpenSegment>,
    /// How far the next one that is prepared is written with zeros. Twice as far each time, so that
    /// a log takes space in proportion to what it has held.
    zeros_to: u64,
}

impl Next {
    /// Nothing is prepared yet; the next segment gets that id.
    pub(super) fn new(id: SegmentId) -> Self {
        Self { id, prepared: None, zeros_to: PREPARED_BYTES }
    }

    /// Gives back the space of what is prepared.
    pub(super) fn shorten(&mut self) -> Result<()> {
        self.prepared.as_mut().map_or(Ok(()), OpenSegment::shorten)
    }
}

impl Segments {
    /// Makes the next segment ready, unless it is, with zeros for as long as it is likely to be
    /// in use. For a background job: the writer does it itself, with few zeros, when it comes to
    /// the end of a segment first.
    pub(crate) fn prepare(&self) -> Result<()> {
        if !self.is_prepared() {
            self.read_old_spare()?;
        }
        let mut next = self.next.lock();
        if next.prepared.is_none() {
            let most = if self.zeros_ahead() { self.plan.most_zeros() } else { 0 };
            let zeros_to = next.zeros_to.min(most);
            next.prepared = Some(self.make(&mut next.id, zeros_to)?);
            next.zeros_to = next.zeros_to.max(zeros_to.saturating_mul(2));
        }
        Ok(())
    }

    /// Reads an old spare through, if there is no other; one that cannot be read is removed.
    fn read_old_spare(&self) -> Result<()> {
        let Some(old) = self.files.lock().spares.take_old() else { return Ok(()) };
        let is_kept = is_readable(&self.disk, &old.path);
        let (kept, other) = if is_kept { (Some(old), None) } else { (None, Some(old)) };
        self.files.lock().spares.came(kept.map(|spare| Spare { is_old: false, ..spare }));
        other.map_or(Ok(()), |spare| self.remove(&spare.path))
    }

    /// Whether the next segment is ready.
    pub(super) fn has_prepared(&self) -> bool {
        self.next.try_lock().is_some_and(|next| next.prepared.is_some())
    }

    /// Whether the next segment is ready or being made so.
    pub(crate) fn is_prepared(&self) -> bool {
        self.next.try_lock().is_none_or(|next| next.prepared.is_some())
    }

    /// The next segment, made now if need be.
    pub(super) fn take_next(&self) -> Result<OpenSegment> {
        self.is_awaited.store(true, Ordering::Relaxed);
        let mut next = self.next.lock();
        self.is_awaited.store(false, Ordering::Relaxed);
        match next.prepared.take() {
            Some(segment) => Ok(segment),
            None => self.make(&mut next.id, 0),
        }
    }

    /// Makes a segment with zeros up to there, and some in any case if there is room. Nothing is left of one that
    /// could not be made.
    fn make(&self, id: &mut SegmentId, zeros_to: u64) -> Result<OpenSegment> {
        let made = self.try_make(id, zeros_to);
        if made.is_err() {
            let _ = self.remove(&id.named(&self.dir, NEW_EXTENSION));
        }
        made
    }

    fn try_make(&self, id: &mut SegmentId, zeros_to: u64) -> Result<OpenSegment> {
        let after = self.files.lock().last;
        let header = Header::new(*id, after);
        let new = id.named(&self.dir, NEW_EXTENSION);
        let (file, prewritten) = match self.recycle(&header, &new)? {
            Some(recycled) => recycled,
            None => {
                self.disk.create(&new).map_err(|e| Error::io("create", &new, e))?;
                let file = self.open(&new)?;
                let zeros = self.write_first(&*file, &header, &new)?;
                (file, (HEADER_BYTES + zeros) as u64)
            }
        };
        let prewritten = self.write_zeros_ahead(&*file, prewritten, zeros_to, &new)?;
        let path = id.path(&self.dir);
        self.disk.rename(&new, &path).map_err(|e| Error::io("rename", &new, e))?;
        self.disk.sync_dir(&self.dir).map_err(|e| Error::io("sync", &self.dir, e))?;
        *id = id.next();
        Ok(OpenSegment { header, file, path, prewritten, began_with: prewritten })
    }

    /// Writes and syncs a header and the zeros that a file begins with, without room for them the fewest that do.
    /// Says how many.
    fn write_first(&self, file: &dyn DiskFile, header: &Header, path: &Path) -> Result<usize> {
        let (zeros, fewest) = (self.plan.first_zeros(), TERMINATOR.len());
        match self.write_start(file, header, zeros, path) {
            Err(error) if error.is_full() && zeros > fewest => {
                file.set_len(0).map_err(|e| Error::io("set the length of", path, e))?;
                self.write_start(file, header, fewest, path).map(|()| fewest)
            }
            written => written.map(|()| zeros),
        }
    }

    /// Writes and syncs a header and that many zeros.
    fn write_start(
        &self,
        file: &dyn DiskFile,
        header: &Header,
        zeros: usize,
        path: &Path,
    ) -> Result<()> {
        let end = (HEADER_BYTES + zeros) as u64;
        file.write_at(&header.encode(), 0)
            .and_then(|()| write_zeros(file, HEADER_BYTES as u64, end))
            .map_err(|e| Error::io("write to", path, e))?;
        file.sync().map_err(|e| Error::io("sync", path, e))
    }

    /// Writes and syncs zeros, if there is room for them and nobody waits; says up to where the file
    /// is written then.
    fn write_zeros_ahead(
        &self,
        file: &dyn DiskFile,
        from: u64,
        end: u64,
        path: &Path,
    ) -> Result<u64> {
        let mut at = from;
        while at < end && !self.is_awaited.load(Ordering::Relaxed) {
            let to = end.min(at + ZEROS_STEP_BYTES);
            if let Err(error) = write_zeros(file, at, to) {
                tracing::debug!(%error, "no room for a whole log segment ahead");
                file.set_len(from).map_err(|e| Error::io("set the length of", path, e))?;
                return Ok(from);
            }
            file.sync().map_err(|e| Error::io("sync", path, e))?;
            at = to;
        }
        Ok(at)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn DiskFile>> {
        self.disk.open_for_blocks(path).map_err(|e| Error::io("open", path, e))
    }

    /// A spare file under this name that begins with the header, with its length. Nothing is left of one that
    /// cannot be used again.
    fn recycle(&self, header: &Header, new: &Path) -> Result<Option<(Arc<dyn DiskFile>, u64)>> {
        let Some(spare) = self.files.lock().spares.take() else { return Ok(None) };
        let path = spare.path.clone();
        let recycled = self.try_recycle(spare, header, new);
        if recycled.is_err() {
            let _ = self.remove(&path);
        }
        recycled
    }

    fn try_recycle(
        &self,
        Spare { path, file, .. }: Spare,
        header: &Header,
        new: &Path,
    ) -> Result<Option<(Arc<dyn DiskFile>, u64)>> {
        let file = file.map_or_else(|| self.open(&path), Ok)?;
        let len = file.len().map_err(|e| Error::io("read the length of", &path, e))?;
        if self.plan.is_too_long(len) {
            self.remove(&path)?;
            return Ok(None);
        }
        self.disk.rename(&path, new).map_err(|e| Error::io("rename", &path, e))?;
        if !self.plan.reuses_memory() {
            self.write_start(&*file, header, TERMINATOR.len(), new)?;
            return Ok(Some((file, len)));
        }
        let mut start = header.encode();
        start.extend(TERMINATOR);
        match file.write_durably_at(&start, 0) {
            Ok(()) => {
                file.reserve(HEADER_BYTES as u64, len);
                Ok(Some((file, len)))
            }
            // A sync of all of it would cost more than another file.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.remove(new)?;
                Ok(None)
            }
            Err(error) => Err(Error::io("write to", new, error)),
        }
    }
}
