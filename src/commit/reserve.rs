//! [`Reserve`]: a file that takes room only to give it up where the disk has none left.
//!
//! Invariant: while it is missing for want of room, writes are stopped but for those by which room is made. So
//! these have what it gave, and the log does not fail of a full disk: it would be read-only from then on, and
//! opening it again wants some room too. Commits that are under way to the log take no more than a part of it, unless
//! the disk said, when it was asked last, that it has room for all of them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::gate::Wanted;
use super::pipeline::Pipeline;
use crate::env::{Background, Disk, JobClass};
use crate::error::{Error, Result};
use crate::levels::{self, Admission};

/// Its name in the directory.
pub(super) const RESERVE_FILE: &str = "RESERVE";

/// What it takes: this part of the memory budget, within bounds. It is made once, in half a millisecond.
const BUDGET_PART: usize = 256;
const LEAST_BYTES: usize = 4 << 10;
const MOST_BYTES: usize = 1 << 20;
/// It is made where there is room for so many of it: else what is written next would want it at once.
const ROOM_FACTOR: usize = 2;
/// Commits of so much of it may be under way though the disk was not asked; the rest is for what the log writes
/// besides them.
const UNASKED_PART: usize = 2;
/// Between two tries to make it.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The file of one database.
#[derive(Debug)]
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bytes: usize,
}

/// Removes the file; whether there was one.
pub(super) fn give_up(disk: &dyn Disk, dir: &Path) -> bool {
    let is_given_up = disk.remove(&dir.join(RESERVE_FILE)).is_ok();
    if is_given_up {
        tracing::warn!(?dir, "the disk is full: what was in reserve for that is given up");
    }
    is_given_up
}

/// Bytes that take as many blocks on every file system, also on one that compresses.
fn incompressible(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let words = std::iter::repeat_with(|| {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            state ^= if left { state << by } else { state >> by };
        }
        state.to_le_bytes()
    });
    words.flatten().take(len).collect()
}

impl Reserve {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, memory_budget: usize) -> Self {
        let bytes = (memory_budget / BUDGET_PART).clamp(LEAST_BYTES, MOST_BYTES);
        Self { disk, dir: dir.to_owned(), bytes }
    }

    /// Bytes of commits that may be under way without asking the disk.
    pub(super) fn unasked_bytes(&self) -> u64 {
        (self.bytes / UNASKED_PART) as u64
    }

    /// Whether the disk has room for so many bytes, and for as many as are in reserve beside them: others write, too.
    fn disk_has(&self, bytes: u64) -> bool {
        let wanted = bytes.saturating_add(self.bytes as u64);
        self.disk.free_bytes(&self.dir).is_none_or(|free| free >= wanted)
    }

    /// How large a commit may be that the disk has room for beside what is under way; `None` where it does not say.
    fn room_beside(&self, under_way: u64) -> Option<u64> {
        let free = self.disk.free_bytes(&self.dir)?;
        let room = free.saturating_sub(under_way).saturating_sub(self.bytes as u64);
        Some(room.max(self.unasked_bytes()))
    }

    /// Makes it, unless it is there.
    fn make(&self) -> Result<()> {
        let path = self.dir.join(RESERVE_FILE);
        match self.disk.open(&path).and_then(|file| file.len()) {
            Ok(len) if len == self.bytes as u64 => return Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("open", &path, error));
            }
            _ => {}
        }
        let made = self.disk.create(&path).and_then(|file| {
            file.write_at(&incompressible(ROOM_FACTOR * self.bytes), 0)?;
            file.set_len(self.bytes as u64)
        });
        made.map_err(|error| {
            // The next try begins anew.
            let _ = self.disk.remove(&path);
            Error::io("write to", &path, error)
        })
    }
}

/// Up to how many bytes may ever have been queued for the log: the disk said that it has room for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownRoom(u64);

/// Payloads of commits, in bytes of all there ever were.
struct Passed {
    written: u64,
    queued: u64,
}

impl Passed {
    fn under_way(&self) -> u64 {
        self.queued.saturating_sub(self.written)
    }
}

impl Pipeline {
    /// Whether a write may go on, and if it is large, whether the disk has room for it. That may end before it is
    /// [submitted](Self::submit_if_room).
    pub(super) fn admit(&self, wanted: Wanted) -> Admission {
        if wanted.room as u64 > self.reserve.unasked_bytes() && !self.has_room(wanted.room) {
            return Admission::Blocked(levels::no_room());
        }
        self.tree.admit(wanted.bytes)
    }

    /// How large a commit may be at present, as far as the disk says.
    pub(crate) fn commit_room_bytes(&self) -> Option<u64> {
        self.reserve.room_beside(self.passed_bytes().under_way())
    }

    #[cold]
    fn has_room(&self, bytes: usize) -> bool {
        self.reserve.disk_has(self.passed_bytes().under_way() + bytes as u64)
    }

    /// What is known of the room for a commit of so many bytes, if it is large. To be asked before a latch is taken:
    /// a file system may take its time to say.
    #[inline]
    pub(super) fn known_room(&self, bytes: usize) -> KnownRoom {
        if bytes as u64 > self.reserve.unasked_bytes() {
            self.ask_for_room(bytes as u64)
        } else {
            KnownRoom(0)
        }
    }

    #[cold]
    fn ask_for_room(&self, bytes: u64) -> KnownRoom {
        let passed = self.passed_bytes();
        let has_room = self.reserve.disk_has(passed.under_way() + bytes);
        KnownRoom(if has_room { passed.queued + bytes + self.reserve.unasked_bytes() } else { 0 })
    }

    /// Has a commit of so many bytes be queued for the log, if that finds room for it. The disk is asked where others
    /// were queued since the room became known.
    ///
    /// # Errors
    /// [`Error::Busy`] if the disk has less than what is under way may take with it.
    #[cold]
    pub(super) fn find_room(&self, bytes: usize, known: KnownRoom) -> Result<()> {
        let unasked = self.reserve.unasked_bytes();
        let passed = self.passed_bytes();
        let under_way = passed.under_way() + bytes as u64;
        let queued = passed.queued + bytes as u64;
        if under_way <= unasked {
            self.sequencer.allow(passed.written + unasked);
        } else if queued <= known.0 {
            self.sequencer.allow(queued);
        } else if self.reserve.disk_has(under_way) {
            // So the next ones do not ask each by itself.
            self.sequencer.allow(queued + unasked);
        } else {
            return Err(Error::Busy { waited: Duration::ZERO, reason: levels::no_room() });
        }
        Ok(())
    }

    /// Has a commit of so many bytes be queued for the log in any case.
    #[cold]
    pub(super) fn allow(&self, bytes: usize) {
        self.sequencer.allow(self.sequencer.bytes() + bytes as u64);
    }

    fn passed_bytes(&self) -> Passed {
        // Read first: what is written by then is counted as queued, too.
        let written = self.counters.log_bytes.load(Ordering::Acquire);
        Passed { written, queued: self.sequencer.bytes() }
    }

    /// To be called where the log finds no room.
    pub(super) fn use_reserve(&self) {
        give_up(&*self.reserve.disk, &self.reserve.dir);
        self.tree.set_out_of_room(true);
        self.restore_reserve_later();
    }

    /// Makes the reserve, and has writes go on; tries again later where there is no room for it.
    pub(super) fn restore_reserve(&self) {
        match self.reserve.make() {
            Err(error) if error.is_full() => {
                self.tree.set_out_of_room(true);
                self.restore_reserve_later();
            }
            made => {
                if let Err(error) = made {
                    tracing::warn!(cause = %error.chain(), "there is nothing in reserve for a full disk");
                }
                self.tree.set_out_of_room(false);
            }
        }
    }

    fn restore_reserve_later(&self) {
        self.once_in_background(
            |this| &this.restore_queued,
            JobClass::Segment,
            AGAIN_AFTER,
            Self::restore_reserve,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_reserve_takes_its_room_where_files_are_compressed() {
        let bytes = incompressible(1 << 20);
        assert_eq!(bytes.len(), 1 << 20);
        assert!(zstd::encode_all(&*bytes, 19).unwrap().len() >= bytes.len());
    }
}
