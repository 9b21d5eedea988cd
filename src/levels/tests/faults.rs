//! What fails once, at any point, and is tried again.

use std::io::ErrorKind;

use super::*;
use crate::env::{CrashStyle, Fault, Operation};
use crate::error::Error;
use crate::options::ReadMode;

/// Rows in order, whose files are moved from level to level, while the machine does what it has to.
fn write_in_order(world: &mut World) {
    for i in 0..700 {
        world.put(key(i), [7; 60]);
        world.env.run_all();
        if i % 50 == 0 {
            // What failed is tried again.
            world.rest(10);
        }
    }
    world.freeze();
    // How many flushes there were before depends on the machine: this one may be what fails.
    let _ = world.tree.flush_now();
    world.rest(10);
}

/// R-E10, R-E22: of an edit that moves a file it may be unknown whether it is durable, but not whether
/// the file is part of the tree.
#[test]
fn a_file_that_is_moved_while_the_manifest_fails_stays() {
    let mut whole = World::with(20, Compression::None);
    write_in_order(&mut whole);
    assert!(whole.tree.stats().files_moved > 3, "{:?}", whole.tree.stats());
    for on in [Operation::Write, Operation::Sync] {
        for after in 0..20 {
            let mut world = World::with(20, Compression::None);
            let fault = Fault::new(on, "MANIFEST", ErrorKind::StorageFull);
            world.env.fail(Fault { after, times: 1, ..fault });
            write_in_order(&mut world);
            let files = world.levels().files().count();
            assert_eq!(world.table_files(), files, "{on:?} {after}");
            world.check();
            world.env.crash(CrashStyle::LoseUnsynced);
            world.reopen().unwrap_or_else(|error| panic!("{on:?} {after}: {error}"));
            world.check();
        }
    }
}

/// R-E24: what a failed edit leaves in the directory may be all the room that there is.
#[test]
fn the_room_of_a_failed_flush_comes_back_before_it_is_tried_again() {
    let mut world = World::new(21);
    world.put(key(1), [7; 60]);
    world.freeze();
    world.env.fail(Fault {
        times: 1,
        ..Fault::new(Operation::Write, "MANIFEST", ErrorKind::StorageFull)
    });
    world.tree.flush_now().unwrap_err();
    assert_eq!(world.table_files(), 1, "the edit that names it may be durable");
    world.env.fail(Fault::new(Operation::Write, ".sst", ErrorKind::StorageFull));
    world.tree.flush_now().unwrap_err();
    world.env.run_all();
    assert_eq!(world.table_files(), 0);
    world.env.clear_faults();
    world.tree.flush_now().unwrap();
    world.check();
}

/// R-E24: nobody has to write for it.
#[test]
fn a_flush_by_hand_that_fails_is_tried_again() {
    let mut world = World::new(22);
    world.put(key(1), [7; 60]);
    world.freeze();
    let fault = Fault::new(Operation::Write, ".sst", ErrorKind::StorageFull);
    world.env.fail(Fault { times: 1, ..fault });
    world.tree.flush_now().unwrap_err();
    assert!(world.tree.last_background_error().is_some());
    world.rest(1);
    let stats = world.tree.stats();
    assert_eq!((stats.frozen_memtables, stats.last_background_error), (0, None));
    world.check();
}

/// R-E22, R-E24: a file that the device fails to read is told of as long as it is so, keeps no other from being
/// compacted, and is not read all the time.
#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let mut world = World::with(23, Compression::None);
    world.options = world.options.clone().read_mode(ReadMode::Pread);
    world.reopen().unwrap();
    world.put_rows(50..100);
    let snapshot = world.tree.register_snapshot();
    world.put_rows(50..100);
    world.flush();
    world.tree.compact_all().unwrap();
    let name = &fail_reads_of_a_file(&world);
    // Half of it is hidden by newer versions that all readers see now.
    world.tree.release_snapshot(snapshot);
    world.env.run_all();
    let failing = |world: &World| world.tree.last_background_error().map(|cause| cause.to_string());
    assert!(failing(&world).is_some_and(|cause| cause.contains(name)), "{:?}", failing(&world));

    for _ in 0..4 {
        world.put_rows(0..20);
        world.flush();
        world.env.run_all();
    }
    assert!(world.levels().level(Level::ZERO).len() < 4, "other files are compacted");
    assert!(failing(&world).is_some_and(|cause| cause.contains(name)), "{:?}", failing(&world));

    for _ in 0..3_600 {
        world.rest(1);
    }
    let failures = world.tree.stats().background_failures;
    assert!((15..25).contains(&failures), "{failures} in an hour");
    world.env.clear_faults();
    world.rest(600);
    assert_eq!(failing(&world), None);
    assert!(world.levels().files().all(|(_, file)| file.meta.entries == file.meta.keys));
    world.check();
}

/// The device fails to read a file of the tree from now on; which one.
fn fail_reads_of_a_file(world: &World) -> String {
    let levels = world.levels();
    let (_, file) = levels.files().next().unwrap();
    let name = file.path().file_name().unwrap().to_str().unwrap();
    world.env.fail(Fault::new(Operation::Read, name, ErrorKind::Other));
    name.to_owned()
}

/// Makes level 0 due, and runs what is due.
fn overfill_level_0(world: &mut World) {
    for _ in 0..5 {
        world.put_rows(10..20);
        world.flush();
    }
    world.env.run_all();
}

/// Removes the files that have these rows alone.
fn drop_rows(world: &mut World, rows: std::ops::Range<u64>) {
    world.write(Op::DeleteRange(key(rows.start), key(rows.end)));
    world.tree.drop_deleted(v(world.log.len() as u64)).unwrap();
}

/// R-E24: what is told of is what fails at present.
#[test]
fn a_compaction_that_is_no_longer_to_be_done_is_not_told_of() {
    let mut world = World::with(24, Compression::None);
    world
        .env
        .fail(Fault { after: 5, ..Fault::new(Operation::Create, ".sst", ErrorKind::StorageFull) });
    overfill_level_0(&mut world);
    let failing = |world: &World| world.tree.last_background_error();
    for _ in 0..10 {
        assert!(failing(&world).is_some_and(|cause| cause.contains(".sst")), "it is to be done");
        world.rest(10);
    }
    drop_rows(&mut world, 10..20);
    assert_eq!(world.levels().files().count(), 0);
    world.rest(10);
    assert_eq!(failing(&world), None);
    world.check();
}

/// R-E22: nor is a file that is to be read by nobody.
#[test]
fn a_file_that_nobody_is_to_read_any_more_is_not_told_of() {
    let mut world = World::with(25, Compression::None);
    world.options = world.options.clone().read_mode(ReadMode::Pread);
    world.reopen().unwrap();
    world.put_rows(0..50);
    world.flush();
    world.tree.compact_all().unwrap();
    let name = &fail_reads_of_a_file(&world);
    overfill_level_0(&mut world);
    let failing = |world: &World| world.tree.last_background_error();
    for _ in 0..10 {
        assert!(failing(&world).is_some_and(|cause| cause.contains(name)), "{:?}", failing(&world));
        world.rest(100);
    }
    drop_rows(&mut world, 10..20);
    assert_eq!(world.levels().files().count(), 1);
    world.rest(600);
    assert_eq!(failing(&world), None);
    world.env.clear_faults();
    world.check();
}

/// R-E24: of two flushes at once, one may fail and be told of after the other was done.
#[test]
fn a_failed_flush_of_what_another_has_flushed_is_not_told_of() {
    let mut world = World::new(27);
    world.put(key(1), [7; 60]);
    world.flush();
    let error = Error::io("write", &PathBuf::from("000001.sst"), ErrorKind::StorageFull.into());
    world.tree.flush_failed(&error);
    assert!(world.tree.last_background_error().is_some());
    world.rest(1);
    assert_eq!(world.tree.last_background_error(), None);
}

/// R-E08, R-E22: a large compaction is done in two halves. Whichever fails, and where, nothing of either is left, and
/// all of it is tried again.
#[test]
fn a_compaction_in_halves_that_fails_leaves_nothing_behind() {
    let scattered = |row: u32| row.wrapping_mul(2_654_435_761).to_be_bytes();
    let mut world = World::with(24, Compression::None);
    world.options = world.options.clone().background_threads(0);
    world.reopen().unwrap();
    for row in 0..3_000u32 {
        world.put(scattered(row % 1_500), [row as u8; 76]);
        if row == 1_500 {
            world.flush();
            world.tree.compact_all().unwrap();
        }
    }
    for row in (0..1_500u32).step_by(3) {
        world.write(Op::Delete(scattered(row).to_vec()));
    }
    world.flush();
    let before = world.levels().files().count();
    let size = world.options.sizing();
    let bytes: u64 = world.levels().files().map(|(_, file)| file.meta.bytes).sum();
    assert!(bytes > 8 * size.file_bytes && world.levels().level(Level::ONE.below()).len() > 4);
    world.env.run_all();
    let mut failures = 0;
    for after in 0.. {
        let fault = Fault::new(Operation::Write, ".sst", ErrorKind::StorageFull);
        world.env.fail(Fault { after, times: 1, ..fault });
        let done = world.tree.compact_all();
        world.env.clear_faults();
        world.env.run_all();
        let files = world.levels().files().count();
        assert_eq!(world.table_files(), files, "{after}");
        world.check();
        if done.is_ok() {
            break;
        }
        assert_eq!(files, before, "{after}");
        failures += 1;
    }
    let files = world.levels().files().count();
    assert!(failures >= files && files < before, "{failures} failures, {files} files");
}
