//! R-E04, R-E07 to R-E11: many threads at once. No update is lost, no batch is seen in part,
//! readers and writers do not wait for each other, writers of one row share syncs.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tablestone::{Batch, Durability, Error, Precondition, Table, Version};

use support::fixture::value;
use support::wait::{Ended, receive};
use support::{Depth, TestDb, options};

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

fn synced() -> TestDb {
    TestDb::with(options().durability(Durability::Sync))
}

/// Reads, adds one, writes if nobody else did; until it succeeds.
fn increment(t: &Table, row: u8) {
    loop {
        let old = t.get("p", [row]).unwrap().unwrap();
        let new = (number(&old.value) + 1).to_be_bytes();
        match t.replace("p", [row], Precondition::Version(old.version), new).wait() {
            Ok(version) => return assert!(version > old.version),
            Err(Error::VersionMismatch { expected, found, .. }) => {
                assert_eq!(expected, old.version);
                assert!(found > expected);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn r_e09_read_check_retry_increments_lose_no_update() {
    const THREADS: u64 = 8;
    const EACH: u64 = 150;
    for db in [TestDb::new(), synced()] {
        let t = db.t();
        for row in 0..3u8 {
            t.insert("p", [row], 0u64.to_be_bytes()).wait().unwrap();
        }
        std::thread::scope(|scope| {
            for n in 0..THREADS {
                let t = t.clone();
                scope.spawn(move || (0..EACH).for_each(|k| increment(&t, ((n + k) % 3) as u8)));
            }
            // Files change beneath them.
            for _ in 0..10 {
                db.flush().unwrap();
                std::thread::yield_now();
            }
        });
        let sum: u64 = (0..3u8).map(|row| number(&value(t.get("p", [row]).unwrap()))).sum();
        assert_eq!(sum, THREADS * EACH);
    }
}

#[test]
fn r_e09_merges_of_one_row_from_many_threads_lose_no_update() {
    let db = TestDb::new();
    let t = db.t();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let t = t.clone();
            scope.spawn(move || {
                for _ in 0..500 {
                    let add =
                        |old: Option<&[u8]>| Ok((old.map_or(0, number) + 1).to_be_bytes().to_vec());
                    t.merge("p", "r", Precondition::None, add).wait().unwrap();
                }
            });
        }
    });
    assert_eq!(number(&value(t.get("p", "r").unwrap())), 4000);
}

#[test]
fn r_e08_batches_that_keep_a_sum_are_never_seen_in_part() {
    const ROWS: u8 = 20;
    const TOTAL: u64 = 100 * ROWS as u64;
    let db = TestDb::new();
    let t = db.t();
    let mut batch = Batch::new("p");
    for row in 0..ROWS {
        batch.insert([row], 100u64.to_be_bytes());
    }
    t.commit(batch).wait().unwrap();
    let (done, sums) = (Ended::default(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3u8 {
            let (t, db, done, sums) = (t.clone(), &db, &done, &sums);
            scope.spawn(move || {
                let all: Vec<_> = (0..ROWS).map(|row| [row]).collect();
                while !done.get() {
                    let sum: u64 = match reader {
                        0 => t.query().page().unwrap().iter().map(|row| number(row.value)).sum(),
                        1 => {
                            let rows = t.get_many("p", &all).unwrap();
                            rows.into_iter().map(|row| number(&row.unwrap().value)).sum()
                        }
                        _ => {
                            let snapshot = db.snapshot();
                            let view = t.at(&snapshot).unwrap();
                            all.iter().map(|row| number(&value(view.get("p", row).unwrap()))).sum()
                        }
                    };
                    assert_eq!(sum, TOTAL, "reader {reader}");
                    sums.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _done = done.when_dropped();
        let writers: Vec<_> = (0..4u8)
            .map(|n| {
                let t = t.clone();
                scope.spawn(move || (0..400u32).for_each(|k| transfer(&t, n, k)))
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
            db.flush().unwrap();
        }
    });
    assert!(sums.load(Ordering::Relaxed) > 100, "the readers got nowhere");
}

/// Moves something from one row to another, in one batch of two merges.
fn transfer(t: &Table, n: u8, k: u32) {
    let from = (u32::from(n) * 7 + k) % 20;
    let to = (from + 1 + k % 19) % 20;
    let amount = u64::from(k % 5);
    let mut batch = Batch::new("p");
    batch.merge([from as u8], Precondition::Exists, move |old| {
        let old = number(old.unwrap_or_default());
        let new = old.checked_sub(amount).ok_or("not enough")?;
        Ok(new.to_be_bytes().to_vec())
    });
    batch.merge([to as u8], Precondition::Exists, move |old| {
        Ok((number(old.unwrap_or_default()) + amount).to_be_bytes().to_vec())
    });
    match t.commit(batch).wait() {
        Ok(_) | Err(Error::MergeRefused { index: 0, .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// By progress, not by time: the page does not end before the writers have.
#[test]
fn r_e11_a_long_page_does_not_delay_writers() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        t.import((0..200u8).map(|n| ("p", [n], "old"))).unwrap();
        depth.settle(&db);
        let (writer, at_100) = (t.clone(), Arc::new(AtomicBool::new(false)));
        let page = t
            .query()
            .filter(move |row| {
                if row.row_key == [100] && !at_100.swap(true, Ordering::Relaxed) {
                    // The page waits here, in the middle of its partition, until another thread
                    // has written all of it, and memtables were flushed and files compacted.
                    let writer = writer.clone();
                    let write = move || {
                        for n in 0..200u8 {
                            writer.upsert("p", [n], [n; 300]).wait().unwrap();
                        }
                    };
                    std::thread::spawn(write).join().unwrap();
                }
                true
            })
            .page()
            .unwrap();
        assert_eq!(page.len(), 200);
        assert!(page.iter().all(|row| row.value == b"old"), "{depth:?}");
        assert!((0..200u8).all(|n| value(t.get("p", [n]).unwrap()) == [n; 300]));
    }
}

#[test]
fn r_e09_a_commit_in_one_partition_does_not_wait_for_one_in_another() {
    let db = TestDb::new();
    let t = db.t();
    // A merge that runs under the latch of its partition, and waits there for a commit in another:
    // some pair of partitions has latches of their own.
    let other = t.clone();
    t.merge("one partition", "r", Precondition::None, move |_| {
        let write = move || {
            let (send, received) = std::sync::mpsc::channel();
            for n in 0..8u8 {
                let (other, send) = (other.clone(), send.clone());
                std::thread::spawn(move || {
                    other.insert([n], "r", "").wait().unwrap();
                    let _ = send.send(());
                });
            }
            receive(&received, "a commit in another partition");
        };
        std::thread::spawn(write).join().unwrap();
        Ok(vec![])
    })
    .wait()
    .unwrap();
    assert!(t.exists("one partition", "r").unwrap());
}

#[test]
fn r_e09_writers_of_one_entity_share_syncs() {
    const WRITERS: u8 = 64;
    const ROUNDS: u64 = 20;
    let db = TestDb::with(options().durability(Durability::Sync).memory_budget(8 << 20));
    let t = db.t();
    let before = db.stats();
    let all = std::sync::Barrier::new(usize::from(WRITERS));
    let mut versions: Vec<Version> = std::thread::scope(|scope| {
        let write = |n: u8| {
            let (t, all) = (t.clone(), &all);
            let round = move |_| {
                let commit = t.upsert("p", "r", [n]);
                // All have their place in the order, though nothing is synced yet.
                all.wait();
                let version = commit.wait();
                all.wait();
                version
            };
            scope.spawn(move || (0..ROUNDS).map(round).collect::<Vec<_>>())
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).map(Result::unwrap).collect()
    });
    let after = db.stats();
    let (commits, syncs) = (after.commits - before.commits, after.syncs - before.syncs);
    assert_eq!((commits, syncs), (u64::from(WRITERS) * ROUNDS, ROUNDS));
    let last = versions.iter().copied().max().unwrap();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len() as u64, commits, "each commit has its version");
    assert_eq!(t.get("p", "r").unwrap().unwrap().version, last);
}

#[test]
fn r_e04_versions_increase_while_the_clock_steps_back() {
    let env = tablestone::env::SimEnv::new(1);
    let db = support::sim::open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let done = Ended::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ticks = 150_000_000_000_000_000u64;
            while !done.get() {
                ticks = if ticks.is_multiple_of(3) { ticks - 70_001 } else { ticks + 20_000 };
                env.set_now(Version::from_ticks(ticks));
                std::thread::yield_now();
            }
        });
        let _done = done.when_dropped();
        let write = |n: u8| {
            let t = t.clone();
            scope.spawn(move || {
                let mut last = Version::ZERO;
                for k in 0..300u32 {
                    let version = t.upsert([n], [k as u8], "").wait().unwrap();
                    assert!(version > last, "{version} after {last}");
                    let read = t.get([n], [k as u8]).unwrap().unwrap();
                    assert_eq!(read.version, version);
                    last = version;
                }
            })
        };
        let writers: Vec<_> = (0..4).map(write).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let mut versions: Vec<_> = Vec::new();
    for page in t.query().pages() {
        versions.extend(page.unwrap().iter().map(|row| row.version));
    }
    let rows = versions.len();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), rows);
}

/// Everything at once, from many threads, beside flushes and compactions: each thread holds its
/// own partition against what it wrote.
#[test]
fn r_e11_each_thread_reads_what_it_wrote_while_files_change() {
    let db = TestDb::new();
    let t = db.t();
    std::thread::scope(|scope| {
        for n in 0..4u8 {
            let (t, db) = (t.clone(), &db);
            scope.spawn(move || {
                let mut model = std::collections::BTreeMap::new();
                for k in 0..1500u32 {
                    let row = (k.wrapping_mul(2_654_435_761) >> 24) as u8;
                    match k % 7 {
                        0 => {
                            t.delete([n], [row], Precondition::None).wait().unwrap();
                            model.remove(&vec![row]);
                        }
                        1 if k % 210 == 1 => {
                            t.delete_range([n], [50]..[150]).wait().unwrap();
                            model.retain(|row: &Vec<u8>, _| !(50..150).contains(&row[0]));
                        }
                        2 if k % 300 == 2 => db.flush().unwrap(),
                        _ => {
                            let value = vec![k as u8; 100];
                            t.upsert([n], [row], value.clone()).wait().unwrap();
                            model.insert(vec![row], value);
                        }
                    }
                    let found = t.get([n], [row]).unwrap().map(|row| row.value);
                    assert_eq!(found.as_ref(), model.get(&vec![row]));
                    if k % 25 == 0 {
                        let page = t.query().partition([n]).page().unwrap();
                        let rows = page.iter().map(|r| (r.row_key.to_vec(), r.value.to_vec()));
                        assert!(rows.eq(model.clone()), "partition {n} after {k}");
                    }
                }
            });
        }
    });
    db.verify().unwrap();
}
