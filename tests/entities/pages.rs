//! R-E12, R-E13: pages of filtered queries: what they end at, and where they go on.

use std::time::Duration;

use tablestone::{Continuation, Entity, EntityRef, Error, Precondition, StopReason};

use super::support::{Depth, TestDb};
use super::{entities, page_keys};

fn filled(db: &TestDb) -> tablestone::EntityTable {
    let t = entities(db);
    let rows = (0..300).map(|n| {
        Entity::new(["a", "b", "c"][n / 100], format!("{:02}", n % 100)).with("N", n as i32)
    });
    t.import(rows).unwrap();
    t
}

/// R-S06: with a filter the continuation is the next match, and the last page has none.
#[test]
fn r_e12_a_page_goes_on_at_the_next_match_and_the_last_has_no_continuation() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db);
        depth.settle(&db);
        let some = || t.query().filter("N lt 3 or N eq 150 or N eq 151".parse().unwrap());
        let first = some().limit(3).page().unwrap();
        assert_eq!(page_keys(&first), ["a/00", "a/01", "a/02"]);
        assert_eq!(first.stop_reason(), StopReason::Entities);
        assert_eq!(first.continuation(), Some(&Continuation::new("b", "50")));
        let rest = some().limit(3).continue_from(Continuation::new("b", "50")).page().unwrap();
        assert_eq!((page_keys(&rest).len(), rest.stop_reason()), (2, StopReason::End));
        let exact = some().limit(5).page().unwrap();
        assert_eq!((exact.len(), exact.continuation()), (5, None));
    }
}

/// A visited page is that which would have been copied: the same entities, whole, and the same end.
#[test]
fn r_e12_a_visited_page_is_the_page() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db);
        depth.settle(&db);
        let some = || t.query().filter("N ge 50 and N lt 250".parse().unwrap()).limit(120);
        let expected = some().page().unwrap();
        let mut visited = Vec::new();
        let visit = |entity: EntityRef<'_>| {
            visited.push(entity.to_entity()?);
            Ok(())
        };
        let end = some().select(["Other"]).visit(visit).unwrap();
        assert_eq!(visited, expected.to_entities().unwrap());
        assert_eq!((end.entities(), end.examined()), (120, expected.examined()));
        assert_eq!(
            (end.continuation(), end.stop_reason()),
            (expected.continuation(), expected.stop_reason())
        );
    }
    // What is no entity is not lent.
    let db = TestDb::new();
    entities(&db).as_bytes().insert("p", "r", [0xFF]).wait().unwrap();
    let met = entities(&db).query().visit(|_| panic!("it is no entity"));
    assert!(matches!(met, Err(Error::NotAnEntity(_))), "{met:?}");
}

/// A page that is full stops looking for the next match where its work is over.
#[test]
fn r_e12_a_full_page_keeps_the_limit_of_work() {
    let db = TestDb::new();
    let t = filled(&db);
    let some = || t.query().filter("N lt 3 or N eq 150".parse().unwrap()).limit(3);
    let page = some().examine_at_most(40).page().unwrap();
    assert_eq!((page.len(), page.examined()), (3, 40));
    assert_eq!(page.stop_reason(), StopReason::Examined);
    assert_eq!(page.continuation(), Some(&Continuation::new("a", "40")));
    let late = some().time_limit(Duration::ZERO).page().unwrap();
    assert!(late.examined() < 300 && late.continuation().is_some());
    // The longest time there is, is no limit.
    assert_eq!(some().time_limit(Duration::MAX).page().unwrap().len(), 3);
}

/// R-E13: a continuation is a place, whatever happens there, also between a plan's ranges.
#[test]
fn r_e13_a_continuation_between_ranges_is_a_place() {
    let db = TestDb::new();
    let t = filled(&db);
    let filter =
        "(PartitionKey eq 'a' and RowKey lt '05') or (PartitionKey eq 'c' and RowKey ge '97')";
    let some = || t.query().filter(filter.parse().unwrap());
    let first = some().examine_at_most(5).page().unwrap();
    assert_eq!((first.len(), first.stop_reason()), (5, StopReason::Examined));
    let next = first.continuation().unwrap();
    assert_eq!(next, &Continuation::new("c", "97"), "nothing between the ranges is looked at");
    t.delete("c", "97", Precondition::Exists).wait().unwrap();
    t.insert(&Entity::new("b", "zz")).wait().unwrap();
    t.insert(&Entity::new("a", "04x")).wait().unwrap();
    t.insert(&Entity::new("c", "97x")).wait().unwrap();
    let rest = some().continue_from(next.clone()).page().unwrap();
    assert_eq!(page_keys(&rest), ["c/97x", "c/98", "c/99"]);
}

#[test]
fn r_e12_pages_of_a_filtered_query_stop_at_partitions_if_asked() {
    let db = TestDb::new();
    let t = filled(&db);
    let query = t.query().filter("RowKey ge '98'".parse().unwrap()).stop_at_partition_end();
    let pages: Vec<_> = query.pages().map(|page| page_keys(&page.unwrap())).collect();
    assert_eq!(pages, [["a/98", "a/99"], ["b/98", "b/99"], ["c/98", "c/99"]]);
}

/// Empty keys are keys: they begin, they match, they continue.
#[test]
fn r_e02_empty_keys_are_found_and_continued_at() {
    let db = TestDb::new();
    let t = entities(&db);
    let pairs = [("", ""), ("", "a"), ("a", ""), ("a", "a")];
    t.import(pairs.map(|(pk, rk)| Entity::new(pk, rk).with("N", 1))).unwrap();
    let pages: Vec<_> = t
        .query()
        .filter("PartitionKey eq '' or RowKey eq ''".parse().unwrap())
        .limit(1)
        .pages()
        .map(|page| page_keys(&page.unwrap()))
        .collect();
    assert_eq!(pages, [["/"], ["/a"], ["a/"]]);
}
