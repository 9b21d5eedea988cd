//! What the database must hold, as maps.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use tablestone::{Batch, Precondition, Version};

/// Tables by number.
pub(crate) const TABLES: usize = 2;
const PARTITION_KEYS: [&[u8]; 8] = [b"", b"a", b"a\0", b"a\x01", b"ab", b"b", b"\xFF", b"\xFF\xFF"];

/// Which write an entity is from; its version is known once that is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp(pub(crate) u64);

pub(crate) type Key = (Vec<u8>, Vec<u8>);
pub(crate) type Rows = BTreeMap<Key, (Stamp, Vec<u8>)>;

/// The rows of each table; `None` where there is no table.
pub(crate) type Model = [Option<Rows>; TABLES];

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct TableNumber(u8);

impl TableNumber {
    pub(crate) fn get(self) -> usize {
        usize::from(self.0) % TABLES
    }

    pub(crate) fn name(number: usize) -> String {
        format!("table-{number}")
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct PartitionKey(u8);

impl PartitionKey {
    pub(crate) fn bytes(self) -> Vec<u8> {
        PARTITION_KEYS[usize::from(self.0) % PARTITION_KEYS.len()].to_vec()
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct RowKey(u8);

impl RowKey {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self.0 {
            0 => Vec::new(),
            byte @ 1..=15 => vec![byte - 1, 0xFF],
            byte => format!("row-{:02}", byte / 2).into_bytes(),
        }
    }
}

/// A value as short or long as said, different for every write.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Value {
    len: u16,
}

impl Value {
    fn bytes(self, stamp: Stamp) -> Vec<u8> {
        let tag = stamp.0.to_le_bytes();
        tag.iter().copied().cycle().take(usize::from(self.len % 4_000)).collect()
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Condition {
    None,
    Absent,
    Exists,
    Current,
    Stale,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Action {
    Put(Value),
    Merge,
    Delete,
}

#[derive(Arbitrary, Clone, Debug)]
pub(crate) enum Write {
    Batch {
        table: TableNumber,
        partition_key: PartitionKey,
        /// A range whose rows go, but for those that operations store.
        replaced: Option<(RowKey, RowKey)>,
        #[arbitrary(with = several)]
        operations: Vec<(RowKey, Condition, Action)>,
    },
    Import {
        table: TableNumber,
        #[arbitrary(with = several)]
        rows: Vec<(PartitionKey, RowKey, Value)>,
    },
    DeletePartition {
        table: TableNumber,
        partition_key: PartitionKey,
    },
    DeleteRange {
        table: TableNumber,
        partition_key: PartitionKey,
        from: RowKey,
        to: RowKey,
    },
    Create {
        table: TableNumber,
    },
    Drop {
        table: TableNumber,
    },
    Load {
        table: TableNumber,
        #[arbitrary(with = several)]
        rows: Vec<(PartitionKey, RowKey, Value)>,
    },
}

/// Most operations in a batch, and rows in an import or a load.
const OPERATIONS: usize = 20;

fn several<'a, T: Arbitrary<'a>>(input: &mut Unstructured<'a>) -> arbitrary::Result<Vec<T>> {
    let count = input.int_in_range(0..=OPERATIONS)?;
    (0..count).map(|_| input.arbitrary()).collect()
}

impl Write {
    /// Makes the table without which little can happen.
    pub(crate) fn first_table() -> Self {
        Self::Create { table: TableNumber(0) }
    }

    pub(crate) fn table(&self) -> usize {
        match self {
            Self::Batch { table, .. }
            | Self::Import { table, .. }
            | Self::DeletePartition { table, .. }
            | Self::DeleteRange { table, .. }
            | Self::Create { table }
            | Self::Drop { table }
            | Self::Load { table, .. } => table.get(),
        }
    }

    /// Whether it is not sent to be asked for later.
    pub(crate) fn is_waited_for(&self) -> bool {
        !matches!(
            self,
            Self::Batch { .. } | Self::DeletePartition { .. } | Self::DeleteRange { .. }
        )
    }

    /// Leaves each RowKey of a batch once.
    pub(crate) fn tidy(&mut self) {
        if let Self::Batch { operations, .. } = self {
            let mut seen = std::collections::HashSet::new();
            operations.retain(|(row_key, ..)| seen.insert(row_key.bytes()));
        }
    }

    /// Whether what it asks for depends on a version, which must be known then.
    pub(crate) fn names_a_version(&self) -> bool {
        let Self::Batch { operations, .. } = self else { return false };
        operations.iter().any(|(_, condition, _)| matches!(condition, Condition::Current))
    }
}

/// Why a write must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists(usize),
    NotFound(usize),
    Mismatch(usize),
    NoTable,
    TableExists,
}

/// Does a write to the model.
pub(crate) fn apply(model: &Model, write: &Write, stamp: Stamp) -> Result<Model, Refusal> {
    let mut after = model.clone();
    let table = &mut after[write.table()];
    let made = match write {
        Write::Create { .. } => Some(Rows::new()),
        Write::Load { rows, .. } => Some(loaded_rows(rows, stamp)),
        _ => None,
    };
    if let Some(made) = made {
        return match table.replace(made) {
            None => Ok(after),
            Some(_) => Err(Refusal::TableExists),
        };
    }
    let rows = table.as_mut().ok_or(Refusal::NoTable)?;
    match write {
        Write::Batch { partition_key, replaced, operations, .. } => {
            let before = rows.clone();
            if let Some((from, to)) = replaced {
                let (partition_key, range) = (partition_key.bytes(), from.bytes()..to.bytes());
                rows.retain(|(pk, rk), _| *pk != partition_key || !range.contains(rk));
            }
            for (index, (row_key, condition, action)) in operations.iter().enumerate() {
                let key = (partition_key.bytes(), row_key.bytes());
                check(index, *condition, before.contains_key(&key))?;
                match action {
                    Action::Put(value) => {
                        rows.insert(key, (stamp, value.bytes(stamp)));
                    }
                    Action::Merge => {
                        let old = before.get(&key).map(|(_, value)| &**value);
                        let value = merged(old, stamp);
                        rows.insert(key, (stamp, value));
                    }
                    Action::Delete => {
                        rows.remove(&key);
                    }
                }
            }
        }
        Write::Import { rows: imported, .. } => {
            for (partition_key, row_key, value) in imported {
                let key = (partition_key.bytes(), row_key.bytes());
                rows.insert(key, (stamp, value.bytes(stamp)));
            }
        }
        Write::DeletePartition { partition_key, .. } => {
            let partition_key = partition_key.bytes();
            rows.retain(|(pk, _), _| *pk != partition_key);
        }
        Write::DeleteRange { partition_key, from, to, .. } => {
            let (partition_key, range) = (partition_key.bytes(), from.bytes()..to.bytes());
            rows.retain(|(pk, rk), _| *pk != partition_key || !range.contains(rk));
        }
        Write::Drop { .. } => *table = None,
        Write::Create { .. } | Write::Load { .. } => {}
    }
    Ok(after)
}

fn check(index: usize, condition: Condition, exists: bool) -> Result<(), Refusal> {
    match condition {
        Condition::Absent if exists => Err(Refusal::Exists(index)),
        Condition::Exists | Condition::Current | Condition::Stale if !exists => {
            Err(Refusal::NotFound(index))
        }
        Condition::Stale => Err(Refusal::Mismatch(index)),
        _ => Ok(()),
    }
}

fn merged(old: Option<&[u8]>, stamp: Stamp) -> Vec<u8> {
    let mut value = old.unwrap_or_default().to_vec();
    value.truncate(100);
    value.extend_from_slice(&stamp.0.to_le_bytes());
    value
}

/// The same batch for the engine; `version` gives that of an existing entity.
pub(crate) fn batch(
    partition_key: PartitionKey,
    operations: &[(RowKey, Condition, Action)],
    stamp: Stamp,
    version: impl Fn(&Key) -> Option<Version>,
) -> Batch {
    let mut batch = Batch::new(partition_key.bytes());
    for (row_key, condition, action) in operations {
        let row_key = row_key.bytes();
        let precondition = match condition {
            Condition::None => Precondition::None,
            Condition::Absent => Precondition::Absent,
            Condition::Exists => Precondition::Exists,
            Condition::Stale => Precondition::Version(Version::from_ticks(1)),
            Condition::Current => {
                let current = version(&(partition_key.bytes(), row_key.clone()));
                Precondition::Version(current.unwrap_or(Version::from_ticks(1)))
            }
        };
        match action {
            Action::Put(value) => batch.put(row_key, precondition, value.bytes(stamp)),
            Action::Merge => batch.merge(row_key, precondition, move |old| Ok(merged(old, stamp))),
            Action::Delete => batch.delete(row_key, precondition),
        };
    }
    batch
}

/// The rows that an import is given.
pub(crate) fn import_rows(
    rows: &[(PartitionKey, RowKey, Value)],
    stamp: Stamp,
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>, Vec<u8>)> {
    rows.iter().map(move |(pk, rk, value)| (pk.bytes(), rk.bytes(), value.bytes(stamp)))
}

/// The rows that a load is given, in key order and each key once.
pub(crate) fn loaded_rows(rows: &[(PartitionKey, RowKey, Value)], stamp: Stamp) -> Rows {
    import_rows(rows, stamp).map(|(pk, rk, value)| ((pk, rk), (stamp, value))).collect()
}
