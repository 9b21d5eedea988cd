//! [`Values`]: the log segments that are kept for the large values in them, to which table files refer.
//!
//! Invariant: a segment that a file of the state refers to is in the state's [`Values`], sealed, whole
//! and durable before the manifest names the file, never written again, and there as long as anybody
//! holds such a state.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::file::TableFile;
use super::value_file::{ValueFile, missing};
use crate::error::Result;
use crate::reference::Reference;
use crate::wal::SegmentId;

/// A reference that stored bytes are. They passed the checksum of their block, so that only a writer
/// who is wrong made them; where, the caller knows.
fn decode(stored: &[u8]) -> Result<Reference> {
    Reference::decode(stored).map_err(|damage| damage.in_file(Path::new("a table file"), 0))
}

/// The length of the value that stored bytes of an entry refer to.
pub(super) fn len(stored: &[u8]) -> Result<u64> {
    decode(stored).map(|reference| u64::from(reference.len))
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
        let kept = |file: &Arc<ValueFile>| (file.id(), Kept { file: Arc::clone(file), live: 0 });
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
        self.0.values().map(|kept| kept.file.len()).sum()
    }

    /// Whether less than half of a segment is of use, so that it is better to have what is left
    /// elsewhere: then its file goes. One of which that failed stays, so that nobody tries again and again.
    pub(super) fn is_sparse(&self, segment: SegmentId) -> bool {
        let kept = self.0.get(&segment).filter(|kept| kept.file.damage().is_none());
        kept.is_some_and(|kept| kept.live < kept.file.len() / 2)
    }

    /// What keeps a segment from being given up.
    pub(super) fn damage(&self) -> Option<Arc<str>> {
        self.files().find_map(|file| file.damage()).cloned()
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
        let reference = decode(stored)?;
        self.file(&reference)?.read(&reference)
    }

    /// Reads such a value through, even if it was found right before.
    pub(super) fn verify(&self, stored: &[u8]) -> Result<()> {
        let reference = decode(stored)?;
        self.file(&reference)?.read_anew(&reference).map(drop)
    }

    /// What is in a sparse segment, read anew as its copy gets a checksum of its own; `None` for what is
    /// better left where it is. So is what is damaged or cannot be read, and all else in its segment from then
    /// on: a compaction goes on, and who reads the row is told.
    pub(super) fn read_sparse(&self, stored: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let reference = decode(stored)?;
        if !self.is_sparse(reference.place.segment) {
            return Ok(None);
        }
        let file = self.file(&reference)?;
        let read = file.read_anew(&reference);
        Ok(read.inspect_err(|error| file.set_damage(error)).ok())
    }

    fn file(&self, reference: &Reference) -> Result<&ValueFile> {
        match self.0.get(&reference.place.segment) {
            Some(kept) => Ok(&kept.file),
            None => Err(missing(&reference.place.segment.values_path(Path::new("")))),
        }
    }
}
