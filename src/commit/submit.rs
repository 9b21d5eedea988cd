//! Steps 2 and 3 of a commit (see [`pipeline`](super::pipeline)): it is ordered and put into the memtable.
//!
//! Invariant: what the log may find no room for is refused before it has a version, when nothing is changed and no
//! other commit was checked against it.

use std::sync::Arc;

use arc_swap::Guard;

use super::apply;
use super::payload::Prepared;
use super::pipeline::{Pipeline, Record};
use super::reserve::KnownRoom;
use super::sequence::Ticket;
use crate::error::Result;
use crate::levels::View;
use crate::version::Version;

/// A commit that has a version and is queued for the log, and the view whose memtable is to have it.
type Ordered<'a> = (Ticket<'a>, Guard<Arc<View>>);

impl Pipeline {
    /// Submits a commit of what has its room anyway: it is small, or makes some. The caller holds the latches of
    /// every partition in the payload.
    pub(crate) fn submit(&self, prepared: &Prepared) -> Version {
        self.submit_noting(prepared, |_| ())
    }

    /// As [`submit`](Self::submit), of a commit that does if it `makes_room`, and else may have `known` room.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::Error::Busy): the log may not find room for it, and nothing was changed.
    pub(super) fn submit_if_room(
        &self,
        prepared: &Prepared,
        known: KnownRoom,
        makes_room: impl Fn() -> bool,
    ) -> Result<Version> {
        loop {
            if let Some(ordered) = self.try_order(prepared) {
                return Ok(self.insert(prepared, ordered, |_| ()));
            }
            match prepared.payload_len() {
                bytes if makes_room() => self.allow(bytes),
                bytes => self.find_room(bytes, known)?,
            }
        }
    }

    /// As [`submit`](Self::submit); the version is noted before anybody can publish the commit.
    fn submit_noting(&self, prepared: &Prepared, note: impl FnOnce(Version)) -> Version {
        loop {
            if let Some(ordered) = self.try_order(prepared) {
                return self.insert(prepared, ordered, note);
            }
            self.allow(prepared.payload_len());
        }
    }

    /// `None` if more would be under way to the log than is known to find room. Inlined: a call would move what it
    /// returns through memory, at a hundredth of a put.
    #[inline(always)]
    fn try_order(&self, prepared: &Prepared) -> Option<Ordered<'_>> {
        let Prepared { payload, crc, .. } = prepared;
        let large = self.options.large_value_bytes;
        self.sequencer.next(
            payload.len() as u64,
            self.clock.now(),
            |last| self.view_after(last),
            |version, view| Record {
                version,
                payload: payload.clone(),
                payload_crc: *crc,
                large: (payload.len() >= large).then(|| Arc::clone(&view.active)),
            },
        )
    }

    #[inline]
    fn insert(
        &self,
        prepared: &Prepared,
        (ticket, view): Ordered<'_>,
        note: impl FnOnce(Version),
    ) -> Version {
        let version = ticket.version;
        let applied = apply::apply(prepared, version, &view.active, self.options.large_value_bytes);
        note(version);
        debug_assert!(applied.is_ok(), "a payload built by this process decodes");
        // Else its group is refused, and the database read-only: none of it is to be acknowledged.
        if applied.is_ok() {
            ticket.applied();
        }
        version
    }

    /// As [`submit`](Self::submit), for a deletion of [low, high).
    pub(crate) fn submit_deletion(&self, prepared: &Prepared, low: &[u8], high: &[u8]) -> Version {
        self.submit_deletion_noting(prepared, low, high, |_| ())
    }

    /// The same; the version is noted before anybody can publish the commit.
    pub(crate) fn submit_deletion_noting(
        &self,
        prepared: &Prepared,
        low: &[u8],
        high: &[u8],
        note: impl FnOnce(Version),
    ) -> Version {
        let version = self.submit_noting(prepared, note);
        self.note_range_deletions([(low, high)].into_iter());
        version
    }
}
