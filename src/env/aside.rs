//! [`damaged_name`]: what a damaged file is called once it is set aside.
//!
//! Invariant: no file that was set aside loses its name to another. The device may yet give what it failed to
//! read of the first.

use std::io;
use std::path::{Path, PathBuf};

use super::Disk;

/// The name with the extension `damaged` behind it, or `2.damaged` and so on: the first that no file has. It stays
/// free while the directory is locked.
///
/// # Errors
/// What the file system refuses.
pub(crate) fn damaged_name(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let (dir, name) = (path.parent(), path.file_name());
    let (Some(dir), Some(name)) = (dir, name.and_then(|name| name.to_str())) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let taken = disk.list(dir)?;
    let mut free = format!("{name}.damaged");
    let mut number = 2;
    while taken.contains(&free) {
        free = format!("{name}.{number}.damaged");
        number += 1;
    }
    Ok(dir.join(free))
}
