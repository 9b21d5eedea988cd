//! What a writer does, and what its table holds then: both follow from seed, writer and step alone.
//!
//! Invariant: a step changes its table atomically, or in two parts of which the first leaves no table:
//! `after` says each state that there is between and behind.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Partitions of a table, and rows of a partition.
const PARTITIONS: u8 = 4;
const ROWS: u8 = 60;

/// Rows with their values, by partition and row.
pub type Rows = BTreeMap<(u8, u8), Value>;
/// What a table holds; `None` while there is none.
pub type State = Option<Rows>;

/// A value: which step wrote it, and how many bytes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    step: u64,
    len: usize,
}

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub seed: u64,
    pub number: u64,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// Drops the table, if there is one, and creates it.
    Anew,
    /// The same, but loads it with rows in order.
    Load(Vec<(u8, u8, usize)>),
    Put(u8, u8, usize),
    Delete(u8, u8),
    /// Puts and deletions of rows, and of a range of what was there before.
    Batch {
        partition: u8,
        rows: BTreeMap<u8, Option<usize>>,
        range: Option<(u8, u8)>,
    },
    DeletePartition(u8),
    Import(Vec<(u8, u8, usize)>),
    Flush,
    Compact,
    Sync,
    Checkpoint,
    Reopen,
}

impl Writer {
    pub fn table(self) -> String {
        format!("writer{}", self.number)
    }

    fn random(self, step: u64) -> StdRng {
        let Self { seed, number } = self;
        StdRng::seed_from_u64(seed << 32 ^ number << 24 ^ step)
    }

    /// What it does as its step of that number. What concerns all of the database, the first writer does.
    pub fn step(self, number: u64) -> Step {
        let random = &mut self.random(number);
        let (partition, row) = (random.random_range(0..PARTITIONS), random.random_range(0..ROWS));
        let is_first = self.number == 0;
        match random.random_range(0..1000) {
            0..600 => Step::Put(partition, row, random.random_range(0..1500)),
            600..610 => Step::Put(partition, row, random.random_range(64 << 10..192 << 10)),
            610..700 => Step::Delete(partition, row),
            700..850 => batch(random, partition),
            850..870 => Step::DeletePartition(partition),
            870..890 => Step::Import(rows(random)),
            890..894 => Step::Load(rows(random)),
            894..898 => Step::Anew,
            898..912 => Step::Flush,
            912..916 if is_first => Step::Compact,
            916..919 if is_first => Step::Reopen,
            919..921 => Step::Checkpoint,
            _ => Step::Sync,
        }
    }

    /// The bytes of a value of a row.
    pub fn bytes(self, (partition, row): (u8, u8), value: Value) -> Vec<u8> {
        let mut bytes = vec![0; value.len];
        let of_row = u64::from(partition) << 8 | u64::from(row);
        self.random(value.step << 16 | of_row).fill_bytes(&mut bytes);
        bytes
    }
}

fn batch(random: &mut StdRng, partition: u8) -> Step {
    let count = random.random_range(1..40);
    let mut change = || {
        let is_put = random.random_ratio(4, 5);
        (random.random_range(0..ROWS), is_put.then(|| random.random_range(0..600)))
    };
    let rows = (0..count).map(|_| change()).collect();
    let start = random.random_range(0..ROWS);
    let range = random.random_ratio(1, 6).then(|| (start, random.random_range(start..ROWS)));
    Step::Batch { partition, rows, range }
}

/// Rows in order.
fn rows(random: &mut StdRng) -> Vec<(u8, u8, usize)> {
    let count = random.random_range(1..150);
    let mut one = || {
        let key = (random.random_range(0..PARTITIONS), random.random_range(0..ROWS));
        (key, random.random_range(0..800))
    };
    let rows: BTreeMap<_, _> = (0..count).map(|_| one()).collect();
    rows.into_iter().map(|((partition, row), len)| (partition, row, len)).collect()
}

impl Step {
    /// What the table holds after the step of that number, and before that, what it may hold meanwhile.
    pub fn after(&self, number: u64, before: &State) -> Vec<State> {
        let value = |len| Value { step: number, len };
        let mut rows = before.clone().unwrap_or_default();
        match self {
            Self::Anew => return vec![None, Some(Rows::new())],
            Self::Load(loaded) => {
                let loaded = loaded.iter().map(|&(p, r, len)| ((p, r), value(len)));
                return vec![None, Some(loaded.collect())];
            }
            Self::Put(partition, row, len) => {
                rows.insert((*partition, *row), value(*len));
            }
            Self::Delete(partition, row) => {
                rows.remove(&(*partition, *row));
            }
            Self::Batch { partition, rows: changes, range } => {
                if let Some((start, end)) = range {
                    rows.retain(|key, _| key.0 != *partition || !(start..end).contains(&&key.1));
                }
                for (row, len) in changes {
                    match len {
                        Some(len) => rows.insert((*partition, *row), value(*len)),
                        None => rows.remove(&(*partition, *row)),
                    };
                }
            }
            Self::DeletePartition(partition) => rows.retain(|key, _| key.0 != *partition),
            Self::Import(imported) => {
                rows.extend(imported.iter().map(|&(p, r, len)| ((p, r), value(len))));
            }
            Self::Flush | Self::Compact | Self::Sync | Self::Checkpoint | Self::Reopen => {}
        }
        vec![Some(rows)]
    }

    /// Whether what was acknowledged before is durable once this is acknowledged, under any durability.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Sync | Self::Flush | Self::Compact | Self::Checkpoint | Self::Reopen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Writer = Writer { seed: 7, number: 0 };

    #[test]
    fn a_step_is_the_same_whoever_asks() {
        for number in 0..500 {
            let [one, other] = [(); 2].map(|()| format!("{:?}", WRITER.step(number)));
            assert_eq!(one, other);
        }
        let value = Value { step: 3, len: 40 };
        assert_eq!(WRITER.bytes((1, 2), value), WRITER.bytes((1, 2), value));
        assert_ne!(WRITER.bytes((1, 2), value), WRITER.bytes((2, 1), value));
    }

    #[test]
    fn every_kind_of_step_comes() {
        let kind = |number| {
            let step = format!("{:?}", WRITER.step(number));
            step.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_owned()
        };
        let kinds: std::collections::BTreeSet<_> = (0..5000).map(kind).collect();
        assert_eq!(kinds.len(), 12, "{kinds:?}");
    }

    #[test]
    fn a_batch_keeps_what_it_stores_itself() {
        let value = Value { step: 0, len: 1 };
        let before = Some((0..4).map(|row| ((0, row), value)).collect());
        let changes = [(1, Some(5)), (3, None)].into_iter().collect();
        let batch = Step::Batch { partition: 0, rows: changes, range: Some((0, 2)) };
        let expected = [((0, 1), Value { step: 9, len: 5 }), ((0, 2), value)].into_iter().collect();
        assert_eq!(batch.after(9, &before), [Some(expected)]);
    }

    #[test]
    fn a_new_table_may_be_missing_meanwhile() {
        let before = Some([((0, 0), Value { step: 0, len: 1 })].into_iter().collect());
        assert_eq!(Step::Anew.after(1, &before), [None, Some(Rows::new())]);
    }
}
