//! What a process used while something ran: time, processor, device writes, memory.
//!
//! The counters are of the whole process, background threads included, which is why each run has
//! a process of its own. Linux only.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What was used from a start on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub cpu_seconds: f64,
    /// Bytes that the process caused to be written to the device, or to the page cache on the way.
    pub written_bytes: u64,
    /// Most memory it had resident, mapped files included.
    pub peak_bytes: u64,
}

pub struct Meter {
    start: Instant,
    cpu_seconds: f64,
    written_bytes: u64,
}

impl Meter {
    pub fn start() -> Result<Self> {
        // Peak memory counts from here, not from the loading before it.
        fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
        let written_bytes = written_bytes()?;
        Ok(Self { start: Instant::now(), cpu_seconds: cpu_seconds(), written_bytes })
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn stop(&self) -> Result<Usage> {
        Ok(Usage {
            cpu_seconds: cpu_seconds() - self.cpu_seconds,
            written_bytes: written_bytes()? - self.written_bytes,
            peak_bytes: field("/proc/self/status", "VmHWM:")? * 1024,
        })
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn written_bytes() -> Result<u64> {
    field("/proc/self/io", "write_bytes:")
}

fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.with_context(|| format!("no {name} in {file}"))?.parse().context("not a number")
}

/// Bytes that a directory's files take on the device.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes +=
            if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_meter_sees_the_writes_and_the_processor_time_of_its_process() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on disk");
        let meter = Meter::start().expect("it starts");
        let mut file = fs::File::create(dir.path().join("file")).expect("a file");
        let noise: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(n) >> 7) as u8).collect();
        file.write_all(&noise).expect("a write");
        file.sync_all().expect("a sync");
        let usage = meter.stop().expect("it stops");
        assert!(usage.written_bytes >= 1 << 20, "{usage:?}");
        assert!(usage.cpu_seconds > 0.0 && usage.peak_bytes > 1 << 20, "{usage:?}");
        let disk = disk_bytes(dir.path()).expect("its size");
        assert!((1 << 20..2 << 20).contains(&disk), "{disk} bytes");
    }
}
