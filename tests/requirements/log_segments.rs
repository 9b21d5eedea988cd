//! R-E24: what is done with the log's files behind it keeps no commit waiting, and leaves none in vain.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use tablestone::Database;
use tablestone::env::{Fault, Operation, SimEnv};

use crate::support::all_rows;
use crate::support::hooked::HookedEnv;
use crate::support::sim::{DIR, sim_options};
use crate::support::wait::{LIMIT, receive};

/// The file of a segment gets another name, to be used again, when what is in it is flushed.
#[test]
fn r_e24_a_commit_that_freezes_does_not_wait_for_a_segment_to_be_let_go() {
    let machine = SimEnv::new(1);
    let (renames, renaming) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (is_armed, may_go_on) = (Arc::new(AtomicBool::new(false)), Mutex::new(may_go_on));
    let armed = Arc::clone(&is_armed);
    let env = HookedEnv::new(machine.clone(), |_| Ok(())).before_rename(move |to| {
        if to.extension().is_some_and(|e| e == "log-spare") && armed.swap(false, Ordering::AcqRel) {
            renames.send(()).unwrap();
            let waited = may_go_on.lock().unwrap().recv_timeout(LIMIT);
            waited.expect("the commit went on meanwhile");
        }
        Ok(())
    });
    let options = sim_options(&machine).memory_budget(1 << 20).env(Arc::new(env));
    let db = Database::open(DIR, options).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let mut rows = 0u32;
    let mut write_until_frozen = |memtables| {
        while db.stats().frozen_memtables < memtables {
            t.insert("p", rows.to_be_bytes(), [7; 2_000]).wait().unwrap();
            rows += 1;
        }
    };
    write_until_frozen(2);
    is_armed.store(true, Ordering::Release);
    thread::scope(|threads| {
        let flush = threads.spawn(|| db.flush());
        receive(&renaming, "a segment to be let go");
        write_until_frozen(1);
        go_on.send(()).unwrap();
        flush.join().unwrap().unwrap();
    });
    assert_eq!(all_rows(&t).len(), rows as usize);
}

/// No later segment would be made of it, and it would be there until the next opening.
#[test]
fn r_e19_a_file_that_cannot_be_used_again_is_removed() {
    let machine = SimEnv::new(1);
    let db = Database::open(DIR, sim_options(&machine).memory_budget(1 << 20)).unwrap();
    let t = db.create_table("t").wait().unwrap();
    let write = |rows: std::ops::Range<u32>| {
        for row in rows {
            t.upsert("p", row.to_be_bytes(), [7; 2_000]).wait().unwrap();
            machine.run_all();
        }
    };
    let spares = || -> Vec<String> {
        let names = machine.list(DIR.as_ref()).into_iter();
        names.filter(|name| name.ends_with(".log-spare")).collect()
    };
    write(0..500);
    let earlier = spares();
    assert!(!earlier.is_empty());
    let refused = Fault::new(Operation::Rename, &earlier[0], ErrorKind::Other);
    machine.fail(Fault { times: 1, ..refused });
    write(0..500);
    assert!(spares().iter().all(|name| !earlier.contains(name)), "{earlier:?}, {:?}", spares());
}
