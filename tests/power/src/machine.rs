//! [`Machine`]: a file system on a [served disk](Served), from mounting it to pulling the plug.
//!
//! Invariant: what was mounted is unmounted and detached when a machine is dropped, the last first.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use tempfile::TempDir;

use crate::disk::Disk;
use crate::served::{self, Served};

/// A file system of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Little, as it is copied for every cut, but what it takes.
    fn disk_bytes(self) -> usize {
        match self {
            Self::Ext4 => 192 << 20,
            Self::Xfs => 320 << 20,
            Self::Btrfs => 256 << 20,
        }
    }

    /// The command that makes one, all of it at once.
    fn maker(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => {
                &["mkfs.ext4", "-qF", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]
            }
            Self::Xfs => &["mkfs.xfs", "-qfK"],
            Self::Btrfs => &["mkfs.btrfs", "-qfK"],
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mounted file system, whose disk is served here.
pub struct Machine {
    disk: Option<Served>,
    loop_device: Option<String>,
    mounted: bool,
    room: TempDir,
}

impl Machine {
    /// Mounts the file system that a disk has, which recovers as after any power cut.
    pub fn start(disk: Disk, system: FileSystem) -> Result<Self> {
        let mut machine = Self::attach(disk)?;
        machine.mount(system)?;
        Ok(machine)
    }

    /// A disk with an empty file system.
    pub fn formatted(system: FileSystem) -> Result<Vec<u8>> {
        let machine = Self::attach(Disk::new(&Arc::new(vec![0; system.disk_bytes()])))?;
        let [maker, options @ ..] = system.maker() else { bail!("no command") };
        run(Command::new(maker).args(options).arg(machine.device()?))?;
        Ok(machine.stop()?.into_bytes())
    }

    fn attach(disk: Disk) -> Result<Self> {
        let room = tempfile::Builder::new().prefix("tablestone-power-").tempdir()?;
        for dir in ["served", "mounted"] {
            std::fs::create_dir(room.path().join(dir))?;
        }
        let disk = Served::start(disk, &room.path().join("served"))?;
        let mut machine = Self { disk: Some(disk), loop_device: None, mounted: false, room };
        let file = machine.room.path().join("served").join(served::DISK);
        let device =
            run(Command::new("losetup").args(["--direct-io=on", "--show", "-f"]).arg(file))?;
        machine.loop_device = Some(device);
        Ok(machine)
    }

    fn mount(&mut self, system: FileSystem) -> Result<()> {
        let options = ["-t", system.name(), "-o", "nodiscard", self.device()?];
        run(Command::new("mount").args(options).arg(self.dir()))?;
        self.mounted = true;
        Ok(())
    }

    fn device(&self) -> Result<&str> {
        self.loop_device.as_deref().context("a loop device")
    }

    /// Where the file system is mounted.
    pub fn dir(&self) -> PathBuf {
        self.room.path().join("mounted")
    }

    /// The file that says how much was done to the disk.
    pub fn events_file(&self) -> PathBuf {
        self.room.path().join("served").join(served::EVENTS)
    }

    /// Has some of the disk's writes fail that come, counted from now on.
    pub fn fail(&self, writes: Range<usize>) {
        if let Some(disk) = &self.disk {
            disk.fail(writes);
        }
    }

    fn unmount(&mut self) -> Result<()> {
        if std::mem::take(&mut self.mounted) {
            run(Command::new("umount").arg(self.dir()))?;
        }
        Ok(())
    }

    fn detach(&mut self) -> Result<()> {
        if let Some(device) = self.loop_device.take() {
            run(Command::new("losetup").args(["-d", &device]))?;
        }
        Ok(())
    }

    /// Unmounts it, and gives the disk back with all that was done to it.
    pub fn stop(mut self) -> Result<Disk> {
        self.unmount()?;
        self.detach()?;
        self.disk.take().context("a disk")?.stop()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for ended in [self.unmount(), self.detach()] {
            if let Err(error) = ended {
                eprintln!("left behind: {error:#}");
            }
        }
    }
}

/// Runs a command to its end; what it printed.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}, {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether this machine can: what is missing.
pub fn check_means() -> Result<()> {
    for path in ["/dev/fuse", "/dev/loop-control"] {
        ensure!(Path::new(path).exists(), "there is no {path}");
    }
    let user = run(Command::new("id").arg("-u"))?;
    ensure!(user == "0", "mounting takes root");
    Ok(())
}
