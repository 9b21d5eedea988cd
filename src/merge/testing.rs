//! A cursor over a sorted list: the model that merged cursors are compared with.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::entry::{Cursor, Kind};
use crate::error::Result;
use crate::version::Version;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) version: u64,
    pub(super) kind: Kind,
    pub(super) value: Vec<u8>,
}

/// One source: few distinct keys and versions, so that sources collide.
pub(super) fn rows() -> impl Strategy<Value = Vec<Row>> {
    let key = proptest::collection::vec(prop_oneof![0u8..3, Just(0xFF)], 0..4);
    let row = (key, 0u64..4, any::<bool>(), any::<u8>());
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
}

impl VecCursor {
    pub(super) fn new(rows: &[Row]) -> Self {
        Self { rows: rows.to_vec(), at: None }
    }

    fn row(&self) -> Option<&Row> {
        self.at.map(|at| &self.rows[at])
    }

    fn put(&mut self, at: usize) {
        self.at = (at < self.rows.len()).then_some(at);
    }
}

impl Cursor for VecCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.put(self.rows.partition_point(|row| *row.key < *key));
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
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
        self.at = match self.rows.partition_point(|row| *row.key < *key) {
            0 => None,
            before => {
                let key = self.rows[before - 1].key.clone();
                Some(self.rows.partition_point(|row| row.key < key))
            }
        };
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.at = self.rows.last().map(|last| self.rows.partition_point(|row| row.key < last.key));
        Ok(())
    }

    fn previous_key(&mut self) -> Result<()> {
        let key = self.key().to_vec();
        self.seek_before(&key)
    }
}
