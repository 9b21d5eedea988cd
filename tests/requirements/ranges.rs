//! R-E14: bounds on PartitionKeys and on RowKeys, inclusive or exclusive, forward and reverse.

use std::ops::Bound::{Excluded, Included, Unbounded};

use tablestone::{Query, Table};

use crate::support::{Depth, TestDb, keys};

/// Partitions a to d with rows 1 to 4, at a depth.
fn grid(depth: Depth) -> (TestDb, Table) {
    let db = TestDb::new();
    let t = db.t();
    for pk in ["a", "b", "c", "d"] {
        for rk in ["1", "2", "3", "4"] {
            t.insert(pk, rk, format!("{pk}{rk}")).wait().unwrap();
        }
    }
    depth.settle(&db);
    (db, t)
}

/// Both directions, in one page and in pages of one.
fn check(query: impl Fn() -> Query, expected: &[&str]) {
    assert_eq!(keys(&query().page().unwrap()), expected);
    let single: Vec<_> = query().limit(1).pages().flat_map(|page| keys(&page.unwrap())).collect();
    assert_eq!(single, expected);
    let reversed: Vec<_> = expected.iter().rev().copied().collect();
    assert_eq!(keys(&query().reverse().page().unwrap()), reversed);
    let single: Vec<_> =
        query().reverse().limit(1).pages().flat_map(|page| keys(&page.unwrap())).collect();
    assert_eq!(single, reversed);
}

#[test]
fn r_e14_row_ranges_of_a_partition() {
    for depth in Depth::ALL {
        let (_db, t) = grid(depth);
        let rows = |low, high| t.query().partition("b").rows::<&str>((low, high));
        check(|| rows(Included("2"), Included("3")), &["b/2", "b/3"]);
        check(|| rows(Excluded("2"), Included("3")), &["b/3"]);
        check(|| rows(Included("2"), Excluded("3")), &["b/2"]);
        check(|| rows(Excluded("1"), Excluded("4")), &["b/2", "b/3"]);
        check(|| rows(Unbounded, Excluded("2")), &["b/1"]);
        check(|| rows(Excluded("3"), Unbounded), &["b/4"]);
        check(|| rows(Included("2"), Included("2")), &["b/2"]);
        check(|| rows(Included("15"), Included("25")), &["b/2"]);
        check(|| t.query().partition("b").rows("3"..), &["b/3", "b/4"]);
        check(|| t.query().partition("b"), &["b/1", "b/2", "b/3", "b/4"]);
    }
}

#[test]
fn r_e14_partition_ranges() {
    for depth in Depth::ALL {
        let (_db, t) = grid(depth);
        let of = |low, high| t.query().rows("4"..="4").partitions::<&str>((low, high));
        check(|| of(Included("b"), Included("c")), &["b/4", "c/4"]);
        check(|| of(Excluded("b"), Included("c")), &["c/4"]);
        check(|| of(Included("b"), Excluded("c")), &["b/4"]);
        check(|| of(Excluded("a"), Unbounded), &["b/4", "c/4", "d/4"]);
        check(|| of(Unbounded, Excluded("b")), &["a/4"]);
        check(|| of(Included("bb"), Included("cc")), &["c/4"]);
        check(|| t.query().partitions("c".."d"), &["c/1", "c/2", "c/3", "c/4"]);
    }
}

#[test]
fn r_e14_a_row_range_holds_in_every_partition() {
    for depth in Depth::ALL {
        let (_db, t) = grid(depth);
        let query = || t.query().partitions("b"..="c").rows("2".."4");
        check(query, &["b/2", "b/3", "c/2", "c/3"]);
        check(|| t.query().rows("4"..), &["a/4", "b/4", "c/4", "d/4"]);
        check(|| t.query().rows(.."11"), &["a/1", "b/1", "c/1", "d/1"]);
    }
}

#[test]
fn r_e14_row_prefixes() {
    let db = TestDb::new();
    let t = db.t();
    let rows: [&[u8]; 8] = [b"a", b"ab", b"ab\0", b"abc", b"ac", b"\xFF", b"\xFF\xFFx", b"\xFEz"];
    for row in rows {
        t.insert("p", row, "").wait().unwrap();
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        let with = |prefix: &[u8]| {
            let page = t.query().partition("p").row_prefix(prefix).page().unwrap();
            page.iter().map(|row| row.row_key.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(with(b"ab"), [&b"ab"[..], b"ab\0", b"abc"]);
        assert_eq!(with(b"\xFF"), [&b"\xFF"[..], b"\xFF\xFFx"]);
        assert_eq!(with(b"\xFE"), [b"\xFEz"]);
        assert_eq!(with(b"").len(), 8);
        assert_eq!(with(b"b").len(), 0);
    }
}

#[test]
fn r_e14_empty_and_inverted_ranges_are_empty_without_continuation() {
    for depth in Depth::ALL {
        let (_db, t) = grid(depth);
        let empty = [
            (Included("3"), Included("2")),
            (Included("2"), Excluded("2")),
            (Excluded("2"), Included("2")),
            (Excluded("2"), Excluded("2")),
            (Excluded("2"), Excluded("3")),
            (Included("5"), Unbounded),
            (Unbounded, Excluded("1")),
            (Included("9"), Excluded("0")),
        ];
        for bounds in empty {
            check(|| t.query().rows::<&str>(bounds), &[]);
            check(|| t.query().partition("b").rows::<&str>(bounds), &[]);
            let page = t.query().rows::<&str>(bounds).page().unwrap();
            assert_eq!(page.continuation(), None, "{bounds:?}");
        }
        for bounds in [(Included("c"), Included("b")), (Excluded("b"), Excluded("b"))] {
            check(|| t.query().partitions::<&str>(bounds), &[]);
        }
        check(|| t.query().partition("none"), &[]);
    }
}

#[test]
fn r_e14_ranges_do_not_reach_into_other_tables() {
    let db = TestDb::new();
    let tables: Vec<_> =
        ["a", "b", "c"].map(|name| db.create_table(name).wait().unwrap()).into_iter().collect();
    for t in &tables {
        t.insert("", "", t.name()).wait().unwrap();
        t.insert([0xFF; 8], [0xFF; 8], t.name()).wait().unwrap();
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        for t in &tables {
            for query in [t.query(), t.query().reverse(), t.query().partitions([0xFF]..)] {
                let page = query.page().unwrap();
                assert!(!page.is_empty());
                assert!(page.iter().all(|row| row.value == t.name().as_bytes()));
            }
        }
    }
}
