//! [`Values`]: the log segments that are kept for the large values in them, to which table files refer.
//!
//! Invariant: a segment that a file of the state refers to is in the state's [`Values`], sealed, whole
//! and durable before the manifest names the file, never written again, and there as long as anybody
//! holds such a state. What it gives out has the length and checksum that the reference says.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::file::{Janitor, TableFile};
use crate::env::{Disk, DiskFile, Mapping};
use crate::error::{Damage, Error, Result};
use crate::options::ReadMode;
use crate::reference::Reference;
use crate::version::Version;
use crate::wal::{SealedSegment, SegmentId};

/// What flushes ask of the log.
pub(crate) trait ValueLog: Send + Sync {
    /// Ends the segment that is written, if nothing in it is later than `last`, which is published.
    /// Waits until what ended is durable.
    fn end_segment(&self, last: Version) -> FlushedLog;
    /// As [`end_segment`](Self::end_segment) for who keeps nothing of it, if that gives back space.
    /// Waits for nothing; gives the first segment that is still needed.
    fn release_segment(&self, last: Version) -> Option<SegmentId>;
    /// From now on a segment is a file of values.
    fn keep(&self, segment: SegmentId);
}

/// The log up to a version that is being flushed.
pub(crate) struct FlushedLog {
    /// The first segment that is still needed afterwards.
    pub(crate) start: SegmentId,
    /// Segments before it, oldest first; all of them are durable.
    pub(crate) sealed: Vec<SealedSegment>,
}

/// A log segment that is kept, open.
pub(crate) struct ValueFile {
    id: SegmentId,
    len: u64,
    path: PathBuf,
    access: Access,
    janitor: Arc<Janitor>,
    obsolete: AtomicBool,
}

enum Access {
    Mapped(Mapping),
    Positioned(Arc<dyn DiskFile>),
}

/// How a file is opened.
pub(super) struct ValueContext<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) dir: &'a Path,
    pub(super) read_mode: ReadMode,
    pub(super) janitor: &'a Arc<Janitor>,
}

impl ValueFile {
    /// Opens a segment that is sealed, and gives back the room behind its end.
    pub(super) fn of_log(context: &ValueContext<'_>, sealed: SealedSegment) -> Result<Self> {
        let path = sealed.id.path(context.dir);
        let file = context.disk.open(&path).map_err(|e| Error::io("open", &path, e))?;
        let len = file.len().map_err(|e| Error::io("read the length of", &path, e))?;
        if len > sealed.bytes {
            let cut = file.set_len(sealed.bytes);
            cut.map_err(|e| Error::io("set the length of", &path, e))?;
        }
        Self::new(context, sealed.id, file)
    }

    /// Opens a segment that the manifest refers to. A crash may have left it its name in the log.
    pub(super) fn open(context: &ValueContext<'_>, id: SegmentId) -> Result<Self> {
        let path = id.values_path(context.dir);
        let opened = match context.disk.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                context.disk.open(&id.path(context.dir))
            }
            opened => opened,
        };
        match opened {
            Ok(file) => Self::new(context, id, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(&path)),
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }

    fn new(context: &ValueContext<'_>, id: SegmentId, file: Arc<dyn DiskFile>) -> Result<Self> {
        let path = id.values_path(context.dir);
        let len = file.len().map_err(|e| Error::io("read the length of", &path, e))?;
        let access = match context.read_mode {
            ReadMode::Mmap => Access::Mapped(file.map().map_err(|e| Error::io("map", &path, e))?),
            ReadMode::Pread => Access::Positioned(file),
        };
        let janitor = Arc::clone(context.janitor);
        Ok(Self { id, len, path, access, janitor, obsolete: AtomicBool::new(false) })
    }

    pub(super) fn id(&self) -> SegmentId {
        self.id
    }

    /// No state refers to it any more; the last one to hold it has it removed.
    pub(super) fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// The value at a reference.
    fn read(&self, reference: &Reference) -> Result<Cow<'_, [u8]>> {
        let (offset, len) = (reference.place.offset, u64::from(reference.len));
        // Before memory is taken for it.
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            let found = format!("the end of the file at {}", self.len);
            return Err(self.damage(reference, found));
        }
        let value = match &self.access {
            Access::Mapped(map) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let value =
                    map.in_order().get(start..).and_then(|rest| rest.get(..reference.len as usize));
                Cow::Borrowed(value.unwrap_or_default())
            }
            Access::Positioned(file) => {
                let mut value = vec![0; reference.len as usize];
                let read = file.read_at(&mut value, offset);
                read.map_err(|e| Error::io("read", &self.path, e))?;
                Cow::Owned(value)
            }
        };
        if reference.matches(&value) {
            return Ok(value);
        }
        Err(self.damage(reference, "bytes with another checksum".to_owned()))
    }

    #[cold]
    fn damage(&self, reference: &Reference, found: String) -> Error {
        let expected = format!("a value of {} bytes", reference.len);
        Damage::new(0, expected, found).in_file(&self.path, reference.place.offset)
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.janitor.remove(std::mem::take(&mut self.path));
        }
    }
}

/// A reference that stored bytes are. They passed the checksum of their block, so that only a writer
/// who is wrong made them; where, the caller knows.
fn decode(stored: &[u8]) -> Result<Reference> {
    Reference::decode(stored).map_err(|damage| damage.in_file(Path::new("a table file"), 0))
}

fn missing(path: &Path) -> Error {
    Damage::new(0, "a log segment whose values table files refer to", "no file").in_file(path, 0)
}

/// A kept segment of a state.
#[derive(Clone)]
struct Kept {
    file: Arc<ValueFile>,
    /// Bytes of it that the files of the state refer to.
    live: u64,
}

/// The kept segments of a state.
#[derive(Clone, Default)]
pub(crate) struct Values(BTreeMap<SegmentId, Kept>);

impl Values {
    /// Those of `files` that table files refer to.
    pub(super) fn referenced<'a>(
        files: impl Iterator<Item = &'a Arc<ValueFile>>,
        tables: impl Iterator<Item = &'a Arc<TableFile>>,
    ) -> Self {
        let mut all = Self::all(files).0;
        if all.is_empty() {
            return Self::default();
        }
        for (segment, bytes) in tables.flat_map(|table| table.meta.referenced.iter()) {
            if let Some(kept) = all.get_mut(&segment) {
                kept.live = kept.live.saturating_add(bytes);
            }
        }
        all.retain(|_, kept| kept.live > 0);
        Self(all)
    }

    /// All of `files`, before it is known what refers to them.
    pub(super) fn all<'a>(files: impl IntoIterator<Item = &'a Arc<ValueFile>>) -> Self {
        let kept = |file: &Arc<ValueFile>| (file.id, Kept { file: Arc::clone(file), live: 0 });
        Self(files.into_iter().map(kept).collect())
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<ValueFile>> {
        self.0.values().map(|kept| &kept.file)
    }

    pub(super) fn contains(&self, segment: SegmentId) -> bool {
        self.0.contains_key(&segment)
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.0.values().map(|kept| kept.file.len).sum()
    }

    /// Whether less than half of a segment is of use, so that it is better to have what is left
    /// elsewhere: then its file goes.
    pub(super) fn is_sparse(&self, segment: SegmentId) -> bool {
        self.0.get(&segment).is_some_and(|kept| kept.live < kept.file.len / 2)
    }

    /// Whether a file refers to any segment that is sparse.
    pub(super) fn refers_to_sparse(&self, file: &TableFile) -> bool {
        file.meta.referenced.iter().any(|(segment, _)| self.is_sparse(segment))
    }

    /// The value that stored bytes of an entry refer to.
    ///
    /// # Errors
    /// What is there is not the value; what the file system refuses.
    pub(crate) fn read(&self, stored: &[u8]) -> Result<Cow<'_, [u8]>> {
        self.resolve(&decode(stored)?)
    }

    /// The same for what is in a sparse segment; `None` for what is better left where it is.
    pub(super) fn read_sparse(&self, stored: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let reference = decode(stored)?;
        let is_sparse = self.is_sparse(reference.place.segment);
        is_sparse.then(|| self.resolve(&reference)).transpose()
    }

    fn resolve(&self, reference: &Reference) -> Result<Cow<'_, [u8]>> {
        match self.0.get(&reference.place.segment) {
            Some(kept) => kept.file.read(reference),
            None => Err(missing(&reference.place.segment.values_path(Path::new("")))),
        }
    }
}
