//! [`Scan`]: reads one segment from front to back, a window at a time.
//!
//! Invariant: it returns only records whose checksums hold at the place they were read from, and
//! holds no more memory than a window or the largest record.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem;

use super::record::{ALIGNMENT, HEADER_BYTES, Header, ID_AT, Kind, Place, TERMINATOR, payload_crc};
use super::segment::{self, SegmentId};
use crate::env::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::version::Version;

/// What is read at once: large enough that a disk streams, small beside a memtable.
pub(super) const WINDOW_BYTES: usize = 256 << 10;

/// An open segment and the part of it that is in memory.
pub(super) struct Scan {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: PathBuf,
    pub(super) header: segment::Header,
    len: u64,
    window: Vec<u8>,
    /// Offset of the window's first byte.
    window_start: u64,
}

/// What stands at an offset of a segment.
pub(super) enum Item<'a> {
    Batch {
        version: Version,
        durable_end: u64,
        payload: &'a [u8],
        next: u64,
    },
    Seal {
        version: Version,
        durable_end: u64,
    },
    /// The terminator, or the end of the file.
    End,
    /// Anything else, and what that is.
    Bad(&'static str),
}

impl Scan {
    /// Opens a segment and checks its header. `buffer` is for the window; [`Scan::into_buffer`]
    /// gives it back.
    pub(super) fn open(
        disk: &dyn Disk,
        dir: &Path,
        id: SegmentId,
        buffer: Vec<u8>,
    ) -> Result<Self> {
        let path = id.path(dir);
        let file = disk.open(&path).map_err(|e| Error::io("open", &path, e))?;
        let len = file.len().map_err(|e| Error::io("read the length of", &path, e))?;
        let mut start = [0; segment::HEADER_BYTES];
        let present = usize::try_from(len).unwrap_or(usize::MAX).min(start.len());
        let start = start.get_mut(..present).unwrap_or_default();
        file.read_at(start, 0).map_err(|e| Error::io("read", &path, e))?;
        let header = segment::Header::decode(start, id, &path)?;
        Ok(Self { file, path, header, len, window: cleared(buffer), window_start: 0 })
    }

    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.window
    }

    pub(super) fn place(&self, offset: u64) -> Place {
        Place { segment: self.header.id, salt: self.header.salt, offset }
    }

    /// What stands at `offset`.
    pub(super) fn read(&mut self, offset: u64) -> Result<Item<'_>> {
        let header = match self.read_header(offset)? {
            Ok(header) => header,
            Err(_) if self.is_terminated(offset)? => return Ok(Item::End),
            Err(found) => return Ok(Item::Bad(found)),
        };
        let next = offset + header.record_bytes();
        if next > self.len {
            return Ok(Item::Bad("the end of the file inside a record"));
        }
        let record = self.bytes(offset, header.record_bytes() as usize)?;
        let behind_header = record.get(HEADER_BYTES..).unwrap_or_default();
        let Some((payload, padding)) = behind_header.split_at_checked(header.payload_len as usize)
        else {
            return Ok(Item::Bad("the end of the file inside a record"));
        };
        if payload_crc(payload) != header.payload_crc {
            return Ok(Item::Bad("a payload whose checksum does not match"));
        }
        if padding.iter().any(|byte| *byte != 0) {
            return Ok(Item::Bad("a record whose padding is not zero"));
        }
        let Header { version, durable_end, .. } = header;
        Ok(match header.kind {
            Kind::Batch => Item::Batch { version, durable_end, payload, next },
            Kind::Seal => Item::Seal { version, durable_end },
        })
    }

    fn read_header(&mut self, offset: u64) -> Result<Result<Header, &'static str>> {
        if offset + HEADER_BYTES as u64 > self.len {
            return Ok(Err("the end of the file inside a record header"));
        }
        let place = self.place(offset);
        let bytes = self.bytes(offset, HEADER_BYTES)?;
        Ok(bytes.first_chunk().ok_or("no header").and_then(|bytes| Header::decode(bytes, place)))
    }

    fn is_terminated(&mut self, offset: u64) -> Result<bool> {
        let len = self.len.saturating_sub(offset).min(TERMINATOR.len() as u64) as usize;
        Ok(self.bytes(offset, len)?.iter().all(|byte| *byte == 0))
    }

    /// The first record header from `offset` on that `accept`s, and where it is. The record's
    /// payload is not looked at. It is looked for by the segment's id, which it has in it.
    pub(super) fn find(
        &mut self,
        offset: u64,
        accept: impl Fn(&Header) -> bool,
    ) -> Result<Option<u64>> {
        let id = self.header.id.get().to_le_bytes();
        let ids = memmem::Finder::new(&id);
        let mut start = offset.next_multiple_of(ALIGNMENT as u64);
        while start + HEADER_BYTES as u64 <= self.len {
            let place = self.place(start);
            let window = self.window_at(start)?;
            // The next window begins with the first place at which no header fits this one.
            let next = (window.len() - HEADER_BYTES) / ALIGNMENT * ALIGNMENT + ALIGNMENT;
            let mut at = 0;
            while let Some(found) = window.get(at + ID_AT..).and_then(|rest| ids.find(rest)) {
                let header = at + found;
                let Some(bytes) = window.get(header..).and_then(<[u8]>::first_chunk) else { break };
                let place = Place { offset: start + header as u64, ..place };
                if Header::decode(bytes, place).is_ok_and(|header| accept(&header)) {
                    return Ok(Some(place.offset));
                }
                at = header + 1;
            }
            start += next as u64;
        }
        Ok(None)
    }

    /// Number of bytes from `offset` to the last one that is not zero.
    pub(super) fn extent(&mut self, offset: u64) -> Result<u64> {
        let (mut at, mut end) = (offset, offset);
        while at < self.len {
            let start = at;
            let window = self.window_at(start)?;
            if let Some(last) = window.iter().rposition(|byte| *byte != 0) {
                end = start + last as u64 + 1;
            }
            at += window.len() as u64;
        }
        Ok(end - offset)
    }

    /// A window's worth of bytes from `offset`, or what there is to the end of the file.
    fn window_at(&mut self, offset: u64) -> Result<&[u8]> {
        self.bytes(offset, (self.len - offset).min(WINDOW_BYTES as u64) as usize)
    }

    /// Bytes of the file, which must reach that far.
    pub(super) fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + len as u64 > window_end {
            self.fill(offset, len)?;
        }
        let start = (offset - self.window_start) as usize;
        Ok(self.window.get(start..start + len).unwrap_or_default())
    }

    fn fill(&mut self, offset: u64, len: usize) -> Result<()> {
        let rest = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = rest.min(len.max(WINDOW_BYTES));
        if self.window.capacity() > 4 * WINDOW_BYTES.max(len) {
            self.window = Vec::new();
        }
        // On 32 bits there may be no room for a record that was written on 64.
        let room = self.window.try_reserve(len.saturating_sub(self.window.len()));
        room.map_err(|_| Error::io("read", &self.path, io::ErrorKind::OutOfMemory.into()))?;
        self.window.resize(len, 0);
        self.window_start = offset;
        let read = self.file.read_at(&mut self.window, offset);
        read.map_err(|e| Error::io("read", &self.path, e))
    }
}

fn cleared(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, SimEnv};

    /// Wherever it is in a window or between two, and if the bytes of the id are before it as well.
    #[test]
    fn a_header_is_found_at_any_place() {
        let (dir, first) = (Path::new("/db"), segment::HEADER_BYTES as u64);
        let near_window_end = (-96..=16).step_by(ALIGNMENT);
        let near_window_end =
            near_window_end.map(|by: i64| (first + WINDOW_BYTES as u64).wrapping_add_signed(by));
        for offset in [first, first + 8, first + 800].into_iter().chain(near_window_end) {
            for id in [1, 0x100_0000].map(SegmentId::new) {
                let segment = segment::Header { id, after: Version::ZERO, salt: 5 };
                let header = Header {
                    payload_len: 3,
                    payload_crc: 0x55,
                    kind: Kind::Batch,
                    version: Version::from_ticks(7),
                    durable_end: 0,
                };
                let mut bytes = segment.encode();
                bytes.resize(2 * WINDOW_BYTES, 0);
                let place = Place { segment: id, salt: 5, offset };
                bytes[offset as usize..][..HEADER_BYTES].copy_from_slice(&header.encode(place));
                let env = SimEnv::new(1);
                env.write_file(&id.path(dir), &bytes);
                let mut scan = Scan::open(&*env.disk(), dir, id, Vec::new()).unwrap();
                assert_eq!(scan.find(first, |found| *found == header).unwrap(), Some(offset));
                assert_eq!(scan.find(offset + 8, |_| true).unwrap(), None);
                assert_eq!(scan.find(first, |_| false).unwrap(), None);
            }
        }
    }
}
