//! P-12, P-22: what does not fit into an entity, what just does, and bytes that only the client
//! understands.

use std::collections::HashMap;

use tablestone::{
    Entity, EntityBatch, EntityError, EntityTable, Error, Limit, Precondition, Value,
};

use crate::support::{Depth, TestDb, options};
use crate::{filter, get, page_row_keys, properties, table};

/// Bytes that no compression makes smaller.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn refusal(result: Result<tablestone::Version, Error>) -> EntityError {
    match result {
        Err(Error::Entity { index: 0, source }) => *source,
        other => panic!("{other:?}"),
    }
}

/// A photo is larger than an entity may be and lies elsewhere: the entity links it. Blob first and
/// link second, each as often as one likes: no link without its blob (by the steps of P-04).
#[test]
fn p_12_a_photo_is_linked_not_stored() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let photo = noise(1, 2 << 20);
    let direct = Entity::new("Sales", "000456").with("Photo", photo.as_slice());
    let expected = EntityError::TooLarge { size: direct.size(), limit: 1 << 20 };
    assert_eq!(refusal(employees.insert(&direct).wait()), expected);

    let mut blobs = HashMap::new();
    let link = "https://contoso.example/photos/000456";
    for _ in 0..2 {
        blobs.insert(link, photo.clone());
        let linked = Entity::new("Sales", "000456").with("Photo", link);
        employees.insert_or_merge(&linked).wait().unwrap();
    }
    // Two reads: the entity, and what it links.
    let employee = get(&employees, "Sales", "000456");
    assert_eq!(blobs.get(employee.get_as::<&str>("Photo").unwrap()), Some(&photo));
}

/// An entity of a size, by the service's formula, of incompressible bytes.
fn entity_of_size(row_key: &str, size: usize) -> Entity {
    let mut entity = Entity::new("Sales", row_key);
    while entity.size() < size {
        let name = format!("Part{:02}", entity.len());
        let overhead = entity.clone().with(&*name, b"").size() - entity.size();
        let rest = size - entity.size() - overhead;
        // What is left for the next one must have room for its own overhead.
        let length = if rest > 64 << 10 { rest.min(64 << 10) - 100 } else { rest };
        entity.set(name, noise(entity.len() as u64 + 1, length));
    }
    assert_eq!(entity.size(), size);
    entity
}

/// 1 MiB is stored whole and comes back from every depth; one byte more is refused.
#[test]
fn p_12_an_entity_of_a_mebibyte_is_stored_and_no_more() {
    let db = TestDb::with(options().memory_budget(8 << 20));
    let employees = table(&db, "Employee");
    let largest = entity_of_size("000001", 1 << 20);
    employees.insert(&largest).wait().unwrap();
    let over = entity_of_size("000002", (1 << 20) + 1);
    let expected = EntityError::TooLarge { size: (1 << 20) + 1, limit: 1 << 20 };
    assert_eq!(refusal(employees.insert(&over).wait()), expected);
    for depth in Depth::ALL {
        depth.settle(&db);
        let stored = get(&employees, "Sales", "000001");
        assert_eq!(properties(&stored), properties(&largest), "{depth:?}");
    }
    assert!(!employees.exists("Sales", "000002").unwrap());
}

/// A hundred entities of almost 4 MiB together are one transaction; a transaction over 4 MiB is
/// refused whole, although each of its entities would do.
#[test]
fn p_12_a_transaction_has_a_hundred_entities_and_four_mebibytes_at_most() {
    let db = TestDb::with(options().memory_budget(32 << 20));
    let employees = table(&db, "Employee");
    let batch = |entities: usize, size: usize| {
        let mut batch = EntityBatch::new("Sales");
        for id in 0..entities {
            batch.insert_or_replace(&entity_of_size(&format!("{id:06}"), size));
        }
        batch
    };
    let version = employees.commit(batch(100, 40 << 10)).wait().unwrap();
    let stored: Vec<_> = employees.query().entities().map(Result::unwrap).collect();
    assert_eq!(stored.len(), 100);
    assert!(stored.iter().all(|e| e.version() == Some(version) && e.size() == 40 << 10));

    let over = [(100, 43 << 10, Limit::BatchBytes), (101, 1 << 10, Limit::BatchOperations)];
    for (entities, size, limit) in over {
        match employees.commit(batch(entities, size)).wait() {
            Err(Error::LimitExceeded { what, .. }) => assert_eq!(what, limit),
            other => panic!("{entities} entities of {size}: {other:?}"),
        }
    }
    let kept = employees.query().entities().all(|e| e.unwrap().version() == Some(version));
    assert!(kept, "nothing of the refused batches was applied");
}

/// What a client that encrypts sends: the text as Binary, and what it needs to read it again as
/// properties like any other.
fn encrypted(row_key: &str, seed: u64, length: usize) -> Entity {
    let mut secret = noise(seed, length);
    secret.splice(0..0, [0x00, 0xFF, 0x00, 0x00, 0xFF, 0xFF]);
    Entity::new("Sales", row_key)
        .with("Salary", secret)
        .with("_ClientEncryptionMetadata1", r#"{"WrappedContentKey":{"KeyId":"key-1"}}"#)
        .with("_ClientEncryptionMetadata2", noise(seed + 1, 64))
}

fn check_encrypted(employees: &EntityTable, expected: &[Entity], context: &str) {
    for entity in expected {
        let stored = get(employees, entity.partition_key(), entity.row_key());
        assert_eq!(properties(&stored), properties(entity), "{context}");
    }
}

/// Encrypted rows come back byte for byte after insert and after replace; of a replaced one nothing
/// of the old key's bytes is left.
#[test]
fn p_22_encrypted_properties_come_back_byte_for_byte() {
    let mut db = TestDb::new();
    let employees = table(&db, "Employee");
    let mut rows: Vec<_> =
        (0..40).map(|n| encrypted(&format!("{n:06}"), n as u64, n * 37)).collect();
    for row in &rows {
        employees.insert(row).wait().unwrap();
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        check_encrypted(&employees, &rows, &format!("inserted, {depth:?}"));
    }
    for (n, row) in rows.iter_mut().enumerate() {
        *row = encrypted(row.row_key(), 1_000 + n as u64, 400 - n);
        employees.replace(row, Precondition::Exists).wait().unwrap();
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        check_encrypted(&employees, &rows, &format!("replaced, {depth:?}"));
    }
    drop(employees);
    db.reopen();
    check_encrypted(&table(&db, "Employee"), &rows, "reopened");
}

/// To the engine the bytes mean nothing: they are compared as bytes, and every byte counts.
#[test]
fn p_22_the_engine_sees_bytes_and_compares_bytes() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let values: [&[u8]; 5] = [b"", b"\x00", b"\x00\x00", b"\x00\xFF", b"\xFF"];
    for (n, value) in values.iter().enumerate() {
        employees
            .insert(&Entity::new("Sales", n.to_string()).with("Salary", *value))
            .wait()
            .unwrap();
    }
    for (n, value) in values.iter().enumerate() {
        let stored = get(&employees, "Sales", &n.to_string());
        assert_eq!(stored.get("Salary"), Some(&Value::from(*value)));
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let found = employees.query().filter(filter(&format!("Salary eq X'{hex}'")));
        assert_eq!(page_row_keys(&found.page().unwrap()), [n.to_string()]);
        let greater = employees.query().filter(filter(&format!("Salary gt binary'{hex}'")));
        assert_eq!(greater.page().unwrap().len(), values.len() - 1 - n);
    }
}
