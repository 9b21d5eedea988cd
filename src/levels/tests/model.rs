//! Any sequence of writes, background steps, snapshots, compactions and crashes against the model.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::env::CrashStyle;

/// After that files are compressed that were not.
const REST: Duration = Duration::from_secs(6);

#[derive(Clone, Debug)]
enum Step {
    /// So many writes, from a seed.
    Write(u64, u64),
    Freeze,
    /// Runs so many background jobs.
    Jobs(usize),
    /// Lets so much time pass that it is quiet.
    Rest,
    Snapshot,
    Release(usize),
    CompactAll,
    Reopen(Compression),
    Crash(CrashStyle),
}

fn step() -> impl Strategy<Value = Step> {
    let style = prop_oneof![
        Just(CrashStyle::LoseUnsynced),
        Just(CrashStyle::KeepAll),
        Just(CrashStyle::Torn)
    ];
    prop_oneof![
        8 => (any::<u64>(), 1u64..200).prop_map(|(seed, count)| Step::Write(seed, count)),
        2 => Just(Step::Freeze),
        6 => (0usize..12).prop_map(Step::Jobs),
        2 => Just(Step::Rest),
        2 => Just(Step::Snapshot),
        2 => any::<usize>().prop_map(Step::Release),
        1 => Just(Step::CompactAll),
        1 => compression().prop_map(Step::Reopen),
        1 => style.prop_map(Step::Crash),
    ]
}

/// What is written: of how many keys, and of how many bytes the longest value.
#[derive(Clone, Copy, Debug)]
struct Workload {
    keys: u64,
    longest: u64,
}

/// Few rows hide one another. Many are more than the memory budget, from where on automatic
/// compression compresses.
fn workload() -> impl Strategy<Value = Workload> {
    prop_oneof![
        Just(Workload { keys: 120, longest: 200 }),
        Just(Workload { keys: 1_500, longest: 800 })
    ]
}

fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::Automatic), Just(Compression::None), Just(Compression::Zstd(1))]
}

fn write(world: &mut World, workload: Workload, seed: u64, count: u64) {
    let mut dice = Dice(seed);
    for _ in 0..count {
        let n = dice.roll(workload.keys);
        world.write(match dice.roll(30) {
            0 => Op::DeleteRange(key(n), key(n + dice.roll(40))),
            1..8 => Op::Delete(key(n)),
            _ => Op::Put(key(n), vec![n as u8; dice.roll(workload.longest) as usize]),
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// R-E08, R-E10, R-E11: what is read is what was written, now and at every live snapshot.
    #[test]
    fn any_history_reads_as_the_model(
        compression in compression(),
        workload in workload(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut world = World::with(steps.len() as u64, compression);
        let mut snapshots: Vec<Version> = Vec::new();
        for step in steps {
            match step {
                Step::Write(seed, count) => write(&mut world, workload, seed, count),
                Step::Freeze => {
                    world.freeze();
                    world.tree.on_published();
                }
                Step::Jobs(count) => drop((0..count).find(|_| !world.env.step())),
                Step::Rest => world.env.advance(REST),
                Step::Snapshot => snapshots.push(world.tree.register_snapshot()),
                Step::Release(index) if !snapshots.is_empty() => {
                    let version = snapshots.swap_remove(index % snapshots.len());
                    world.tree.release_snapshot(version);
                }
                Step::Release(_) => {}
                Step::CompactAll => world.tree.compact_all().unwrap(),
                Step::Reopen(compression) => {
                    snapshots.clear();
                    world.options = world.options.clone().compression(compression);
                    world.reopen().unwrap();
                }
                Step::Crash(style) => {
                    snapshots.clear();
                    world.env.crash(style);
                    world.reopen().unwrap();
                }
            }
            world.check();
            snapshots.iter().for_each(|at| world.check_at(at.ticks() as usize));
        }
        for version in snapshots {
            world.tree.release_snapshot(version);
        }
        world.flush();
        world.env.run_all();
        // What is done at rest may make a compaction due, after which it is not quiet for a while.
        for _ in 0..5 {
            world.env.advance(REST);
            world.env.run_all();
        }
        world.check();
        world.tree.verify().unwrap();
        prop_assert_eq!(world.tree.stats().range_tombstones, 0, "all are applied in the end");
        prop_assert_eq!(world.tree.last_background_error(), None);
        prop_assert_eq!(world.table_files(), world.levels().files().count());
        let entries = |levels: &LevelState| -> u64 { levels.files().map(|(_, f)| f.meta.entries).sum() };
        world.tree.compact_all().unwrap();
        let live = world.model(world.log.len()).len() as u64;
        prop_assert_eq!(entries(&world.levels()), live, "nothing is stored in vain");
    }
}
