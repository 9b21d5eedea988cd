//! Whether a thread has waited for a disk: as it read a file, or touched bytes of a mapped one that were not in memory.
//! It takes a call of the system to find out, so this is asked only after something slow.

use std::cell::Cell;
use std::ffi::c_long;

thread_local! {
    /// The thread's count when it last asked.
    static SEEN: Cell<c_long> = const { Cell::new(0) };
}

/// Whether this thread has waited for a disk since it last asked; `false` where the system does not count for each
/// thread.
pub(super) fn any_since_asked() -> bool {
    let all = all();
    SEEN.replace(all) != all
}

/// This thread's count: blocks that it had read, and page faults, which are counted whatever the file system.
#[cfg(target_os = "linux")]
fn all() -> c_long {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_THREAD);
    usage.map_or(0, |usage| usage.block_reads() + usage.major_page_faults())
}

#[cfg(not(target_os = "linux"))]
fn all() -> c_long {
    0
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::io::Write;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    /// What files of the system tell of the thread: bytes that it had read, in blocks of 512, and the tenth field
    /// behind its name. Not every system counts the former.
    fn all_as_told() -> c_long {
        let told = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
        let bytes = told.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        let bytes: c_long = bytes.map_or(0, |bytes| bytes.parse().unwrap());
        let told = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = told.rsplit_once(") ").unwrap();
        let faults: c_long = fields.split(' ').nth(9).unwrap().parse().unwrap();
        bytes / 512 + faults
    }

    /// Reads a file that is on a disk alone, if the file system has one.
    fn read_from_disk() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 64 << 10]).unwrap();
        file.as_file().sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(fs::read(file.path()).unwrap().len(), 64 << 10);
    }

    /// A page of the test itself may have to be read in between.
    #[test]
    fn they_are_the_threads_own() {
        read_from_disk();
        assert!((0..100).any(|_| all() == all_as_told()));
    }

    #[test]
    fn each_is_told_of_once() {
        SEEN.set(all() - 1);
        assert!(any_since_asked());
        assert!((0..100).any(|_| !any_since_asked()));
    }
}
