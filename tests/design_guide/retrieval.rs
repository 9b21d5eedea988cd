//! P-18, P-19: large results by pages, and only the properties that are wanted.

use tablestone::{
    Continuation, Entity, EntityPage, EntityTable, Plan, Precondition, StopReason, ValueRef,
};

use crate::support::{Depth, TestDb};
use crate::{filter, get, matching, page, page_row_keys, row_keys, table};

fn id(n: usize) -> String {
    format!("{n:06}")
}

fn sales(employees: usize) -> (TestDb, EntityTable) {
    let db = TestDb::new();
    let t = table(&db, "Employee");
    let rows = (0..employees).map(|n| Entity::new("Sales", id(n)).with("Id", n as i32));
    let neighbours = ["Marketing", "Support"].map(|pk| Entity::new(pk, id(1)).with("Id", -1));
    t.import(rows.chain(neighbours)).unwrap();
    (db, t)
}

const SALES: &str = "PartitionKey eq 'Sales'";

/// A page has 1,000 entities at most; a continuation comes exactly if there is another one
/// (G-080, G-085, A-37).
#[test]
fn p_18_a_thousand_a_page_and_a_continuation_only_if_there_is_more() {
    for (employees, expected) in
        [(999, vec![999]), (1_000, vec![1_000]), (1_001, vec![1_000, 1]), (2_000, vec![1_000; 2])]
    {
        let (_db, t) = sales(employees);
        let pages: Vec<_> =
            t.query().filter(filter(SALES)).pages().collect::<Result<_, _>>().unwrap();
        let lengths: Vec<_> = pages.iter().map(EntityPage::len).collect();
        assert_eq!(lengths, expected);
        let reasons: Vec<_> = pages.iter().map(EntityPage::stop_reason).collect();
        assert_eq!(reasons.last(), Some(&StopReason::End));
        let ids = pages.iter().flat_map(|page| page_row_keys(page));
        assert!(ids.eq((0..employees).map(id)), "no gap, no repeat");
    }
}

/// Smaller pages on request, of what passes: the look ahead is to the next match, so no page is
/// empty, and the last is known as such.
#[test]
fn p_18_small_pages_hold_what_passes_the_filter() {
    let (db, t) = sales(500);
    for depth in Depth::ALL {
        depth.settle(&db);
        for limit in [10, 50] {
            let query = t.query().filter(filter("PartitionKey eq 'Sales' and Id lt 100"));
            let lengths: Vec<_> =
                query.limit(limit).pages().map(|page| page.unwrap().len()).collect();
            assert_eq!(lengths, vec![limit; 100 / limit], "{depth:?}");
        }
    }
}

/// A page that is cut short by work goes on with its continuation, also one without entities.
#[test]
fn p_18_a_page_may_be_empty_and_yet_go_on() {
    let (_db, t) = sales(500);
    let query = t.query().filter(filter("PartitionKey eq 'Sales' and Id ge 450"));
    let (mut found, mut empty) = (Vec::new(), 0);
    for page in query.examine_at_most(100).pages() {
        let page = page.unwrap();
        empty += usize::from(page.is_empty() && page.continuation().is_some());
        found.extend(page.iter().map(|e| e.row_key().to_owned()));
    }
    assert_eq!(empty, 4);
    assert!(found.into_iter().eq((450..500).map(id)));
}

/// A continuation is two keys, kept as text: it goes on after a restart and a compaction, and where
/// the row it names was deleted meanwhile (G-087, G-090).
#[test]
fn p_18_a_stored_continuation_goes_on_after_a_restart() {
    let (mut db, t) = sales(1_500);
    let first = page(&t, SALES);
    let token = first.continuation().unwrap();
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let stored = (text(token.partition_key()), text(token.row_key()));
    assert_eq!(stored, ("Sales".into(), id(1_000)));
    t.delete("Sales", &*stored.1, Precondition::Exists).wait().unwrap();
    t.delete("Sales", id(999), Precondition::Exists).wait().unwrap();
    t.insert(&Entity::new("Sales", "001000x").with("Id", 0)).wait().unwrap();
    drop((t, first));
    for round in 0..2 {
        db.reopen();
        let query = table(&db, "Employee").query().filter(filter(SALES));
        let rest = query.continue_from(Continuation::new(&*stored.0, &*stored.1)).page().unwrap();
        let expected = std::iter::once("001000x".to_owned()).chain((1_001..1_500).map(id));
        assert!(page_row_keys(&rest).into_iter().eq(expected), "round {round}");
        assert_eq!(rest.continuation(), None);
        db.compact().unwrap();
    }
}

/// A user who pages no further leaves nothing behind: no snapshot is held for a continuation.
#[test]
fn p_18_an_abandoned_query_holds_nothing() {
    let (db, t) = sales(1_500);
    let mut pages = t.query().limit(10).pages();
    let page = pages.next().unwrap().unwrap();
    assert!(page.continuation().is_some());
    assert_eq!(db.stats().live_snapshots, 0);
    db.drop_table("Employee").wait().unwrap();
    db.compact().unwrap();
    let bytes = db.stats().file_bytes();
    assert!(bytes < 1_000, "{bytes} bytes are left: the entities still to be read, too, are gone");
    assert_eq!(page.len(), 10, "the page itself is a copy");
}

/// Last names as RowKeys: those that begin with B are a range that costs what it returns.
#[test]
fn p_18_last_names_by_their_first_letter() {
    let db = TestDb::new();
    let t = table(&db, "Employee");
    let rows = (b'A'..=b'Z').flat_map(|letter| {
        (0..40).map(move |n| Entity::new("Sales", format!("{}name{n:02}", char::from(letter))))
    });
    t.import(rows).unwrap();
    for depth in Depth::ALL {
        depth.settle(&db);
        let text = "PartitionKey eq 'Sales' and RowKey ge 'B' and RowKey lt 'C'";
        let page = page(&t, text);
        assert!(page_row_keys(&page).into_iter().eq((0..40).map(|n| format!("Bname{n:02}"))));
        assert_eq!(page.examined(), 40, "{depth:?}");
    }
}

/// Employees of 252 properties, every fifth of whom has no e-mail address.
fn wide() -> (TestDb, EntityTable) {
    let db = TestDb::new();
    let t = table(&db, "Employee");
    let rows = (0..50).map(|n| {
        let mut employee = Entity::new("Sales", id(n));
        for property in 0..250 {
            employee.set(format!("Property{property:03}"), format!("value {property} of {n}"));
        }
        if n % 5 > 0 {
            employee.set("Email", format!("{n}@contoso.com"));
        }
        employee.with("Age", 30 + n as i32)
    });
    t.import(rows).unwrap();
    (db, t)
}

/// Only what is selected comes back, with keys, Timestamp and ETag in any case; who lacks it is
/// still returned (G-074, G-075).
#[test]
fn p_19_only_the_address_of_wide_entities() {
    let (db, t) = wide();
    for depth in Depth::ALL {
        depth.settle(&db);
        let page = t.query().filter(filter(SALES)).select(["Email"]).page().unwrap();
        assert_eq!(page.selected().unwrap(), ["Email"]);
        assert_eq!((page.len(), page.continuation()), (50, None));
        for (n, employee) in page.iter().enumerate() {
            assert_eq!((employee.partition_key(), employee.row_key()), ("Sales", &*id(n)));
            let whole = get(&t, "Sales", &id(n));
            assert_eq!(Some(employee.version()), whole.version());
            assert_eq!(Some(employee.timestamp()), whole.timestamp());
            assert_eq!(Some(employee.etag()), whole.etag());
            assert_eq!(employee.len(), usize::from(n % 5 > 0), "{depth:?}");
            assert_eq!(
                employee.get("Email").unwrap().map(ValueRef::to_value).as_ref(),
                whole.get("Email")
            );
        }
    }
}

/// What the filter compares need not be selected, and the order is that of the query.
#[test]
fn p_19_a_filter_sees_what_is_not_selected() {
    let (_db, t) = wide();
    let names = ["Property200", "Missing", "Property100"];
    let query = t.query().filter(filter("Age ge 70 and Email gt '4'")).select(names);
    assert_eq!(query.explain().plan(), Plan::TableScan);
    let page = query.page().unwrap();
    let expected = matching(&t, "Age ge 70 and Email gt '4'");
    assert!(!expected.is_empty());
    assert_eq!(page_row_keys(&page), row_keys(&expected));
    for (found, whole) in page.to_entities().unwrap().iter().zip(&expected) {
        let properties: Vec<_> = found.properties().map(|(name, _)| name).collect();
        assert_eq!(properties, ["Property200", "Property100"]);
        assert_eq!(found.get("Property200"), whole.get("Property200"));
    }
}
