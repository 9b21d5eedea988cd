//! The log: every commit, in version order, before it is in a table file.
//!
//! One stream of records over numbered segment files. Commits append groups of records and sync
//! them ([`Writer`]); opening a database replays what the table files do not hold ([`replay`](replay()));
//! segments whose records all are in table files are used again ([`Segments`]), or kept as they are
//! for the large values in them, to which table files refer.
//!
//! Invariants:
//! * A record that a returned sync covers is replayed after any crash, or replay fails with its
//!   file and offset; what is replayed is a prefix of what was appended.
//! * A segment holds no record before its predecessor is sealed, and is not synced before its
//!   predecessor is, or needs to be no more, as it was flushed. Commits do not wait for that: so the
//!   tail that a crash tears off may begin in one segment and go on in the next.
//! * Damage is told from a torn tail by proof. Each record says up to where the segment was
//!   synced when it was written, or that not even its predecessors were known to be: a bad record
//!   below such an offset, or in a segment before, was synced, so it is damage; behind all of them,
//!   it is what a crash left of a write that nobody was told is durable.
//!
//! The room calls env, and the ground floor; what a payload means belongs to its callers.

pub(crate) mod bench;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod group;
mod harden;
mod plan;
mod prepare;
mod record;
mod replay;
mod room;
mod rotation;
mod salvage;
mod scan;
mod segment;
mod segments;
mod spares;
mod syncs;
mod walk;
mod writeback;
mod writer;
mod zeros;

pub(crate) use plan::{Ahead, SegmentPlan};
pub(crate) use record::{MAX_PAYLOAD_BYTES, payload_crc};
pub(crate) use replay::{Extent, Purpose, Reach, Replayed, replay};
pub(crate) use segment::{SealedSegment, SegmentId, begin_log, is_ours};
pub(crate) use segments::Segments;
pub(crate) use walk::{ReplayedRecord, Visit};
pub(crate) use writeback::Writeback;
pub(crate) use writer::{RecordRef, Writer};

#[cfg(test)]
mod tests;
