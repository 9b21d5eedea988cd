//! [`Draft`]: the operations of a batch, encoded for the log as they are added.
//!
//! Invariant: the payload has one row for each operation, in order. For a merge that is a row that deletes: it
//! keeps the RowKey until the merge has run. So keys and values are copied once, to where the log is written from.
//! What ranges to delete come to is known under the latch, and is written behind these rows.

use std::collections::HashMap;

use super::check_limit;
use super::conditions::Precondition;
use super::latch::Latches;
use super::payload::{Payload, Prepared, Row};
use super::ranges::Deletions;
use crate::error::{Error, Limit, MergeRefusal, Result};
use crate::key::{self, KeyBounds, TableId};
use crate::read::ScanRange;

/// Makes the new value of an entity from the stored one, if there is one.
pub(crate) type MergeFn = Box<dyn FnOnce(Option<&[u8]>) -> Result<Vec<u8>, MergeRefusal> + Send>;

/// What one operation does.
enum Action {
    Put,
    Merge(MergeFn),
    /// A merge that has run, to this value.
    Merged(Vec<u8>),
    Delete,
}

/// One operation of a batch.
pub(super) struct Operation {
    pub(super) precondition: Precondition,
    action: Action,
    row: Row,
    /// Bytes of the RowKey as it was given, and of the value as far as it is known.
    row_key_len: usize,
    value_len: usize,
}

/// What a batch may have, in bytes but for the number of operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) operations: usize,
    pub(crate) batch_bytes: usize,
    /// Once merges have run.
    pub(crate) merged_bytes: usize,
}

/// What room is made for once there are two rows, at most so many bytes of them.
const MANY_ROWS: usize = 100;
const MANY_ROWS_BYTES: usize = 32 << 10;

/// Operations on one partition that are being put together.
#[derive(Default)]
pub(crate) struct Draft {
    partition_key: Vec<u8>,
    payload: Payload,
    operations: Vec<Operation>,
    /// Few batches have any, and each is moved some times.
    #[expect(clippy::box_collection, reason = "a pointer instead of three words")]
    ranges: Option<Box<Vec<KeyBounds>>>,
}

/// A batch that is complete.
pub(super) struct Finished {
    /// The encoded partition.
    pub(super) prefix: Vec<u8>,
    pub(super) operations: Vec<Operation>,
    /// Ready, unless a merge is among them or a range is deleted.
    pub(super) rows: Rows,
    pub(super) ranges: Option<Box<[ScanRange]>>,
}

impl Draft {
    pub(crate) fn new(partition_key: Vec<u8>) -> Self {
        Self { partition_key, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    pub(crate) fn partition_key(&self) -> &[u8] {
        &self.partition_key
    }

    /// A value may come in two parts.
    pub(crate) fn put(&mut self, row_key: &[u8], precondition: Precondition, value: [&[u8]; 2]) {
        let value_len = value.iter().map(|part| part.len()).sum();
        let row = self.payload_for(row_key, value_len).put_parts(row_key, value);
        self.push(precondition, Action::Put, row, row_key.len(), value_len);
    }

    pub(crate) fn merge(&mut self, row_key: &[u8], precondition: Precondition, merge: MergeFn) {
        let row = self.payload_for(row_key, 0).delete(row_key);
        self.push(precondition, Action::Merge(merge), row, row_key.len(), 0);
    }

    pub(crate) fn delete(&mut self, row_key: &[u8], precondition: Precondition) {
        let row = self.payload_for(row_key, 0).delete(row_key);
        self.push(precondition, Action::Delete, row, row_key.len(), 0);
    }

    pub(crate) fn delete_range(&mut self, rows: KeyBounds) {
        self.ranges.get_or_insert_default().push(rows);
    }

    pub(crate) fn ranges(&self) -> usize {
        self.ranges.as_ref().map_or(0, |ranges| ranges.len())
    }

    /// The payload, with room for what comes before the first row. Where there is a second row there may be
    /// many, as long as it is.
    fn payload_for(&mut self, row_key: &[u8], value_len: usize) -> &mut Payload {
        let row_len = row_key.len() + value_len + 16;
        match self.operations.len() {
            0 => {
                let prefix_len = key::longest_partition(self.partition_key.len());
                self.payload = Payload::with_rows_first(prefix_len, row_len);
            }
            1 => {
                self.operations.reserve(MANY_ROWS);
                self.payload.reserve(row_len.saturating_mul(MANY_ROWS).min(MANY_ROWS_BYTES));
            }
            _ => {}
        }
        &mut self.payload
    }

    fn push(
        &mut self,
        precondition: Precondition,
        action: Action,
        row: Row,
        row_key_len: usize,
        value_len: usize,
    ) {
        self.operations.push(Operation { precondition, action, row, row_key_len, value_len });
    }

    /// What is put: the operation's index, the RowKey and the value.
    pub(crate) fn puts(&self) -> impl Iterator<Item = (usize, Vec<u8>, &[u8])> {
        let puts = |(_, operation): &(usize, &Operation)| matches!(operation.action, Action::Put);
        self.operations.iter().enumerate().filter(puts).map(|(index, operation)| {
            let buffer = self.payload.buffer();
            (index, key::decode_component(operation.row_key(buffer)), operation.value(buffer))
        })
    }

    /// Bytes of all keys and values, as the limit of a batch counts them.
    pub(crate) fn bytes(&self) -> usize {
        batch_bytes(self.partition_key.len(), &self.operations)
    }

    /// Leaves the first `operations`, to look at their conditions alone; whether they have any.
    pub(crate) fn truncate(&mut self, operations: usize) -> bool {
        self.operations.truncate(operations);
        self.ranges = None;
        self.operations.iter().any(Operation::looks)
    }

    /// Fails if it has more than it may, or a RowKey twice: of operations the first.
    pub(crate) fn check(&self, limits: &BatchLimits) -> Result<()> {
        check_limit(Limit::PartitionKey, self.partition_key.len(), limits.key_bytes)?;
        let operations = self.operations.len() + self.ranges();
        check_limit(Limit::BatchOperations, operations, limits.operations)?;
        for (index, operation) in self.operations.iter().enumerate() {
            check_limit(Limit::RowKey, operation.row_key_len, limits.key_bytes)
                .and_then(|()| check_limit(Limit::Value, operation.value_len, limits.value_bytes))
                .map_err(|error| self.duplicate_before(index).unwrap_or(error.at(index)))?;
        }
        check_limit(Limit::BatchBytes, self.bytes(), limits.batch_bytes)?;
        self.refuse_duplicates()
    }

    #[cold]
    fn duplicate_before(&self, operation: usize) -> Option<Error> {
        self.refuse_duplicates().err().filter(|error| error.operation() < Some(operation))
    }

    fn refuse_duplicates(&self) -> Result<()> {
        let row_key = |operation: &Operation| operation.row_key(self.payload.buffer());
        // Many come in order.
        if self.operations.is_sorted_by(|a, b| row_key(a) < row_key(b)) {
            return Ok(());
        }
        let mut first_at = HashMap::with_capacity(self.operations.len());
        for (index, operation) in self.operations.iter().enumerate() {
            if let Some(first) = first_at.insert(row_key(operation), index) {
                return Err(Error::DuplicateRowKey { index, first });
            }
        }
        Ok(())
    }

    /// As a batch on that table.
    pub(super) fn finish(self, table: TableId) -> Finished {
        let Self { partition_key, mut payload, operations, ranges } = self;
        let in_partition = |rows| ScanRange::in_partition(&partition_key, rows);
        let ranges = ranges.map(|ranges| ranges.into_iter().map(in_partition).collect());
        let prefix = key::into_partition(table, partition_key);
        if ranges.is_some() || operations.iter().any(Operation::is_merge) {
            return Finished { prefix, operations, rows: Rows::Open(payload), ranges };
        }
        // Of a batch without operations nothing is written.
        if !operations.is_empty() {
            payload.rows_before(&prefix, operations.len());
        }
        Finished { prefix, operations, rows: Rows::Ready(Prepared::new(payload)), ranges }
    }
}

/// The rows of a batch.
pub(super) enum Rows {
    Ready(Prepared),
    /// Before merges have run and ranges were looked at.
    Open(Payload),
}

impl Default for Rows {
    /// Of no operation.
    fn default() -> Self {
        Self::Open(Payload::default())
    }
}

impl Rows {
    pub(super) fn are_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// What rows have their places in.
    pub(super) fn buffer(&self) -> &[u8] {
        match self {
            Self::Ready(prepared) => prepared.buffer(),
            Self::Open(payload) => payload.buffer(),
        }
    }

    /// The payload, after all merges have run, with what else is deleted.
    pub(super) fn prepare(
        self,
        prefix: &[u8],
        operations: &[Operation],
        deletions: Option<&Deletions>,
    ) -> Prepared {
        let draft = match self {
            Self::Ready(prepared) => return prepared,
            Self::Open(draft) => draft,
        };
        let grown: usize = operations.iter().map(Operation::value_len).sum();
        let mut payload =
            Payload::with_capacity(draft.buffer().len() + grown + 5 * operations.len());
        let rows = operations.len() + deletions.map_or(0, |deletions| deletions.row_keys.len());
        if rows > 0 {
            payload.rows(prefix, rows);
        }
        for operation in operations {
            let row_key = operation.row_key(draft.buffer());
            match &operation.action {
                Action::Put => payload.put_encoded(row_key, operation.value(draft.buffer())),
                Action::Merged(value) => payload.put_encoded(row_key, value),
                Action::Delete | Action::Merge(_) => payload.delete_encoded(row_key),
            }
        }
        if let Some(Deletions { row_keys, spans }) = deletions {
            row_keys.iter().for_each(|row_key| payload.delete_encoded(row_key));
            spans.iter().for_each(|(low, high)| payload.delete_range(low, high));
        }
        Prepared::new(payload)
    }
}

/// Bytes of keys and values of a batch, as its limit counts them.
pub(super) fn batch_bytes(partition_key_bytes: usize, operations: &[Operation]) -> usize {
    let bytes = |op: &Operation| partition_key_bytes + op.row_key_len + op.value_len();
    operations.iter().map(bytes).sum()
}

impl Operation {
    /// The encoded RowKey, from what the row has its place in.
    pub(super) fn row_key<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        buffer.get(self.row.row_key.clone()).unwrap_or_default()
    }

    pub(super) fn is_deletion(&self) -> bool {
        matches!(self.action, Action::Delete)
    }

    fn value<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        let end = self.row.end;
        buffer.get(end.saturating_sub(self.value_len)..end).unwrap_or_default()
    }

    /// Bytes of the value, as far as it is known before a merge has run.
    fn value_len(&self) -> usize {
        match &self.action {
            Action::Merged(value) => value.len(),
            _ => self.value_len,
        }
    }

    pub(super) fn is_merge(&self) -> bool {
        matches!(self.action, Action::Merge(_))
    }

    /// Whether what is stored decides what it does.
    pub(super) fn looks(&self) -> bool {
        self.precondition != Precondition::None || self.is_merge()
    }

    /// Runs the merge, if it is one, on the value that is there.
    pub(super) fn resolve_merge(
        &mut self,
        index: usize,
        stored: Option<&[u8]>,
        value_limit: usize,
        latches: &Latches,
    ) -> Result<()> {
        match std::mem::replace(&mut self.action, Action::Delete) {
            Action::Merge(merge) => {
                let merged = latches.merging(|| merge(stored));
                let value = merged.map_err(|source| Error::refused(index, source))?;
                check_limit(Limit::Value, value.len(), value_limit)
                    .map_err(|error| error.at(index))?;
                self.action = Action::Merged(value);
            }
            other => self.action = other,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::LARGE_VALUE_BYTES;

    fn merge_to(value: Vec<u8>) -> MergeFn {
        Box::new(move |stored| {
            assert_eq!(stored, Some(&b"stored"[..]));
            Ok(value)
        })
    }

    fn prepared(draft: Draft) -> Prepared {
        let Finished { prefix, mut operations, rows, .. } = draft.finish(TableId::FIRST);
        for (index, operation) in operations.iter_mut().enumerate() {
            operation.resolve_merge(index, Some(b"stored"), usize::MAX, &Latches::new()).unwrap();
        }
        rows.prepare(&prefix, &operations, None)
    }

    /// R-E07: what a merge makes is committed with the rest, as if it had been put.
    #[test]
    fn a_batch_with_merges_is_one_of_what_they_make() {
        let large = vec![7; LARGE_VALUE_BYTES + 1];
        let mut merging = Draft::new(b"p\0".to_vec());
        let mut putting = Draft::new(b"p\0".to_vec());
        for draft in [&mut merging, &mut putting] {
            draft.put(b"a\x01", Precondition::None, [&large, b"more"]);
            draft.delete(b"b", Precondition::Exists);
        }
        merging.merge(b"", Precondition::None, merge_to(large.clone()));
        putting.put(b"", Precondition::None, [&large, &[]]);
        merging.merge(b"d\0", Precondition::Exists, merge_to(Vec::new()));
        putting.put(b"d\0", Precondition::Exists, [&[]; 2]);
        for draft in [&mut merging, &mut putting] {
            draft.put(b"e", Precondition::Absent, [b"sm", b"all"]);
        }
        let [merged, put] = [merging, putting].map(prepared);
        assert_eq!(merged.payload[..], put.payload[..]);
        assert_eq!(merged.crc, put.crc);
    }

    /// R-E06.
    #[test]
    fn limits_count_keys_as_they_were_given() {
        let mut draft = Draft::new(vec![0; 3]);
        draft.put(&[1; 4], Precondition::None, [&[2; 3], &[2; 2]]);
        draft.delete(&[0; 2], Precondition::None);
        assert_eq!(draft.bytes(), 3 + 4 + 5 + 3 + 2);
        let limits = BatchLimits {
            key_bytes: 4,
            value_bytes: 5,
            operations: 2,
            batch_bytes: 17,
            merged_bytes: 17,
        };
        draft.check(&limits).unwrap();
        let what = |limits| match draft.check(&limits) {
            Err(Error::LimitExceeded { what, .. }) => Some(what),
            _ => None,
        };
        assert_eq!(what(BatchLimits { key_bytes: 3, ..limits }), Some(Limit::RowKey));
        assert_eq!(what(BatchLimits { value_bytes: 4, ..limits }), Some(Limit::Value));
        assert_eq!(what(BatchLimits { operations: 1, ..limits }), Some(Limit::BatchOperations));
        assert_eq!(what(BatchLimits { batch_bytes: 16, ..limits }), Some(Limit::BatchBytes));
    }
}
