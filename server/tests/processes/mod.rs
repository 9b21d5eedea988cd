//! What the system does with processes that tests start.

use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Far longer than what a test waits for takes on the slowest machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[allow(dead_code, reason = "not every test has a use for all")]
mod system;

#[allow(unused_imports, reason = "not every test has a use for all")]
pub(crate) use system::*;

/// Kills a process that takes too long, so that who waits for it sees its end.
pub(crate) struct Watched(
    #[expect(dead_code, reason = "its end is what matters")] mpsc::Sender<()>,
);

impl Watched {
    pub(crate) fn new(child: &Child) -> Self {
        let (ended, wait_ended) = mpsc::channel::<()>();
        let id = child.id();
        std::thread::spawn(move || {
            if wait_ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                end(id);
            }
        });
        Self(ended)
    }
}
