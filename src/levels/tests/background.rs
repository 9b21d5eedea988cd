//! Flush and compaction, in the background, against the model.

use std::io::ErrorKind;
use std::time::Duration;

use super::*;
use crate::env::{Fault, Operation};

/// Writes that hit a few keys again and again, delete some, and sometimes a range.
fn mixed(world: &mut World, dice: &mut Dice, writes: u64) {
    for _ in 0..writes {
        let n = dice.roll(400);
        match dice.roll(100) {
            0 => world.write(Op::DeleteRange(key(n), key(n + dice.roll(60)))),
            1..20 => world.write(Op::Delete(key(n))),
            _ => world.put(key(n), vec![n as u8; dice.roll(120) as usize]),
        }
    }
}

#[test]
fn what_is_written_is_read_through_all_levels() {
    let mut world = World::new(1);
    let mut dice = Dice(1);
    for round in 0..40 {
        mixed(&mut world, &mut dice, 300);
        if round % 3 == 0 {
            while world.env.step() {}
        }
        if round % 5 == 0 {
            world.check();
        }
        if round % 13 == 5 {
            world.reopen().unwrap();
            world.check();
        }
    }
    world.env.run_all();
    world.check();
    let stats = world.tree.stats();
    assert!(stats.compactions >= 5 && stats.flushes > 2, "{stats:?}");
    assert!(stats.levels[0].files < 4, "{stats:?}");
    assert_eq!(stats.compaction_debt_bytes, 0, "{stats:?}");
    assert_eq!(stats.last_background_error, None);
    world.tree.verify().unwrap();
    assert_eq!(world.table_files(), world.levels().files().count(), "no file is left behind");
}

/// As who opens a database to read it has it.
#[test]
fn without_threads_for_it_nothing_is_compacted_but_by_hand() {
    let mut world = World::new(5);
    let with_threads = world.options.clone();
    world.options = with_threads.clone().background_threads(0);
    world.reopen().unwrap();
    let pile_up = |world: &mut World| {
        for i in 0..10 {
            world.put(key(i), [1; 50]);
            world.flush();
            world.env.run_all();
        }
    };
    pile_up(&mut world);
    let stats = world.tree.stats();
    assert_eq!((stats.levels[0].files, stats.compactions, stats.files_moved), (10, 0, 0));
    world.check();
    world.tree.compact_all().unwrap();
    assert_eq!(world.tree.stats().levels[0].files, 0);
    pile_up(&mut world);
    world.options = with_threads;
    world.reopen().unwrap();
    world.env.run_all();
    assert!(world.tree.stats().levels[0].files < 4, "{:?}", world.tree.stats());
    world.check();
}

#[test]
fn many_rows_reach_deep_levels() {
    let mut world = World::new(2);
    let mut dice = Dice(2);
    for i in 0..9_000 {
        world.put(key(dice.roll(1 << 40)), vec![i as u8; 60]);
        if i % 50 == 0 {
            world.env.run_all();
        }
    }
    world.flush();
    world.env.run_all();
    world.check();
    assert!(world.tree.stats().levels[2].files > 0, "{:?}", world.tree.stats());
    for level in Level::all().skip(1) {
        assert!(world.levels().level(level).is_sorted_by(|a, b| a.meta.largest < b.meta.smallest));
    }
}

#[test]
fn rows_in_order_are_moved_and_not_rewritten() {
    let mut world = World::with(3, Compression::None);
    for i in 0..6_000 {
        world.put(key(i), [7; 60]);
        world.env.run_all();
    }
    world.check();
    let stats = world.tree.stats();
    assert!(stats.files_moved > 10, "{stats:?}");
    assert_eq!(stats.compaction_read_bytes, 0, "{stats:?}");
}

#[test]
fn a_snapshot_keeps_its_versions_and_its_release_gives_them_back() {
    let mut world = World::new(4);
    for i in 0..100 {
        world.put(key(i), [1; 50]);
    }
    let snapshot = world.tree.register_snapshot();
    for round in 0..10 {
        for i in 0..100 {
            world.put(key(i), [round; 50]);
        }
        world.flush();
        world.env.run_all();
    }
    for i in 0..50 {
        world.write(Op::Delete(key(i)));
    }
    world.flush();
    world.tree.compact_all().unwrap();
    world.check();
    world.check_at(snapshot.ticks() as usize);
    let entries = |world: &World| world.levels().files().map(|(_, f)| f.meta.entries).sum::<u64>();
    assert_eq!(entries(&world), 200, "two versions of each key, of the deleted ones a tombstone");
    world.tree.release_snapshot(snapshot);
    world.env.run_all();
    world.check();
    assert_eq!(entries(&world), 50, "without a manual step");
}

/// R-E19: space comes back without a manual step.
#[test]
fn mass_deletes_give_their_space_back() {
    let mut world = World::new(5);
    for i in 0..3_000 {
        world.put(key(i), [1; 60]);
        world.env.run_all();
    }
    for i in 0..3_000 {
        world.write(Op::Delete(key(i)));
        world.env.run_all();
    }
    world.flush();
    world.env.run_all();
    world.check();
    let left: u64 = world.levels().files().map(|(_, f)| f.meta.entries).sum();
    assert!(left < 300, "{:?}", world.tree.stats());
}

/// R-E19: as above; but what a few deletions would bring back is not worth rewriting all that is below.
#[test]
fn deletions_wait_in_level_0_until_they_bring_back_a_good_part() {
    let mut world = World::new(8);
    for i in 0..400 {
        world.put(key(i), [1; 50]);
    }
    world.flush();
    world.tree.compact_all().unwrap();
    let entries = |world: &World| world.levels().files().map(|(_, f)| f.meta.entries).sum::<u64>();
    // All over the rows, so that each of the files below has some.
    let delete = |world: &mut World, numbers: std::ops::Range<u64>| {
        numbers.for_each(|n| world.write(Op::Delete(key(n * 37 % 400))));
        world.flush();
        world.env.run_all();
        world.check();
    };
    delete(&mut world, 0..30);
    assert_eq!(entries(&world), 430, "30 tombstones, and what they hide");
    delete(&mut world, 30..70);
    assert_eq!(entries(&world), 330, "without a manual step");
}

/// R-E20: a hot row does not grow.
#[test]
fn a_row_that_is_rewritten_constantly_takes_little_space() {
    let mut world = World::new(6);
    for i in 0..5_000u64 {
        world.put("hot", i.to_le_bytes());
        world.env.run_all();
    }
    world.flush();
    world.env.run_all();
    world.check();
    assert!(world.levels().files().map(|(_, f)| f.meta.entries).sum::<u64>() <= 4);
}

fn no_reads_of_tables(world: &World) {
    world.env.fail(Fault::new(Operation::Read, ".sst", ErrorKind::Other));
}

/// R-E17: what a dropped table leaves is removed without being read, and so is its tombstone.
#[test]
fn files_deleted_whole_are_removed_unread_and_then_the_range_tombstone() {
    let mut world = World::new(7);
    let mut dice = Dice(7);
    for _ in 0..3_000 {
        world.put([b"drop", &*key(dice.roll(100_000))].concat(), [1; 60]);
        world.env.run_all();
    }
    world.flush();
    world.tree.compact_all().unwrap();
    world.env.run_all();
    let files = world.levels().files().count() as u64;
    assert!(files > 5);
    world.write(Op::DeleteRange(b"drop".to_vec(), b"dros".to_vec()));
    world.put("other", "stays");
    world.freeze();
    no_reads_of_tables(&world);
    let read_before = world.tree.stats().compaction_read_bytes;
    // The flush opens its output: let that one be read.
    world.env.clear_faults();
    world.tree.flush_now().unwrap();
    no_reads_of_tables(&world);
    world.env.run_all();
    world.env.clear_faults();
    let stats = world.tree.stats();
    assert_eq!(stats.files_dropped_unread, files);
    assert_eq!(stats.compaction_read_bytes, read_before);
    assert_eq!(stats.range_tombstones, 0, "nothing is left for it to delete");
    assert_eq!(stats.background_failures, 0, "{stats:?}");
    world.check();
    world.reopen().unwrap();
    world.check();
    assert_eq!(world.table_files(), 1);
}

/// R-E19: a range tombstone over parts of files is applied and goes away.
#[test]
fn a_range_tombstone_is_applied_in_the_background_and_dropped() {
    let mut world = World::new(8);
    for i in 0..3_000 {
        world.put(key(i), [1; 60]);
        world.env.run_all();
    }
    world.flush();
    world.env.run_all();
    let snapshot = world.tree.register_snapshot();
    world.write(Op::DeleteRange(key(5), key(2_990)));
    world.flush();
    world.env.run_all();
    assert_eq!(world.tree.stats().range_tombstones, 1, "the snapshot looks behind it");
    world.check_at(snapshot.ticks() as usize);
    world.reopen().unwrap();
    world.check();
    world.env.run_all();
    let stats = world.tree.stats();
    assert_eq!(stats.range_tombstones, 0);
    assert!(stats.files_dropped_unread > 5, "{stats:?}");
    assert_eq!(stats.levels.iter().map(|l| l.entries).sum::<u64>(), 15);
    world.check();
}

/// Thousands of dropped tables leave nothing behind.
#[test]
fn range_tombstones_with_nothing_to_delete_do_not_pile_up() {
    let mut world = World::new(9);
    for round in 0..300 {
        let table = format!("t{round:04}").into_bytes();
        world.put([&*table, b"row"].concat(), [1; 20]);
        world.write(Op::DeleteRange(table.clone(), [&*table, b"z"].concat()));
        if round % 50 == 0 {
            world.flush();
        }
    }
    world.flush();
    world.env.run_all();
    world.check();
    let stats = world.tree.stats();
    assert_eq!((stats.range_tombstones, world.table_files()), (0, 0), "{stats:?}");
}

#[test]
fn a_full_disk_is_tried_again_and_nothing_is_lost() {
    for on in [Operation::Write, Operation::Sync, Operation::Create] {
        for path in [".sst", "MANIFEST", "CURRENT"] {
            let mut world = World::new(10);
            let mut dice = Dice(10);
            mixed(&mut world, &mut dice, 500);
            world.env.run_all();
            let fault = Fault::new(on, path, ErrorKind::StorageFull);
            world.env.fail(Fault { after: 1, times: 7, ..fault });
            for _ in 0..40 {
                mixed(&mut world, &mut dice, 20);
                world.env.run_all();
                world.check();
            }
            for _ in 0..60 {
                world.rest(10);
            }
            world.env.clear_faults();
            world.check();
            let stats = world.tree.stats();
            assert_eq!(stats.last_background_error, None, "{on:?} {path} {stats:?}");
            assert_eq!(stats.frozen_memtables, 0, "{on:?} {path} {stats:?}");
            assert_eq!(world.table_files(), world.levels().files().count(), "{on:?} {path}");
            world.env.crash(crate::env::CrashStyle::LoseUnsynced);
            world.reopen().unwrap();
            world.check();
        }
    }
}

#[test]
fn a_failing_flush_is_reported_and_blocks_writers_in_the_end() {
    let mut world = World::new(11);
    world.env.fail(Fault::new(Operation::Write, ".sst", ErrorKind::StorageFull));
    let mut last_wait = Duration::ZERO;
    let reason = loop {
        world.put(key(world.log.len() as u64), [1; 100]);
        world.env.run_all();
        match world.tree.admit(100) {
            Admission::Go => assert_eq!(last_wait, Duration::ZERO),
            Admission::Wait(wait) => last_wait = last_wait.max(wait),
            Admission::Blocked(reason) => break reason,
        }
        assert!(world.log.len() < 10_000);
    };
    assert!(reason.contains("memtables") && reason.contains("cannot write"), "{reason}");
    assert!(last_wait > Duration::ZERO);
    assert!(world.tree.stats().background_failures > 0);
    world.check();
    world.env.clear_faults();
    world.rest(10);
    assert_eq!(world.tree.admit(100), Admission::Go);
    world.check();
}

/// R-E22: a damaged file stops the compactions that need it, and nothing else.
#[test]
fn damage_found_by_a_compaction_is_kept_in_mind() {
    let mut world = World::new(12);
    world.options = world.options.clone().read_mode(crate::options::ReadMode::Pread);
    world.reopen().unwrap();
    for i in 0..200 {
        world.put(key(i), [1; 60]);
    }
    world.flush();
    world.env.run_all();
    let path = world.levels().files().next().unwrap().1.path().to_owned();
    world.env.flip(&path, 100).unwrap();
    for round in 0..6 {
        for i in 0..200 {
            world.put(key(i), [round; 60]);
        }
        world.flush();
        world.env.run_all();
    }
    let stats = world.tree.stats();
    let error = stats.last_background_error.unwrap();
    assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
    assert!(stats.background_failures < 5, "it is not tried again and again");
    assert!(world.tree.verify().is_err());
    let strict = world.reopen();
    assert!(strict.is_ok(), "blocks are checked when they are read: {strict:?}");
    world.options = world.options.clone().recovery(Recovery::Salvage);
    let opened = open(&world.env, &world.options).unwrap();
    assert_eq!(opened.lost.len(), 1);
    assert_eq!(opened.lost[0].file, path);
    assert!(opened.lost[0].found.contains("200 entries between keys key000000 and key000199"));
    assert!(world.env.list(&PathBuf::from(DIR)).iter().any(|n| n.ends_with(".damaged")));
}

#[test]
fn salvage_keeps_a_damaged_manifest_aside() {
    let mut world = World::new(15);
    for i in 0..300 {
        world.put(key(i), [1; 60]);
    }
    world.flush();
    world.put("late", "row");
    world.flush();
    let names = world.env.list(&PathBuf::from(DIR));
    let manifest = names.iter().find(|n| n.starts_with("MANIFEST")).unwrap().clone();
    world.env.flip(&PathBuf::from(DIR).join(&manifest), 60).unwrap();
    assert!(world.reopen().is_err());
    world.options = world.options.clone().recovery(Recovery::Salvage);
    world.reopen().unwrap();
    world.put("after", "row");
    world.flush();
    world.env.run_all();
    let names = world.env.list(&PathBuf::from(DIR));
    assert!(names.contains(&format!("{manifest}.damaged")), "{names:?}");
    crate::salvage::end(&*world.env.disk(), DIR.as_ref()).unwrap();
    world.options = world.options.clone().recovery(Recovery::Strict);
    world.reopen().unwrap();
    assert!(read_all(&world.tree.view(), Version::MAX).unwrap().contains_key(&b"after"[..]));
}

/// No newer file of level 0 may overtake an older one that is stuck because it is damaged.
#[test]
fn nothing_overtakes_a_damaged_file() {
    let mut world = World::new(16);
    world.options = world.options.clone().read_mode(crate::options::ReadMode::Pread);
    world.reopen().unwrap();
    let all = |world: &mut World, byte: u8| {
        (0..100).for_each(|i| world.put(key(i), [byte; 60]));
        world.flush();
    };
    all(&mut world, 0);
    world.env.run_all();
    all(&mut world, 1);
    let path = world.levels().level(Level::ZERO)[0].path().to_owned();
    world.env.flip(&path, 100).unwrap();
    for byte in 2..12 {
        all(&mut world, byte);
        world.env.run_all();
    }
    let levels = world.levels();
    let newest = |level: Level| levels.level(level).iter().map(|f| f.meta.max_version).max();
    let damaged = levels.files().find(|(_, file)| file.path() == path).unwrap();
    assert_eq!(damaged.0, Level::ZERO);
    assert!(newest(Level::ONE) < Some(damaged.1.meta.min_version));
}

#[test]
fn a_missing_file_is_named() {
    let mut world = World::new(13);
    world.put("a", "b");
    world.flush();
    let path = world.levels().files().next().unwrap().1.path().to_owned();
    world.env.remove_file(&path);
    match world.reopen() {
        Err(crate::error::Error::Corruption(corruption)) => assert_eq!(corruption.file, path),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reader_keeps_its_view_and_the_files_in_it() {
    let mut world = World::new(14);
    for i in 0..500 {
        world.put(key(i), [1; 60]);
    }
    world.flush();
    let (view, at) = world.tree.read_point();
    for i in 0..500 {
        world.write(Op::Delete(key(i)));
    }
    world.flush();
    world.tree.compact_all().unwrap();
    world.env.run_all();
    assert!(world.table_files() > 0, "the reader holds them");
    assert_eq!(read_all(&view, at).unwrap(), world.model(500));
    drop(view);
    world.env.run_all();
    assert_eq!(world.table_files(), 0);
}

/// One memory budget: what memtables take beyond two of them is the cache's no longer, until it is
/// flushed.
#[test]
fn the_cache_gives_way_to_memtables_that_wait() {
    let mut world = World::new(15);
    let capacity = |world: &World| world.tree.cache().stats().capacity as usize;
    let (usual, budget) = (capacity(&world), world.options.budget());
    while world.tree.view().frozen.len() < 2 {
        world.put(key(world.log.len() as u64), [1; 60]);
    }
    world.tree.share_memory();
    let memtables = world.tree.view().memtable_room();
    assert!(memtables > budget / 4 && capacity(&world) + memtables <= budget, "{memtables}");
    while world.tree.view().frozen.len() < 9 {
        world.put(key(world.log.len() as u64), [1; 60]);
    }
    world.tree.share_memory();
    // Beside two memtables it has three quarters, beside any number of them half.
    assert_eq!(capacity(&world), usual - budget / 4);
    world.flush();
    assert_eq!(capacity(&world), usual);
}

/// Closing does not wait for what is under way; nothing is lost, and nothing is left behind.
#[test]
fn work_under_way_gives_up_when_the_tree_closes() {
    let mut world = World::new(9);
    let mut dice = Dice(9);
    mixed(&mut world, &mut dice, 900);
    world.flush();
    mixed(&mut world, &mut dice, 900);
    world.tree.close();
    assert!(matches!(world.tree.compact_all(), Err(crate::Error::Closed)));
    assert!(matches!(world.tree.flush_now(), Err(crate::Error::Closed)));
    world.env.run_all();
    assert_eq!(world.tree.stats().background_failures, 0);
    world.check();
    world.reopen().unwrap();
    world.check();
    world.flush();
    world.env.run_all();
    assert_eq!(world.table_files(), world.levels().files().count(), "no file is left behind");
}
