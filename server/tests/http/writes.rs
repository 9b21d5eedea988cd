//! The six writes, each with the entity there or missing, each with the tags it can have
//! (protocol 7, R-S07).

use serde_json::json;

use crate::support::{Answer, Server, Signing};

const POINT: &str = "/people(PartitionKey='p',RowKey='r')";

async fn insert(client: &mut Signing) -> String {
    client.delete(POINT).await;
    let body = r#"{"PartitionKey":"p","RowKey":"r","A":1,"B":"old"}"#;
    let inserted = client.post("/people", body).await;
    inserted.header("etag").unwrap().to_owned()
}

/// The entity's own properties; nothing if it is missing.
async fn stored(client: &mut Signing) -> serde_json::Value {
    let accept = [("Accept", "application/json;odata=nometadata")];
    let mut entity = client.send("GET", POINT, &accept, "").await.json();
    for system in ["PartitionKey", "RowKey", "Timestamp"] {
        entity.as_object_mut().unwrap().remove(system);
    }
    entity
}

async fn write(client: &mut Signing, method: &str, tag: Option<&str>, body: &str) -> Answer {
    let headers: Vec<_> = tag.iter().map(|tag| ("If-Match", *tag)).collect();
    client.send(method, POINT, &headers, body).await
}

const WRONG: &str = "W/\"datetime'2000-01-01T00%3A00%3A00Z'\"";

/// R-S03, R-S07: an update that is to have no content says that it has none, and nothing of what it does not do: the
/// service was recorded so with the Go library, which prefers something with each request.
#[tokio::test]
async fn r_s07_an_update_says_what_was_applied() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let quiet = Some("return-no-content");
    for (preferred, applied) in [(quiet, quiet), (Some("return-content"), None), (None, None)] {
        for (method, tag) in
            [("PUT", None), ("MERGE", None), ("PATCH", Some("*")), ("PUT", Some("*"))]
        {
            let conditions = tag.iter().map(|tag| ("If-Match", *tag));
            let headers: Vec<_> =
                conditions.chain(preferred.iter().map(|it| ("Prefer", *it))).collect();
            let done = client.send(method, POINT, &headers, r#"{"A":1}"#).await;
            assert_eq!(
                (done.status, done.header("preference-applied")),
                (204, applied),
                "{method}"
            );
        }
        let headers: Vec<_> = [("If-Match", "*")]
            .into_iter()
            .chain(preferred.iter().map(|it| ("Prefer", *it)))
            .collect();
        let deleted = client.send("DELETE", POINT, &headers, "").await;
        assert_eq!((deleted.status, deleted.header("preference-applied")), (204, None));
    }
}

/// R-S04: keys may have any type in the body of a write but an insert: the address's are the entity's.
#[tokio::test]
async fn r_s04_keys_may_be_annotated() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let refusal = "One of the request inputs is not valid.\nRequestId:";
    for value_type in ["DateTime", "Guid", "Binary", "Int32"] {
        let body = format!(
            r#"{{"PartitionKey":"p","PartitionKey@odata.type":"Edm.{value_type}","RowKey":"r","A":1}}"#
        );
        client.delete(POINT).await;
        let refused = client.post("/people", &body).await;
        assert_eq!(refused.failure(), (400, "InvalidInput"), "{value_type}");
        let text = refused.message();
        assert!(text.starts_with(refusal), "{text}");
        for (method, tag) in
            [("PUT", None), ("PUT", Some("*")), ("MERGE", None), ("PATCH", Some("*"))]
        {
            let done = write(&mut client, method, tag, &body).await;
            assert_eq!(done.status, 204, "{method} {tag:?} {value_type}: {}", done.text());
            assert_eq!(stored(&mut client).await, json!({"A": 1}));
        }
        let number = body.replace("\"p\"", "5");
        let refused = write(&mut client, "PUT", None, &number).await;
        assert_eq!(refused.failure(), (400, "InvalidInput"), "{value_type}");
    }
}

/// R-S07: the table of protocol 7, with the entity there.
#[tokio::test]
async fn r_s07_writes_of_an_entity_that_is_there() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let body = r#"{"B":5,"C":true}"#;
    for (method, merges) in [("PUT", false), ("MERGE", true), ("PATCH", true)] {
        for tag in ["none", "any", "right"] {
            let etag = insert(&mut client).await;
            let tag = match tag {
                "none" => None,
                "any" => Some("*"),
                _ => Some(&*etag),
            };
            let done = write(&mut client, method, tag, body).await;
            assert_eq!((done.status, done.text()), (204, ""), "{method} {tag:?}");
            assert!(done.header("etag").is_some_and(|new| new > &*etag), "{done:?}");
            let expected = if merges {
                json!({"A": 1, "B": 5, "C": true})
            } else {
                json!({"B": 5, "C": true})
            };
            assert_eq!(stored(&mut client).await, expected, "{method} {tag:?}");
        }
        for tag in [WRONG, "W/\"wrong\""] {
            insert(&mut client).await;
            let failed = write(&mut client, method, Some(tag), body).await;
            assert_eq!(failed.failure(), (412, "UpdateConditionNotSatisfied"), "{method} {tag}");
            assert_eq!(stored(&mut client).await, json!({"A": 1, "B": "old"}));
        }
    }
    let again = client.post("/people", r#"{"PartitionKey":"p","RowKey":"r"}"#).await;
    assert_eq!(again.failure(), (409, "EntityAlreadyExists"));
    for tag in [WRONG, "W/\"wrong\""] {
        let failed = write(&mut client, "DELETE", Some(tag), "").await;
        assert_eq!(failed.failure(), (412, "UpdateConditionNotSatisfied"));
    }
    let etag = insert(&mut client).await;
    let deleted = write(&mut client, "DELETE", Some(&etag), "").await;
    assert_eq!((deleted.status, deleted.header("etag")), (204, None));
}

/// R-S07: the same with no entity there.
#[tokio::test]
async fn r_s07_writes_of_an_entity_that_is_missing() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for method in ["PUT", "MERGE", "DELETE"] {
        for tag in ["*", WRONG, "W/\"wrong\""] {
            let failed = write(&mut client, method, Some(tag), "{}").await;
            assert_eq!(failed.failure(), (404, "ResourceNotFound"), "{method} {tag}");
        }
    }
    for method in ["PUT", "MERGE"] {
        let done = write(&mut client, method, None, r#"{"A":7}"#).await;
        assert_eq!(done.status, 204, "{method}");
        assert_eq!(stored(&mut client).await, json!({"A": 7}));
        client.delete(POINT).await;
    }
    let refused = write(&mut client, "DELETE", None, "").await;
    assert_eq!(refused.failure(), (400, "InvalidInput"));
    let refused = write(&mut client, "PUT", Some("no tag"), "{}").await;
    assert_eq!(refused.failure(), (400, "InvalidInput"));
}

/// R-D08: entities have weak tags alone; a strong one is no mismatch but a mistake, whatever it says.
#[tokio::test]
async fn r_d08_a_strong_tag_is_refused() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let etag = insert(&mut client).await;
    for tag in ["\"wrong\"", etag.trim_start_matches("W/")] {
        for method in ["PUT", "MERGE", "DELETE"] {
            let refused = write(&mut client, method, Some(tag), "{}").await;
            assert_eq!(refused.failure(), (400, "InvalidInput"), "{method} {tag}");
        }
    }
    assert_eq!(stored(&mut client).await, json!({"A": 1, "B": "old"}));
}

/// R-S07: who writes only what is not there must not overwrite what is: a condition that the service does not
/// have is refused, not passed over.
#[tokio::test]
async fn r_s07_if_none_match_is_refused() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    insert(&mut client).await;
    let body = r#"{"B":5}"#;
    for (method, tunnelled) in [
        ("PUT", "PUT"),
        ("MERGE", "MERGE"),
        ("PATCH", "MERGE"),
        ("DELETE", "DELETE"),
        ("POST", "PUT"),
        ("POST", "MERGE"),
        ("POST", "DELETE"),
    ] {
        for (tag, if_match) in [("*", None), (WRONG, None), ("no tag", None), ("*", Some("*"))] {
            let mut headers = vec![("If-None-Match", tag)];
            headers.extend(if_match.map(|tag| ("If-Match", tag)));
            headers.extend((method == "POST").then_some(("X-HTTP-Method", tunnelled)));
            let refused = client.send(method, POINT, &headers, body).await;
            assert_eq!(refused.failure(), (400, "InvalidInput"), "{method} {headers:?}");
            let expected = match if_match {
                None => format!("HTTP header cannot be specified for {tunnelled} operations."),
                Some(_) => "cannot be specified at the same time.".to_owned(),
            };
            assert!(refused.text().contains(&expected), "{}", refused.text());
            assert_eq!(stored(&mut client).await, json!({"A": 1, "B": "old"}));
        }
    }
    // An insert overwrites nothing.
    let new = r#"{"PartitionKey":"p","RowKey":"new"}"#;
    let inserted = client.send("POST", "/people", &[("If-None-Match", "*")], new).await;
    assert_eq!(inserted.status, 201);
}

/// R-S07: the keys of the address count, whatever the body's are.
#[tokio::test]
async fn r_s07_the_address_names_the_entity() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let body = r#"{"PartitionKey":"other","RowKey":"other","A":1}"#;
    assert_eq!(write(&mut client, "PUT", None, body).await.status, 204);
    assert_eq!(stored(&mut client).await, json!({"A": 1}));
}

/// R-S03: a POST that is another verb.
#[tokio::test]
async fn r_s03_a_post_can_stand_for_a_merge() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    insert(&mut client).await;
    let merge = [("X-HTTP-Method", "MERGE"), ("If-Match", "*")];
    let done = client.send("POST", POINT, &merge, r#"{"B":null,"C":1}"#).await;
    assert_eq!(done.status, 204);
    assert_eq!(stored(&mut client).await, json!({"A": 1, "B": "old", "C": 1}));
    let wrong = [("X-HTTP-Method", "GET")];
    let refused = client.send("POST", POINT, &wrong, "").await;
    assert_eq!(refused.failure(), (400, "XMethodIncorrectValue"));
    let refused = client.send("PUT", POINT, &merge, "{}").await;
    assert_eq!(refused.failure(), (400, "XMethodNotUsingPost"));
}

/// Protocol 7: of clients that insert one key at the same time, exactly one does.
#[tokio::test]
async fn r_s07_racing_inserts_have_one_winner() {
    let server = Server::start().await;
    server.with_people().await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let mut client = server.client().await;
        tasks.push(tokio::spawn(async move {
            client.post("/people", r#"{"PartitionKey":"p","RowKey":"r"}"#).await.status
        }));
    }
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
}
