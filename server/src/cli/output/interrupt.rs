//! [`Interrupts`]: what tells the process to stop while a file is made.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;

use tokio::runtime::{Builder, Runtime};

use crate::cli::system::{self, StopSignals};

/// From when it is made the process hears of these signals, and ends by them once they are [heeded](Self::heed).
pub(super) struct Interrupts {
    runtime: Runtime,
    signals: StopSignals,
}

impl Interrupts {
    pub(super) fn new() -> io::Result<Self> {
        system::check_descriptors()?;
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let signals = {
            let _within = runtime.enter();
            StopSignals::new()?
        };
        Ok(Self { runtime, signals })
    }

    /// Has the first end the process, also one that came before, and a file go with it.
    pub(super) fn heed(self, file: Option<PathBuf>) -> io::Result<()> {
        let Self { runtime, mut signals } = self;
        let wait = move || {
            let code = runtime.block_on(signals.next());
            if let Some(file) = file {
                // It may have its name by now.
                let _ = fs::remove_file(file);
            }
            std::process::exit(code);
        };
        thread::Builder::new().spawn(wait).map(drop)
    }
}
