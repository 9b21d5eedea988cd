//! [`Sink`]: the file that is being written, block after block.
//!
//! Blocks are collected and written in pieces. With [help](Sink::help), helpers write them: each
//! piece has its place, so their order is nobody's concern, and all are written before the sync.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::footer::{Directory, Footer};
use super::frame::Body;
use crate::cache::{BlockOffset, FileId};
use crate::env::{Deferred, DiskFile, InOrder, Jobs};
use crate::error::{Error, Result};

/// Stored blocks are collected up to about this size, then written at once.
const WRITE_BYTES: usize = 256 << 10;
/// The same where helpers write them: large beside what it costs to hand it over.
const HELPED_WRITE_BYTES: usize = 512 << 10;
/// Most pieces that wait to be written, or are.
const WRITES_BEHIND: usize = 3;

pub(super) struct Sink {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    id: FileId,
    /// Blocks that were not written.
    pending: Vec<u8>,
    /// Where they are to be written.
    pending_at: u64,
    helpers: Option<Arc<dyn Jobs>>,
    /// Pieces on their way, given back to be filled again.
    behind: InOrder<io::Result<Vec<u8>>>,
}

impl Sink {
    /// Starts an empty file; `path` is for messages.
    pub(super) fn new(file: Arc<dyn DiskFile>, path: PathBuf, id: FileId) -> Self {
        let behind = InOrder::default();
        Self { file, path, id, pending: Vec::new(), pending_at: 0, helpers: None, behind }
    }

    /// Lets helpers write.
    pub(super) fn help(&mut self, helpers: Arc<dyn Jobs>) {
        self.helpers = Some(helpers);
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Where the next block will be.
    pub(super) fn end(&self) -> BlockOffset {
        BlockOffset(self.pending_at + self.pending.len() as u64)
    }

    /// Appends a block, and gives its place and stored length.
    pub(super) fn append(&mut self, body: Body<'_>) -> Result<(BlockOffset, usize)> {
        let offset = self.end();
        let before = self.pending.len();
        body.seal(self.id, offset, &mut self.pending);
        let len = self.pending.len() - before;
        let many = if self.helpers.is_some() { HELPED_WRITE_BYTES } else { WRITE_BYTES };
        if self.pending.len() >= many {
            self.write()?;
        }
        Ok((offset, len))
    }

    fn write(&mut self) -> Result<()> {
        let at = self.pending_at;
        self.pending_at = self.end().0;
        let Some(helpers) = &self.helpers else {
            let written = store(&*self.file, &self.pending, at);
            self.pending.clear();
            return self.check(written);
        };
        let (file, piece) = (Arc::clone(&self.file), std::mem::take(&mut self.pending));
        let write = move || store(&*file, &piece, at).map(|()| piece);
        self.behind.push(Deferred::new(&**helpers, write));
        if self.behind.len() > WRITES_BEHIND {
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<()> {
        if let Some(written) = self.behind.pop() {
            let written = written.unwrap_or_else(|| Err(io::Error::other("a write panicked")));
            self.pending = self.check(written)?;
            self.pending.clear();
        }
        Ok(())
    }

    fn check<T>(&self, written: io::Result<T>) -> Result<T> {
        written.map_err(|error| Error::io("write", &self.path, error))
    }

    /// Writes the directory and the footer, syncs the file, and gives its length.
    pub(super) fn finish(mut self, directory: &Directory) -> Result<u64> {
        let (offset, len) = self.append(Body::plain(&directory.encode()))?;
        let format = directory.format();
        let footer = Footer { format, file: self.id, directory: offset, directory_len: len as u32 };
        self.pending.extend_from_slice(&footer.encode());
        let bytes = self.end().0;
        self.write()?;
        while self.behind.len() > 0 {
            self.wait_for_oldest()?;
        }
        self.file.sync().map_err(|error| Error::io("sync", &self.path, error))?;
        Ok(bytes)
    }
}

/// Writes a piece, and has it on its way to the device before the next one is: at the end, the sync
/// waits for few.
fn store(file: &dyn DiskFile, piece: &[u8], at: u64) -> io::Result<()> {
    file.write_at(piece, at)?;
    file.begin_write_back(at, at + piece.len() as u64);
    Ok(())
}
