//! What clients make the server hold at once: bodies that do not end, answers that are not taken.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Target, send};
use crate::support::within;

/// Memory for bodies: far less than what the clients together ask for.
const BUDGET: &str = "body_memory = '32MiB'\n";
const CLIENTS: usize = 100;
/// What pages of 4 MiB may take, which are printed by several threads before they ask for a share.
/// All that the clients ask for is four times as much.
const PAGES: u64 = 320 << 20;

/// R-S12: bodies of 4 MiB that stop halfway take no more than the budget; who finds no place hears
/// that the server is busy.
#[tokio::test]
async fn r_s12_bodies_that_wait_are_bounded() {
    let target = Target::configured(BUDGET, "http").await;
    let half = " ".repeat(2 << 20);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut client, half) = (target.client().await, half.clone());
        clients.spawn(async move {
            client.begin("POST", "/people", &[("Content-Length", "4194304")]).await;
            client.unsigned().offer(&half).await;
            client.unsigned().answer().await.map(|answer| answer.status)
        });
    }
    let mut busy = 0;
    while let Some(status) = within("answers", clients.join_next()).await {
        match status.expect("a client") {
            // No memory, or no more of the body within the time for it.
            Some(503) => busy += 1,
            Some(400) | None => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(busy > CLIENTS / 2, "{busy} found no place");
    target.survives().await;
}

/// R-S12: pages of 4 MiB that are not taken take no more than the budget.
#[tokio::test]
async fn r_s12_answers_that_wait_are_bounded() {
    let target = Target::configured(BUDGET, "http").await;
    let mut client = target.client().await;
    let text = "x".repeat(30_000);
    for row in 0..140 {
        let entity = format!(r#"{{"PartitionKey":"large","RowKey":"{row}","Text":"{text}"}}"#);
        assert_eq!(client.post("/people", &entity).await.status, 201);
    }
    let large = "/people()?$filter=PartitionKey%20eq%20'large'";
    let page = send(&mut client, "GET", large, &[], "").await;
    assert!(page.status == 200 && page.body.len() > 3 << 20, "{} bytes", page.body.len());
    let mut deaf = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = target.client().await;
        // Sockets take the first, perhaps; the rest wait in the server.
        for _ in 0..3 {
            client.begin("GET", large, &[]).await;
        }
        deaf.push(client);
    }
    // While they take nothing, the memory is given out, and others are served with what is small.
    let full = async {
        while client.get(large).await.status != 503 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    within("the budget to be given out", full).await;
    let small = send(&mut client, "GET", "/people(PartitionKey='p',RowKey='r')", &[], "").await;
    assert_eq!(small.status, 200);
    target.is_within(PAGES);
    drop(deaf);
    let free = async {
        while client.get(large).await.status != 200 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    within("memory to come back", free).await;
    target.survives_within(PAGES).await;
}
