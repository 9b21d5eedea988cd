//! Wakers of writes that are held back are the callers' code (R-E24).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, Weak};
use std::task::{Wake, Waker};

use super::*;
use crate::error::Error;

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

/// Writes once more when it is woken, then closes the tree, as who drops the last handle of a database does: from
/// then on others have its directory.
struct Closer {
    tree: Weak<Tree>,
    env: SimEnv,
    last: Version,
    late: Op,
    log_heard: Arc<AtomicBool>,
    /// Operations on the disk until then, and whether the log had heard of the flush.
    woken: Arc<OnceLock<(u64, bool)>>,
}

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        let tree = self.tree.upgrade().unwrap();
        apply(&tree, self.last, &self.late);
        tree.publish(self.last);
        tree.freeze(self.last, SegmentId::FIRST);
        tree.close();
        let log_heard = self.log_heard.load(Ordering::Relaxed);
        self.woken.set((self.env.operations(), log_heard)).unwrap();
    }
}

/// A log that hears of flushes, and keeps nothing.
struct Listening(Arc<AtomicBool>);

impl TreeLog for Listening {
    fn end_segment(&self, _last: Version) -> FlushedLog {
        FlushedLog { start: SegmentId::FIRST, sealed: Vec::new() }
    }

    fn release_segment(&self, _last: Version) -> Option<SegmentId> {
        None
    }

    fn keep(&self, _segment: SegmentId) {}

    fn flushed(&self, _flushed: Flushed) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn make_room(&self) {}
}

#[test]
fn a_flush_does_nothing_more_once_a_waker_closed_the_tree() {
    check_closing(Op::Put(b"late".to_vec(), Vec::new()));
    check_closing(Op::DeleteRange(b"a".to_vec(), b"b".to_vec()));
}

fn check_closing(late: Op) {
    let mut world = World::new(1);
    let (log_heard, woken) = <(Arc<AtomicBool>, Arc<OnceLock<_>>)>::default();
    world.tree.set_log(Box::new(Listening(Arc::clone(&log_heard))));
    world.put("a", "b");
    let last = v(world.log.len() as u64 + 1);
    let (tree, env) = (Arc::downgrade(&world.tree), world.env.clone());
    let closer = Closer { tree, env, last, late, log_heard, woken: Arc::clone(&woken) };
    world.tree.waiters().register(&mut None, &Waker::from(Arc::new(closer)));
    world.freeze();
    assert!(matches!(world.tree.flush_now(), Err(Error::Closed)));
    world.env.run_all();
    assert_eq!(woken.get(), Some(&(world.env.operations(), true)));
}
