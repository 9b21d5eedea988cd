//! What is stored and no entity: each call that comes upon it says which row and why, and the rest
//! of the table stays readable (R-D03, R-E22).

use tablestone::{Entity, EntityPage, Error, Filter, NotAnEntity, Precondition, Result, RowError};

use super::entities;
use super::support::{Depth, TestDb};

fn row_error<T: std::fmt::Debug>(outcome: Result<T>) -> NotAnEntity {
    match outcome {
        Err(Error::NotAnEntity(error)) => *error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_written_as_bytes_are_told_by_table_and_keys() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = entities(&db);
        t.insert(&Entity::new("p", "a").with("N", 1)).wait().unwrap();
        t.as_bytes().insert("p", "b", "plain bytes").wait().unwrap();
        t.insert(&Entity::new("p", "c").with("N", 3)).wait().unwrap();
        depth.settle(&db);
        let reads: [&dyn Fn() -> Result<(), Error>; 7] = [
            &|| t.get("p", "b").map(drop),
            &|| t.read("p", "b", |_| Ok(())).map(drop),
            &|| t.get_many("p", &["a", "b"]).map(drop),
            &|| t.query().page().map(drop),
            &|| t.query().filter(Filter::property("N").eq(1)).page().map(drop),
            &|| t.query().select(["N"]).page().map(drop),
            &|| t.merge(&Entity::new("p", "b").with("N", 1), Precondition::Exists).wait().map(drop),
        ];
        for read in reads {
            let error = row_error(read());
            assert_eq!(
                (&*error.table, &*error.partition_key, &*error.row_key),
                ("t", &b"p"[..], &b"b"[..])
            );
            // "p" is 112.
            let found = RowError::UnsupportedFormat { found: 112, supported: 1 };
            assert_eq!(error.source, found);
            assert_eq!(error.to_string(), "row (\"p\", \"b\") of table \"t\" is no entity");
        }
        // It is there, it can be passed by, and it can be replaced.
        assert!(t.exists("p", "b").unwrap());
        assert_eq!(t.get("p", "a").unwrap().unwrap().get_as("N"), Some(1));
        let around = t.query().filter(Filter::row_key().ne("b")).entities();
        assert_eq!(around.map(|entity| entity.unwrap().len()).sum::<usize>(), 2);
        t.insert_or_replace(&Entity::new("p", "b").with("N", 2)).wait().unwrap();
        assert_eq!(t.query().entities().count(), 3);
    }
}

#[test]
fn a_row_of_a_later_format_is_an_error_that_names_it() {
    let db = TestDb::new();
    let t = entities(&db);
    t.insert(&Entity::new("p", "r").with("N", 1)).wait().unwrap();
    let mut row = t.as_bytes().get("p", "r").unwrap().unwrap().value;
    row[0] = 2;
    t.as_bytes().upsert("p", "r", row).wait().unwrap();
    let error = row_error(t.get("p", "r"));
    assert_eq!(error.source, RowError::UnsupportedFormat { found: 2, supported: 1 });
}

#[test]
fn keys_that_are_no_text_are_no_entitys() {
    let db = TestDb::new();
    let t = entities(&db);
    t.insert(&Entity::new("p", "r").with("N", 1)).wait().unwrap();
    let row = t.as_bytes().get("p", "r").unwrap().unwrap().value;
    t.as_bytes().insert("p", b"\xFF", row.clone()).wait().unwrap();
    t.as_bytes().insert(b"\xFF", "r", row).wait().unwrap();
    let error = row_error(t.query().partition("p").page());
    assert_eq!(error.source, RowError::KeyNotUtf8 { key: "RowKey" });
    let error = row_error(t.query().rows("r"..="r").page());
    assert_eq!(error.source, RowError::KeyNotUtf8 { key: "PartitionKey" });
}

/// Cut anywhere, a row is an error or, where nothing is missed, an entity; iterators end there.
#[test]
fn a_cut_row_is_an_error_and_ends_iterators() {
    let db = TestDb::new();
    let t = entities(&db);
    let whole = Entity::new("p", "b").with("Text", "some text").with("N", 5i64);
    t.insert(&whole).wait().unwrap();
    t.insert(&Entity::new("p", "a")).wait().unwrap();
    t.insert(&Entity::new("p", "c")).wait().unwrap();
    let row = t.as_bytes().get("p", "b").unwrap().unwrap().value;
    for length in 0..row.len() {
        t.as_bytes().upsert("p", "b", &row[..length]).wait().unwrap();
        row_error(t.get("p", "b"));
        let mut entities = t.query().limit(1).entities();
        assert_eq!(entities.next().unwrap().unwrap().row_key(), "a");
        row_error(entities.next().unwrap());
        assert!(entities.next().is_none(), "an error is the end");
    }
}

/// Who reads properties of a page among calls of the database has one error for both.
#[test]
fn a_property_that_is_damaged_is_an_error_of_the_database_too() {
    fn lengths(page: &EntityPage) -> Result<usize> {
        let mut sum = 0;
        for entity in page {
            sum += entity.get_as("Text")?.map_or(0, str::len);
        }
        Ok(sum)
    }
    let db = TestDb::new();
    let t = entities(&db);
    t.insert(&Entity::new("p", "r").with("Text", "some text")).wait().unwrap();
    assert_eq!(lengths(&t.query().page().unwrap()).unwrap(), 9);
    let mut row = t.as_bytes().get("p", "r").unwrap().unwrap().value;
    *row.last_mut().unwrap() = 0xFF;
    t.as_bytes().upsert("p", "r", &row).wait().unwrap();
    let error = lengths(&t.query().page().unwrap()).unwrap_err();
    let Error::Row(source) = &error else { panic!("{error:?}") };
    assert!(matches!(**source, RowError::NotUtf8 { .. }), "{source:?}");
    assert_eq!(error.to_string(), source.to_string());
}
