//! How much memory a process may have, with the pages of files that it reads.
//!
//! Invariant: what is told is never more than the machine has. What cannot be found out is no limit.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::system::sysinfo;

/// Where control groups are, by the name of their controller; the second version has one tree for all.
const GROUPS: [(&str, &str, &str); 2] = [
    ("", "/sys/fs/cgroup", "memory.max"),
    ("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// The least of what the machine has and what the process's control groups may have.
pub(super) fn limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups =
        files(&own).into_iter().filter_map(|file| number(&fs::read_to_string(file).ok()?));
    of_groups.chain(machine(Path::new("/proc/meminfo"))).min()
}

/// What the machine has. Its file is hidden from some processes (systemd's `ProcSubset=pid`).
fn machine(meminfo: &Path) -> Option<u64> {
    let told = fs::read_to_string(meminfo).ok().and_then(|told| total(&told));
    told.or_else(|| {
        let told = sysinfo();
        Some((told.totalram as u64).saturating_mul(u64::from(told.mem_unit)))
    })
}

/// What says how much each group may have in which the process is: its own and those around it, as the text
/// of `/proc/self/cgroup` names them. In a container some of these paths are those of the host, and not there;
/// the outermost is.
fn files(own: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let found = GROUPS.iter().find(|(name, ..)| controllers.split(',').any(|c| c == *name));
        let Some((_, root, file)) = found else { continue };
        let group = Path::new(path.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| Path::new(root).join(group).join(file)));
    }
    files
}

/// A limit, where there is one: `max` is none.
fn number(told: &str) -> Option<u64> {
    told.trim().parse().ok()
}

/// The total of `/proc/meminfo`.
fn total(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(number(line.trim_end().strip_suffix("kB")?)?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_and_all_around_it_are_asked() {
        let names = |own: &str| -> Vec<String> {
            files(own).iter().map(|file| file.display().to_string()).collect()
        };
        let second = names("0::/system.slice/tablestone.service\n");
        assert_eq!(
            second,
            [
                "/sys/fs/cgroup/system.slice/tablestone.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        let first = names("5:cpu,cpuacct:/a\n4:memory:/docker/1:2\n1:name=systemd:/b\n");
        assert_eq!(
            first,
            [
                "/sys/fs/cgroup/memory/docker/1:2/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        );
        assert!(names("").is_empty() && names("memory").is_empty() && names("4:cpu:/").is_empty());
    }

    #[test]
    fn what_is_no_number_is_no_limit() {
        assert_eq!(
            (number("536870912\n"), number("max\n"), number("")),
            (Some(512 << 20), None, None)
        );
        let told = "MemFree:  17 kB\nMemTotal:       24683132 kB\nBuffers: 1 kB\n";
        assert_eq!(total(told), Some(24_683_132 << 10));
        assert_eq!(
            (total("MemTotal: 1 MB\n"), total("MemFree: 1 kB\n"), total("")),
            (None, None, None)
        );
    }

    #[test]
    fn the_machine_has_some() {
        let told = machine(Path::new("/proc/meminfo")).unwrap();
        assert!(told > 1 << 20 && limit().is_some_and(|limit| limit <= told));
        assert_eq!(machine(Path::new("/proc/hidden")), Some(told));
    }
}
