//! Models of the memtable for loom: every interleaving of a few inserts and reads.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --lib --release loom_`.

use loom::sync::Arc;
use loom::thread;

use super::list::List;
use super::node::NewRecord;
use crate::entry::Kind;
use crate::version::Version;

fn new_record(version: u64, value: &[u8]) -> NewRecord<'_> {
    NewRecord { version: Version::from_ticks(version), kind: Kind::Put, value }
}

fn values(list: &List) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut node = list.first();
    while let Some(here) = node {
        found.push((here.key().to_vec(), here.newest().value().to_vec()));
        node = list.next(here);
    }
    found
}

fn explore(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn loom_two_inserts_at_one_place_are_both_linked() {
    explore(|| {
        let list = Arc::new(List::new());
        let other = Arc::clone(&list);
        let writer = thread::spawn(move || other.insert(b"b", new_record(1, b"1")));
        list.insert(b"a", new_record(2, b"2"));
        writer.join().unwrap();
        let expected = [(b"a".to_vec(), b"2".to_vec()), (b"b".to_vec(), b"1".to_vec())];
        assert_eq!(values(&list), expected);
    });
}

#[test]
fn loom_a_reader_sees_whole_nodes_in_order() {
    explore(|| {
        let list = Arc::new(List::new());
        list.insert(b"b", new_record(1, b"1"));
        let other = Arc::clone(&list);
        let writer = thread::spawn(move || {
            other.insert(b"a", new_record(2, b"2"));
            other.insert(b"b", new_record(3, b"3"));
        });
        let seen = values(&list);
        let (b, before) = seen.split_last().unwrap();
        assert!(b.0 == b"b" && (b.1 == b"1" || b.1 == b"3"));
        assert!(before.is_empty() || before == [(b"a".to_vec(), b"2".to_vec())]);
        if b.1 == b"3" {
            assert!(list.get(b"a").is_some());
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_two_pushes_on_one_node_are_both_in_the_chain() {
    explore(|| {
        let list = Arc::new(List::new());
        let other = Arc::clone(&list);
        let writer = thread::spawn(move || other.insert(b"a", new_record(1, b"1")));
        list.insert(b"a", new_record(2, b"2"));
        writer.join().unwrap();
        let node = list.get(b"a").unwrap();
        assert!(list.next(node).is_none());
        let newest = node.newest();
        let older = newest.older().unwrap();
        let mut versions = [newest.version().ticks(), older.version().ticks()];
        versions.sort_unstable();
        assert_eq!(versions, [1, 2]);
    });
}
