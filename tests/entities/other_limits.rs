//! W-091 with R-D01, R-D02, R-D04: the limits of entities are options. Whatever they are, what is at one is
//! stored and what is beyond is not, by whichever call, and what is stored is read under any.

use tablestone::{
    Database, Entity, EntityBatch, EntityError, EntityLimits, EntityTable, Error, Options,
    Precondition,
};

use super::support::{Depth, TestDb, options};
use super::{content, entities, found};

/// Each is more than the service's.
fn raised() -> EntityLimits {
    EntityLimits::default()
        .properties(255)
        .name_length(300)
        .string_length(40_000)
        .binary_length(100_000)
        .size(2 << 20)
}

/// Each is less, and small enough that two are not in each other's way.
fn lowered() -> EntityLimits {
    EntityLimits::default()
        .properties(3)
        .name_length(5)
        .string_length(10)
        .binary_length(20)
        .size(90)
}

fn with(limits: EntityLimits) -> Options {
    options().value_bytes(4 << 20).entity_limits(limits)
}

fn entity() -> Entity {
    Entity::new("p", "r")
}

/// An entity of the properties `P000`, `P001` and so on.
fn numbered(properties: usize) -> Entity {
    (0..properties).fold(entity(), |entity, n| entity.with(format!("P{n:03}"), true))
}

/// An entity of exactly this size by the formula of R-D04, with Binaries as long as they may be.
fn of_size(size: usize, limits: &EntityLimits) -> Entity {
    let mut entity = entity();
    for name in 'A'..='Z' {
        let room = size - entity.size() - (8 + 2 + 4);
        entity.set(name, vec![7; room.min(limits.binary_length)]);
        if entity.size() == size {
            return entity;
        }
    }
    panic!("too large for so few Binaries");
}

/// At each limit an entity that is within it, one that is one beyond it, and what is wrong with that.
fn edges(limits: &EntityLimits) -> [(Entity, Entity, EntityError); 5] {
    let &EntityLimits { properties, name_length, string_length, binary_length, size, .. } = limits;
    let named = |length: usize| entity().with("n".repeat(length), 1);
    let text = |length: usize| entity().with("S", "é".repeat(length));
    let bytes = |length: usize| entity().with("B", vec![7; length]);
    let many = EntityError::TooManyProperties { found: properties + 1, limit: properties };
    let name = "n".repeat(64.min(name_length + 1)) + if name_length < 64 { "" } else { "…" };
    let (length, limit) = (name_length + 1, name_length);
    let named_long = EntityError::NameTooLong { name: name.into(), length, limit };
    let (length, limit) = (string_length + 1, string_length);
    let long = EntityError::StringTooLong { name: "S".into(), length, limit };
    let (length, limit) = (binary_length + 1, binary_length);
    let long_bytes = EntityError::BinaryTooLong { name: "B".into(), length, limit };
    let large = EntityError::TooLarge { size: size + 1, limit: size };
    [
        (numbered(properties), numbered(properties + 1), many),
        (named(name_length), named(name_length + 1), named_long),
        (text(string_length), text(string_length + 1), long),
        (bytes(binary_length), bytes(binary_length + 1), long_bytes),
        (of_size(size, limits), of_size(size + 1, limits), large),
    ]
}

/// A write of an entity, and the index that it has in it.
type Write = (usize, fn(&Database, &EntityTable, &Entity) -> Result<(), Error>);

/// Every way to write an entity; those that need another one there store it before.
const WRITES: [Write; 9] = [
    (0, |_, t, entity| {
        t.delete("p", "r", Precondition::None).wait()?;
        t.insert(entity).wait().map(drop)
    }),
    (0, |_, t, entity| t.insert_or_replace(entity).wait().map(drop)),
    (0, |_, t, entity| {
        t.insert_or_replace(&Entity::new("p", "r")).wait()?;
        t.replace(entity, Precondition::Exists).wait().map(drop)
    }),
    (0, |_, t, entity| {
        t.insert_or_replace(&Entity::new("p", "r")).wait()?;
        t.merge(entity, Precondition::Exists).wait().map(drop)
    }),
    (0, |_, t, entity| {
        t.delete("p", "r", Precondition::None).wait()?;
        t.insert_or_merge(entity).wait().map(drop)
    }),
    (1, |_, t, entity| {
        let mut batch = EntityBatch::new("p");
        batch.insert_or_replace(&Entity::new("p", "other")).insert_or_replace(entity);
        t.commit(batch).wait().map(drop)
    }),
    (2, |_, t, entity| {
        let mut batch = EntityBatch::new("p");
        batch.delete("gone", Precondition::None);
        batch.insert_or_merge(&Entity::new("p", "other")).insert_or_merge(entity);
        t.delete("p", "r", Precondition::None).wait()?;
        t.commit(batch).wait().map(drop)
    }),
    (1, |_, t, entity| t.import([Entity::new("p", "a"), entity.clone()]).map(drop)),
    (1, |db, _, entity| {
        let mut loader = db.load_table("loaded")?;
        loader.put_entity(&Entity::new("p", "a"))?;
        loader.put_entity(entity)?;
        loader.finish()?;
        db.drop_table("loaded").wait().map(drop)
    }),
];

fn is(error: &Error, index: usize, expected: &EntityError) -> bool {
    matches!(error, Error::Entity { index: i, source } if *i == index && **source == *expected)
}

#[test]
fn w_091_every_write_keeps_the_limits_that_the_database_has() {
    for limits in [raised(), lowered(), EntityLimits::default()] {
        let db = TestDb::with(with(limits));
        let t = entities(&db);
        for (within, beyond, expected) in edges(&limits) {
            for (number, (index, write)) in WRITES.into_iter().enumerate() {
                let outcome = write(&db, &t, &within);
                assert!(outcome.is_ok(), "write {number}, {expected}: {outcome:?}");
                let error = write(&db, &t, &beyond).unwrap_err();
                assert!(is(&error, index, &expected), "write {number}: {error:?}");
            }
            assert_eq!(within.validate_within(&limits), Ok(()));
            assert_eq!(beyond.validate_within(&limits), Err(expected));
        }
    }
}

/// Nothing is stored that is larger than what can be read.
#[test]
fn w_091_a_handle_has_no_limits_that_a_database_could_not_have() {
    let db = TestDb::with(options());
    let largest = EntityLimits::LARGEST;
    entities(&db).with_limits(largest).unwrap();
    let wrong = [
        largest.properties(largest.properties + 1),
        largest.name_length(largest.name_length + 1),
        largest.string_length(largest.string_length + 1),
        largest.binary_length(largest.binary_length + 1),
        largest.size(largest.size + 1),
        largest.properties(0),
    ];
    for limits in wrong {
        let refused = entities(&db).with_limits(limits).map(|_| ());
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{limits:?}: {refused:?}");
    }
}

/// A handle may have limits of its own: what is written through it keeps them, whichever the database has, and
/// so does a batch that was made for it.
#[test]
fn w_091_every_write_keeps_the_limits_that_a_handle_has() {
    for [of_database, of_handle] in [[lowered(), raised()], [raised(), lowered()]] {
        let db = TestDb::with(with(of_database));
        let t = entities(&db).with_limits(of_handle).unwrap();
        for (within, beyond, expected) in edges(&of_handle) {
            // A loader has no table yet, and so the limits of the database.
            for (number, (index, write)) in WRITES.into_iter().enumerate().take(8) {
                let outcome = write(&db, &t, &within);
                assert!(outcome.is_ok(), "write {number}, {expected}: {outcome:?}");
                let error = write(&db, &t, &beyond).unwrap_err();
                assert!(is(&error, index, &expected), "write {number}: {error:?}");
            }
            let batch = |entity: &Entity| {
                let mut batch = t.batch("p");
                batch.delete("gone", Precondition::None).insert_or_replace(entity);
                t.commit(batch).wait()
            };
            assert!(batch(&within).is_ok());
            assert!(is(&batch(&beyond).unwrap_err(), 1, &expected));
        }
    }
}

/// R-D09: what a merge makes of what is stored is within the limits as a whole.
#[test]
fn w_091_what_merges_make_keeps_the_limits_that_the_database_has() {
    for limits in [raised(), lowered()] {
        let db = TestDb::with(with(limits));
        let t = entities(&db);
        let merge = |patch: &Entity| {
            let mut batch = EntityBatch::new("p");
            batch.merge(patch, Precondition::Exists);
            [t.merge(patch, Precondition::Exists).wait(), t.commit(batch).wait()]
        };
        let EntityLimits { properties, size, .. } = limits;
        t.insert(&numbered(properties - 1)).wait().unwrap();
        assert!(merge(&entity().with("Last", 1)).iter().all(Result::is_ok));
        let expected = EntityError::TooManyProperties { found: properties + 1, limit: properties };
        for outcome in merge(&entity().with("More", 1)) {
            assert!(outcome.is_err_and(|error| is(&error, 0, &expected)));
        }
        let patch = |length: usize| entity().with("Rest", "x".repeat(length));
        let patch_size = |length: usize| patch(length).size() - entity().size();
        let stored = of_size(size - patch_size(1), &limits);
        t.insert_or_replace(&stored).wait().unwrap();
        let expected = EntityError::TooLarge { size: size + 2, limit: size };
        for outcome in merge(&patch(2)) {
            assert!(outcome.is_err_and(|error| is(&error, 0, &expected)));
        }
        assert_eq!(content(&t.get("p", "r").unwrap().unwrap()), content(&stored));
        assert!(merge(&patch(1)).iter().all(Result::is_ok));
    }
}

/// One batch is committed within the limits of whichever table it is given to, and names the first of its
/// operations that is beyond them or breaks a rule that no limits change.
#[test]
fn w_091_a_batch_keeps_the_limits_of_the_table_it_is_committed_to() {
    let batch = || {
        let mut batch = EntityBatch::new("p");
        batch
            .insert(&Entity::new("p", "0\0é").with("S", "x".repeat(60)))
            .insert_or_merge(&Entity::new("p", "1").with("S", "x".repeat(50)))
            .insert_or_merge(&Entity::new("p", "2").with("S", "x".repeat(40_000)))
            .insert(&Entity::new("p", "3").with("S", "x".repeat(40_000)))
            .insert(&Entity::new("p", "4").with("a-b", 1));
        batch
    };
    let long = |length, limit| EntityError::StringTooLong { name: "S".into(), length, limit };
    let invalid = EntityError::NameInvalid { name: "a-b".into(), column: 2, character: '-' };
    let text = |length| EntityLimits::default().string_length(length);
    for (limits, index, expected) in [
        (text(59), 0, long(60, 59)),
        (
            text(60).size(4 + 2 * (1 + 3) + 8 + 2 + 4 + 2 * 60),
            2,
            EntityError::TooLarge { size: 80_022, limit: 146 },
        ),
        (text(60), 2, long(40_000, 60)),
        (
            text(60).size(4 + 2 * (1 + 3) + 8 + 2 + 4 + 2 * 60 - 1),
            0,
            EntityError::TooLarge { size: 146, limit: 145 },
        ),
        (EntityLimits::default(), 2, long(40_000, 32 << 10)),
        (text(40_000), 4, invalid),
    ] {
        let db = TestDb::with(with(limits));
        let t = entities(&db);
        let error = t.commit(batch()).wait().unwrap_err();
        assert!(is(&error, index, &expected), "{limits:?}: {error:?}");
        assert_eq!(t.query().entities().count(), 0, "nothing of it was stored");
    }
}

/// Limits are of writes: what was stored within others is read, filtered and deleted, and a merge is held
/// against those in force.
#[test]
fn w_091_what_was_stored_within_other_limits_is_read_within_any() {
    for depth in Depth::ALL {
        let mut db = TestDb::with(with(raised()));
        let stored: Vec<Entity> = edges(&raised())
            .into_iter()
            .zip(0..)
            .map(|((within, ..), n)| {
                let properties = within.properties().map(|(k, v)| (k.to_owned(), v.clone()));
                Entity::from_properties("p", format!("{n}"), properties.collect())
            })
            .collect();
        entities(&db).import(stored.clone()).unwrap();
        depth.settle(&db);
        db.reopen_with(with(lowered()));
        let t = entities(&db);
        for entity in &stored {
            let read = t.get("p", entity.row_key()).unwrap().unwrap();
            assert_eq!(content(&read), content(entity));
        }
        assert_eq!(t.query().entities().map(Result::unwrap).count(), stored.len());
        assert_eq!(found(&t, "P254 eq true"), ["p/0"]);
        assert_eq!(found(&t, &format!("{} eq 1", "n".repeat(300))), ["p/1"]);
        assert_eq!(found(&t, &format!("S eq '{}'", "é".repeat(40_000))), ["p/2"]);
        let names = stored[0].properties().map(|(name, _)| name.to_owned());
        let page = t.query().select(names).page().unwrap();
        assert_eq!(page.iter().map(|row| row.len()).max(), Some(255));
        merges_into_what_is_beyond(&t, &stored);
        t.delete("p", "0", Precondition::Exists).wait().unwrap();
        assert!(!t.exists("p", "0").unwrap());
    }
}

fn merges_into_what_is_beyond(t: &EntityTable, stored: &[Entity]) {
    let merge = |row: &str, name: &str| {
        let patch = Entity::new("p", row).with(name, false);
        t.merge(&patch, Precondition::Exists).wait()
    };
    let many = EntityError::TooManyProperties { found: 255, limit: 3 };
    assert!(is(&merge("0", "P000").unwrap_err(), 0, &many), "it had one of that name");
    let many = EntityError::TooManyProperties { found: 256, limit: 3 };
    assert!(is(&merge("0", "A").unwrap_err(), 0, &many), "one more");
    let large = EntityError::TooLarge { size: stored[2].size() + 8 + 2 + 1, limit: 90 };
    assert!(is(&merge("2", "A").unwrap_err(), 0, &large));
    let text = Entity::new("p", "2").with("S", "short");
    t.merge(&text, Precondition::Exists).wait().unwrap();
    assert_eq!(content(&t.get("p", "2").unwrap().unwrap()), content(&text));
}

/// A merge keeps what it leaves as it is, also a String that would be too long by now.
#[test]
fn w_091_a_merge_keeps_what_is_longer_than_may_be_written_now() {
    let mut db = TestDb::with(with(raised()));
    let old = entity().with("S", "x".repeat(40_000)).with("n".repeat(300), vec![7; 100_000]);
    entities(&db).insert(&old).wait().unwrap();
    db.reopen_with(options());
    let t = entities(&db);
    t.merge(&entity().with("A", 1), Precondition::Exists).wait().unwrap();
    let merged = t.get("p", "r").unwrap().unwrap();
    assert_eq!(content(&merged), content(&old.clone().with("A", 1)));
    let error = t.replace(&old, Precondition::Exists).wait().unwrap_err();
    let expected = EntityError::StringTooLong { name: "S".into(), length: 40_000, limit: 32 << 10 };
    assert!(is(&error, 0, &expected), "{error:?}");
}

type Set = fn(EntityLimits, usize) -> EntityLimits;

/// What a limit may be is limited; the largest entities are stored and read as any.
#[test]
fn w_091_limits_have_limits() {
    let limits = EntityLimits::default;
    let setters: [(Set, usize); 5] = [
        (EntityLimits::properties, 255),
        (EntityLimits::name_length, 64 << 10),
        (EntityLimits::string_length, 64 << 20),
        (EntityLimits::binary_length, 64 << 20),
        (EntityLimits::size, 64 << 20),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (set, largest) in setters {
        for (limit, allowed) in [(0, false), (1, true), (largest, true), (largest + 1, false)] {
            match Database::open(dir.path(), with(set(limits(), limit))) {
                Ok(database) => {
                    assert!(allowed);
                    database.close().unwrap();
                }
                Err(Error::InvalidArgument(rule)) => {
                    assert!(!allowed && rule.starts_with("entity_limits: "), "{rule}");
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    let largest = limits().properties(255).name_length(64 << 10).size(64 << 20);
    let db = TestDb::with(with(largest).value_bytes(64 << 20).batch_bytes(64 << 20));
    let wide = (0..255).fold(entity(), |e, n| e.with(format!("{n:_>5}{}", "é".repeat(30_000)), n));
    entities(&db).insert(&wide).wait().unwrap();
    assert_eq!(content(&entities(&db).get("p", "r").unwrap().unwrap()), content(&wide));
}
