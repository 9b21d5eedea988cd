//! [`SimEnv`]: a simulated machine for tests of crashes, faults, time and background jobs.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Clock, Disk, Env, Jobs};
use crate::version::Version;

/// A simulated machine.
#[derive(Clone, Debug)]
pub struct SimEnv {}

/// What a crash does to what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashStyle {
    /// All of it is lost.
    LoseUnsynced,
    /// All of it happened to reach the disk.
    KeepAll,
    /// A random part of it reached the disk, torn at sectors.
    Torn,
}

/// An operation of the simulated disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Creating a file.
    Create,
    /// Opening a file.
    Open,
    /// Reading or mapping a file.
    Read,
    /// Writing to a file.
    Write,
    /// Setting a file's length.
    SetLen,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
}

/// An error to inject.
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
    /// How many fail; then the fault is over.
    pub times: u64,
}

#[allow(clippy::unimplemented, clippy::missing_errors_doc, missing_docs, unused_variables)]
impl SimEnv {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        unimplemented!()
    }
    pub fn crash(&self, style: CrashStyle) {
        unimplemented!()
    }
    pub fn crash_after(&self, operations: u64) {
        unimplemented!()
    }
    #[must_use]
    pub fn operations(&self) -> u64 {
        unimplemented!()
    }
    pub fn fail(&self, fault: Fault) {
        unimplemented!()
    }
    pub fn clear_faults(&self) {
        unimplemented!()
    }
    pub fn set_now(&self, now: Version) {
        unimplemented!()
    }
    pub fn advance(&self, by: Duration) {
        unimplemented!()
    }
    #[must_use]
    pub fn step(&self) -> bool {
        unimplemented!()
    }
    pub fn run_all(&self) -> usize {
        unimplemented!()
    }
    pub fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        unimplemented!()
    }
    pub fn write_file(&self, path: &Path, bytes: &[u8]) {
        unimplemented!()
    }
    pub fn flip(&self, path: &Path, offset: u64) -> io::Result<()> {
        unimplemented!()
    }
    #[must_use]
    pub fn list(&self, dir: &Path) -> Vec<String> {
        unimplemented!()
    }
}

#[allow(clippy::unimplemented)]
impl Env for SimEnv {
    fn disk(&self) -> Arc<dyn Disk> {
        unimplemented!()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        unimplemented!()
    }
    fn start_jobs(&self, _: usize) -> Arc<dyn Jobs> {
        unimplemented!()
    }
}
