//! [`Commit`]: the outcome of a write that is on its way, to wait for or to await.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use super::gate::Gate;
use super::pipeline::Pipeline;
use super::relay::Relay;
use super::waiters::{WaiterKey, thread_waker};
use crate::error::{Error, Result};
use crate::version::Version;

/// What came of a write under its latch, valid once `upto` is visible: for a success its own
/// version, for a failed condition the version it lost to.
#[derive(Debug)]
pub(crate) struct Applied<T> {
    pub(crate) upto: Version,
    pub(crate) result: Result<T>,
}

impl<T> Applied<T> {
    pub(crate) fn done(upto: Version, value: T) -> Self {
        Self { upto, result: Ok(value) }
    }

    pub(crate) fn failed(upto: Version, error: Error) -> Self {
        Self { upto, result: Err(error) }
    }

    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Applied<U> {
        Applied { upto: self.upto, result: self.result.map(map) }
    }

    /// What its caller is told, once the wait for `upto` has ended. A write that was refused, by what the log then
    /// failed to keep, has changed nothing; one that was made may be in the log.
    fn outcome(self, waited: Result<()>) -> Result<T> {
        match (waited, self.result) {
            (Ok(()), result) => result,
            (Err(Error::Poisoned(cause)), Ok(_)) => Err(Error::OutcomeUnknown(cause)),
            (Err(error), _) => Err(error),
        }
    }
}

/// A piece of work that waits for admission.
pub(super) type Work<T> = Box<dyn FnOnce(&Pipeline) -> Applied<T> + Send>;

/// A write on its way: [`wait`](Commit::wait) blocks the thread, `.await` does not need one.
///
/// The write is checked and ordered when the call that returned this handle returns, except under
/// overload, when that happens once the engine has room and somebody waits; [`order`](Commit::order)
/// makes sure. It is written and
/// synced at the latest when the handle is waited on, polled or dropped; many handles can be under
/// way at once and share a sync. Dropping the handle does not undo the write: it goes on in the
/// background, and is seen by reads once it is there. Only a write that was not ordered yet, under
/// overload, is dropped with its handle, and has changed nothing. Its outcome is given once: polled again it
/// is [`Error::InvalidArgument`].
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("events").wait()?;
/// // Three writes under way at once, which share a sync.
/// let writes: Vec<_> = ["a", "b", "c"].map(|row| table.insert("today", row, "")).into();
/// for write in writes {
///     write.wait()?; // or `write.await?` in a task of any runtime
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "the outcome is known only after `wait` or `.await`"]
pub struct Commit<T> {
    pipeline: Arc<Pipeline>,
    state: State<T>,
    waiter: Option<WaiterKey>,
    durable: Option<Durable>,
}

/// It is to be durable before it is acknowledged.
#[derive(Default)]
struct Durable {
    waiter: Option<WaiterKey>,
}

enum State<T> {
    /// Not admitted yet.
    Gated(Gate, Work<T>),
    Applied(Applied<T>),
    Done,
}

impl<T> Commit<T> {
    pub(crate) fn applied(pipeline: Arc<Pipeline>, applied: Applied<T>) -> Self {
        Self { pipeline, state: State::Applied(applied), waiter: None, durable: None }
    }

    pub(super) fn gated(pipeline: Arc<Pipeline>, gate: Gate, work: Work<T>) -> Self {
        Self { pipeline, state: State::Gated(gate, work), waiter: None, durable: None }
    }

    /// A handle whose outcome is known without a write.
    pub(crate) fn refused(pipeline: Arc<Pipeline>, error: Error) -> Self {
        Self::applied(pipeline, Applied::failed(Version::ZERO, error))
    }

    /// Has the write acknowledged only once it survives a power cut, as [`Durability::Sync`] has all, in
    /// a database that was opened with another [`Durability`]: durability is per write
    /// (R-E10). What was committed before it, in any table, is durable then too.
    ///
    /// Those who wait for that at the same time share a sync, and other commits go on meanwhile; readers
    /// see the write, as any under that durability, before it is durable.
    ///
    /// ```
    /// use tablestone::{Database, Durability, Options};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let database = Database::open(dir.path(), Options::default().durability(Durability::Os))?;
    /// let table = database.create_table("orders").wait()?;
    /// table.insert("today", "1", "a draft").wait()?; // a power cut may lose it
    /// table.insert("today", "2", "an order").durable().wait()?; // now it loses neither
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Durability`]: crate::Durability
    /// [`Durability::Sync`]: crate::Durability::Sync
    pub fn durable(mut self) -> Self {
        self.durable.get_or_insert_default();
        self
    }

    /// Has the write go in at once where writes are held back and background work fails, of a full disk say: for
    /// the few by which room is made, as an application keeps a row of each table that it drops. Memory may be a
    /// quarter fuller for them than for other writes. What is large and not only deletes needs its room all the
    /// same. Deletions of ranges, partitions and tables are urgent by themselves.
    ///
    /// ```
    /// use tablestone::{Database, Options, Precondition};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let tables = database.create_table("tables").wait()?;
    /// database.create_table("logs").wait()?;
    /// tables.insert("all", "logs", "kept for a week").wait()?;
    /// tables.delete("all", "logs", Precondition::Exists).urgent().wait()?;
    /// database.drop_table("logs").wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn urgent(mut self) -> Self {
        self.state = match std::mem::replace(&mut self.state, State::Done) {
            State::Gated(mut gate, work)
                if self.pipeline.tree().lets_urgent_in()
                    && self.pipeline.check_writable().is_ok() =>
            {
                gate.leave(&self.pipeline);
                State::Applied(work(&self.pipeline))
            }
            state => state,
        };
        self
    }

    /// Blocks until the write is acknowledged as [`Durability`](crate::Durability) says.
    ///
    /// # Errors
    /// Conditions that were not met ([`Error::EntityExists`], [`Error::EntityNotFound`],
    /// [`Error::VersionMismatch`]), limits, [`Error::TableNotFound`], [`Error::TableExists`], a batch that names a
    /// RowKey twice ([`Error::DuplicateRowKey`]), a merge that refuses ([`Error::MergeRefused`], [`Error::Entity`]), a
    /// name that cannot be ([`Error::InvalidArgument`]), and what reading for a condition or a merge reports
    /// ([`Error::Corruption`], [`Error::Io`], [`Error::NotAnEntity`]): nothing was changed.
    /// [`Error::Busy`]: the engine was overloaded for too long, or the disk has no room for the write, and nothing
    /// was changed.
    /// [`Error::Closed`]: the database was closed before it was written; nothing was changed.
    /// [`Error::Poisoned`]: the log had failed before; nothing was changed. [`Error::ReadOnly`]: it was opened so.
    /// [`Error::OutcomeUnknown`]: the log failed, and whether the write survives is known after
    /// reopening.
    pub fn wait(mut self) -> Result<T> {
        self.order()?;
        match std::mem::replace(&mut self.state, State::Done) {
            State::Applied(applied) => {
                let waited = match self.durable {
                    Some(_) => self.pipeline.wait_durable(applied.upto),
                    None => self.pipeline.wait(applied.upto),
                };
                applied.outcome(waited)
            }
            State::Gated(..) | State::Done => Err(finished()),
        }
    }

    /// As [`wait`](Self::wait), but for about `timeout` at most: `None` if the time is up. The write goes on then:
    /// the handle can be waited for once more, awaited, or dropped, which undoes nothing but what overload
    /// kept from being ordered. With a timeout of zero it only looks.
    ///
    /// The log is left to a thread of the database, since a sync on this one would not end with the time; where
    /// the outcome is waited for anyhow, `wait` is faster.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tablestone::{Database, Options};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let table = database.create_table("people").wait()?;
    /// let mut write = table.insert("de", "karl", "born 1854");
    /// let version = loop {
    ///     match write.wait_timeout(Duration::from_secs(1))? {
    ///         Some(version) => break version,
    ///         None => println!("the disk is slow today"),
    ///     }
    /// };
    /// assert_eq!(table.get("de", "karl")?.map(|row| row.version), Some(version));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`wait`](Self::wait); [`Error::InvalidArgument`] if the outcome was taken already.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<T>> {
        let pipeline = Arc::clone(&self.pipeline);
        let deadline = pipeline.clock().monotonic().saturating_add(timeout);
        let waker = thread_waker();
        loop {
            if let Poll::Ready(outcome) = self.poll_outcome(&mut Context::from_waker(&waker)) {
                return outcome.map(Some);
            }
            let left = deadline.saturating_sub(pipeline.clock().monotonic());
            if left.is_zero() {
                return Ok(None);
            }
            if !pipeline.jobs().stepped() {
                thread::park_timeout(left);
            } else if !pipeline.jobs().assist() {
                return Ok(None);
            }
        }
    }

    /// Blocks under overload until the write has its place in the commit order, before all that is
    /// begun afterwards; does nothing otherwise.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Poisoned`], [`Error::Closed`], [`Error::ReadOnly`]: nothing was changed.
    pub fn order(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Gated(mut gate, work) => {
                gate.wait(&self.pipeline)?;
                self.state = State::Applied(work(&self.pipeline));
            }
            ordered => self.state = ordered,
        }
        Ok(())
    }

    /// Whether it is known already that it changes nothing.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(&self.state, State::Applied(Applied { result: Err(_), .. }))
    }

    /// Writes and syncs on this thread what is queued for the log, for a task that would rather wait
    /// for the disk than for another thread to do it. Does nothing where that other thread is at it,
    /// under overload, or if the write is acknowledged already; await the handle afterwards.
    ///
    /// ```
    /// # use tablestone::{Database, Options};
    /// # async fn write(database: Database) -> Result<(), tablestone::Error> {
    /// let table = database.create_table("people").await?;
    /// let write = table.insert("de", "karl", "born 1854");
    /// write.drive(); // nobody else has use for this thread
    /// write.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn drive(&self) {
        if let State::Applied(applied) = &self.state
            && applied.upto > self.pipeline.visible()
        {
            self.pipeline.try_drive();
        }
    }

    fn poll_outcome(&mut self, context: &mut Context<'_>) -> Poll<Result<T>> {
        if let State::Gated(gate, _) = &mut self.state {
            match gate.poll(&self.pipeline, context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => {
                    self.state = State::Done;
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Ok(())) => {}
            }
        }
        let applied = match std::mem::replace(&mut self.state, State::Done) {
            State::Gated(_, work) => work(&self.pipeline),
            State::Applied(applied) => applied,
            State::Done => return Poll::Ready(Err(finished())),
        };
        let published = self.pipeline.poll(applied.upto, &mut self.waiter, context);
        let acknowledged = match (published, &mut self.durable) {
            (Poll::Ready(Ok(())), Some(Durable { waiter })) => {
                self.pipeline.poll_durable(applied.upto, waiter, context)
            }
            (published, _) => published,
        };
        match acknowledged {
            Poll::Pending => {
                self.state = State::Applied(applied);
                Poll::Pending
            }
            Poll::Ready(waited) => Poll::Ready(applied.outcome(waited)),
        }
    }
}

fn finished() -> Error {
    Error::InvalidArgument("the outcome of this commit was taken already".into())
}

impl<T> Unpin for Commit<T> {}

impl<T> Future for Commit<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(context)
    }
}

impl<T> Drop for Commit<T> {
    fn drop(&mut self) {
        if let Some(key) = self.waiter.take() {
            self.pipeline.waiters().deregister(key);
        }
        if let Some(key) = self.durable.take().and_then(|durable| durable.waiter) {
            self.pipeline.synced.deregister(key);
        }
        match &mut self.state {
            State::Gated(gate, _) => gate.leave(&self.pipeline),
            State::Applied(applied) => self.pipeline.publish_soon(applied.upto),
            State::Done => {}
        }
    }
}

impl<T> fmt::Debug for Commit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Gated(..) => "gated",
            State::Applied(Applied { upto: Version::ZERO, result: Err(_) }) => "refused",
            State::Applied(_) => "applied",
            State::Done => "done",
        };
        f.debug_struct("Commit").field("state", &state).finish_non_exhaustive()
    }
}
