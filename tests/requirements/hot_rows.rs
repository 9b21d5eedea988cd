//! R-E20: a row that is rewritten constantly does not make the database grow.

use tablestone::{Durability, Precondition};

use crate::support::fixture::value;
use crate::support::{TestDb, options};

#[test]
fn r_e20_a_hot_row_takes_no_more_space_than_a_few_of_its_versions() {
    let db = TestDb::new();
    let t = db.t();
    t.insert("p", "hot", 0u64.to_be_bytes()).wait().unwrap();
    let increment = |old: Option<&[u8]>| {
        let n = u64::from_be_bytes(old.unwrap()[..8].try_into().unwrap());
        Ok([&(n + 1).to_be_bytes()[..], &[7; 492]].concat())
    };
    for _ in 0..20_000 {
        t.merge("p", "hot", Precondition::Exists, increment).wait().unwrap();
    }
    assert_eq!(value(t.get("p", "hot").unwrap())[..8], 20_000u64.to_be_bytes());
    // Written were 10 MB. The log keeps what a memtable or two hold.
    let used = db.disk_bytes();
    assert!(used < 3 << 20, "{used} bytes in the directory");
    db.compact().unwrap();
    let stats = db.stats();
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    assert!(entries <= 3, "{entries} entries for one row and the catalog");
}

/// The versions of one key in the memtable hang together; reading and writing it stays cheap
/// however many they are, and so does reading its neighbours.
#[test]
fn r_e20_neighbours_of_a_hot_row_are_read_without_its_versions() {
    let db = TestDb::with(options().memory_budget(64 << 20).durability(Durability::Os));
    let t = db.t();
    for row in ["a", "c"] {
        t.insert("p", row, "").wait().unwrap();
    }
    for n in 0..20_000u32 {
        t.upsert("p", "b", n.to_be_bytes()).wait().unwrap();
    }
    let page = t.query().page().unwrap();
    assert_eq!(page.len(), 3);
    assert!(page.examined() <= 4, "{} examined for three rows", page.examined());
}
