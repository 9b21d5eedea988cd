//! Headers of requests and answers (R-S03).

use crate::batch::{TYPE, alone, change_set, insert, part, parts, rows};
use crate::support::Server;

#[tokio::test]
async fn r_s03_every_answer_has_its_headers() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let id = [("x-ms-client-request-id", "my id")];
    for path in ["/Tables('people')", "/Tables('missing')"] {
        let answer = client.send("GET", path, &id, "").await;
        assert_eq!(answer.header("x-ms-client-request-id"), Some("my id"));
        assert_eq!(answer.header("x-ms-version"), Some("2019-02-02"));
        assert_eq!(answer.header("x-ms-request-id").map(str::len), Some(36));
        assert!(answer.header("server").unwrap().starts_with("Windows-Azure-Table/1.0"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(answer.header("date").unwrap().ends_with(" GMT"));
        assert!(answer.header("content-length").is_some());
    }
    let missing = client.get("/Tables('missing')").await;
    let message = missing.message();
    let id = missing.header("x-ms-request-id").unwrap();
    let expected = format!("The specified resource does not exist.\nRequestId:{id}\nTime:20");
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(missing.json()["odata.error"]["message"]["lang"], "en-US");
}

/// R-S03, R-S07: a header may go on in another line, as in each transaction of the PHP library up to its 1.1.5.
#[tokio::test]
async fn r_s03_a_header_may_be_folded() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let folded = [("Content-Type", "multipart/mixed; \r\n boundary=\"batch_b\"")];
    let body = change_set(&[insert("1")]);
    let answer = client.send("POST", "/$batch", &folded, &body).await;
    assert_eq!(parts(&answer)[0].status, 204, "{answer:?}");
    assert_eq!(rows(&mut client).await, ["1"]);

    // The end of a head is no fold, whatever the body begins with.
    let body = " \r\n {\"PartitionKey\":\"p\",\"RowKey\":\"2\"}";
    assert_eq!(client.post("/people", body).await.status, 201);
    assert_eq!(rows(&mut client).await, ["1", "2"]);
}

/// R-S03: an answer without a body states so, as all that the service was recorded to send, also with a status that
/// tells it: else some clients wait for its end.
#[tokio::test]
async fn r_s03_no_content_has_a_length() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let entity = "/people(PartitionKey='p',RowKey='r')";
    for (method, expected) in [("PUT", 204), ("PUT", 204), ("DELETE", 204), ("DELETE", 404)] {
        let headers: &[_] = if method == "PUT" { &[] } else { &[("If-Match", "*")] };
        let answer =
            client.send(method, entity, headers, if method == "PUT" { "{}" } else { "" }).await;
        assert_eq!(answer.status, expected);
        let length = answer.body.len().to_string();
        assert_eq!(answer.header("content-length"), Some(&*length), "{answer:?}");
    }
}

#[tokio::test]
async fn r_s03_versions_and_forms_are_checked() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let mut get = async |headers: &[(&str, &str)]| {
        let answer = client.send("GET", "/Tables('people')", headers, "").await;
        (answer.status, answer.header("x-ms-error-code").unwrap_or_default().to_owned())
    };
    let refused = |status: u16, code: &str| (status, code.to_owned());
    let nonsense = get(&[("x-ms-version", "nonsense")]).await;
    assert_eq!(nonsense, refused(400, "InvalidHeaderValue"));
    assert_eq!(get(&[("Accept", "")]).await, refused(415, "AtomFormatNotSupported"));
    assert_eq!(get(&[("Accept", "image/png")]).await, refused(415, "MediaTypeNotSupported"));
    // XML alone is not Atom, as the C++ library's tests expect.
    assert_eq!(get(&[("Accept", "application/xml")]).await, refused(415, "MediaTypeNotSupported"));
    let old = get(&[("x-ms-version", "2009-09-19")]).await;
    assert_eq!(old, refused(415, "JsonFormatNotSupported"));
    assert_eq!(get(&[("x-ms-version", "2035-01-01")]).await.0, 200);
    let overridden = client.send("GET", "/Tables('people')?$format=json", &[("Accept", "")], "");
    assert_eq!(overridden.await.status, 200);
}

/// R-S03: `$format` overrides `Accept` in a transaction too, for the operation whose address has it.
#[tokio::test]
async fn r_s03_format_overrides_accept_of_an_operation() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let insert = |row: usize, format: &str| {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        part(&format!("POST /devstoreaccount1/people{format}"), &[], &body)
    };
    // What is accepted is nometadata.
    let formats = [
        "",
        "?$format=application/json;odata=fullmetadata",
        "",
        "?%24format=json",
        "?$format=json",
    ];
    let inserts = formats.iter().enumerate().map(|(row, format)| insert(row, format));
    let batch = change_set(&inserts.collect::<Vec<_>>());
    let done = parts(&client.send("POST", "/$batch", &[TYPE], batch).await);
    let level = |answer: &crate::support::Answer| {
        let body = answer.json();
        (body.get("odata.etag").is_some(), body.get("odata.id").is_some())
    };
    let (none, minimal, full) = ((false, false), (true, false), (true, true));
    assert_eq!(done.iter().map(level).collect::<Vec<_>>(), [none, full, none, minimal, minimal]);
    for (query, code) in
        [("?$format=csv", (415, "MediaTypeNotSupported")), ("?$expand=A", (501, "NotImplemented"))]
    {
        let batch = change_set(&[insert(9, query)]);
        let failed = parts(&client.send("POST", "/$batch", &[TYPE], batch).await).remove(0);
        assert_eq!(failed.failure(), code, "{query}");
    }
}

/// R-S03, R-S05: `$format` overrides `Accept` in errors too, whatever else is wrong with the address; one that there is
/// not is told in the form that is accepted.
#[tokio::test]
async fn r_s05_format_overrides_accept_in_errors() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let (json, xml) = ("application/json", "application/xml");
    let (old, new) = (("x-ms-version", "2014-02-14"), ("x-ms-version", "2019-02-02"));
    for (version, accept, query, failure, form) in [
        (old, xml, "$format=json", (404, "ResourceNotFound"), json),
        (old, "", "$format=application/json;odata=fullmetadata", (404, "ResourceNotFound"), json),
        (old, json, "%24format=atom", (404, "ResourceNotFound"), xml),
        (new, xml, "$format=json", (404, "ResourceNotFound"), json),
        (old, xml, "$format=json&$orderby=A", (501, "NotImplemented"), json),
        (old, xml, "$filter=%&$format=json", (400, "InvalidUri"), json),
        (old, xml, "$format=csv", (415, "MediaTypeNotSupported"), xml),
        (old, json, "$format=csv", (415, "MediaTypeNotSupported"), json),
        (new, json, "$format=atom", (415, "AtomFormatNotSupported"), json),
        (old, xml, "$format=", (404, "ResourceNotFound"), xml),
    ] {
        let headers = [version, ("Accept", accept)];
        let point = "/people(PartitionKey='p',RowKey='r')";
        let refused = client.send("GET", &format!("{point}?{query}"), &headers, "").await;
        assert_eq!(refused.failure(), failure, "{accept} {query}");
        let kind = refused.header("content-type").expect("a form");
        assert!(kind.starts_with(form), "{accept} {query}: {kind}");
    }
}

/// R-S03, R-S05: so it does for a request within a batch whose address has it.
#[tokio::test]
async fn r_s05_format_overrides_accept_in_errors_of_a_batch() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let there = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(client.post("/people", there).await.status, 201);
    for (format, form) in [("?$format=json", "application/json"), ("", "application/xml")] {
        let insert = part(&format!("POST /devstoreaccount1/people{format}"), &[], there);
        let point = "/devstoreaccount1/people(PartitionKey='p',RowKey='no')";
        let query = part(&format!("GET {point}{format}"), &[], "");
        let query = alone(&query);
        for (batch, status) in [(change_set(&[insert]), 409), (query, 404)] {
            let batch = batch.replace("application/json;odata=nometadata", "application/xml");
            let headers = [TYPE, ("x-ms-version", "2014-02-14")];
            let failed = parts(&client.send("POST", "/$batch", &headers, batch).await).remove(0);
            assert_eq!(failed.status, status, "{format}");
            let kind = failed.header("Content-Type").expect("a form");
            assert!(kind.starts_with(form), "{format}: {kind}");
        }
    }
}

/// A write without a body to answer with needs no Accept.
#[tokio::test]
async fn a_request_without_an_answers_body_needs_no_accept() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let bare = [("Accept", "")];
    let point = "/people(PartitionKey='p',RowKey='r')";
    assert_eq!(client.send("PUT", point, &bare, "{}").await.status, 204);
    let quiet = [("Accept", ""), ("Prefer", "return-no-content")];
    let entity = r#"{"PartitionKey":"p","RowKey":"s"}"#;
    assert_eq!(client.send("POST", "/people", &quiet, entity).await.status, 204);
}

/// R-S12: a host is as long as its name can be. Each entity of an answer has it in its address.
#[tokio::test]
async fn r_s12_a_host_is_no_longer_than_there_are() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let path = "/devstoreaccount1/Tables('people')";
    let longest = format!("{}:65535", "x".repeat(253));
    assert_eq!(client.send_to(&longest, "GET", path, &[], b"").await.status, 200);
    let longer = client.send_to(&("x".to_owned() + &longest), "GET", path, &[], b"").await;
    assert_eq!(longer.failure(), (400, "HostInformationNotPresent"));
}

/// R-S12, RFC 9112 (3.2): of two hosts a proxy may have gone by the other.
#[tokio::test]
async fn r_s12_a_request_with_two_hosts_is_refused() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for method in ["GET", "OPTIONS"] {
        let head = format!(
            "{method} /devstoreaccount1/Tables HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\
             x-ms-version: 2019-02-02\r\n\r\n"
        );
        client.unsigned().send(head).await;
        let refused = client.unsigned().answer().await.unwrap();
        assert_eq!(refused.failure(), (400, "InvalidHeaderValue"), "{method}");
    }
}

/// A user in the address of a request, who may have a password, comes back nowhere.
#[tokio::test]
async fn a_user_in_an_address_is_not_repeated() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let signature = crate::access::table_signature("raud", ["", "", "", ""]);
    let target = |rest: &str| {
        format!("http://user:secret@localhost/devstoreaccount1/people{rest}?{signature}")
    };
    let accept = [("Accept", "application/json;odata=fullmetadata")];
    let unsigned = client.unsigned();
    let entity = br#"{"PartitionKey":"p","RowKey":"r"}"#;
    let inserted = unsigned.request("localhost", "POST", &target(""), &accept, entity).await;
    assert_eq!(inserted.status, 201);
    let location = "http://localhost/devstoreaccount1/people(PartitionKey='p',RowKey='r')";
    assert_eq!(inserted.header("location"), Some(location));
    let page = unsigned.request("localhost", "GET", &target("()"), &accept, b"").await;
    let metadata = "http://localhost/devstoreaccount1/$metadata#people";
    assert_eq!(page.json()["odata.metadata"], metadata);
    assert!(!page.text().contains("secret") && !inserted.text().contains("secret"));
}
