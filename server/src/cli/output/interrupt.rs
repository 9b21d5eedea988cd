//! [`Interrupts`]: SIGINT and SIGTERM while a file is made.

use std::fs;
use std::io;
use std::path::PathBuf;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell adds to a signal's number where that ended a process.
const BY_SIGNAL: i32 = 128;

/// From when it is made the process hears of these signals, and ends by them once they are [heeded](Self::heed).
pub(super) struct Interrupts {
    runtime: Runtime,
    signals: [(SignalKind, Signal); 2],
}

impl Interrupts {
    pub(super) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let signals = {
            let _within = runtime.enter();
            let heard = |kind| Ok::<_, io::Error>((kind, signal(kind)?));
            [heard(SignalKind::interrupt())?, heard(SignalKind::terminate())?]
        };
        Ok(Self { runtime, signals })
    }

    /// Has the first end the process, also one that came before, and a file go with it.
    pub(super) fn heed(self, file: Option<PathBuf>) {
        let Self { runtime, signals: [interrupt, terminate] } = self;
        std::thread::spawn(move || {
            let ended = runtime.block_on(async {
                tokio::select! {
                    ended = first(interrupt) => ended,
                    ended = first(terminate) => ended,
                }
            });
            if let Some(file) = file {
                // It may have its name by now.
                let _ = fs::remove_file(file);
            }
            std::process::exit(BY_SIGNAL + ended.as_raw_value());
        });
    }
}

async fn first((kind, mut signal): (SignalKind, Signal)) -> SignalKind {
    signal.recv().await;
    kind
}
