//! R-E24: background work gives way to who writes and reads, as long as nobody waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::env::{Job, JobClass};

/// Counts how often jobs give way.
#[derive(Debug)]
struct Counting {
    jobs: Arc<dyn Jobs>,
    given_way: AtomicU64,
}

impl Jobs for Counting {
    fn spawn_after(&self, class: JobClass, delay: Duration, job: Job) {
        self.jobs.spawn_after(class, delay, job);
    }

    fn assist(&self) -> bool {
        self.jobs.assist()
    }

    fn stepped(&self) -> bool {
        self.jobs.stepped()
    }

    fn give_way(&self) {
        self.given_way.fetch_add(1, Ordering::Relaxed);
    }

    fn stop(&self) {
        self.jobs.stop();
    }
}

/// Memtables of a mebibyte, of which eight are tolerated and four are not held against writes.
fn counted() -> (World, Arc<Counting>) {
    let env = SimEnv::new(1);
    let options = Options::default()
        .memory_budget(8 << 20)
        .compression(Compression::None)
        .env(Arc::new(env.clone()));
    let counting = Arc::new(Counting { jobs: env.start_jobs(1).unwrap(), given_way: 0.into() });
    let jobs = Arc::clone(&counting) as Arc<dyn Jobs>;
    let tree = open_with(&env, &options, jobs).unwrap().tree;
    tree.start().unwrap();
    (World { env, options, tree, log: Vec::new() }, counting)
}

fn put_half_a_mebibyte(world: &mut World) {
    for i in 0..512 {
        world.put(key(i), [i as u8; 1024]);
    }
}

#[test]
fn flushes_and_compactions_give_way_after_each_piece() {
    let (mut world, counting) = counted();
    let given_way = || counting.given_way.swap(0, Ordering::Relaxed);
    put_half_a_mebibyte(&mut world);
    world.flush();
    assert_eq!(given_way(), 2, "every 256 KiB");
    put_half_a_mebibyte(&mut world);
    world.flush();
    given_way();
    world.tree.compact_all().unwrap();
    assert_eq!(given_way(), 16, "every 64 KiB of what is read");
    world.check();
}

#[test]
fn flushes_do_not_give_way_while_writes_wait_for_them() {
    let (mut world, counting) = counted();
    while !world.tree.holds_writes_back() {
        put_half_a_mebibyte(&mut world);
        world.freeze();
    }
    world.tree.flush_now().unwrap();
    assert!(!world.tree.holds_writes_back());
    assert_eq!(counting.given_way.load(Ordering::Relaxed), 0);
    world.check();
}
