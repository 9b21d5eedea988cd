//! A small database on a simulated machine against a model: writes, reads, flushes, compactions,
//! crashes that lose or tear what was not synced, power cuts and disk errors at any operation.
//!
//! What was synced, and under the default durability what was acknowledged, must be there after every
//! crash; of what was not, a prefix in commit order, each batch whole.

#![no_main]

mod model;
mod world;

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use tablestone::env::SimEnv;
use tablestone::{Compression, Durability, Options, ReadMode};

use model::Write;
use world::{Scan, World};

/// One thing that happens.
#[derive(Arbitrary, Debug)]
enum Step {
    /// A write that is waited for.
    Write(Write),
    /// A write whose outcome is asked for later.
    Send(Write),
    Settle,
    /// Makes all that was written durable, whatever the durability.
    Sync,
    Scan(Scan),
    TakeSnapshot,
    ReleaseSnapshot,
    Flush,
    Compact,
    RunJobs(u8),
    Wait {
        milliseconds: u16,
    },
    SetClockBack,
    CloseAndOpen,
    Crash(Crash),
    /// Power goes after that many more changes of the disk.
    PowerCut {
        after: u8,
        crash: Crash,
    },
    DiskError {
        error: DiskError,
        after: u8,
        crash: Crash,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Crash {
    LoseUnsynced,
    KeepAll,
    Torn,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum DiskError {
    LogWrite,
    LogSync,
    TableWrite,
    TableSync,
    ManifestWrite,
    ManifestSync,
    Create,
    Rename,
    SyncDir,
}

/// Longer stories find nothing that shorter ones do not, and take longer to run.
const STEPS: usize = 300;

const COMPRESSIONS: [Compression; 3] =
    [Compression::None, Compression::Zstd(1), Compression::Automatic];

/// One for each value of two bits of the setup.
const DURABILITIES: [Durability; 4] = [
    Durability::Sync,
    Durability::Sync,
    Durability::Os,
    Durability::Interval(Duration::from_millis(5)),
];

fuzz_target!(|data: &[u8]| {
    // Steps are read until the bytes end, so that longer inputs are longer stories.
    let mut input = Unstructured::new(data);
    let (Ok(seed), Ok((options, durability))) = (input.arbitrary(), options(&mut input)) else {
        return;
    };
    let mut world = World::new(SimEnv::new(seed), options, durability);
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let Ok(step) = input.arbitrary() else { break };
        world.step(step);
    }
    world.step(Step::Crash(Crash::Torn));
});

/// From a byte whose bits say: 0 mapped reads, 1 that larger values stay in the log, 2 and 3 the
/// durability; and one for the compression.
fn options(input: &mut Unstructured<'_>) -> arbitrary::Result<(Options, Durability)> {
    let setup: u8 = input.arbitrary()?;
    let durability = DURABILITIES[usize::from(setup >> 2 & 3)];
    let options = Options::default()
        .memory_budget(64 << 10)
        .read_mode(if setup & 1 == 0 { ReadMode::Pread } else { ReadMode::Mmap })
        .large_value_bytes(if setup & 2 == 0 { usize::MAX } else { 200 })
        .durability(durability)
        .compression(*input.choose(&COMPRESSIONS)?);
    Ok((options, durability))
}
