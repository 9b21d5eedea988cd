//! A crash at every point of flushes and compactions leads back to what was committed.

use super::*;
use crate::env::CrashStyle;

/// Flushes, compactions, moves, drops of files, a snapshot; stops when the power is gone.
fn script(world: &mut World) {
    let mut dice = Dice(42);
    for round in 0..6u8 {
        for _ in 0..60 {
            let n = dice.roll(150);
            match dice.roll(20) {
                0..4 => world.write(Op::Delete(key(n))),
                _ => world.put(key(n), vec![round; 40]),
            }
        }
        if round % 2 == 1 {
            let n = dice.roll(100);
            world.write(Op::DeleteRange(key(n), key(n + 40)));
        }
        world.freeze();
        world.tree.on_published();
        world.env.run_all();
    }
    let _ = world.tree.compact_all();
    world.put(key(1), "last");
    world.freeze();
    let _ = world.tree.flush_now();
    world.env.run_all();
}

/// R-E10, R-E22: at every operation, however the disk keeps what was not synced.
#[test]
fn a_crash_at_every_operation_leads_back_to_what_was_committed() {
    let mut whole = World::new(1);
    let before = whole.env.operations();
    script(&mut whole);
    whole.check();
    let operations = whole.env.operations() - before;
    assert!(operations > 60, "{operations}");
    for cut in 0..operations {
        for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
            let mut world = World::new(cut);
            world.env.crash_after(cut);
            script(&mut world);
            world.check();
            world.env.crash(style);
            world.reopen().unwrap_or_else(|error| panic!("cut {cut} {style:?}: {error}"));
            world.check();
            world.env.run_all();
            world.check();
            let files = world.levels().files().count();
            assert_eq!(world.table_files(), files, "cut {cut} {style:?}: files are left behind");
            world.put(key(3), "after");
            world.flush();
            world.tree.compact_all().unwrap();
            world.check();
            world.tree.verify().unwrap();
        }
    }
}

/// A crash while a new database is made leaves one that can be made again.
#[test]
fn a_crash_while_a_database_is_made_is_no_damage() {
    for cut in 0..20 {
        for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
            let env = SimEnv::new(cut);
            let options = Options::default().memory_budget(64 << 10).env(Arc::new(env.clone()));
            env.crash_after(cut);
            if let Ok(opened) = open(&env, &options) {
                let _ = opened.tree.start();
            }
            env.crash(style);
            let tree = open(&env, &options).unwrap().tree;
            tree.start().unwrap();
            assert_eq!(tree.flushed(), Version::ZERO);
            tree.jobs.stop();
        }
    }
}
