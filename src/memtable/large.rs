//! [`LargeRows`]: where the log has the large values of a memtable, so that a flush need not write
//! them again.
//!
//! A commit notes its large rows when they are inserted, each with its place in the commit's payload;
//! whoever writes the log adds where the payload is. Both have happened by the time the commit is
//! published. A row without a place is flushed with its value.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::reference::LogPlace;
use crate::version::Version;

/// A large value in a memtable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LargeRow {
    pub(crate) key: Box<[u8]>,
    /// Where the value begins in the payload of its commit.
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// The value's checksum, if it is known.
    pub(crate) crc: Option<u32>,
}

/// The large rows of one commit.
#[derive(Debug, Default)]
struct LargeCommit {
    payload: Option<LogPlace>,
    rows: Vec<LargeRow>,
}

/// The large rows of a memtable, by commit.
#[derive(Debug, Default)]
pub(super) struct LargeRows {
    commits: Mutex<BTreeMap<Version, LargeCommit>>,
    bytes: AtomicU64,
}

impl LargeRows {
    pub(super) fn add(&self, version: Version, row: LargeRow) {
        self.bytes.fetch_add(row.len as u64, Ordering::Relaxed);
        self.commits.lock().entry(version).or_default().rows.push(row);
    }

    /// Bytes of all large values.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Says where the payload of a commit is; nothing is kept for one without large rows.
    pub(super) fn place(&self, version: Version, payload: LogPlace) {
        if let Some(commit) = self.commits.lock().get_mut(&version) {
            commit.payload = Some(payload);
        }
    }

    /// Shows each large row whose place is known: its version, and where its value begins.
    pub(super) fn each_placed(&self, mut visit: impl FnMut(&LargeRow, Version, LogPlace)) {
        for (version, commit) in &*self.commits.lock() {
            let Some(LogPlace { segment, offset }) = commit.payload else { continue };
            for row in &commit.rows {
                let offset = offset + row.offset as u64;
                visit(row, *version, LogPlace { segment, offset });
            }
        }
    }

    pub(super) fn forget_places(&self) {
        self.commits.lock().values_mut().for_each(|commit| commit.payload = None);
    }
}
