//! Has the system begin to write to the device what a sync will have to wait for.

use std::fs::File;

/// Of the bytes from `from` to `to`. Nobody waits for it, nothing is durable by it, and what fails is
/// told by the next sync of the file.
#[cfg(target_os = "linux")]
pub(super) fn begin(file: &File, from: u64, to: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (i64::try_from(from), i64::try_from(to.saturating_sub(from)))
    else {
        return;
    };
    // To the system a length of 0 is all that follows.
    if len > 0 {
        // SAFETY: the call takes a descriptor, which is open as long as `file` is lent, and numbers.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
        };
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn begin(_file: &File, _from: u64, _to: u64) {}

#[cfg(test)]
mod tests {
    use super::super::system::{read_exact_at, write_all_at};
    use super::*;

    #[test]
    fn whatever_is_asked_for_the_file_stays_as_it_was_written() {
        let file = tempfile::tempfile().unwrap();
        let bytes = vec![7; 300_000];
        write_all_at(&file, &bytes, 0).unwrap();
        for (from, to) in [(0, 300_000), (5, 9), (4, 4), (9, 4), (299_000, 900_000), (0, u64::MAX)]
        {
            begin(&file, from, to);
        }
        write_all_at(&file, &[8; 10], 100).unwrap();
        file.sync_data().unwrap();
        let mut found = vec![0; 300_000];
        read_exact_at(&file, &mut found, 0).unwrap();
        assert!(found[100..110] == [8; 10] && found[110..] == bytes[110..]);
        assert_eq!(file.metadata().unwrap().len(), 300_000);
    }
}
