//! Damaged files, and what range tombstones do for them.

use std::io::ErrorKind;
use std::path::Path;

use super::super::compaction::Inputs;
use super::super::failures::{Remedy, Unread};
use super::super::picker::Task;
use super::*;
use crate::env::{Fault, Operation};
use crate::error::{Damage, Error};
use crate::options::ReadMode;

/// A tree that reads what is on the disk, as it is there.
fn world(seed: u64) -> World {
    let mut world = World::with(seed, Compression::None);
    world.options = world.options.clone().read_mode(ReadMode::Pread);
    world.reopen().unwrap();
    world
}

fn put_rows(world: &mut World, table: &str, rows: std::ops::Range<u64>) {
    rows.for_each(|row| world.put([table.as_bytes(), &*key(row)].concat(), [7; 60]));
}

/// Some rows of three tables in one file of level 0, again and again.
fn fill_level_0(world: &mut World, files: usize) {
    for _ in 0..files {
        ["a", "b", "c"].into_iter().for_each(|table| put_rows(world, table, 0..20));
        world.flush();
        world.env.run_all();
    }
}

/// Makes a file of table `b` in level 1 that a compaction then finds damaged.
fn damage_a_table(world: &mut World) -> PathBuf {
    put_rows(world, "b", 0..50);
    world.flush();
    world.tree.compact_all().unwrap();
    let path = world.levels().level(Level::ONE)[0].path().to_owned();
    world.env.flip(&path, 100).unwrap();
    fill_level_0(world, 4);
    assert!(world.tree.last_background_error().is_some());
    path
}

fn delete_table(world: &mut World) {
    world.write(Op::DeleteRange(b"b".to_vec(), b"c".to_vec()));
    world.flush();
    world.env.run_all();
}

fn is_there(world: &World, path: &Path) -> bool {
    world.env.read_file(path).is_ok()
}

/// R-E17, R-E22: that a file is damaged does not matter to who removes it unread.
#[test]
fn dropping_a_table_removes_its_damaged_file() {
    let mut world = world(1);
    let path = damage_a_table(&mut world);
    let level_0 = world.levels().level(Level::ZERO).len();
    assert!(level_0 >= 4, "{level_0}: what is over the damaged file waits");
    delete_table(&mut world);
    assert!(!is_there(&world, &path));
    assert_eq!(world.tree.last_background_error(), None);
    assert!(world.levels().level(Level::ZERO).len() < 4, "rows of the other tables are compacted");
    // Once it is quiet.
    world.env.advance(std::time::Duration::from_secs(6));
    world.env.run_all();
    assert_eq!(world.tree.stats().range_tombstones, 0);
    world.check();
    world.tree.verify().unwrap();
}

/// R-E19, R-E22: a file of which a range tombstone covers what is damaged is rewritten without it, one of
/// which it covers other keys is tried once.
#[test]
fn a_range_tombstone_takes_what_is_damaged_out_of_a_file() {
    let mut world = world(2);
    put_rows(&mut world, "a", 0..300);
    world.flush();
    world.env.run_all();
    let file = Arc::clone(world.levels().files().next().unwrap().1);
    world.env.flip(file.path(), file.meta.bytes / 2).unwrap();
    let failures = |world: &World| world.tree.stats().background_failures;
    let delete = |world: &mut World, rows: std::ops::Range<u64>| {
        let [start, end] = [rows.start, rows.end].map(|row| [b"a", &*key(row)].concat());
        world.write(Op::DeleteRange(start, end));
        world.flush();
        world.env.run_all();
    };
    delete(&mut world, 0..20);
    world.env.advance(std::time::Duration::from_secs(60));
    world.env.run_all();
    assert_eq!(failures(&world), 1);
    world.env.advance(std::time::Duration::from_secs(60));
    world.env.run_all();
    assert_eq!(failures(&world), 1, "it is not tried again and again");
    delete(&mut world, 50..250);
    assert_eq!((failures(&world), world.tree.stats().range_tombstones), (1, 0));
    world.check();
    world.tree.verify().unwrap();
}

/// R-E22: what is told of is what fails at present.
#[test]
fn a_compaction_by_hand_ends_the_failure_of_one_in_the_background() {
    let mut world = World::new(3);
    // The first is moved as it is.
    fill_level_0(&mut world, 4);
    put_rows(&mut world, "a", 0..20);
    world.flush();
    world.env.fail(Fault::new(Operation::Write, ".sst", ErrorKind::StorageFull));
    world.env.run_all();
    assert!(world.tree.last_background_error().is_some());
    world.env.clear_faults();
    world.tree.compact_all().unwrap();
    assert_eq!(world.tree.last_background_error(), None);
    world.check();
}

/// R-E22: damage is kept in mind by whatever read a part of the file since; what the device failed to read is not.
#[test]
fn what_was_read_of_a_damaged_file_does_not_make_it_whole() {
    let mut world = world(4);
    put_rows(&mut world, "a", 0..20);
    world.flush();
    let levels = world.levels();
    let (level, file) = levels.files().next().unwrap();
    let files = vec![(level, vec![Arc::clone(file)])];
    let sampled = Task::Compress(Inputs { files, output: level }, 1);
    let unread = Error::io("read", file.path(), ErrorKind::Other.into());
    let damaged = Damage::new(0, "a block", "another").in_file(file.path(), 7);
    let mut known = Unread::default();

    assert!(
        matches!(known.note(&sampled, &unread, v(1)), Remedy::Reread(ids, _) if ids == [file.id()])
    );
    assert_eq!(known.tried(file), Some(v(1)));
    known.forget(&sampled);
    assert_eq!(known.tried(file), None);

    known.note(&sampled, &unread, v(2));
    known.try_again(file.id());
    assert_eq!(known.tried(file), None);
    assert_eq!(known.note(&sampled, &damaged, v(3)), Remedy::None);
    // The timer of before, and a task that looked elsewhere.
    known.try_again(file.id());
    known.forget(&sampled);
    assert_eq!(known.tried(file), Some(v(3)));
}
