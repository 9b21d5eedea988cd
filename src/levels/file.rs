//! [`TableFile`]: a sealed table file that is part of some state, and the [`Janitor`] that removes
//! it from the directory once no state and no reader holds it any more.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::pace::Pace;
use super::values::{self, Values};
use crate::entry::{Cursor, Kind};
use crate::env::{Backing, Disk, JobClass, Jobs};
use crate::error::Result;
use crate::merge::{CacheUse, SortedFile};
use crate::metrics::Metrics;
use crate::sst::{FileId, FileMeta, Reader, SstCursor};
use crate::version::Version;

/// A table file, open.
pub(crate) struct TableFile {
    pub(crate) meta: FileMeta,
    pub(crate) reader: Reader,
    /// Every range tombstone up to this version was applied when the file was written: of the
    /// entries it covers, none older than it is here.
    pub(crate) gc_bound: Version,
    is_dense: AtomicBool,
    hides_no_values: AtomicBool,
    /// Dropped last, as it has to be.
    removal: Removal,
}

/// A file that has this part of the bytes of its keys and values is compressed: what keys share spares
/// little in most.
const DENSE_PART: u64 = 2;

/// A seek takes about as long as it takes to compact so many bytes.
const SEEK_COUNTS_AS: usize = 512;

impl TableFile {
    pub(crate) fn new(
        meta: FileMeta,
        reader: Reader,
        gc_bound: Version,
        path: PathBuf,
        janitor: Arc<Janitor>,
    ) -> Self {
        let is_dense = AtomicBool::new(meta.bytes <= meta.raw_bytes / DENSE_PART);
        let removal = Removal::new(path, reader.backing(), janitor);
        let hides_no_values = AtomicBool::new(false);
        Self { meta, reader, gc_bound, is_dense, hides_no_values, removal }
    }

    pub(crate) fn id(&self) -> FileId {
        self.meta.id
    }

    /// Whether the file's key range and [first, last] have keys in common.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        *self.meta.smallest <= *last && *first <= *self.meta.largest
    }

    pub(crate) fn path(&self) -> &Path {
        self.removal.path()
    }

    /// Whether it is known that compression does not make it smaller: it is compressed, or was tried in vain.
    pub(super) fn is_dense(&self) -> bool {
        self.is_dense.load(Ordering::Relaxed)
    }

    pub(super) fn set_dense(&self) {
        self.is_dense.store(true, Ordering::Relaxed);
    }

    /// Whether it may have newer entries of keys by which older files refer to large values, and is seen as a whole by
    /// readers at `oldest`: nobody has found yet how much that is, or found it to be too little.
    pub(super) fn may_hide_values(&self, oldest: Version) -> bool {
        self.meta.max_version <= oldest && !self.hides_no_values.load(Ordering::Relaxed)
    }

    pub(super) fn set_hides_no_values(&self) {
        self.hides_no_values.store(true, Ordering::Relaxed);
    }

    /// Reads all there is in it and all that it refers to.
    pub(super) fn verify(&self, values: &Values) -> Result<()> {
        self.reader.verify()?;
        if self.meta.referenced.is_empty() {
            return Ok(());
        }
        let mut cursor = self.reader.passing_cursor();
        cursor.seek_to_first()?;
        while let Some(entry) = cursor.entry() {
            if entry.kind == Kind::Reference {
                values.verify(entry.value)?;
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// Bytes of the large values that it refers to with `low <= key < high`, counted until they are as many as wanted.
    pub(super) fn referenced_between(
        &self,
        low: &[u8],
        high: &[u8],
        wanted: u64,
        pace: &mut Pace<'_>,
    ) -> Result<u64> {
        if self.meta.referenced.is_empty() {
            return Ok(0);
        }
        let (mut cursor, mut bytes) = (self.reader.passing_cursor(), 0);
        cursor.seek(low)?;
        while bytes < wanted
            && let Some(entry) = cursor.entry().filter(|entry| *entry.key < *high)
        {
            pace.step(entry.key.len() + entry.value.len())?;
            if entry.kind == Kind::Reference {
                bytes += values::len(entry.value)?;
            }
            cursor.next()?;
        }
        Ok(bytes)
    }

    /// Bytes of the large values that it refers to by keys that `newer` has, counted until they are as many as wanted.
    pub(super) fn referenced_by_keys_of(
        &self,
        mut newer: impl Cursor,
        wanted: u64,
        pace: &mut Pace<'_>,
    ) -> Result<u64> {
        if self.meta.referenced.is_empty() {
            return Ok(0);
        }
        let (mut cursor, mut bytes) = (self.reader.passing_cursor(), 0);
        newer.seek(&self.meta.smallest)?;
        while bytes < wanted && newer.valid() {
            pace.step(SEEK_COUNTS_AS)?;
            cursor.seek(newer.key())?;
            let Some(entry) = cursor.entry() else { break };
            if entry.key != newer.key() {
                newer.seek(entry.key)?;
                continue;
            }
            if entry.kind == Kind::Reference {
                bytes += values::len(entry.value)?;
            }
            newer.next_key()?;
        }
        Ok(bytes)
    }

    /// The file is in no state any more; the last one to hold it has it removed.
    pub(crate) fn set_obsolete(&self) {
        self.removal.set_obsolete();
    }
}

impl SortedFile for TableFile {
    type Cursor<'a> = SstCursor<'a>;

    fn smallest(&self) -> &[u8] {
        &self.meta.smallest
    }

    fn largest(&self) -> &[u8] {
        &self.meta.largest
    }

    fn newest(&self) -> Version {
        self.meta.max_version
    }

    fn cursor(&self, cache: CacheUse) -> SstCursor<'_> {
        match cache {
            CacheUse::Keep => self.reader.cursor(),
            CacheUse::Pass => self.reader.passing_cursor(),
        }
    }
}

/// Has an open file removed from its directory when it goes, if it is obsolete by then.
///
/// Whoever lets go of the last name, map or descriptor of a file waits until the file system has freed its blocks: tens of
/// milliseconds, where the device is told of them. The last to hold a file may be a reader or a writer, so what keeps the
/// bytes goes to the [`Janitor`] together with the name. Who owns a file has this for its last field: all else
/// that keeps the bytes is gone before it.
pub(super) struct Removal {
    path: PathBuf,
    backing: Option<Backing>,
    janitor: Arc<Janitor>,
    is_obsolete: AtomicBool,
}

impl Removal {
    pub(super) fn new(path: PathBuf, backing: Backing, janitor: Arc<Janitor>) -> Self {
        Self { path, backing: Some(backing), janitor, is_obsolete: AtomicBool::new(false) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set_obsolete(&self) {
        self.is_obsolete.store(true, Ordering::Release);
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if self.is_obsolete.load(Ordering::Acquire) {
            self.janitor.remove_open(std::mem::take(&mut self.path), self.backing.take());
        }
    }
}

/// Removes files in the background: the last holder of a file may be a reader, which must not
/// wait for a directory. What is queued when the database is closed, and when its last handle goes, is removed
/// then; what a crash or a failure leaves behind, at the next opening.
pub(crate) struct Janitor {
    disk: Arc<dyn Disk>,
    jobs: Arc<dyn Jobs>,
    metrics: Arc<Metrics>,
    queue: Mutex<Vec<(PathBuf, Option<Backing>)>>,
}

impl Janitor {
    pub(crate) fn new(disk: Arc<dyn Disk>, jobs: Arc<dyn Jobs>, metrics: Arc<Metrics>) -> Self {
        Self { disk, jobs, metrics, queue: Mutex::new(Vec::new()) }
    }

    /// Has a file removed, soon.
    pub(crate) fn remove(self: &Arc<Self>, path: PathBuf) {
        self.remove_open(path, None);
    }

    /// The same, and first drops what keeps its bytes: Windows removes no file that is mapped.
    fn remove_open(self: &Arc<Self>, path: PathBuf, backing: Option<Backing>) {
        let mut queue = self.queue.lock();
        queue.push((path, backing));
        if queue.len() > 1 {
            return; // The job that is queued takes this one too.
        }
        drop(queue);
        let this = Arc::clone(self);
        let job = Box::new(move || this.run());
        self.jobs.spawn_after(JobClass::Compaction, Duration::ZERO, job);
    }

    /// Removes what is queued.
    pub(super) fn run(&self) {
        let queued = std::mem::take(&mut *self.queue.lock());
        for (path, backing) in queued {
            drop(backing);
            match self.disk.remove(&path) {
                // At the opening a manifest may be found obsolete twice.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(?path, %error, "an obsolete file stays until the next opening");
                }
                _ => self.metrics.files_removed.add(1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, SimEnv};

    fn janitor(env: &SimEnv) -> (Arc<Janitor>, Arc<Metrics>) {
        let metrics = Arc::<Metrics>::default();
        let jobs = env.start_jobs(1).unwrap();
        (Arc::new(Janitor::new(env.disk(), jobs, Arc::clone(&metrics))), metrics)
    }

    #[test]
    fn a_file_that_is_gone_counts_as_removed() {
        let env = SimEnv::new(1);
        let (janitor, metrics) = janitor(&env);
        let path = Path::new("db/file");
        env.write_file(path, b"bytes");
        janitor.remove(path.to_owned());
        janitor.remove(path.to_owned());
        env.run_all();
        assert!(env.read_file(path).is_err());
        assert_eq!(metrics.files_removed.get(), 2);
    }

    #[test]
    fn who_lets_go_of_an_obsolete_file_leaves_its_bytes_to_the_janitor() {
        let env = SimEnv::new(1);
        let (janitor, _) = janitor(&env);
        let path = Path::new("db/file");
        env.write_file(path, b"bytes");
        let map = || env.disk().open(path).unwrap().map().unwrap();
        let removal = Removal::new(path.to_owned(), Box::new(map()), janitor);
        removal.set_obsolete();
        drop(removal);
        env.disk().remove(path).expect_err("who lets go of it waits for it");
        env.run_all();
        assert!(env.read_file(path).is_err(), "it was mapped when it was to be removed");
    }
}
