//! [`Waits`]: which thread waits for a disk when a request has to.
//!
//! A thread of the runtime that waits for a disk serves no connection meanwhile. But to hand a read to another thread,
//! and take back what it found, costs about as much as to find and print fifty rows that are in memory; a sync that is
//! handed over takes half as long again. So this runs at once, on the runtime's thread:
//!
//! * short reads;
//! * long reads and syncs of a request that is the only one under way.
//!
//! When one of these was slow, or a read waited for a disk while other requests were under way, all of its kind, reads
//! or syncs, are handed over for [`PAUSES`] times as long as it took. So they hold up a thread of the runtime for no
//! more than a fifth of the time, and where other requests wait, by one short read at a time.
//!
//! There are only so many threads for what is handed over. A read that none of them has begun after [`PATIENCE`] is
//! given up.
//!
//! What is done with a body that is larger than the service's own limit keeps a thread busy for long, without any disk.
//! It stays on its thread, as it borrows from the request, and another thread takes over what else that one has to do.
//! As many at once are so as the runtime has threads, as each has its body decoded in memory (R-S12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tablestone::{Commit, Database};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tokio::time::{Instant, timeout};

use super::{disk_reads, failure};
use crate::error::{ErrorCode, ServiceError};

/// A read that takes longer has waited for a disk, and a sync for a slow one. Waits for a processor are mostly shorter.
pub(super) const QUICK: Duration = Duration::from_millis(5);
/// A read that takes longer may have waited for a disk, or for a processor: the system tells [which](disk_reads).
const BRIEF: Duration = Duration::from_micros(150);
/// For how long nothing runs at once after something slow, as a multiple of what that took.
const PAUSES: u32 = 4;

/// What is done with larger bodies is [long](Work::Long). The service's own limit: by default there are none.
const LONG_BYTES: usize = 4 << 20;

/// How long a read waits for a thread to begin on before the client hears that the server is busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where requests wait for a disk.
#[derive(Debug)]
pub(super) struct Waits {
    database: Database,
    reads: Pace,
    syncs: Pace,
    in_flight: Arc<AtomicUsize>,
    /// Whether another thread serves connections while one waits.
    has_others: bool,
    /// For long work, one for each of the runtime's threads.
    turns: Semaphore,
}

/// How long it takes to do something with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// It keeps nobody waiting.
    Brief,
    /// It may take a second and more.
    Long,
}

impl Work {
    /// For a body of so many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        if bytes > LONG_BYTES { Self::Long } else { Self::Brief }
    }
}

/// How quick work of one kind has been of late.
#[derive(Debug)]
struct Pace {
    began: Instant,
    /// Until when it is taken for slow, in microseconds since `began`.
    slow_until: AtomicU64,
}

/// A request under way.
pub(super) struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Waits {
    /// For the runtime that this is called in.
    pub(super) fn new(database: Database) -> Self {
        let threads = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
        let has_others = has_threads() && threads > 1;
        let (reads, syncs) = (Pace::new(), Pace::new());
        let turns = Semaphore::new(threads.max(1));
        Self { database, reads, syncs, in_flight: Arc::default(), has_others, turns }
    }

    /// Does something with a body that waits for nothing: long work in its turn, while another thread serves who else
    /// this one would.
    pub(super) async fn done<T>(&self, work: Work, does: impl FnOnce() -> T) -> T {
        if work == Work::Brief {
            return does();
        }
        // It is never closed.
        let _turn = self.turns.acquire().await;
        if has_threads() { block_in_place(does) } else { does() }
    }

    /// Notes that a request came; the guard that it went.
    pub(super) fn began(&self) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(&self.in_flight))
    }

    /// Whether a request that is under way is the only one, and holds up nobody.
    pub(super) fn is_alone(&self) -> bool {
        self.has_others && self.in_flight.load(Ordering::Relaxed) == 1
    }

    /// Runs a short read at once, or, while reads are slow, not at all.
    pub(super) fn at_once<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        self.reads.unless_slow(read, || self.holds_up(disk_reads::any_since_asked))
    }

    /// Whether a read may have held somebody up for a disk.
    fn holds_up(&self, had_read: impl FnOnce() -> bool) -> bool {
        !self.is_alone() && had_read()
    }

    /// Runs a read on a thread that may wait for a disk, once there is one. A read that has begun has
    /// its own limit of time.
    ///
    /// # Errors
    /// Its own; [`ErrorCode::ServerBusy`] if it has not begun after [`PATIENCE`], when it is given up.
    pub(super) async fn handed_over<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let mut read = self.database.run(move || {
            begins.store(true, Ordering::Relaxed);
            Ok(read())
        });
        let ended = match timeout(PATIENCE, &mut read).await {
            Ok(ended) => ended,
            Err(_) if begun.load(Ordering::Relaxed) => read.await,
            // One that begins just now ends for nobody.
            Err(_) => return Err(ErrorCode::ServerBusy.error()),
        };
        ended.map_err(|error| failure::of(&error))?
    }

    /// Waits for a write. What merges make of a large body takes long too, so others always do that.
    pub(super) async fn committed<T>(
        &self,
        work: Work,
        commit: Commit<T>,
    ) -> Result<T, tablestone::Error> {
        if work == Work::Brief && self.is_alone() {
            self.syncs.unless_slow(|| commit.drive(), || false);
        }
        commit.await
    }
}

/// Whether the runtime that this is called in has threads of its own, which can stand in for each other.
fn has_threads() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

impl Pace {
    fn new() -> Self {
        Self { began: Instant::now(), slow_until: AtomicU64::new(0) }
    }

    /// Does it, and notes how long it took, unless such work is slow.
    fn unless_slow<T>(
        &self,
        work: impl FnOnce() -> T,
        holds_up: impl FnOnce() -> bool,
    ) -> Option<T> {
        let began = Instant::now();
        if self.micros(began) < self.slow_until.load(Ordering::Relaxed) {
            return None;
        }
        let done = work();
        self.note(began, Instant::now(), holds_up);
        Some(done)
    }

    /// What is not brief is asked whether it held somebody up.
    fn note(&self, began: Instant, ended: Instant, holds_up: impl FnOnce() -> bool) {
        let took = ended - began;
        if took > QUICK || (took > BRIEF && holds_up()) {
            // A longer pause that another thread began goes on.
            self.slow_until.fetch_max(self.micros(ended + took * PAUSES), Ordering::Relaxed);
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from((at - self.began).as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Poll;

    use parking_lot::Mutex;
    use tablestone::{Options, Task};

    use super::*;

    fn waits() -> (tempfile::TempDir, Waits) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path(), Options::default()).unwrap();
        (directory, Waits::new(database))
    }

    /// R-S12: others are served while a large body is decoded, also where there is one thread for all.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn r_s12_long_work_keeps_nobody_waiting() {
        assert_eq!((Work::of(4 << 20), Work::of((4 << 20) + 1)), (Work::Brief, Work::Long));
        let (_directory, waits) = waits();
        let waited = tokio::spawn(async move {
            let (served, serves) = channel();
            tokio::spawn(async move { served.send(()) });
            let wait = move || serves.recv_timeout(Duration::from_secs(5));
            let waited = waits.done(Work::Long, wait);
            (waited.await, waits.turns.available_permits())
        });
        assert_eq!(waited.await.unwrap(), (Ok(()), 1));
    }

    /// Each has its body decoded in memory.
    #[tokio::test]
    async fn long_work_waits_for_its_turn() {
        let (_directory, waits) = waits();
        let turn = waits.turns.try_acquire().unwrap();
        let mut long = std::pin::pin!(waits.done(Work::Long, || 1));
        assert!(poll_fn(|context| Poll::Ready(long.as_mut().poll(context).is_pending())).await);
        assert_eq!(waits.done(Work::Brief, || 2).await, 2);
        drop(turn);
        assert_eq!(long.await, 1);
    }

    /// What a future gives while the paused clock stands still, which goes on only where nothing is to do.
    async fn without_time<F: Future + Unpin>(mut future: F) -> F::Output {
        loop {
            tokio::select! {
                biased;
                output = &mut future => return output,
                () = tokio::task::yield_now() => {}
            }
        }
    }

    /// More reads than there are threads for, which end when the sender is dropped.
    fn occupy(database: &Database) -> (Sender<()>, Vec<Task<()>>) {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let read = || {
            let receiver = Arc::clone(&receiver);
            database.run(move || {
                let _ = receiver.lock().recv();
                Ok(())
            })
        };
        let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from).max(4);
        (sender, (0..2 * threads).map(|_| read()).collect())
    }

    /// R-S12, R-E24: a read for which no thread is free is not waited for without end, and is not done
    /// later for nobody.
    #[tokio::test(start_paused = true)]
    async fn r_s12_a_read_that_does_not_begin_is_given_up() {
        let (_directory, waits) = waits();
        let (sender, occupied) = occupy(&waits.database);
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let began = Instant::now();
        let read = waits.handed_over(move || {
            runs.store(true, Ordering::Relaxed);
            Ok(())
        });
        assert_eq!(read.await, Err(ErrorCode::ServerBusy.error()));
        assert_eq!(began.elapsed(), PATIENCE);
        assert_eq!(Arc::strong_count(&ran), 1, "what it holds is given back");
        drop(sender);
        for read in occupied {
            read.wait().unwrap();
        }
        // Those that are queued later run later.
        let handed_over = std::pin::pin!(waits.handed_over(|| Ok(1)));
        assert_eq!(without_time(handed_over).await, Ok(1));
        assert!(!ran.load(Ordering::Relaxed));
    }

    /// A read that has begun takes as long as it takes.
    #[tokio::test(start_paused = true)]
    async fn a_read_that_has_begun_is_waited_for() {
        let (_directory, waits) = waits();
        let (begins, begun) = channel();
        let (ends, end) = channel();
        let mut read = std::pin::pin!(waits.handed_over(move || {
            begins.send(()).unwrap();
            end.recv().unwrap();
            Ok(1)
        }));
        let begun = poll_fn(|context| match (read.as_mut().poll(context), begun.try_recv()) {
            (Poll::Pending, Ok(())) => Poll::Ready(()),
            (Poll::Pending, Err(_)) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            (Poll::Ready(_), _) => panic!("it has not ended"),
        });
        begun.await;
        let more = tokio::time::timeout(100 * PATIENCE, read.as_mut()).await;
        assert!(more.is_err(), "it was not given up");
        ends.send(()).unwrap();
        assert_eq!(without_time(read).await, Ok(1));
    }

    /// A slow read turns those after it away from the runtime's threads, for a while.
    #[tokio::test(start_paused = true)]
    async fn after_a_slow_read_reads_are_handed_over() {
        let (_directory, waits) = waits();
        assert_eq!(waits.at_once(|| 1), Some(1));
        let began = Instant::now();
        waits.reads.note(began, began + QUICK, || false);
        assert_eq!(waits.at_once(|| 2), Some(2));
        waits.reads.note(began, began + 2 * QUICK, || false);
        waits.reads.note(began, began + QUICK + Duration::from_micros(1), || false);
        assert_eq!(waits.at_once(|| 3), None);
        let handed_over = std::pin::pin!(waits.handed_over(|| Ok(4)));
        assert_eq!(without_time(handed_over).await, Ok(4));
        tokio::time::advance(QUICK * (2 + PAUSES)).await;
        assert_eq!(waits.at_once(|| 5), None, "the longer of two pauses");
        tokio::time::advance(QUICK * (1 + PAUSES)).await;
        assert_eq!(waits.at_once(|| 5), Some(5));
    }

    /// What waited for a disk and held somebody up is slow if it was not brief; who lost the processor is not.
    #[tokio::test]
    async fn work_that_holds_somebody_up_is_slow_sooner() {
        let moment = Duration::from_micros(1);
        for (took, holds_up, is_slow) in [
            (BRIEF, true, false),
            (BRIEF + moment, true, true),
            (BRIEF + moment, false, false),
            (QUICK, false, false),
            (QUICK + moment, false, true),
        ] {
            let pace = Pace::new();
            pace.note(pace.began, pace.began + took, || holds_up);
            let until = pace.slow_until.into_inner();
            let expected = if is_slow { (took * (1 + PAUSES)).as_micros() } else { 0 };
            assert_eq!(u128::from(until), expected, "{took:?} {holds_up}");
        }
    }

    #[tokio::test]
    async fn the_time_that_work_takes_is_noted() {
        let pace = Pace::new();
        let millisecond = Duration::from_millis(1);
        let done = pace.unless_slow(|| std::thread::sleep(millisecond), || true);
        assert_eq!(done, Some(()));
        let least = u64::from(1 + PAUSES) * 1_000;
        assert!(pace.slow_until.into_inner() >= least);
    }

    /// A request is alone while no other is under way, if others could be served meanwhile.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_only_request_is_alone() {
        let (_directory, waits) = waits();
        let first = waits.began();
        assert!(waits.is_alone());
        assert!(!waits.holds_up(|| true));
        let second = waits.began();
        assert!(!waits.is_alone());
        assert!(waits.holds_up(|| true) && !waits.holds_up(|| false));
        drop(first);
        assert!(waits.is_alone());
        drop(second);
    }

    #[tokio::test]
    async fn where_one_thread_serves_all_nobody_is_alone() {
        let (_directory, waits) = waits();
        let _request = waits.began();
        assert!(!waits.is_alone());
    }

    /// R-S01: a write of a request that is alone is as durable and as visible as any; after a slow
    /// sync others do it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_alone_syncs_its_own_write() {
        let (_directory, waits) = waits();
        let _request = waits.began();
        let table = waits.database.create_table("t").await.unwrap();
        for (row, slow) in [("1", false), ("2", true)] {
            if slow {
                let now = Instant::now();
                waits.syncs.note(now - 10 * QUICK, now, || false);
            }
            let syncs = waits.database.stats().syncs;
            let commit = table.insert("p", row, "");
            waits.committed(Work::Brief, commit).await.unwrap();
            assert_eq!(waits.database.stats().syncs, syncs + 1);
            assert!(table.get("p", row).unwrap().is_some());
        }
    }
}
