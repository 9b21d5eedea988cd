//! A view filled by random steps, and the naive model of what it holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use crate::entry::Kind;
use crate::env::Clock;
use crate::key::{self, TableId};
use crate::levels::{Frozen, LevelState, View};
use crate::memtable::Memtable;
use crate::tombstone::RangeTombstone;
use crate::version::Version;
use crate::wal::SegmentId;

use super::shelf::Shelf;

pub(super) const TABLE: TableId = TableId::new(7);

pub(super) type Pair = (Vec<u8>, Vec<u8>);

#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(Pair, usize),
    Delete(Pair),
    DeleteRange(Pair, Pair),
    DeletePartition(Vec<u8>),
    /// The active memtable takes no more.
    Freeze,
    /// All memtables become a file of level 0.
    Flush,
    /// This level and the next are merged into the next.
    Sink(usize),
}

/// PartitionKeys and RowKeys: few, so that steps collide, with all that is special about them.
/// What is escaped is at the end of keys, and where two have it far before they part.
pub(super) const KEYS: &[&[u8]] = &[
    b"",
    b"a",
    b"a\x00",
    b"a\x01",
    b"ab",
    b"b",
    b"b\x01 and ten a",
    b"b\x01 and ten b",
    b"b\xFF",
    b"\xFF",
];

pub(super) fn component() -> impl Strategy<Value = Vec<u8>> {
    select(KEYS).prop_map(<[u8]>::to_vec).boxed()
}

pub(super) fn pair() -> impl Strategy<Value = Pair> {
    (component(), component())
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    steps_with(KEYS, 60)
}

/// With so few keys that each has many versions.
pub(super) fn rewrites() -> impl Strategy<Value = Vec<Step>> {
    steps_with(&KEYS[3..6], 150)
}

fn steps_with(keys: &'static [&[u8]], len: usize) -> impl Strategy<Value = Vec<Step>> {
    let component = || select(keys).prop_map(<[u8]>::to_vec);
    let pair = || (component(), component());
    let step = prop_oneof![
        16 => (pair(), 0usize..6).prop_map(|(pair, len)| Step::Put(pair, len)),
        4 => pair().prop_map(Step::Delete),
        1 => (pair(), pair()).prop_map(|(a, b)| Step::DeleteRange(a, b)),
        1 => component().prop_map(Step::DeletePartition),
        1 => Just(Step::Freeze),
        2 => Just(Step::Flush),
        2 => (0usize..2).prop_map(Step::Sink),
    ];
    proptest::collection::vec(step, 0..len)
}

/// What a row is to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) version: u64,
    pub(super) value: Vec<u8>,
}

/// A view, and the steps that led to it; step `i` has version `i + 1`.
pub(super) struct World {
    steps: Vec<Step>,
    pub(super) view: View,
    shelf: Shelf,
}

pub(super) fn version(ticks: u64) -> Version {
    Version::from_ticks(ticks)
}

fn encoded(pair: &Pair) -> Vec<u8> {
    key::encode(TABLE, &pair.0, &pair.1)
}

fn value(version: u64, len: usize) -> Vec<u8> {
    vec![version as u8; len]
}

impl World {
    pub(super) fn new(steps: &[Step]) -> Self {
        Self::with_shelf(steps, Shelf::new())
    }

    pub(super) fn with_shelf(steps: &[Step], shelf: Shelf) -> Self {
        let levels = Arc::new(LevelState::empty(SegmentId::new(1)));
        let view = View::new(0, Arc::new(Memtable::new()), Vec::new(), levels, 1 << 20);
        let mut world = Self { steps: Vec::new(), view, shelf };
        // Neighbours on both sides that no read of the table may show.
        for table in [TableId::new(6), TableId::new(8)] {
            let prefix = key::encode_partition(table, b"a");
            world.view.active.insert(&prefix, b"a\x00", version(0), Kind::Put, b"foreign");
        }
        steps.iter().for_each(|step| world.take(step));
        world
    }

    /// How often a block of a file was looked for in the cache so far.
    pub(super) fn lookups(&self) -> u64 {
        self.shelf.lookups()
    }

    pub(super) fn newest(&self) -> u64 {
        self.steps.len() as u64
    }

    fn take(&mut self, step: &Step) {
        self.steps.push(step.clone());
        let at = self.newest();
        let write = |pair: &Pair, kind, value: &[u8]| {
            self.view.active.insert(&encoded(pair), &[], version(at), kind, value);
        };
        match step {
            Step::Put(pair, len) => write(pair, Kind::Put, &value(at, *len)),
            Step::Delete(pair) => write(pair, Kind::Delete, &[]),
            Step::DeleteRange(start, end) => self.delete_range(encoded(start), encoded(end), at),
            Step::DeletePartition(pk) => {
                let prefix = key::encode_partition(TABLE, pk);
                self.delete_range(prefix.clone(), key::prefix_end(&prefix), at);
            }
            Step::Freeze => self.freeze(),
            Step::Flush => {
                self.freeze();
                let frozen = std::mem::take(&mut self.view.frozen);
                self.view.levels = self.shelf.flush(&frozen, version(at));
            }
            Step::Sink(level) => self.view.levels = self.shelf.sink(*level),
        }
    }

    fn delete_range(&self, start: Vec<u8>, end: Vec<u8>, at: u64) {
        self.view.active.add_range_tombstones(&[RangeTombstone {
            start: start.into(),
            end: end.into(),
            version: version(at),
        }]);
    }

    fn freeze(&mut self) {
        let memtable = std::mem::replace(&mut self.view.active, Arc::new(Memtable::new()));
        let last = version(self.newest());
        self.view.frozen.insert(0, Frozen { memtable, last, log_start: SegmentId::new(1) });
    }

    /// All rows at a version, by the steps one after the other.
    pub(super) fn rows_at(&self, at: u64) -> BTreeMap<Pair, Live> {
        let mut rows = BTreeMap::new();
        for (version, step) in (1..=at).zip(&self.steps) {
            match step {
                Step::Put(pair, len) => {
                    let value = value(version, *len);
                    rows.insert(pair.clone(), Live { version, value });
                }
                Step::Delete(pair) => drop(rows.remove(pair)),
                Step::DeleteRange(start, end) => {
                    rows.retain(|pair, _| pair < start || pair >= end);
                }
                Step::DeletePartition(pk) => rows.retain(|pair, _| pair.0 != *pk),
                Step::Freeze | Step::Flush | Step::Sink(_) => {}
            }
        }
        rows
    }
}

/// A clock that goes on by a nanosecond each time it is looked at.
#[derive(Debug, Default)]
pub(super) struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Version {
        Version::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.0.fetch_add(1, Ordering::Relaxed))
    }
}
