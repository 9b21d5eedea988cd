//! [`Activity`]: what was read and written, and [`Tally`], where it is counted.
//!
//! Invariant: a thread that has a number adds in a place that nobody else writes, so it needs a load and
//! a store for each figure and no atomic addition; threads without a number share one place, and do add
//! atomically. Whoever is given a number that another thread had sees what that one counted.

use std::cell::Cell;
use std::ops::AddAssign;
use std::sync::{LazyLock, OnceLock};
use std::thread::available_parallelism;

use crate::sync::{AtomicU64, Ordering};

/// What was read and written, of one table or of all.
///
/// The counts of a table begin with its first open handle and are gone with its last: to meter a table, keep
/// one open. They only grow, and are not kept over a restart; the difference of two readings is what happened
/// in between. Operations that failed to read what they needed ([`Error::Corruption`](crate::Error::Corruption),
/// [`Error::Io`](crate::Error::Io)) are not counted as reads.
///
/// ```
/// use tablestone::{Database, Options, Precondition};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table("people").wait()?;
/// people.insert("de", "karl", "born 1854").wait()?;
/// assert!(people.insert("de", "karl", "born 1853").wait().is_err());
/// people.get("de", "karl")?;
/// let activity = people.activity();
/// assert_eq!((activity.writes, activity.failed_writes, activity.rows_written), (1, 1, 1));
/// assert_eq!((activity.reads, activity.rows_read, activity.bytes_read), (1, 1, 15));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// Gets, multi-gets and pages.
    pub reads: u64,
    /// Entities that they found.
    pub rows_read: u64,
    /// Bytes of the keys and values of these, as they are stored; of an entity that was only asked for its
    /// existence, of the keys.
    pub bytes_read: u64,
    /// Entries that pages looked at, deleted and filtered ones included.
    pub examined: u64,
    /// Commits: single writes, batches, deletions of ranges, parts of imports.
    pub writes: u64,
    /// Entities that they stored or deleted; a deletion of a range counts none. Those of
    /// [`load_table`](crate::Database::load_table) are in its report alone.
    pub rows_written: u64,
    /// Bytes of the keys and values of these.
    pub bytes_written: u64,
    /// Writes that changed nothing because of what is stored: mostly, a precondition did not hold.
    pub failed_writes: u64,
}

impl AddAssign for Activity {
    fn add_assign(&mut self, more: Self) {
        self.reads += more.reads;
        self.rows_read += more.rows_read;
        self.bytes_read += more.bytes_read;
        self.examined += more.examined;
        self.writes += more.writes;
        self.rows_written += more.rows_written;
        self.bytes_written += more.bytes_written;
        self.failed_writes += more.failed_writes;
    }
}

/// A figure of [`Activity`], by its place in a line of memory.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Reads,
    RowsRead,
    BytesRead,
    Examined,
    Writes,
    RowsWritten,
    BytesWritten,
    FailedWrites,
}

/// Counts what is done, by many threads. One that nothing was added to takes no memory of its own.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    places: OnceLock<Places>,
}

#[derive(Debug)]
struct Places {
    /// One for each number.
    own: Box<[Place]>,
    /// That of threads without.
    shared: Place,
}

impl Places {
    #[cold]
    fn new() -> Self {
        Self {
            own: (0..NUMBERS.count).map(|_| Place::default()).collect(),
            shared: Place::default(),
        }
    }
}

/// What one thread, or those without a number, counted: one line of memory.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place([AtomicU64; 8]);

impl Place {
    #[inline]
    fn figure(&self, figure: Figure) -> &AtomicU64 {
        #[expect(clippy::indexing_slicing, reason = "there are as many as figures")]
        &self.0[figure as usize]
    }

    /// Adds what the only thread that ever writes here did.
    #[inline]
    fn add_alone<const N: usize>(&self, done: [(Figure, u64); N]) {
        for (figure, more) in done {
            let figure = self.figure(figure);
            figure.store(figure.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    fn add_among_others(&self, done: &[(Figure, u64)]) {
        for (figure, more) in done {
            self.figure(*figure).fetch_add(*more, Ordering::Relaxed);
        }
    }

    fn sum(&self) -> Activity {
        let sum = |figure| self.figure(figure).load(Ordering::Relaxed);
        Activity {
            reads: sum(Figure::Reads),
            rows_read: sum(Figure::RowsRead),
            bytes_read: sum(Figure::BytesRead),
            examined: sum(Figure::Examined),
            writes: sum(Figure::Writes),
            rows_written: sum(Figure::RowsWritten),
            bytes_written: sum(Figure::BytesWritten),
            failed_writes: sum(Figure::FailedWrites),
        }
    }
}

impl Tally {
    /// Counts a read of single entities: how many were found, and the bytes of their keys and values.
    #[inline]
    pub(crate) fn read(&self, rows: usize, bytes: usize) {
        let (rows, bytes) = ((Figure::RowsRead, rows as u64), (Figure::BytesRead, bytes as u64));
        self.add([(Figure::Reads, 1), rows, bytes]);
    }

    /// Counts a page.
    pub(crate) fn page(&self, rows: usize, bytes: usize, examined: u64) {
        self.read(rows, bytes);
        self.add([(Figure::Examined, examined)]);
    }

    /// Counts a write: how many entities it stored or deleted, and the bytes of their keys and values.
    #[inline]
    pub(crate) fn write(&self, rows: usize, bytes: usize) {
        let rows = (Figure::RowsWritten, rows as u64);
        self.add([(Figure::Writes, 1), rows, (Figure::BytesWritten, bytes as u64)]);
    }

    /// Counts a write that changed nothing.
    pub(crate) fn failed_write(&self) {
        self.add([(Figure::FailedWrites, 1)]);
    }

    #[inline]
    fn add<const N: usize>(&self, done: [(Figure, u64); N]) {
        match self.places.get().and_then(|places| places.own.get(NUMBER.get())) {
            Some(own) => own.add_alone(done),
            None => self.add_first(&done),
        }
    }

    /// Of who is the first here, or has no number.
    #[cold]
    #[inline(never)]
    fn add_first(&self, done: &[(Figure, u64)]) {
        let places = self.places.get_or_init(Places::new);
        match places.own.get(number()) {
            Some(own) => done.iter().for_each(|done| own.add_alone([*done])),
            None => places.shared.add_among_others(done),
        }
    }

    /// All that was added so far. What is being added meanwhile may be missing, in parts.
    pub(crate) fn sum(&self) -> Activity {
        let mut sum = Activity::default();
        if let Some(Places { own, shared }) = self.places.get() {
            own.iter().chain([shared]).for_each(|place| sum += place.sum());
        }
        sum
    }
}

/// Numbers for threads, of the whole process: more than run at once, few enough that a tally stays small.
static NUMBERS: LazyLock<Numbers> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Numbers::new((4 * processors).clamp(8, 64))
});

/// In place of a number: it was not asked for one yet, or there was none left.
const UNKNOWN: usize = usize::MAX;
const NONE: usize = usize::MAX - 1;

std::thread_local! {
    /// This thread's.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Gives it back when the thread ends.
    static OWNED: Owned = Owned(NUMBERS.take());
}

/// This thread's number, which it now has if there was one left.
fn number() -> usize {
    if NUMBER.get() == UNKNOWN {
        let taken = OWNED.try_with(|owned| owned.0).ok().flatten();
        NUMBER.set(taken.unwrap_or(NONE));
    }
    NUMBER.get()
}

struct Owned(Option<usize>);

impl Drop for Owned {
    fn drop(&mut self) {
        // What the thread still does while it ends is no longer by this number.
        NUMBER.set(NONE);
        if let Some(number) = self.0 {
            NUMBERS.give_back(number);
        }
    }
}

/// Up to 64 numbers, each taken by one thread at a time.
struct Numbers {
    count: usize,
    /// A bit for each number that is taken.
    taken: AtomicU64,
}

impl Numbers {
    fn new(count: usize) -> Self {
        Self { count, taken: AtomicU64::new(0) }
    }

    /// The lowest number that is free. Acquires what its last owner released.
    fn take(&self) -> Option<usize> {
        let lowest = |taken: u64| {
            let number = taken.trailing_ones();
            (number < u64::BITS.min(self.count as u32)).then_some(number)
        };
        let mark = |taken| lowest(taken).map(|number| taken | 1 << number);
        let before = self.taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, mark);
        before.ok().and_then(lowest).map(|number| number as usize)
    }

    fn give_back(&self, number: usize) {
        self.taken.fetch_and(!(1 << number), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// R-E23
    #[test]
    fn no_count_is_lost_among_more_threads_than_numbers() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..NUMBERS.count + 5 {
                scope.spawn(|| (0..1_000).for_each(|_| tally.page(1, 7, 3)));
            }
        });
        let rounds = 1_000 * (NUMBERS.count as u64 + 5);
        let (bytes_read, examined) = (7 * rounds, 3 * rounds);
        let (reads, rows_read) = (rounds, rounds);
        let all = Activity { reads, rows_read, bytes_read, examined, ..Activity::default() };
        assert_eq!(tally.sum(), all);
    }

    #[test]
    fn numbers_are_given_again_and_never_twice_at_once() {
        let numbers = Numbers::new(2);
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [Some(0), Some(1), None]);
        numbers.give_back(0);
        assert_eq!([numbers.take(), numbers.take()], [Some(0), None]);
        let all = Numbers::new(64);
        assert_eq!((0..65).filter_map(|_| all.take()).sum::<usize>(), 64 * 63 / 2);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p tablestone --lib --release loom_`.
#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    const WRITE: [(Figure, u64); 2] = [(Figure::Writes, 1), (Figure::RowsWritten, 1)];

    #[test]
    fn loom_who_gets_a_number_sees_what_its_last_owner_counted() {
        loom::model(|| {
            let shared = Arc::new((Numbers::new(1), [Place::default(), Place::default()]));
            let count = |shared: &(Numbers, [Place; 2])| {
                let (numbers, [own, others]) = shared;
                match numbers.take() {
                    Some(number) => {
                        own.add_alone(WRITE);
                        numbers.give_back(number);
                    }
                    None => others.add_among_others(&WRITE),
                }
            };
            let there = Arc::clone(&shared);
            let other = thread::spawn(move || count(&there));
            count(&shared);
            other.join().unwrap();
            count(&shared);
            let mut sum = Activity::default();
            shared.1.iter().for_each(|place| sum += place.sum());
            assert_eq!((sum.writes, sum.rows_written), (3, 3));
        });
    }
}
