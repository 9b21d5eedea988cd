//! What is compressed follows from how much there is.

use super::*;
use crate::sst::FileMeta;

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
