//! An account's secondary, which is read and not written (protocol 1).

use crate::batch::{TYPE, alone, change_set, part, parts, rows};
use crate::support::Server;

const POINT: &str = "/people(PartitionKey='p',RowKey='r')";

/// Protocol 1: statistics are the secondary's, and it is read alone.
#[tokio::test]
async fn the_secondary_is_there_to_read() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let mut send = async |method: &str, path: &str| {
        let path = format!("/devstoreaccount1-secondary{path}");
        client.send_to("localhost", method, &path, &[], b"").await
    };
    let stats = send("GET", "/?restype=service&comp=stats").await;
    assert_eq!(stats.status, 200);
    assert!(stats.text().contains("<Status>live</Status>"), "{}", stats.text());
    assert_eq!(send("GET", "/Tables('people')").await.status, 200);
    let refused = send("DELETE", "/Tables('people')").await;
    assert_eq!(refused.failure(), (403, "InsufficientAccountPermissions"));
    let text = refused.message();
    assert!(text.starts_with("Write operations are not allowed.\n"), "{text}");
}

/// Protocol 1: the secondary's entities are read, and written nowhere.
#[tokio::test]
async fn the_secondarys_entities_are_there_to_read() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r","A":1}"#;
    assert_eq!(client.post("/people", entity).await.status, 201);
    let base = "/devstoreaccount1-secondary";
    let mut send = async |method: &str, path: &str, body: &str| {
        let (path, headers) = (format!("{base}{path}"), [("If-Match", "*"), TYPE]);
        let headers = if path.ends_with("$batch") { &headers[1..] } else { &headers[..1] };
        client.send_to("localhost", method, &path, headers, body.as_bytes()).await
    };
    assert_eq!(send("GET", POINT, "").await.json()["A"], 1);
    let found = send("GET", "/people()?$filter=A%20eq%201", "").await;
    assert_eq!(found.json()["value"].as_array().unwrap().len(), 1);
    // The Java SDK names the primary in it.
    for base in [base, "/devstoreaccount1"] {
        let query = part(&format!("GET {base}{POINT}"), &[], "");
        let query = alone(&query);
        let found = parts(&send("POST", "/$batch", &query).await);
        assert_eq!((found[0].status, &found[0].json()["A"]), (200, &1.into()), "{base}");
    }
    let other = r#"{"PartitionKey":"p","RowKey":"s"}"#;
    let insertion = change_set(&[part(&format!("POST {base}/people"), &[], other)]);
    for (method, path, body) in [
        ("POST", "/people", other),
        ("PUT", POINT, "{}"),
        ("MERGE", POINT, "{}"),
        ("PATCH", POINT, "{}"),
        ("DELETE", POINT, ""),
        ("POST", "/$batch", &insertion),
        ("POST", "/Tables", r#"{"TableName":"other"}"#),
        ("PUT", "/people?comp=acl", ""),
    ] {
        let refused = send(method, path, body).await;
        assert_eq!(refused.failure(), (403, "InsufficientAccountPermissions"), "{method} {path}");
    }
    assert_eq!(rows(&mut client).await, ["r"]);
    assert_eq!(client.get(POINT).await.json()["A"], 1);
}
