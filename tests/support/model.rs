//! What a database must look like to its users: tables in maps. [`Write`]s run on the model and
//! on a database alike.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use tablestone::{Batch, Commit, Database, Error, Precondition, Result, RowRef, Table, Version};

/// PartitionKey and RowKey.
pub type Key = (Vec<u8>, Vec<u8>);

/// One stored entity; its version is zero where the test does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    pub version: Version,
    pub value: Vec<u8>,
}

pub type TableModel = BTreeMap<Key, Entity>;

/// All tables, shared by the models in which they are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub tables: BTreeMap<String, Arc<TableModel>>,
}

/// A write, in small numbers that stand for names, keys and values.
#[derive(Clone, Debug)]
pub enum Write {
    Create(u8),
    Drop(u8),
    Commit {
        table: u8,
        partition: u8,
        /// What is deleted of what was there before.
        ranges: Vec<(Bound<u8>, Bound<u8>)>,
        operations: Vec<Operation>,
    },
    Import {
        table: u8,
        partition: u8,
        first_row: u8,
        rows: u8,
        len: u16,
    },
    /// A new table with so many rows in each of the partitions up to one.
    Load {
        table: u8,
        last_partition: u8,
        rows: u8,
        len: u16,
    },
    DeletePartition {
        table: u8,
        partition: u8,
    },
    DeleteRange {
        table: u8,
        partition: u8,
        rows: (Bound<u8>, Bound<u8>),
    },
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub row: u8,
    pub condition: Condition,
    pub action: Action,
}

#[derive(Clone, Copy, Debug)]
pub enum Condition {
    None,
    Absent,
    Exists,
    /// The entity's version, or any version if there is no entity.
    Current,
    /// A version that is not the entity's.
    Stale,
}

#[derive(Clone, Debug)]
pub enum Action {
    Put(u16),
    /// A merge that appends.
    Append(u16),
    /// A merge that refuses.
    Refuse,
    Delete,
}

/// What came of a write, as far as a caller tells outcomes apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    EntityExists(usize),
    EntityNotFound(usize),
    VersionMismatch(usize),
    MergeRefused(usize),
    DuplicateRowKey(usize),
    TableNotFound,
    TableExists,
    /// Not by the write's own fault.
    Failed(String),
}

impl Outcome {
    /// Whether a database may answer so where the model says `expected`: what is wrong with a batch
    /// in itself may be told before the table is looked at.
    pub fn agrees(&self, expected: &Self) -> bool {
        self == expected
            || matches!((self, expected), (Self::DuplicateRowKey(_), Self::TableNotFound))
    }

    pub fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(Error::EntityExists { index, .. }) => Self::EntityExists(*index),
            Err(Error::EntityNotFound { index }) => Self::EntityNotFound(*index),
            Err(Error::VersionMismatch { index, .. }) => Self::VersionMismatch(*index),
            Err(Error::MergeRefused { index, .. }) => Self::MergeRefused(*index),
            Err(Error::DuplicateRowKey { index, .. }) => Self::DuplicateRowKey(*index),
            Err(Error::TableNotFound(_)) => Self::TableNotFound,
            Err(Error::TableExists(_)) => Self::TableExists,
            Err(other) => Self::Failed(other.to_string()),
        }
    }
}

pub fn table_name(table: u8) -> String {
    format!("table-{table}")
}

/// Keys that are easily confused with each other, then plain ones.
fn odd_key(number: u8) -> Option<Vec<u8>> {
    let odd: [&[u8]; 10] =
        [b"", b"\0", b"\0\0", b"\x01", b"\0\x01", b"a", b"a\0", b"ab", b"\xFF", b"\xFF\xFF"];
    odd.get(usize::from(number)).map(|key| key.to_vec())
}

pub fn partition_key(number: u8) -> Vec<u8> {
    odd_key(number).unwrap_or_else(|| format!("partition {number}").into_bytes())
}

pub fn row_key(number: u8) -> Vec<u8> {
    odd_key(number).unwrap_or_else(|| format!("row {number:03}").into_bytes())
}

/// A value that no other step stores; half of it compresses.
pub fn value(step: u32, row: u8, len: u16) -> Vec<u8> {
    let head = [&step.to_be_bytes()[..], &[row]].concat();
    let words = usize::from(len).saturating_sub(head.len()).div_ceil(8);
    let mut value = [&head[..], &b"....same".repeat(words)].concat();
    let mut noise = u64::from(step) << 8 | u64::from(row) | 1;
    for word in value[head.len()..].chunks_exact_mut(8) {
        noise =
            noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word[..4].copy_from_slice(&noise.to_be_bytes()[..4]);
    }
    value
}

/// What a merge that appends makes.
pub fn appended(old: Option<&[u8]>, added: &[u8]) -> Vec<u8> {
    // Bounded, so that a long script does not reach the limit of a value.
    let old = old.unwrap_or_default();
    [&old[..old.len().min(600)], added].concat()
}

/// Bounds on keys of bounds on numbers.
pub fn bounds(
    (low, high): &(Bound<u8>, Bound<u8>),
    key: fn(u8) -> Vec<u8>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (low.map(key), high.map(key))
}

/// Whether a key is within bounds; like `RangeBounds::contains`, but empty for inverted ones.
pub fn within(bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>), key: &Vec<u8>) -> bool {
    bounds.contains(key)
}

impl Write {
    pub fn table(&self) -> u8 {
        match self {
            Self::Create(table) | Self::Drop(table) => *table,
            Self::Commit { table, .. }
            | Self::Import { table, .. }
            | Self::Load { table, .. }
            | Self::DeletePartition { table, .. }
            | Self::DeleteRange { table, .. } => *table,
        }
    }
}

impl Condition {
    fn precondition(self, found: Option<&Entity>) -> Precondition {
        let version = found.map_or(Version::from_ticks(7), |entity| entity.version);
        match self {
            Self::None => Precondition::None,
            Self::Absent => Precondition::Absent,
            Self::Current if version == Version::ZERO => Precondition::Exists,
            Self::Exists => Precondition::Exists,
            Self::Current => Precondition::Version(version),
            Self::Stale => Precondition::Version(Version::from_ticks(version.ticks() ^ 1)),
        }
    }

    fn check(self, index: usize, found: Option<&Entity>) -> Result<(), Outcome> {
        match (self, found) {
            (Self::None, _) | (Self::Absent, None) | (Self::Exists | Self::Current, Some(_)) => {
                Ok(())
            }
            (Self::Absent, Some(_)) => Err(Outcome::EntityExists(index)),
            (_, None) => Err(Outcome::EntityNotFound(index)),
            (Self::Stale, Some(_)) => Err(Outcome::VersionMismatch(index)),
        }
    }
}

impl Model {
    pub fn table(&self, table: u8) -> Option<&TableModel> {
        self.tables.get(&table_name(table)).map(|table| &**table)
    }

    /// Does a write, at an unknown version.
    pub fn apply(&mut self, write: &Write, step: u32) -> Outcome {
        match write {
            Write::Create(table) => match self.tables.entry(table_name(*table)) {
                Entry::Occupied(_) => Outcome::TableExists,
                Entry::Vacant(entry) => {
                    entry.insert(Arc::default());
                    Outcome::Done
                }
            },
            Write::Load { table, last_partition, rows, len } => {
                match self.tables.entry(table_name(*table)) {
                    Entry::Occupied(_) => Outcome::TableExists,
                    Entry::Vacant(entry) => {
                        let rows = loaded_rows(*last_partition, *rows, *len, step);
                        let stored = |value| Entity { version: Version::ZERO, value };
                        let rows = rows.into_iter().map(|(k, v)| (k, stored(v)));
                        entry.insert(Arc::new(rows.collect()));
                        Outcome::Done
                    }
                }
            }
            Write::Drop(table) => match self.tables.remove(&table_name(*table)) {
                Some(_) => Outcome::Done,
                None => Outcome::TableNotFound,
            },
            _ => match self.tables.get_mut(&table_name(write.table())) {
                Some(table) => match apply_to_table(Arc::make_mut(table), write, step) {
                    Ok(()) => Outcome::Done,
                    Err(outcome) => outcome,
                },
                None => Outcome::TableNotFound,
            },
        }
    }

    /// Gives the entities of the last write the version it was acknowledged with.
    pub fn acknowledge(&mut self, write: &Write, version: Version) {
        if let Some(table) = self.tables.get_mut(&table_name(write.table())) {
            for entity in Arc::make_mut(table).values_mut().filter(|e| e.version == Version::ZERO) {
                entity.version = version;
            }
        }
    }
}

fn apply_to_table(table: &mut TableModel, write: &Write, step: u32) -> Result<(), Outcome> {
    let mut put = |pk: &Vec<u8>, row: u8, value: Vec<u8>| {
        table.insert((pk.clone(), row_key(row)), Entity { version: Version::ZERO, value });
    };
    match write {
        Write::Commit { partition, ranges, operations, .. } => {
            let pk = partition_key(*partition);
            let changes = changes(table, &pk, operations, step)?;
            let ranges: Vec<_> = ranges.iter().map(|rows| bounds(rows, row_key)).collect();
            table.retain(|(p, row), _| *p != pk || !ranges.iter().any(|rows| within(rows, row)));
            for (key, entity) in changes {
                match entity {
                    Some(entity) => table.insert(key, entity),
                    None => table.remove(&key),
                };
            }
        }
        Write::Import { partition, first_row, rows, len, .. } => {
            let pk = partition_key(*partition);
            for row in *first_row..first_row.saturating_add(*rows) {
                put(&pk, row, value(step, row, *len));
            }
        }
        Write::DeletePartition { partition, .. } => {
            let pk = partition_key(*partition);
            table.retain(|key, _| key.0 != pk);
        }
        Write::DeleteRange { partition, rows, .. } => {
            let (pk, rows) = (partition_key(*partition), bounds(rows, row_key));
            table.retain(|key, _| key.0 != pk || !within(&rows, &key.1));
        }
        Write::Create(_) | Write::Drop(_) | Write::Load { .. } => {
            unreachable!("not writes to a table")
        }
    }
    Ok(())
}

/// What a commit makes of the entities that it names, unless it does nothing.
fn changes(
    table: &TableModel,
    pk: &[u8],
    operations: &[Operation],
    step: u32,
) -> Result<Vec<(Key, Option<Entity>)>, Outcome> {
    let change = |(index, operation): (usize, &Operation)| {
        if operations[..index].iter().any(|other| other.row == operation.row) {
            return Err(Outcome::DuplicateRowKey(index));
        }
        let key = (pk.to_vec(), row_key(operation.row));
        let found = table.get(&key);
        operation.condition.check(index, found)?;
        let value = match operation.action {
            Action::Put(len) => Some(value(step, operation.row, len)),
            Action::Append(len) => {
                let old = found.map(|entity| &entity.value[..]);
                Some(appended(old, &value(step, operation.row, len)))
            }
            Action::Refuse => return Err(Outcome::MergeRefused(index)),
            Action::Delete => None,
        };
        Ok((key, value.map(|value| Entity { version: Version::ZERO, value })))
    };
    operations.iter().enumerate().map(change).collect()
}

/// The rows of a load, in key order.
fn loaded_rows(last_partition: u8, rows: u8, len: u16, step: u32) -> BTreeMap<Key, Vec<u8>> {
    let keys = (0..=last_partition).flat_map(|p| (0..rows).map(move |row| (p, row)));
    keys.map(|(p, row)| ((partition_key(p), row_key(row)), value(step, row, len))).collect()
}

/// Loads a table; gives its version.
pub fn load(database: &Database, name: &str, rows: &BTreeMap<Key, Vec<u8>>) -> Result<Version> {
    let mut loader = database.load_table(name)?;
    rows.iter().try_for_each(|((pk, rk), value)| loader.put(pk, rk, value))?;
    Ok(loader.finish()?.version)
}

/// A write that was started.
pub enum Started {
    Commit(Commit<Version>),
    Create(Commit<Table>),
    Done(Result<Version>),
}

impl Started {
    /// Whether it is held back by overload: such a write is not ordered before somebody waits.
    pub fn is_held_back(&self) -> bool {
        self.is_commit("gated")
    }

    /// Whether it is not for later to wait for it: its outcome is known, the failure of a read
    /// perhaps, or is a table.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Commit(_)) || self.is_commit("refused")
    }

    fn is_commit(&self, state: &str) -> bool {
        matches!(self, Self::Commit(commit) if format!("{commit:?}").contains(state))
    }

    /// The same, to be waited for until it is durable.
    pub fn durable(self) -> Self {
        match self {
            Self::Commit(commit) => Self::Commit(commit.durable()),
            Self::Create(commit) => Self::Create(commit.durable()),
            done @ Self::Done(_) => done,
        }
    }

    /// Its version, zero if the call does not tell.
    pub fn wait(self, handles: &mut Handles) -> Result<Version> {
        match self {
            Self::Commit(commit) => commit.wait(),
            Self::Create(commit) => commit.wait().map(|table| {
                handles.insert(table.name().to_owned(), table);
                Version::ZERO
            }),
            Self::Done(result) => result,
        }
    }
}

/// Handles on tables, kept as a server would: also beyond the drop of the table.
pub type Handles = BTreeMap<String, Table>;

/// Starts on a database what [`Model::apply`] does on the model, which is as it was before.
pub fn start(
    database: &Database,
    handles: &mut Handles,
    before: &Model,
    write: &Write,
    step: u32,
) -> Started {
    let name = table_name(write.table());
    match write {
        Write::Create(_) => return Started::Create(database.create_table(&name)),
        Write::Drop(_) => return Started::Commit(database.drop_table(&name)),
        Write::Load { last_partition, rows, len, .. } => {
            let rows = loaded_rows(*last_partition, *rows, *len, step);
            let loaded = load(database, &name, &rows);
            if loaded.is_ok() {
                handles.remove(&name);
            }
            return Started::Done(loaded);
        }
        _ => {}
    }
    let table = match handles.get(&name) {
        Some(table) => table.clone(),
        None => match database.table(&name) {
            Ok(table) => handles.entry(name.clone()).or_insert(table).clone(),
            Err(error) => return Started::Done(Err(error)),
        },
    };
    match write {
        Write::Commit { partition, ranges, operations, .. } => {
            let mut batch = batch(before.table(write.table()), *partition, operations, step);
            ranges.iter().for_each(|rows| {
                batch.delete_range(bounds(rows, row_key));
            });
            Started::Commit(table.commit(batch))
        }
        Write::Import { partition, first_row, rows, len, .. } => {
            let rows = (*first_row..first_row.saturating_add(*rows))
                .map(|row| (partition_key(*partition), row_key(row), value(step, row, *len)));
            Started::Done(table.import(rows).map(|report| report.version))
        }
        Write::DeletePartition { partition, .. } => {
            Started::Commit(table.delete_partition(partition_key(*partition)))
        }
        Write::DeleteRange { partition, rows, .. } => {
            Started::Commit(table.delete_range(partition_key(*partition), bounds(rows, row_key)))
        }
        Write::Create(_) | Write::Drop(_) | Write::Load { .. } => unreachable!("returned above"),
    }
}

fn batch(before: Option<&TableModel>, partition: u8, operations: &[Operation], step: u32) -> Batch {
    let pk = partition_key(partition);
    let mut batch = Batch::new(&pk);
    for &Operation { row, condition, ref action } in operations {
        let rk = row_key(row);
        let found = before.and_then(|table| table.get(&(pk.clone(), rk.clone())));
        let condition = condition.precondition(found);
        match *action {
            Action::Put(len) => batch.put(rk, condition, value(step, row, len)),
            Action::Append(len) => {
                batch.merge(rk, condition, move |old| Ok(appended(old, &value(step, row, len))))
            }
            Action::Refuse => batch.merge(rk, condition, |_| Err("refused".into())),
            Action::Delete => batch.delete(rk, condition),
        };
    }
    batch
}

/// A row as a model has it.
pub fn stored(row: RowRef<'_>) -> (Key, Entity) {
    let key = (row.partition_key.to_vec(), row.row_key.to_vec());
    (key, Entity { version: row.version, value: row.value.to_vec() })
}

/// Everything a database holds, versions included.
pub fn dump(database: &Database) -> Model {
    let mut model = Model::default();
    for name in database.tables(None, usize::MAX).unwrap().names {
        let table = database.table(&name).unwrap();
        let rows = Arc::make_mut(model.tables.entry(name).or_default());
        for page in table.query().pages() {
            let page = page.unwrap();
            rows.extend(page.iter().map(stored));
        }
    }
    model
}

/// A model without versions, to compare what is stored.
pub fn without_versions(model: &Model) -> Model {
    let mut model = model.clone();
    for entity in model.tables.values_mut().flat_map(|table| Arc::make_mut(table).values_mut()) {
        entity.version = Version::ZERO;
    }
    model
}
