//! How many files there are of little that is written.

use super::super::join::JOINED;
use super::*;

/// Files of which none reaches across another's keys, flushed one by one in an order.
fn flush_each(world: &mut World, rows: impl Iterator<Item = u64>) {
    for row in rows {
        world.put(key(row), [row as u8; 20]);
        world.flush();
        world.env.run_all();
    }
}

/// R-E03: files are as many as what is in them wants, not as many as flushes, and nothing is written very often for it.
#[test]
fn r_e03_small_files_beside_each_other_become_one() {
    let scattered = (0..400).map(|n| n * 617 % 1_000).collect::<Vec<_>>();
    for (order, rows) in [
        ("ascending", (0..400).collect()),
        ("descending", (0..400).rev().collect()),
        ("scattered", scattered),
    ] {
        let mut world = World::with(1, Compression::None);
        flush_each(&mut world, rows.into_iter());
        let files = world.levels().files().count();
        // At most so many of each size, of which one is eight times the next, and of sizes in between.
        assert!(files < 6 * JOINED, "{order}: {files} files");
        let stats = world.tree.stats();
        let written = stats.compaction_written_bytes / stats.flush_bytes;
        assert!(written < 8, "{order}: written {written} times after the flush");
        world.check();
        world.tree.verify().unwrap();
    }
}

/// A compaction that gives back no file would be done for ever.
#[test]
fn where_a_table_is_being_loaded_nothing_is_joined_across_it() {
    let mut world = World::with(1, Compression::None);
    let reserved = super::super::Reservation::new(&world.tree, &key(500));
    flush_each(&mut world, (496..504).map(|row| if row < 500 { row } else { row + 1 }));
    world.env.run_all();
    let before = world.tree.stats();
    assert_eq!(before.compactions, 0, "{before:?}");
    drop(reserved);
    flush_each(&mut world, 600..604);
    assert!(world.tree.stats().compactions > 0);
    world.check();
}
