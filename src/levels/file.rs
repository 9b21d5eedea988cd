//! [`TableFile`]: a sealed table file that is part of some state, and the [`Janitor`] that removes
//! it from the directory once no state and no reader holds it any more.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::values::Values;
use crate::entry::{Cursor, Kind};
use crate::env::{Disk, JobClass, Jobs};
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
    path: PathBuf,
    janitor: Arc<Janitor>,
    obsolete: AtomicBool,
    is_dense: AtomicBool,
}

/// A file that has this part of the bytes of its keys and values is compressed: what keys share spares
/// little in most.
const DENSE_PART: u64 = 2;

impl TableFile {
    pub(crate) fn new(
        meta: FileMeta,
        reader: Reader,
        gc_bound: Version,
        path: PathBuf,
        janitor: Arc<Janitor>,
    ) -> Self {
        let is_dense = AtomicBool::new(meta.bytes <= meta.raw_bytes / DENSE_PART);
        let obsolete = AtomicBool::new(false);
        Self { meta, reader, gc_bound, path, janitor, obsolete, is_dense }
    }

    pub(crate) fn id(&self) -> FileId {
        self.meta.id
    }

    /// Whether the file's key range and [first, last] have keys in common.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        *self.meta.smallest <= *last && *first <= *self.meta.largest
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is known that compression does not make it smaller: it is compressed, or was tried in vain.
    pub(super) fn is_dense(&self) -> bool {
        self.is_dense.load(Ordering::Relaxed)
    }

    pub(super) fn set_dense(&self) {
        self.is_dense.store(true, Ordering::Relaxed);
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

    /// The file is in no state any more; the last one to hold it has it removed.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
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

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.janitor.remove(std::mem::take(&mut self.path));
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
    queue: Mutex<Vec<PathBuf>>,
}

impl Janitor {
    pub(crate) fn new(disk: Arc<dyn Disk>, jobs: Arc<dyn Jobs>, metrics: Arc<Metrics>) -> Self {
        Self { disk, jobs, metrics, queue: Mutex::new(Vec::new()) }
    }

    /// Has a file removed, soon.
    pub(crate) fn remove(self: &Arc<Self>, path: PathBuf) {
        let mut queue = self.queue.lock();
        queue.push(path);
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
        let paths = std::mem::take(&mut *self.queue.lock());
        for path in paths {
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

    #[test]
    fn a_file_that_is_gone_counts_as_removed() {
        let env = SimEnv::new(1);
        let metrics = Arc::<Metrics>::default();
        let jobs = env.start_jobs(1).unwrap();
        let janitor = Arc::new(Janitor::new(env.disk(), jobs, Arc::clone(&metrics)));
        let path = Path::new("db/file");
        env.write_file(path, b"bytes");
        janitor.remove(path.to_owned());
        janitor.remove(path.to_owned());
        env.run_all();
        assert!(env.read_file(path).is_err());
        assert_eq!(metrics.files_removed.get(), 2);
    }
}
