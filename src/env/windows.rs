//! What Windows does in its own way; `unix.rs` has the same functions. DESIGN.md, 7.1, has the reasons.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::{self, Component, Path, Prefix};
use std::ptr;
use std::thread;
use std::time::Duration;

use memmap2::Mmap;
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_INVALID_FUNCTION, ERROR_LOCK_VIOLATION, ERROR_NOT_SUPPORTED,
    ERROR_SHARING_VIOLATION,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ADD_FILE, FILE_ADD_SUBDIRECTORY, FILE_FLAG_BACKUP_SEMANTICS, FILE_LIST_DIRECTORY,
    FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, GetDiskFreeSpaceExW,
    MOVEFILE_REPLACE_EXISTING, MOVEFILE_WRITE_THROUGH, MoveFileExW,
};

/// What is waited for another program that has a file open, before it is an error: a second in all.
const PAUSES_MS: [u64; 8] = [1, 2, 7, 20, 70, 200, 300, 400];

const SHARE_ALL: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// Fills the whole buffer; `UnexpectedEof` if the file ends before. It moves the file's cursor, which nobody uses.
pub(super) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut at) = (buf, offset);
    while !rest.is_empty() {
        match file.seek_read(rest, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                rest = rest.split_at_mut(read).1;
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all bytes.
pub(super) fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut at) = (data, offset);
    while !rest.is_empty() {
        match file.seek_write(rest, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                rest = rest.split_at(written).1;
                at += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes created, renamed and removed names of a directory durable, where the file system can be asked to.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    // Whoever may make a directory in another may do this, though not add files: as in the root of a drive.
    match open_dir(dir, FILE_ADD_SUBDIRECTORY, SHARE_ALL)?.sync_all() {
        Err(error) if is_not_offered(&error) => Ok(()),
        synced => synced,
    }
}

fn open_dir(dir: &Path, access: u32, shared: u32) -> io::Result<File> {
    OpenOptions::new()
        .access_mode(access)
        .share_mode(shared)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
        .open(dir)
}

/// Whether a file system was asked for what it has not.
fn is_not_offered(error: &io::Error) -> bool {
    is_one_of(error, &[ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED])
}

fn is_one_of(error: &io::Error, codes: &[u32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&code.cast_unsigned()))
}

/// Renames a file, replacing an existing one atomically; durable in itself.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    let flags = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
    patiently(|| {
        // SAFETY: both are names that end with a zero, lent for the call.
        match unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), flags) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    })
}

/// Removes a file that nobody has mapped. Who has it open keeps its bytes.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    patiently(|| fs::remove_file(path))
}

/// Tries again for a while what another program is in the way of: those that look for viruses, index or copy files have
/// them open for moments.
fn patiently(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for pause in PAUSES_MS {
        match attempt() {
            Err(error) if is_one_of(&error, &[ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION]) => {
                thread::sleep(Duration::from_millis(pause));
            }
            done => return done,
        }
    }
    attempt()
}

/// Whether an open file has a name: taken for granted, as no directory can be removed with it.
pub(super) fn has_name(_file: &File) -> bool {
    true
}

/// A second name for a file; `Unsupported` where there are none.
pub(super) fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).map_err(|error| match error {
        error if is_not_offered(&error) => io::ErrorKind::Unsupported.into(),
        error => error,
    })
}

/// How many bytes more this user's files in a directory may take.
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let (dir, mut free) = (wide(dir).ok()?, 0);
    // SAFETY: a name that ends with a zero and a number, both lent for the call; others are not asked for.
    let told = unsafe {
        GetDiskFreeSpaceExW(dir.as_ptr(), &raw mut free, ptr::null_mut(), ptr::null_mut())
    };
    (told != 0).then_some(free)
}

/// How much memory the process may have, with the pages of files: not known.
pub(super) fn memory_bytes() -> Option<u64> {
    None
}

/// A path as the system takes it, however long it is.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    // Without zeros, which are refused.
    let path = path::absolute(path)?;
    let is_on_drive = matches!(path.components().next(),
        Some(Component::Prefix(prefix)) if matches!(prefix.kind(), Prefix::Disk(_)));
    let verbatim = if is_on_drive { r"\\?\" } else { "" };
    Ok(verbatim.encode_utf16().chain(path.as_os_str().encode_wide()).chain([0]).collect())
}

/// Reads of a map have pages around them read, too: the system takes no advice about that.
pub(super) fn read_scattered(_map: &Mmap) -> io::Result<()> {
    Ok(())
}

/// Pages are read as they are touched.
pub(super) fn will_need(_map: &Mmap, _start: usize, _len: usize) {}

/// How a file is opened that is to be locked: it keeps its name as long as it is open.
pub(super) fn lock_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE);
    options
}

/// Ends the lock of a file.
pub(super) fn unlock(file: &File) -> io::Result<()> {
    match file.unlock() {
        // What Wine says, as the standard library makes sure that no second lock is left.
        Err(error) if is_one_of(&error, &[ERROR_LOCK_VIOLATION]) => Ok(()),
        unlocked => unlocked,
    }
}

/// A lock of a directory, until it is dropped. Directories have none, but those who only read do not share to add files
/// to it, which is what the one who writes has it open for.
#[derive(Debug)]
pub(super) struct DirLock {
    _dir: File,
}

impl DirLock {
    /// None where it cannot be opened.
    pub(super) fn take(dir: &Path) -> io::Result<Option<Self>> {
        Self::by(open_dir(dir, FILE_ADD_FILE, SHARE_ALL))
    }

    /// The same, for one of many who only read.
    pub(super) fn take_shared(dir: &Path) -> io::Result<Option<Self>> {
        Self::by(open_dir(dir, FILE_LIST_DIRECTORY, FILE_SHARE_READ))
    }

    /// It is dropped with its owner.
    pub(super) fn release(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether a path leads to it: taken for granted, as an open directory cannot be renamed.
    pub(super) fn is_at(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn by(opened: io::Result<File>) -> io::Result<Option<Self>> {
        match opened {
            Ok(dir) => Ok(Some(Self { _dir: dir })),
            Err(error) if is_one_of(&error, &[ERROR_SHARING_VIOLATION]) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(code.cast_signed()))
    }

    #[test]
    fn what_another_program_is_in_the_way_of_is_tried_again_and_other_errors_are_told_at_once() {
        for (code, expected) in [(ERROR_SHARING_VIOLATION, 3), (ERROR_NOT_SUPPORTED, 1)] {
            let mut attempts = 0;
            let done = patiently(|| {
                attempts += 1;
                if attempts < 3 { refused(code) } else { Ok(()) }
            });
            assert_eq!((attempts, done.is_ok()), (expected, expected == 3));
        }
        let mut attempts = 0;
        let stays = patiently(|| {
            attempts += 1;
            refused(ERROR_ACCESS_DENIED)
        });
        assert_eq!(stays.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(attempts, PAUSES_MS.len() + 1);
    }

    #[test]
    fn files_with_long_names_and_open_ones_are_renamed_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(200)).join("e".repeat(200));
        fs::create_dir_all(&deep).unwrap();
        let (from, to) = (deep.join("from"), deep.join("to"));
        fs::write(&to, "old").unwrap();
        let file = File::create_new(&from).unwrap();
        write_all_at(&file, b"new", 0).unwrap();
        rename(&from, &to).unwrap();
        sync_dir(&deep).unwrap();
        assert_eq!((fs::read(&to).unwrap(), from.exists()), (b"new".to_vec(), false));
        assert!(free_bytes(&deep).is_some());
        let zero = rename(&to, Path::new("a\0b")).unwrap_err();
        assert_eq!(zero.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_file_that_is_locked_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let locked = lock_options().write(true).create(true).truncate(false).open(&path).unwrap();
        fs::remove_file(&path).unwrap_err();
        drop(locked);
        fs::remove_file(&path).unwrap();
    }
}
