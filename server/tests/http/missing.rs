//! Tables that are not there, and names that no table can have (R-S05, protocol 4, 5).

use crate::access::table_signature;
use crate::batch::{TYPE, change_set, part, parts};
use crate::support::{Answer, Server, Signing};

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;

/// The answer to an operation that is alone in a transaction, which fails.
async fn in_batch(client: &mut Signing, request: &str, headers: &[&str], body: &str) -> Answer {
    let batch = change_set(&[part(request, headers, body)]);
    let answer = parts(&client.send("POST", "/$batch", &[TYPE], batch).await).remove(0);
    let message = answer.message();
    assert!(message.starts_with("0:"), "{request}: {message}");
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

/// R-S05: that a table is missing is told before what is wrong with a body, and, R-S08, to nobody who
/// may not do what was asked.
#[tokio::test]
async fn r_s05_a_missing_table_is_told_before_its_entity() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let bodies = [
        ("{}", "PropertiesNeedValue"),
        ("{", "InvalidInput"),
        (r#"{"PartitionKey":"a/b","RowKey":"r"}"#, "OutOfRangeInput"),
    ];
    let insert = "POST /devstoreaccount1/people";
    for (body, _) in bodies {
        let missing = (404, "TableNotFound");
        assert_eq!(client.post("/people", body).await.failure(), missing, "{body}");
        assert_eq!(in_batch(&mut client, insert, &[], body).await.failure(), missing, "{body}");
    }
    let point = "/people(PartitionKey='p',RowKey='r')";
    let put = client.send("PUT", point, &[], "{").await;
    assert_eq!(put.failure(), (404, "TableNotFound"));

    let read = table_signature("r", ["", "", "", ""]);
    let mismatch = (403, "AuthorizationPermissionMismatch");
    let path = format!("/devstoreaccount1/people?{read}");
    let accept = [("Accept", "application/json"), TYPE];
    let refused = client.unsigned().request("localhost", "POST", &path, &accept[..1], b"{").await;
    assert_eq!(refused.failure(), mismatch);
    let path = format!("/devstoreaccount1/$batch?{read}");
    let batch = change_set(&[part(insert, &[], "{")]);
    let refused =
        client.unsigned().request("localhost", "POST", &path, &accept, batch.as_bytes()).await;
    assert_eq!(parts(&refused)[0].failure(), mismatch);

    assert_eq!(client.post("/Tables", r#"{"TableName":"people"}"#).await.status, 201);
    for (body, code) in bodies {
        assert_eq!(client.post("/people", body).await.failure(), (400, code), "{body}");
        assert_eq!(in_batch(&mut client, insert, &[], body).await.failure(), (400, code), "{body}");
    }
}

/// R-S05: an account's address with a table's name after it is the table's; SDKs know the mistake by
/// these codes.
#[tokio::test]
async fn r_s05_an_accounts_address_with_a_tables_name() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let table = r#"{"TableName":"people"}"#;
    let created = client.post("/people/Tables", table).await;
    assert_eq!(created.failure(), (404, "TableNotFound"));
    let deleted = client.delete("/people/Tables('people')").await;
    assert_eq!(deleted.failure(), (404, "TableNotFound"));
    assert_eq!(client.get("/people/Tables").await.failure(), (404, "TableNotFound"));
    let batch = client.post("/people/$batch", "").await;
    assert_eq!(batch.failure(), (415, "MediaTypeNotSupported"));
    assert_eq!(client.post("/Tables", table).await.status, 201);
    assert_eq!(client.get("/people/Tables").await.failure(), (501, "NotImplemented"));
    let created = client.post("/people/Tables", table).await;
    assert_eq!(created.failure(), (400, "PropertiesNeedValue"));
    let deleted = client.delete("/people/Tables('people')").await;
    assert_eq!(deleted.failure(), (400, "InvalidInput"));
    let text = deleted.message();
    let expected = "The number of keys specified in the URI does not match number of key properties \
                    for the resource 'devstoreaccount1.people'.";
    assert!(text.contains(expected), "{text}");
}
