//! Range tombstones that delete little of a file wait for it to be rewritten (R-E19).

use std::io::ErrorKind;
use std::time::Duration;

use super::*;
use crate::env::{Fault, Operation};
use crate::sst::FileMeta;

const ROWS: u32 = 3_000;

/// Rows of about 80 bytes that nothing makes smaller, in files of about a hundred.
fn world(seed: u64, rows: u32) -> World {
    let mut world = World::with(seed, Compression::None);
    let mut dice = Dice(seed);
    for row in 0..rows {
        world.put(row.to_be_bytes(), [0; 76].map(|_: u8| dice.roll(256) as u8));
    }
    world.flush();
    world.tree.compact_all().unwrap();
    world
}

fn delete(world: &mut World, rows: std::ops::Range<u32>) {
    world
        .write(Op::DeleteRange(rows.start.to_be_bytes().to_vec(), rows.end.to_be_bytes().to_vec()));
}

/// Five rows in the middle of each third file; says of how many.
fn delete_little(world: &mut World) -> u64 {
    let state = world.levels();
    let middles: Vec<u32> = state.files().step_by(3).map(|(_, file)| middle(&file.meta)).collect();
    middles.iter().for_each(|&row| delete(world, row..row + 5));
    world.flush();
    world.env.run_all();
    middles.len() as u64
}

fn middle(meta: &FileMeta) -> u32 {
    let row = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
    row(&meta.smallest).midpoint(row(&meta.largest))
}

fn entries(world: &World) -> u64 {
    world.levels().files().map(|(_, file)| file.meta.entries).sum()
}

fn waiting(world: &World) -> u64 {
    world.tree.stats().range_tombstones
}

#[test]
fn ranges_that_are_little_of_their_files_wait_until_it_is_quiet() {
    let mut world = world(1, ROWS);
    let before = world.tree.stats().compactions;
    let ranges = delete_little(&mut world);
    assert!(ranges > 5);
    world.rest(4);
    world.put(b"later", "row");
    world.flush();
    world.rest(4);
    assert_eq!((world.tree.stats().compactions - before, waiting(&world)), (0, ranges));
    world.check();
    world.rest(1);
    let stats = world.tree.stats();
    assert_eq!((stats.compactions - before, waiting(&world)), (ranges, 0), "each file once");
    assert_eq!(entries(&world), u64::from(ROWS) - 5 * ranges + 1);
    world.rest(60);
    assert_eq!(world.tree.stats().compactions, stats.compactions, "it ends");
    world.check();
}

/// The end of a range is not in it: what is left of a file that ends there is its last row.
#[test]
fn r_e19_a_file_that_ends_where_a_range_does_keeps_its_last_row() {
    let mut world = world(5, ROWS);
    let state = world.levels();
    let (_, file) = state.files().nth(2).unwrap();
    let row = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
    let (first, last) = (row(&file.meta.smallest), row(&file.meta.largest));
    delete(&mut world, first..last);
    world.flush();
    for _ in 0..3 {
        world.rest(6);
    }
    world.check();
    assert_eq!((entries(&world), waiting(&world)), (u64::from(ROWS - (last - first)), 0));
}

#[test]
fn a_range_that_is_a_good_part_of_a_file_is_gone_soon() {
    let mut world = world(2, ROWS);
    let rows = world.levels().files().next().unwrap().1.meta.entries as u32;
    delete(&mut world, 0..rows / 2);
    world.flush();
    world.env.run_all();
    assert_eq!((waiting(&world), entries(&world)), (0, u64::from(ROWS - rows / 2)));
    world.check();
}

/// R-E24: where level 0 cannot be compacted for want of room, what was deleted gives it back file by file.
#[test]
fn on_a_full_disk_files_are_rewritten_one_at_a_time() {
    let mut world = World::with(6, Compression::None);
    for _ in 0..6 {
        (0..40u32).for_each(|row| world.put(row.to_be_bytes(), [7; 60]));
        world.flush();
    }
    world.env.fail(Fault::new(Operation::Write, ".sst", ErrorKind::StorageFull));
    world.env.run_all();
    assert!(world.tree.stats().background_failures > 0);
    let level_0 = |world: &World| world.levels().level(Level::ZERO).len();
    assert_eq!(level_0(&world), 5, "one was moved");
    world.env.clear_faults();
    delete(&mut world, 0..30);
    world.flush();
    world.env.advance(Duration::from_secs(10));
    for done in 1..=6 {
        while world.tree.stats().compactions < done {
            assert!(world.env.step());
        }
        assert_eq!(level_0(&world), 5);
        assert_eq!(entries(&world), 6 * 40 - done * 30, "one file after the other");
    }
    world.env.run_all();
    assert_eq!(level_0(&world), 0, "then there is room for all");
    world.check();
}

#[test]
fn a_compaction_that_comes_by_applies_what_waits() {
    let mut world = world(3, 300);
    assert_eq!(delete_little(&mut world), waiting(&world));
    for round in 0..4u8 {
        (0..300u32).step_by(13).for_each(|row| world.put(row.to_be_bytes(), [round; 76]));
        world.flush();
        world.env.run_all();
    }
    assert_eq!(waiting(&world), 0);
    world.check();
}

/// R-E24: what is done when it is quiet is to be done, also while it is not.
#[test]
fn what_failed_when_it_was_quiet_is_told_of_until_it_is_done() {
    let mut world = world(9, ROWS);
    let ranges = delete_little(&mut world);
    let fault = Fault::new(Operation::Create, ".sst", ErrorKind::StorageFull);
    world.env.fail(Fault { times: 1, ..fault });
    world.rest(5);
    let failing = |world: &World| world.tree.last_background_error();
    assert!(failing(&world).is_some());
    world.put(b"later", "row");
    world.flush();
    world.rest(1);
    assert!(failing(&world).is_some(), "it is not quiet");
    assert_eq!(waiting(&world), ranges);
    world.rest(5);
    assert_eq!((failing(&world), waiting(&world)), (None, 0));
    world.check();
}

#[test]
fn compaction_by_hand_applies_what_waits() {
    let mut world = world(4, ROWS);
    let ranges = delete_little(&mut world);
    assert_eq!(waiting(&world), ranges);
    world.tree.compact_all().unwrap();
    assert_eq!((waiting(&world), entries(&world)), (0, u64::from(ROWS) - 5 * ranges));
    world.check();
}

/// R-E11: what a snapshot sees stays, and goes when it is quiet after its release.
#[test]
fn a_snapshot_keeps_what_waits() {
    let mut world = world(5, ROWS);
    let snapshot = world.tree.register_snapshot();
    let ranges = delete_little(&mut world);
    world.rest(60);
    assert_eq!((waiting(&world), entries(&world)), (ranges, u64::from(ROWS)));
    world.check_at(snapshot.ticks() as usize);
    world.tree.release_snapshot(snapshot);
    world.env.run_all();
    assert_eq!((waiting(&world), entries(&world)), (0, u64::from(ROWS) - 5 * ranges));
    world.check();
}

/// R-E19: what waits when the database is closed does not wait for ever.
#[test]
fn what_waits_is_applied_after_the_next_opening() {
    let mut world = world(6, ROWS);
    let ranges = delete_little(&mut world);
    world.reopen().unwrap();
    world.env.run_all();
    world.check();
    assert_eq!(waiting(&world), ranges);
    world.rest(5);
    assert_eq!((waiting(&world), entries(&world)), (0, u64::from(ROWS) - 5 * ranges));
    world.check();
}

#[test]
fn no_more_than_a_thousand_wait_however_busy_it_is() {
    const MANY: u32 = 15_000;
    let mut world = world(7, MANY);
    for row in (0..MANY).step_by(10) {
        delete(&mut world, row..row + 1);
        world.env.run_all();
        assert!(waiting(&world) <= 1_000, "{row}");
    }
    assert!(waiting(&world) > 800, "{}", waiting(&world));
    world.check();
    world.flush();
    world.rest(5);
    assert_eq!((waiting(&world), entries(&world)), (0, u64::from(MANY) * 9 / 10));
    world.check();
}

/// Rewriting for ranges is no reason not to be quiet, and leaves compressed what is.
#[test]
fn what_is_compressed_at_rest_is_so_with_ranges_applied() {
    let mut world = World::with(8, Compression::Automatic);
    let append = |world: &mut World, rows: std::ops::Range<u32>| {
        rows.for_each(|row| world.put(row.to_be_bytes(), [7; 76]));
        world.flush();
        world.env.run_all();
    };
    (0..50).for_each(|step| append(&mut world, 100 * step..100 * (step + 1)));
    world.rest(5);
    let sizes = |world: &World| {
        let levels = world.levels();
        let plain = levels.files().filter(|(_, file)| !file.is_dense()).count();
        (plain, waiting(world))
    };
    assert_eq!(sizes(&world), (0, 0));
    let ranges = delete_little(&mut world);
    append(&mut world, 5_000..5_100);
    let (before, (plain, _)) = (world.tree.stats().compactions, sizes(&world));
    assert!(waiting(&world) > 0 && plain > 0, "{:?}", sizes(&world));
    world.rest(5);
    assert_eq!(sizes(&world), (0, 0));
    let touched = world.tree.stats().compactions - before;
    assert!(touched <= ranges + 1, "{touched} compactions for {ranges} ranges");
    world.check();
}
