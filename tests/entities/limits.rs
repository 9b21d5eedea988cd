//! R-D01, R-D02, R-D04: what breaks a rule of the data model is not stored, by whichever call, and
//! the error names the operation and the rule.

use tablestone::{Entity, EntityBatch, EntityError, Error, Limit, Precondition};

use super::support::TestDb;
use super::{content, entities};

fn entity() -> Entity {
    Entity::new("p", "r")
}

/// An entity of exactly this size by the formula of R-D04.
fn of_size(size: usize) -> Entity {
    let mut entity = entity();
    let mut n = 0;
    while entity.size() + 100_000 < size {
        entity.set(format!("B{n:02}"), vec![n; 65_536]);
        n += 1;
    }
    entity.set("Rest", vec![0; 0]);
    entity.set("More", vec![0; 0]);
    let rest = size - entity.size();
    entity.set("Rest", vec![1; rest / 2]);
    entity.set("More", vec![2; rest - rest / 2]);
    assert_eq!(entity.size(), size);
    entity
}

fn broken() -> Vec<(Entity, EntityError)> {
    let many = (0..253).fold(entity(), |e, n| e.with(format!("P{n}"), n));
    vec![
        (many, EntityError::TooManyProperties { found: 253, limit: 252 }),
        (entity().with("", 1), EntityError::NameEmpty),
        (
            entity().with("a-b", 1),
            EntityError::NameInvalid { name: "a-b".into(), column: 2, character: '-' },
        ),
        (entity().with("RowKey", 1), EntityError::NameReserved { name: "RowKey".into() }),
        (
            entity().with("S", "é".repeat(32_769)),
            EntityError::StringTooLong { name: "S".into(), length: 32_769, limit: 32_768 },
        ),
        (
            entity().with("B", vec![0; 65_537]),
            EntityError::BinaryTooLong { name: "B".into(), length: 65_537, limit: 65_536 },
        ),
        (of_size((1 << 20) + 1), EntityError::TooLarge { size: (1 << 20) + 1, limit: 1 << 20 }),
    ]
}

fn is(error: &Error, index: usize, expected: &EntityError) -> bool {
    matches!(error, Error::Entity { index: i, source } if *i == index && **source == *expected)
}

#[test]
fn r_d04_every_write_refuses_what_breaks_a_rule_and_says_which() {
    let db = TestDb::new();
    let t = entities(&db);
    t.insert(&entity().with("Old", 1)).wait().unwrap();
    for (entity, expected) in broken() {
        let precondition = Precondition::Exists;
        for outcome in [
            t.insert(&entity).wait(),
            t.replace(&entity, precondition).wait(),
            t.merge(&entity, precondition).wait(),
            t.insert_or_replace(&entity).wait(),
            t.insert_or_merge(&entity).wait(),
            t.import([entity.clone()]).map(|report| report.version),
        ] {
            let error = outcome.unwrap_err();
            assert!(is(&error, 0, &expected), "{error:?}");
            let source = std::error::Error::source(&error).expect("the rule");
            assert_eq!(source.to_string(), expected.to_string());
        }
        assert_eq!(entity.validate(), Err(expected));
    }
    let stored = t.get("p", "r").unwrap().unwrap();
    assert_eq!(content(&stored), content(&entity().with("Old", 1)));
}

#[test]
fn r_d04_a_batch_names_the_operation_that_breaks_a_rule() {
    let db = TestDb::new();
    let t = entities(&db);
    for (broken, expected) in broken() {
        let mut batch = EntityBatch::new("p");
        batch
            .insert(&Entity::new("p", "0"))
            .delete("1", Precondition::None)
            .insert_or_merge(&broken)
            .insert(&Entity::new("p", "3").with("", 1));
        let error = t.commit(batch).wait().unwrap_err();
        assert!(is(&error, 2, &expected), "{error:?}");
    }
    let mut batch = EntityBatch::new("p");
    batch.insert(&Entity::new("p", "0")).insert(&Entity::new("q", "1"));
    let error = t.commit(batch).wait().unwrap_err();
    let expected = EntityError::OtherPartition { expected: "p".into(), found: "q".into() };
    assert!(is(&error, 1, &expected), "{error:?}");
    assert_eq!(t.query().entities().count(), 0, "nothing of any was stored");
}

#[test]
fn r_d04_a_merge_whose_result_breaks_a_limit_is_refused_and_changes_nothing() {
    let db = TestDb::new();
    let t = entities(&db);
    let most =
        |prefix: &str, n: i32| (0..n).fold(entity(), |e, i| e.with(format!("{prefix}{i:03}"), i));
    t.insert(&most("A", 200)).wait().unwrap();
    for (index, outcome) in [
        (0, t.merge(&most("B", 53), Precondition::Exists).wait()),
        (0, t.insert_or_merge(&most("B", 53)).wait()),
        (1, {
            let mut batch = EntityBatch::new("p");
            batch.insert(&Entity::new("p", "0")).insert_or_merge(&most("B", 53));
            t.commit(batch).wait()
        }),
    ] {
        let expected = EntityError::TooManyProperties { found: 253, limit: 252 };
        let error = outcome.unwrap_err();
        assert!(is(&error, index, &expected), "{error:?}");
    }
    assert_eq!(content(&t.get("p", "r").unwrap().unwrap()), content(&most("A", 200)));
    assert!(!t.exists("p", "0").unwrap());
    t.merge(&most("B", 52), Precondition::Exists).wait().unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().len(), 252);

    let large = of_size(1 << 20);
    t.insert_or_replace(&large).wait().unwrap();
    let error = t.merge(&entity().with("Z", true), Precondition::Exists).wait().unwrap_err();
    let size = (1 << 20) + 8 + 2 + 1;
    assert!(is(&error, 0, &EntityError::TooLarge { size, limit: 1 << 20 }), "{error:?}");
    assert_eq!(content(&t.get("p", "r").unwrap().unwrap()), content(&large));
    // What it has already may be given another value of the same size.
    t.merge(&entity().with("B00", vec![9; 65_536]), Precondition::Exists).wait().unwrap();
}

/// R-D04: an entity of 1 MiB by the service's formula is up to 1.5 MiB of UTF-8.
#[test]
fn r_d04_the_largest_entity_fits_whatever_its_text() {
    let db = TestDb::new();
    let t = entities(&db);
    let mut largest = entity();
    for n in 0..15 {
        largest.set(format!("S{n:02}"), "名".repeat(32_768));
    }
    let rest = ((1 << 20) - largest.size() - 8 - 2 * 4 - 4) / 2;
    largest.set("Rest", "名".repeat(rest));
    assert!(largest.size() > (1 << 20) - 2);
    t.insert(&largest).wait().unwrap();
    db.compact().unwrap();
    assert_eq!(t.get("p", "r").unwrap().unwrap().get("S14"), largest.get("S14"));
}

/// The engine's own limits say so as they do for bytes.
#[test]
fn r_e07_the_limits_of_batches_and_keys_hold_for_entities() {
    let db = TestDb::new();
    let t = entities(&db);
    let mut batch = EntityBatch::new("p");
    for n in 0..101 {
        batch.insert(&Entity::new("p", format!("{n:03}")));
    }
    let error = t.commit(batch).wait().unwrap_err();
    assert!(
        matches!(
            error,
            Error::LimitExceeded { what: Limit::BatchOperations, size: 101, limit: 100, .. }
        ),
        "{error:?}"
    );
    let error = t.insert(&Entity::new("p".repeat(2049), "r")).wait().unwrap_err();
    assert!(matches!(error, Error::LimitExceeded { what: Limit::PartitionKey, .. }), "{error:?}");
    let error = t.insert(&Entity::new("p", "r".repeat(2049))).wait().unwrap_err();
    assert!(matches!(error, Error::LimitExceeded { what: Limit::RowKey, .. }), "{error:?}");
}
