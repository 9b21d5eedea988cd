//! Wakers of writes that are held back are the callers' code (R-E24).

use std::sync::{Mutex, Weak};
use std::task::{Wake, Waker};

use super::*;

/// Comes back to the tree when it is woken, and panics then.
struct Caller {
    tree: Weak<Tree>,
    woken: Arc<Mutex<Vec<Result<()>>>>,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        let tree = self.tree.upgrade().unwrap();
        let free = [
            tree.flush_lock.try_lock().is_some(),
            tree.manifest.try_lock().is_some(),
            tree.schedule.try_lock().is_some(),
            tree.sharing.try_lock().is_some(),
        ];
        assert_eq!(free, [true; 4], "a lock is held");
        let done = tree.flush_now().and_then(|()| tree.compact_all());
        self.woken.lock().unwrap().push(done);
        panic!("a waker panics");
    }
}

/// Does something by which debt falls, while three writes are held back.
#[track_caller]
fn check(world: &World, debt_falls: impl FnOnce(&World)) {
    let woken = Arc::default();
    let mut keys = [None; 3];
    for key in &mut keys {
        let caller = Caller { tree: Arc::downgrade(&world.tree), woken: Arc::clone(&woken) };
        world.tree.waiters().register(key, &Waker::from(Arc::new(caller)));
    }
    debt_falls(world);
    let woken = woken.lock().unwrap();
    assert_eq!(woken.len(), keys.len(), "all are woken");
    assert!(woken.iter().all(Result::is_ok), "and may use the tree: {woken:?}");
}

#[test]
fn wakers_run_without_a_lock_and_all_of_them_whichever_panics() {
    let mut world = World::new(1);
    let flushed = |world: &mut World| {
        for row in 0..50 {
            world.put(key(row), [1; 60]);
        }
        world.flush();
    };
    (0..4).for_each(|_| flushed(&mut world));
    check(&world, |world| assert!(world.env.run_all() > 0));
    assert!(world.tree.stats().compactions > 0);
    flushed(&mut world);
    check(&world, |world| world.tree.compact_all().unwrap());
    world.put("a", "b");
    check(&world, World::flush);
    world.check();
    assert_eq!(world.tree.last_background_error(), None);
}
