//! [`Writer`]: appends groups of records to the newest segment and syncs them.
//!
//! Invariant: `synced <= end <= prewritten` or nothing is prewritten. After a write or sync failed
//! nothing more is written: what the file then holds only reopening tells.
//!
//! A segment that ends is synced while records go to the next; what that comes to is in [`Syncs`].
//!
//! Where commits are synced, zeros are written ahead of the end and segments are recycled, because a
//! sync then commits data only. A background job does it for the next segment as a whole, so commits
//! wait for zeros only in the first segment of a new log, where they come a chunk at a time. Where they
//! are not, room is made ahead, in which records are stored without a system call; segments grow by it, and
//! those that are left to the operating system are used again with the pages that are in memory of them.
//! Measured for one 4 KiB write and its sync
//! (ext4 on a loop device that nothing else used, means of 400):
//!
//! | the file | writes to the device | KiB written | flushes |
//! | --- | --- | --- | --- |
//! | grows | 3 | 10 | 2 |
//! | was extended by `fallocate` | 3 | 7 | 2 |
//! | was filled with zeros before | 2 | 4 | 1 |
//! | is recycled | 2 | 4 | 1 |
//!
//! A journal commit is what makes the difference; `fallocate` does not avoid it, since it leaves
//! extents that the first write has to mark as written. How long that takes is up to the device:
//! on a virtual disk that completes flushes at 4 ms ticks, all four have a median of 4.0 ms.
//!
//! Zeros, and groups over blocks that were written before, go past the page cache, whole blocks at a time:
//! a sync then has nothing to look for and to write back, only the device to flush (DESIGN.md, 9.3, has
//! what it brought). What makes the file grow goes through the page cache, so large commits do, for
//! which nothing is written ahead; their values are read from there.

use std::path::Path;
use std::sync::Arc;

use super::group::Group;
use super::plan::{FIRST_ZEROS_BYTES, SegmentPlan};
use super::prepare::OpenSegment;
use super::record::{
    HEADER_BYTES, Header, Kind, MAX_PAYLOAD_BYTES, Place, TERMINATOR, record_bytes,
};
use super::room::when_there_is_room;
use super::segment::{self, SealedSegment, SegmentId};
use super::segments::Segments;
use super::syncs::Syncs;
use super::writeback::Writeback;
use crate::env::{BLOCK_BYTES, Disk};
use crate::error::{Error, Limit, Result};
use crate::reference::LogPlace;
use crate::version::Version;

/// A group is written in pieces of about this, so that the buffer it is gathered in stays small.
const PIECE_BYTES: usize = 1 << 20;
/// A segment that is not this part full is not worth another file, which takes a few syncs to make.
const RELEASED_FROM_PART: u64 = 32;

/// Commits from this length on gain nothing from zeros ahead: what they write is more than what a sync
/// spares. Nor do they from being written together with others.
const LARGE_RECORD_BYTES: usize = 64 << 10;

/// A commit to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRef<'a> {
    pub(crate) version: Version,
    pub(crate) payload: &'a [u8],
    /// [`payload_crc`](super::payload_crc) of the payload.
    pub(crate) payload_crc: u32,
}

/// Writes the log. One driver has it at a time; [`segments`](Self::segments) is for the others.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) segments: Arc<Segments>,
    pub(super) active: OpenSegment,
    /// Where the next record goes.
    pub(super) end: u64,
    pub(super) syncs: Syncs,
    /// The segment that this writer began with.
    first: SegmentId,
    pub(super) last: Version,
    /// How many bytes were made ready ahead the last time.
    pub(super) stride: usize,
    /// What goes to `end`.
    pub(super) group: Group,
    failed: Option<Arc<str>>,
    /// Bytes of large records in the segment.
    pub(super) large_bytes: u64,
    /// The segment ends before a later record.
    pub(super) boundary: Version,
    /// Before this offset no background job is asked again to prepare the next segment.
    pub(super) wanted_again: u64,
    /// Before this offset the writer does not try again to begin the next segment.
    pub(super) tried_again: u64,
}

impl Writer {
    /// Begins segment `id` of a log whose records so far end at version `last`. For a log that
    /// was replayed, `id`, `last` and `older` are what replay returned.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        id: SegmentId,
        last: Version,
        plan: SegmentPlan,
        older: Vec<SealedSegment>,
    ) -> Result<Self> {
        let segments = Arc::new(Segments::new(disk, dir, id, last, plan, older)?);
        let active = segments.take_next()?;
        let start = segment::HEADER_BYTES as u64;
        let mut group = Group::default();
        group.begin(&active.header.encode(), start);
        Ok(Self {
            segments,
            active,
            end: start,
            syncs: Syncs::new(plan.left_to_system, start),
            first: id,
            last,
            stride: FIRST_ZEROS_BYTES,
            group,
            failed: None,
            large_bytes: 0,
            boundary: Version::MAX,
            wanted_again: 0,
            tried_again: 0,
        })
    }

    /// The files of this log, for background jobs.
    pub(crate) fn segments(&self) -> Arc<Segments> {
        Arc::clone(&self.segments)
    }

    /// Appends a group of records with ascending versions, in one write unless it is large or
    /// comes to the end of a segment. Durable after [`sync`](Self::sync).
    ///
    /// # Errors
    /// A record that is too large or out of order, before anything is written. What the operating
    /// system refuses; and from then on [`Error::Poisoned`].
    pub(crate) fn append<'a>(
        &mut self,
        records: impl Iterator<Item = RecordRef<'a>> + Clone,
    ) -> Result<()> {
        self.append_placed(records.map(|record| (record, ())), |(), _| ())
    }

    /// As [`append`](Self::append), and says of each record, by what the caller knows it by, where its
    /// payload is.
    pub(crate) fn append_placed<'a, T>(
        &mut self,
        records: impl Iterator<Item = (RecordRef<'a>, T)> + Clone,
        placed: impl FnMut(T, LogPlace),
    ) -> Result<()> {
        self.check_usable()?;
        self.check_records(records.clone().map(|(record, _)| record))?;
        let outcome = self.syncs.note_settled().and_then(|()| self.append_checked(records, placed));
        self.remember_failure(outcome)
    }

    /// Makes all records appended so far durable.
    ///
    /// # Errors
    /// What the operating system refuses; and from then on [`Error::Poisoned`].
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check_usable()?;
        let outcome = self.sync_active();
        self.remember_failure(outcome)
    }

    /// Whether nothing later than `last` is in the log, and what it takes is better given back than used again.
    pub(crate) fn is_idle_after(&self, last: Version) -> bool {
        !self.segments.plan().zeros_ahead() && self.last <= last
    }

    /// Whether the segment's file is worth another one, if it is removed once what is in it was flushed.
    pub(crate) fn is_long(&self) -> bool {
        let bytes = self.end.max(self.active.began_with);
        bytes >= self.segments.plan().bytes / RELEASED_FROM_PART
    }

    /// A sync that a background job should [settle](Writeback::settle) now, because a segment ended or
    /// much is not synced, unless that is left to the operating system.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn due_writeback(&mut self) -> Result<Option<Arc<Writeback>>> {
        let ended = self.syncs.take_ended();
        if ended.is_some() || !self.syncs.is_due(self.end) {
            return Ok(ended);
        }
        self.begin_sync().map(Some)
    }

    /// The segment is to be kept for its large values once it is flushed, and has to be durable by then.
    pub(crate) fn keep_segment(&mut self) {
        self.syncs.keep_segment();
    }

    /// As [`begin_writeback`](Self::begin_writeback), unless the one before is not settled yet: those that
    /// come while a device is slow would wait for each other.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn next_writeback(&mut self) -> Result<Option<Arc<Writeback>>> {
        self.check_usable()?;
        let noted = self.syncs.note_settled();
        self.remember_failure(noted)?;
        (!self.syncs.is_under_way()).then(|| self.begin_writeback()).transpose()
    }

    /// Begins a sync of all records appended so far that somebody asks for, to be
    /// [settled](Writeback::settle) while others are appended.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn begin_writeback(&mut self) -> Result<Arc<Writeback>> {
        self.syncs.asked();
        self.begin_sync()
    }

    fn begin_sync(&mut self) -> Result<Arc<Writeback>> {
        self.check_usable()?;
        let noted = self.syncs.note_settled();
        self.remember_failure(noted)?;
        let begun = self.new_writeback();
        self.syncs.begun(Arc::clone(&begun));
        Ok(begun)
    }

    pub(super) fn new_writeback(&mut self) -> Arc<Writeback> {
        let before = self.syncs.take_newest();
        let (file, path) = (Arc::clone(&self.active.file), self.active.path.clone());
        Arc::new(Writeback::new(file, path, self.end, self.last, before))
    }

    /// Ends the log in good order: the next opening finds nothing to trim, and the file is no
    /// longer than its records. Nothing can be appended any more.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync).
    pub(crate) fn close(&mut self) -> Result<Version> {
        self.check_usable()?;
        self.failed = Some(Arc::from("the log is closed"));
        // A segment without records is left to the next opening, which begins with it; but not if
        // only its seal proves that those before it are durable.
        if self.is_empty() && self.active.header.id == self.first {
            return Ok(self.last);
        }
        self.sync_active()?;
        self.seal()?;
        self.sync_active()?;
        let cut = self.active.file.set_len(self.end);
        cut.map_err(|e| Error::io("set the length of", &self.active.path, e))?;
        Ok(self.last)
    }

    pub(super) fn check_usable(&self) -> Result<()> {
        match &self.failed {
            Some(reason) => Err(Error::Poisoned(Arc::clone(reason))),
            None => Ok(()),
        }
    }

    pub(super) fn remember_failure(&mut self, outcome: Result<()>) -> Result<()> {
        if let Err(error) = &outcome {
            let source = std::error::Error::source(error);
            let reason = source.map_or_else(|| error.to_string(), |s| format!("{error}: {s}"));
            self.failed = Some(reason.into());
        }
        outcome
    }

    fn check_records<'a>(&self, records: impl Iterator<Item = RecordRef<'a>>) -> Result<()> {
        let mut last = self.last;
        for record in records {
            let size = record.payload.len();
            if size > MAX_PAYLOAD_BYTES {
                let (size, limit) = (size as u64, MAX_PAYLOAD_BYTES as u64);
                return Err(Error::LimitExceeded {
                    index: None,
                    what: Limit::BatchBytes,
                    size,
                    limit,
                });
            }
            if record.version <= last {
                let order = format!("version {} follows {last} in the log", record.version);
                return Err(Error::InvalidArgument(order.into()));
            }
            last = record.version;
        }
        Ok(())
    }

    fn append_checked<'a, T>(
        &mut self,
        records: impl Iterator<Item = (RecordRef<'a>, T)>,
        mut placed: impl FnMut(T, LogPlace),
    ) -> Result<()> {
        for (record, known_by) in records {
            if record.version > self.boundary {
                self.boundary = Version::MAX;
                self.rotate()?;
            }
            self.rotate_if_full(record_bytes(record.payload.len()))?;
            let offset = self.end + (self.group.len() + HEADER_BYTES) as u64;
            placed(known_by, LogPlace { segment: self.active.header.id, offset });
            if record.payload.len() >= LARGE_RECORD_BYTES {
                self.large_bytes += record.payload.len() as u64;
            }
            let header = Header {
                payload_len: record.payload.len() as u32,
                payload_crc: record.payload_crc,
                kind: Kind::Batch,
                version: record.version,
                durable_end: self.syncs.durable_end(),
            };
            if record.payload.len() < LARGE_RECORD_BYTES {
                self.gather(header, record.payload);
            } else {
                self.write_large(header, record.payload)?;
            }
            self.last = record.version;
            if self.group.len() >= PIECE_BYTES {
                self.write_group()?;
            }
        }
        if self.group.is_empty() { Ok(()) } else { self.write_group() }
    }

    fn gather(&mut self, header: Header, payload: &[u8]) {
        let place = self.next_place();
        self.group.push_record(header, place, payload);
    }

    /// Writes a record from where its payload is: a copy of it would cost more than the calls.
    fn write_large(&mut self, header: Header, payload: &[u8]) -> Result<()> {
        let place = self.next_place();
        self.group.push(&header.encode(place));
        let head = self.group.len() as u64;
        let OpenSegment { file, path, .. } = &self.active;
        let written = when_there_is_room(&self.segments, || {
            file.write_at(self.group.records(), self.end)?;
            file.write_at(payload, self.end + head)
        });
        written.map_err(|e| Error::io("write to", path, e))?;
        self.end += head + payload.len() as u64;
        self.group.begin(payload, self.end);
        self.group.push_padding();
        self.write_group()
    }

    /// Whether the segment has no records.
    pub(super) fn is_empty(&self) -> bool {
        self.end + self.group.len() as u64 == segment::HEADER_BYTES as u64
    }

    fn next_place(&self) -> Place {
        Place {
            segment: self.active.header.id,
            salt: self.active.header.salt,
            offset: self.end + self.group.len() as u64,
        }
    }

    /// Writes the gathered group, with a terminator behind it where an earlier life of the file might
    /// begin: past the page cache if the blocks were written before, so that a sync finds nothing left to
    /// write; else with zeros ahead, if that is not for nothing.
    fn write_group(&mut self) -> Result<()> {
        let len = self.group.len() as u64;
        let end_of_blocks = self.end + len + self.group.bytes_to_end_of_blocks() as u64;
        if self.segments.plan().zeros_ahead() && end_of_blocks <= self.active.prewritten {
            let from = self.end - self.end % BLOCK_BYTES as u64;
            let (file, blocks) = (&self.active.file, self.group.blocks());
            let written = when_there_is_room(&self.segments, || file.write_blocks_at(blocks, from));
            written.map_err(|e| Error::io("write to", &self.active.path, e))?;
        } else {
            self.write_growing(len)?;
        }
        self.end += len;
        self.group.written();
        self.segments.set_mostly_large(self.is_mostly_large());
        Ok(())
    }

    fn write_growing(&mut self, len: u64) -> Result<()> {
        let (file, end, records) = (&self.active.file, self.end, self.group.terminated());
        let written = when_there_is_room(&self.segments, || file.write_at(records, end));
        written.map_err(|e| Error::io("write to", &self.active.path, e))?;
        let end_written = self.end + len + TERMINATOR.len() as u64;
        if end_written > self.active.prewritten {
            self.active.prewritten = end_written;
            if !self.is_mostly_large() {
                self.go_ahead();
            }
        }
        Ok(())
    }

    /// Whether most of the segment is large records.
    pub(super) fn is_mostly_large(&self) -> bool {
        2 * self.large_bytes > self.end + self.group.len() as u64
    }

    /// Writes the seal behind what was gathered; it says of the records what they say of each other.
    pub(super) fn seal(&mut self) -> Result<()> {
        self.gather(Header::seal(self.last, self.syncs.durable_end()), &[]);
        self.write_group()
    }

    /// Makes everything durable, in the log's order.
    fn sync_active(&mut self) -> Result<()> {
        self.syncs.settle_all()?;
        if self.syncs.synced() < self.end {
            self.active.file.sync().map_err(|e| Error::io("sync", &self.active.path, e))?;
            self.syncs.synced_to(self.end);
        }
        Ok(())
    }
}
