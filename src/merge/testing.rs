//! A cursor over a sorted list: the model that other cursors are compared with, step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{CacheUse, SortedFile};
use crate::entry::{Cursor, Kind, go};
use crate::error::Result;
use crate::key::common_prefix;
use crate::version::Version;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) version: u64,
    pub(super) kind: Kind,
    pub(super) value: Vec<u8>,
}

/// A step of a walk.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Stay,
    Seek(Vec<u8>),
    First,
    Next,
    NextKey,
    SeekBefore(Vec<u8>),
    Last,
    NextAt(u64),
    PreviousKey,
    PreviousAt(u64),
}

impl Op {
    /// Takes the step; where the cursor is afterwards.
    pub(super) fn apply<C: Cursor>(&self, cursor: &mut C) -> Option<Row> {
        go(cursor, |cursor| match self {
            Self::Stay => Ok(()),
            Self::Seek(key) => cursor.seek(key),
            Self::First => cursor.seek_to_first(),
            Self::Next => cursor.next(),
            Self::NextKey => cursor.next_key(),
            Self::SeekBefore(key) => cursor.seek_before(key),
            Self::Last => cursor.seek_to_last(),
            Self::NextAt(at) => cursor.next_at(Version::from_ticks(*at)),
            Self::PreviousKey => cursor.previous_key(),
            Self::PreviousAt(at) => cursor.previous_at(Version::from_ticks(*at)),
        });
        cursor.valid().then(|| Row {
            key: cursor.key().to_vec(),
            version: cursor.version().ticks(),
            kind: cursor.kind(),
            value: cursor.value().to_vec(),
        })
    }
}

pub(super) fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![0u8..3, Just(0xFF)], 0..4)
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => key().prop_map(Op::Seek),
        1 => Just(Op::First),
        4 => Just(Op::Next),
        4 => Just(Op::NextKey),
        4 => (0u64..4).prop_map(Op::NextAt),
        1 => key().prop_map(Op::SeekBefore),
        1 => Just(Op::Last),
        4 => Just(Op::PreviousKey),
        4 => (0u64..4).prop_map(Op::PreviousAt),
    ]
}

/// One source: few distinct keys and versions, so that sources collide.
pub(super) fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (key(), 0u64..4, any::<bool>(), any::<u8>());
    proptest::collection::vec(row, 0..12).prop_map(|rows| {
        let rows = rows.into_iter().map(|(key, version, put, value)| Row {
            key,
            version,
            kind: if put { Kind::Put } else { Kind::Delete },
            value: vec![value],
        });
        model(&[rows.collect()])
    })
}

/// All rows in order, each (key, version) once, from the first source that has it.
pub(super) fn model(sources: &[Vec<Row>]) -> Vec<Row> {
    let mut all = BTreeMap::new();
    for row in sources.iter().flatten() {
        let order = (row.key.clone(), u64::MAX - row.version);
        all.entry(order).or_insert_with(|| row.clone());
    }
    all.into_values().collect()
}

#[derive(Debug)]
pub(super) struct VecCursor {
    rows: Vec<Row>,
    at: Option<usize>,
    /// See [`Cursor::kept`]: here all that there is.
    kept: usize,
    /// How often it was told where to go.
    pub(super) seeks: usize,
}

impl VecCursor {
    pub(super) fn new(rows: &[Row]) -> Self {
        Self { rows: rows.to_vec(), at: None, kept: 0, seeks: 0 }
    }

    fn row(&self) -> Option<&Row> {
        self.at.map(|at| &self.rows[at])
    }

    /// Where the newest entry of a row's key at or before `at` is.
    fn newest_at(&self, row: &Row, at: Version) -> Option<usize> {
        let is_seen = |other: &Row| other.key == row.key && other.version <= at.ticks();
        self.rows.iter().position(is_seen)
    }

    fn put(&mut self, at: usize) {
        let before = self.key().to_vec();
        self.at = (at < self.rows.len()).then_some(at);
        self.kept = common_prefix(&before, self.key());
    }

    fn put_before(&mut self, key: &[u8]) {
        let before = match self.rows.partition_point(|row| *row.key < *key) {
            0 => self.rows.len(),
            before => {
                let key = self.rows[before - 1].key.clone();
                self.rows.partition_point(|row| row.key < key)
            }
        };
        self.put(before);
    }
}

impl Cursor for VecCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seeks += 1;
        self.put(self.rows.partition_point(|row| *row.key < *key));
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seeks += 1;
        self.put(0);
        Ok(())
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        self.row().map_or(&[], |row| &row.key)
    }

    fn version(&self) -> Version {
        Version::from_ticks(self.row().map_or(0, |row| row.version))
    }

    fn kind(&self) -> Kind {
        self.row().map_or(Kind::Delete, |row| row.kind)
    }

    fn value(&self) -> &[u8] {
        self.row().map_or(&[], |row| &row.value)
    }

    fn kept(&self) -> usize {
        self.kept
    }

    fn next(&mut self) -> Result<()> {
        self.put(self.at.map_or(self.rows.len(), |at| at + 1));
        Ok(())
    }

    fn next_key(&mut self) -> Result<()> {
        let key = self.key().to_vec();
        if self.valid() {
            self.put(self.rows.partition_point(|row| row.key <= key));
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seeks += 1;
        self.put_before(key);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.seeks += 1;
        let last = self.rows.last().map(|last| &last.key);
        self.put(last.map_or(0, |last| self.rows.partition_point(|row| row.key < *last)));
        Ok(())
    }

    fn previous_key(&mut self) -> Result<()> {
        let key = self.key().to_vec();
        self.put_before(&key);
        Ok(())
    }

    fn next_at(&mut self, at: Version) -> Result<()> {
        let Some(row) = self.row().filter(|row| row.version > at.ticks()) else { return Ok(()) };
        match self.newest_at(row, at) {
            Some(older) => self.put(older),
            None => self.next_key()?,
        }
        Ok(())
    }

    fn previous_at(&mut self, at: Version) -> Result<()> {
        let Some(row) = self.row().filter(|row| row.version > at.ticks()).cloned() else {
            return Ok(());
        };
        match self.newest_at(&row, at) {
            Some(older) => self.put(older),
            None => self.put_before(&row.key),
        }
        Ok(())
    }
}

/// A file of a level.
pub(super) struct Run(Vec<Row>);

impl SortedFile for Run {
    type Cursor<'a> = VecCursor;

    fn smallest(&self) -> &[u8] {
        &self.0[0].key
    }

    fn largest(&self) -> &[u8] {
        &self.0[self.0.len() - 1].key
    }

    fn newest(&self) -> Version {
        Version::from_ticks(self.0.iter().map(|row| row.version).max().unwrap())
    }

    fn cursor(&self, _: CacheUse) -> VecCursor {
        VecCursor::new(&self.0)
    }
}

/// Cuts rows into files at about those places, but never between versions of a key.
pub(super) fn run(rows: &[Row], cuts: &[usize]) -> Vec<Arc<Run>> {
    let mut files: Vec<Vec<Row>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match files.last_mut() {
            Some(file) if !cuts.contains(&at) || file[file.len() - 1].key == row.key => {
                file.push(row.clone());
            }
            _ => files.push(vec![row.clone()]),
        }
    }
    files.into_iter().map(|rows| Arc::new(Run(rows))).collect()
}
