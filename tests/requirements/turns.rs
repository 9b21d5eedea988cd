//! R-E24: writes that are held back have turns, in the order in which they came: whoever asks more often is not served
//! sooner, nor keeps others waiting longer, and nobody loses by asking again.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tablestone::env::SimEnv;
use tablestone::{Commit, Database, Table, Version};

use crate::support::sim::{DIR, sim_options};

/// A database with that many files in level 0, of which nothing is compacted. From eight on writes are held back, and
/// at twenty they stop.
fn with_level_0(env: &SimEnv, files: usize) -> (Database, Table) {
    let options = sim_options(env).memory_budget(16 << 20).background_threads(0);
    let db = Database::open(Path::new(DIR), options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for n in db.stats().levels[0].files as usize..files {
        t.upsert("p", n.to_be_bytes(), "").wait().unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.stats().levels[0].files as usize, files);
    (db, t)
}

/// At 18 files its turn is some 13 ms off, and at 19 some 105 ms.
fn begin(t: &Table, row: u8) -> Commit<Version> {
    let commit = t.insert("p", [row], vec![row; 64 << 10]);
    assert!(is_held_back(&commit));
    commit
}

fn is_held_back(commit: &Commit<Version>) -> bool {
    format!("{commit:?}").contains("gated")
}

/// Asks, and says whether it is held back still.
fn asks_in_vain(commit: &mut Commit<Version>) -> bool {
    let poll = Pin::new(&mut *commit).poll(&mut Context::from_waker(Waker::noop()));
    assert!(!matches!(poll, Poll::Ready(Err(_))), "{poll:?}");
    is_held_back(commit)
}

#[test]
fn r_e24_who_asks_again_does_not_keep_others_waiting_longer() {
    let env = SimEnv::new(1);
    let (_db, t) = with_level_0(&env, 18);
    let mut first = begin(&t, 1);
    assert!((0..100).all(|_| asks_in_vain(&mut first)));
    let mut second = begin(&t, 2);
    env.advance(Duration::from_millis(30));
    assert!(!asks_in_vain(&mut first) && !asks_in_vain(&mut second));
}

#[test]
fn r_e24_who_asks_again_once_debt_fell_waits_no_longer_than_it_would_have() {
    let env = SimEnv::new(1);
    let (db, t) = with_level_0(&env, 18);
    let mut first = begin(&t, 1);
    assert!(asks_in_vain(&mut first));
    // Who is held back is told to ask anew, and what is let in is less than before.
    t.upsert("p", "small", "").wait().unwrap();
    db.flush().unwrap();
    assert_eq!(db.stats().levels[0].files, 19);
    let mut others: Vec<_> = (2..4).map(|row| begin(&t, row)).collect();
    assert!((0..100).all(|_| asks_in_vain(&mut first)));
    env.advance(Duration::from_millis(20));
    assert!(!asks_in_vain(&mut first), "its turn was before theirs");
    assert!(others.iter_mut().all(asks_in_vain));
    // It asked anew once: two turns of others, one of its own, one of the last.
    let mut last = begin(&t, 4);
    env.advance(Duration::from_millis(430));
    assert!(!asks_in_vain(&mut last));
}
