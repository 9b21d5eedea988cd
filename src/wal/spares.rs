//! [`Spares`]: files of segments that the log needs no longer, which become new ones.
//!
//! Where commits are synced they are worth their blocks, which a sync then does not have to allocate;
//! where the log is left to the operating system, the pages that it has of them in memory, mapped: those
//! stay there with their files.
//!
//! Invariant: a file is here once it has the name of a spare, and nobody else writes to it. What an earlier life of the
//! log wrote is read through before it is used again: a block of it that the device fails to read would be behind
//! later records, where the next opening looks for more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::{Disk, DiskFile, ReadAround};

/// A file that is kept, open where its pages are what it is kept for.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) path: PathBuf,
    pub(super) file: Option<Arc<dyn DiskFile>>,
    /// It was written by an earlier life, and not read through since.
    pub(super) is_old: bool,
}

/// The spares of a log, so many at most.
#[derive(Debug)]
pub(super) struct Spares {
    most: usize,
    here: Vec<Spare>,
    /// How many segments are being renamed to spares.
    to_come: usize,
}

impl Spares {
    pub(super) fn new(most: usize) -> Self {
        Self { most, here: Vec::new(), to_come: 0 }
    }

    /// Counts another spare that is to [come](Self::came), if there is room for it.
    pub(super) fn expect(&mut self) -> bool {
        let has_room = self.here.len() + self.to_come < self.most;
        self.to_come += usize::from(has_room);
        has_room
    }

    /// One that was expected is here, or could not be had.
    pub(super) fn came(&mut self, spare: Option<Spare>) {
        self.to_come -= 1;
        self.here.extend(spare);
    }

    /// One to be used again.
    pub(super) fn take(&mut self) -> Option<Spare> {
        let at = self.here.iter().rposition(|spare| !spare.is_old)?;
        Some(self.here.swap_remove(at))
    }

    /// One to be read through, if there is none to be used; it is expected back.
    pub(super) fn take_old(&mut self) -> Option<Spare> {
        let old = if self.here.iter().all(|spare| spare.is_old) { self.here.pop() } else { None };
        self.to_come += usize::from(old.is_some());
        old
    }

    pub(super) fn take_all(&mut self) -> Vec<Spare> {
        std::mem::take(&mut self.here)
    }
}

/// Whether all of a file can be read.
pub(super) fn is_readable(disk: &Arc<dyn Disk>, path: &Path) -> bool {
    let around = ReadAround::new(Arc::clone(disk));
    around.survey(path).is_ok() && !around.has_gaps(path)
}
