//! [`ValueFile`]: one log segment that is kept for the large values in it, open.
//!
//! Invariant: what it gives out has the length and checksum that the reference says. Where the file is
//! mapped, that is looked at when a value is first read since it was opened, and whenever it is asked
//! for anew; else at every read.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::file::{Janitor, Removal};
use crate::env::{self, Backing, Disk, DiskFile, Mapping, open_if_there};
use crate::error::{Damage, Error, Result};
use crate::options::ReadMode;
use crate::reference::Reference;
use crate::wal::{SealedSegment, SegmentId};

/// A log segment that is kept, open.
pub(crate) struct ValueFile {
    id: SegmentId,
    len: u64,
    access: Access,
    damage: OnceLock<Arc<str>>,
    /// Dropped last, as it has to be.
    removal: Removal,
}

enum Access {
    Mapped(Mapping, Checked),
    Positioned(Arc<dyn DiskFile>),
}

/// Which values of a mapped file were found right: a value is long, and reading it all once more
/// takes as long as its reader does. For each stretch of the file: checksum, place in the stretch, and
/// low bits of the length of the last value that began there and was right; or zero. The words order
/// nothing: what they speak of never changes.
struct Checked(Box<[AtomicU64]>);

/// As long as the shortest value that usually stays in the log: no two begin within it.
const STRETCH_BYTES: u64 = 64 << 10;

impl Checked {
    fn new(file_len: u64) -> Self {
        Self((0..file_len.div_ceil(STRETCH_BYTES)).map(|_| AtomicU64::new(0)).collect())
    }

    fn word(reference: &Reference) -> u64 {
        let place = reference.place.offset % STRETCH_BYTES;
        u64::from(reference.crc) << 32 | place << 16 | u64::from(reference.len & 0xFFFF)
    }

    fn slot(&self, reference: &Reference) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(reference.place.offset / STRETCH_BYTES).ok()?)
    }

    fn contains(&self, reference: &Reference) -> bool {
        let word = self.slot(reference).map_or(0, |slot| slot.load(Ordering::Relaxed));
        word != 0 && word == Self::word(reference)
    }

    fn note(&self, reference: &Reference) {
        if let Some(slot) = self.slot(reference) {
            slot.store(Self::word(reference), Ordering::Relaxed);
        }
    }
}

/// How a file is opened.
pub(super) struct ValueContext<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) dir: &'a Path,
    pub(super) read_mode: ReadMode,
    pub(super) janitor: &'a Arc<Janitor>,
    /// A file keeps the name that it has: it is only read.
    pub(super) read_only: bool,
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
        Self::new(context, sealed.id, file, sealed.id.values_path(context.dir))
    }

    /// Opens a segment that the manifest refers to. A crash may have left it its name in the log.
    pub(super) fn open(context: &ValueContext<'_>, id: SegmentId) -> Result<Self> {
        let (path, in_log) = (id.values_path(context.dir), id.path(context.dir));
        let open = |path| open_if_there(context.disk, path).map_err(|e| Error::io("open", path, e));
        if let Some(file) = open(&path)? {
            return Self::new(context, id, file, path);
        }
        let file = open(&in_log)?.ok_or_else(|| missing(&path))?;
        Self::new(context, id, file, if context.read_only { in_log } else { path })
    }

    /// The file, by the name that it has or is about to get.
    fn new(
        context: &ValueContext<'_>,
        id: SegmentId,
        file: Arc<dyn DiskFile>,
        path: PathBuf,
    ) -> Result<Self> {
        let len = file.len().map_err(|e| Error::io("read the length of", &path, e))?;
        let map = match context.read_mode {
            ReadMode::Mmap => env::map(&*file).map_err(|e| Error::io("map", &path, e))?,
            ReadMode::Pread => None,
        };
        let (access, backing): (_, Backing) = match map {
            Some(map) => (Access::Mapped(map.clone(), Checked::new(len)), Box::new(map)),
            None => (Access::Positioned(Arc::clone(&file)), Box::new(file)),
        };
        let removal = Removal::new(path, backing, Arc::clone(context.janitor));
        Ok(Self { id, len, access, damage: OnceLock::new(), removal })
    }

    pub(super) fn id(&self) -> SegmentId {
        self.id
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// No state refers to it any more; the last one to hold it has it removed.
    pub(super) fn set_obsolete(&self) {
        self.removal.set_obsolete();
    }

    /// A value that was to be moved elsewhere is damaged or cannot be read, and stays.
    pub(super) fn set_damage(&self, error: &Error) {
        if self.damage.set(error.chain()).is_ok() {
            tracing::error!(cause = %error.chain(), "values stay where they are, as one cannot be read");
        }
    }

    /// What was first in the way of moving a value elsewhere.
    pub(super) fn damage(&self) -> Option<&Arc<str>> {
        self.damage.get()
    }

    /// The value at a reference.
    pub(super) fn read(&self, reference: &Reference) -> Result<Cow<'_, [u8]>> {
        if let Access::Mapped(map, checked) = &self.access
            && checked.contains(reference)
        {
            return Ok(Cow::Borrowed(mapped(map, reference)));
        }
        self.read_anew(reference)
    }

    /// The same, whether or not it was right before.
    pub(super) fn read_anew(&self, reference: &Reference) -> Result<Cow<'_, [u8]>> {
        let (offset, len) = (reference.place.offset, u64::from(reference.len));
        // Before memory is taken for it.
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            let found = format!("the end of the file at {}", self.len);
            return Err(self.error(reference, found));
        }
        let value = match &self.access {
            Access::Mapped(map, _) => Cow::Borrowed(mapped(map, reference)),
            Access::Positioned(file) => {
                let mut value = vec![0; reference.len as usize];
                let read = file.read_at(&mut value, offset);
                read.map_err(|error| self.unread(error, reference))?;
                Cow::Owned(value)
            }
        };
        if !reference.matches(&value) {
            return Err(self.error(reference, "bytes with another checksum".to_owned()));
        }
        if let Access::Mapped(_, checked) = &self.access {
            checked.note(reference);
        }
        Ok(value)
    }

    /// Damage, if the file is no longer as long as it was when it was opened.
    #[cold]
    fn unread(&self, error: io::Error, reference: &Reference) -> Error {
        if error.kind() != io::ErrorKind::UnexpectedEof {
            return Error::io("read", self.removal.path(), error);
        }
        self.error(reference, "the end of a file that was cut since it was opened".to_owned())
    }

    #[cold]
    fn error(&self, reference: &Reference, found: String) -> Error {
        let expected = format!("a value of {} bytes", reference.len);
        Damage::new(0, expected, found).in_file(self.removal.path(), reference.place.offset)
    }
}

/// What a reference refers to; nothing, if that is not in the file.
fn mapped<'a>(map: &'a Mapping, reference: &Reference) -> &'a [u8] {
    let start = usize::try_from(reference.place.offset).unwrap_or(usize::MAX);
    let value = map.in_order().get(start..).and_then(|rest| rest.get(..reference.len as usize));
    value.unwrap_or_default()
}

pub(super) fn missing(path: &Path) -> Error {
    Damage::new(0, "a log segment whose values table files refer to", "no file").in_file(path, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::LogPlace;

    #[test]
    fn a_value_is_trusted_as_it_was_found_and_no_other() {
        let reference = |offset, len, crc| {
            let place = LogPlace { segment: SegmentId::FIRST, offset };
            Reference { place, len, crc }
        };
        let checked = Checked::new(200_000);
        let found = reference(70_000, 65_536, 7);
        assert!(!checked.contains(&found));
        checked.note(&found);
        assert!(checked.contains(&found));
        let others = [
            reference(70_000, 65_536, 8),
            reference(70_000, 65_537, 7),
            reference(70_001, 65_536, 7),
            reference(140_000, 65_536, 7),
            reference(0, 65_536, 7),
            reference(1 << 40, 65_536, 7),
        ];
        for other in others {
            assert!(!checked.contains(&other), "{other:?}");
        }
        checked.note(&reference(1 << 40, 65_536, 7));
        checked.note(&reference(130_000, 65_536, 9));
        assert!(!checked.contains(&found), "another value begins there: one of them is found");
        assert!(!checked.contains(&reference(0, 1 << 16, 0)), "nothing was found there");
    }
}
