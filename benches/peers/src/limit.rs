//! A limit on the memory of processes, their page cache included: a control group of Linux, version 1
//! or 2. Making one takes root, or a group that was delegated.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};

const GROUPS: &str = "/sys/fs/cgroup";
/// What says how much memory a group may have, by version.
const LIMIT_FILES: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];

/// A control group that has at most so much memory, until dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
}

impl MemoryLimit {
    pub fn new(bytes: u64) -> Result<Self> {
        let mut refused = Vec::new();
        for parent in parents()? {
            match Self::within(&parent, bytes) {
                Ok(limit) => return Ok(limit),
                Err(error) => refused.push(format!("{error:#}")),
            }
        }
        bail!("no control group with a memory limit can be made: {}", refused.join("; "))
    }

    fn within(parent: &Path, bytes: u64) -> Result<Self> {
        let group = parent.join(format!("tablestone-peers-{}", process::id()));
        fs::create_dir(&group).with_context(|| format!("creating {}", group.display()))?;
        let limit = Self { group };
        let mut files = LIMIT_FILES.iter().map(|file| limit.group.join(file));
        let file = files.find(|file| file.exists());
        let file =
            file.with_context(|| format!("{} has no memory controller", parent.display()))?;
        fs::write(&file, bytes.to_string())
            .with_context(|| format!("writing {}", file.display()))?;
        Ok(limit)
    }

    pub fn group(&self) -> &Path {
        &self.group
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.group) {
            eprintln!("{} is left behind: {error}", self.group.display());
        }
    }
}

/// Where this process may make groups, the nearest first.
fn parents() -> Result<Vec<PathBuf>> {
    let own = fs::read_to_string("/proc/self/cgroup").context("reading the own control groups")?;
    let mut parents = Vec::new();
    for line in own.lines() {
        let root = match line.split(':').nth(1) {
            Some("memory") => Path::new(GROUPS).join("memory"),
            Some("") => PathBuf::from(GROUPS),
            _ => continue,
        };
        let path = line.splitn(3, ':').nth(2).unwrap_or_default();
        parents.push(root.join(path.trim_start_matches('/')));
        parents.push(root);
    }
    Ok(parents)
}

/// Has a group hold this process, and all that it brings to memory from now on.
pub fn join(group: &Path) -> Result<()> {
    let members = group.join("cgroup.procs");
    fs::write(&members, process::id().to_string())
        .with_context(|| format!("writing {}", members.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where groups can be made, a process that joins one stays below its limit by giving up pages of
    /// files, and the group goes with the limit.
    #[test]
    fn a_limit_holds_the_page_cache_of_who_joins() {
        const LIMIT: u64 = 16 << 20;
        let limit = match MemoryLimit::new(LIMIT) {
            Ok(limit) => limit,
            Err(error) => return eprintln!("not tested: {error:#}"),
        };
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on disk");
        let (group, file) = (limit.group().to_owned(), dir.path().join("file"));
        // Synced as it is written: a group full of what a slow device has not taken yet has its processes killed.
        let script = format!(
            "echo $$ > {0}/cgroup.procs && dd if=/dev/zero of={1} bs=1M count=64 oflag=dsync && cat {1} | wc -c \
             && cat {0}/memory.usage_in_bytes {0}/memory.current 2> /dev/null",
            group.display(),
            file.display()
        );
        let shell = process::Command::new("sh").args(["-c", &script]).output().expect("it runs");
        let said = String::from_utf8_lossy(&shell.stdout);
        let numbers: Vec<u64> = said.lines().map(|line| line.parse().expect("a number")).collect();
        let [read, used] = numbers[..] else { panic!("{said}") };
        assert_eq!(read, 64 << 20);
        assert!((1..=LIMIT).contains(&used), "{used}");
        drop(limit);
        assert!(!group.exists());
    }
}
