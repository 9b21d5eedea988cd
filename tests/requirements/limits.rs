//! R-E06, R-E02, R-E07: what is over a limit is refused, by name and size, and nothing is changed;
//! and what the memory budget is by default.

use std::sync::Arc;

use tablestone::env::SimEnv;
use tablestone::{Batch, Compression, Database, Durability, Error, Limit, Options, Precondition};

use crate::support::{TestDb, all_rows, options};

fn exceeds<T: std::fmt::Debug>(result: Result<T, Error>, wanted: Limit, size: u64, limit: u64) {
    match result {
        Err(Error::LimitExceeded { what, size: s, limit: l, .. }) => {
            assert_eq!((what, s, l), (wanted, size, limit));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn r_e06_keys_over_their_limit_are_refused_by_every_write() {
    let db = TestDb::new();
    let t = db.t();
    let long = "k".repeat(2049);
    exceeds(t.insert(&long, "r", "").wait(), Limit::PartitionKey, 2049, 2048);
    exceeds(t.insert("p", &long, "").wait(), Limit::RowKey, 2049, 2048);
    exceeds(t.upsert("p", &long, "").wait(), Limit::RowKey, 2049, 2048);
    exceeds(t.delete("p", &long, Precondition::None).wait(), Limit::RowKey, 2049, 2048);
    exceeds(t.delete_partition(&long).wait(), Limit::PartitionKey, 2049, 2048);
    exceeds(t.import([(&*long, "r", "")]), Limit::PartitionKey, 2049, 2048);
    exceeds(t.import([("p", &*long, "")]), Limit::RowKey, 2049, 2048);
    let mut batch = Batch::new("p");
    batch.insert("fine", "").insert(long.as_str(), "");
    exceeds(t.commit(batch).wait(), Limit::RowKey, 2049, 2048);
    assert!(all_rows(&t).is_empty());
    // Reading such a key finds nothing.
    assert_eq!(t.get("p", &long).unwrap(), None);
    assert!(t.query().partition(&long).page().unwrap().is_empty());
}

#[test]
fn r_e06_values_over_their_limit_are_refused() {
    let db = TestDb::new();
    let t = db.t();
    let (limit, over) = (2 << 20, vec![0; (2 << 20) + 1]);
    exceeds(t.insert("p", "r", over.clone()).wait(), Limit::Value, limit + 1, limit);
    exceeds(t.import([("p", "r", over.clone())]), Limit::Value, limit + 1, limit);
    let merged = t.merge("p", "r", Precondition::None, move |_| Ok(over)).wait();
    exceeds(merged, Limit::Value, limit + 1, limit);
    assert!(all_rows(&t).is_empty());
    t.insert("p", "r", vec![0; 2 << 20]).wait().unwrap();
}

/// R-E07: the lowest operation that is over a limit is named; of what is imported or loaded, the row.
#[test]
fn r_e07_the_operation_that_is_over_a_limit_is_named() {
    let db = TestDb::new();
    let t = db.t();
    let (long, large) = ("k".repeat(2049), vec![0; (2 << 20) + 1]);
    let named = |error: Error| {
        let Error::LimitExceeded { index, .. } = &error else { panic!("{error:?}") };
        let text = error.to_string();
        index
            .iter()
            .for_each(|at| assert!(text.starts_with(&format!("operation {at}: ")), "{text}"));
        *index
    };
    let batch = |third: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new("p");
        batch.insert("a", "").insert("b", "");
        third(&mut batch);
        batch.insert(long.as_str(), "");
        named(t.commit(batch).wait().unwrap_err())
    };
    assert_eq!(
        batch(&|batch| {
            batch.insert("c", &large);
        }),
        Some(2)
    );
    assert_eq!(
        batch(&|batch| {
            batch.insert("c", "");
        }),
        Some(3)
    );
    let mut merges = Batch::new("p");
    let grown = large.clone();
    merges.insert("a", "").merge("b", Precondition::None, move |_| Ok(grown));
    assert_eq!(named(t.commit(merges).wait().unwrap_err()), Some(1));
    let rows = [("p", "a", ""), ("p", &*long, "")];
    assert_eq!(named(t.import(rows).unwrap_err()), Some(1));
    let mut loader = db.load_table("loaded").unwrap();
    loader.put("p", "a", "").unwrap();
    assert_eq!(named(loader.put("p", "b", &large).unwrap_err()), Some(1));
    assert_eq!(named(db.table(&long).unwrap_err()), None);
}

#[test]
fn r_e06_table_names_have_a_limit_and_are_not_empty() {
    let db = TestDb::new();
    let long = "n".repeat(513);
    exceeds(db.create_table(&long).wait(), Limit::TableName, 513, 512);
    exceeds(db.table(&long), Limit::TableName, 513, 512);
    exceeds(db.drop_table(&long).wait(), Limit::TableName, 513, 512);
    assert!(matches!(db.create_table("").wait(), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.table(""), Err(Error::InvalidArgument(_))));
    drop(db.create_table(&long[1..]).wait().unwrap());
    assert_eq!(db.tables(None, 10).unwrap().names, [&long[1..]]);
}

#[test]
fn r_e06_limits_are_options() {
    let small = options().key_bytes(4).value_bytes(10).batch_operations(2).batch_bytes(20);
    let db = TestDb::with(small);
    let t = db.t();
    t.insert("pppp", "rrrr", [0; 10]).wait().unwrap();
    exceeds(t.insert("ppppp", "r", "").wait(), Limit::PartitionKey, 5, 4);
    exceeds(t.insert("p", "rrrrr", "").wait(), Limit::RowKey, 5, 4);
    exceeds(t.insert("p", "r", [0; 11]).wait(), Limit::Value, 11, 10);
    let mut batch = Batch::new("p");
    batch.upsert("1", "").upsert("2", "").upsert("3", "");
    exceeds(t.commit(batch).wait(), Limit::BatchOperations, 3, 2);
    let mut batch = Batch::new("p");
    batch.upsert("1", [0; 10]).upsert("2", [0; 10]);
    exceeds(t.commit(batch).wait(), Limit::BatchBytes, 24, 20);
}

#[test]
fn r_e06_options_that_make_no_sense_are_refused() {
    let zero = std::time::Duration::ZERO;
    let bad: [fn(Options) -> Options; 9] = [
        |o| o.memory_budget(1000),
        |o| o.memory_budget(usize::MAX),
        |o| o.compression(Compression::Zstd(0)),
        |o| o.compression(Compression::Zstd(20)),
        |o| o.page_entities(0),
        |o| o.batch_operations(0),
        |o| o.key_bytes(0),
        |o| o.key_bytes(1 << 20),
        |o| o.value_bytes(1 << 30),
    ];
    let dir = tempfile::tempdir().unwrap();
    for set in bad {
        let opened = Database::open(dir.path(), set(options()));
        assert!(matches!(opened, Err(Error::InvalidArgument(_))), "{opened:?}");
    }
    let opened = Database::open(dir.path(), options().durability(Durability::Interval(zero)));
    assert!(matches!(opened, Err(Error::InvalidArgument(_))), "{opened:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn r_e07_merges_cannot_grow_a_batch_over_its_limit() {
    let db = TestDb::with(options().batch_bytes(1000));
    let t = db.t();
    let grown = |bytes: usize| move |_: Option<&[u8]>| Ok(vec![0; bytes]);
    let mut batch = Batch::new("p");
    batch.merge("a", Precondition::None, grown(500)).merge("b", Precondition::None, grown(497));
    exceeds(t.commit(batch).wait(), Limit::BatchBytes, 1001, 1000);
    assert!(all_rows(&t).is_empty());
    let mut batch = Batch::new("p");
    batch.merge("a", Precondition::None, grown(500)).merge("b", Precondition::None, grown(496));
    t.commit(batch).wait().unwrap();
    assert_eq!(all_rows(&t).len(), 2);
}

/// The limit of what is sent stays; what merges make of it may be more where the batch says so.
#[test]
fn r_e07_a_batch_may_let_its_merges_grow() {
    let db = TestDb::with(options().batch_bytes(1000));
    let t = db.t();
    let batch = |merged: usize, sent: usize| {
        let mut batch = Batch::new("p");
        batch.merged_bytes(merged).put("a", Precondition::None, vec![1; sent]);
        batch.merge("b", Precondition::None, |_| Ok(vec![2; 5000]));
        batch
    };
    exceeds(t.commit(batch(5103, 100)).wait(), Limit::BatchBytes, 5104, 5103);
    exceeds(t.commit(batch(9999, 999)).wait(), Limit::BatchBytes, 1003, 1000);
    assert!(all_rows(&t).is_empty());
    t.commit(batch(5104, 100)).wait().unwrap();
    assert_eq!(t.get("p", "b").unwrap().unwrap().value, [2; 5000]);
}

/// Of itself the memory budget is what a process can spare that has little: pages of files need memory, too. Whatever
/// is said, it is no more than there is.
#[test]
fn a_memory_budget_is_by_default_a_quarter_of_little_memory() {
    let budget = |memory: Option<u64>, options: Options| {
        let env = SimEnv::new(1);
        env.set_memory(memory);
        let db = Database::open("/db", options.env(Arc::new(env))).unwrap();
        db.stats().memory_budget
    };
    for (memory, expected) in [
        (None, 256 << 20),
        (Some(64 << 30), 256 << 20),
        (Some(1 << 30), 256 << 20),
        (Some(512 << 20), 128 << 20),
        (Some(16 << 20), 8 << 20),
        (Some(0), 8 << 20),
    ] {
        assert_eq!(budget(memory, Options::default()), expected, "{memory:?}");
    }
    let said = |bytes| Options::default().memory_budget(bytes);
    assert_eq!(budget(Some(512 << 20), said(300 << 20)), 300 << 20);
    assert_eq!(budget(Some(32 << 20), said(1 << 30)), 32 << 20);
    assert_eq!(budget(Some(0), said(64 << 10)), 64 << 10);
}
