//! Limits of what a request may ask for at once: bodies, transactions, pages, merges.

use serde_json::{Map, Value, json};
use tablestone_server::config::Limits;

use super::{POINT, transaction};
use crate::batch::parts;
use crate::support::Server;

/// R-S05, R-S12: a body has as many bytes as are set, of an entity or of a transaction, however its length is told.
#[tokio::test]
async fn r_s05_bodies_have_the_length_that_is_set() {
    let mut limits = Limits::default();
    limits.body.bytes = 5 << 20;
    limits.entity.size = 6 << 20;
    limits.entity.string_length = 3 << 20;
    let server = Server::with(limits).await;
    let mut client = server.with_people().await;
    // Of two texts, in as many bytes.
    let body = |length: usize| {
        let (begin, middle, end) = (r#"{"A":""#, r#"","B":""#, r#""}"#);
        let texts = length - begin.len() - middle.len() - end.len();
        let (a, b) = ("x".repeat(texts / 2), "x".repeat(texts - texts / 2));
        format!("{begin}{a}{middle}{b}{end}")
    };
    assert_eq!(body(5 << 20).len(), 5 << 20);
    assert_eq!(client.send("PUT", POINT, &[], body(2 << 20)).await.status, 204);
    let largest = transaction(&mut client, &[("PUT", POINT.into(), body((5 << 20) - 1_000))]).await;
    assert_eq!(parts(&largest)[0].status, 400, "larger than an entity may be");
    let halves = ["1", "2"].map(|row| {
        let target = format!("/people(PartitionKey='p',RowKey='{row}')");
        ("PUT", target, body((5 << 19) - 1_000))
    });
    let done = transaction(&mut client, &halves).await;
    assert!(parts(&done).iter().all(|part| part.status == 204), "what is stored is as large");
    let expected = "exceeds the maximum permissible limit (5MB).";
    let refused = client.send("PUT", POINT, &[], body((5 << 20) + 1)).await;
    assert_eq!(refused.failure(), (413, "RequestBodyTooLarge"));
    assert!(refused.message().contains(expected), "{}", refused.message());
    let refused = transaction(&mut client, &[("PUT", POINT.into(), body(5 << 20))]).await;
    assert_eq!(refused.failure(), (413, "RequestBodyTooLarge"));
    limits.body.bytes = 2_000;
    let server = server.restart_with(limits).await;
    let mut client = server.client().await;
    assert_eq!(client.send("PUT", POINT, &[], body(2_000)).await.status, 204);
    let refused = client.send("PUT", POINT, &[], body(2_001)).await;
    assert_eq!(refused.failure(), (413, "RequestBodyTooLarge"));
    assert!(refused.message().contains("(2000 bytes)"), "{}", refused.message());
}

/// R-S07: a transaction has as many operations as are set.
#[tokio::test]
async fn r_s07_a_transaction_has_the_operations_that_are_set() {
    for operations in [150, 2] {
        let limits = Limits { transaction_operations: operations, ..Limits::default() };
        let server = Server::with(limits).await;
        let mut client = server.with_people().await;
        let requests = |count: usize| -> Vec<_> {
            let target = |n: usize| format!("/people(PartitionKey='p',RowKey='{n}')");
            (0..count).map(|n| ("PUT", target(n), "{}".to_owned())).collect()
        };
        let done = transaction(&mut client, &requests(operations)).await;
        let done = parts(&done);
        assert_eq!(done.len(), operations);
        assert!(done.iter().all(|part| part.status == 204));
        let refused = parts(&transaction(&mut client, &requests(operations + 1)).await).remove(0);
        assert_eq!(refused.json()["odata.error"]["code"], "InvalidInput");
        let expected = format!(
            "{}:The batch request operation exceeds the maximum {operations} changes per change set.",
            operations - 1
        );
        assert!(refused.message().starts_with(&expected), "{refused:?}");
    }
}

/// R-S06, R-E12: a page has as many entities, or tables, as are set, and `$top` may say no more.
#[tokio::test]
async fn r_s06_a_page_has_the_entities_that_are_set() {
    let server = Server::with(Limits { page_entities: 1_100, ..Limits::default() }).await;
    let mut client = server.with_people().await;
    for from in (0..1_200).step_by(100) {
        let row = |n: usize| format!("/people(PartitionKey='p',RowKey='{n}')");
        let requests: Vec<_> =
            (from..from + 100).map(|n| ("PUT", row(n), "{}".to_owned())).collect();
        assert_eq!(transaction(&mut client, &requests).await.status, 202);
    }
    let created = client.post("/Tables", r#"{"TableName":"others"}"#).await;
    assert_eq!(created.status, 201);
    let more = "x-ms-continuation-nextpartitionkey";
    let mut page = async |query: &str| {
        let answer = client.get(&format!("/people()?{query}")).await;
        let entities = answer.json()["value"].as_array().expect("entities").len();
        (entities, answer.header(more).is_some())
    };
    assert_eq!(page("").await, (1_100, true));
    assert_eq!(page("$top=1100").await, (1_100, true));
    let server = server.restart_with(Limits { page_entities: 1, ..Limits::default() }).await;
    let mut client = server.client().await;
    let answer = client.get("/people()").await;
    assert_eq!(answer.json()["value"].as_array().map(Vec::len), Some(1));
    assert!(answer.header(more).is_some());
    let tables = client.get("/Tables").await;
    assert_eq!(tables.json()["value"], json!([{"TableName": "others"}]));
    assert!(tables.header("x-ms-continuation-nexttablename").is_some());
    for path in ["/people()?$top=2", "/Tables?$top=2"] {
        let refused = client.get(path).await;
        assert_eq!(refused.failure(), (400, "InvalidInput"), "{path}");
        assert!(refused.message().starts_with("$top must be a number from 0 to 1."), "{path}");
    }
}

/// R-E12, R-S12: a page ends after as many stored bytes as are set, with a continuation, and has one entity in any case.
#[tokio::test]
async fn r_s12_a_page_has_the_bytes_that_are_set() {
    let server = Server::with(Limits { page_bytes: 2_500, ..Limits::default() }).await;
    let mut client = server.with_people().await;
    for row in 0..5 {
        let target = format!("/people(PartitionKey='p',RowKey='{row}')");
        let body = json!({"A": "x".repeat(if row == 4 { 10_000 } else { 1_000 })});
        assert_eq!(client.send("PUT", &target, &[], body.to_string()).await.status, 204);
    }
    let (mut sizes, mut next) = (Vec::new(), Some(String::new()));
    while let Some(from) = next {
        let page = client.get(&format!("/people()?{from}")).await;
        sizes.push(page.json()["value"].as_array().expect("entities").len());
        let key = |name: &str| page.header(&format!("x-ms-continuation-next{name}"));
        next = key("partitionkey").zip(key("rowkey")).map(|(partition_key, row_key)| {
            format!("NextPartitionKey={partition_key}&NextRowKey={row_key}")
        });
    }
    assert_eq!(sizes, [2, 2, 1]);
}

/// R-S12: what merges make of little has memory of its own, also if it is one merge alone.
#[tokio::test]
async fn r_s12_a_merge_into_a_large_entity() {
    let mut limits = Limits::default();
    (limits.entity.size, limits.entity.string_length) = (16 << 20, 3 << 20);
    let server = Server::with(limits).await;
    let mut client = server.with_people().await;
    for name in ["A", "B"] {
        let body = json!({name: "x".repeat(3 << 20)}).to_string();
        let done = client.send("MERGE", POINT, &[], body).await;
        assert_eq!(done.status, 204, "{done:?}");
    }
    assert!(client.get(POINT).await.body.len() > 6 << 20);
    let refused = client.send("MERGE", POINT, &[], json!({"C": "x".repeat(3 << 20)}).to_string());
    let refused = refused.await;
    assert_eq!(refused.failure(), (400, "EntityTooLarge"));
    assert!(refused.message().contains("(16MB)"), "{refused:?}");
}

/// R-S07, R-S12: the limit of a transaction is of what is sent, also where more of it is stored: small numbers take a
/// byte of JSON, and four of a row or eight.
#[tokio::test]
async fn r_s07_a_transaction_of_small_properties_may_be_as_long_as_a_body() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let letters = || 'A'..='Z';
    let names = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}"))).take(250);
    let mut row: Map<String, Value> = names.map(|name| (name, json!(1))).collect();
    row.extend(["S", "T"].map(|name| (name.to_owned(), json!("x".repeat(19_900)))));
    let body = json!(row).to_string();
    let requests: Vec<_> = (0..100)
        .map(|n| ("PUT", format!("/people(PartitionKey='p',RowKey='{n}')"), body.clone()))
        .collect();
    let sent = requests.iter().map(|(_, target, body)| target.len() + body.len()).sum::<usize>();
    assert!((4_150_000..4_170_000).contains(&sent), "{sent} bytes");
    let done = parts(&transaction(&mut client, &requests).await);
    assert_eq!(done.iter().filter(|part| part.status == 204).count(), 100);
}
