//! A small database on a simulated machine against a model: writes, reads, flushes, compactions,
//! crashes that lose or tear what was not synced, power cuts and disk errors at any operation.
//!
//! What was acknowledged must be there after every crash; of what was not, a prefix in commit
//! order, each batch whole.

#![no_main]

mod model;
mod world;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

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
    Wait { milliseconds: u16 },
    SetClockBack,
    CloseAndOpen,
    Crash(Crash),
    /// Power goes after that many more changes of the disk.
    PowerCut { after: u8, crash: Crash },
    DiskError { error: DiskError, after: u8, crash: Crash },
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

#[derive(Arbitrary, Debug)]
struct Story {
    seed: u64,
    mapped: bool,
    compressed: bool,
    steps: Vec<Step>,
}

/// Longer stories find nothing that shorter ones do not, and take longer to run.
const STEPS: usize = 200;

fuzz_target!(|story: Story| {
    let mut world = World::new(story.seed, story.mapped, story.compressed);
    for step in story.steps.into_iter().take(STEPS) {
        world.step(step);
    }
    world.step(Step::Crash(Crash::Torn));
});
