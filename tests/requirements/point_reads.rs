//! R-E11: single-entity operations are linearizable; every read sees all acknowledged writes.

use std::sync::atomic::{AtomicU64, Ordering};

use tablestone::Precondition;

use crate::support::fixture::value;
use crate::support::wait::Ended;
use crate::support::{Depth, TestDb};

#[test]
fn r_e11_a_write_is_read_at_once_by_every_kind_of_read() {
    let db = TestDb::new();
    let t = db.t();
    for n in 0..2000u32 {
        let (pk, rk) = ([n as u8 % 5], (n % 300).to_be_bytes());
        let version = t.upsert(pk, rk, n.to_be_bytes()).wait().unwrap();
        let row = t.get(pk, rk).unwrap().unwrap();
        assert_eq!((row.version, &row.value[..]), (version, &n.to_be_bytes()[..]));
        if n % 50 == 0 {
            assert!(t.exists(pk, rk).unwrap());
            let many = t.get_many(pk, &[rk]).unwrap();
            assert_eq!(many[0].as_ref().unwrap().version, version);
            let page = t.query().partition(pk).rows(rk..=rk).page().unwrap();
            assert_eq!(page.iter().next().unwrap().version, version);
            let read = t.read(pk, rk, |version, value| (version, value.len())).unwrap();
            assert_eq!(read, Some((version, 4)));
        }
    }
}

#[test]
fn r_e11_absent_is_told_from_empty() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        t.insert("p", "empty", "").wait().unwrap();
        t.insert("p", "gone", "x").wait().unwrap();
        t.delete("p", "gone", Precondition::Exists).wait().unwrap();
        depth.settle(&db);
        assert_eq!(value(t.get("p", "empty").unwrap()), b"");
        assert!(t.exists("p", "empty").unwrap());
        assert_eq!(t.get("p", "gone").unwrap(), None);
        assert!(!t.exists("p", "never").unwrap());
        assert_eq!(t.get("q", "empty").unwrap(), None);
    }
}

/// What a reader has seen, no later reader misses: values of one entity only grow.
#[test]
fn r_e11_reads_of_one_entity_never_step_back() {
    let db = TestDb::new();
    let t = db.t();
    t.insert("p", "r", 0u64.to_be_bytes()).wait().unwrap();
    let (seen, written) = (AtomicU64::new(0), Ended::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _written = written.when_dropped();
            for n in 1..=3000u64 {
                t.upsert("p", "r", n.to_be_bytes()).wait().unwrap();
                seen.fetch_max(n, Ordering::SeqCst);
            }
        });
        for reader in 0..3 {
            let (t, seen, written) = (t.clone(), &seen, &written);
            scope.spawn(move || {
                loop {
                    let is_last = written.get();
                    let before = seen.load(Ordering::SeqCst);
                    let bytes = match reader {
                        0 => value(t.get("p", "r").unwrap()),
                        1 => t.query().page().unwrap().iter().next().unwrap().value.to_vec(),
                        _ => value(t.get_many("p", &["r"]).unwrap().remove(0)),
                    };
                    let now = u64::from_be_bytes(bytes.try_into().unwrap());
                    assert!(now >= before, "{now} after {before}");
                    seen.fetch_max(now, Ordering::SeqCst);
                    if is_last {
                        break assert_eq!(now, 3000);
                    }
                }
            });
        }
    });
}
