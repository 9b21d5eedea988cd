//! What is compressed follows from how much there is.

use super::*;
use crate::sst::FileMeta;

/// Where compression begins of itself.
const DEEP: std::ops::RangeFrom<Level> = Level::ONE.below()..;

/// A world whose compression is automatic: its memory budget is 64 KiB.
fn world(seed: u64) -> World {
    World::with(seed, Compression::Automatic)
}

/// Writes rows of 80 bytes that compress well.
fn fill(world: &mut World, rows: std::ops::Range<u32>) {
    for row in rows {
        world.put(row.to_be_bytes(), [7; 76]);
    }
    world.flush();
    world.env.run_all();
}

/// Stored bytes of all files, and what they are of.
fn bytes(world: &World) -> (u64, u64) {
    let levels = world.levels();
    let sum = |of: fn(&FileMeta) -> u64| levels.files().map(|(_, file)| of(&file.meta)).sum();
    (sum(|meta| meta.bytes), sum(|meta| meta.raw_bytes))
}

#[test]
fn zstd_compresses_every_level_however_little_there_is() {
    let mut world = World::with(3, Compression::Zstd(1));
    fill(&mut world, 0..90);
    let (stored, raw) = bytes(&world);
    assert_eq!(world.tree.stats().levels[0].files, 1);
    assert!(stored < raw / 2, "flushed: {stored} of {raw}");
    fill(&mut world, 45..135);
    world.tree.compact_all().unwrap();
    let (stored, raw) = bytes(&world);
    assert_eq!(world.tree.stats().levels[0].files, 0);
    assert!(stored < raw / 2, "compacted: {stored} of {raw}");
    world.check();
}

#[test]
fn what_is_smaller_than_the_memory_budget_is_not_compressed() {
    let mut world = world(1);
    fill(&mut world, 0..700);
    world.tree.compact_all().unwrap();
    let (stored, raw) = bytes(&world);
    assert!(50_000 < raw && raw < 64 << 10 && stored > raw, "{stored} of {raw}");

    fill(&mut world, 700..3_000);
    world.tree.compact_all().unwrap();
    let (stored, raw) = bytes(&world);
    assert!(raw > 200_000 && stored < raw / 2, "{stored} of {raw}");

    for row in 0..2_900u32 {
        world.write(Op::Delete(row.to_be_bytes().to_vec()));
    }
    world.flush();
    world.tree.compact_all().unwrap();
    fill(&mut world, 3_000..3_400);
    world.tree.compact_all().unwrap();
    let (stored, raw) = bytes(&world);
    assert!(raw > 30_000 && stored > raw, "it is little again: {stored} of {raw}");
    world.check();
}

#[test]
fn rows_in_order_are_rewritten_where_compression_begins() {
    let mut world = world(2);
    for step in 0..500 {
        fill(&mut world, 100 * step..100 * (step + 1));
    }
    let stats = world.tree.stats();
    let (stored, raw) = bytes(&world);
    assert!(stored < raw / 4, "{stored} of {raw}");
    assert!(stats.levels[3].files > 0 && stats.files_moved > 0, "{stats:?}");
    assert!(stats.compaction_written_bytes < stored, "each row once: {stats:?}");
    world.check();
}

/// Files of some levels, and how many of them are not compressed.
fn files(world: &World, levels: std::ops::RangeFrom<Level>) -> (usize, usize) {
    let state = world.levels();
    let found = state.files().filter(|(level, _)| levels.contains(level));
    let metas: Vec<&FileMeta> = found.map(|(_, file)| &file.meta).collect();
    (metas.len(), metas.iter().filter(|meta| meta.bytes > meta.raw_bytes).count())
}

/// Rows that are beyond those there are, in their order, so that no compaction rewrites what is there.
fn append(world: &mut World, rows: std::ops::Range<u32>, noise: bool) {
    let mut dice = Dice(1);
    for row in rows {
        let value = [7; 76].map(|byte| if noise { dice.roll(256) as u8 } else { byte });
        world.put(row.to_be_bytes(), value);
        if row % 100 == 99 {
            world.flush();
            world.env.run_all();
        }
    }
}

#[test]
fn what_was_written_before_there_was_much_is_compressed_once_there_is() {
    let mut world = world(4);
    append(&mut world, 0..2_500, false);
    let (count, plain) = files(&world, DEEP);
    assert!(plain > 0 && count > plain, "three memory budgets: {plain} of {count}");
    append(&mut world, 2_500..5_000, false);
    let (count, plain) = files(&world, DEEP);
    assert!(count > 20 && plain == 0, "six: {plain} of {count}");
    assert_eq!(world.tree.stats().running_compactions, 0);
    world.check();
}

/// What the process may have beside the budget, for pages of files, is what plain files are for.
#[test]
fn where_there_is_less_memory_less_stays_as_it_was_written() {
    let after_rest = |memory: Option<u64>, rows| {
        let mut world = world(4);
        world.env.set_memory(memory);
        world.reopen().unwrap();
        append(&mut world, 0..rows, false);
        world.rest(10);
        world.check();
        files(&world, Level::ZERO..).1
    };
    let (budget, three_budgets) = (64 << 10, 2_500);
    for memory in [None, Some(5 * budget), Some(24 << 30)] {
        assert!(after_rest(memory, three_budgets) > 0, "{memory:?}");
    }
    for memory in [3 * budget, budget, 0] {
        assert_eq!(after_rest(Some(memory), three_budgets), 0, "{memory}");
    }
    assert!(after_rest(Some(0), 600) > 0, "what fits in the budget stays");
}

#[test]
fn the_youngest_levels_are_compressed_when_it_is_quiet_for_a_while() {
    let mut world = world(7);
    append(&mut world, 0..5_050, false);
    let young = |world: &World| files(world, Level::ZERO..).1;
    let written = young(&world);
    assert!(written > 2, "levels 0 and 1 are as they were written: {written}");
    world.rest(4);
    append(&mut world, 5_050..5_100, false);
    world.rest(4);
    assert!(young(&world) > 2, "something was written meanwhile");
    world.rest(1);
    assert_eq!(young(&world), 0);
    let compactions = world.tree.stats().compactions;
    world.rest(60);
    assert_eq!(world.tree.stats().compactions, compactions);
    world.check();
}

/// R-E24: compressing is put off while compactions are behind, but no longer.
#[test]
fn what_is_merged_while_compactions_are_behind_is_compressed_later() {
    let mut world = world(9);
    let scattered = |row: u32| (row.wrapping_mul(2_654_435_761)).to_be_bytes();
    let plain = |world: &World| files(world, DEEP).1;
    for row in 0..4_000 {
        world.put(scattered(row), [7; 76]);
        if row % 50 == 49 {
            world.flush();
            world.env.run_all();
        }
    }
    assert!(files(&world, DEEP).0 > 10 && plain(&world) == 0, "nothing was put off");

    for row in 4_000..6_000 {
        world.put(scattered(row), [7; 76]);
    }
    world.flush();
    let mut most = 0;
    while world.env.step() {
        most = most.max(plain(&world));
    }
    let debt = world.tree.stats().compaction_debt_bytes;
    assert!(most > 3 && debt == 0, "{most} files were plain; {debt} bytes are to be rewritten");
    world.rest(10);
    assert_eq!(plain(&world), 0);
    world.check();
}

/// Where nothing is merged, a file is rewritten for being compressed alone.
#[test]
fn rows_in_order_are_compressed_even_while_compactions_are_behind() {
    let mut world = world(10);
    for row in 0..6_000u32 {
        world.put(row.to_be_bytes(), [7; 76]);
    }
    world.flush();
    while world.env.step() {
        assert_eq!(files(&world, DEEP).1, 0);
    }
    assert!(files(&world, DEEP).0 > 5);
    world.check();
}

/// R-E22: damage that is found by looking whether compression pays keeps that file as it is, and no other.
#[test]
fn a_damaged_file_is_left_as_it_is() {
    let mut world = world(8);
    append(&mut world, 0..5_000, false);
    let state = world.levels();
    let young = state.level(Level::ONE).first().unwrap().path().to_owned();
    drop(state);
    world.env.flip(&young, 100).unwrap();
    world.reopen().unwrap();
    world.rest(5);
    assert!(world.tree.last_background_error().unwrap().contains("checksum"));
    let left = world.levels().files().filter(|(_, file)| !file.is_dense()).count();
    assert_eq!((left, world.table_files()), (1, world.levels().files().count()));
}

#[test]
fn what_compression_would_not_make_smaller_is_not_rewritten() {
    let mut world = world(5);
    append(&mut world, 0..5_000, true);
    let (count, plain) = files(&world, DEEP);
    assert!(count > 20 && plain == count, "{plain} of {count}");
    world.rest(5);
    assert_eq!(files(&world, Level::ZERO..).1, files(&world, Level::ZERO..).0);
    world.reopen().unwrap();
    world.env.run_all();
    world.rest(5);
    assert_eq!(world.tree.stats().compactions, 0);
    world.check();
}

#[test]
fn what_was_not_compressed_is_once_compression_is_asked_for() {
    let mut world = World::with(6, Compression::None);
    append(&mut world, 0..5_000, false);
    world.tree.compact_all().unwrap();
    let (stored, raw) = bytes(&world);
    assert!(stored > raw, "{stored} of {raw}");
    world.options = world.options.clone().compression(Compression::Zstd(1));
    world.reopen().unwrap();
    world.env.run_all();
    let (stored, raw) = bytes(&world);
    assert!(stored < raw / 8, "{stored} of {raw}");
    let compactions = world.tree.stats().compactions;
    assert_eq!(compactions, world.levels().files().count() as u64, "each file once");
    world.reopen().unwrap();
    world.env.run_all();
    assert_eq!(world.tree.stats().compactions, 0, "and no more");
    world.check();
}
