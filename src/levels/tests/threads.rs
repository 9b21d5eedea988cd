//! Readers, a writer, flushes and compactions at once: every reader sees one version of the tree.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

const KEYS: u64 = 50;
const COMMITS: u64 = 12_000;

/// What commit `n` does: nobody has to keep a list of them.
fn op(n: u64) -> Op {
    match n {
        _ if n.is_multiple_of(101) => Op::DeleteRange(key(10), key(20)),
        _ if n.is_multiple_of(7) => Op::Delete(key(n % KEYS)),
        _ => Op::Put(key(n % KEYS), [&n.to_le_bytes()[..], &[0; 60]].concat()),
    }
}

fn expected(at: Version) -> Rows {
    let mut rows = Rows::new();
    // Each key was written or deleted in the last commits.
    for n in at.ticks().saturating_sub(4 * KEYS).max(1)..=at.ticks() {
        match op(n) {
            Op::Put(key, value) => drop(rows.insert(key, value)),
            Op::Delete(key) => drop(rows.remove(&key)),
            Op::DeleteRange(start, end) => rows.retain(|k, _| *k < start || *k >= end),
        }
    }
    rows
}

/// R-E11, in memory and in files, at the newest version and at snapshots.
#[test]
fn every_reader_sees_one_version_of_the_tree() {
    let world = World::new(1);
    let (tree, env) = (&world.tree, &world.env);
    let done = AtomicBool::new(false);
    let running = || !done.load(Ordering::Acquire);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while running() {
                    if !env.step() {
                        thread::yield_now();
                    }
                }
            });
        }
        scope.spawn(|| {
            while running() {
                let (view, at) = tree.read_point();
                assert!(read_all(&view, at).unwrap() == expected(at), "at {at}");
            }
        });
        scope.spawn(|| {
            while running() {
                let at = tree.register_snapshot();
                for _ in 0..3 {
                    thread::yield_now();
                    assert!(read_all(&tree.view(), at).unwrap() == expected(at), "snapshot {at}");
                }
                tree.release_snapshot(at);
            }
        });
        let stop = StopOnDrop(&done);
        for n in 1..=COMMITS {
            if tree.active_memtable().bytes() > 8 << 10 {
                tree.freeze(v(n - 1), SegmentId::FIRST);
            }
            apply(tree, v(n), &op(n));
            tree.publish(v(n));
            tree.on_published();
            let start = Instant::now();
            while tree.view().frozen.len() > 3 {
                assert!(start.elapsed() < Duration::from_secs(120), "nobody flushes");
                thread::yield_now();
            }
        }
        drop(stop);
    });
    env.run_all();
    // How many compactions there are depends on who gets a processor.
    let stats = tree.stats();
    assert!(stats.flushes > 10 && stats.compactions > 0, "{stats:?}");
    assert_eq!(tree.stats().last_background_error, None);
    assert_eq!(read_all(&tree.view(), v(COMMITS)).unwrap(), expected(v(COMMITS)));
    tree.compact_all().unwrap();
    env.run_all();
    assert_eq!(read_all(&tree.view(), v(COMMITS)).unwrap(), expected(v(COMMITS)));
    assert_eq!(world.table_files(), world.levels().files().count());
}

/// Ends the other threads even if this one panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
