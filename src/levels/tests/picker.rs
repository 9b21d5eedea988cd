//! What is picked while tasks run.

use super::super::compression::CompressionRule;
use super::super::failures::Unread;
use super::super::picker::{Picker, Task};
use super::*;
use crate::sst::FileId;

/// Level 1 has files without anything in vain, and then files with rows twice.
fn world() -> World {
    let mut world = World::with(1, Compression::None);
    world.options = world.options.clone().background_threads(0);
    world.reopen().unwrap();
    world.put_rows(0..300);
    let snapshot = world.tree.register_snapshot();
    world.put_rows(200..300);
    world.flush();
    world.tree.compact_all().unwrap();
    world.tree.release_snapshot(snapshot);
    world
}

/// The files that are rewritten next while a task removes the first one of level 1.
fn picks(world: &World) -> Option<Vec<FileId>> {
    let levels = world.levels();
    let first = Arc::clone(&levels.level(Level::ONE)[0]);
    let running = Task::Drop(vec![(Level::ONE, first)]).claims();
    let picker = Picker {
        is_full: false,
        sheds_level_0: false,
        state: &levels,
        horizon: &world.tree.snapshots.horizon(),
        sizing: &world.options.sizing(),
        compression: CompressionRule::of(&world.options, None),
        running: running.iter().collect(),
        reserved: &[],
        awaited: Vec::new(),
        is_quiet: false,
        unread: &Unread::default(),
    };
    picker.pick().map(|task| match task {
        Task::Rewrite(inputs, _) => inputs.ids(),
        _ => Vec::new(),
    })
}

/// R-E20, R-E24: level 0 waits for one file of level 1, and finds no other at work when that one is done.
#[test]
fn nothing_is_reclaimed_in_a_level_that_another_waits_for() {
    let mut world = world();
    let picked = picks(&world).expect("a file with rows twice");
    assert!(world.levels().level(Level::ONE)[1..].iter().any(|file| picked == [file.id()]));
    for _ in 0..4 {
        world.put(key(0), "first");
        world.put(key(299), "last");
        world.flush();
    }
    assert_eq!(world.levels().level(Level::ZERO).len(), 4);
    assert!(world.levels().level(Level::ONE).len() > 2);
    assert_eq!(picks(&world), None);
}
