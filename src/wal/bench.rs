//! The log as a benchmark of this package sees it.

use std::path::Path;
use std::sync::Arc;

use super::{
    Ahead, Extent, Purpose, RecordRef, SegmentId, SegmentPlan, Writer, payload_crc, replay,
};
use crate::env::{Env, RealEnv};
use crate::error::Result;
use crate::options::Recovery;
use crate::version::Version;

const BYTES: u64 = 64 << 20;

/// A log that is written to.
#[derive(Debug)]
pub struct BenchLog {
    writer: Writer,
    last: u64,
}

impl BenchLog {
    /// Begins a log in an empty directory, of which nobody waits for syncs.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn create(dir: &Path) -> Result<Self> {
        Self::planned(dir, SegmentPlan { bytes: BYTES, ahead: Ahead::Room, left_to_system: true })
    }

    /// The same, of which each group is synced.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn create_synced(dir: &Path) -> Result<Self> {
        Self::planned(dir, SegmentPlan { bytes: BYTES, ahead: Ahead::Zeros, left_to_system: false })
    }

    fn planned(dir: &Path, plan: SegmentPlan) -> Result<Self> {
        let disk = RealEnv::new().disk();
        let first = SegmentId::FIRST;
        let writer = Writer::create(disk, dir, first, Version::ZERO, plan, Vec::new())?;
        Ok(Self { writer, last: 0 })
    }

    /// Appends so many records of this payload as one group, checksums included.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn append(&mut self, records: u64, payload: &[u8]) -> Result<()> {
        let payload_crc = payload_crc(payload);
        let first = self.last + 1;
        self.last += records;
        let version = Version::from_ticks;
        self.writer.append((first..=self.last).map(|ticks| RecordRef {
            version: version(ticks),
            payload,
            payload_crc,
        }))
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn sync(&mut self) -> Result<()> {
        self.writer.sync()
    }

    /// Seals the log.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn close(mut self) -> Result<()> {
        self.writer.close().map(drop)
    }

    /// Reads and checks a closed log; how many bytes of payload it has.
    ///
    /// # Errors
    /// Damage; what the file system refuses.
    pub fn replay(dir: &Path) -> Result<usize> {
        let disk = RealEnv::new().disk();
        let mut bytes = 0;
        let extent = Extent::since(SegmentId::NONE);
        replay(&Arc::clone(&disk), dir, extent, Recovery::Strict, Purpose::Write, &mut |record| {
            bytes += record.payload.len();
            Ok(())
        })?;
        Ok(bytes)
    }
}
