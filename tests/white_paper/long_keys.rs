//! U-05: keys of 1 kB (§2, §4.9), longer than an address may be.

use tablestone::{Entity, EntityBatch, Error, Limit, Plan, Precondition};

use crate::support::{Depth, TestDb};
use crate::world::{filter, get, row_keys, table};

/// A kilobyte of text in which only the last character tells.
fn long(letter: char, last: u8) -> String {
    let letters = 1_024 / if letter.is_ascii() { 1 } else { 2 };
    let mut key: String = std::iter::repeat_n(letter, letters - 1).collect();
    key.push(char::from(b'a' + last));
    key
}

/// U-05: insert, get, update and delete in a batch, and by filter on both keys (W-114). 512 letters
/// are a kilobyte in UTF-16; in UTF-8 it is one, or one and a half.
#[test]
fn u_05_keys_of_a_kilobyte_work_in_batches_and_in_filters() {
    for depth in Depth::ALL {
        for letter in ['x', 'ж', '表'] {
            let db = TestDb::new();
            let table = table(&db, "Long");
            let partitions: Vec<_> = (0..3).map(|n| long(letter, n)).collect();
            let rows: Vec<_> = (0..20).map(|n| long(letter, n)).collect();
            for partition in &partitions {
                let mut batch = EntityBatch::new(partition);
                for (n, row) in rows.iter().enumerate() {
                    batch.insert(&Entity::new(partition, row).with("N", n as i32));
                }
                table.commit(batch).wait().unwrap();
            }
            depth.settle(&db);
            let (partition, row) = (&partitions[1], &rows[7]);
            assert_eq!(get(&table, partition, row).get_as("N"), Some(7));

            let mut batch = EntityBatch::new(partition);
            batch
                .merge(&Entity::new(partition, row).with("M", true), Precondition::Exists)
                .delete(&rows[8], Precondition::Exists);
            table.commit(batch).wait().unwrap();
            depth.settle(&db);

            let both = format!("PartitionKey eq '{partition}' and RowKey eq '{row}'");
            let query = table.query().filter(filter(&both));
            assert_eq!(query.explain().plan(), Plan::PointRead);
            let page = query.page().unwrap();
            assert_eq!(row_keys(&page), [row.as_str()], "{depth:?}");
            let found = page.iter().next().unwrap();
            assert_eq!(found.get_as("N"), Ok(Some(7)));
            assert_eq!(found.get_as("M"), Ok(Some(true)));

            let mut left = rows.clone();
            left.remove(8);
            let page = table.query().partition(partition).page().unwrap();
            assert_eq!(row_keys(&page), left, "{depth:?} {letter}");
            for other in [&partitions[0], &partitions[2]] {
                assert_eq!(get(&table, other, &rows[8]).get_as("N"), Some(8), "{depth:?}");
            }
        }
    }
}

/// The engine holds keys of 2 KiB, so that a server may refuse by its own count (W-008).
#[test]
fn u_05_keys_longer_than_the_engine_holds_are_refused() {
    let db = TestDb::new();
    let table = table(&db, "Long");
    let (fits, over) = ("k".repeat(2_048), "k".repeat(2_049));
    table.insert(&Entity::new(&fits, &fits)).wait().unwrap();
    for (entity, limit) in [
        (Entity::new(&over, "row"), Limit::PartitionKey),
        (Entity::new("partition", &over), Limit::RowKey),
    ] {
        let refused = table.insert(&entity).wait();
        let Err(Error::LimitExceeded { what, size: 2_049, limit: 2_048, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(what, limit);
    }
}
