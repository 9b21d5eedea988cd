//! [`Outputs`]: the files that a flush or compaction writes.
//!
//! Invariant: all entries of a key go into one file, no file reaches across keys that are
//! [reserved](super::reserved), and files that do not become part of the tree are removed: an
//! [`Outputs`] that is dropped unfinished, or finished ones that are refused, leave nothing behind.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::file::TableFile;
use super::state::Level;
use super::tree::Tree;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::sst::{self, FileId, FileMeta, Reader, Writer, WriterOptions};
use crate::version::Version;

/// Where files end.
pub(super) struct Cut<'a> {
    /// A file ends at about this size.
    pub(super) file_bytes: u64,
    /// The files below the level written to: a file that overlaps many of them makes for a large
    /// compaction later, so it ends early.
    pub(super) grandparents: &'a [Arc<TableFile>],
}

/// A file ends when the files below that it overlaps reach this many times its own full size.
const GRANDPARENT_LIMIT: u64 = 10;

impl Cut<'_> {
    /// Whether a file that is `written` long ends before `key`, which comes after `passed` bytes
    /// of whole files below.
    fn ends(&self, written: u64, passed: u64, at_boundary: bool) -> bool {
        written >= self.file_bytes
            || passed > GRANDPARENT_LIMIT * self.file_bytes
            || (at_boundary && written >= self.file_bytes / 2)
    }
}

/// Writes entries to as many files as they take.
pub(super) struct Outputs<'a, T: Deref<Target = Tree> = &'a Tree> {
    tree: T,
    level: Level,
    gc_bound: Version,
    cut: Cut<'a>,
    /// Where reserved keys begin, in order, and the first of these places that is not passed.
    reserved: Vec<Box<[u8]>>,
    next_reserved: usize,
    current: Option<(PathBuf, Writer)>,
    done: Vec<Arc<TableFile>>,
    /// The first of the files below that does not end before the current key.
    next_below: usize,
    /// Bytes of files below that ended since the current file began.
    passed: u64,
}

impl<'a, T: Deref<Target = Tree>> Outputs<'a, T> {
    pub(super) fn new(tree: T, level: Level, gc_bound: Version, cut: Cut<'a>) -> Self {
        Self {
            reserved: tree.reserved.starts(),
            next_reserved: 0,
            tree,
            level,
            gc_bound,
            cut,
            current: None,
            done: Vec::new(),
            next_below: 0,
            passed: 0,
        }
    }

    /// Adds the next entry; `starts_key` says that none of its key was added before.
    pub(super) fn add(&mut self, entry: Entry<'_>, starts_key: bool) -> Result<()> {
        if starts_key {
            let at_boundary = self.pass(entry.key);
            let crosses = self.cross(entry.key);
            let written = self.current.as_ref().map(|(_, writer)| writer.written_bytes());
            let ends = |written| crosses || self.cut.ends(written, self.passed, at_boundary);
            if written.is_some_and(ends) {
                self.end_file()?;
            }
        }
        if self.current.is_none() {
            self.passed = 0;
            self.begin_file()?;
        }
        match &mut self.current {
            Some((_, writer)) => writer.add(entry),
            None => Ok(()),
        }
    }

    /// About the length of the file that is being written.
    pub(super) fn written_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, writer)| writer.written_bytes())
    }

    /// Counts the files below that end before `key`; says whether there were any.
    fn pass(&mut self, key: &[u8]) -> bool {
        let start = self.next_below;
        while let Some(file) = self.cut.grandparents.get(self.next_below) {
            if *file.meta.largest >= *key {
                break;
            }
            self.passed += file.meta.bytes;
            self.next_below += 1;
        }
        self.next_below > start
    }

    /// Says whether reserved keys lie between the key before and this one.
    fn cross(&mut self, key: &[u8]) -> bool {
        let start = self.next_reserved;
        while self.reserved.get(self.next_reserved).is_some_and(|reserved| **reserved <= *key) {
            self.next_reserved += 1;
        }
        self.next_reserved > start
    }

    fn begin_file(&mut self) -> Result<()> {
        let id = FileId::new(self.tree.next_file.fetch_add(1, Ordering::Relaxed));
        let path = self.tree.dir.join(sst::file_name(id));
        let file = self.tree.disk.create(&path).map_err(|e| Error::io("create", &path, e))?;
        let compression = self.tree.zstd.filter(|_| self.level >= Level::FIRST_COMPRESSED);
        let options = WriterOptions { compression, ..WriterOptions::default() };
        match Writer::new(file, path.clone(), id, options) {
            Ok(writer) => {
                self.current = Some((path, writer));
                Ok(())
            }
            Err(error) => {
                self.tree.janitor.remove(path);
                Err(error)
            }
        }
    }

    fn end_file(&mut self) -> Result<()> {
        let Some((path, writer)) = self.current.take() else { return Ok(()) };
        let opened = writer.finish().and_then(|meta| self.open(meta, path.clone()));
        match opened {
            Ok(file) => {
                self.done.push(Arc::new(file));
                Ok(())
            }
            Err(error) => {
                self.tree.janitor.remove(path);
                Err(error)
            }
        }
    }

    fn open(&self, meta: FileMeta, path: PathBuf) -> Result<TableFile> {
        let cache = Arc::clone(&self.tree.cache);
        let reader = Reader::open(&*self.tree.disk, &path, &meta, cache, self.tree.read_mode)?;
        let janitor = Arc::clone(&self.tree.janitor);
        Ok(TableFile::new(meta, reader, self.gc_bound, path, janitor))
    }

    /// Ends the last file and makes all names durable.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<TableFile>>> {
        self.end_file()?;
        if !self.done.is_empty() {
            let dir = &self.tree.dir;
            self.tree.disk.sync_dir(dir).map_err(|e| Error::io("sync directory", dir, e))?;
        }
        Ok(std::mem::take(&mut self.done))
    }
}

impl<T: Deref<Target = Tree>> Drop for Outputs<'_, T> {
    fn drop(&mut self) {
        self.done.iter().for_each(|file| file.set_obsolete());
        if let Some((path, writer)) = self.current.take() {
            drop(writer);
            self.tree.janitor.remove(path);
        }
    }
}
