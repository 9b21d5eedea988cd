//! R-E13: a continuation is plain data, and stays valid whatever happens between two pages.

use std::ops::Bound::Excluded;

use tablestone::{Continuation, Precondition, Table};

use crate::support::{TestDb, keys};

/// Rows b, d, f, h in partition p; a page of two gives the continuation p/f.
fn half_read(db: &TestDb) -> (Table, Continuation) {
    let t = db.t();
    for row in ["b", "d", "f", "h"] {
        t.insert("p", row, row).wait().unwrap();
    }
    let page = t.query().limit(2).page().unwrap();
    assert_eq!(keys(&page), ["p/b", "p/d"]);
    let next = page.continuation().unwrap().clone();
    assert_eq!((next.partition_key(), next.row_key()), (&b"p"[..], &b"f"[..]));
    (t, next)
}

fn rest(t: &Table, next: &Continuation) -> Vec<String> {
    let copy = Continuation::new(next.partition_key(), next.row_key());
    assert_eq!(copy, *next);
    keys(&t.query().continue_from(copy).page().unwrap())
}

#[test]
fn r_e13_valid_after_restart_and_compaction() {
    let mut db = TestDb::new();
    let (t, next) = half_read(&db);
    drop(t);
    db.reopen();
    assert_eq!(rest(&db.t(), &next), ["p/f", "p/h"]);
    db.compact().unwrap();
    assert_eq!(rest(&db.t(), &next), ["p/f", "p/h"]);
}

#[test]
fn r_e13_valid_after_its_row_was_deleted() {
    let db = TestDb::new();
    let (t, next) = half_read(&db);
    t.delete("p", "f", Precondition::Exists).wait().unwrap();
    assert_eq!(rest(&t, &next), ["p/h"]);
    t.delete_partition("p").wait().unwrap();
    assert!(rest(&t, &next).is_empty());
}

#[test]
fn r_e13_rows_inserted_below_are_not_returned_at_or_above_are() {
    let db = TestDb::new();
    let (t, next) = half_read(&db);
    for row in ["a", "c", "e", "g", "i"] {
        t.insert("p", row, row).wait().unwrap();
    }
    assert_eq!(rest(&t, &next), ["p/f", "p/g", "p/h", "p/i"]);
    t.delete("p", "f", Precondition::Exists).wait().unwrap();
    assert_eq!(rest(&t, &next), ["p/g", "p/h", "p/i"]);
    t.insert("p", "f", "again").wait().unwrap();
    assert_eq!(rest(&t, &next), ["p/f", "p/g", "p/h", "p/i"]);
}

#[test]
fn r_e13_may_name_a_row_that_never_was() {
    let db = TestDb::new();
    let (t, _) = half_read(&db);
    assert_eq!(rest(&t, &Continuation::new("p", "e")), ["p/f", "p/h"]);
    assert_eq!(rest(&t, &Continuation::new("o", "zzz")), ["p/b", "p/d", "p/f", "p/h"]);
    assert!(rest(&t, &Continuation::new("q", "")).is_empty());
}

#[test]
fn r_e13_does_not_widen_the_range_of_the_query() {
    let db = TestDb::new();
    let (t, _) = half_read(&db);
    let page = t.query().rows("d"..="f").continue_from(Continuation::new("", "")).page().unwrap();
    assert_eq!(keys(&page), ["p/d", "p/f"]);
    let page = t.query().rows("d"..="f").continue_from(Continuation::new("p", "g")).page().unwrap();
    assert_eq!((page.len(), page.continuation()), (0, None));
}

#[test]
fn r_e13_a_reverse_query_goes_on_downwards_from_the_continuation_inclusive() {
    let db = TestDb::new();
    let (t, _) = half_read(&db);
    let page = t.query().reverse().limit(2).page().unwrap();
    assert_eq!(keys(&page), ["p/h", "p/f"]);
    let next = page.continuation().unwrap().clone();
    assert_eq!(next, Continuation::new("p", "d"));
    t.insert("p", "c", "").wait().unwrap();
    t.insert("p", "e", "").wait().unwrap();
    let page = t.query().reverse().continue_from(next).page().unwrap();
    assert_eq!(keys(&page), ["p/d", "p/c", "p/b"]);
}

/// One that names a bound which is excluded, as somebody may make up, does not bring its row in.
#[test]
fn r_e13_what_the_query_excludes_stays_out() {
    let db = TestDb::new();
    let (t, _) = half_read(&db);
    let between = || t.query().partition("p").rows::<&str>((Excluded("d"), Excluded("h")));
    let page = between().reverse().continue_from(Continuation::new("p", "h")).page().unwrap();
    assert_eq!(keys(&page), ["p/f"]);
    let page = between().continue_from(Continuation::new("p", "d")).page().unwrap();
    assert_eq!(keys(&page), ["p/f"]);
}
