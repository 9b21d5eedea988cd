//! Writers and readers on threads of their own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::*;
use crate::key::{self, TableId};

fn mix(i: u64) -> u64 {
    let x = (i ^ (i >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    (x ^ (x >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D)
}

fn stress_key(i: u64) -> Vec<u8> {
    let partition = format!("partition {:02}", mix(i) % 7);
    key::encode(TableId::FIRST, partition.as_bytes(), &mix(i).to_be_bytes())
}

#[test]
fn concurrent_inserts_of_different_keys_are_all_there() {
    const THREADS: u64 = 4;
    const PER_THREAD: u64 = 5_000;
    let memtable = Memtable::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let memtable = &memtable;
            scope.spawn(move || {
                for i in 0..PER_THREAD {
                    let id = i * THREADS + thread;
                    put(memtable, &stress_key(id), id + 1, &id.to_le_bytes());
                    let back = memtable.get(&stress_key(id), Version::MAX).unwrap();
                    assert_eq!(back.value, id.to_le_bytes());
                }
            });
        }
    });
    assert_eq!(memtable.entries(), THREADS * PER_THREAD);
    let mut keys: Vec<_> = (0..THREADS * PER_THREAD).map(|id| (stress_key(id), id)).collect();
    keys.sort();
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    for (key, id) in keys {
        assert_eq!((cursor.key(), cursor.value()), (&key[..], &id.to_le_bytes()[..]));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
}

/// Says to other threads that this one ended, also if it panics: else they would go on for ever.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn readers_see_all_that_was_inserted_before_they_started() {
    const COUNT: u64 = 20_000;
    let memtable = Memtable::new();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let (memtable, done) = (&memtable, &done);
        scope.spawn(move || {
            let _ended = OnDrop(|| done.store(COUNT, Ordering::Release));
            for id in 0..COUNT {
                put(memtable, &stress_key(id), id + 1, &id.to_le_bytes());
                done.store(id + 1, Ordering::Release);
            }
        });
        for reader in 0..2u64 {
            scope.spawn(move || {
                let mut cursor = memtable.cursor();
                while done.load(Ordering::Acquire) < COUNT {
                    let before = done.load(Ordering::Acquire);
                    for i in 0..before.min(50) {
                        let id = mix(i + reader) % before;
                        let found = memtable.get(&stress_key(id), v(before)).unwrap();
                        assert_eq!(found.version, v(id + 1));
                        cursor.seek(&stress_key(id)).unwrap();
                        assert_eq!(cursor.key(), stress_key(id));
                    }
                    scan_is_ordered_and_whole(memtable, before, reader == 0);
                }
            });
        }
    });
}

fn scan_is_ordered_and_whole(memtable: &Memtable, at: u64, forward: bool) {
    let mut cursor = memtable.cursor();
    let start = if forward { cursor.seek_to_first() } else { cursor.seek_to_last() };
    start.unwrap();
    let mut seen = 0;
    let mut last: Option<Vec<u8>> = None;
    while cursor.valid() {
        if let Some(last) = &last {
            assert_eq!(&last[..] < cursor.key(), forward);
            assert_ne!(&last[..], cursor.key());
        }
        last = Some(cursor.key().to_vec());
        seen += u64::from(cursor.version() <= v(at));
        let moved = if forward { cursor.next() } else { cursor.previous_key() };
        moved.unwrap();
    }
    assert_eq!(seen, at);
}

#[test]
fn versions_of_hot_rows_are_whole_for_their_readers() {
    const ROUNDS: u64 = 10_000;
    let memtable = Memtable::new();
    for row in 0..2u8 {
        put(&memtable, &[row], 1, &[1; 16]);
    }
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let (memtable, done) = (&memtable, &done);
        for row in 0..2u8 {
            scope.spawn(move || {
                let _ended = OnDrop(|| _ = done.fetch_add(1, Ordering::Release));
                for version in 2..ROUNDS {
                    put(memtable, &[row], version, &[version as u8; 16]);
                }
            });
        }
        scope.spawn(move || {
            while done.load(Ordering::Acquire) < 2 {
                for row in 0..2u8 {
                    let newest = memtable.get(&[row], Version::MAX).unwrap();
                    assert_eq!(newest.value, [newest.version.ticks() as u8; 16]);
                    let again = memtable.get(&[row], newest.version).unwrap();
                    assert_eq!(again.version, newest.version);
                }
            }
        });
    });
}
