//! R-E18: inserts at the front, at the end and at random of a partition are cheap, and reading the
//! first rows right after does not pay for the rest. Memtables grow with what is stored.

use tablestone::Database;
use tablestone::env::SimEnv;

use crate::support::sim::{DIR, sim_options};
use crate::support::{Depth, TestDb, keys, options};

fn row_keys(pattern: &str, n: u32) -> String {
    match pattern {
        "front" => format!("{:010}", u32::MAX - n),
        "end" => format!("{n:010}"),
        _ => format!("{:010}", n.wrapping_mul(2_654_435_761)),
    }
}

#[test]
fn r_e18_first_rows_after_inserts_do_not_pay_for_the_tail() {
    for pattern in ["front", "end", "random"] {
        for depth in Depth::ALL {
            let db = TestDb::new();
            let t = db.t();
            let mut sorted = Vec::new();
            for n in 0..3000 {
                let row = row_keys(pattern, n);
                t.insert("p", &row, "0123456789").wait().unwrap();
                sorted.push(format!("p/{row}"));
                if n % 500 == 499 {
                    sorted.sort();
                    let page = t.query().partition("p").limit(10).page().unwrap();
                    assert_eq!(keys(&page), sorted[..10], "{pattern} {depth:?}");
                    assert!(page.examined() <= 11, "{pattern}: {} examined", page.examined());
                }
            }
            depth.settle(&db);
            let page = t.query().partition("p").limit(10).page().unwrap();
            assert_eq!(keys(&page), sorted[..10], "{pattern} {depth:?}");
            assert!(page.examined() <= 11);
        }
    }
}

/// Rewriting is what makes inserts dear: bytes written for a byte stored.
#[test]
fn r_e18_what_is_inserted_is_rewritten_little() {
    // What comes at random meets all that is in each level.
    for (pattern, times) in [("front", 6), ("end", 6), ("random", 10)] {
        let db = TestDb::with(options().compression(tablestone::Compression::None));
        let t = db.t();
        for chunk in 0..50u32 {
            let rows = (0..200).map(|n| row_keys(pattern, chunk * 200 + n));
            t.import(rows.map(|row| ("p", row, [7; 100]))).unwrap();
        }
        db.flush().unwrap();
        let stats = db.stats();
        let stored = 10_000 * 110;
        let written = stats.flush_bytes + stats.compaction_written_bytes;
        assert!(written < times * stored, "{pattern}: {written} bytes written for {stored}");
    }
}

/// Of little data a memtable is flushed while the next one fills; it is larger the more there is, as compaction
/// has more to do again for each.
#[test]
fn r_e18_memtables_grow_with_what_is_stored() {
    let env = SimEnv::new(18);
    let db = Database::open(DIR, sim_options(&env).memory_budget(8 << 20)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut frozen_at = Vec::new();
    let mut rows = 0u32;
    while frozen_at.len() < 4 {
        let before = db.stats().memtable_bytes;
        t.insert("p", rows.to_be_bytes(), [7; 1_000]).wait().unwrap();
        rows += 1;
        if db.stats().frozen_memtables > 0 {
            frozen_at.push(before >> 10);
            env.run_all();
        }
    }
    let expected = [256, 512, 1_024, 1_024];
    for (found, expected) in frozen_at.iter().zip(expected) {
        assert!((expected - expected / 8..=expected).contains(found), "{frozen_at:?} KiB");
    }
}
