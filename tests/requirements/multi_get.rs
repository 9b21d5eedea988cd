//! R-E16: many RowKeys of one partition at once, at one version, cheaper than one by one.

use tablestone::{Compression, Precondition, ReadMode};

use crate::support::{Depth, TestDb, options};

#[test]
fn r_e16_gives_rows_in_the_order_asked_with_absent_ones() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        for n in 0..200 {
            t.insert("p", format!("{n:03}"), format!("v{n}")).wait().unwrap();
            t.insert("q", format!("{n:03}"), "other").wait().unwrap();
        }
        t.delete("p", "007", Precondition::Exists).wait().unwrap();
        let newer = t.upsert("p", "100", "new").wait().unwrap();
        depth.settle(&db);
        let asked = ["150", "007", "000", "nope", "100", "000", "", "199"];
        let rows = t.get_many("p", &asked).unwrap();
        let values: Vec<_> = rows
            .iter()
            .map(|row| row.as_ref().map(|row| String::from_utf8(row.value.clone()).unwrap()))
            .collect();
        let expected =
            [Some("v150"), None, Some("v0"), None, Some("new"), Some("v0"), None, Some("v199")];
        assert_eq!(values, expected.map(|v| v.map(String::from)), "{depth:?}");
        assert_eq!(rows[4].as_ref().unwrap().version, newer);
        assert_eq!(t.get_many("none", &asked).unwrap(), vec![None; asked.len()]);
        assert!(t.get_many::<&str>("p", &[]).unwrap().is_empty());
    }
}

#[test]
fn r_e16_reads_one_version_and_honours_range_deletes_and_snapshots() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        let asked: Vec<_> = (0..300).map(|n| format!("{n:03}")).collect();
        t.import(asked.iter().map(|row| ("p", row.as_str(), "old"))).unwrap();
        let snapshot = db.snapshot();
        t.delete_range("p", "100".."200").wait().unwrap();
        t.insert("p", "150", "new").wait().unwrap();
        depth.settle(&db);
        let now = t.get_many("p", &asked).unwrap();
        for (n, row) in now.iter().enumerate() {
            let expected = match n {
                150 => Some(&b"new"[..]),
                100..200 => None,
                _ => Some(&b"old"[..]),
            };
            assert_eq!(row.as_ref().map(|row| &row.value[..]), expected, "{depth:?} {n}");
        }
        let then = t.at(&snapshot).unwrap().get_many("p", &asked).unwrap();
        assert!(then.iter().all(|row| row.as_ref().unwrap().value == b"old"), "{depth:?}");
    }
}

/// Every look into a block goes through the cache when files are read with `pread`.
#[test]
fn r_e16_is_cheaper_than_single_gets() {
    let db = TestDb::with(options().read_mode(ReadMode::Pread).compression(Compression::None));
    let t = db.t();
    let asked: Vec<_> = (0..100).map(|n| format!("{n:03}")).collect();
    t.import(asked.iter().map(|row| ("p", row.as_str(), "value"))).unwrap();
    db.compact().unwrap();
    let lookups = || {
        let stats = db.stats();
        stats.cache_hits + stats.cache_misses
    };
    let before = lookups();
    for row in &asked {
        assert!(t.exists("p", row).unwrap());
    }
    let single = lookups() - before;
    let before = lookups();
    assert!(t.get_many("p", &asked).unwrap().iter().all(Option::is_some));
    let many = lookups() - before;
    assert!(single >= 100, "{single}");
    assert!(many * 2 <= single, "{many} looks for all at once, {single} one by one");
}

/// Where the cache holds rows without their blocks, which single gets left there, no block is decompressed
/// again for them.
#[test]
fn r_e16_finds_what_single_gets_left_in_the_cache() {
    const ROWS: u64 = 40_000;
    let options = options().memory_budget(1 << 20).compression(Compression::Zstd(1));
    let db = TestDb::with(options.read_mode(ReadMode::Mmap));
    let t = db.t();
    let row = |n: u64| format!("{n:06}");
    let value = |n: u64| {
        format!("{:x}", u128::from(n + 1).wrapping_mul(u128::MAX / 7).wrapping_pow(9)).repeat(4)
    };
    t.import((0..ROWS).map(|n| ("p", row(n), value(n)))).unwrap();
    db.compact().unwrap();
    // As many blocks as point reads have kept whole, and more.
    for n in (0..ROWS).step_by(100) {
        assert!(t.exists("p", row(n)).unwrap());
    }
    let mut misses = 0;
    for n in (50..ROWS).step_by(1_000) {
        assert!(t.exists("p", row(n)).unwrap());
        let before = db.stats().cache_misses;
        let found = t.get_many("p", &[row(n), row(n) + "x"]).unwrap();
        assert!(matches!(&*found, [Some(_), None]));
        misses += db.stats().cache_misses - before;
    }
    assert!(misses * 10 <= ROWS / 1_000, "{misses} blocks for {} rows", ROWS / 1_000);
}
