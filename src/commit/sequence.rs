//! Commit order: the one short lock that hands out versions and queues records for the log.
//!
//! Invariants, which the loom model below checks:
//! * log order is version order: a version is assigned and its record queued under one lock;
//! * a group is published only when each of its commits is in a memtable: a commit takes part in
//!   its [`Group`] from the lock on, until [`Ticket::applied`]. One that never gets there (its
//!   thread panicked) keeps the group from being published, and nobody waiting.
//! * one group at most is taken and not published, while the next is collected: two counts, in turn,
//!   tell whether all of a group are applied.
//!
//! ```text
//! committing thread        lock { version = max(clock, last + 1); queue record } ─► memtable ─► applied
//! driver of the log        lock { take queue as a group } ─► write, sync ─► wait until all applied ─► publish
//! ```

use crossbeam_utils::CachePadded;

use crate::error::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, yield_now};
use crate::version::Version;

/// Hands out versions and collects what they commit.
pub(crate) struct Sequencer<R> {
    state: CachePadded<Mutex<State<R>>>,
    /// Commits take part in them in turn.
    groups: [CachePadded<Group>; 2],
}

struct State<R> {
    last: Version,
    records: Vec<R>,
    /// Bytes of all records that ever were queued, and up to how many may be.
    bytes: u64,
    allowed: u64,
    /// Which of the two groups is collected.
    is_second: bool,
    /// How many commits ever took part in it, and in the other.
    queued: u64,
    queued_of_other: u64,
}

/// Commits that are written and synced together.
#[derive(Debug, Default)]
struct Group {
    /// Commits that are in their memtable, of all that took part so far.
    applied: AtomicU64,
    /// One of them never will be.
    is_broken: AtomicBool,
}

/// A commit between getting its version and being in the memtable.
#[must_use = "the group is published only after `applied`"]
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    pub(crate) version: Version,
    group: &'a Group,
    is_applied: bool,
}

/// What the driver of the log takes: all queued records, in version order.
#[derive(Debug)]
pub(crate) struct Taken<'a, R> {
    pub(crate) records: Vec<R>,
    pub(crate) last: Version,
    group: &'a Group,
    /// How many ever took part in the group.
    queued: u64,
}

/// What is left of a group that was written, for the next but one. The driver of the log has it.
pub(crate) struct Spare<R>(Vec<R>);

impl<R> Default for Spare<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// More records than that are not kept room for.
const SPARE_RECORDS: usize = 64;

impl<R> Spare<R> {
    /// Keeps what can be used again of a group that is published.
    pub(crate) fn keep(&mut self, taken: Taken<'_, R>) {
        let Taken { mut records, .. } = taken;
        records.clear();
        records.shrink_to(SPARE_RECORDS);
        self.0 = records;
    }
}

impl<R> Sequencer<R> {
    /// Versions continue after `last`.
    pub(crate) fn new(last: Version) -> Self {
        let state = State {
            last,
            records: Vec::new(),
            bytes: 0,
            allowed: 0,
            is_second: false,
            queued: 0,
            queued_of_other: 0,
        };
        Self { state: CachePadded::new(Mutex::new(state)), groups: Default::default() }
    }

    /// Assigns the next version and queues its record. `prepare` runs under the lock with the
    /// last version assigned before: what it returns (where the memtable to use is) is in step with
    /// version order. `record` is shown it. `None`, and nothing is done, if with its `bytes` more were queued than is
    /// [allowed](Self::allow). Inlined, as its caller is.
    #[inline(always)]
    pub(crate) fn next<P>(
        &self,
        bytes: u64,
        now: Version,
        prepare: impl FnOnce(Version) -> P,
        record: impl FnOnce(Version, &P) -> R,
    ) -> Option<(Ticket<'_>, P)> {
        let mut state = self.state.lock();
        let queued_bytes = state.bytes + bytes;
        if queued_bytes > state.allowed {
            return None;
        }
        state.bytes = queued_bytes;
        let prepared = prepare(state.last);
        let version = now.max(state.last.next());
        state.last = version;
        state.records.push(record(version, &prepared));
        state.queued += 1;
        Some((Ticket { version, group: self.group(&state), is_applied: false }, prepared))
    }

    /// Bytes of all records that ever were queued.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Has records be queued until there were that many bytes of them, if not for longer.
    pub(crate) fn allow(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.allowed = state.allowed.max(bytes);
    }

    /// Takes everything queued as one group; `None` if nothing is. The group taken before is published.
    /// Records are collected next in what `spare` has, so that a commit by itself allocates nothing here.
    pub(crate) fn take(&self, spare: &mut Spare<R>) -> Option<Taken<'_, R>> {
        let mut state = self.state.lock();
        if state.records.is_empty() {
            return None;
        }
        let records = std::mem::replace(&mut state.records, std::mem::take(&mut spare.0));
        let (group, queued) = (self.group(&state), state.queued);
        state.queued = std::mem::replace(&mut state.queued_of_other, queued);
        state.is_second = !state.is_second;
        Some(Taken { records, last: state.last, group, queued })
    }

    /// The group that is collected.
    fn group(&self, state: &State<R>) -> &Group {
        let [first, second] = &self.groups;
        if state.is_second { second } else { first }
    }

    /// Runs with the last assigned version while no other can be assigned.
    pub(crate) fn paused<P>(&self, run: impl FnOnce(Version) -> P) -> P {
        run(self.state.lock().last)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of records queued.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().records.len()
    }

    /// The last version assigned.
    pub(crate) fn last(&self) -> Version {
        self.state.lock().last
    }
}

impl Ticket<'_> {
    /// The commit is in its memtable.
    pub(crate) fn applied(mut self) {
        self.is_applied = true;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.is_applied {
            self.group.is_broken.store(true, Ordering::Relaxed);
        }
        // Release: whoever sees the count complete sees the memtable's entries.
        self.group.applied.fetch_add(1, Ordering::Release);
    }
}

impl<R> Taken<'_, R> {
    /// Waits until every commit of the group is in its memtable. They are by the time a write has
    /// gone through, nearly always: what they have left to do after the lock is a memory insert.
    ///
    /// # Errors
    /// One of them never will be.
    pub(crate) fn wait_applied(&self) -> Result<()> {
        while self.group.applied.load(Ordering::Acquire) < self.queued {
            yield_now();
        }
        if self.group.is_broken.load(Ordering::Relaxed) {
            return Err(Error::Poisoned(
                "a commit is not whole in memory: its thread panicked, or it did not decode".into(),
            ));
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// One that takes records without end.
    fn sequencer(last: Version) -> Sequencer<Version> {
        let sequencer = Sequencer::new(last);
        sequencer.allow(u64::MAX);
        sequencer
    }

    fn next(sequencer: &Sequencer<Version>, now: Version) -> Option<(Ticket<'_>, ())> {
        sequencer.next(1, now, |_| (), |v, ()| v)
    }

    #[test]
    fn no_more_bytes_are_queued_than_are_allowed() {
        let sequencer = Sequencer::new(Version::ZERO);
        let queue = |bytes| {
            let next = sequencer.next(bytes, Version::ZERO, |_| (), |v, ()| v);
            next.map(|(ticket, ())| ticket.applied()).is_some()
        };
        assert!(!queue(1));
        sequencer.allow(10);
        sequencer.allow(5);
        assert!(queue(4) && !queue(7) && queue(6) && !queue(1));
        assert_eq!((sequencer.bytes(), sequencer.len()), (10, 2));
        sequencer.take(&mut Spare::default()).unwrap().wait_applied().unwrap();
        assert!(!queue(1), "they count though they are taken");
    }

    /// R-E04: in one tick and under a clock set back, versions increase.
    #[test]
    fn versions_increase_whatever_the_clock_says() {
        let sequencer = sequencer(Version::from_ticks(100));
        let mut seen = Vec::new();
        for now in [50, 200, 200, 10, 300] {
            let (ticket, ()) = next(&sequencer, Version::from_ticks(now)).unwrap();
            seen.push(ticket.version.ticks());
            ticket.applied();
        }
        assert_eq!(seen, [101, 200, 201, 202, 300]);
        let taken = sequencer.take(&mut Spare::default()).unwrap();
        assert_eq!(taken.records.iter().map(|v| v.ticks()).collect::<Vec<_>>(), seen);
        assert!(sequencer.take(&mut Spare::default()).is_none());
    }

    #[test]
    fn a_commit_that_is_never_applied_breaks_its_group_and_no_other() {
        let sequencer = sequencer(Version::ZERO);
        let commit = || next(&sequencer, Version::ZERO).unwrap().0;
        let (first, second) = (commit(), commit());
        let broken = sequencer.take(&mut Spare::default()).unwrap();
        let third = commit();
        first.applied();
        let panicked = std::thread::scope(|scope| {
            let dies = move || {
                let _second = second;
                panic!("before the memtable");
            };
            scope.spawn(dies).join()
        });
        assert!(panicked.is_err());
        assert!(matches!(broken.wait_applied(), Err(Error::Poisoned(_))));
        third.applied();
        sequencer.take(&mut Spare::default()).unwrap().wait_applied().unwrap();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A memtable of three slots: slot v - 1 holds 1 when version v is in it.
    type Memtable = [AtomicU64; 3];

    fn commit(sequencer: &Sequencer<Version>, memtable: &Memtable) {
        let (ticket, ()) = sequencer.next(0, Version::ZERO, |_| (), |v, ()| v).unwrap();
        memtable[ticket.version.ticks() as usize - 1].store(1, Ordering::Relaxed);
        ticket.applied();
    }

    fn check(visible: &AtomicU64, memtable: &Memtable) {
        let seen = visible.load(Ordering::Acquire) as usize;
        assert!(memtable[..seen].iter().all(|slot| slot.load(Ordering::Relaxed) == 1));
    }

    /// Three commits of two threads, which are readers too, and a driver, which uses groups again: log
    /// order is version order, and what is published is in the memtable.
    #[test]
    fn loom_publication_follows_the_memtable() {
        let mut model = loom::model::Builder::new();
        // More switches than that find nothing new in a protocol of three steps.
        model.preemption_bound = Some(3);
        model.check(|| {
            let sequencer = Arc::new(Sequencer::new(Version::ZERO));
            let memtable: Arc<Memtable> = Arc::new([0, 0, 0].map(AtomicU64::new));
            let visible = Arc::new(AtomicU64::new(0));
            let committers: Vec<_> = [1, 2]
                .into_iter()
                .map(|commits| {
                    let (sequencer, memtable) = (Arc::clone(&sequencer), Arc::clone(&memtable));
                    let visible = Arc::clone(&visible);
                    thread::spawn(move || {
                        for _ in 0..commits {
                            commit(&sequencer, &memtable);
                            check(&visible, &memtable);
                        }
                    })
                })
                .collect();
            let (mut last, mut spare) = (0, Spare::default());
            // While commits are under way, and once when all are queued.
            let mut drive = || {
                let Some(taken) = sequencer.take(&mut spare) else { return };
                for version in &taken.records {
                    last += 1;
                    assert_eq!(version.ticks(), last);
                }
                taken.wait_applied().unwrap();
                visible.store(taken.last.ticks(), Ordering::Release);
                spare.keep(taken);
            };
            drive();
            drive();
            committers.into_iter().for_each(|c| c.join().unwrap());
            drive();
            assert_eq!(visible.load(Ordering::Acquire), 3);
        });
    }
}
