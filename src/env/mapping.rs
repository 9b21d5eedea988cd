//! [`Mapping`]: the bytes of a sealed file, and what the system is told of how they are read.
//!
//! Advice about reading belongs to a map, not to its file, so a file is mapped twice: a page that is
//! missing where one place is read costs the device that page, and where one reads on, also what the
//! system reads ahead (often 128 KiB, half of them behind). What is known to be read comes at once
//! if it is [asked for](Mapping::will_need).

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::{Arc, Once};

use memmap2::{Mmap, MmapOptions};

use super::addresses::{ADDRESSES, Taken};
use super::{DiskFile, system};

/// As much as any system reads at once when it is asked to, from the beginning of a page on.
const ASKED_AT_ONCE: usize = 128 << 10;
const PAGE: usize = 4 << 10;

/// The bytes of a sealed file, mapped or held. As a slice, to be read here and there: nothing is read
/// ahead.
#[derive(Clone)]
pub struct Mapping(Inner);

#[derive(Clone)]
enum Inner {
    Mapped(Arc<Maps>),
    Held(Arc<[u8]>),
}

struct Maps {
    scattered: Mmap,
    in_order: Mmap,
    _taken: Taken,
}

impl Mapping {
    /// Maps a whole file, to which nobody writes any more. `OutOfMemory` if there are no addresses for it,
    /// `Unsupported` if the system does not map it: it may be read all the same.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let Some(taken) = ADDRESSES.take(len.saturating_mul(2)) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let mut whole = MmapOptions::new();
        whole.len(len);
        // SAFETY: the bytes of a map must not change while it lives. `DiskFile::map` binds its
        // caller to never write to the file again, table files are written once and never reused,
        // and the directory's lock keeps other instances of the engine away. Somebody else who
        // truncates the file breaks this: the documentation of `ReadMode::Mmap` says what follows.
        let (scattered, in_order) = unsafe { (whole.map(file), whole.map(file)) };
        let (scattered, in_order) = (scattered.map_err(no_map)?, in_order.map_err(no_map)?);
        if !scattered.is_empty() {
            system::read_scattered(&scattered).map_err(no_map)?;
        }
        Ok(Self(Inner::Mapped(Arc::new(Maps { scattered, in_order, _taken: taken }))))
    }

    /// Bytes in memory.
    pub(super) fn held(bytes: Arc<[u8]>) -> Self {
        Self(Inner::Held(bytes))
    }

    /// The same bytes, to be read one after the other.
    #[inline]
    pub(crate) fn in_order(&self) -> &[u8] {
        match &self.0 {
            Inner::Mapped(maps) => &maps.in_order,
            Inner::Held(bytes) => bytes,
        }
    }

    /// Has the system read what is missing of a range, which is about to be read, at once. What is
    /// behind the end is not there; a system that will not is slower.
    pub(crate) fn will_need(&self, range: Range<u64>) {
        let Inner::Mapped(maps) = &self.0 else { return };
        if range.is_empty() {
            return;
        }
        let len = maps.scattered.len();
        let within = |offset| usize::try_from(offset).unwrap_or(len).min(len);
        let (start, end) = (within(range.start) / PAGE * PAGE, within(range.end));
        for start in (start..end).step_by(ASKED_AT_ONCE) {
            let len = ASKED_AT_ONCE.min(end - start);
            system::will_need(&maps.scattered, start, len);
        }
    }
}

/// Of a file that the system does not map, for whatever reason.
fn no_map(why: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// What keeps the bytes of an open file: a map of it, or its descriptor. The last one of a file that has
/// no name any more frees its blocks as it is dropped, and waits for that.
pub(crate) type Backing = Box<dyn Send + Sync>;

/// Maps a sealed file; `None` if the system has no map to give, of which it has so many for a process, and for files of
/// some file systems none.
pub(crate) fn map(file: &dyn DiskFile) -> io::Result<Option<Mapping>> {
    use io::ErrorKind::{OutOfMemory, Unsupported};
    static TOLD: Once = Once::new();
    match file.map() {
        Err(error) if matches!(error.kind(), OutOfMemory | Unsupported) => {
            TOLD.call_once(
                || tracing::warn!(%error, "files that cannot be mapped are read slower"),
            );
            Ok(None)
        }
        mapped => mapped.map(Some),
    }
}

impl Deref for Mapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Inner::Mapped(maps) => &maps.scattered,
            Inner::Held(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Of a file system that has no maps, as FUSE without a cache and sysfs, or where memory is locked: its files are read
    /// by calls.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_the_system_does_not_map_is_no_error() {
        use super::super::{Env, RealEnv};

        let Ok(file) = RealEnv::new().disk().open_to_read("/sys/kernel/fscaps".as_ref()) else {
            return;
        };
        assert!(file.len().unwrap() > 0);
        assert!(map(&*file).unwrap().is_none());
    }

    #[test]
    fn both_views_have_the_bytes_and_asking_for_more_than_there_is_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
        fs::write(dir.path().join("file"), &bytes).unwrap();
        let map = Mapping::of(&File::open(dir.path().join("file")).unwrap()).unwrap();
        for range in [0..1, 4095..140_000, 299_999..u64::MAX, 300_000..400_000, 7..7] {
            map.will_need(range);
        }
        for mapping in [map, Mapping::held(bytes.as_slice().into())] {
            assert!(*mapping == *bytes && mapping.in_order() == bytes);
        }
    }
}
