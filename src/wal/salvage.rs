//! [`Repairs`]: replaces damaged segments by what was whole in them, so that the next opening can
//! be strict; the damaged file stays beside it under a name with the extension `damaged` that no other has.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::record::{HEADER_BYTES, Header, Kind, Place, payload_crc, push_record};
use super::scan::{Scan, WINDOW_BYTES};
use super::segment::{self, SegmentId};
use super::walk::{Walk, walk};
use crate::env::{Disk, DiskFile, damaged_name};
use crate::error::{Error, Result};
use crate::options::Recovery;
use crate::version::Version;

/// What salvage has to do once all is read. Empty in a strict replay.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    damaged: BTreeSet<SegmentId>,
    given_up: Vec<SegmentId>,
}

impl Repairs {
    /// More missing segments than this are no gap: the file behind them is not of this log.
    pub(super) const MAX_GAP: u64 = 64;

    /// The segment is to be rewritten, or made if it is missing.
    pub(super) fn add(&mut self, id: SegmentId) {
        self.damaged.insert(id);
    }

    /// The segment is to be set aside with all it holds.
    pub(super) fn set_aside(&mut self, id: SegmentId) {
        self.given_up.push(id);
    }

    pub(super) fn contains(&self, id: SegmentId) -> bool {
        self.damaged.contains(&id)
    }

    /// Replaces the segment that was walked by a sealed one with its whole records later than `last`, but
    /// for those that were refused.
    pub(super) fn rewrite(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        walked: &Walk,
        last: Version,
    ) -> Result<()> {
        let Walk { id, proof, ref refused, .. } = *walked;
        let (path, new) = (id.path(dir), id.named(dir, segment::NEW_EXTENSION));
        let mut copy = Copy::begin(disk, &new, segment::Header::new(id, last))?;
        match Scan::open(disk, dir, id, Vec::new()) {
            Ok(mut scan) => {
                walk(&mut scan, Recovery::Salvage, last, proof, &mut |record| {
                    if refused.contains(&record.version) {
                        return Ok(());
                    }
                    copy.push_batch(record.version, record.payload)
                })?;
            }
            Err(Error::Corruption(_)) => {}
            Err(Error::Io(io)) if io.source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        copy.finish()?;
        keep_damaged(disk, &path)?;
        disk.rename(&new, &path).map_err(|e| Error::io("rename", &new, e))
    }

    /// Sets aside what is given up, and makes all new names durable.
    pub(super) fn finish(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        for id in &self.given_up {
            let path = id.path(dir);
            let renamed = damaged_name(disk, &path).and_then(|name| disk.rename(&path, &name));
            renamed.map_err(|e| Error::io("rename", &path, e))?;
        }
        if self.given_up.is_empty() && self.damaged.is_empty() {
            return Ok(());
        }
        disk.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))
    }
}

/// Gives a damaged file its other name, too; nothing if it is missing.
fn keep_damaged(disk: &dyn Disk, path: &Path) -> Result<()> {
    match damaged_name(disk, path).and_then(|name| disk.share(path, &name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("keep", path, error)),
        _ => Ok(()),
    }
}

/// A segment being written from start to seal.
struct Copy<'a> {
    file: Arc<dyn DiskFile>,
    path: &'a Path,
    header: segment::Header,
    /// Offset of the first byte that is still in the buffer.
    written: u64,
    buffer: Vec<u8>,
    last: Version,
}

impl<'a> Copy<'a> {
    fn begin(disk: &dyn Disk, path: &'a Path, header: segment::Header) -> Result<Self> {
        let file = disk.create(path).map_err(|e| Error::io("create", path, e))?;
        let (buffer, last) = (header.encode(), header.after);
        Ok(Self { file, path, header, written: 0, buffer, last })
    }

    fn push_batch(&mut self, version: Version, payload: &[u8]) -> Result<()> {
        let header = Header {
            payload_len: payload.len() as u32,
            payload_crc: payload_crc(payload),
            kind: Kind::Batch,
            version,
            durable_end: segment::HEADER_BYTES as u64,
        };
        self.push(header, payload)
    }

    fn push(&mut self, header: Header, payload: &[u8]) -> Result<()> {
        let offset = self.written + self.buffer.len() as u64;
        let place = Place { segment: self.header.id, salt: self.header.salt, offset };
        push_record(&mut self.buffer, header, place, payload);
        self.last = header.version;
        if self.buffer.len() >= WINDOW_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let written = self.file.write_at(&self.buffer, self.written);
        written.map_err(|e| Error::io("write to", self.path, e))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.write()?;
        let end = self.written;
        self.push(Header::seal(self.last, end), &[])?;
        self.buffer.resize(self.buffer.len() + HEADER_BYTES, 0);
        self.write()?;
        self.file.sync().map_err(|e| Error::io("sync", self.path, e))
    }
}
