//! [`walk`]: reads one segment from its header to where its records end, and says what is there.
//!
//! A segment ends at its seal, or at its first bytes that are no record: torn, unless a record behind
//! them, or one of a later segment, or a table file, says that they were synced. Then they are damage.

use std::path::Path;

use super::record::{ALIGNMENT, Header, NOTHING_DURABLE};
use super::scan::{Item, Scan};
use super::segment::{self, SegmentId};
use crate::error::{Corruption, Damage, Result};
use crate::options::Recovery;
use crate::version::Version;

/// What should be where a segment has neither, and a later one proves that it had.
pub(super) const SYNCED_EXPECTED: &str =
    "a whole record or the seal, as a later segment says that this one was synced";

/// A record as it is replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayedRecord<'a> {
    pub(crate) version: Version,
    pub(crate) segment: SegmentId,
    pub(crate) payload: &'a [u8],
    /// Where the payload is, to report what is wrong with it.
    pub(crate) file: &'a Path,
    pub(crate) offset: u64,
}

/// Receives the records of a replay.
pub(crate) type Visit<'a> = dyn FnMut(ReplayedRecord<'_>) -> Result<()> + 'a;

/// What was read of one segment.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) id: SegmentId,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Version of the last record here or before.
    pub(super) last: Version,
    /// Where the records end.
    pub(super) end: u64,
    /// What follows them.
    pub(super) ending: Ending,
    /// Everything below was synced, as a record says, and so was every segment before.
    pub(super) proven: u64,
    /// What was known before it was read.
    pub(super) proof: Proof,
    /// What was skipped in salvage.
    pub(super) damages: Vec<Corruption>,
    /// Whole records among it, whose payloads are none.
    pub(super) refused: Vec<Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Sealed,
    Clean,
    /// Bytes that are no record, up to that many.
    Torn(&'static str, u64),
}

/// Where it may be said that all of a segment was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Only in its own records, each of which says it of what is below an offset.
    Own,
    /// In a later segment: whatever is bad in it is damage.
    Later,
    /// In table files that refer to it for their values: the same.
    Referred,
    /// Perhaps in a part of it that cannot be read: whatever is bad in it, with a record behind it, is damage.
    Hidden,
}

impl Proof {
    /// Whether what stands at that place was synced, or may have been.
    fn covers(self, scan: &mut Scan, at: u64) -> Result<bool> {
        let proves = |header: &Header| self == Self::Hidden || header.durable_end > at;
        let is_known = matches!(self, Self::Later | Self::Referred);
        Ok(is_known || scan.find(at, proves)?.is_some())
    }
}

impl Walk {
    /// A segment of which nothing could be read.
    pub(super) fn unread(id: SegmentId, last: Version) -> Self {
        let end = segment::HEADER_BYTES as u64;
        let (records, bytes, damages, refused) = (0, 0, Vec::new(), Vec::new());
        let (ending, proven, proof) = (Ending::Sealed, NOTHING_DURABLE, Proof::Own);
        Self { id, records, bytes, last, end, ending, proven, proof, damages, refused }
    }

    /// Whether anything was ever written behind the header.
    pub(super) fn is_written(&self) -> bool {
        self.records > 0 || self.ending != Ending::Clean
    }
}

/// Reads one segment: hands its records to `visit`, all later than `last`.
pub(super) fn walk(
    scan: &mut Scan,
    mode: Recovery,
    last: Version,
    proof: Proof,
    visit: &mut Visit<'_>,
) -> Result<Walk> {
    let (path, segment) = (scan.path.clone(), scan.header.id);
    let mut walk = Walk { proof, ..Walk::unread(segment, last.max(scan.header.after)) };
    loop {
        let at = walk.end;
        let bad = match scan.read(at)? {
            Item::End => {
                if !proof.covers(scan, at)? {
                    walk.ending = Ending::Clean;
                    return Ok(walk);
                }
                "zeros"
            }
            Item::Seal { version, .. } if version < walk.last => "a seal before its records",
            Item::Seal { version, durable_end } => {
                walk.last = version;
                walk.proven = walk.proven.max(durable_end);
                walk.ending = Ending::Sealed;
                return Ok(walk);
            }
            Item::Batch { version, .. } if version <= walk.last => "a record out of order",
            Item::Batch { version, durable_end, payload, next } => {
                let offset = next - payload.len().next_multiple_of(ALIGNMENT) as u64;
                let record = ReplayedRecord { version, segment, payload, file: &path, offset };
                if let Err(error) = visit(record) {
                    walk.damages.push(mode.tolerate(error)?);
                    walk.refused.push(version);
                }
                walk.records += 1;
                walk.bytes += next - at;
                walk.last = version;
                walk.end = next;
                walk.proven = walk.proven.max(durable_end);
                continue;
            }
            Item::Bad(found) => {
                if !proof.covers(scan, at)? {
                    walk.ending = Ending::Torn(found, scan.extent(at)?);
                    return Ok(walk);
                }
                found
            }
        };
        let expected = match proof {
            Proof::Own | Proof::Hidden => "a whole record, the next in order",
            Proof::Later => SYNCED_EXPECTED,
            Proof::Referred => "a whole record or the seal, as table files refer to this segment",
        };
        let damage = Damage::new(at, expected, bad);
        walk.damages.push(mode.tolerate(damage.in_file(&path, 0))?);
        match scan.find(at + ALIGNMENT as u64, |header| header.version >= walk.last)? {
            Some(next) => walk.end = next,
            None => return Ok(walk),
        }
    }
}
