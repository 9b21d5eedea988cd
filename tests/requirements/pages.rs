//! R-E12, R-E11: what ends a page, what a page says about it, and that a page is one snapshot.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use tablestone::env::SimEnv;
use tablestone::{
    Continuation, Entity, Error, KeyedRow, Precondition, Query, RowRef, StopReason, Table,
};

use crate::support::sim::open;
use crate::support::task::block_on;
use crate::support::{Depth, TestDb, keys, options};

/// `rows` rows of ten bytes (keys and value) in each partition a, b, ...
fn filled(db: &TestDb, partitions: u8, rows: usize) -> Table {
    let t = db.t();
    let row = |pk: u8, n: usize| ([b'a' + pk], format!("{n:04}"), "12345");
    t.import((0..partitions).flat_map(|pk| (0..rows).map(move |n| row(pk, n)))).unwrap();
    t
}

#[test]
fn r_e12_a_page_ends_at_a_thousand_entities_by_default() {
    let db = TestDb::new();
    let t = filled(&db, 1, 1001);
    let page = t.query().page().unwrap();
    assert_eq!((page.len(), page.stop_reason()), (1000, StopReason::Entities));
    assert_eq!(page.continuation(), Some(&Continuation::new("a", "1000")));
    let asked = t.query().limit(5000).page().unwrap();
    assert_eq!(asked.len(), 1000, "a query may ask for less, not for more");
}

#[test]
fn r_e12_at_an_exact_multiple_there_is_no_continuation() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db, 2, 10);
        // Deleted rows at the end are not another page.
        for n in 10..20 {
            t.insert("b", format!("{n:04}"), "").wait().unwrap();
            t.delete("b", format!("{n:04}"), Precondition::Exists).wait().unwrap();
        }
        depth.settle(&db);
        let pages: Vec<_> = t.query().limit(5).pages().map(Result::unwrap).collect();
        assert_eq!(
            pages.iter().map(tablestone::Page::len).collect::<Vec<_>>(),
            [5; 4],
            "{depth:?}"
        );
        let last = pages.last().unwrap();
        assert_eq!((last.continuation(), last.stop_reason()), (None, StopReason::End));
        let whole = t.query().limit(20).page().unwrap();
        assert_eq!((whole.len(), whole.continuation()), (20, None));
        let less = t.query().limit(19).page().unwrap();
        assert_eq!(less.continuation(), Some(&Continuation::new("b", "0009")));
    }
}

#[test]
fn r_e12_the_limit_counts_entities_that_match() {
    let db = TestDb::new();
    let t = filled(&db, 1, 300);
    let tens = || t.query().filter(|row| row.row_key.ends_with(b"0"));
    let page = tens().limit(3).page().unwrap();
    assert_eq!(keys(&page), ["a/0000", "a/0010", "a/0020"]);
    assert_eq!(page.stop_reason(), StopReason::Entities);
    let lens: Vec<_> = tens().limit(10).pages().map(|page| page.unwrap().len()).collect();
    // What follows the last match is no reason for another page.
    assert_eq!(lens, [10; 3]);
    // Of two filters, those that both want.
    let page = tens().filter(|row| row.row_key.starts_with(b"02")).page().unwrap();
    assert_eq!(page.len(), 10);
}

#[test]
fn r_e12_the_byte_limit_counts_stored_keys_and_values() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db, 1, 20);
        depth.settle(&db);
        for (limit, rows) in [(100, 10), (99, 9), (109, 10), (110, 11), (10, 1), (1, 1)] {
            let page = t.query().byte_limit(limit).page().unwrap();
            assert_eq!((page.len(), page.stop_reason()), (rows, StopReason::Bytes), "{limit}");
            let next = page.continuation().unwrap();
            assert_eq!(next.row_key(), format!("{rows:04}").as_bytes());
        }
        let all = t.query().byte_limit(200).page().unwrap();
        assert_eq!((all.len(), all.continuation()), (20, None));
        // What is projected away counts all the same.
        let page = t.query().byte_limit(100).project(|_, _| {}).page().unwrap();
        assert_eq!(page.len(), 10);
        // What does not match does not.
        let last = t.query().byte_limit(10).filter(|row| row.row_key == b"0019").page().unwrap();
        assert_eq!((last.len(), last.continuation()), (1, None));
    }
}

#[test]
fn r_e12_a_page_ends_at_four_mebibytes_by_default() {
    let db = TestDb::new();
    let t = db.t();
    for n in 0..5u8 {
        t.insert("p", [n], vec![n; (1 << 20) - 2]).wait().unwrap();
    }
    let page = t.query().byte_limit(usize::MAX).page().unwrap();
    assert_eq!((page.len(), page.stop_reason()), (4, StopReason::Bytes));
    assert_eq!(page.continuation(), Some(&Continuation::new("p", [4])));
}

#[test]
fn r_e12_an_entity_larger_than_the_byte_limit_makes_a_page_of_its_own() {
    let db = TestDb::new();
    let t = db.t();
    for n in 0..3u8 {
        t.insert("p", [n], vec![n; 5000]).wait().unwrap();
    }
    let lens: Vec<_> = t.query().byte_limit(100).pages().map(|page| page.unwrap().len()).collect();
    assert_eq!(lens, [1, 1, 1]);
}

#[test]
fn r_e12_the_work_limit_counts_entries_examined_and_a_page_may_be_empty() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db, 1, 100);
        depth.settle(&db);
        let query = || t.query().filter(|row| row.row_key == b"0055");
        let page = query().examine_at_most(10).page().unwrap();
        assert_eq!((page.len(), page.examined()), (0, 10));
        assert_eq!(page.stop_reason(), StopReason::Examined);
        assert_eq!(page.continuation(), Some(&Continuation::new("a", "0010")));
        let pages: Vec<_> = query().examine_at_most(10).pages().map(Result::unwrap).collect();
        assert_eq!(pages.iter().map(tablestone::Page::len).sum::<usize>(), 1);
        assert!((10..=11).contains(&pages.len()), "{} pages", pages.len());
    }
}

#[test]
fn r_e12_deleted_entries_count_as_examined_and_pages_advance_over_them() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db, 1, 60);
        let snapshot = db.snapshot();
        for n in 0..59 {
            t.delete("a", format!("{n:04}"), Precondition::Exists).wait().unwrap();
        }
        depth.settle(&db);
        let mut starts = vec![Continuation::new("", "")];
        let mut found = Vec::new();
        for page in t.query().examine_at_most(1).pages() {
            let page = page.unwrap();
            found.extend(keys(&page));
            if let Some(next) = page.continuation() {
                assert!(next > starts.last().unwrap(), "{depth:?}: stuck at {next:?}");
                starts.push(next.clone());
            }
        }
        assert_eq!(found, ["a/0059"], "{depth:?}");
        drop(snapshot);
    }
}

#[test]
fn r_e12_a_page_ends_at_its_deadline_and_goes_on_from_there() {
    let env = SimEnv::new(5);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.import((0..1000).map(|n| ("p", format!("{n:04}"), ""))).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let query = || {
        let (env, count) = (env.clone(), Arc::clone(&count));
        // Each entity takes a millisecond to look at.
        t.query().time_limit(Duration::from_millis(100)).filter(move |_| {
            env.advance(Duration::from_millis(1));
            count.fetch_add(1, Ordering::Relaxed);
            false
        })
    };
    let page = query().page().unwrap();
    assert_eq!((page.len(), page.stop_reason()), (0, StopReason::Deadline));
    assert!((100..300).contains(&page.examined()), "{}", page.examined());
    assert!(page.continuation().is_some());
    let pages = query().pages().map(Result::unwrap).count();
    assert!((3..=10).contains(&pages), "{pages} pages");
    assert_eq!(count.load(Ordering::Relaxed), page.examined() + 1000, "each key once");
}

#[test]
fn r_e12_a_page_ends_with_its_partition_if_asked() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db, 3, 4);
        depth.settle(&db);
        let pages: Vec<_> = t.query().stop_at_partition_end().pages().map(Result::unwrap).collect();
        let lens: Vec<_> = pages.iter().map(|page| (page.len(), page.stop_reason())).collect();
        let partition = (4, StopReason::Partition);
        assert_eq!(lens, [partition, partition, (4, StopReason::End)], "{depth:?}");
        assert_eq!(pages[0].continuation(), Some(&Continuation::new("b", "0000")));
        let reverse = t.query().reverse().stop_at_partition_end().page().unwrap();
        assert_eq!(reverse.continuation(), Some(&Continuation::new("b", "0003")));
    }
}

#[test]
fn r_e12_hooks_see_stored_bytes_and_projection_makes_the_value() {
    let db = TestDb::new();
    let t = filled(&db, 1, 3);
    let version = t.upsert("a", "0001", "other").wait().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let page = t
        .query()
        .filter(move |row| {
            log.lock().unwrap().push((row.row_key.to_vec(), row.value.to_vec(), row.version));
            row.value == b"other"
        })
        .project(|value, out| {
            out.extend_from_slice(&value[..2]);
            out.push(b'!');
        })
        .page()
        .unwrap();
    let rows: Vec<_> = page.iter().collect();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].value, rows[0].version), (&b"ot!"[..], version));
    assert_eq!((rows[0].partition_key, rows[0].row_key), (&b"a"[..], &b"0001"[..]));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[1], (b"0001".to_vec(), b"other".to_vec(), version));
}

#[test]
fn r_e11_a_page_sees_one_snapshot_from_first_to_last_row() {
    let db = TestDb::new();
    let t = filled(&db, 1, 200);
    let writer = t.clone();
    let mut done = false;
    // While the page is read, rows before, at and behind the reader change.
    let page = t
        .query()
        .filter(move |row| {
            if !done && row.row_key == b"0100" {
                done = true;
                for n in [0, 99, 100, 101, 150] {
                    writer.upsert("a", format!("{n:04}"), "changed").wait().unwrap();
                }
                writer.insert("a", "0150.5", "new").wait().unwrap();
                writer.delete("a", "0199", Precondition::Exists).wait().unwrap();
            }
            true
        })
        .page()
        .unwrap();
    assert_eq!(page.len(), 200);
    assert!(page.iter().all(|row| row.value == b"12345" && row.version <= page.version()));
    let after = t.query().page().unwrap();
    assert_eq!(after.iter().filter(|row| row.value == b"changed").count(), 5);
}

#[test]
fn r_e12_options_cap_what_a_page_may_have() {
    let db = TestDb::with(options().page_entities(7).page_bytes(35));
    let t = filled(&db, 1, 30);
    let page = t.query().page().unwrap();
    assert_eq!((page.len(), page.stop_reason()), (3, StopReason::Bytes));
    let page = t.query().limit(100).byte_limit(1000).page().unwrap();
    assert_eq!(page.len(), 3);
}

#[test]
fn r_e12_a_full_page_tells_whether_it_found_another_entity() {
    let db = TestDb::new();
    let t = db.t();
    t.import((0..6u8).map(|n| ("p", [n], "v"))).unwrap();
    for (examined, len, reason) in
        [(6, 5, StopReason::Entities), (5, 5, StopReason::Examined), (4, 4, StopReason::Examined)]
    {
        let page = t.query().limit(5).examine_at_most(examined).page().unwrap();
        assert_eq!((page.len(), page.stop_reason()), (len, reason));
        assert_eq!(page.continuation().unwrap().row_key(), [len as u8]);
    }
}

/// R-E12, R-D07: the entities of all pages one by one, of which `top` wants so many in all.
#[test]
fn r_e12_entities_come_one_by_one_whatever_the_pages_are() {
    let db = TestDb::new();
    let t = filled(&db, 3, 7);
    let keyed = |query: Query| query.keyed_rows().collect::<Result<Vec<_>, _>>().unwrap();
    let all = keyed(t.query());
    assert!(all.iter().map(|row| (&row.partition_key, &row.row_key)).is_sorted());
    assert_eq!(
        (all.len(), &all[20].row_key[..], &all[20].value[..]),
        (21, &b"0006"[..], &b"12345"[..])
    );
    assert_eq!(all[20].version, t.get("c", "0006").unwrap().unwrap().version);
    let passes = |row: RowRef<'_>| row.partition_key != b"b" && row.row_key != b"0000";
    let query = |limit| t.query().limit(limit).filter(passes).reverse();
    let expected: Vec<_> = {
        let kept = |row: &&KeyedRow| row.partition_key != b"b" && row.row_key != b"0000";
        all.iter().filter(kept).rev().cloned().collect()
    };
    for limit in [1, 4, 12, 100] {
        assert_eq!(keyed(query(limit)), expected, "{limit}");
        for top in 0..14 {
            let wanted = &expected[..expected.len().min(top)];
            let query = || query(limit).top(top as u64);
            assert_eq!(keyed(query()), wanted, "{top} by {limit}");
            let streamed: Vec<_> = block_on(query().stream().map(Result::unwrap).collect());
            assert_eq!(streamed, wanted);
            let page = query().page().unwrap();
            let (len, all_wanted) = (page.len(), wanted.len() <= limit);
            assert_eq!((len, page.continuation().is_none()), (wanted.len().min(limit), all_wanted));
            let lent = query().visit(|_| ()).unwrap();
            assert_eq!((lent.entities(), lent.continuation()), (len, page.continuation()));
        }
    }
}

#[test]
fn r_e12_after_an_error_no_entity_comes() {
    let db = TestDb::new();
    let t = filled(&db, 1, 3);
    let mut rows = t.query().limit(2).keyed_rows();
    let mut stream = t.query().limit(2).stream();
    for row in [b"0000", b"0001"] {
        assert_eq!(rows.next().unwrap().unwrap().row_key, row);
        assert_eq!(block_on(stream.next()).unwrap().unwrap().row_key, row);
    }
    db.drop_table("t").wait().unwrap();
    for error in [rows.next(), block_on(stream.next())] {
        assert!(matches!(error, Some(Err(Error::TableNotFound(_)))), "{error:?}");
    }
    assert!(rows.next().is_none() && block_on(stream.next()).is_none());
}

/// Whoever prints a row while looking for a fault reads its keys.
#[test]
fn rows_are_shown_as_literals_of_their_bytes() {
    let db = TestDb::new();
    let t = db.t();
    let version = t.insert("p\"", [0, 0xFF], "v").wait().unwrap();
    let page = t.query().page().unwrap();
    let row = page.get(0).unwrap();
    let keys = r#"partition_key: b"p\"", row_key: b"\x00\xff""#;
    let value = r#"value: b"v""#;
    let whole = |name| format!("{name} {{ {keys}, version: {version:?}, {value} }}");
    assert_eq!(format!("{row:?}"), whole("RowRef"));
    assert_eq!(format!("{:?}", KeyedRow::from(row)), whole("KeyedRow"));
    let got = t.get("p\"", [0, 0xFF]).unwrap().unwrap();
    assert_eq!(format!("{got:?}"), format!("Row {{ version: {version:?}, {value} }}"));
    let next = Continuation::new("p\"", [0, 0xFF]);
    assert_eq!(format!("{next:?}"), format!("Continuation {{ {keys} }}"));
}

/// A page holds mebibytes: whoever prints one reads how it ended, not all of it.
#[test]
fn pages_are_shown_without_what_they_hold() {
    let db = TestDb::new();
    let t = db.t();
    t.insert("p", "r", "kept to itself").wait().unwrap();
    let page = t.query().page().unwrap();
    let end =
        format!("stop: End, examined: {}, version: {:?}, ..", page.examined(), page.version());
    let shown = format!("Page {{ entities: 1, continuation: None, {end} }}");
    assert_eq!(format!("{page:?}"), shown);
    assert_eq!(format!("{:?}", page.iter()), "Rows { left: 1, .. }");
    t.entities().insert_or_replace(&Entity::new("p", "r").with("Text", "itself")).wait().unwrap();
    let page = t.entities().query().page().unwrap();
    let shown = format!("{page:?}");
    assert!(!shown.contains("itself") && !shown.contains("105, 116"), "{shown}");
    assert_eq!(format!("{:?}", page.iter()), "EntityRows(Rows { left: 1, .. })");
}
