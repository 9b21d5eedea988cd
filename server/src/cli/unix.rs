//! What Unix does in its own way; `windows.rs` has the same items.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell adds to a signal's number where that ended a process.
const BY_SIGNAL: i32 = 128;

/// Its `OPEN_MAX`: it takes no more, nor that there be no limit, though it says that there is none.
const MOST_FILES_OF_MACOS: u64 = 10_240;

/// What tells the process to stop, from when it is made: SIGINT, SIGTERM, and SIGHUP, as of a terminal that is closed,
/// unless the process is to outlive it.
pub(super) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl StopSignals {
    /// Within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hang_up = (!ignores_hang_up()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt, terminate, hang_up })
    }

    /// Waits for the next, also one that came before; the exit code of a process that ends by it.
    pub(super) async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            Some(_) = async { self.hang_up.as_mut()?.recv().await } => SignalKind::hangup(),
        };
        BY_SIGNAL + kind.as_raw_value()
    }
}

/// Whether SIGHUP was ignored when the process began, as by `nohup`; so too where the system does not tell.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    ignored.is_none_or(|set| set >> (SignalKind::hangup().as_raw_value() - 1) & 1 == 1)
}

/// Whether the process has the descriptors that tokio takes for a runtime with signals: it panics over some of them.
pub(super) fn check_descriptors() -> io::Result<()> {
    // They are six.
    let pairs = [UnixStream::pair(), UnixStream::pair(), UnixStream::pair()];
    pairs.into_iter().try_for_each(|pair| pair.map(drop))
}

/// A file that may grow no more (`ulimit -f`) is an error of the write from now on, as a full disk is, and not the end.
/// Within a runtime.
pub(super) fn survive_limits_of_files() -> io::Result<()> {
    // It is heard of to the end of the process.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// Lets the process have as many files open as it may; how many, if that has a limit.
pub(super) fn raise_open_files() -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    let most_of_macos =
        now.maximum.map_or(MOST_FILES_OF_MACOS, |most| most.min(MOST_FILES_OF_MACOS));
    let raised = [now.maximum, now.current.max(Some(most_of_macos))].into_iter().find(|&current| {
        setrlimit(Resource::Nofile, Rlimit { current, maximum: now.maximum }).is_ok()
    });
    raised.unwrap_or(now.current)
}

/// Has a new file be, from the first moment on, for those alone whom another one is for.
pub(super) fn create_as(options: &mut OpenOptions, other: &Metadata) {
    options.mode(other.permissions().mode());
}

/// Opens a directory to sync it.
pub(super) fn open_dir(dir: &Path) -> io::Result<File> {
    File::open(dir)
}

/// What is no Unicode.
#[cfg(test)]
pub(super) fn no_unicode() -> std::ffi::OsString {
    std::os::unix::ffi::OsStringExt::from_vec(vec![0xff])
}
