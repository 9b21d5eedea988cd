//! Every engine gives the answers of a `BTreeMap`: an adapter that is wrong measures nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rand::{RngExt, SeedableRng};

use super::{Durability, ETag, Engine, PEERS, Peer, Setup};
use crate::workload::{Key, Rng, Row};

const OPERATIONS: u64 = 4_000;
const PARTITIONS: u64 = 7;
const ROWS: u64 = 60;

type Model = BTreeMap<Key, Vec<u8>>;

/// Writes to engine and map alike, and compares what both then say.
struct Pair<'a> {
    engine: &'a dyn Engine,
    model: Model,
    rng: Rng,
    writes: u64,
    tables: usize,
}

impl Pair<'_> {
    fn key(&mut self) -> Key {
        let partition = self.rng.random_range(0..PARTITIONS);
        let row = self.rng.random_range(0..ROWS);
        // Partitions that are each other's prefixes, and an empty row key.
        let partition = "p".repeat(partition as usize + 1).into_bytes();
        let row = if row == 0 { String::new() } else { format!("{row:03}") };
        Key { partition, row: row.into_bytes() }
    }

    fn value(&mut self) -> Vec<u8> {
        self.writes += 1;
        let mut value = self.writes.to_le_bytes().to_vec();
        let large = self.rng.random_range(0..50) == 0;
        let more = if large { 20_000 } else { self.rng.random_range(0..300) };
        value.resize(8 + more, self.writes as u8);
        value
    }

    fn row(&mut self) -> Row {
        Row { key: self.key(), value: self.value() }
    }

    fn etag(&self, key: &Key) -> Option<ETag> {
        let mut value = b"left from before".to_vec();
        let etag = self.engine.get(&key.partition, &key.row, &mut value).expect("a get");
        let expected = self.model.get(key);
        assert_eq!(etag.map(|_| &value), expected, "the value of {key:?}");
        etag
    }

    fn step(&mut self) {
        let Row { key, value } = self.row();
        let engine = self.engine;
        match self.rng.random_range(0..100) {
            0..20 => {
                engine.put(&key.partition, &key.row, &value).expect("a put");
                self.model.insert(key, value);
            }
            20..30 => {
                let done = engine.insert(&key.partition, &key.row, &value).expect("an insert");
                assert_eq!(done, !self.model.contains_key(&key), "inserting {key:?}");
                self.model.entry(key).or_insert(value);
            }
            30..50 => self.replace(&key, value),
            50..60 => {
                self.etag(&key);
            }
            60..70 => {
                engine.delete(&key.partition, &key.row).expect("a delete");
                self.model.remove(&key);
            }
            70..72 => {
                engine.delete_partition(&key.partition).expect("a mass delete");
                self.model.retain(|other, _| other.partition != key.partition);
            }
            72..80 => self.group(key.partition),
            80..83 => {
                let mut rows: Vec<Row> = (0..20).map(|_| self.row()).collect();
                rows.dedup_by(|a, b| a.key == b.key);
                self.model.extend(rows.iter().map(|row| (row.key.clone(), row.value.clone())));
                engine.load(&rows).expect("a load");
            }
            83..97 => self.page(&key),
            97..99 => self.scan(),
            _ => engine.settle().expect("settling"),
        }
    }

    fn replace(&mut self, key: &Key, value: Vec<u8>) {
        let Some(etag) = self.etag(key) else {
            let done = self.engine.replace(&key.partition, &key.row, ETag(1), &value);
            assert!(!done.expect("a conditional write"), "there is no {key:?} to replace");
            return;
        };
        let replace = |etag| self.engine.replace(&key.partition, &key.row, etag, &value);
        assert!(replace(etag).expect("a conditional write"), "{key:?} is as it was read");
        assert!(!replace(etag).expect("a conditional write"), "{key:?} was changed since");
        self.model.insert(key.clone(), value);
    }

    fn group(&mut self, partition: Vec<u8>) {
        let mut rows = BTreeMap::new();
        for _ in 0..10 {
            let Row { key, value } = self.row();
            let key = Key { partition: partition.clone(), row: key.row };
            rows.insert(key.clone(), Row { key, value });
        }
        let rows: Vec<Row> = rows.into_values().collect();
        self.engine.put_group(&rows).expect("a group");
        self.model.extend(rows.into_iter().map(|row| (row.key, row.value)));
    }

    fn page(&mut self, from: &Key) {
        let limit = self.rng.random_range(1..30);
        let mut found = Vec::new();
        let mut each = |value: &[u8]| found.push(value.to_vec());
        self.engine.page(&from.partition, &from.row, limit, &mut each).expect("a page");
        let in_partition = self.model.range(from.clone()..);
        let in_partition = in_partition.take_while(|(key, _)| key.partition == from.partition);
        let expected: Vec<Vec<u8>> = in_partition.take(limit).map(|(_, v)| v.clone()).collect();
        assert_eq!(found, expected, "the page of {limit} from {from:?}");
    }

    fn scan(&self) {
        let mut found = Vec::new();
        self.engine.scan(&mut |value| found.push(value.to_vec())).expect("a scan");
        let mut expected: Vec<Vec<u8>> = self.model.values().cloned().collect();
        if self.tables > 1 {
            // Each table in order, but of the tables in turn.
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "a scan");
    }
}

fn setup(durability: Durability) -> Setup {
    Setup { durability, threads: 4, tables: 1, budget: 16 << 20, is_memory_short: false }
}

fn answers_as_a_map_does(peer: &Peer, tables: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let setup = Setup { tables, ..setup(Durability::Unsynced) };
    let engine = (peer.open)(dir.path(), setup).expect("it opens");
    let rng = Rng::seed_from_u64(7);
    let mut pair = Pair { engine: &*engine, model: Model::new(), rng, writes: 0, tables };
    for _ in 0..OPERATIONS {
        pair.step();
    }
    pair.scan();
    engine.close().expect("it closes");
}

/// What was loaded in key order is read, changed and deleted as anything else.
fn answers_as_a_map_does_after_a_sorted_load(peer: &Peer, tables: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let setup = Setup { tables, ..setup(Durability::Unsynced) };
    let mut engine = (peer.open)(dir.path(), setup).expect("it opens");
    let keys = (1..=PARTITIONS as usize).flat_map(|partition| {
        (0..ROWS).map(move |row| Key {
            partition: "p".repeat(partition).into_bytes(),
            row: format!("{row:03}").into_bytes(),
        })
    });
    let model: Model = keys.map(|key| (key, vec![1; 5_000])).collect();
    let rows: Vec<Row> =
        model.iter().map(|(key, value)| Row { key: key.clone(), value: value.clone() }).collect();
    engine.load_sorted(&rows).expect("a load");
    let rng = Rng::seed_from_u64(8);
    let mut pair = Pair { engine: &*engine, model, rng, writes: 0, tables };
    pair.scan();
    for _ in 0..OPERATIONS / 4 {
        pair.step();
    }
    pair.scan();
    engine.close().expect("it closes");
}

/// Each increment reads a counter and writes it back under the ETag that it read.
fn no_conditional_write_is_lost(peer: &Peer) {
    const THREADS: u64 = 4;
    const INCREMENTS: u64 = 50;
    let dir = tempfile::tempdir().expect("a directory");
    let engine = (peer.open)(dir.path(), setup(Durability::Unsynced)).expect("it opens");
    let version = AtomicU64::new(1);
    let counter = |count: u64| {
        let version = version.fetch_add(1, Ordering::Relaxed);
        [version.to_le_bytes(), count.to_le_bytes()].concat()
    };
    let read = |value: &[u8]| u64::from_le_bytes(value[8..].try_into().expect("eight bytes"));
    assert!(engine.insert(b"p", b"r", &counter(0)).expect("an insert"));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut value = Vec::new();
                for _ in 0..INCREMENTS {
                    loop {
                        let etag = engine.get(b"p", b"r", &mut value).expect("a get");
                        let etag = etag.expect("the counter exists");
                        let next = counter(read(&value) + 1);
                        if engine.replace(b"p", b"r", etag, &next).expect("a replace") {
                            break;
                        }
                    }
                }
            });
        }
    });
    let mut value = Vec::new();
    engine.get(b"p", b"r", &mut value).expect("a get");
    assert_eq!(read(&value), THREADS * INCREMENTS);
    engine.close().expect("it closes");
}

/// What was settled is there when the directory is opened again.
fn keeps_what_was_settled(peer: &Peer) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut value = Vec::new();
    for again in [false, true] {
        let engine = (peer.open)(dir.path(), setup(Durability::Unsynced)).expect("it opens");
        let before = engine.get(b"p", b"r", &mut value).expect("a get");
        assert_eq!(before.is_some(), again, "{}", peer.name);
        engine.put(b"p", b"r", b"version:and text").expect("a put");
        engine.settle().expect("settling");
        engine.close().expect("it closes");
    }
}

macro_rules! of_each_engine {
    ($($name:ident if $feature:meta;)*) => { $(
        #[cfg($feature)]
        mod $name {
            use super::*;

            fn peer() -> &'static Peer {
                PEERS.iter().find(|peer| peer.name == stringify!($name)).expect("it is listed")
            }

            #[test]
            fn answers_as_a_map_does() {
                super::answers_as_a_map_does(peer(), 1);
            }

            #[test]
            fn answers_as_a_map_does_after_a_sorted_load() {
                super::answers_as_a_map_does_after_a_sorted_load(peer(), 1);
            }

            #[test]
            fn no_conditional_write_is_lost() {
                super::no_conditional_write_is_lost(peer());
            }

            #[test]
            fn keeps_what_was_settled() {
                super::keeps_what_was_settled(peer());
            }
        }
    )* };
}

of_each_engine! {
    tablestone if all();
    rocksdb if feature = "rocksdb";
    fjall if feature = "fjall";
    redb if feature = "redb";
    lmdb if feature = "lmdb";
    sqlite if feature = "sqlite";
    canopydb if feature = "canopydb";
    surrealkv if feature = "surrealkv";
    sled if feature = "sled";
}

#[test]
fn all_compressed_answers_as_a_map_does() {
    let small = PEERS.iter().find(|peer| peer.name == super::OURS_SMALL).expect("it is listed");
    answers_as_a_map_does(small, 1);
    answers_as_a_map_does_after_a_sorted_load(small, 1);
    keeps_what_was_settled(small);
}

/// Growth by tables spreads the same data over several of ours.
#[test]
fn several_tables_answer_as_a_map_does() {
    let ours = PEERS.iter().find(|peer| peer.name == super::OURS).expect("it is listed");
    answers_as_a_map_does(ours, 5);
    answers_as_a_map_does_after_a_sorted_load(ours, 5);
}
