//! What a process used while something ran: time, processor, device writes, memory.
//!
//! The counters are of the whole process, background threads included, which is why each run has
//! a process of its own. Linux only.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What was used from a start on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub cpu_seconds: f64,
    /// Bytes that the process caused to be written to the device, or to the page cache on the way, but for
    /// what it removed from there first.
    pub written_bytes: u64,
    /// Bytes that it had read from the device.
    #[serde(default)]
    pub read_bytes: u64,
    /// Most memory it had resident, mapped files included.
    pub peak_bytes: u64,
}

pub struct Meter {
    start: Instant,
    cpu_seconds: f64,
    written_bytes: u64,
    read_bytes: u64,
}

impl Meter {
    pub fn start() -> Result<Self> {
        // Peak memory counts from here, not from the loading before it.
        fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
        Ok(Self {
            written_bytes: written_bytes()?,
            read_bytes: read_bytes()?,
            cpu_seconds: cpu_seconds(),
            start: Instant::now(),
        })
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn stop(&self) -> Result<Usage> {
        Ok(Usage {
            cpu_seconds: cpu_seconds() - self.cpu_seconds,
            written_bytes: written_bytes()?.saturating_sub(self.written_bytes),
            read_bytes: read_bytes()? - self.read_bytes,
            peak_bytes: field("/proc/self/status", "VmHWM:")? * 1024,
        })
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn written_bytes() -> Result<u64> {
    let cancelled = field("/proc/self/io", "cancelled_write_bytes:")?;
    Ok(field("/proc/self/io", "write_bytes:")?.saturating_sub(cancelled))
}

fn read_bytes() -> Result<u64> {
    field("/proc/self/io", "read_bytes:")
}

fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.with_context(|| format!("no {name} in {file}"))?.parse().context("not a number")
}

/// Bytes that a directory's files take on the device; files that are removed meanwhile take none.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path())?,
            Ok(metadata) => metadata.blocks() * 512,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(bytes)
}

/// Drops a directory's files from the page cache; no process may have them mapped.
pub fn evict(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            evict(&path)?;
        } else {
            let file = fs::File::open(&path)?;
            // What is not yet written cannot be dropped.
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)
                .with_context(|| format!("cannot evict {}", path.display()))?;
        }
    }
    Ok(())
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

    #[test]
    fn what_was_evicted_is_read_from_the_device() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on disk");
        let (inner, path) = (dir.path().join("inner"), dir.path().join("inner/file"));
        fs::create_dir(&inner).expect("a directory");
        fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let read = || {
            let meter = Meter::start().expect("it starts");
            fs::read(&path).expect("it is read");
            meter.stop().expect("it stops").read_bytes
        };
        assert_eq!(read(), 0, "it is in the page cache");
        evict(dir.path()).expect("it is evicted");
        assert!(read() >= 1 << 20);
    }
}
