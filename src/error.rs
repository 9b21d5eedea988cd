//! [`Error`]: the one error type at the front door, and [`Damage`], what decoders report.
//!
//! Errors a server must tell apart are apart (R-E06); each is a full sentence that names what was
//! wrong, where, and what was expected.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::entity::{EntityError, NotAnEntity, RowError};
use crate::env::{Unreadable, is_full};
use crate::version::Version;

/// What a call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. An operation that returns an error has changed nothing, but for
/// [`Error::OutcomeUnknown`], and for an [import](crate::Table::import), of which earlier parts stay stored,
/// whatever the error.
///
/// ```
/// use tablestone::{Database, Error, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.insert("de", "karl", "born 1854").wait()?;
/// match table.insert("de", "karl", "born 1855").wait() {
///     Err(Error::EntityExists { .. }) => println!("somebody was faster"),
///     Err(error) if error.is_busy() => println!("try again later: {error}"),
///     other => println!("at {}", other?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation required that the entity not exist.
    #[error("operation {index}: the entity exists already, at version {version}")]
    EntityExists {
        /// Position of the operation in its batch, from 0.
        index: usize,
        /// Version of the entity that was found.
        version: Version,
    },
    /// The operation required that the entity exist.
    #[error("operation {index}: the entity does not exist")]
    EntityNotFound {
        /// Position of the operation in its batch, from 0.
        index: usize,
    },
    /// The operation required another version of the entity.
    #[error("operation {index}: the entity is at version {found}, not at {expected}")]
    VersionMismatch {
        /// Position of the operation in its batch, from 0.
        index: usize,
        /// The version the operation named.
        expected: Version,
        /// Version of the entity that was found.
        found: Version,
    },
    /// The function given to a merge refused.
    #[error("operation {index}: the merge was refused")]
    MergeRefused {
        /// Position of the operation in its batch, from 0.
        index: usize,
        /// What the function returned.
        source: MergeRefusal,
    },
    /// The entity breaks a rule of the data model, by itself or as a merge's result.
    #[error("operation {index}: the entity cannot be stored")]
    Entity {
        /// Position of the operation in its batch, or of the entity in what is imported or loaded, from 0.
        index: usize,
        /// Which rule, and how.
        source: Box<EntityError>,
    },
    /// A stored row that was asked for as an entity is none; as bytes it can be read.
    #[error(transparent)]
    NotAnEntity(Box<NotAnEntity>),
    /// A property of an entity that a page lent is damaged: what [`RowError`] becomes by `?`. Of which row, whoever
    /// has the [`EntityRef`](crate::EntityRef) knows.
    #[error(transparent)]
    Row(Box<RowError>),
    /// A batch names one RowKey twice.
    #[error("operation {index}: its RowKey is already that of operation {first}")]
    DuplicateRowKey {
        /// Position of the second operation, from 0.
        index: usize,
        /// Position of the first.
        first: usize,
    },
    /// A row to load does not come after the one before.
    #[error(transparent)]
    OutOfOrder(Box<OutOfOrder>),
    /// The table does not exist, or no longer.
    #[error("table {0:?} does not exist")]
    TableNotFound(Box<str>),
    /// The table exists already.
    #[error("table {0:?} exists already")]
    TableExists(Box<str>),
    /// Something is larger than its limit.
    #[error("{}{what} is {size}, over the limit of {limit}", operation(*index))]
    LimitExceeded {
        /// Position of the operation in its batch, or of the row in what is imported or loaded, from 0, if it is
        /// about one.
        index: Option<usize>,
        /// What is too large, with its unit.
        what: Limit,
        /// How large it is.
        size: u64,
        /// How large it may be.
        limit: u64,
    },
    /// An argument or option has no meaning; says which and why.
    #[error("{0}")]
    InvalidArgument(Box<str>),
    /// The engine could not take the write within [`busy_timeout`](crate::Options::busy_timeout), or the disk has no
    /// room for it. Nothing was changed; the batch is gone, and is to be made anew for another try
    /// ([`Batch`](crate::Batch)).
    #[error("busy: waited {waited:?} for {reason}")]
    Busy {
        /// How long the call waited; not at all where the room ended after it had been let in.
        waited: Duration,
        /// What it waited for, and what keeps that from happening if that is known.
        reason: Arc<str>,
    },
    /// A write or sync of the log failed earlier: reads go on, writes do not; reopen to recover. Nothing was
    /// changed.
    #[error("the database is read-only since a log write failed: {0}")]
    Poisoned(Arc<str>),
    /// The log failed with this write in it: whether it is stored, all of it or nothing (R-E10), is known after
    /// reopening. Until then the database is read-only.
    #[error("whether the write is stored is known after reopening, as the log failed: {0}")]
    OutcomeUnknown(Arc<str>),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// The database was opened to be [read only](crate::Options::read_only).
    #[error("the database was opened to be read only")]
    ReadOnly,
    /// Another handle or process has the directory open.
    #[error("database {0:?} is open already, here or in another process")]
    Locked(Box<Path>),
    /// The directory holds something else.
    #[error("{dir:?} is not a tablestone database: {reason}")]
    NotADatabase {
        /// The directory.
        dir: Box<Path>,
        /// What is there or missing.
        reason: Box<str>,
    },
    /// A file was written by a later version of this crate.
    #[error("{file:?} has format {found}; this build reads formats up to {supported}")]
    UnsupportedFormat {
        /// The file.
        file: Box<Path>,
        /// The format it states.
        found: u32,
        /// The newest this build knows.
        supported: u32,
    },
    /// A file does not hold what was written to it.
    #[error(transparent)]
    Corruption(Box<Corruption>),
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(Box<IoError>),
}

impl From<RowError> for Error {
    #[cold]
    fn from(error: RowError) -> Self {
        Self::Row(Box::new(error))
    }
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io(Box::new(IoError { action, path: path.to_owned(), source }))
    }

    /// Of a merge that refused: an entity's error is told as such.
    pub(crate) fn refused(index: usize, source: MergeRefusal) -> Self {
        match source.downcast::<EntityError>() {
            Ok(source) => Self::Entity { index, source },
            Err(source) => match source.downcast::<NotAnEntity>() {
                Ok(source) => Self::NotAnEntity(source),
                Err(source) => Self::MergeRefused { index, source },
            },
        }
    }

    /// The operation of a batch that it is about, of what is wrong with an operation by itself.
    pub(crate) fn operation(&self) -> Option<usize> {
        match self {
            Self::Entity { index, .. } | Self::DuplicateRowKey { index, .. } => Some(*index),
            Self::LimitExceeded { index, .. } => *index,
            _ => None,
        }
    }

    /// Of a limit: which operation, or row, is over it.
    pub(crate) fn at(mut self, position: usize) -> Self {
        if let Self::LimitExceeded { index, .. } = &mut self {
            *index = Some(position);
        }
        self
    }

    /// The error and its causes in one line, for those who hear of it later.
    pub(crate) fn chain(&self) -> Arc<str> {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text.into()
    }

    /// Whether the disk, or what the user may have of it, is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Io(io) if is_full(&io.source))
    }

    /// Whether trying again later may succeed without a change ([`Error::Busy`]).
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Whether a condition on an entity was not met: it is there, it is not, or it has another version. Who read
    /// it before may read it again and decide anew.
    ///
    /// ```
    /// use tablestone::{Database, Options};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let counters = database.create_table("counters").wait()?;
    /// let visits = loop {
    ///     let row = counters.get("page", "visits")?;
    ///     let next = row.as_ref().map_or(0, |row| row.value[0]) + 1;
    ///     // Nobody has written it since, or it is still absent.
    ///     let unchanged = row.map(|row| row.version).into();
    ///     match counters.replace("page", "visits", unchanged, [next]).wait() {
    ///         Err(error) if error.is_conflict() => continue,
    ///         written => break written.map(|_| next)?,
    ///     }
    /// };
    /// assert_eq!(visits, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::EntityExists { .. } | Self::EntityNotFound { .. } | Self::VersionMismatch { .. }
        )
    }
}

/// What a refused merge returns as its reason.
pub type MergeRefusal = Box<dyn std::error::Error + Send + Sync>;

/// Which limit was exceeded, and its unit.
///
/// ```
/// use tablestone::{Database, Error, Limit, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// let refused = table.insert("x".repeat(3_000), "", "").wait();
/// assert!(matches!(refused, Err(Error::LimitExceeded { what: Limit::PartitionKey, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Length of a PartitionKey in bytes.
    PartitionKey,
    /// Length of a RowKey in bytes.
    RowKey,
    /// Length of a stored value in bytes.
    Value,
    /// Number of operations in a batch.
    BatchOperations,
    /// Size of a batch in bytes: keys and values.
    BatchBytes,
    /// Length of a table's name in bytes.
    TableName,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PartitionKey => "the PartitionKey's length in bytes",
            Self::RowKey => "the RowKey's length in bytes",
            Self::Value => "the value's length in bytes",
            Self::BatchOperations => "the batch's number of operations",
            Self::BatchBytes => "the batch's size in bytes",
            Self::TableName => "the table name's length in bytes",
        })
    }
}

/// A row that a [`TableLoader`](crate::TableLoader) refused: it does not come after the one before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "row {index} to load: expected keys after ({}, {}), found ({}, {})",
    .after.0.escape_ascii(), .after.1.escape_ascii(), .found.0.escape_ascii(), .found.1.escape_ascii()
)]
pub struct OutOfOrder {
    /// Its position among the rows, from 0.
    pub index: u64,
    /// PartitionKey and RowKey of the row before.
    pub after: (Vec<u8>, Vec<u8>),
    /// PartitionKey and RowKey of this row.
    pub found: (Vec<u8>, Vec<u8>),
}

/// Damage found in a file: it was not returned as data, and the file was left as it is (R-E22).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file:?} is damaged at offset {offset}: expected {expected}, found {found}")]
pub struct Corruption {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in the file, in bytes from its start.
    pub offset: u64,
    /// What a whole file would have there.
    pub expected: Cow<'static, str>,
    /// What it has.
    pub found: Cow<'static, str>,
}

impl Corruption {
    /// Of what the device fails to read.
    #[cold]
    pub(crate) fn unreadable(unreadable: Unreadable) -> Self {
        let Unreadable { file, offset, bytes, reason } = unreadable;
        let expected = format!("{bytes} bytes that can be read").into();
        Self { file, offset, expected, found: reason.into() }
    }
}

/// An operation that the operating system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path:?}")]
pub struct IoError {
    /// What was tried, as a verb.
    pub action: &'static str,
    /// On which file or directory.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

/// What a decoder of bytes found wrong, before it is known which file the bytes are from.
#[derive(Debug)]
pub(crate) struct Damage {
    /// Offset within the decoded bytes.
    pub(crate) offset: u64,
    pub(crate) expected: Cow<'static, str>,
    pub(crate) found: Cow<'static, str>,
}

impl Damage {
    #[cold]
    pub(crate) fn new(
        offset: u64,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { offset, expected: expected.into(), found: found.into() }
    }

    /// The front-door error, for bytes that begin at `base` in `file`.
    #[cold]
    pub(crate) fn in_file(self, file: &Path, base: u64) -> Error {
        Error::Corruption(Box::new(Corruption {
            file: file.to_owned(),
            offset: base.saturating_add(self.offset),
            expected: self.expected,
            found: self.found,
        }))
    }
}

fn operation(index: Option<usize>) -> String {
    index.map(|index| format!("operation {index}: ")).unwrap_or_default()
}

const _: () = assert!(size_of::<Error>() <= 40, "errors travel in every Result: keep them small");
