//! U-18: pages, and what is written between them (§6.2).

use tablestone::{Continuation, Entity, EntityTable, Precondition, StopReason};

use crate::support::{Depth, TestDb};
use crate::world::{filter, row_keys, table};

/// The service's page.
const PAGE: usize = 1_000;

fn row(n: usize) -> Entity {
    Entity::new("p", format!("{n:05}")).with("N", n as i32)
}

/// Rows with even numbers, so that there is room between them.
fn rows(db: &TestDb, count: usize) -> EntityTable {
    let rows = table(db, "Rows");
    rows.import((0..count).map(|n| row(2 * n))).unwrap();
    rows
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("{:05}", 2 * n)).collect()
}

/// The first page and where it says that the next one begins.
fn first_page(rows: &EntityTable) -> Continuation {
    let page = rows.query().page().unwrap();
    assert_eq!(row_keys(&page), numbers(0..PAGE));
    assert_eq!(page.stop_reason(), StopReason::Entities);
    let token = page.continuation().unwrap().clone();
    assert_eq!(token, Continuation::new("p", format!("{:05}", 2 * PAGE)), "the next row there is");
    token
}

fn resume(rows: &EntityTable, token: &Continuation) -> Vec<String> {
    let page = rows.query().continue_from(token.clone()).page().unwrap();
    assert_eq!(page.continuation(), None);
    row_keys(&page)
}

/// W-161, W-167: a page has 1,000 entities, and no token if those were all (C-17).
#[test]
fn u_18_a_page_has_a_thousand_entities_and_a_token_if_there_are_more() {
    for depth in Depth::ALL {
        for (count, pages) in [
            (0, vec![0]),
            (PAGE - 1, vec![PAGE - 1]),
            (PAGE, vec![PAGE]),
            (PAGE + 1, vec![PAGE, 1]),
            (2 * PAGE, vec![PAGE, PAGE]),
        ] {
            let db = TestDb::new();
            let rows = rows(&db, count);
            depth.settle(&db);
            let read: Vec<_> = rows.query().pages().map(|page| page.unwrap().len()).collect();
            assert_eq!(read, pages, "{depth:?}: {count} rows");
            // The same of those that a filter finds (W-142), among as many that it does not.
            rows.import((0..count).map(|n| Entity::new("p", format!("{:05}", 2 * n + 1)))).unwrap();
            let matching = rows.query().filter(filter("N ge 0"));
            let read: Vec<_> = matching.pages().map(|page| page.unwrap().len()).collect();
            assert_eq!(read, pages, "{depth:?}: {count} matching rows");
        }
    }
}

/// W-170, W-171, C-18: of what is inserted between two pages, the second one has what is at the
/// token or behind it, not what is between the last row returned and the token.
#[test]
fn u_18_inserts_before_the_token_are_missed_and_those_behind_it_are_not() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let rows = rows(&db, PAGE + 200);
        depth.settle(&db);
        let token = first_page(&rows);
        let rest = numbers(PAGE..PAGE + 200);
        assert_eq!(resume(&rows, &token), rest, "{depth:?}");

        rows.insert(&row(2 * PAGE - 1)).wait().unwrap();
        rows.insert(&row(2 * PAGE + 1)).wait().unwrap();
        depth.settle(&db);
        let mut expected = rest.clone();
        expected.insert(1, format!("{:05}", 2 * PAGE + 1));
        assert_eq!(resume(&rows, &token), expected, "{depth:?}");

        // W-169: the row that the token names is deleted.
        rows.delete("p", format!("{:05}", 2 * PAGE), Precondition::Exists).wait().unwrap();
        depth.settle(&db);
        let mut without = expected.clone();
        without.remove(0);
        assert_eq!(resume(&rows, &token), without, "{depth:?}");

        // A new row with exactly the token's key is returned: the token is where the page begins.
        rows.insert(&row(2 * PAGE)).wait().unwrap();
        depth.settle(&db);
        assert_eq!(resume(&rows, &token), expected, "{depth:?}");
    }
}

/// W-172: the token and the query are all there is; both may outlive the database's process.
#[test]
fn u_18_a_token_survives_a_restart_a_compaction_and_the_end_of_what_it_names() {
    let mut db = TestDb::new();
    let table_of_rows = rows(&db, PAGE + 200);
    let token = first_page(&table_of_rows);
    // As a client would keep it.
    let kept = token.to_string();
    drop((table_of_rows, token));
    db.reopen();
    let rows = table(&db, "Rows");
    for n in PAGE..PAGE + 100 {
        rows.delete("p", format!("{:05}", 2 * n), Precondition::Exists).wait().unwrap();
    }
    db.compact().unwrap();
    let token = kept.parse().unwrap();
    assert_eq!(resume(&rows, &token), numbers(PAGE + 100..PAGE + 200));
    rows.as_bytes().delete_partition("p").wait().unwrap();
    assert_eq!(resume(&rows, &token), [""; 0], "W-169: nothing is left, which is no error");
}
