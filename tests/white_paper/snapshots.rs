//! U-20: a scan of a partition sees one state of it, and stops no writer (§3.1.2, §7.1).

use std::thread;

use tablestone::{Entity, EntityBatch, EntityTable, Error, Precondition};

use crate::support::wait::Ended;
use crate::support::{Depth, TestDb};
use crate::world::{collect, get, page, table};

const ACCOUNTS: usize = 50;
const TOTAL: i64 = ACCOUNTS as i64 * 100;

fn account(n: usize, balance: i64) -> Entity {
    Entity::new("Bank", format!("{n:03}")).with("Balance", balance)
}

fn bank(db: &TestDb) -> EntityTable {
    let bank = table(db, "Accounts");
    let mut batch = EntityBatch::new("Bank");
    for n in 0..ACCOUNTS {
        batch.insert(&account(n, 100));
    }
    bank.commit(batch).wait().unwrap();
    bank
}

/// A group transaction that leaves the sum as it was. Says whether somebody was faster.
fn transfer(bank: &EntityTable, from: usize, to: usize) -> bool {
    let read = |n: usize| {
        let entity = get(bank, "Bank", &format!("{n:03}"));
        let balance: i64 = entity.get_as("Balance").unwrap();
        (balance, Precondition::Version(entity.version().unwrap()))
    };
    let ((less, from_version), (more, to_version)) = (read(from), read(to));
    let mut batch = EntityBatch::new("Bank");
    batch.put(&account(from, less - 1), from_version).merge(&account(to, more + 1), to_version);
    match bank.commit(batch).wait() {
        Ok(_) => true,
        Err(Error::VersionMismatch { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn sum(entities: impl IntoIterator<Item = i64>) -> (usize, i64) {
    entities.into_iter().fold((0, 0), |(count, sum), balance| (count + 1, sum + balance))
}

/// W-251, W-252: whatever writers do meanwhile, one request sees a state between transactions.
#[test]
fn u_20_scans_beside_transfers_see_the_same_sum_always() {
    let db = TestDb::new();
    let bank = bank(&db);
    let is_over = Ended::default();
    let scan = || {
        while !is_over.get() {
            let page = page(&bank, "PartitionKey eq 'Bank'");
            let balances = page.iter().map(|e| e.get_as::<i64>("Balance").unwrap().unwrap());
            assert_eq!(sum(balances), (ACCOUNTS, TOTAL));
        }
    };
    let write = |seed: usize| {
        let mut done = 0;
        for n in 0.. {
            let from = (n * 7 + seed) % ACCOUNTS;
            let to = (from + 1 + n % (ACCOUNTS - 1)) % ACCOUNTS;
            done += usize::from(transfer(&bank, from, to));
            if done == 400 {
                return;
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(scan);
        scope.spawn(scan);
        let _over = is_over.when_dropped();
        let writers = [scope.spawn(|| write(0)), scope.spawn(|| write(25))];
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

/// W-253: in the middle of a scan, writes to its partition are done and acknowledged; the scan goes
/// on with what was there when it began.
#[test]
fn u_20_writes_are_acknowledged_in_the_middle_of_a_scan_which_does_not_see_them() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let bank = bank(&db);
        depth.settle(&db);
        let writer = bank.clone();
        let mut seen = 0;
        let scan = bank.as_bytes().query().partition("Bank").filter(move |row| {
            seen += 1;
            if seen == ACCOUNTS / 2 {
                // What was passed, what is ahead, and more.
                assert!(transfer(&writer, 0, ACCOUNTS - 1));
                writer.insert(&account(ACCOUNTS, 1_000)).wait().unwrap();
                writer.delete("Bank", "040", Precondition::Exists).wait().unwrap();
                assert_eq!(row.row_key, b"024");
            }
            true
        });
        let scanned = scan.page().unwrap();
        assert_eq!(scanned.len(), ACCOUNTS, "{depth:?}");
        let newest = scanned.iter().map(|row| row.version).max().unwrap();
        assert!(newest <= scanned.version());
        assert!(scanned.iter().all(|row| row.row_key != b"050"));
        assert!(scanned.iter().any(|row| row.row_key == b"040"));

        let now = collect(bank.query());
        let balances = now.iter().map(|entity| entity.get_as::<i64>("Balance").unwrap());
        assert_eq!(sum(balances), (ACCOUNTS, TOTAL + 1_000 - 100), "{depth:?}");
    }
}

/// W-253: a reader that takes its time, with a snapshot over all its pages, keeps no writer waiting
/// and sees no write, through flushes and compactions.
#[test]
fn u_20_a_slow_reader_of_a_snapshot_sees_one_sum_while_writers_go_on() {
    let db = TestDb::new();
    let bank = bank(&db);
    let snapshot = db.snapshot();
    let then = bank.at(&snapshot).unwrap();
    let mut balances = Vec::new();
    for (n, page) in then.query().partition("Bank").limit(5).pages().enumerate() {
        let page = page.unwrap();
        balances.extend(page.iter().map(|e| e.get_as::<i64>("Balance").unwrap().unwrap()));
        for k in 0..100 {
            assert!(transfer(&bank, (n + k) % ACCOUNTS, (n + k + 1 + k % 40) % ACCOUNTS));
        }
        Depth::ALL[n % 3].settle(&db);
    }
    assert_eq!(balances, [100; ACCOUNTS]);
    let now = collect(bank.query());
    let balances: Vec<i64> = now.iter().map(|e| e.get_as("Balance").unwrap()).collect();
    assert_eq!(sum(balances.iter().copied()), (ACCOUNTS, TOTAL));
    assert!(balances.iter().any(|balance| *balance != 100));
}
