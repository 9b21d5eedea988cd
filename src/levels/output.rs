//! [`Outputs`]: the files that a flush or compaction writes.
//!
//! Invariant: all entries of a key go into one file, no file reaches across keys that are
//! [reserved](super::reserved), and files that do not become part of the tree are removed: an
//! [`Outputs`] that is dropped unfinished, or finished ones that are refused, leave nothing behind.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::file::{Janitor, TableFile};
use super::reserved::Start;
use super::tree::Tree;
use crate::cache::BlockCache;
use crate::entry::Entry;
use crate::env::{Deferred, Disk};
use crate::error::{Error, Result};
use crate::options::ReadMode;
use crate::sst::{self, FileId, Reader, Writer, WriterOptions};
use crate::version::Version;

/// Where files end.
pub(super) struct Cut<'a> {
    /// A file ends at about this size.
    pub(super) file_bytes: u64,
    /// The files below the level written to: a file that overlaps many of them makes for a large
    /// compaction later, so it ends early.
    pub(super) grandparents: &'a [Arc<TableFile>],
}

/// Helpers compress and write files where their usual size is at least this: the memory it takes is
/// small beside the budget that such a size comes from.
const HELPED_FILE_BYTES: u64 = 4 << 20;

/// A file ends when the files below that it overlaps reach this many times its own full size.
pub(super) const GRANDPARENT_LIMIT: u64 = 10;

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
    zstd: Option<i32>,
    gc_bound: Version,
    cut: Cut<'a>,
    /// Whether helpers do part of it.
    is_helped: bool,
    /// Where reserved keys begin, in order, and the first of these places that is not passed.
    reserved: Vec<Start>,
    next_reserved: usize,
    current: Option<(PathBuf, Writer)>,
    /// Files that got all their entries and are being ended, oldest first.
    ending: VecDeque<Ending>,
    done: Vec<Arc<TableFile>>,
    /// The first of the files below that does not end before the current key.
    next_below: usize,
    /// Bytes of files below that ended since the current file began.
    passed: u64,
}

impl<'a, T: Deref<Target = Tree>> Outputs<'a, T> {
    /// Compressed with this zstd level, if any.
    pub(super) fn new(tree: T, zstd: Option<i32>, gc_bound: Version, cut: Cut<'a>) -> Self {
        Self {
            reserved: tree.reserved.hold(),
            next_reserved: 0,
            tree,
            zstd,
            gc_bound,
            cut,
            is_helped: false,
            current: None,
            ending: VecDeque::new(),
            done: Vec::new(),
            next_below: 0,
            passed: 0,
        }
    }

    /// Lets helpers, if there are any, compress, write and end files beside who adds entries.
    pub(super) fn helped(mut self) -> Self {
        self.is_helped = true;
        self
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
        let options = WriterOptions { compression: self.zstd, ..WriterOptions::default() };
        let writer = Writer::new(file, path.clone(), id, options);
        let is_large = self.tree.sizing.file_bytes >= HELPED_FILE_BYTES;
        let pays = self.is_helped && is_large;
        let writer = if pays { writer.help(&self.tree.jobs) } else { writer };
        self.current = Some((path, writer));
        Ok(())
    }

    /// Ends the current file; with help, beside what comes next. The file before it has ended then, so
    /// that what two of them keep in memory is the most there is.
    pub(super) fn end_file(&mut self) -> Result<()> {
        if let Some((path, writer)) = self.current.take() {
            let opening = self.opening(path.clone());
            let file = if self.is_helped {
                Deferred::new(&*self.tree.jobs, move || opening.end(writer))
            } else {
                Deferred::done(opening.end(writer))
            };
            self.ending.push_back(Ending { path, file });
        }
        self.settle(1)
    }

    /// Waits until at most `most` files are being ended.
    pub(super) fn settle(&mut self, most: usize) -> Result<()> {
        while self.ending.len() > most {
            let Some(Ending { path, file }) = self.ending.pop_front() else { break };
            let panicked = || Err(Error::io("end", &path, io::Error::other("it panicked")));
            match file.finish().unwrap_or_else(panicked) {
                Ok(file) => self.done.push(Arc::new(file)),
                Err(error) => {
                    self.tree.janitor.remove(path);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn opening(&self, path: PathBuf) -> Opening {
        let Tree { disk, cache, janitor, read_mode, .. } = &*self.tree;
        Opening {
            disk: Arc::clone(disk),
            cache: Arc::clone(cache),
            janitor: Arc::clone(janitor),
            read_mode: *read_mode,
            is_compressed: self.zstd.is_some(),
            gc_bound: self.gc_bound,
            path,
        }
    }

    /// Ends the last file and makes all names durable.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<TableFile>>> {
        self.end_file()?;
        self.settle(0)?;
        if !self.done.is_empty() {
            self.sync_names()?;
        }
        Ok(self.into_files())
    }

    /// Makes the names of all files durable.
    pub(super) fn sync_names(&self) -> Result<()> {
        let dir = &self.tree.dir;
        self.tree.disk.sync_dir(dir).map_err(|e| Error::io("sync directory", dir, e))
    }

    /// The files that have ended; none is removed any more.
    pub(super) fn into_files(mut self) -> Vec<Arc<TableFile>> {
        std::mem::take(&mut self.done)
    }
}

/// A file that is being ended.
struct Ending {
    path: PathBuf,
    file: Deferred<Result<TableFile>>,
}

/// What it takes to open a file, on any thread.
struct Opening {
    disk: Arc<dyn Disk>,
    cache: Arc<BlockCache>,
    janitor: Arc<Janitor>,
    read_mode: ReadMode,
    is_compressed: bool,
    gc_bound: Version,
    path: PathBuf,
}

impl Opening {
    /// Writes what follows the entries, syncs the file and opens it.
    fn end(self, writer: Writer) -> Result<TableFile> {
        let meta = writer.finish()?;
        let reader = Reader::open(&*self.disk, &self.path, &meta, self.cache, self.read_mode)?;
        let file = TableFile::new(meta, reader, self.gc_bound, self.path, self.janitor);
        if self.is_compressed {
            file.set_dense();
        }
        Ok(file)
    }
}

impl<T: Deref<Target = Tree>> Drop for Outputs<'_, T> {
    fn drop(&mut self) {
        self.done.iter().for_each(|file| file.set_obsolete());
        for Ending { path, file } in self.ending.drain(..) {
            drop(file);
            self.tree.janitor.remove(path);
        }
        if let Some((path, writer)) = self.current.take() {
            drop(writer);
            self.tree.janitor.remove(path);
        }
    }
}
