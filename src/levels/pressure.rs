//! Back-pressure: how much writers are slowed down so that flushes and compactions keep up (R-E24).
//!
//! The [`Debt`] is what background work is behind by, as a share of what is tolerable: of memtable
//! bytes, of files in level 0, of bytes over the targets of the levels, whichever is worst. Up to
//! the point where a share counts from, writes go straight on. From there the rate at which bytes
//! are let in falls with the cube of what is left, from a gigabyte a second towards nothing, and
//! each write waits for its turn; at a share of 1 writes wait until debt falls. There is no step
//! on the way: a share of 1 is where the permitted rate reaches 0.
//!
//! The turn is one number, the instant at which the next byte may go in; so the rate holds for all
//! writers together, and nobody who does not have to wait touches it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;

use crate::wake::wake_each;

/// What a write of some bytes should do first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Nothing.
    Go,
    /// Wait that long, then go on: its turn is reserved.
    Wait(Duration),
    /// Wait until the debt falls, then ask again; says what it waits for.
    Blocked(Arc<str>),
}

/// Bytes let in per second where the debt begins to count: far above what a log takes.
const OPEN_RATE: f64 = (1u64 << 30) as f64;
/// The longest a single write is made to wait for its turn; beyond it, it is better to let it in
/// and have the debt itself grow to where writes are blocked.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A wait shorter than this is not worth a sleep, which takes about as long at least: the turn stays
/// reserved, so short waits add up until one is worth it.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_micros(100);
/// Level 0 files from which on writes are slowed, and at which they stop. A read looks into each.
const LEVEL_0_SLOW: f64 = 8.0;
const LEVEL_0_STOP: f64 = 20.0;
/// Bytes to compact from which on writes are slowed, and at which they stop, in targets of level
/// 1: an import may run far ahead of the compactions, but not without bound.
const COMPACTION_SLOW: f64 = 16.0;
const COMPACTION_STOP: f64 = 96.0;

/// How far background work is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    /// Bytes of all memtables; all that their chunks take, while that is too little to count.
    pub(crate) memtable_bytes: usize,
    /// Files in level 0.
    pub(crate) level_0_files: usize,
    /// Bytes that compactions have to rewrite before every level is within its target.
    pub(crate) compaction_bytes: u64,
}

/// What debt is tolerable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub(crate) memtables_bytes: usize,
    pub(crate) level_base_bytes: u64,
}

impl Debt {
    /// The worst share: at most 0 where nothing counts yet, 1 and more where writes stop. And
    /// what it is a share of.
    pub(crate) fn share(&self, tolerance: &Tolerance) -> (f64, &'static str) {
        let memtables = tolerance.memtables_bytes as f64;
        let base = tolerance.level_base_bytes as f64;
        let share = |value: f64, from: f64, to: f64| (value - from) / (to - from);
        let shares = [
            (
                share(self.memtable_bytes as f64, memtables / 2.0, memtables),
                "memtables to be flushed",
            ),
            (
                share(self.level_0_files as f64, LEVEL_0_SLOW, LEVEL_0_STOP),
                "level 0 to be compacted",
            ),
            (
                share(self.compaction_bytes as f64, COMPACTION_SLOW * base, COMPACTION_STOP * base),
                "compactions to catch up",
            ),
        ];
        let worst = shares.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        worst.unwrap_or((0.0, ""))
    }
}

/// Bytes per second let in at a share of the tolerable debt: 0 from 1 on.
fn rate(share: f64) -> f64 {
    OPEN_RATE * (1.0 - share.clamp(0.0, 1.0)).powi(3)
}

/// How long `bytes` take at a share of the tolerable debt; `None` if they are not let in.
pub(crate) fn toll(share: f64, bytes: usize) -> Option<Duration> {
    if share >= 1.0 {
        return None;
    }
    let seconds = bytes as f64 / rate(share);
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT))
}

/// The queue of writes that wait for their turn, as the instant at which the next one goes.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    next_nanos: AtomicU64,
}

impl Turnstile {
    /// Reserves a turn that takes `toll` after those reserved before; says how long until then.
    pub(crate) fn reserve(&self, now: Duration, toll: Duration) -> Duration {
        let now = nanos(now);
        let update = |next: u64| {
            Some(
                next.clamp(now, now.saturating_add(nanos(LONGEST_WAIT)))
                    .saturating_add(nanos(toll)),
            )
        };
        let before = self.next_nanos.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        let next = before.ok().and_then(update).unwrap_or(now);
        Duration::from_nanos(next - now).min(LONGEST_WAIT)
    }

    /// The debt has fallen: turns reserved for what it was are void, those who wait ask anew.
    pub(crate) fn reset(&self) {
        self.next_nanos.store(0, Ordering::Release);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Who wants to know when the debt has fallen. Wakers are cloned, woken and dropped without the lock, and all
/// of them are woken: that is the caller's code, which may come back here and may panic.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    waiting: Mutex<HashMap<WaitKey, Waker>>,
    last_key: AtomicU64,
    falls: AtomicU64,
}

/// One who waits, until its debt has fallen or it is [taken off](WaitList::deregister).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitKey(u64);

impl WaitList {
    /// Wakes this one the next time debt falls. To miss nothing, register, then ask
    /// [`admit`](super::Tree::admit) again, then wait.
    pub(crate) fn register(&self, key: &mut Option<WaitKey>, waker: &Waker) {
        let new = || WaitKey(self.last_key.fetch_add(1, Ordering::Relaxed));
        let (key, waker) = (*key.get_or_insert_with(new), waker.clone());
        let before = self.waiting.lock().insert(key, waker);
        drop(before);
    }

    /// Who waits no longer: the list keeps nothing of it.
    pub(crate) fn deregister(&self, key: &mut Option<WaitKey>) {
        let left = key.take().and_then(|key| self.take(key));
        drop(left);
    }

    /// Wakes this one, if it waits.
    pub(crate) fn wake(&self, key: WaitKey) {
        let waker = self.take(key);
        wake_each(waker);
    }

    fn take(&self, key: WaitKey) -> Option<Waker> {
        self.waiting.lock().remove(&key)
    }

    /// How often debt has fallen. Who was told to wait before asks again after it.
    pub(crate) fn falls(&self) -> u64 {
        self.falls.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Wakes everybody. To be called with no lock of the engine held.
    pub(crate) fn wake_all(&self) {
        self.falls.fetch_add(1, Ordering::AcqRel);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        wake_each(waiting.into_values());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { memtables_bytes: 1000, level_base_bytes: 100 };

    fn wait(debt: Debt) -> Option<Duration> {
        toll(debt.share(&TOLERANCE).0, 4096)
    }

    /// R-E24: waits grow with debt, without a step, up to the point where writes stop.
    #[test]
    fn the_toll_is_monotone_and_has_no_cliff() {
        let mut last = 0.0;
        for step in 0..100_000 {
            let seconds = toll(f64::from(step) / 100_000.0, 100).unwrap().as_secs_f64();
            assert!(seconds >= last);
            assert!(
                seconds <= last * 1.5 + 1e-6 || seconds == 1.0 && last > 0.5,
                "a cliff at {step}: {last} {seconds}"
            );
            last = seconds;
        }
        assert_eq!(last, LONGEST_WAIT.as_secs_f64(), "the stop is no surprise");
        assert_eq!(toll(1.0, 100), None);
    }

    #[test]
    fn every_kind_of_debt_counts() {
        assert!(wait(Debt::default()).unwrap() < Duration::from_micros(5));
        let all = [
            |x: u64| Debt { memtable_bytes: x as usize, ..Debt::default() },
            |x: u64| Debt { level_0_files: x as usize / 50, ..Debt::default() },
            |x: u64| Debt { compaction_bytes: x * 10, ..Debt::default() },
        ];
        for debt in all {
            let waits: Vec<_> = (0..=1000).step_by(10).map(|x| wait(debt(x))).collect();
            assert_eq!(waits.last(), Some(&None));
            let key = |w: &Option<Duration>| w.unwrap_or(Duration::MAX);
            assert!(waits.is_sorted_by_key(key));
        }
    }

    #[test]
    fn wakers_are_dropped_without_the_lock() {
        struct Caller(Arc<WaitList>);
        impl std::task::Wake for Caller {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Caller {
            fn drop(&mut self) {
                assert!(self.0.waiting.try_lock().is_some());
            }
        }
        let list = Arc::new(WaitList::default());
        let waker = || Waker::from(Arc::new(Caller(Arc::clone(&list))));
        let mut key = None;
        list.register(&mut key, &waker());
        list.register(&mut key, &waker());
        list.wake(key.unwrap());
        list.register(&mut key, &waker());
        list.deregister(&mut key);
        assert_eq!((key, Arc::strong_count(&list)), (None, 1), "all were dropped");
    }

    #[test]
    fn turns_queue_up_and_pass_with_time() {
        let turnstile = Turnstile::default();
        let ms = Duration::from_millis;
        assert_eq!(turnstile.reserve(ms(1000), ms(10)), ms(10));
        assert_eq!(turnstile.reserve(ms(1000), ms(10)), ms(20));
        assert_eq!(turnstile.reserve(ms(1015), ms(10)), ms(15));
        assert_eq!(turnstile.reserve(ms(5000), ms(10)), ms(10));
        for _ in 0..1000 {
            assert!(turnstile.reserve(ms(5000), ms(500)) <= LONGEST_WAIT);
        }
        assert!(turnstile.reserve(ms(7500), ms(1)) <= ms(1), "what nobody waits for is not owed");
        assert!(turnstile.reserve(ms(7500), ms(900)) > ms(900));
        turnstile.reset();
        assert_eq!(turnstile.reserve(ms(7500), ms(3)), ms(3), "turns of a debt that is gone");
    }
}
