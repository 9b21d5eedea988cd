//! U-12, U-13: several kinds of entity in one partition (§8.3.3).

use std::collections::BTreeMap;

use tablestone::{DateTime, Entity, EntityBatch, EntityTable, Plan};

use crate::support::{Depth, TestDb};
use crate::world::{after, at, collect, filter, newest_first, page, row_keys, table};

const ITEMS: u64 = 240;
const HOUR: u64 = 36_000_000_000;

fn created(n: u64) -> DateTime {
    after(at("2008-06-01"), n * HOUR)
}

/// Every third item is a photo, the others are blogs.
fn kind(n: u64) -> &'static str {
    if n.is_multiple_of(3) { "Photo" } else { "Blog" }
}

/// What both kinds have, then what each has of its own.
fn item(user: &str, row_key: String, n: u64) -> Entity {
    let common = Entity::new(user, row_key)
        .with("EntityType", kind(n))
        .with("Caption", format!("Caption {n}"))
        .with("CreatedOn", created(n))
        .with("Rating", (n % 5) as i32);
    match kind(n) {
        "Photo" => common
            .with("Uri", format!("http://photos/{n}"))
            .with("ThumbnailUri", format!("http://photos/{n}/small")),
        _ => common.with("Text", "What I saw today").with("Category", "Travel"),
    }
}

/// RowKeys that begin with the time, and in another table those that begin with the kind.
fn time_first(n: u64) -> String {
    format!("{}_{}", newest_first(created(n)), kind(n))
}

fn kind_first(n: u64) -> String {
    format!("{}_{}", kind(n), newest_first(created(n)))
}

fn social_network(db: &TestDb, row_key: fn(u64) -> String) -> EntityTable {
    let items = table(db, "SocialNetworkTable");
    for n in 0..ITEMS {
        for user in ["Jim", "Joe", "Jon"] {
            items.insert(&item(user, row_key(n), n)).wait().unwrap();
        }
    }
    items
}

fn numbers(kind_of: Option<&'static str>) -> Vec<u64> {
    (0..ITEMS).rev().filter(|n| kind_of.is_none_or(|wanted| wanted == kind(*n))).collect()
}

/// U-12: the home page has all kinds, newest first, each with its own properties.
#[test]
fn u_12_a_home_page_has_all_kinds_newest_first() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let items = social_network(&db, time_first);
        depth.settle(&db);
        let home = items.query().partition("Joe").top(100).page().unwrap();
        let expected: Vec<_> =
            (0..100).map(|back| ITEMS - 1 - back).map(|n| item("Joe", time_first(n), n)).collect();
        assert_eq!(home.len(), 100, "{depth:?}");
        assert!(home.examined() <= 101, "{depth:?}: {}", home.examined());
        for (found, expected) in home.to_entities().unwrap().iter().zip(&expected) {
            assert_eq!(found.row_key(), expected.row_key(), "{depth:?}");
            assert!(found.properties().eq(expected.properties()), "{depth:?}: {found:?}");
        }
    }
}

/// U-12: of one kind, by a filter on its property, within the partition. A range of RowKeys from
/// the first possible photo to the last has every kind in it (C-34).
#[test]
fn u_12_photos_are_found_by_their_type_not_by_a_range_of_times() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let items = social_network(&db, time_first);
        depth.settle(&db);
        let photos = filter("PartitionKey eq 'Joe' and EntityType eq 'Photo'");
        assert_eq!(photos.explain().plan(), Plan::Partition);
        let found = items.query().filter(photos).page().unwrap();
        let expected: Vec<_> = numbers(Some("Photo")).into_iter().map(time_first).collect();
        assert_eq!(row_keys(&found), expected, "{depth:?}");
        assert!(found.examined() <= ITEMS + 1, "{depth:?}: {}", found.examined());

        let by_times = format!(
            "PartitionKey eq 'Joe' and RowKey ge '{}_Photo' and RowKey le '{}_Photo'",
            newest_first(DateTime::MAX),
            newest_first(DateTime::MIN)
        );
        assert_eq!(page(&items, &by_times).len() as u64, ITEMS, "{depth:?}");
    }
}

/// U-12: with the kind in front, one kind is a prefix, at the cost of that kind alone.
#[test]
fn u_12_with_the_kind_in_front_photos_are_a_range() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let items = social_network(&db, kind_first);
        depth.settle(&db);
        let range = "PartitionKey eq 'Joe' and RowKey ge 'Photo_' and RowKey lt 'Photo`'";
        let found = page(&items, range);
        let expected: Vec<_> = numbers(Some("Photo")).into_iter().map(kind_first).collect();
        assert_eq!(row_keys(&found), expected, "{depth:?}");
        assert!(found.examined() <= expected.len() as u64 + 1, "{depth:?}: {}", found.examined());
        let by_prefix = items.query().partition("Joe").row_prefix("Photo_").page().unwrap();
        assert_eq!(row_keys(&by_prefix), expected, "{depth:?}");
    }
}

/// U-12: what a query selects of a mixed partition is null in the kinds that lack it (R-D07).
#[test]
fn u_12_selected_properties_are_null_in_kinds_without_them() {
    let db = TestDb::new();
    let items = social_network(&db, time_first);
    db.flush().unwrap();
    let page = items.query().partition("Jim").select(["Caption", "Text"]).page().unwrap();
    assert_eq!(page.selected(), Some(&["Caption".to_owned(), "Text".to_owned()][..]));
    for (entity, n) in page.iter().zip(numbers(None)) {
        assert_eq!(entity.row_key(), time_first(n));
        assert_eq!(entity.get_as("Caption"), Ok(Some(format!("Caption {n}").as_str())));
        let text = (kind(n) == "Blog").then_some("What I saw today");
        assert_eq!(entity.get_as("Text"), Ok(text));
        assert_eq!(entity.len(), 1 + usize::from(text.is_some()), "nothing else is there");
    }
}

/// U-12: kinds of one user change together, and appear together.
#[test]
fn u_12_kinds_of_one_user_are_written_in_one_transaction() {
    let db = TestDb::new();
    let items = table(&db, "SocialNetworkTable");
    let mut batch = EntityBatch::new("Jim");
    for n in 0..10 {
        batch.insert(&item("Jim", time_first(n), n));
    }
    let version = items.commit(batch).wait().unwrap();
    let found = collect(items.query());
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|entity| entity.version() == Some(version)));
}

/// U-13: one scan of a partition has each blog, and right behind it its comments, in order,
/// wherever pages end and whenever a comment was written (W-063).
#[test]
fn u_13_one_scan_has_each_blog_and_then_its_comments() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let items = table(&db, "Blogs");
        let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for n in 0..60 {
            let blog = newest_first(created(n));
            let entity = Entity::new("Jim", &blog).with("EntityType", "Blog").with("Text", "A day");
            items.insert(&entity).wait().unwrap();
            expected.insert(blog, Vec::new());
        }
        // Comments come later, on old blogs and new ones in turn; some blogs have none.
        for n in 0..200u64 {
            let blog = newest_first(created(n * 7 % 45));
            let comment = format!("{blog}_{n:03}");
            let entity = Entity::new("Jim", &comment)
                .with("EntityType", "Comment")
                .with("Text", "Well said")
                .with("UserId", format!("user{n}"));
            items.insert(&entity).wait().unwrap();
            expected.get_mut(&blog).unwrap().push(comment);
        }
        depth.settle(&db);

        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for entity in items.query().partition("Jim").limit(7).entities() {
            let entity = entity.unwrap();
            match entity.get_as("EntityType") {
                Some("Blog") => found.push((entity.row_key().to_owned(), Vec::new())),
                Some("Comment") => {
                    let (blog, comments) = found.last_mut().expect("a blog comes first");
                    assert!(entity.row_key().starts_with(blog.as_str()), "{depth:?}: {entity:?}");
                    comments.push(entity.row_key().to_owned());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(found, expected.clone().into_iter().collect::<Vec<_>>(), "{depth:?}");

        // One blog with its comments is a range: its key, and what begins with it and `_`.
        let blog = newest_first(created(14));
        let range = format!("PartitionKey eq 'Jim' and RowKey ge '{blog}' and RowKey lt '{blog}`'");
        let one = page(&items, &range);
        assert_eq!(one.len(), 1 + expected[&blog].len(), "{depth:?}");
        assert!(one.examined() <= one.len() as u64 + 1, "{depth:?}: {}", one.examined());
    }
}
