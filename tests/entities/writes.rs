//! R-E05, R-E07, R-D05, R-D09: what each write does to an entity that is there and to one that is
//! not, and what it leaves of its properties.

use tablestone::{DateTime, Entity, EntityBatch, Error, Precondition, Version};

use super::support::{Depth, TestDb};
use super::{content, entities};

fn old() -> Entity {
    Entity::new("p", "r").with("A", 1).with("B", "b")
}

fn new() -> Entity {
    Entity::new("p", "r").with("C", true).with("A", "one")
}

#[test]
fn r_e05_writes_of_an_entity_that_is_there() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = entities(&db);
        let replaced = content(&new());
        let merged = content(&old().with("A", "one").with("C", true));
        let reset = || t.insert_or_replace(&old()).wait().unwrap();
        let stored = || content(&t.get("p", "r").unwrap().unwrap());

        let version = reset();
        depth.settle(&db);
        let late = t.insert(&new()).wait();
        assert!(
            matches!(late, Err(Error::EntityExists { index: 0, version: v }) if v == version),
            "{late:?}"
        );
        assert_eq!(stored(), content(&old()));

        t.replace(&new(), Precondition::Exists).wait().unwrap();
        assert_eq!(stored(), replaced, "properties that it does not have are dropped");
        let version = reset();
        t.replace(&new(), Precondition::Version(version)).wait().unwrap();
        assert_eq!(stored(), replaced);
        reset();
        t.insert_or_replace(&new()).wait().unwrap();
        assert_eq!(stored(), replaced);

        let version = reset();
        t.merge(&new(), Precondition::Version(version)).wait().unwrap();
        assert_eq!(stored(), merged, "A keeps its place and changes its type");
        reset();
        t.merge(&new(), Precondition::Exists).wait().unwrap();
        assert_eq!(stored(), merged);
        reset();
        t.insert_or_merge(&new()).wait().unwrap();
        assert_eq!(stored(), merged);

        // Whoever read an older version comes late, and changes nothing.
        let version = t.get("p", "r").unwrap().unwrap().version().unwrap();
        let stale = Precondition::Version(Version::from_ticks(version.ticks() - 1));
        for outcome in [
            t.replace(&old(), stale).wait(),
            t.merge(&old(), stale).wait(),
            t.delete("p", "r", stale).wait(),
        ] {
            let found = match outcome {
                Err(Error::VersionMismatch { index: 0, found, .. }) => found,
                other => panic!("{other:?}"),
            };
            assert_eq!(found, version);
        }
        assert_eq!(stored(), merged);

        t.delete("p", "r", Precondition::Version(version)).wait().unwrap();
        assert_eq!(t.get("p", "r").unwrap(), None);
    }
}

#[test]
fn r_e05_writes_of_an_entity_that_is_not_there() {
    let db = TestDb::new();
    let t = entities(&db);
    for precondition in [Precondition::Exists, Precondition::Version(Version::ZERO)] {
        for outcome in [
            t.replace(&new(), precondition).wait(),
            t.merge(&new(), precondition).wait(),
            t.delete("p", "r", precondition).wait(),
        ] {
            assert!(matches!(outcome, Err(Error::EntityNotFound { index: 0 })), "{outcome:?}");
        }
    }
    assert!(!t.exists("p", "r").unwrap());
    t.delete("p", "r", Precondition::None).wait().unwrap();
    for insert in [
        t.insert(&new()),
        {
            t.delete("p", "r", Precondition::None).wait().unwrap();
            t.insert_or_replace(&new())
        },
        {
            t.delete("p", "r", Precondition::None).wait().unwrap();
            t.insert_or_merge(&new())
        },
    ] {
        insert.wait().unwrap();
    }
    let stored = t.get("p", "r").unwrap().unwrap();
    assert_eq!(content(&stored), content(&new()));
}

#[test]
fn r_d05_null_is_not_stored_and_a_merge_of_null_keeps_what_is() {
    let db = TestDb::new();
    let t = entities(&db);
    t.insert(&old().with("N", None::<i32>)).wait().unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().get("N"), None);
    let nulls = Entity::new("p", "r").with("A", None::<i32>).with("C", 3);
    t.merge(&nulls, Precondition::Exists).wait().unwrap();
    let stored = t.get("p", "r").unwrap().unwrap();
    assert_eq!(content(&stored), content(&old().with("C", 3)));
    t.replace(&nulls, Precondition::Exists).wait().unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().get("A"), None, "a replace drops it");
}

#[test]
fn r_d02_a_clients_timestamp_is_ignored_and_the_stored_one_is_the_version() {
    let db = TestDb::new();
    let t = entities(&db);
    let entity = old().with("Timestamp", DateTime::MIN);
    let version = t.insert(&entity).wait().unwrap();
    let stored = t.get("p", "r").unwrap().unwrap();
    assert_eq!(stored.len(), 2);
    assert_eq!(stored.version(), Some(version));
    assert_eq!(stored.timestamp(), Some(DateTime::from(version)));
    let again = t.merge(&entity, Precondition::Exists).wait().unwrap();
    assert!(again > version);
    assert_eq!(t.get("p", "r").unwrap().unwrap().timestamp(), Some(DateTime::from(again)));
}

#[test]
fn r_e07_a_batch_is_done_whole_or_not_at_all_and_names_its_first_failure() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = entities(&db);
        let entity = |row_key: &str, n: i32| Entity::new("p", row_key).with("N", n);
        t.import((0..4).map(|n| entity(&n.to_string(), n))).unwrap();
        depth.settle(&db);
        let before: Vec<_> = t.query().entities().map(Result::unwrap).collect();

        let mut batch = EntityBatch::new("p");
        batch
            .insert(&entity("4", 4))
            .put(&entity("0", 10), Precondition::Exists)
            .merge(&entity("1", 11), Precondition::Exists)
            .insert(&entity("2", 12))
            .delete("9", Precondition::Exists);
        let outcome = t.commit(batch).wait();
        assert!(matches!(outcome, Err(Error::EntityExists { index: 3, .. })), "{outcome:?}");
        let after: Vec<_> = t.query().entities().map(Result::unwrap).collect();
        assert_eq!(before, after);

        let mut batch = EntityBatch::new("p");
        batch
            .insert(&entity("4", 4))
            .put(&entity("0", 10), Precondition::Exists)
            .merge(&Entity::new("p", "1").with("M", 1), Precondition::Exists)
            .insert_or_merge(&entity("5", 5))
            .insert_or_replace(&entity("3", 13))
            .delete("2", Precondition::Exists);
        assert_eq!(batch.len(), 6);
        let version = t.commit(batch).wait().unwrap();
        let after: Vec<_> = t.query().entities().map(Result::unwrap).collect();
        let numbers: Vec<_> = after.iter().map(|e| (e.row_key(), e.get_as("N").unwrap())).collect();
        assert_eq!(numbers, [("0", 10), ("1", 1), ("3", 13), ("4", 4), ("5", 5)]);
        assert!(after.iter().all(|entity| entity.version() == Some(version)));
    }
}

#[test]
fn r_e07_an_entity_twice_in_a_batch_is_refused() {
    let db = TestDb::new();
    let t = entities(&db);
    let mut batch = EntityBatch::new("p");
    batch.insert(&old()).delete("s", Precondition::None).insert_or_merge(&new());
    let outcome = t.commit(batch).wait();
    assert!(matches!(outcome, Err(Error::DuplicateRowKey { index: 2, first: 0 })), "{outcome:?}");
    assert_eq!(t.get("p", "r").unwrap(), None);
}

#[test]
fn an_import_stores_entities_of_any_partitions() {
    let db = TestDb::new();
    let t = entities(&db);
    let all = (0..500).map(|n| {
        Entity::new(format!("{:02}", n % 37), format!("{n:03}"))
            .with("N", n)
            .with("Even", n % 2 == 0)
    });
    let report = t.import(all).unwrap();
    assert_eq!(report.rows, 500);
    assert_eq!(t.query().entities().count(), 500);
    let one = t.get("36", "036").unwrap().unwrap();
    assert_eq!((one.get_as("N"), one.get_as("Even")), (Some(36), Some(true)));
}
