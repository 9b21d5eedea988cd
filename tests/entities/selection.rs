//! R-D07: `$select` keeps keys, Timestamp and ETag; a selected absent property is null; `$top`
//! counts matches.

use tablestone::{Continuation, Entity, Filter, StopReason};

use super::support::{Depth, TestDb};
use super::{content, entities, keys, page_keys};

fn filled(db: &TestDb) -> tablestone::EntityTable {
    let t = entities(db);
    let rows = (0..40).map(|n| {
        Entity::new(["a", "b"][n / 20], format!("{:02}", n % 20))
            .with("N", n as i32)
            .with("Text", format!("text {n}"))
            .with("Third", (n % 3 == 0).then_some(true))
    });
    t.import(rows).unwrap();
    t
}

#[test]
fn r_d07_a_selection_keeps_keys_and_version_and_drops_all_else() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db);
        depth.settle(&db);
        let names = ["Third", "N", "Third", "Timestamp", "RowKey", "Nowhere"];
        let page = t.query().select(names).partition("a").page().unwrap();
        assert_eq!(page.selected().unwrap(), names);
        assert_eq!(page.len(), 20);
        for (n, (entity, whole)) in page.iter().zip(t.query().entities()).enumerate() {
            let whole = whole.unwrap();
            assert_eq!((entity.partition_key(), entity.row_key()), ("a", whole.row_key()));
            assert_eq!(Some(entity.version()), whole.version());
            assert_eq!(Some(entity.timestamp()), whole.timestamp());
            assert_eq!(Some(entity.etag()), whole.etag());
            assert_eq!(entity.get_as("N").unwrap(), Some(n as i32));
            let third = (n % 3 == 0).then_some(true);
            assert_eq!(entity.get_as("Third").unwrap(), third, "null where it is absent");
            assert_eq!(entity.get("Text").unwrap(), None);
            assert_eq!(entity.len(), 1 + usize::from(third.is_some()));
        }
        let nothing = t.query().select::<&str>([]).page().unwrap();
        assert!(nothing.iter().all(|entity| entity.is_empty()));
        assert_eq!((nothing.len(), nothing.selected()), (40, Some(&[][..])));
        assert_eq!(t.query().page().unwrap().selected(), None);
    }
}

/// What is not selected can be asked of all the same, and counts in a page's bytes.
#[test]
fn r_d07_a_filter_sees_what_is_not_selected() {
    let db = TestDb::new();
    let t = filled(&db);
    let page = t.query().filter("Text eq 'text 7'".parse().unwrap()).select(["N"]).page().unwrap();
    let found: Vec<_> = page.to_entities().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(content(&found[0]), content(&Entity::new("", "").with("N", 7)));
    let (whole, some) = (t.query().byte_limit(500), t.query().byte_limit(500).select(["N"]));
    assert_eq!(whole.page().unwrap().len(), some.page().unwrap().len());
}

#[test]
fn r_d07_top_counts_matches_over_all_pages() {
    let db = TestDb::new();
    let t = filled(&db);
    let thirds = || t.query().filter(Filter::property("Third").eq(true));
    assert_eq!(thirds().entities().count(), 14);
    let five: Vec<_> = thirds().top(5).entities().map(Result::unwrap).collect();
    assert_eq!(keys(&five), ["a/00", "a/03", "a/06", "a/09", "a/12"]);
    let pages: Vec<_> = thirds().top(5).limit(2).pages().map(Result::unwrap).collect();
    let lens: Vec<_> = pages.iter().map(tablestone::EntityPage::len).collect();
    assert_eq!(lens, [2, 2, 1]);
    let last = pages.last().unwrap();
    assert_eq!((last.stop_reason(), last.continuation()), (StopReason::Top, None));
    // It ends where it has them, and does not look for a next match.
    assert_eq!(thirds().top(1).page().unwrap().examined(), 1);
    // A limit of as many does look, and says where the next match is.
    let page = thirds().limit(5).page().unwrap();
    assert_eq!(page.continuation(), Some(&Continuation::new("a", "15")));
    // More than there are, and none.
    assert_eq!(thirds().top(100).entities().count(), 14);
    let none = thirds().top(0).page().unwrap();
    assert_eq!((none.len(), none.continuation(), none.examined()), (0, None, 0));
    assert_eq!(none.stop_reason(), StopReason::Top);
    // Within a page of a thousand as over pages, from the end as from the start.
    let reverse = thirds().top(2).reverse().page().unwrap();
    assert_eq!(page_keys(&reverse), ["b/19", "b/16"]);
}

/// A query that is continued by a caller who counts goes on as one that counts itself.
#[test]
fn r_d07_top_and_a_continuation() {
    let db = TestDb::new();
    let t = filled(&db);
    let first = t.query().top(30).limit(25).page().unwrap();
    let next = first.continuation().cloned().unwrap();
    let rest = t.query().top(30 - 25).continue_from(next).page().unwrap();
    assert_eq!((first.len() + rest.len(), rest.continuation()), (30, None));
}
