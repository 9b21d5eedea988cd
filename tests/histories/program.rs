//! Random programs of one thread: which writes and reads come, and what they are about.

use std::ops::Bound;

use tablestone::{Precondition, Version};

use super::event::{Change, Operation, Rows, Write};
use super::rng::Rng;
use crate::support::model::{Key, partition_key, row_key, value};
use crate::support::query::QuerySpec;

pub(crate) const TABLES: usize = 3;
/// Few, so that threads meet.
pub(crate) const PARTITIONS: [u8; 3] = [10, 0, 5];
/// Odd ones, and plain ones behind them.
const ROWS: [u8; 12] = [0, 1, 3, 8, 10, 11, 12, 13, 14, 15, 16, 17];
/// From here on rows are plain, and come after all markers.
const FIRST_PLAIN: usize = 4;

/// What is written by one call.
pub(crate) struct Drafts<'r> {
    pub(crate) rng: &'r mut Rng,
    /// No other call has it: it is in all values that it stores.
    pub(crate) step: u32,
}

/// What is to be of markers where something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Markers {
    /// There are none.
    None,
    /// Those that are there stay.
    Keep,
    /// The same, and the write stores one of its own.
    Store,
}

/// The row by which a write tells what came of it.
pub(crate) fn marker(partition: u8, step: u32) -> Key {
    (partition_key(partition), format!("marker {step:08}").into_bytes())
}

pub(crate) fn partition(rng: &mut Rng) -> u8 {
    rng.pick(&PARTITIONS)
}

pub(crate) fn row(rng: &mut Rng) -> u8 {
    rng.pick(&ROWS)
}

pub(crate) fn key(rng: &mut Rng) -> Key {
    (partition_key(partition(rng)), row_key(row(rng)))
}

fn bound(rng: &mut Rng, rows: &[u8]) -> Bound<u8> {
    match rng.below(3) {
        0 => Bound::Included(rng.pick(rows)),
        1 => Bound::Excluded(rng.pick(rows)),
        _ => Bound::Unbounded,
    }
}

fn owned((low, high): (Bound<u8>, Bound<u8>)) -> Rows {
    (low.map(row_key), high.map(row_key))
}

/// Rows to delete; of plain ones where markers have to stay.
fn rows(rng: &mut Rng, markers: Markers) -> Rows {
    if markers != Markers::None {
        let low = Bound::Included(rng.pick(&ROWS[FIRST_PLAIN..]));
        return owned((low, bound(rng, &ROWS[FIRST_PLAIN..])));
    }
    owned((bound(rng, &ROWS), bound(rng, &ROWS)))
}

impl Drafts<'_> {
    fn len(&mut self) -> u16 {
        match self.rng.below(12) {
            0 => 3000,
            1..4 => 400,
            _ => self.rng.below(60) as u16,
        }
    }

    fn value(&mut self, row: u8) -> Vec<u8> {
        let len = self.len();
        value(self.step, row, len)
    }

    fn change(&mut self, row: u8) -> Change {
        match self.rng.below(20) {
            0..10 => Change::Put(self.value(row)),
            10..14 => Change::Append(value(self.step, row, 9)),
            14..19 => Change::Delete,
            _ => Change::Refuse,
        }
    }

    /// One that may hold, whatever others do.
    fn condition(&mut self, seen: Option<Version>) -> Precondition {
        match (self.rng.below(10), seen) {
            (0..4, _) => Precondition::None,
            (4..6, _) => Precondition::Absent,
            (6..7, _) => Precondition::Exists,
            (7, Some(version)) => Precondition::Version(version.previous()),
            (_, Some(version)) => Precondition::Version(version),
            (_, None) => Precondition::Exists,
        }
    }

    /// A batch of few or many operations, with ranges now and then, and a marker if it is to have one.
    pub(crate) fn batch(
        &mut self,
        partition: u8,
        markers: Markers,
        seen: impl Fn(&Key) -> Option<Version>,
    ) -> Write {
        let pk = partition_key(partition);
        let most = if self.rng.percent(40) { 1 } else { ROWS.len() };
        let mut left = ROWS.to_vec();
        let mut operations = Vec::new();
        for _ in 0..=self.rng.below(most) {
            let row = left.swap_remove(self.rng.below(left.len()));
            let seen = seen(&(pk.clone(), row_key(row)));
            // Of many, most have to succeed.
            let is_free = most > 1 && self.rng.percent(85);
            let condition = if is_free { Precondition::None } else { self.condition(seen) };
            let change = match self.change(row) {
                Change::Refuse if is_free => Change::Delete,
                change => change,
            };
            operations.push(Operation { row_key: row_key(row), condition, change });
        }
        let has_marker = markers == Markers::Store;
        if has_marker {
            let (_, row_key) = marker(partition, self.step);
            let change = Change::Put(self.value(255));
            operations.push(Operation { row_key, condition: Precondition::None, change });
        }
        let ranges = if self.rng.percent(15) { 1 + self.rng.below(2) } else { 0 };
        let ranges = (0..ranges).map(|_| rows(self.rng, markers)).collect();
        if !has_marker && self.rng.percent(3) {
            operations.clear();
        }
        Write::Batch { partition: pk, ranges, operations }
    }

    /// Rows of all partitions, in any order; of equal keys the last counts.
    pub(crate) fn import(&mut self, marker: Option<Key>) -> Write {
        let rows = 1 + self.rng.below(20);
        let mut import: Vec<_> = (0..rows)
            .map(|_| {
                let (partition, row) = (partition(self.rng), row(self.rng));
                ((partition_key(partition), row_key(row)), self.value(row))
            })
            .collect();
        import.extend(marker.map(|marker| (marker, self.value(255))));
        Write::Import(import)
    }

    pub(crate) fn deletion(&mut self, partition: u8, markers: Markers) -> Write {
        let rows = match self.rng.percent(30) && markers == Markers::None {
            true => (Bound::Unbounded, Bound::Unbounded),
            false => rows(self.rng, markers),
        };
        Write::Delete { partition: partition_key(partition), rows }
    }

    /// What a new table is loaded with, in key order.
    pub(crate) fn load(&mut self) -> Vec<(Key, Vec<u8>)> {
        let mut rows = std::collections::BTreeMap::new();
        for _ in 0..1 + self.rng.below(30) {
            let (partition, row) = (partition(self.rng), row(self.rng));
            rows.insert((partition_key(partition), row_key(row)), self.value(row));
        }
        rows.into_iter().collect()
    }
}

/// A page of anything: a partition, a range of rows in all of them, all; short ones and long ones.
pub(crate) fn query(rng: &mut Rng) -> QuerySpec {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let one = partition(rng);
    let partitions = match rng.below(4) {
        0 => all,
        1 => (bound(rng, &PARTITIONS), bound(rng, &PARTITIONS)),
        _ => (Bound::Included(one), Bound::Included(one)),
    };
    let rows = if rng.percent(50) { all } else { (bound(rng, &ROWS), bound(rng, &ROWS)) };
    QuerySpec {
        partitions,
        rows,
        reverse: rng.percent(35),
        limit: rng.pick(&[1, 3, 10, 1000, 1000]),
        bytes: rng.pick(&[200, 2000, usize::MAX, usize::MAX]),
        examined: rng.percent(20).then(|| rng.pick(&[1, 5, 30])),
        stop_at_partition: rng.percent(15),
        one_of: rng.percent(25).then(|| rng.pick(&[2, 3])),
        start: rng.percent(15).then(|| (partition(rng), row(rng))),
    }
}
