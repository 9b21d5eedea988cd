//! R-E07, R-E08: a batch is done whole or not at all, and says what kept it from being done.

use tablestone::{Batch, Entity, EntityBatch, Error, Limit, Precondition, Version};

use crate::support::fixture::{keys, value};
use crate::support::{Depth, TestDb, all_rows};

#[test]
fn r_e07_a_batch_mixes_kinds_and_gives_all_entities_its_version() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        for row in ["replaced", "merged", "deleted", "kept"] {
            t.insert("p", row, "old").wait().unwrap();
        }
        let known = t.get("p", "replaced").unwrap().unwrap().version;
        depth.settle(&db);
        let mut batch = Batch::new("p");
        batch
            .insert("inserted", "1")
            .put("replaced", Precondition::Version(known), "2")
            .merge("merged", Precondition::Exists, |old| Ok([old.unwrap(), b"+3"].concat()))
            .delete("deleted", Precondition::Exists)
            .upsert("upserted", "5")
            .delete("never was", Precondition::None);
        assert_eq!(batch.len(), 6);
        let version = t.commit(batch).wait().unwrap();
        depth.settle(&db);
        let rows: Vec<_> = all_rows(&t).into_iter().map(|(_, rk, value)| (rk, value)).collect();
        let expected = [
            ("inserted", "1"),
            ("kept", "old"),
            ("merged", "old+3"),
            ("replaced", "2"),
            ("upserted", "5"),
        ];
        assert_eq!(rows, expected.map(|(rk, v)| (rk.into(), v.into())), "{depth:?}");
        for row in ["inserted", "replaced", "merged", "upserted"] {
            assert_eq!(t.get("p", row).unwrap().unwrap().version, version);
        }
        assert!(t.get("p", "kept").unwrap().unwrap().version < version);
    }
}

/// As all keys are given.
#[test]
fn r_e07_a_batch_takes_its_partition_key_borrowed_too() {
    let db = TestDb::new();
    let t = db.t();
    let (text, bytes) = (String::from("p"), b"p".to_vec());
    let batches = [Batch::new(&text), Batch::new(&bytes), Batch::new(bytes.clone())];
    for (row, mut batch) in (0..3u8).zip(batches) {
        batch.insert([b'a' + row], "");
        t.commit(batch).wait().unwrap();
    }
    assert_eq!(keys(&t.query().page().unwrap()), ["p/a", "p/b", "p/c"]);
}

/// The first operation that fails is named, whether for what is stored or by itself.
#[test]
fn r_e07_conditions_come_before_a_later_operation_that_cannot_be() {
    let db = TestDb::new();
    let t = db.t();
    t.insert("p", "there", "").wait().unwrap();
    let large = vec![0; 3 << 20];
    let commit = |build: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new("p");
        build(&mut batch);
        t.commit(batch).wait()
    };
    let failed = commit(&|b| {
        b.upsert("a", "").insert("there", "").upsert("b", &large);
    });
    assert!(matches!(failed, Err(Error::EntityExists { index: 1, .. })), "{failed:?}");
    let failed = commit(&|b| {
        b.insert("a", "").upsert("b", &large).insert("there", "");
    });
    assert!(matches!(failed, Err(Error::LimitExceeded { index: Some(1), .. })), "{failed:?}");
    let failed = commit(&|b| {
        b.delete("no", Precondition::Exists).upsert("a", "").upsert("a", "");
    });
    assert!(matches!(failed, Err(Error::EntityNotFound { index: 0 })), "{failed:?}");
    let failed = commit(&|b| {
        b.insert("a", "").upsert("a", "").upsert("b", &large);
    });
    assert!(matches!(failed, Err(Error::DuplicateRowKey { index: 1, first: 0 })), "{failed:?}");
    let failed = commit(&|b| {
        b.merge("there", Precondition::Exists, |_| Err("refused".into())).upsert("b", &large);
    });
    assert!(matches!(failed, Err(Error::MergeRefused { index: 0, .. })), "{failed:?}");

    // So with entities.
    let entities = t.entities();
    let bad = Entity::new("p", "b").with("not a name", 1);
    let mut batch = EntityBatch::new("p");
    batch.insert(&Entity::new("p", "a")).insert(&Entity::new("p", "there")).insert(&bad);
    let failed = entities.commit(batch).wait();
    assert!(matches!(failed, Err(Error::EntityExists { index: 1, .. })), "{failed:?}");
    let mut batch = EntityBatch::new("p");
    batch.insert(&Entity::new("p", "a")).insert(&bad).insert(&Entity::new("p", "there"));
    let failed = entities.commit(batch).wait();
    assert!(matches!(failed, Err(Error::Entity { index: 1, .. })), "{failed:?}");
    assert_eq!(keys(&t.query().page().unwrap()), ["p/there"]);
}

#[test]
fn r_e07_a_failed_batch_changes_nothing_and_names_the_lowest_index() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        let version = t.insert("p", "there", "old").wait().unwrap();
        depth.settle(&db);
        let before = all_rows(&t);
        let mut batch = Batch::new("p");
        batch
            .upsert("new", "x")
            .delete("there", Precondition::Exists)
            .insert("also new", "x")
            .put("missing", Precondition::Exists, "x")
            .put("missing too", Precondition::Version(version), "x");
        let error = t.commit(batch).wait().unwrap_err();
        assert!(matches!(error, Error::EntityNotFound { index: 3 }), "{error}");
        assert_eq!(all_rows(&t), before);

        let mut batch = Batch::new("p");
        batch
            .upsert("a", "x")
            .put("there", Precondition::Version(Version::ZERO), "x")
            .insert("b", "");
        let error = t.commit(batch).wait().unwrap_err();
        assert!(
            matches!(error, Error::VersionMismatch { index: 1, found, .. } if found == version)
        );

        let mut batch = Batch::new("p");
        batch.upsert("a", "x").upsert("b", "x").insert("there", "x");
        let error = t.commit(batch).wait().unwrap_err();
        assert!(matches!(error, Error::EntityExists { index: 2, version: v } if v == version));

        let mut batch = Batch::new("p");
        batch.upsert("a", "x").merge("there", Precondition::None, |_| Err("no".into()));
        let error = t.commit(batch).wait().unwrap_err();
        assert!(matches!(error, Error::MergeRefused { index: 1, .. }));
        assert_eq!(all_rows(&t), before);
        assert_eq!(t.get("p", "there").unwrap().unwrap().version, version);
    }
}

/// Of many operations what is stored is looked up together, newest files last: the order of the operations decides all the
/// same, whichever of them is found first.
#[test]
fn r_e07_of_many_operations_that_fail_the_first_is_named_with_what_it_found() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        let row = |n: u32| format!("{:02}", n * 37 % 100);
        let seed = |rows: std::ops::Range<u32>| {
            for n in rows {
                t.upsert("p", row(n), "old").wait().unwrap();
            }
        };
        seed(0..50);
        t.delete("p", row(49), Precondition::Exists).wait().unwrap();
        depth.settle(&db);
        seed(25..49);
        let before = all_rows(&t);
        let version = |n| t.get("p", row(n)).unwrap().unwrap().version;
        let batch = |failing: &[(u32, Precondition)]| {
            let mut batch = Batch::new("p");
            for n in 0..100 {
                let holds =
                    if n < 49 { Precondition::Version(version(n)) } else { Precondition::Absent };
                let condition = failing.iter().find(|(at, _)| *at == n).map_or(holds, |(_, c)| *c);
                match n % 3 {
                    0 => batch.put(row(n), condition, "new"),
                    1 => batch.delete(row(n), if n < 49 { condition } else { Precondition::None }),
                    _ => batch.merge(row(n), condition, |old| {
                        Ok([old.unwrap_or_default(), b"+"].concat())
                    }),
                };
            }
            batch
        };
        let (old, new) = (version(3), version(27));
        let error = |failing: &[_]| t.commit(batch(failing)).wait().unwrap_err();
        let absent = |n| (n, Precondition::Absent);
        let exists = |n| (n, Precondition::Exists);
        let found = error(&[absent(27), absent(3), exists(60)]);
        assert!(
            matches!(found, Error::EntityExists { index: 3, version } if version == old),
            "{found}"
        );
        let found = error(&[absent(27), exists(60), exists(51)]);
        assert!(
            matches!(found, Error::EntityExists { index: 27, version } if version == new),
            "{found}"
        );
        let found = error(&[exists(60), exists(51)]);
        assert!(matches!(found, Error::EntityNotFound { index: 51 }), "{found}");
        let found = error(&[(27, Precondition::Version(old)), exists(60)]);
        assert!(
            matches!(found, Error::VersionMismatch { index: 27, expected, found } if (expected, found) == (old, new)),
            "{found}"
        );
        assert_eq!(all_rows(&t), before);

        t.commit(batch(&[])).wait().unwrap();
        let value_of = |n: u32| -> Option<&[u8]> {
            match (n % 3, n < 49) {
                (0, _) => Some(b"new"),
                (1, _) => None,
                (_, true) => Some(b"old+"),
                (_, false) => Some(b"+"),
            }
        };
        for n in 0..100 {
            let stored = t.get("p", row(n)).unwrap().map(|row| row.value);
            assert_eq!(stored.as_deref(), value_of(n), "{n}, {depth:?}");
        }
    }
}

#[test]
fn r_e07_a_row_key_may_come_once() {
    let db = TestDb::new();
    let t = db.t();
    let mut batch = Batch::new("p");
    batch.upsert("a", "1").upsert("b", "1").delete("a", Precondition::None);
    let error = t.commit(batch).wait().unwrap_err();
    assert!(matches!(error, Error::DuplicateRowKey { index: 2, first: 0 }), "{error}");
    assert!(all_rows(&t).is_empty());
}

#[test]
fn r_e07_a_hundred_operations_are_accepted_and_one_more_refused_whole() {
    let db = TestDb::new();
    let t = db.t();
    let batch = |pk: &str, operations: u8| {
        let mut batch = Batch::new(pk);
        for n in 0..operations {
            batch.insert([n], [n]);
        }
        batch
    };
    t.commit(batch("p", 100)).wait().unwrap();
    assert_eq!(t.query().partition("p").page().unwrap().len(), 100);
    let error = t.commit(batch("q", 101)).wait().unwrap_err();
    assert!(matches!(
        error,
        Error::LimitExceeded { what: Limit::BatchOperations, size: 101, limit: 100, index: None }
    ));
    assert!(t.query().partition("q").page().unwrap().is_empty());
}

#[test]
fn r_e07_four_mebibytes_are_accepted_and_a_byte_more_refused_whole() {
    let db = TestDb::new();
    let t = db.t();
    // Each operation counts its PartitionKey, RowKey and value.
    let batch = |pk: &str, last: usize| {
        let mut batch = Batch::new(pk);
        for n in 0..4u8 {
            batch.insert([n], vec![n; (1 << 20) - 2]);
        }
        if last > 0 {
            batch.insert([9u8], vec![9; last - 1]);
        }
        batch
    };
    t.commit(batch("p", 0)).wait().unwrap();
    for n in 0..4u8 {
        assert_eq!(value(t.get("p", [n]).unwrap()), vec![n; (1 << 20) - 2]);
    }
    let error = t.commit(batch("q", 1)).wait().unwrap_err();
    assert!(
        matches!(error, Error::LimitExceeded { what: Limit::BatchBytes, limit, size, index: None }
            if limit == 4 << 20 && size > limit),
        "{error}"
    );
    assert!(t.query().partition("q").page().unwrap().is_empty());
}

#[test]
fn r_e07_an_empty_batch_changes_nothing() {
    let db = TestDb::new();
    let t = db.t();
    assert!(Batch::new("p").is_empty());
    t.commit(Batch::new("p")).wait().unwrap();
    assert!(all_rows(&t).is_empty());
}

#[test]
fn r_e07_operations_see_the_state_before_the_batch() {
    let db = TestDb::new();
    let t = db.t();
    t.insert("p", "a", "1").wait().unwrap();
    let mut batch = Batch::new("p");
    batch.delete("a", Precondition::Exists).insert("b", "2");
    t.commit(batch).wait().unwrap();
    // The state before had b, and no a: both conditions of the way back hold.
    let mut batch = Batch::new("p");
    batch.insert("a", "3").delete("b", Precondition::Exists);
    t.commit(batch).wait().unwrap();
    assert_eq!(all_rows(&t), [(b"p".to_vec(), b"a".to_vec(), b"3".to_vec())]);
}

/// A merge runs under the latch of its partition, which a write might wait for: it hears so, and waits for
/// nothing. It may read, and write to another database.
#[test]
fn r_e24_a_merge_that_writes_to_its_own_database_is_told_so() {
    let (db, other) = (TestDb::new(), TestDb::new());
    let (t, elsewhere) = (db.t(), other.t());
    t.insert("p", "r", "old").wait().unwrap();
    let same = t.clone();
    let merge = move |_: Option<&[u8]>| {
        for partition in ["p", "q"] {
            let error = same.upsert(partition, "audit", "").wait().unwrap_err();
            assert!(matches!(&error, Error::InvalidArgument(_)), "{error}");
        }
        assert!(same.import([("p", "r", "")]).is_err());
        assert!(same.delete_partition("p").wait().is_err());
        elsewhere.upsert("p", "audit", "").wait()?;
        Ok(same.get("p", "r")?.unwrap().value)
    };
    t.merge("p", "r", Precondition::Exists, merge).wait().unwrap();
    assert_eq!(all_rows(&t).len(), 1);
    assert_eq!(all_rows(&other.t()).len(), 1);
    // Also after one that panics.
    let panics = || drop(t.merge("p", "r", Precondition::None, |_| panic!("a merge panics")));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
    t.upsert("p", "r", "new").wait().unwrap();
}

#[test]
fn r_e08_a_batch_survives_reopening_whole() {
    let mut db = TestDb::new();
    for round in 0..3u8 {
        let t = db.t();
        let mut batch = Batch::new([round]);
        for n in 0..100u8 {
            batch.insert([n], vec![n; 50]);
        }
        t.commit(batch).wait().unwrap();
        drop(t);
        db.reopen();
        for earlier in 0..=round {
            assert_eq!(db.t().query().partition([earlier]).page().unwrap().len(), 100);
        }
    }
}
