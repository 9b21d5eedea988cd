//! [`Reserved`]: room in a file for bytes to come, mapped, so that to write them takes no system call.
//!
//! Invariant: the file reaches as far as the room does, and has blocks there which it is written to in
//! place. So a store wants nothing of the file system that may be refused: neither space, nor, but for
//! the page that it begins with, anything read from the device. The map reaches further, so that room
//! which is added is under it, and pages that were written to once stay mapped.

use std::fs::File;
use std::io;

use memmap2::{MmapOptions, MmapRaw};

/// From so many bytes on a system call takes less than the page faults, as it gets large pages; unless the
/// pages are there, since the file was written to before.
const STORED_BYTES: usize = 16 << 10;

/// A map reaches from the beginning of its file to a multiple of this: of addresses there are enough.
const MAPPED_BYTES: u64 = 64 << 20;

/// Part of a file, which only its owner writes to.
#[derive(Debug)]
pub(super) struct Reserved {
    map: MmapRaw,
    from: u64,
    to: u64,
    /// Up to here the file was written to.
    written: u64,
}

impl Reserved {
    /// Has blocks allocated from `from` to `to`, which becomes the file's end if it ends before, and maps
    /// them. The file must not become shorter while this is written to.
    pub(super) fn of(file: &File, from: u64, to: u64) -> io::Result<Self> {
        let written = file.metadata()?.len();
        allocate(file, from, to.saturating_sub(from))?;
        let mapped =
            usize::try_from(to.next_multiple_of(MAPPED_BYTES)).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(mapped).map_raw(file)?;
        Ok(Self { map, from, to, written })
    }

    /// The same with room up to `to`, which becomes the file's end if it ends before; `None` if the map
    /// does not reach that far, there is no room, or somebody cut the file.
    pub(super) fn extended(self, file: &File, to: u64) -> Option<Self> {
        let is_whole = file.metadata().is_ok_and(|found| found.len() >= self.to);
        if !is_whole || to > self.map.len() as u64 {
            return None;
        }
        let has_room = to <= self.to || allocate(file, self.to, to - self.to).is_ok();
        has_room.then_some(Self { to: to.max(self.to), ..self })
    }

    /// Writes bytes at an offset of the file, if all of them are within, and few or where it was written to
    /// before; says whether. If not, they are written by a call.
    pub(super) fn write(&mut self, data: &[u8], offset: u64) -> bool {
        let end = offset.checked_add(data.len() as u64);
        let is_within = |end: &u64| offset >= self.from && *end <= self.to;
        let Some(end) = end.filter(is_within) else { return false };
        let is_new = end > self.written;
        self.written = self.written.max(end);
        if is_new && data.len() >= STORED_BYTES {
            return false;
        }
        let at = offset as usize;
        // SAFETY: the bytes from `at` on are within the map, which reaches at least to `to`, and `data` is
        // not: nothing lends out what is in the map, whose pointer does not leave this type, and `&mut self`
        // keeps others from writing to it at the same time. Other maps of the file are made once it is not
        // written any more (`DiskFile::map`). The file reaches to `to`: `RealFile::set_len` lets go of
        // this first, others cut a file only when it is not written any more, before it is used again
        // `RealFile::reserve` sees that they did, and the directory's lock keeps other instances of the
        // engine away. What follows if somebody else cuts it is said in the documentation of
        // `ReadMode::Mmap`.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), self.map.as_mut_ptr().add(at), data.len());
        }
        true
    }
}

/// Has blocks allocated for part of a file, which are written in place from then on.
#[cfg(target_os = "linux")]
fn allocate(file: &File, from: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate, fstatfs};
    // File systems that write to blocks once they have them: ext2 to 4, XFS. One that copies on write may
    // find no room for that when it comes to a store, of which nobody can be told.
    const WRITTEN_IN_PLACE: [i128; 2] = [0xef53, 0x5846_5342];
    if !WRITTEN_IN_PLACE.contains(&i128::from(fstatfs(file)?.f_type)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(fallocate(file, FallocateFlags::empty(), from, len)?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _from: u64, _len: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::super::system::{read_exact_at, write_all_at};
    use super::*;

    fn file(dir: &tempfile::TempDir) -> File {
        let path = dir.path().join("file");
        OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
    }

    #[test]
    fn what_is_stored_is_in_the_file_and_the_rest_is_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        write_all_at(&file, &[1; 5_000], 0).unwrap();
        let Ok(mut reserved) = Reserved::of(&file, 4_990, 9_000) else { return };
        assert_eq!(file.metadata().unwrap().len(), 9_000);
        assert!(reserved.write(&[2; 20], 4_990));
        // What comes by system calls and what does not is one file.
        write_all_at(&file, &[3; 4], 5_000).unwrap();
        assert!(reserved.write(&[4; 2], 8_998));
        let mut expected = vec![0; 9_000];
        expected[..4_990].fill(1);
        expected[4_990..5_010].fill(2);
        expected[5_000..5_004].fill(3);
        expected[8_998..].fill(4);
        let mut bytes = vec![9; 9_000];
        read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes == expected);
    }

    #[test]
    fn what_is_not_within_or_much_is_left_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        let Ok(mut reserved) = Reserved::of(&file, 100, 100_000) else { return };
        let much = vec![1; STORED_BYTES];
        for (data, offset) in
            [(&[1][..], 99), (&[1], 100_000), (&[1; 2], 99_999), (&[1], u64::MAX), (&much, 100)]
        {
            assert!(!reserved.write(data, offset), "{} bytes at {offset}", data.len());
        }
        assert!(reserved.write(&[], 100_000) && reserved.write(&[], 100));
        let mut bytes = vec![9; 100_000];
        read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    /// Of a file that had been written to, however much it is; and where room is added.
    #[test]
    fn much_is_stored_where_the_file_was_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        write_all_at(&file, &[1; 50_000], 0).unwrap();
        let Ok(mut reserved) = Reserved::of(&file, 64, 50_000) else { return };
        assert!(reserved.write(&[2; 40_000], 64));
        assert!(!reserved.write(&[3; 20_000], 40_064), "there is no room for it");
        let mut reserved = reserved.extended(&file, 100_000).unwrap();
        assert!(!reserved.write(&[3; 20_000], 40_064), "a part of it is new");
        assert!(reserved.write(&[3; 20_000], 40_064), "now it is not");
        assert!(reserved.write(&[4], 99_999));
        let mut expected = vec![0; 100_000];
        expected[..64].fill(1);
        expected[64..40_064].fill(2);
        expected[40_064..60_064].fill(3);
        expected[99_999] = 4;
        let mut bytes = vec![9; 100_000];
        read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes == expected);
        assert!(reserved.extended(&file, MAPPED_BYTES + 1).is_none(), "it is not mapped that far");
    }

    /// A store behind the end would end the process.
    #[test]
    fn room_in_a_file_that_was_cut_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        let Ok(mut reserved) = Reserved::of(&file, 0, 100_000) else { return };
        assert!(reserved.write(&[1], 99_999));
        file.set_len(5_000).unwrap();
        assert!(reserved.extended(&file, 5_000).is_none());
        let mut reserved = Reserved::of(&file, 0, 5_000).unwrap();
        assert!(!reserved.write(&[1], 50_000));
        let mut reserved = reserved.extended(&file, 60_000).unwrap();
        assert!(reserved.write(&[1], 50_000));
    }

    #[test]
    fn nothing_is_reserved_where_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        for (from, to) in [(0, 0), (5, 4), (0, u64::MAX)] {
            Reserved::of(&file, from, to).unwrap_err();
            assert_eq!(file.metadata().unwrap().len(), 0);
        }
    }
}
