//! The floor: what the machine itself does, beside which an engine's figures mean something.
//!
//! A durable write cannot be faster than a sync, a load than the device, a scan than a copy of
//! memory, a read beyond the caches than the page cache, an answer from another thread than a
//! hand-off. Taken before and after a comparison: what differs much was not the engines.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rand::{RngExt, SeedableRng};

use crate::workload::Rng;

const BLOCK: usize = 4 << 10;
/// Bytes of the file that is synced and read: pages that are written and in the page cache.
const FILE: u64 = 64 << 20;
/// Larger than any processor's last cache.
const COPY: usize = 128 << 20;

/// Rates of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    pub syncs_a_second: f64,
    pub written_mb_a_second: f64,
    pub copied_mb_a_second: f64,
    pub cached_reads_a_second: f64,
    pub handoffs_a_second: f64,
}

impl Floor {
    /// Names, units and values, in the order of the report.
    pub fn rows(&self) -> [(&'static str, f64); 5] {
        [
            ("fdatasync of a 4 KiB block written before, /s", self.syncs_a_second),
            ("sequential write with a sync at the end, MB/s", self.written_mb_a_second),
            ("memcpy of 128 MiB, MB/s", self.copied_mb_a_second),
            ("random read of 4 KiB from the page cache, /s", self.cached_reads_a_second),
            ("hand-off to another thread and back, /s", self.handoffs_a_second),
        ]
    }
}

/// Measures each rate for about so many seconds, in a directory on the device in question.
pub fn measure(dir: &Path, seconds: f64) -> Result<Floor> {
    let path = dir.join("floor");
    let (file, written_mb_a_second) = write(&path)?;
    let mut rng = Rng::seed_from_u64(0);
    let mut block = [7; BLOCK];
    let mut offset = || rng.random_range(0..FILE / BLOCK as u64) * BLOCK as u64;
    let syncs_a_second = rate(seconds, || {
        file.write_all_at(&block, offset())?;
        Ok(file.sync_data()?)
    })?;
    let cached_reads_a_second = rate(seconds, || Ok(file.read_exact_at(&mut block, offset())?))?;
    std::fs::remove_file(path)?;
    let (from, mut to) = (vec![1_u8; COPY], vec![0_u8; COPY]);
    let copies = rate(seconds, || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        Ok(())
    })?;
    let copied_mb_a_second = copies * COPY as f64 / 1e6;
    let handoffs_a_second = handoffs(seconds)?;
    Ok(Floor {
        syncs_a_second,
        written_mb_a_second,
        copied_mb_a_second,
        cached_reads_a_second,
        handoffs_a_second,
    })
}

/// Writes the file once, which also makes its blocks allocated and cached.
fn write(path: &Path) -> Result<(File, f64)> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    let chunk = vec![5; 1 << 20];
    let begun = Instant::now();
    for offset in (0..FILE).step_by(chunk.len()) {
        file.write_all_at(&chunk, offset)?;
    }
    file.sync_all()?;
    Ok((file, FILE as f64 / 1e6 / begun.elapsed().as_secs_f64()))
}

/// How often a second something can be done.
fn rate(seconds: f64, mut action: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begun, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut times = 0_u64;
    while begun.elapsed() < limit {
        action()?;
        times += 1;
    }
    Ok(times as f64 / begun.elapsed().as_secs_f64())
}

/// Two threads that wake each other.
fn handoffs(seconds: f64) -> Result<f64> {
    let (ask, asked) = mpsc::sync_channel::<()>(0);
    let (answer, answered) = mpsc::sync_channel::<()>(0);
    thread::scope(|scope| {
        scope.spawn(move || while asked.recv().is_ok() && answer.send(()).is_ok() {});
        let rate = rate(seconds, || {
            ask.send(())?;
            Ok(answered.recv()?)
        });
        drop(ask);
        rate
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_of_the_floor_is_measured() {
        let dir = tempfile::tempdir().expect("a directory");
        let floor = measure(dir.path(), 0.02).expect("a floor");
        assert!(floor.rows().iter().all(|(_, rate)| rate.is_finite() && *rate > 0.0), "{floor:?}");
        assert_eq!(dir.path().read_dir().expect("it can be listed").count(), 0);
    }
}
