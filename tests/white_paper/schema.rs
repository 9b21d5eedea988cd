//! U-15: entities of an old and a new make in one table (§8.4): a property is added, removed, given
//! another type; what is old is found and rewritten in the background.

use std::collections::BTreeSet;

use tablestone::{Entity, EntityTable, EntityView, Precondition, Value};

use crate::support::{Depth, TestDb};
use crate::world::{collect, everything, filter, get, keys, page, row_keys, table};

const ROWS: usize = 300;

fn key(n: usize) -> (String, String) {
    (format!("Channel{}", n % 3), format!("{:03}", n / 3))
}

fn old(n: usize) -> Entity {
    let (partition, row) = key(n);
    Entity::new(partition, row).with("Text", format!("text {n}")).with("Rating", (n % 5) as i32)
}

fn blogs(db: &TestDb) -> EntityTable {
    let blogs = table(db, "Blogs");
    for n in 0..ROWS {
        blogs.insert(&old(n)).wait().unwrap();
    }
    blogs
}

fn found(view: &EntityView, text: &str) -> usize {
    page(view, text).len()
}

/// U-15 a: rows with the new property and rows without live together; a query for it finds those
/// that have it.
#[test]
fn u_15_a_new_property_is_found_in_the_rows_that_have_it() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = blogs(&db);
        depth.settle(&db);
        for n in (0..ROWS).step_by(4) {
            let new = old(n).with("Category", if n % 8 == 0 { "Travel" } else { "Food" });
            blogs.replace(&new, Precondition::Exists).wait().unwrap();
        }
        depth.settle(&db);
        assert_eq!(found(&blogs, "Category eq 'Travel'"), 38, "{depth:?}");
        assert_eq!(found(&blogs, "Category ne 'Travel'"), 37, "only those that have one");
        assert_eq!(found(&blogs, "not (Category eq 'Travel')"), ROWS - 38, "{depth:?}");
        assert_eq!(found(&blogs, "Rating ge 0"), ROWS, "{depth:?}");
        for n in 0..ROWS {
            let (partition, row) = key(n);
            let read = get(&blogs, &partition, &row);
            assert_eq!(read.get_as("Text"), Some(format!("text {n}").as_str()));
            assert_eq!(read.get("Category").is_some(), n % 4 == 0);
        }
    }
}

/// Rewrites every row that a query finds, page by page, insisting on the version it read; gives
/// the keys it visited.
fn rewrite(
    blogs: &EntityTable,
    text: &str,
    mut rewrite: impl FnMut(&EntityTable, Entity),
) -> Vec<(String, String)> {
    let mut visited = Vec::new();
    for entity in blogs.query().filter(filter(text)).limit(7).entities() {
        let entity = entity.unwrap();
        visited.push((entity.partition_key().to_owned(), entity.row_key().to_owned()));
        rewrite(blogs, entity);
    }
    visited
}

fn all_keys() -> Vec<(String, String)> {
    (0..ROWS).map(key).collect::<BTreeSet<_>>().into_iter().collect()
}

/// U-15 b: the whole table is scanned and each row stored without the property. A scan beside its
/// own rewriting visits each row once.
#[test]
fn u_15_a_property_is_removed_by_a_scan_that_visits_each_row_once() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = blogs(&db);
        depth.settle(&db);
        let visited = rewrite(&blogs, "", |blogs, mut entity| {
            assert!(entity.remove("Rating").is_some(), "visited twice: {entity:?}");
            let read = Precondition::Version(entity.version().unwrap());
            blogs.replace(&entity, read).wait().unwrap();
        });
        assert_eq!(visited, all_keys(), "{depth:?}");
        let left = everything(&blogs);
        assert_eq!(left.len(), ROWS);
        for entity in left {
            let names: Vec<_> = entity.properties().map(|(name, _)| name).collect();
            assert_eq!(names, ["Text"], "{depth:?}");
        }
        assert_eq!(found(&blogs, "Rating ge 0 or Rating lt 0"), 0);
    }
}

/// U-15 c: another type comes with another name: a merge adds it, a replace drops the old one; in
/// between both can be read.
#[test]
fn u_15_a_type_is_changed_by_a_merge_and_then_a_replace() {
    let db = TestDb::new();
    let blogs = blogs(&db);
    rewrite(&blogs, "", |blogs, entity| {
        let rating: i32 = entity.get_as("Rating").unwrap();
        let added = Entity::new(entity.partition_key(), entity.row_key())
            .with("RatingExact", f64::from(rating) + 0.5);
        blogs.merge(&added, Precondition::Version(entity.version().unwrap())).wait().unwrap();
    });
    db.flush().unwrap();
    assert_eq!(found(&blogs, "Rating eq 4"), ROWS / 5);
    assert_eq!(found(&blogs, "Rating eq 4 and RatingExact eq 4.5"), ROWS / 5);
    rewrite(&blogs, "", |blogs, mut entity| {
        entity.remove("Rating");
        let read = Precondition::Version(entity.version().unwrap());
        blogs.replace(&entity, read).wait().unwrap();
    });
    assert_eq!(found(&blogs, "Rating eq 4"), 0);
    assert_eq!(found(&blogs, "RatingExact gt 4.2"), ROWS / 5);
    let n = 14;
    let (partition, row) = key(n);
    let read = get(&blogs, &partition, &row);
    assert_eq!((read.get_as("Text"), read.get_as("RatingExact")), (Some("text 14"), Some(4.5)));
    assert_eq!(read.len(), 2);
}

/// U-15 d: one name has two types; a comparison with the one leaves the other out, without error
/// (W-134), and both read back as written (W-018).
#[test]
fn u_15_a_comparison_leaves_out_what_has_another_type() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let table = table(&db, "Ratings");
        table.insert(&Entity::new("p", "A").with("Rating", 5)).wait().unwrap();
        table.insert(&Entity::new("p", "B").with("Rating", 1.5)).wait().unwrap();
        table.insert(&Entity::new("p", "C").with("Rating", "five")).wait().unwrap();
        table.insert(&Entity::new("p", "D").with("Stars", 5)).wait().unwrap();
        depth.settle(&db);
        assert_eq!(row_keys(&page(&table, "Rating gt 1.2")), ["B"], "{depth:?}");
        assert_eq!(row_keys(&page(&table, "Rating eq 'five'")), ["C"], "{depth:?}");
        assert_eq!(row_keys(&page(&table, "Rating eq 5")), ["A"], "{depth:?}");
        assert_eq!(get(&table, "p", "A").get("Rating"), Some(&Value::Int32(5)));
        assert_eq!(get(&table, "p", "B").get("Rating"), Some(&Value::Double(1.5)));

        // A merge with a value of another type changes the type.
        let now_exact = Entity::new("p", "A").with("Rating", 5.0);
        table.merge(&now_exact, Precondition::Exists).wait().unwrap();
        depth.settle(&db);
        assert_eq!(row_keys(&page(&table, "Rating gt 1.2")), ["A", "B"], "{depth:?}");
    }
}

/// U-15: a background scan finds old rows by a version column, beside new ones that keep coming,
/// and leaves none; a second scan finds nothing to do.
#[test]
fn u_15_old_rows_are_found_by_a_version_column_and_upgraded() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = table(&db, "Blogs");
        for n in 0..ROWS {
            blogs.insert(&old(n).with("SchemaVersion", 1)).wait().unwrap();
        }
        depth.settle(&db);
        let mut added = 0;
        let visited = rewrite(&blogs, "SchemaVersion lt 2", |blogs, entity| {
            let exact = f64::from(entity.get_as::<i32>("Rating").unwrap());
            let read = Precondition::Version(entity.version().unwrap());
            let new = entity.with("Rating", exact).with("SchemaVersion", 2);
            blogs.replace(&new, read).wait().unwrap();
            // An application that knows the new make writes ahead of the scan and behind it.
            for partition in ["Channel0", "Channel2"] {
                let row = format!("{:03}-{added}", added % 100);
                let new = Entity::new(partition, row).with("Rating", 2.5).with("SchemaVersion", 2);
                blogs.insert(&new).wait().unwrap();
                added += 1;
            }
        });
        assert_eq!(visited, all_keys(), "{depth:?}");
        assert_eq!(collect(blogs.query().filter(filter("SchemaVersion lt 2"))), []);
        let all = everything(&blogs);
        assert_eq!(all.len(), ROWS + added);
        assert!(all.iter().all(|e| matches!(e.get("Rating"), Some(Value::Double(_)))));
    }
}

/// U-15: rows without the column at all are old too; `not` finds them.
#[test]
fn u_15_rows_without_the_version_column_are_found_by_not() {
    let db = TestDb::new();
    let blogs = blogs(&db);
    for n in 0..ROWS / 2 {
        let (partition, row) = key(n);
        let mark = Entity::new(partition, row).with("SchemaVersion", 2);
        blogs.merge(&mark, Precondition::Exists).wait().unwrap();
    }
    db.flush().unwrap();
    let expected: BTreeSet<_> =
        (ROWS / 2..ROWS).map(key).map(|(partition, row)| format!("{partition}/{row}")).collect();
    let found = keys(&page(&blogs, "not (SchemaVersion ge 2)"));
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
}
