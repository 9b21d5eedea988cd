//! A machine on which threads meet: whoever asks for the time, as every commit does before it is ordered, or syncs or
//! creates a file, may be overtaken there.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tablestone::Version;
use tablestone::env::{Clock, Disk, Env, Jobs};

use crate::rng::Rng;
use crate::support::hooked::HookedEnv;

/// Lets others go first, now and then.
#[derive(Debug, Default)]
pub(crate) struct Jitter(AtomicU64);

impl Jitter {
    pub(crate) fn pause(&self) {
        let mut rng = Rng::new(self.0.fetch_add(1, Ordering::Relaxed));
        match rng.below(64) {
            0 => std::thread::sleep(Duration::from_micros(rng.next() % 200)),
            1..16 => std::thread::yield_now(),
            _ => {}
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct JitterEnv {
    machine: HookedEnv,
    jitter: Arc<Jitter>,
}

impl JitterEnv {
    pub(crate) fn new(machine: impl Env) -> Self {
        let jitter = Arc::<Jitter>::default();
        let pausing = || {
            let jitter = Arc::clone(&jitter);
            move |_: &std::path::Path| -> io::Result<()> {
                jitter.pause();
                Ok(())
            }
        };
        let machine = HookedEnv::new(machine, pausing());
        let machine = machine.before_rename(pausing()).before_sync(pausing());
        Self { machine, jitter }
    }
}

impl Env for JitterEnv {
    fn disk(&self) -> Arc<dyn Disk> {
        self.machine.disk()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(JitterClock { clock: self.machine.clock(), jitter: Arc::clone(&self.jitter) })
    }
    fn start_jobs(&self, compaction_threads: usize) -> io::Result<Arc<dyn Jobs>> {
        self.machine.start_jobs(compaction_threads)
    }
}

struct JitterClock {
    clock: Arc<dyn Clock>,
    jitter: Arc<Jitter>,
}

impl fmt::Debug for JitterClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clock.fmt(f)
    }
}

impl Clock for JitterClock {
    fn now(&self) -> Version {
        let now = self.clock.now();
        self.jitter.pause();
        now
    }
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}
