//! Transactions of merges, which make much of little (protocol 8, R-S12).

use serde_json::json;
use tablestone_server::config::Limits;

use crate::batch::{change_set, parts, post, write};
use crate::support::Server;

/// Protocol 8: the limit is of what is sent, not of what merges make of it.
#[tokio::test]
async fn r_s07_small_merges_into_large_entities() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let text = "x".repeat(32_000);
    let large: Vec<String> =
        (b'a'..b'i').map(|name| format!(r#""{}":"{text}""#, name as char)).collect();
    let large = format!("{{{}}}", large.join(","));
    for row in 0..18 {
        let put = change_set(&[write("PUT", &format!("{row:02}"), &[], &large)]);
        assert_eq!(parts(&post(&mut client, &put).await)[0].status, 204);
    }
    let merges: Vec<_> = (0..18)
        .map(|row| write("MERGE", &format!("{row:02}"), &["If-Match: *"], r#"{"Flag":1}"#))
        .collect();
    let merged = parts(&post(&mut client, &change_set(&merges)).await);
    assert_eq!(merged.iter().map(|part| part.status).collect::<Vec<_>>(), [204; 18]);
    let row = client.get("/people(PartitionKey='p',RowKey='17')").await.json();
    assert_eq!((&row["Flag"], row["h"].as_str()), (&json!(1), Some(&*text)));
}

/// R-S12: who waits for memory for what merges make keeps nobody else from an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_s12_large_merges_wait_apart() {
    let limits = Limits { body_memory: 12 << 20, ..Limits::default() };
    let server = Server::with(limits).await;
    let mut client = server.with_people().await;
    let text = "x".repeat(32_000);
    let large = format!(r#"{{"a":"{text}","b":"{text}","c":"{text}","d":"{text}","e":"{text}"}}"#);
    let rows: Vec<String> = (0..30).map(|row| format!("{row:02}")).collect();
    for row in &rows {
        let put = change_set(&[write("PUT", row, &[], &large)]);
        assert_eq!(parts(&post(&mut client, &put).await)[0].status, 204);
    }
    let merge = |row: &String| write("MERGE", row, &["If-Match: *"], r#"{"Flag":1}"#);
    let merges = change_set(&rows.iter().map(merge).collect::<Vec<_>>());
    let mut merging = Vec::new();
    for _ in 0..6 {
        let (mut client, merges) = (server.client().await, merges.clone());
        merging.push(tokio::spawn(async move {
            let mut statuses = Vec::new();
            for _ in 0..4 {
                statuses.push(post(&mut client, &merges).await.status);
            }
            statuses
        }));
    }
    while !merging.iter().all(tokio::task::JoinHandle::is_finished) {
        assert_eq!(client.get("/people()?$top=3").await.status, 200);
    }
    let mut statuses = Vec::new();
    for client in merging {
        statuses.extend(client.await.unwrap());
    }
    assert!(statuses.iter().all(|status| matches!(status, 202 | 503)), "{statuses:?}");
    assert!(statuses.contains(&202), "{statuses:?}");
}
