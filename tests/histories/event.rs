//! What happened: operations with the order of their beginnings and ends, and with their outcomes.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use tablestone::{Batch, Commit, Error, Precondition, Result, Table, Version};

use crate::support::model::{self, Entity, Key, TableModel};
use crate::support::query::{QuerySpec, SeenPage};

/// One order of all beginnings and ends, over all threads.
#[derive(Debug)]
pub(crate) struct Stamps(AtomicU64);

impl Stamps {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Span::BEFORE.ended + 1))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// From before a call until after its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
}

impl Span {
    /// Of what was there before anything happened.
    pub(crate) const BEFORE: Self = Self { begun: 0, ended: 0 };
    /// Of what is looked at when all has ended.
    pub(crate) const AFTERWARDS: Self = Self { begun: u64::MAX, ended: u64::MAX };
}

/// When a handle on a table was had.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Had {
    /// On the table of that name as it was then.
    Within(Span),
    /// On the one that a snapshot of this version has.
    At(Version),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) table: u8,
    pub(crate) had: Had,
}

/// What is read: of the newest state, or of a snapshot's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Via {
    pub(crate) handle: Handle,
    pub(crate) at: Option<Version>,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) span: Span,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Write {
        handle: Handle,
        write: Write,
        /// A row that only this write stores, and nothing deletes: it tells what came of it.
        marker: Option<Key>,
        /// Whether what is acknowledged is durable.
        is_durable: bool,
        outcome: Result<Version, Failure>,
    },
    /// A table was created, or loaded with rows, which have a version of their own.
    Birth {
        table: u8,
        rows: Vec<(Key, Entity)>,
        outcome: Result<(), Failure>,
    },
    Drop {
        table: u8,
        outcome: Result<Version, Failure>,
    },
    /// A handle on a table was asked for, now or as a snapshot has it.
    Open {
        table: u8,
        at: Option<Version>,
        outcome: Result<(), Failure>,
    },
    /// Some entities of one partition.
    Get {
        via: Via,
        keys: Vec<Key>,
        outcome: Result<Vec<Seen>, Failure>,
    },
    Page {
        via: Via,
        spec: QuerySpec,
        start: Option<Key>,
        outcome: Result<SeenPage, Failure>,
    },
    Snapshot(Version),
    Names {
        at: Option<Version>,
        names: Vec<String>,
    },
    /// Everything that a checkpoint of this version has, or a database that was opened again, with what is durable of
    /// this version.
    Dump {
        at: Version,
        tables: model::Model,
    },
    /// All that was acknowledged before is durable.
    Sync,
}

impl What {
    /// The table that it is about, if it is about one.
    pub(crate) fn table(&self) -> Option<u8> {
        match self {
            Self::Write { handle, .. } => Some(handle.table),
            Self::Get { via, .. } | Self::Page { via, .. } => Some(via.handle.table),
            Self::Birth { table, .. } | Self::Drop { table, .. } | Self::Open { table, .. } => {
                Some(*table)
            }
            Self::Snapshot(_) | Self::Names { .. } | Self::Dump { .. } | Self::Sync => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Absent,
    Present,
    Entity(Entity),
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    EntityExists {
        index: usize,
        version: Version,
    },
    EntityNotFound {
        index: usize,
    },
    VersionMismatch {
        index: usize,
        expected: Version,
        found: Version,
    },
    MergeRefused {
        index: usize,
    },
    TableNotFound,
    TableExists,
    /// Nothing was changed, for no reason that the history could tell.
    Busy,
    /// Whether it was done is not known: nobody waited, or the machine stopped.
    Unknown,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::EntityExists { index, version } => {
                Self::EntityExists { index: *index, version: *version }
            }
            Error::EntityNotFound { index } => Self::EntityNotFound { index: *index },
            Error::VersionMismatch { index, expected, found } => {
                Self::VersionMismatch { index: *index, expected: *expected, found: *found }
            }
            Error::MergeRefused { index, .. } => Self::MergeRefused { index: *index },
            Error::TableNotFound(_) => Self::TableNotFound,
            Error::TableExists(_) => Self::TableExists,
            Error::Busy { .. } => Self::Busy,
            Error::Io(_) | Error::Poisoned(_) | Error::OutcomeUnknown(_) | Error::Closed => {
                Self::Unknown
            }
            error => panic!("nothing that was done is the cause of this: {error}"),
        }
    }

    /// The newest version that it names as found.
    pub(crate) fn found(&self) -> Option<Version> {
        match self {
            Self::EntityExists { version: found, .. } | Self::VersionMismatch { found, .. } => {
                Some(*found)
            }
            _ => None,
        }
    }
}

/// A write to one table.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Batch { partition: Vec<u8>, ranges: Vec<Rows>, operations: Vec<Operation> },
    Import(Vec<(Key, Vec<u8>)>),
    Delete { partition: Vec<u8>, rows: Rows },
}

/// Bounds on RowKeys.
pub(crate) type Rows = (Bound<Vec<u8>>, Bound<Vec<u8>>);

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) row_key: Vec<u8>,
    pub(crate) condition: Precondition,
    pub(crate) change: Change,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(Vec<u8>),
    /// A merge that appends.
    Append(Vec<u8>),
    /// A merge that refuses.
    Refuse,
    Delete,
}

/// A write that was begun.
pub(crate) enum Begun {
    Commit(Commit<Version>),
    Done(Result<Version>),
}

impl Write {
    pub(crate) fn begin(&self, table: &Table) -> Begun {
        match self {
            Self::Batch { partition, ranges, operations } => {
                let mut batch = Batch::new(partition);
                for rows in ranges {
                    batch.delete_range(rows.clone());
                }
                operations.iter().for_each(|operation| operation.add_to(&mut batch));
                Begun::Commit(table.commit(batch))
            }
            Self::Import(rows) => {
                let rows = rows.iter().map(|((pk, rk), value)| (pk, rk, value));
                Begun::Done(table.import(rows).map(|report| report.version))
            }
            Self::Delete { partition, rows: (Bound::Unbounded, Bound::Unbounded) } => {
                Begun::Commit(table.delete_partition(partition))
            }
            Self::Delete { partition, rows } => {
                Begun::Commit(table.delete_range(partition, rows.clone()))
            }
        }
    }

    /// Whether it only deletes ranges: where they have nothing, nothing is written, and its version is another's.
    pub(crate) fn only_deletes_ranges(&self) -> bool {
        match self {
            Self::Batch { operations, .. } => operations.is_empty(),
            Self::Import(_) => false,
            Self::Delete { .. } => true,
        }
    }

    /// What it makes of the entities that it changes, at a version.
    pub(crate) fn changes(&self, state: &TableModel, version: Version) -> Result<Changes, Failure> {
        let put = |value: Vec<u8>| Some(Entity { version, value });
        let mut changes = Changes::new();
        match self {
            Self::Batch { partition, ranges, operations } => {
                for rows in ranges {
                    changes.extend(in_range(state, partition, rows));
                }
                for (index, operation) in operations.iter().enumerate() {
                    let key = (partition.clone(), operation.row_key.clone());
                    let value = operation.outcome(index, state.get(&key))?;
                    changes.push((key, value.and_then(put)));
                }
            }
            Self::Import(rows) => {
                changes.extend(rows.iter().map(|(key, value)| (key.clone(), put(value.clone()))));
            }
            Self::Delete { partition, rows } => changes.extend(in_range(state, partition, rows)),
        }
        Ok(changes)
    }
}

/// In order: the last of a key counts.
pub(crate) type Changes = Vec<(Key, Option<Entity>)>;

fn in_range<'a>(
    state: &'a TableModel,
    partition: &'a [u8],
    rows: &'a Rows,
) -> impl Iterator<Item = (Key, Option<Entity>)> + 'a {
    let keys = state.keys().filter(move |key| key.0 == partition && model::within(rows, &key.1));
    keys.map(|key| (key.clone(), None))
}

impl Operation {
    fn add_to(&self, batch: &mut Batch) {
        let (row_key, condition) = (&self.row_key, self.condition);
        match self.change.clone() {
            Change::Put(value) => batch.put(row_key, condition, value),
            Change::Append(added) => batch.merge(row_key, condition, move |old| {
                // Others may come in between, though the latch is held.
                std::thread::yield_now();
                Ok(model::appended(old, &added))
            }),
            Change::Refuse => batch.merge(row_key, condition, |_| Err("refused".into())),
            Change::Delete => batch.delete(row_key, condition),
        };
    }

    /// The value that it leaves, if any.
    pub(crate) fn outcome(
        &self,
        index: usize,
        found: Option<&Entity>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        match (self.condition, found) {
            (Precondition::Absent, Some(&Entity { version, .. })) => {
                return Err(Failure::EntityExists { index, version });
            }
            (Precondition::Exists | Precondition::Version(_), None) => {
                return Err(Failure::EntityNotFound { index });
            }
            (Precondition::Version(expected), Some(&Entity { version: found, .. }))
                if expected != found =>
            {
                return Err(Failure::VersionMismatch { index, expected, found });
            }
            _ => {}
        }
        match &self.change {
            Change::Put(value) => Ok(Some(value.clone())),
            Change::Append(added) => {
                Ok(Some(model::appended(found.map(|entity| &entity.value[..]), added)))
            }
            Change::Refuse => Err(Failure::MergeRefused { index }),
            Change::Delete => Ok(None),
        }
    }
}
