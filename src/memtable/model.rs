//! Models of the memtable for loom: every interleaving of a few inserts and reads.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p tablestone --lib --release loom_`.

use loom::sync::Arc;
use loom::thread;

use super::{Memtable, NewRow};
use crate::entry::{Cursor, Kind};
use crate::sync::{AtomicBool, Ordering};
use crate::version::Version;

fn put(memtable: &Memtable, key: &[u8], version: u64) {
    memtable.insert(key, b"", Version::from_ticks(version), Kind::Put, key);
}

/// Keys and newest versions, after a check that the values are whole.
fn all(memtable: &Memtable) -> Vec<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        assert_eq!(cursor.key(), cursor.value());
        found.push((cursor.key().to_vec(), cursor.version().ticks()));
        cursor.next_key().unwrap();
    }
    found
}

fn rows(expected: &[(&[u8], u64)]) -> Vec<(Vec<u8>, u64)> {
    expected.iter().map(|(key, version)| (key.to_vec(), *version)).collect()
}

/// Inserts from two threads into a memtable with `before` in it; afterwards all are there.
fn two_writers(
    before: &'static [(&'static [u8], u64)],
    here: (&'static [u8], u64),
    there: (&'static [u8], u64),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let memtable = Arc::new(Memtable::with_budget(0));
        for (key, version) in before {
            put(&memtable, key, *version);
        }
        let other = Arc::clone(&memtable);
        let writer = thread::spawn(move || put(&other, there.0, there.1));
        put(&memtable, here.0, here.1);
        assert_eq!(memtable.get(here.0, Version::MAX).unwrap().value, here.0);
        writer.join().unwrap();
        let mut expected = rows(before);
        expected.extend(rows(&[here, there]));
        expected.sort();
        assert_eq!(all(&memtable), expected);
    });
}

#[test]
fn loom_two_writers_of_the_first_keys() {
    two_writers(&[], (b"a", 1), (b"b", 2));
}

#[test]
fn loom_two_writers_split_one_edge() {
    two_writers(&[(b"abc", 1)], (b"abd", 2), (b"b", 3));
}

#[test]
fn loom_two_writers_add_to_one_node() {
    two_writers(&[(b"a", 1), (b"b", 2)], (b"c", 3), (b"d", 4));
}

#[test]
fn loom_a_node_grows_while_another_writer_adds_to_it() {
    two_writers(&[(b"a", 1), (b"b", 2), (b"c", 3), (b"d", 4)], (b"e", 5), (b"f", 6));
}

#[test]
fn loom_a_node_grows_while_another_writer_splits_below_it() {
    two_writers(&[(b"a", 1), (b"b", 2), (b"c", 3), (b"d", 4)], (b"e", 5), (b"aa", 6));
}

#[test]
fn loom_a_reader_sees_whole_entries_in_order() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memtable = Arc::new(Memtable::with_budget(0));
        put(&memtable, b"b", 1);
        put(&memtable, b"d", 2);
        let other = Arc::clone(&memtable);
        let writer = thread::spawn(move || {
            put(&other, b"c", 3);
            put(&other, b"d", 4);
        });
        let seen = all(&memtable);
        let states: [&[(&[u8], u64)]; 4] = [
            &[(b"b", 1), (b"d", 2)],
            &[(b"b", 1), (b"c", 3), (b"d", 2)],
            &[(b"b", 1), (b"c", 3), (b"d", 4)],
            // The scan passed the place of "c" before it was there.
            &[(b"b", 1), (b"d", 4)],
        ];
        assert!(states.iter().any(|state| rows(state) == seen), "{seen:?}");
        if memtable.get(b"d", Version::MAX).unwrap().version == Version::from_ticks(4) {
            assert!(memtable.get(b"c", Version::MAX).is_some());
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_two_pushes_on_one_leaf_are_both_in_the_chain() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memtable = Arc::new(Memtable::with_budget(0));
        put(&memtable, b"a", 1);
        let other = Arc::clone(&memtable);
        let writer = thread::spawn(move || put(&other, b"a", 2));
        put(&memtable, b"a", 3);
        let first = Version::from_ticks(1);
        assert_eq!(memtable.get(b"a", first).unwrap().version, first);
        writer.join().unwrap();
        assert_eq!(memtable.get(b"a", first).unwrap().version, first);
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        let mut versions = Vec::new();
        while cursor.valid() {
            versions.push(cursor.version().ticks());
            cursor.next().unwrap();
        }
        versions.sort_unstable();
        assert_eq!(versions, [1, 2, 3]);
    });
}

#[test]
fn loom_a_reader_of_a_kept_value_sees_all_of_it() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memtable = Arc::new(Memtable::with_budget(0));
        put(&memtable, b"a", 1);
        let other = Arc::clone(&memtable);
        let writer = thread::spawn(move || {
            let payload = std::sync::Arc::new(b"a kept value".to_vec());
            other.insert_kept(b"a", b"", Version::from_ticks(2), &payload, 2..12);
            other.insert_kept(b"b", b"", Version::from_ticks(3), &payload, 2..12);
        });
        for (key, version) in [(b"b", 3), (b"a", 2)] {
            if let Some(found) = memtable.get(key, Version::MAX)
                && found.version == Version::from_ticks(version)
            {
                assert_eq!(found.value, b"kept value");
            }
        }
        writer.join().unwrap();
    });
}

/// Whoever learns of an insert that was done is not told that its key is absent, though another writer adds to the same
/// word of the filter.
#[test]
fn loom_who_learns_of_an_insert_finds_its_key() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memtable = Memtable::with_budget(0);
        let shared = Arc::new((memtable, [AtomicBool::default(), AtomicBool::default()]));
        let there = Arc::clone(&shared);
        let alone = thread::spawn(move || {
            let (memtable, [is_done, _]) = &*there;
            put(memtable, b"a", 1);
            is_done.store(true, Ordering::Release);
        });
        let there = Arc::clone(&shared);
        let together = thread::spawn(move || {
            let (memtable, [_, is_done]) = &*there;
            let (version, kind) = (Version::from_ticks(1), Kind::Put);
            let mut inserts = memtable.inserts();
            inserts.push(NewRow { prefix: b"b", suffix: b"", version, kind, value: b"b" });
            inserts.finish();
            is_done.store(true, Ordering::Release);
        });
        let (memtable, done) = &*shared;
        let is_there = |key: &[u8]| memtable.get(key, Version::MAX).is_some();
        for (key, is_done) in [b"a", b"b"].into_iter().zip(done) {
            assert!(!is_done.load(Ordering::Acquire) || is_there(key));
        }
        alone.join().unwrap();
        together.join().unwrap();
        assert!(is_there(b"a") && is_there(b"b"));
    });
}
