//! Tables that are not there, and names that no table can have (R-S05, protocol 4, 5).

use crate::support::{Answer, Server, Signing};
use crate::transactions::{TYPE, change_set, part, parts};

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;

/// The answer to an operation that is alone in a transaction, which fails.
async fn in_batch(client: &mut Signing, request: &str, headers: &[&str], body: &str) -> Answer {
    let batch = change_set(&[part(request, headers, body)]);
    let answer = parts(&client.send("POST", "/$batch", &[TYPE], batch).await).remove(0);
    let message = &answer.json()["odata.error"]["message"]["value"];
    assert!(message.as_str().is_some_and(|text| text.starts_with("0:")), "{request}: {message}");
    answer
}

/// R-S05: a name that no table can have is told from one that none has, by every operation.
#[tokio::test]
async fn r_s05_names_that_no_table_can_have() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let long = "x".repeat(64);
    for (name, failure) in [
        ("a-b", (400, "InvalidResourceName")),
        ("1abc", (400, "InvalidResourceName")),
        ("t%C3%A4ble", (400, "InvalidResourceName")),
        ("ab", (400, "OutOfRangeInput")),
        (&long, (400, "OutOfRangeInput")),
        ("missing", (404, "TableNotFound")),
    ] {
        let point = format!("/{name}(PartitionKey='p',RowKey='r')");
        let policies = format!("/{name}?comp=acl");
        for (method, path, body) in [
            ("GET", format!("/{name}()"), ""),
            ("POST", format!("/{name}"), ENTITY),
            ("GET", point.clone(), ""),
            ("PUT", point.clone(), "{}"),
            ("PATCH", point.clone(), "{}"),
            ("MERGE", point.clone(), "{}"),
            ("DELETE", point.clone(), ""),
            ("GET", policies.clone(), ""),
            ("PUT", policies, ""),
        ] {
            let answer = client.send(method, &path, &[("If-Match", "*")], body).await;
            assert_eq!(answer.failure(), failure, "{method} {path}");
        }
        for (method, path, headers) in [
            ("POST", format!("/{name}"), &[][..]),
            ("PUT", point.clone(), &[]),
            ("DELETE", point, &["If-Match: *"]),
        ] {
            let request = format!("{method} /devstoreaccount1{path}");
            let answer = in_batch(&mut client, &request, headers, ENTITY).await;
            assert_eq!(answer.failure(), failure, "{request}");
        }
    }
}
