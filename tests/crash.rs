//! R-E08, R-E10: power loss at every point. A script runs on a simulated machine whose power goes
//! after n operations on its disk, for every n; what is found after opening again must be one of
//! the states the script went through, at or after the last one that was acknowledged: nothing
//! acknowledged is lost, no batch is there in part, none without those ordered before it, over all
//! tables.

mod support;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Durability, Options, Recovery};

use support::model::{Action, Condition, Operation, Write};
use support::sim::{CRASH_STYLES, DIR, Script, Step, paths, sim_options};
use support::strategies::{config, write};

fn put(table: u8, partition: u8, rows: impl IntoIterator<Item = u8>, len: u16) -> Step {
    let operation = |row| Operation { row, condition: Condition::None, action: Action::Put(len) };
    let operations = rows.into_iter().map(operation).collect();
    Step::Write(Write::Commit { table, partition, ranges: Vec::new(), operations })
}

/// Puts rows in the place of all that the partition has.
fn replace(table: u8, partition: u8, rows: impl IntoIterator<Item = u8>, len: u16) -> Step {
    match put(table, partition, rows, len) {
        Step::Write(Write::Commit { operations, .. }) => {
            let ranges = vec![(Bound::Unbounded, Bound::Unbounded)];
            Step::Write(Write::Commit { table, partition, ranges, operations })
        }
        other => other,
    }
}

/// Goes through everything that writes to the disk: log, its rotation, flush, compaction, manifest,
/// catalog, range deletes, loads, closing and recovery.
fn script() -> Vec<Step> {
    let mut steps = vec![Step::Write(Write::Create(0)), Step::Write(Write::Create(1)), Step::Wait];
    for round in 0..18u8 {
        // Several under way at once, over two tables.
        for n in 0..4u8 {
            steps.push(put(n % 2, 10, [round, n + 20, n + 40], 150));
            steps.push(put(0, 11, [n], 30));
        }
        steps.push(Step::Write(Write::Import {
            table: 1,
            partition: 12,
            first_row: 10,
            rows: 80,
            len: 60,
        }));
        steps.push(Step::Wait);
        match round % 6 {
            0 | 4 => steps.push(Step::Flush),
            1 => {
                steps.push(Step::Write(Write::DeletePartition { table: 1, partition: 12 }));
                steps.push(Step::Compact);
                steps.push(put(1, 12, [15], 10));
            }
            2 => {
                steps.push(Step::Write(Write::Drop(1)));
                steps.push(Step::Write(Write::Create(1)));
                steps.push(put(1, 10, [1], 10));
                steps.push(Step::Wait);
                steps.push(Step::Reopen);
            }
            3 => steps.push(Step::Write(Write::Drop(0))),
            _ => steps.push(replace(1, 12, [12, 200], 70)),
        }
        if round % 6 == 3 {
            steps.push(Step::Write(Write::Create(0)));
        }
        if round % 3 == 1 {
            // With a table after it that is written meanwhile, once there is one before it too.
            steps.push(Step::Write(Write::Load { table: 2, last_partition: 4, rows: 40, len: 90 }));
            steps.push(put(2, 3, [2, 90], 40));
            steps.push(Step::Wait);
        } else if round % 3 == 2 {
            steps.push(Step::Write(Write::Drop(2)));
        }
        steps.extend((0..3).map(|_| Step::Job));
    }
    steps.extend([Step::Compact, Step::Reopen, put(0, 10, [1], 10), Step::Wait]);
    steps
}

/// How many operations on the disk a whole run of the steps takes.
fn count_operations(steps: &[Step], options: fn(&SimEnv) -> Options) -> u64 {
    let env = SimEnv::new(1);
    let mut script = Script::new(&env, options(&env));
    assert!(script.run(steps), "without a crash the script runs to its end");
    script.check("after a run without a crash");
    env.operations()
}

fn crash_everywhere(style: CrashStyle, options: fn(&SimEnv) -> Options) {
    crash_everywhere_in(&script(), style, options);
}

fn crash_everywhere_in(steps: &[Step], style: CrashStyle, options: fn(&SimEnv) -> Options) {
    let total = count_operations(steps, options);
    assert!(total > 400, "the script does too little: {total} operations");
    for after in 0..total {
        let context = format!("{style:?} after {after} operations");
        // Another seed for each, so that tears differ.
        let env = SimEnv::new(after);
        let mut script = Script::new(&env, options(&env));
        env.crash_after(after);
        script.run(steps);
        env.crash(style);
        script.check(&context);
        // What was found is from now on acknowledged: it must survive another crash.
        env.crash(style);
        script.check(&format!("{context}, and again"));
    }
}

/// From this length on values stay in the log.
const LARGE: usize = 500;

fn separated(env: &SimEnv) -> Options {
    sim_options(env).large_value_bytes(LARGE)
}

/// Without a promise before a sync or a close.
fn lazy(env: &SimEnv) -> Options {
    sim_options(env).durability(Durability::Os)
}

/// As [`separated`], without a promise before a sync or a close.
fn separated_lazily(env: &SimEnv) -> Options {
    separated(env).durability(Durability::Os)
}

/// Has log segments kept for the large values in them, become sparse, be given up and removed.
fn large_script() -> Vec<Step> {
    let mut steps = vec![Step::Write(Write::Create(0)), Step::Write(Write::Create(1)), Step::Wait];
    for round in 0..14u8 {
        for n in 0..5u8 {
            steps.push(put(n % 2, 10, [n, n + 20, round + 40], 1_100));
            steps.push(put(0, 11, [round], 30));
        }
        steps.push(Step::Wait);
        match round % 7 {
            0 | 2 => steps.push(Step::Flush),
            1 => steps.push(Step::Reopen),
            3 => steps.push(Step::Compact),
            4 => steps.push(Step::Write(Write::DeletePartition { table: 1, partition: 10 })),
            5 => {
                // Little of the older segments is left.
                steps.push(put(0, 10, (0..50).filter(|row| row % 9 != 0), 10));
                steps.extend([Step::Flush, Step::Compact]);
            }
            _ => {
                steps.push(Step::Write(Write::Drop(1)));
                steps.push(Step::Write(Write::Create(1)));
                steps.push(Step::Wait);
            }
        }
        steps.extend((0..4).map(|_| Step::Job));
    }
    // Closing has removed those that were given up.
    steps.extend([Step::Compact, Step::Reopen, put(0, 10, [1, 2, 3], 1_100), Step::Wait]);
    steps.extend([Step::Flush, put(0, 10, [1], 2_000), Step::Wait]);
    steps
}

/// The same with checkpoints at places where all that they consist of changes.
fn script_of_checkpoints() -> Vec<Step> {
    let mut steps = Vec::new();
    for (n, step) in large_script().into_iter().take(95).enumerate() {
        steps.push(step);
        if n % 30 == 29 {
            steps.push(Step::Checkpoint);
        }
    }
    steps
}

/// R-E08, R-E10: a checkpoint that was made is whole whatever becomes of the database, one that was not takes
/// nothing from it.
#[test]
fn r_e10_power_loss_at_every_operation_of_checkpoints() {
    for style in CRASH_STYLES {
        crash_everywhere_in(&script_of_checkpoints(), style, separated);
    }
}

/// How many operations it takes until some of the log is kept, and until some of that is gone again.
#[test]
fn the_large_script_keeps_log_segments_and_gives_them_up() {
    let env = SimEnv::new(1);
    let kept = || {
        let names = env.list(std::path::Path::new(support::sim::DIR));
        names.into_iter().filter(|name| name.ends_with(".values")).collect::<BTreeSet<_>>()
    };
    let (mut script, mut all) = (Script::new(&env, separated(&env)), BTreeSet::new());
    for step in large_script().chunks(8) {
        assert!(script.run(step));
        all.append(&mut kept());
    }
    let left = kept();
    assert!(all.len() > 8 && left.len() < all.len() / 2, "{} of {}", left.len(), all.len());
    assert!(!left.is_empty(), "some are there when the power goes");
}

#[test]
fn r_e10_power_loss_at_every_operation_with_values_in_the_log() {
    for style in CRASH_STYLES {
        crash_everywhere_in(&large_script(), style, separated);
    }
}

#[test]
fn r_e10_power_loss_during_recovery_with_values_in_the_log() {
    crash_in_recovery(&large_script(), separated, 60);
}

#[test]
fn r_e08_power_loss_without_sync_leaves_a_prefix_with_values_in_the_log() {
    crash_without_sync(large_script(), separated_lazily);
}

#[test]
fn r_e10_power_loss_at_every_operation_that_loses_what_was_not_synced() {
    crash_everywhere(CrashStyle::LoseUnsynced, sim_options);
}

#[test]
fn r_e10_power_loss_at_every_operation_that_keeps_all() {
    crash_everywhere(CrashStyle::KeepAll, sim_options);
}

#[test]
fn r_e10_power_loss_at_every_operation_that_tears_writes() {
    crash_everywhere(CrashStyle::Torn, sim_options);
}

/// Without sync nothing is promised until a close, but what is left is still a state that was.
#[test]
fn r_e08_power_loss_without_sync_leaves_a_prefix() {
    crash_without_sync(script(), lazy);
}

fn crash_without_sync(steps: Vec<Step>, options: fn(&SimEnv) -> Options) {
    let steps: Vec<_> = steps.into_iter().filter(|step| !matches!(step, Step::Wait)).collect();
    let total = count_operations(&steps, options);
    for after in (0..total).step_by(2) {
        let env = SimEnv::new(after);
        let mut script = Script::new(&env, options(&env));
        env.crash_after(after);
        script.run(&steps);
        env.crash(CrashStyle::Torn);
        script.check(&format!("torn after {after} operations, without sync"));
    }
}

/// Commits that nobody syncs, and now and then a sync of all of them, or one that asks to be durable. Segments end in between, and are
/// synced by jobs that run late, or never before the power goes.
fn script_of_few_syncs() -> Vec<Step> {
    let mut syncs = 0..;
    let mut steps = Vec::new();
    for step in large_script() {
        match step {
            Step::Wait => steps.push(match syncs.next() {
                Some(n) if n % 6 == 1 => Step::Sync,
                Some(n) if n % 6 == 4 => Step::Durable,
                _ => Step::Tick,
            }),
            step => steps.push(step),
        }
    }
    steps
}

/// As [`separated`], with syncs when time passes.
fn separated_at_intervals(env: &SimEnv) -> Options {
    separated(env).durability(Durability::Interval(Duration::from_millis(5)))
}

/// R-E10 under the lazier durabilities: what was synced survives, over all segments of the log, and
/// what is left of the rest is a prefix.
#[test]
fn r_e10_power_loss_among_few_syncs_that_loses_what_was_not_synced() {
    crash_everywhere_in(&script_of_few_syncs(), CrashStyle::LoseUnsynced, separated_lazily);
}

#[test]
fn r_e10_power_loss_among_few_syncs_that_tears_writes() {
    crash_everywhere_in(&script_of_few_syncs(), CrashStyle::Torn, separated_lazily);
}

#[test]
fn r_e10_power_loss_between_syncs_at_intervals_that_tears_writes() {
    crash_everywhere_in(&script_of_few_syncs(), CrashStyle::Torn, separated_at_intervals);
}

/// As [`separated`], always opened by salvage.
fn salvaged(env: &SimEnv) -> Options {
    separated(env).recovery(Recovery::Salvage)
}

/// R-E22: who always opens by salvage loses no more, and no less, than who never does.
#[test]
fn r_e22_power_loss_is_no_damage_that_salvage_finds() {
    crash_everywhere_in(&large_script(), CrashStyle::Torn, salvaged);
    crash_everywhere_in(&script(), CrashStyle::KeepAll, salvaged);
}

/// R-E22: without a manifest, files of all ages and the log still are all that was acknowledged. What is deleted by
/// range is not in the script: some of it is in the manifest alone.
#[test]
fn r_e22_power_loss_and_no_manifest_leave_all_that_was_acknowledged() {
    let is_lost = |step: &Step| match step {
        Step::Write(Write::Commit { ranges, .. }) => !ranges.is_empty(),
        Step::Write(Write::Drop(_) | Write::DeletePartition { .. }) => true,
        _ => false,
    };
    let steps: Vec<_> = large_script().into_iter().filter(|step| !is_lost(step)).collect();
    let total = count_operations(&steps, salvaged);
    for (style, after) in (0..total).flat_map(|n| CRASH_STYLES.map(|style| (style, n))).step_by(5) {
        let context = format!("{style:?} after {after} operations");
        let env = SimEnv::new(after);
        let mut script = Script::new(&env, salvaged(&env));
        env.crash_after(after);
        script.run(&steps);
        env.crash(style);
        paths(&env, "MANIFEST").iter().for_each(|path| env.remove_file(path));
        if after % 2 == 0 {
            // Power goes again while it is made anew.
            env.crash_after(after / 2 % 40);
            script.run(&[]);
            env.crash(style);
        }
        drop(script.check_salvaged(&context));
        env.crash(CrashStyle::LoseUnsynced);
        script.check(&format!("{context}, and again"));
    }
}

/// Power goes again while the database recovers, at every operation of the recovery.
#[test]
fn r_e10_power_loss_during_recovery() {
    crash_in_recovery(&script(), sim_options, 100);
}

/// The second time after each of so many operations.
fn crash_in_recovery(steps: &[Step], options: fn(&SimEnv) -> Options, operations: u64) {
    let total = count_operations(steps, options);
    for (style, after) in CRASH_STYLES.into_iter().zip([total / 3, total / 2, total - total / 5]) {
        for during in 0..operations {
            let env = SimEnv::new(during);
            let mut script = Script::new(&env, options(&env));
            env.crash_after(after);
            script.run(steps);
            env.crash(style);
            env.crash_after(during);
            script.run(&[]);
            env.crash(style);
            script.check(&format!("{style:?} after {after}, then {during} operations"));
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => write().prop_map(Step::Write),
        6 => Just(Step::Wait),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        6 => Just(Step::Job),
        1 => Just(Step::Reopen),
    ]
}

fn style() -> impl Strategy<Value = CrashStyle> {
    prop_oneof![
        1 => Just(CrashStyle::LoseUnsynced),
        1 => Just(CrashStyle::KeepAll),
        3 => Just(CrashStyle::Torn),
    ]
}

proptest! {
    #![proptest_config(config(1000, "proptest-regressions/crash.txt"))]

    /// Random scripts, each in several lives that end in a crash at a random operation.
    #[test]
    fn r_e10_random_scripts_and_crashes(
        seed in any::<u64>(),
        lives in vec((vec(step(), 1..40), 0u64..250, style()), 1..4),
    ) {
        let env = SimEnv::new(seed);
        let is_lazy = seed % 4 == 3;
        let options = if is_lazy {
            lazy(&env)
        } else if seed.is_multiple_of(2) {
            separated(&env)
        } else {
            sim_options(&env)
        };
        let mut script = Script::new(&env, options);
        for (number, (steps, after, style)) in lives.iter().enumerate() {
            env.crash_after(*after);
            let mut steps = steps.clone();
            if number == 0 {
                steps.insert(0, Step::Write(Write::Create(0)));
            }
            if is_lazy {
                // A wait promises nothing.
                let waits = steps.iter_mut().filter(|step| matches!(step, Step::Wait));
                waits.for_each(|step| *step = Step::Sync);
            }
            script.run(&steps);
            env.crash(*style);
            script.check(&format!("life {number}"));
        }
    }
}

/// A process is killed between the write of a manifest's edit and its sync. What the next one finds of it in the system's
/// cache is durable before anything is done that relies on it: log segments that it keeps get another name.
#[test]
fn an_edit_that_a_killed_process_left_unsynced_is_safe_before_it_counts() {
    for (kill, power) in (14..22u64).flat_map(|kill| (4..26u64).map(move |power| (kill, power))) {
        for style in CRASH_STYLES {
            let env = SimEnv::new(kill * 100 + power);
            let options = sim_options(&env).large_value_bytes(500);
            let db = Database::open(DIR, options.clone()).unwrap();
            let t = db.create_table("t").wait().unwrap();
            for n in 0..8u8 {
                t.insert("p", [n], [n; 1_000]).wait().unwrap();
            }
            // Nothing of what the process does from then on reaches the machine, which goes on.
            env.crash_after(kill);
            let _ = db.flush();
            env.crash_after(0);
            drop((t, db));
            env.crash_after(power);
            drop(Database::open(DIR, options.clone()));
            env.crash(style);
            let db = Database::open(DIR, options)
                .unwrap_or_else(|error| panic!("{kill}, {power}, {style:?}: {error}"));
            let t = db.table("t").unwrap();
            for n in 0..8u8 {
                assert_eq!(t.get("p", [n]).unwrap().unwrap().value, [n; 1_000]);
            }
        }
    }
}
