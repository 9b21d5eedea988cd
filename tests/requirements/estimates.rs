//! R-E23: estimates, split points and statistics.

use crate::support::model::value;
use crate::support::wait::until;
use crate::support::{Depth, TestDb, options};

/// 100 partitions of 30 rows of 100 bytes that do not compress.
fn filled(db: &TestDb) -> tablestone::Table {
    let t = db.t();
    let row = |n: u32| (format!("{:03}", n / 30), format!("{:02}", n % 30), value(n, 0, 100));
    t.import((0..3000).map(row)).unwrap();
    t
}

fn near(found: u64, expected: u64, what: &str) {
    let allowed = expected / 2 + 200;
    assert!(found.abs_diff(expected) <= allowed, "{what}: {found}, not about {expected}");
}

#[test]
fn r_e23_estimates_are_near_the_truth() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db);
        let other = db.create_table("other").wait().unwrap();
        other.import((0..2000u32).map(|n| ("p", n.to_be_bytes(), "x"))).unwrap();
        depth.settle(&db);
        let all = t.estimate().unwrap();
        near(all.entries, 3000, "entries of all");
        near(all.bytes, 3000 * 105, "bytes of all");
        assert_eq!(t.estimate_partitions::<&str>(..).unwrap(), all);
        let rows = t.estimate_rows("007", "10".."20").unwrap().entries;
        assert!((1..=300).contains(&rows), "{rows} of 10 in a partition of 30");
        assert_eq!(t.estimate_rows("007", "40"..).unwrap().entries, 0);
        let half = t.estimate_partitions("000".."050").unwrap();
        near(half.entries, 1500, "entries of half");
        let half = t.estimate_partitions("050"..).unwrap();
        near(half.entries, 1500, "entries of the other half");
        assert_eq!(t.estimate_partitions("zzz"..).unwrap().entries, 0, "{depth:?}");
        assert_eq!(t.estimate_partitions("050".."050").unwrap().entries, 0);
        assert_eq!(t.estimate_partitions("060".."040").unwrap().entries, 0);
        let empty = db.create_table("empty").wait().unwrap();
        assert_eq!(empty.estimate().unwrap().entries, 0, "{depth:?}");
    }
}

#[test]
fn r_e23_split_points_begin_partitions_and_parts_are_alike() {
    for depth in [Depth::Flushed, Depth::Compacted] {
        let db = TestDb::new();
        let t = filled(&db);
        depth.settle(&db);
        for parts in [2, 4, 10] {
            let points = t.split_points(parts).unwrap();
            assert_eq!(points.len(), parts - 1, "{depth:?}: {points:?}");
            assert!(points.is_sorted_by(|a, b| a < b));
            let mut bounds = vec![0usize];
            for point in &points {
                let text = String::from_utf8(point.clone()).unwrap();
                bounds.push(text.parse().unwrap_or_else(|_| panic!("{text:?} is no partition")));
            }
            bounds.push(100);
            for part in bounds.windows(2) {
                let (size, fair) = (part[1] - part[0], 100 / parts);
                assert!(size <= 2 * fair + 3, "{depth:?}: {bounds:?}");
            }
        }
    }
}

/// Each file of level 0 has keys from all of the table, and less than what a part is cut by.
#[test]
fn r_e23_split_points_count_many_small_files_where_their_rows_are() {
    let db = TestDb::with(options().background_threads(0));
    let t = db.t();
    let row =
        |n: u32, of: u32, key: String| (format!("{:03}", n * 100 / of), key, value(n, 0, 500));
    t.import((0..1_000).map(|n| row(n, 1_000, format!("{n:04}")))).unwrap();
    db.compact().unwrap();
    for file in 0..19 {
        t.import((0..64).map(|n| row(n, 64, format!("{file}-{n:02}")))).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.stats().levels[0].files, 19);
    let points = t.split_points(2).unwrap();
    let text = String::from_utf8(points.concat()).unwrap();
    let padded: u32 = format!("{text:0<3}").parse().unwrap();
    assert!(padded.abs_diff(50) <= 10, "{text:?} of partitions from 000 to 099");
}

#[test]
fn r_e23_split_points_of_few_partitions_are_fewer() {
    let db = TestDb::new();
    let t = db.t();
    assert!(t.split_points(4).unwrap().is_empty());
    t.import((0..1000u32).map(|n| ("one", n.to_be_bytes(), "value"))).unwrap();
    db.compact().unwrap();
    assert!(t.split_points(4).unwrap().is_empty(), "one partition cannot be split");
    assert!(t.split_points(1).unwrap().is_empty());
    assert!(t.split_points(0).unwrap().is_empty());
}

#[test]
fn r_e23_statistics_count_what_was_done() {
    let db = TestDb::new();
    let t = filled(&db);
    let before = db.stats();
    for n in 0..10u8 {
        t.upsert("p", [n], [0; 100]).wait().unwrap();
    }
    assert!(t.insert("p", [0], "").wait().is_err());
    let after = db.stats();
    assert_eq!(after.commits - before.commits, 10);
    assert!(after.log_bytes - before.log_bytes >= 1000);
    assert!(after.commit_groups > before.commit_groups);
    let snapshot = db.snapshot();
    assert_eq!(db.stats().live_snapshots, 1);
    drop(snapshot);
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!(stats.live_snapshots, 0);
    assert!(stats.flushes > 0 && stats.flush_bytes > 0 && stats.compactions > 0);
    assert_eq!(stats.file_bytes(), stats.levels.iter().map(|level| level.bytes).sum::<u64>());
    assert!(stats.file_bytes() > 150_000, "{}", stats.file_bytes());
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, 3010 + 2, "the entities, the table's name, the next id");
    assert!(stats.levels.iter().filter(|level| level.files > 0).count() >= 1);
    assert_eq!((stats.background_failures, stats.background_error), (0, None));
    assert_eq!(stats.poisoned, None);
}

#[test]
fn r_e23_a_small_budget_reaches_several_levels() {
    let db = TestDb::new();
    let t = db.t();
    t.import((0..20_000u32).map(|n| (n.to_be_bytes(), "r", value(n, 0, 60)))).unwrap();
    db.flush().unwrap();
    until("two megabytes to reach level 2", || {
        db.stats().levels.iter().rposition(|level| level.files > 0) >= Some(2)
    });
}
