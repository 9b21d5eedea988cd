//! [`Power`]: which operations of the simulated disk fail, by a power cut or an injected fault.

use std::io;
use std::path::Path;

/// An operation of the simulated disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Creating a file.
    Create,
    /// Opening a file.
    Open,
    /// Reading a file, its length, or mapping it.
    Read,
    /// Writing to a file.
    Write,
    /// Setting a file's length.
    SetLen,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Renaming a file; its path is either name.
    Rename,
    /// Giving a file a second name; its path is either name.
    Share,
    /// Removing a file.
    Remove,
    /// Listing a directory.
    List,
    /// Locking a file.
    Lock,
}

impl Operation {
    /// Whether it counts as an operation that a power cut can follow.
    const fn changes_the_disk(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::List | Self::Lock)
    }
}

/// An error to inject into operations of the simulated disk.
///
/// ```
/// use std::io::ErrorKind;
/// use tablestone::env::{Fault, Operation, SimEnv};
///
/// let env = SimEnv::new(1);
/// // The disk is full for the next two writes to table files.
/// env.fail(Fault { times: 2, ..Fault::new(Operation::Write, ".sst", ErrorKind::StorageFull) });
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which operation fails.
    pub on: Operation,
    /// Only on paths that contain this.
    pub path_contains: String,
    /// With which error.
    pub kind: io::ErrorKind,
    /// How many such operations succeed before.
    pub after: u64,
    /// How many fail then; after those the fault is over.
    pub times: u64,
}

impl Fault {
    /// A fault that holds from now on, until [`clear_faults`](super::SimEnv::clear_faults).
    #[must_use]
    pub fn new(on: Operation, path_contains: impl Into<String>, kind: io::ErrorKind) -> Self {
        Self { on, path_contains: path_contains.into(), kind, after: 0, times: u64::MAX }
    }
}

/// Counts operations and decides which fail.
#[derive(Debug, Default)]
pub(super) struct Power {
    operations: u64,
    /// Operations left before the power goes.
    left: Option<u64>,
    faults: Vec<Fault>,
}

impl Power {
    pub(super) const fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) const fn cut_after(&mut self, operations: u64) {
        self.left = Some(operations);
    }

    pub(super) const fn turn_on(&mut self) {
        self.left = None;
    }

    pub(super) fn add_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Counts an operation; an error if the power is off by then.
    pub(super) fn spend(&mut self, operation: Operation) -> io::Result<()> {
        if self.left == Some(0) {
            return Err(io::Error::other("the simulated machine has no power"));
        }
        if operation.changes_the_disk() {
            self.operations += 1;
            self.left = self.left.map(|left| left - 1);
        }
        Ok(())
    }

    /// The injected error for an operation, if there is one.
    pub(super) fn fault(&mut self, operation: Operation, paths: &[&Path]) -> io::Result<()> {
        for fault in &mut self.faults {
            let hit = |path: &&Path| path.to_string_lossy().contains(&fault.path_contains);
            if fault.on != operation || !paths.iter().any(hit) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times > 0 {
                fault.times = fault.times.saturating_sub(u64::from(fault.times != u64::MAX));
                return Err(io::Error::new(fault.kind, "injected fault"));
            }
        }
        Ok(())
    }
}
