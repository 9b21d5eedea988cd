//! R-E01, R-E02, R-E21: the order of keys, and which keys and values there may be.

use tablestone::Compression;

use crate::support::{Depth, TestDb, all_rows, options};

/// Keys whose concatenations, escapes and prefixes are easily confused, and some whose order by UTF-16 units
/// is another.
fn odd_keys() -> Vec<Vec<u8>> {
    let text = ["", "a", "ab", "b", "ba", "PDC", "PDC1", "10000", "92", "00092", "é"];
    let text = text.into_iter().chain(["\u{E000}", "\u{FFFF}", "\u{10000}", "\u{10FFFF}"]);
    let bytes: [&[u8]; 9] =
        [b"\0", b"\0\0", b"\0\x01", b"\x01", b"\x01\x01", b"\x01\x02", b"a\0", b"a\0b", b"\xFF"];
    let text = text.map(str::as_bytes);
    text.chain(bytes).map(<[u8]>::to_vec).collect()
}

#[test]
fn r_e01_entities_are_ordered_by_partition_key_then_row_key_by_their_bytes() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        let mut expected = Vec::new();
        for pk in odd_keys() {
            for rk in odd_keys() {
                let value = [&pk[..], b"|", &rk].concat();
                expected.push((pk.clone(), rk.clone(), value.clone()));
            }
        }
        // Written in an order of their own, in commits of one partition.
        for (pk, rk, value) in expected.iter().rev() {
            t.insert(pk, rk, value.clone()).wait().unwrap();
        }
        expected.sort();
        depth.settle(&db);
        assert_eq!(all_rows(&t), expected, "{depth:?}");
        for (pk, rk, value) in &expected {
            assert_eq!(t.get(pk, rk).unwrap().unwrap().value, *value, "{depth:?}");
        }
    }
}

#[test]
fn r_e01_a_key_sorts_before_its_extensions_and_by_text_not_by_number() {
    let db = TestDb::new();
    let t = db.t();
    for key in ["92", "10000", "00092", "blog", "blog_1", "PDC1", "PDC"] {
        t.insert(key, "", "").wait().unwrap();
    }
    let order: Vec<_> = all_rows(&t).into_iter().map(|row| row.0).collect();
    assert_eq!(order, ["00092", "10000", "92", "PDC", "PDC1", "blog", "blog_1"].map(Vec::from));
}

#[test]
fn r_e01_keys_that_concatenate_alike_are_different_entities() {
    let db = TestDb::new();
    let t = db.t();
    t.insert("a", "b", "1").wait().unwrap();
    t.insert("ab", "", "2").wait().unwrap();
    t.insert("", "ab", "3").wait().unwrap();
    for depth in Depth::ALL {
        depth.settle(&db);
        for (pk, rk, value) in [("a", "b", "1"), ("ab", "", "2"), ("", "ab", "3")] {
            assert_eq!(t.get(pk, rk).unwrap().unwrap().value, value.as_bytes());
        }
        assert_eq!(t.query().partition("a").page().unwrap().len(), 1);
    }
}

#[test]
fn r_e02_keys_may_be_empty_and_two_kibibytes_long() {
    let longest = "k".repeat(2 << 10);
    let db = TestDb::new();
    let t = db.t();
    let keys = [("", ""), ("", &longest), (&longest, ""), (&longest, &longest)];
    for (pk, rk) in keys {
        t.insert(pk, rk, rk).wait().unwrap();
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        for (pk, rk) in keys {
            assert_eq!(t.get(pk, rk).unwrap().unwrap().value, rk.as_bytes(), "{depth:?}");
        }
        assert_eq!(all_rows(&t).len(), 4, "{depth:?}");
    }
}

/// What open files keep in memory is beside the budget, so it may not be all that is stored.
#[test]
fn r_e02_long_keys_take_the_space_of_what_tells_them_apart() {
    const ROWS: usize = 1_000;
    for len in [300, 1_000, 2 << 10] {
        let db = TestDb::with(options().memory_budget(8 << 20).compression(Compression::None));
        let (pk, front) = ("p".repeat(len), "r".repeat(len - 4));
        db.t().import((0..ROWS).map(|n| (&pk, format!("{front}{n:04}"), "value"))).unwrap();
        db.compact().unwrap();
        let (stats, keys) = (db.stats(), (ROWS * 2 * len) as u64);
        let (files, memory) = (stats.file_bytes(), stats.index_bytes);
        assert!(files < keys / 5, "{files} bytes for {keys} of keys");
        assert!(memory < keys / 50, "{memory} bytes of memory for {keys} of keys");
    }
}

#[test]
fn r_e21_keys_and_values_are_opaque_bytes() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let values = [vec![], vec![0], vec![0; 3000], vec![0xFF; 300], every_byte.clone()];
    let mut db = TestDb::new();
    let t = db.t();
    for byte in 0..=255u8 {
        for (n, value) in values.iter().enumerate() {
            t.insert([byte], [b'r', n as u8, byte], value.clone()).wait().unwrap();
        }
    }
    t.insert(&every_byte, &every_byte, every_byte.clone()).wait().unwrap();
    drop(t);
    db.compact().unwrap();
    db.reopen();
    let t = db.t();
    for byte in 0..=255u8 {
        for (n, value) in values.iter().enumerate() {
            assert_eq!(t.get([byte], [b'r', n as u8, byte]).unwrap().unwrap().value, *value);
        }
    }
    assert_eq!(t.get(&every_byte, &every_byte).unwrap().unwrap().value, every_byte);
}
