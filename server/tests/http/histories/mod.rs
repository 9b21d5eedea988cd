//! R-S07, R-S11: whatever many clients do at once, there is one order in which all of it happened.
//!
//! Eight connections write, read and delete few entities of one table, alone and in transactions, with all conditions.
//! ETags are versions, and versions are the order, so what happened is held against what each entity was [from version
//! to version](story). `TABLESTONE_HISTORIES=FROM..TO,STEPS` has it run with other seeds, and for longer.

mod client;
mod story;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::support::Server;

use client::Worker;
use story::Stories;

const CLIENTS: u64 = 8;

async fn check_seed(seed: u64, steps: u32) {
    let server = Server::start().await;
    drop(server.with_people().await);
    let stamps = Arc::<AtomicU64>::default();
    let mut running = Vec::new();
    for client in 0..CLIENTS {
        let worker = Worker::new(server.client().await, seed, client, Arc::clone(&stamps));
        running.push(tokio::spawn(worker.run(steps)));
    }
    let mut events = Vec::new();
    for worker in running {
        events.extend(worker.await.expect("a client that ends"));
    }
    Stories::of(&events).check(&events);
}

fn seeds() -> (std::ops::Range<u64>, u32) {
    let Ok(given) = std::env::var("TABLESTONE_HISTORIES") else { return (1..4, 150) };
    let parse = || {
        let (seeds, steps) = given.split_once(',')?;
        let (from, to) = seeds.split_once("..")?;
        Some((from.parse().ok()?..to.parse().ok()?, steps.parse().ok()?))
    };
    parse().unwrap_or_else(|| panic!("TABLESTONE_HISTORIES is {given:?}, not FROM..TO,STEPS"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r_s07_there_is_one_order_of_all_that_many_clients_do() {
    let (seeds, steps) = seeds();
    for seed in seeds {
        println!("seed {seed}");
        check_seed(seed, steps).await;
    }
}
