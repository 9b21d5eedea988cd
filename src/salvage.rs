//! The mark of a salvage that found damage: the file `SALVAGE` in the directory of the database.
//!
//! Invariant: it is there, durably, from before salvage changes a file until all that it does is durable. What is
//! mended shows no longer that something was lost: where a salvage is cut off, the mark says it to the next.

use std::io::ErrorKind;
use std::path::Path;

use crate::env::{Disk, open_if_there};
use crate::error::{Corruption, Damage, Error, Result};

/// The name of the file, which has no content.
pub(crate) const MARK: &str = "SALVAGE";

/// That no salvage was cut off.
///
/// # Errors
/// [`Error::Corruption`] if one was; what the file system refuses.
pub(crate) fn check(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let path = dir.join(MARK);
    let mark = open_if_there(disk, &path).map_err(|e| Error::io("open", &path, e))?;
    mark.map_or(Ok(()), |_| {
        let found = "one that was cut off, and has to be done again";
        Err(Damage::new(0, "a salvage that went through", found).in_file(&path, 0))
    })
}

/// Whether that is told of a salvage that was cut off.
pub(crate) fn is_mark(damage: &Corruption) -> bool {
    damage.file.file_name().is_some_and(|name| name == MARK)
}

/// Sets the mark.
pub(crate) fn begin(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let path = dir.join(MARK);
    disk.create(&path).map_err(|e| Error::io("create", &path, e))?;
    sync(disk, dir)
}

/// Takes the mark away, if there is one.
pub(crate) fn end(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let path = dir.join(MARK);
    match disk.remove(&path) {
        Ok(()) => sync(disk, dir),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("remove", &path, error)),
    }
}

fn sync(disk: &dyn Disk, dir: &Path) -> Result<()> {
    disk.sync_dir(dir).map_err(|e| Error::io("sync directory", dir, e))
}
