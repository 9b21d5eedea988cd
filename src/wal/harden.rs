//! [`harden`]: makes a segment durable as it was read, with a seal at its end.
//!
//! A process that was killed left its last segments unsynced, and a sync that failed may have left bytes in the
//! system's cache that are not on the disk and that it takes for clean. Invariant: whatever is synced here was
//! written here, by which it is on the disk for certain.

use std::path::Path;
use std::sync::Arc;

use super::record::{HEADER_BYTES, Header, TERMINATOR};
use super::scan::{Scan, WINDOW_BYTES};
use super::segment;
use super::walk::{Ending, Walk};
use crate::env::Disk;
use crate::error::{Error, Result};

/// Makes durable what is only known to be readable, and seals what has no seal. Gives the buffer back.
pub(super) fn harden(disk: &dyn Disk, dir: &Path, walk: &Walk, buffer: Vec<u8>) -> Result<Vec<u8>> {
    let mut scan = Scan::open(disk, dir, walk.id, buffer)?;
    write_again(&mut scan, walk)?;
    if walk.ending != Ending::Sealed {
        seal(&scan, walk)?;
    }
    Ok(scan.into_buffer())
}

/// Writes what may not be durable once more, the seal included, and syncs it.
fn write_again(scan: &mut Scan, walk: &Walk) -> Result<()> {
    let seal_bytes = if walk.ending == Ending::Sealed { HEADER_BYTES as u64 } else { 0 };
    let end = walk.end + seal_bytes;
    let mut at = walk.proven.max(segment::HEADER_BYTES as u64);
    while at < end {
        let len = (end - at).min(WINDOW_BYTES as u64) as usize;
        let (file, path) = (Arc::clone(&scan.file), scan.path.clone());
        let written = file.write_at(scan.bytes(at, len)?, at);
        written.map_err(|e| Error::io("write to", &path, e))?;
        at += len as u64;
    }
    scan.file.sync().map_err(|e| Error::io("sync", &scan.path, e))
}

/// Seals a segment where its records end, which are durable.
fn seal(scan: &Scan, walk: &Walk) -> Result<()> {
    let mut bytes = Header::seal(walk.last, walk.end).encode(scan.place(walk.end)).to_vec();
    bytes.extend(TERMINATOR);
    let written = scan.file.write_at(&bytes, walk.end);
    written.map_err(|e| Error::io("write to", &scan.path, e))?;
    scan.file.sync().map_err(|e| Error::io("sync", &scan.path, e))?;
    let end = walk.end + bytes.len() as u64;
    scan.file.set_len(end).map_err(|e| Error::io("set the length of", &scan.path, e))
}
