//! A small database on a simulated machine against a model: writes, reads, flushes, compactions,
//! crashes that lose or tear what was not synced, power cuts and disk errors at any operation.
//!
//! What was acknowledged must be there after every crash; of what was not, a prefix in commit
//! order, each batch whole.

#![no_main]

mod model;
mod world;

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use tablestone::Compression;

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

fuzz_target!(|data: &[u8]| {
    // Steps are read until the bytes end, so that longer inputs are longer stories.
    let mut input = Unstructured::new(data);
    let (Ok(seed), Ok(mapped), Ok(compression)) =
        (input.arbitrary(), input.arbitrary(), input.choose(&COMPRESSIONS))
    else {
        return;
    };
    let mut world = World::new(seed, mapped, *compression);
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let Ok(step) = input.arbitrary() else { break };
        world.step(step);
    }
    world.step(Step::Crash(Crash::Torn));
});
