//! Each mistake with its code, its status and its text (R-S05, protocol 5).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tablestone_server::config::Limits;

use crate::support::{Answer, Server};

/// R-S05: the limits of the data model.
#[tokio::test]
async fn r_s05_entities_have_their_limits() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let mut insert = async |properties: serde_json::Value| {
        let mut entity = json!({"PartitionKey": "p", "RowKey": "r"});
        entity.as_object_mut().unwrap().extend(properties.as_object().unwrap().clone());
        let answer =
            client.send("PUT", "/people(PartitionKey='p',RowKey='r')", &[], entity.to_string());
        let answer = answer.await;
        (answer.status, answer.header("x-ms-error-code").unwrap_or_default().to_owned())
    };
    let many = |count: usize| -> serde_json::Value {
        (0..count).map(|n| (format!("P{n}"), json!(1))).collect::<serde_json::Map<_, _>>().into()
    };
    let refused = |code: &str| (400, code.to_owned());
    assert_eq!(insert(many(252)).await.0, 204);
    assert_eq!(insert(many(253)).await, refused("TooManyProperties"));
    let long = "n".repeat(256);
    assert_eq!(insert(json!({&long[1..]: 1})).await.0, 204);
    assert_eq!(insert(json!({long: 1})).await, refused("PropertyNameTooLong"));
    for name in ["a-b", "1a", "a b", ""] {
        assert_eq!(insert(json!({name: 1})).await, refused("PropertyNameInvalid"), "{name}");
    }
    assert_eq!(insert(json!({"Text": "é".repeat(32 << 10)})).await.0, 204);
    let text = insert(json!({"Text": "é".repeat((32 << 10) + 1)})).await;
    assert_eq!(text, refused("PropertyValueTooLarge"));
    let texts = |count: usize| -> serde_json::Value {
        let text = json!("x".repeat(32_000));
        (0..count)
            .map(|n| (format!("P{n}"), text.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    assert_eq!(insert(texts(16)).await.0, 204);
    assert_eq!(insert(texts(17)).await, refused("EntityTooLarge"));
    let early = json!({"D": "1600-12-31T00:00:00Z", "D@odata.type": "Edm.DateTime"});
    assert_eq!(insert(early).await, refused("OutOfRangeInput"));
    let large = json!({"L": "9223372036854775808", "L@odata.type": "Edm.Int64"});
    assert_eq!(insert(large).await, refused("InvalidInput"));
}

/// R-S05: a merge may not go over the limits either.
#[tokio::test]
async fn r_s05_a_merge_is_refused_by_its_result() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let properties = |from: usize, to: usize| {
        let properties = (from..to).map(|n| (format!("P{n}"), json!(1)));
        json!(properties.collect::<serde_json::Map<_, _>>()).to_string()
    };
    let point = "/people(PartitionKey='p',RowKey='r')";
    assert_eq!(client.send("MERGE", point, &[], properties(0, 200)).await.status, 204);
    assert_eq!(client.send("MERGE", point, &[], properties(100, 252)).await.status, 204);
    let refused = client.send("MERGE", point, &[], properties(252, 253)).await;
    assert_eq!(refused.failure(), (400, "TooManyProperties"));
    let large = "/people(PartitionKey='p',RowKey='large')";
    let text = |n: usize| json!({format!("Text{n}"): "x".repeat(32_000)}).to_string();
    for n in 0..16 {
        assert_eq!(client.send("MERGE", large, &[], text(n)).await.status, 204);
    }
    let refused = client.send("MERGE", large, &[], text(16)).await;
    assert_eq!(refused.failure(), (400, "EntityTooLarge"));
    // Under an old name the text takes no more room.
    assert_eq!(client.send("MERGE", large, &[], text(0)).await.status, 204);
}

#[tokio::test]
async fn r_s05_keys_have_their_rules() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (key, code) in [
        ("a/b", "OutOfRangeInput"),
        ("a\\b", "OutOfRangeInput"),
        ("#", "OutOfRangeInput"),
        ("?", "OutOfRangeInput"),
        ("\t", "OutOfRangeInput"),
        ("\u{9F}", "OutOfRangeInput"),
        (&"x".repeat(513), "PropertyValueTooLarge"),
    ] {
        let entity = json!({"PartitionKey": key, "RowKey": "r"});
        let refused = client.post("/people", &entity.to_string()).await;
        assert_eq!(refused.failure(), (400, code), "{key}");
    }
    let entity = r#"{"PartitionKey":"a/b","RowKey":"r"}"#;
    let expected = "The 'PartitionKey' parameter of value 'a/b' is out of range.";
    let refused = client.post("/people", entity).await;
    check_message(&refused, expected);
    // Keys in an address have other errors.
    for (key, code, expected) in [
        ("a%2Fb", "InvalidInput", "Bad Request - Error in query syntax."),
        ("a%23", "OutOfRangeInput", "One of the request inputs is out of range."),
        ("a%09", "OutOfRangeInput", "One of the request inputs is out of range."),
    ] {
        let path = format!("/people(PartitionKey='p',RowKey='{key}')");
        for method in ["GET", "PUT", "MERGE", "DELETE"] {
            let any = [("If-Match", "*")];
            let refused = client.send(method, &path, &any, "{}").await;
            if (method, key) == ("GET", "a%23") {
                assert_eq!(refused.failure(), (404, "ResourceNotFound"));
                continue;
            }
            assert_eq!(refused.failure(), (400, code), "{method} {key}");
            check_message(&refused, expected);
        }
    }
    // What can only be missing is, unless it is to be made.
    let path = format!("/people(PartitionKey='{0}',RowKey='{0}')", "t".repeat(2_048));
    for method in ["GET", "PUT", "MERGE", "DELETE"] {
        let missing = client.send(method, &path, &[("If-Match", "*")], "{}").await;
        assert_eq!(missing.failure(), (404, "ResourceNotFound"), "{method}");
    }
    for method in ["PUT", "MERGE"] {
        let refused = client.send(method, &path, &[], "{}").await;
        assert_eq!(refused.failure(), (400, "PropertyValueTooLarge"), "{method}");
    }
}

/// R-S05: of several limits that are broken, that of the entity is told.
#[tokio::test]
async fn r_s05_a_large_value_of_a_large_entity_is_told_as_the_entity() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (bytes, code) in [(65_537, "PropertyValueTooLarge"), (1 << 20, "EntityTooLarge")] {
        let entity = json!({"PartitionKey": "p", "RowKey": "r", "Blob@odata.type": "Edm.Binary",
            "Blob": STANDARD.encode(vec![7; bytes])});
        let refused = client.post("/people", &entity.to_string()).await;
        assert_eq!(refused.failure(), (400, code), "{bytes}");
    }
}

/// R-S05: the service's time has seven digits of a second, of which clients cut off as many.
#[tokio::test]
async fn r_s05_errors_tell_when_they_were_in_full() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for _ in 0..50 {
        let text = client.get("/people(PartitionKey='p',RowKey='r')").await.message();
        let (_, time) = text.split_once("\nTime:").expect("a time");
        assert_eq!((time.len(), &time[19..20]), (28, "."), "{time}");
    }
}

fn check_message(refused: &Answer, expected: &str) {
    let message = refused.message();
    assert!(message.starts_with(&format!("{expected}\nRequestId:")), "{message}");
}

#[tokio::test]
async fn r_s05_bodies_have_their_errors() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (body, code) in [
        ("", "InvalidInput"),
        ("{", "InvalidInput"),
        ("[]", "InvalidInput"),
        (r#"{"RowKey":"r"}"#, "PropertiesNeedValue"),
        (r#"{"PartitionKey":"p"}"#, "PropertiesNeedValue"),
        (r#"{"PartitionKey":null,"RowKey":"r"}"#, "PropertiesNeedValue"),
        (r#"{"PartitionKey":1,"RowKey":"r"}"#, "InvalidInput"),
        (r#"{"PartitionKey":"p","RowKey":"r","A":1,"A":2}"#, "DuplicatePropertiesSpecified"),
        (r#"{"PartitionKey":"p","RowKey":"r","A":{}}"#, "InvalidInput"),
        (r#"{"PartitionKey":"p","RowKey":"r","A@odata.type":"Edm.Guid","A":"x"}"#, "InvalidInput"),
    ] {
        assert_eq!(client.post("/people", body).await.failure(), (400, code), "{body}");
    }
    let text = [("Content-Type", "text/plain")];
    let refused = client.send("POST", "/people", &text, "hello").await;
    assert_eq!(refused.failure(), (415, "MediaTypeNotSupported"));
    let atom = [("Content-Type", "application/atom+xml")];
    let refused = client.send("POST", "/people", &atom, "<entry/>").await;
    assert_eq!(refused.failure(), (415, "AtomFormatNotSupported"));
}

#[tokio::test]
async fn r_s05_addresses_have_their_errors() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (method, path, failure) in [
        ("GET", "/people(PartitionKey=1,RowKey='r')", (400, "InvalidInput")),
        ("GET", "/people(PartitionKey='p')", (400, "InvalidInput")),
        ("GET", "/people(PartitionKey='%',RowKey='r')", (400, "InvalidUri")),
        ("GET", "/people(PartitionKey='p',RowKey='r')?$orderby=A", (501, "NotImplemented")),
        ("GET", "/missing(PartitionKey='p',RowKey='r')", (404, "TableNotFound")),
        ("GET", "/people?comp=other", (400, "InvalidQueryParameterValue")),
        ("GET", "/", (400, "InvalidUri")),
        ("PUT", "/Tables", (405, "MethodNotAllowed")),
        ("DELETE", "/people", (405, "MethodNotAllowed")),
        ("POST", "/people(PartitionKey='p',RowKey='r')", (405, "MethodNotAllowed")),
        ("TRACE", "/people", (405, "UnsupportedHttpVerb")),
        ("GET", "/?restype=service&comp=stats", (400, "InvalidQueryParameterValue")),
        ("GET", "/?comp=properties", (400, "InvalidQueryParameterValue")),
        ("PUT", "/?comp=properties", (400, "InvalidQueryParameterValue")),
        ("GET", "/Tables?comp=acl", (400, "InvalidQueryParameterValue")),
        ("GET", "/Tables('people')?comp=acl", (400, "InvalidQueryParameterValue")),
        ("DELETE", "/Tables('people')?comp=acl", (400, "InvalidQueryParameterValue")),
        (
            "GET",
            "/people(PartitionKey='p',RowKey='r')?comp=acl",
            (400, "InvalidQueryParameterValue"),
        ),
        ("POST", "/$batch?comp=other", (400, "InvalidQueryParameterValue")),
        ("DELETE", "/people?comp=acl", (405, "MethodNotAllowed")),
    ] {
        let answer = client.send(method, path, &[], "").await;
        assert_eq!(answer.failure(), failure, "{method} {path}");
    }
}

/// R-S05: a method that a resource does not have is told with those that it has, and no other is.
#[tokio::test]
async fn r_s05_a_refused_method_is_told_with_those_that_there_are() {
    let methods = ["GET", "POST", "PUT", "MERGE", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for path in [
        "/?restype=service&comp=properties",
        "/?restype=service&comp=stats",
        "/Tables",
        "/Tables('people')",
        "/people()",
        "/people?comp=acl",
        "/people(PartitionKey='p',RowKey='r')",
        "/$batch",
    ] {
        let trace = client.send("TRACE", path, &[], "").await;
        let allowed = trace.header("allow").expect("methods").to_owned();
        for method in methods {
            let answer = client.send(method, path, &[], "").await;
            let is_refused = !allowed.split(", ").any(|it| it == method);
            assert_eq!(answer.status == 405, is_refused, "{method} {path}: {answer:?}");
            let told = answer.header("allow");
            assert_eq!(told, is_refused.then_some(&*allowed), "{method} {path}");
        }
    }
    for nothing in ["/people(PartitionKey='p')", "/people/Tables"] {
        let answer = client.send("TRACE", nothing, &[], "").await;
        let told = (answer.failure(), answer.header("allow"));
        assert_eq!(told, ((405, "UnsupportedHttpVerb"), None), "{nothing}");
    }
}

/// R-S12: 4 MiB and no more, whether or not the length is stated.
#[tokio::test]
async fn r_s12_a_large_body_is_refused() {
    let mut limits = Limits::default();
    limits.body.stall = Duration::from_millis(200);
    let server = Server::with(limits).await;
    let mut client = server.with_people().await;
    let large = "x".repeat((4 << 20) + 1);
    assert_eq!(client.post("/people", &large).await.failure(), (413, "RequestBodyTooLarge"));

    // A client that promises a body and sends none of it. Its connection cannot be used any more.
    let mut client = server.client().await;
    let promise = [("Content-Length", "100"), ("Prefer", "return-no-content")];
    let stalled = client.promise("POST", "/people", &promise).await;
    assert_eq!(stalled.failure(), (400, "InvalidInput"));
    assert_eq!(stalled.header("connection"), Some("close"));
}

/// R-S03: a client that asks first is told to go on, or not.
#[tokio::test]
async fn r_s03_expect_100_continue() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let expect = [("Content-Length", "35"), ("Expect", "100-continue")];
    let answer = client.promise("POST", "/people", &expect).await;
    assert_eq!(answer.status, 100);
    let unsigned = client.unsigned();
    unsigned.send(r#"{"PartitionKey":"p","RowKey":"r"  }"#).await;
    assert_eq!(unsigned.answer().await.unwrap().status, 201);
    let expect = [("Content-Length", "5000000"), ("Expect", "100-continue")];
    let answer = client.promise("POST", "/people", &expect).await;
    assert_eq!(answer.failure(), (413, "RequestBodyTooLarge"));
    // Whether the body comes or the next request nobody could tell.
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.unsigned().ends().await);
    let mut client = server.client().await;
    let expect = [("Content-Length", "0"), ("Expect", "100-continue")];
    let answer = client.promise("POST", "/missing", &expect).await;
    assert_eq!(answer.failure(), (404, "TableNotFound"));
    assert_eq!(answer.header("connection"), None);
    assert_eq!(client.get("/Tables('people')").await.status, 200, "the connection goes on");
}

/// R-S03: once it was told to go on, a client that is refused hears it, as one that did not ask.
#[tokio::test]
async fn r_s03_a_body_that_was_asked_for_is_read_to_its_end() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let expect = [("Transfer-Encoding", "chunked"), ("Expect", "100-continue")];
    assert_eq!(client.promise("POST", "/people", &expect).await.status, 100);
    let unsigned = client.unsigned();
    let chunk = "x".repeat(8 << 20);
    assert!(unsigned.offer(format!("{:x}\r\n{chunk}\r\n0\r\n\r\n", chunk.len())).await);
    assert_eq!(unsigned.answer().await.unwrap().failure(), (413, "RequestBodyTooLarge"));
    assert_eq!(client.get("/Tables('people')").await.status, 200, "the connection goes on");
}

/// R-S03: of a body that is no body nobody knows where the next request begins.
#[tokio::test]
async fn r_s03_a_connection_ends_with_chunks_that_are_none() {
    let server = Server::start().await;
    server.with_people().await;
    for chunks in ["x\r\n", "5\r\n{\"A\"}\r\nx\r\n", "1\r\n{x\r\n"] {
        for path in ["/people", "/$batch", "/missing"] {
            let mut client = server.client().await;
            client.begin("POST", path, &[("Transfer-Encoding", "chunked")]).await;
            let unsigned = client.unsigned();
            unsigned.send(chunks).await;
            let answer = unsigned.answer().await.unwrap();
            assert!((400..500).contains(&answer.status), "{answer:?}");
            assert_eq!(answer.header("connection"), Some("close"), "{path}: {chunks}");
            assert!(unsigned.ends().await, "{path}: {chunks}");
        }
    }
}
