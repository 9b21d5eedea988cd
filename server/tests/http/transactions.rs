//! Entity group transactions as no SDK sends them, and what all of them rely on (protocol 8,
//! R-S07).

use std::collections::BTreeMap;

use serde_json::json;

use crate::batch::{
    BASE, TYPE, alone, change_set, failure, identified, insert, insert_with, part, parts, post,
    rows, write,
};
use crate::support::{Answer, SECOND_ACCOUNT, Server};

/// R-S07: a condition that the service does not have is refused in a batch too, in the first operation and in one
/// like that before it.
#[tokio::test]
async fn r_s07_if_none_match_is_refused_in_a_batch() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let conditional = |row| write("PUT", row, &["If-None-Match: *"], "{}");
    for (operations, index) in [
        (vec![conditional("1"), insert("2")], 0),
        (vec![insert("1"), conditional("2")], 1),
        (vec![write("PUT", "1", &[], "{}"), conditional("2")], 1),
    ] {
        let answer = post(&mut client, &change_set(&operations)).await;
        let text =
            format!("{index}:If-None-Match HTTP header cannot be specified for PUT operations.");
        assert_eq!(failure(&answer), (400, "InvalidInput".to_owned(), text));
        assert!(rows(&mut client).await.is_empty());
    }
}

/// R-S07: operations that differ in their keys alone, and some between them, are answered each as it
/// would be alone.
#[tokio::test]
async fn r_s07_answers_are_those_of_operations_alone() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(client.post("/Tables", r#"{"TableName":"others"}"#).await.status, 201);
    let operations = [
        insert("1"),
        insert("it's \u{e9}% 2"),
        insert(""),
        write("PUT", "5", &[], r#"{"A":1}"#),
        write("PUT", "6", &[], r#"{"A":1}"#),
        insert("3"),
        identified("4", &insert("4")),
        insert_with("7", &[]),
        insert("8"),
        insert("9"),
        write("MERGE", "10", &[], r#"{"A":1}"#),
    ];
    let together = parts(&post(&mut client, &change_set(&operations)).await);
    assert_eq!(together.len(), operations.len());
    for (operation, found) in operations.iter().zip(&together) {
        let elsewhere = change_set(&[operation.replace("/people", "/others")]);
        let alone = &parts(&post(&mut client, &elsewhere).await)[0];
        assert_eq!(found.status, alone.status, "{operation}");
        let headers = |answer: &Answer| -> BTreeMap<String, String> {
            let headers = answer.headers.iter().filter(|(name, _)| *name != "ETag");
            headers
                .map(|(name, value)| (name.clone(), value.replace("/others", "/people")))
                .collect()
        };
        assert_eq!(headers(found), headers(alone), "{operation}");
        assert_eq!(found.header("ETag"), together[0].header("ETag"));
    }
}

/// R-S07: what is accepted is said for all of a batch, but for an operation that says so itself; addresses in answers
/// are those that answers to requests of their own have.
#[tokio::test]
async fn r_s07_the_batch_says_what_its_operations_accept() {
    const FULL: (&str, &str) = ("Accept", "application/json;odata=fullmetadata");
    const NONE: &str = "Accept: application/json;odata=nometadata\r\n";
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let mut id_of = async |body: &str| {
        let answer = client.send("POST", "/$batch", &[TYPE, FULL], body).await;
        let answer = parts(&answer)[0].json();
        answer.get("odata.id").map(|id| id.as_str().expect("text").to_owned())
    };
    for row in ["a", "b"] {
        let insertion = insert_with(row, &[]);
        let query = part(&format!("GET {BASE}/people(PartitionKey='p',RowKey='{row}')"), &[], "");
        let bodies = [change_set(&[insertion]), alone(&query)];
        for body in bodies {
            if row == "a" {
                let id = format!("{BASE}/people(PartitionKey='p',RowKey='a')");
                assert_eq!(id_of(&body.replace(NONE, "")).await, Some(id), "{body}");
            } else {
                assert_eq!(id_of(&body).await, None, "{body}");
            }
        }
    }
}

/// R-S07: all kinds of operations, in order, at one version; identifiers come back.
#[tokio::test]
async fn r_s07_a_transaction_does_all_its_operations() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(post(&mut client, &change_set(&["u", "m", "d"].map(insert))).await.status, 202);
    let body = change_set(&[
        identified("seven", &insert("new")),
        write("PUT", "u", &["If-Match: *"], r#"{"A":"--changeset_c\r\n--batch_b--"}"#),
        write("MERGE", "m", &[], r#"{"A":2,"PartitionKey":"p","RowKey":"m"}"#),
        write("DELETE", "d", &["If-Match: *"], ""),
        write("POST", "x", &["X-HTTP-Method: MERGE"], r#"{"A":3}"#),
    ]);
    for body in [body.clone(), body.replace("\r\n", "\n").replace("--batch_b--\n", "--batch_b\n")] {
        let parts = parts(&post(&mut client, &body).await);
        let statuses: Vec<u16> = parts.iter().map(|part| part.status).collect();
        assert_eq!(statuses, [204; 5]);
        let etag = parts[1].header("ETag").expect("a tag").to_owned();
        let tags: Vec<_> = parts.iter().map(|part| part.header("ETag")).collect();
        assert_eq!(tags, [Some(&*etag), Some(&etag), Some(&etag), None, Some(&etag)]);
        assert_eq!(parts[0].header("Content-ID"), Some("seven"));
        assert_eq!(parts[0].header("Preference-Applied"), Some("return-no-content"));
        let location = format!("{BASE}/people(PartitionKey='p',RowKey='new')");
        assert_eq!(parts[0].header("Location"), Some(&*location));
        assert_eq!(parts[0].header("DataServiceId"), Some(&*location));
        assert!(parts.iter().all(|part| part.body.is_empty()));
        assert_eq!(rows(&mut client).await, ["m", "new", "u", "x"]);
        let changed = client.get("/people(PartitionKey='p',RowKey='u')").await;
        assert_eq!(changed.json()["A"], "--changeset_c\r\n--batch_b--");
        assert_eq!(changed.header("etag"), Some(&*etag));
        // Once more for bare line feeds.
        client.delete("/people(PartitionKey='p',RowKey='new')").await;
        client.post("/people", r#"{"PartitionKey":"p","RowKey":"d"}"#).await;
    }
}

/// R-S07: the Java SDK says of a merge that it is one in `X-HTTP-Method` too.
#[tokio::test]
async fn r_s07_an_operation_may_repeat_its_method() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let twice = |method: &str, said: &str| {
        let said = format!("X-HTTP-Method: {said}");
        change_set(&[write(method, "1", &[&said], r#"{"A":1}"#)])
    };
    for (method, said) in [("MERGE", "MERGE"), ("PATCH", "MERGE"), ("PUT", "PUT")] {
        let parts = parts(&post(&mut client, &twice(method, said)).await);
        assert_eq!(parts[0].status, 204, "{method} {said}");
    }
    let (status, code, _) = failure(&post(&mut client, &twice("PUT", "MERGE")).await);
    assert_eq!((status, &*code), (400, "XMethodNotUsingPost"));
}

/// R-S07: an operation may state any type of its keys but an insert's, also where the one before did.
#[tokio::test]
async fn r_s07_keys_of_operations_may_be_annotated() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let body = |row: &str| {
        format!(
            r#"{{"PartitionKey@odata.type":"Edm.Guid","PartitionKey":"p","RowKey@odata.type":"Edm.DateTime","RowKey":"{row}","N":1}}"#
        )
    };
    let written =
        ["1", "2", "3"].map(|row| write("PUT", row, &["Prefer: return-no-content"], &body(row)));
    let statuses = parts(&post(&mut client, &change_set(&written)).await);
    assert!(statuses.iter().all(|part| part.status == 204), "{statuses:?}");
    let insert = |row: &str| {
        part(&format!("POST {BASE}/people"), &["Prefer: return-no-content"], &body(row))
    };
    let [first, ..] = written;
    let (status, code, text) =
        failure(&post(&mut client, &change_set(&[first, insert("4")])).await);
    assert_eq!(
        (status, &*code, &*text),
        (400, "InvalidInput", "1:One of the request inputs is not valid.")
    );
    assert_eq!(rows(&mut client).await, ["1", "2", "3"]);
}

/// R-S07: an insert that wants its entity back has it, on one line.
#[tokio::test]
async fn r_s07_inserts_are_answered_as_preferred() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let unspecified = insert_with("a", &[]);
    let content = insert_with("b", &["Prefer: return-content"]);
    let parts = parts(&post(&mut client, &change_set(&[unspecified, content])).await);
    for (part, row, applied) in [(&parts[0], "a", None), (&parts[1], "b", Some("return-content"))] {
        assert_eq!(part.status, 201);
        assert_eq!(part.header("Preference-Applied"), applied);
        let json = part.json();
        assert_eq!((&json["RowKey"], &json["N"]), (&json!(row), &json!(1)));
        assert!(json.get("odata.etag").is_none(), "nometadata was asked for");
    }
}

/// R-S07: an update says that it has no content as was preferred, in the version of the protocol that has preferences;
/// so does each that is like the one before but for that.
#[tokio::test]
async fn r_s07_an_update_of_a_batch_says_what_was_applied() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let (quiet, loud) = ("Prefer: return-no-content", "Prefer: return-content");
    client.post("/people", r#"{"PartitionKey":"p","RowKey":"there"}"#).await;
    let body = change_set(&[
        write("PUT", "1", &[quiet], "{}"),
        write("MERGE", "2", &[quiet], "{}"),
        write("MERGE", "3", &[], "{}"),
        write("PUT", "4", &[loud], "{}"),
        write("DELETE", "there", &["If-Match: *", quiet], ""),
    ]);
    let parts = parts(&post(&mut client, &body).await);
    let said = parts.iter().map(|part| {
        assert!(part.status == 204 && part.body.is_empty());
        (part.header("Preference-Applied"), part.header("DataServiceVersion"))
    });
    let (applied, not) = ((Some("return-no-content"), Some("3.0;")), (None, Some("1.0;")));
    assert_eq!(said.collect::<Vec<_>>(), [applied, applied, not, not, not]);
}

/// R-S07: an insert that fails repeats what it preferred, and no other operation does.
#[tokio::test]
async fn r_s07_a_failed_insert_repeats_what_was_preferred() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    client.post("/people", r#"{"PartitionKey":"p","RowKey":"there"}"#).await;
    let quiet = "Prefer: return-no-content";
    for (failing, applied) in [
        (insert("there"), Some("return-no-content")),
        (insert("new"), Some("return-no-content")),
        (insert_with("there", &["Prefer: return-content"]), Some("return-content")),
        (insert_with("there", &[]), None),
        (write("PUT", "no", &["If-Match: *", quiet], "{}"), None),
        (write("POST", "no", &["X-HTTP-Method: MERGE", "If-Match: *", quiet], "{}"), None),
    ] {
        let failed = parts(&post(&mut client, &change_set(&[insert("new"), failing])).await);
        assert!(matches!(failed[0].status, 400 | 404 | 409), "{failed:?}");
        assert_eq!((failed.len(), failed[0].header("Preference-Applied")), (1, applied));
    }
}

/// R-S07: what fails is told with its place, and nothing is done.
#[tokio::test]
async fn r_s07_a_failed_operation_is_named_and_undoes_all() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    client.post("/people", r#"{"PartitionKey":"p","RowKey":"there"}"#).await;
    client.post("/Tables", r#"{"TableName":"others"}"#).await;
    let other = r#"{"PartitionKey":"q","RowKey":"r"}"#;
    let stale = "If-Match: W/\"datetime'2000-01-01T00%3A00%3A00Z'\"";
    let exists = "The specified entity already exists.";
    let missing = "The specified resource does not exist.";
    let condition = "The update condition specified in the request was not satisfied.";
    let twice = "The batch request contains multiple changes with same row key. An entity can \
                 appear only once in a batch request.";
    let partitions = "All commands in a batch must operate on same entity group.";
    let cases = [
        (insert("there"), 409, "EntityAlreadyExists", exists),
        (write("PUT", "no", &["If-Match: *"], "{}"), 404, "ResourceNotFound", missing),
        (write("DELETE", "no", &["If-Match: *"], ""), 404, "ResourceNotFound", missing),
        (write("PUT", "there", &[stale], "{}"), 412, "UpdateConditionNotSatisfied", condition),
        (insert("first"), 400, "InvalidDuplicateRow", twice),
        (
            insert("x").replace(r#""p""#, r#""q""#),
            400,
            "CommandsInBatchActOnDifferentPartitions",
            partitions,
        ),
        (
            part(
                &format!("DELETE {BASE}/people(PartitionKey='q',RowKey='r')"),
                &["If-Match: *"],
                other,
            ),
            400,
            "CommandsInBatchActOnDifferentPartitions",
            partitions,
        ),
        (
            insert("x").replace("/people", "/others"),
            400,
            "CommandsInBatchActOnDifferentPartitions",
            partitions,
        ),
        (write("DELETE", "there", &[], ""), 400, "InvalidInput", "A delete needs"),
        (write("PUT", "x", &[], "{"), 400, "InvalidInput", "byte 1 of the JSON: expected a name"),
        (
            write("PUT", "x", &["If-Match: nonsense"], "{}"),
            400,
            "InvalidInput",
            "\"nonsense\" is no ETag",
        ),
        (
            write("PUT", "x", &[], r#"{"a-b":1}"#),
            400,
            "PropertyNameInvalid",
            "The property name is invalid.",
        ),
        (write("GET", "there", &[], ""), 405, "MethodNotAllowed", "The requested method"),
        (write("EAT", "there", &[], ""), 405, "UnsupportedHttpVerb", "The resource doesn't"),
        (
            insert("x").replace("/people", "/Tables('t')"),
            405,
            "MethodNotAllowed",
            "The requested method",
        ),
        (
            insert("x").replace("devstoreaccount1", SECOND_ACCOUNT),
            400,
            "InvalidInput",
            "A batch is about one account.",
        ),
        (
            insert("x").replace(BASE, "/devstoreaccount1-secondary"),
            400,
            "InvalidInput",
            "A batch is about one account.",
        ),
    ];
    for (second, status, code, text) in cases {
        let answer =
            post(&mut client, &change_set(&[insert("first"), second, insert("last")])).await;
        let (found, found_code, found_text) = failure(&answer);
        assert_eq!((found, &*found_code), (status, code), "{found_text}");
        assert!(found_text.starts_with(&format!("1:{text}")), "{found_text}");
        assert_eq!(rows(&mut client).await, ["there"], "{text}");
    }
    let nowhere = change_set(&[insert("a").replace("/people", "/nowhere")]);
    let (status, code, text) = failure(&post(&mut client, &nowhere).await);
    assert_eq!(
        (status, &*code, &*text),
        (404, "TableNotFound", "0:The table specified does not exist.")
    );
    // Recorded: what the only operation does not find, or finds there or changed, has no place before it, nor has a
    // value or key that is too long.
    let large = "The property value exceeds the maximum allowed size (64KB).";
    let text = format!(r#"{{"Text":"{}"}}"#, "x".repeat(32_769));
    for (alone, status, code, expected) in [
        (insert("there"), 409, "EntityAlreadyExists", exists),
        (write("PUT", "no", &["If-Match: *"], "{}"), 404, "ResourceNotFound", missing),
        (write("PUT", "there", &[stale], "{}"), 412, "UpdateConditionNotSatisfied", condition),
        (write("PUT", "x", &[], &text), 400, "PropertyValueTooLarge", large),
        (insert(&"x".repeat(513)), 400, "PropertyValueTooLarge", large),
    ] {
        let (found, found_code, text) = failure(&post(&mut client, &change_set(&[alone])).await);
        assert_eq!((found, &*found_code), (status, code), "{text}");
        assert!(text.starts_with(expected), "{text}");
    }
}

/// R-S07: a part states the version of the protocol in which its form came.
#[tokio::test]
async fn r_s07_parts_state_their_version() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let done = change_set(&[
        insert("a"),
        insert_with("b", &[]),
        write("PUT", "c", &[], "{}"),
        write("MERGE", "d", &[], "{}"),
    ]);
    let stated = |answer: &Answer| {
        let parts = parts(answer);
        let versions =
            parts.iter().map(|part| part.header("DataServiceVersion").map(str::to_owned));
        versions.collect::<Option<Vec<_>>>().expect("each states it")
    };
    let answer = post(&mut client, &done).await;
    assert_eq!(stated(&answer), ["3.0;", "3.0;", "1.0;", "1.0;"]);
    assert_eq!(stated(&post(&mut client, &change_set(&[insert("a")])).await), ["3.0;"]);
    let deleted = change_set(&[write("DELETE", "a", &["If-Match: *"], "")]);
    assert_eq!(stated(&post(&mut client, &deleted).await), ["1.0;"]);
    let target = format!("GET {BASE}/people(PartitionKey='p',RowKey='b')");
    let query = alone(&part(&target, &[], ""));
    assert_eq!(stated(&post(&mut client, &query).await), ["3.0;"]);
}

/// R-S07: the part of the operation that failed has its identifier, by which clients find it.
#[tokio::test]
async fn r_s07_a_failed_operation_keeps_its_identifier() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    client.post("/people", r#"{"PartitionKey":"p","RowKey":"there"}"#).await;
    for second in
        [insert("there"), insert("0"), write("PUT", "x", &[], "{"), write("EAT", "x", &[], "")]
    {
        let operations = [identified("7", &insert("0")), identified("8", &second)];
        let failed = parts(&post(&mut client, &change_set(&operations)).await);
        assert_eq!((failed.len(), failed[0].header("Content-ID")), (1, Some("8")), "{second}");
    }
    let many: Vec<_> =
        (0..101).map(|row| row.to_string()).map(|row| identified(&row, &insert(&row))).collect();
    for operations in [&many[..], &[insert("there")]] {
        let failed = parts(&post(&mut client, &change_set(operations)).await);
        assert_eq!((failed.len(), failed[0].header("Content-ID")), (1, None));
    }
}

/// R-S07, R-S12: a hundred operations, and not one more.
#[tokio::test]
async fn r_s07_a_hundred_operations() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let many: Vec<String> = (0..101).map(|row| insert(&format!("{row:03}"))).collect();
    let (status, code, text) = failure(&post(&mut client, &change_set(&many)).await);
    assert_eq!((status, &*code), (400, "InvalidInput"));
    assert_eq!(
        text,
        "99:The batch request operation exceeds the maximum 100 changes per change set."
    );
    assert_eq!(rows(&mut client).await, [""; 0]);
    assert_eq!(parts(&post(&mut client, &change_set(&many[..100])).await).len(), 100);
    assert_eq!(rows(&mut client).await.len(), 100);
}

/// R-S07: what is no batch is refused as a whole.
#[tokio::test]
async fn r_s07_malformed_batches() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let good = change_set(&[insert("a")]);
    let second = good.replace("--batch_b--\r\n", &good);
    for body in ["", "x", &second, &good.replace("--changeset_c--\r\n--batch_b--\r\n", "")] {
        assert_eq!(post(&mut client, body).await.failure(), (400, "InvalidInput"), "{body}");
    }
    let json = client.send("POST", "/$batch", &[("Content-Type", "application/json")], &good).await;
    assert_eq!(json.failure(), (400, "InvalidInput"));
    let large = change_set(&[write("PUT", "a", &[], &" ".repeat(4 << 20))]);
    assert_eq!(post(&mut client, &large).await.failure(), (413, "RequestBodyTooLarge"));
    assert_eq!(rows(&mut client).await, [""; 0]);
    assert_eq!(client.get("/$batch").await.failure(), (405, "MethodNotAllowed"));
}

/// Protocol 8: one query alone, here without the blank line after its headers.
#[tokio::test]
async fn r_s07_a_query_in_a_batch() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    client.post("/people", r#"{"PartitionKey":"p","RowKey":"r","N":"é"}"#).await;
    let body = |target: &str| {
        format!(
            "--batch_b\r\nContent-Type: application/http\r\n\r\nGET {target} HTTP/1.1\r\n\
             Accept: application/json;odata=nometadata\r\n--batch_b--"
        )
    };
    let point = format!("{BASE}/people(PartitionKey='p', RowKey='r')?$select=N");
    let one = parts(&post(&mut client, &body(&point)).await);
    assert_eq!((one.len(), one[0].status, one[0].json()), (1, 200, json!({"N": "é"})));
    assert!(one[0].header("ETag").is_some());
    let filter = format!("{BASE}/people()?$filter=RowKey%20eq%20'r'&$select=RowKey");
    let list = parts(&post(&mut client, &body(&filter)).await);
    assert_eq!(list[0].json(), json!({"value": [{"RowKey": "r"}]}));
    let missing = format!("{BASE}/people(PartitionKey='p',RowKey='x')");
    let missing = parts(&post(&mut client, &body(&missing)).await);
    assert_eq!(missing[0].status, 404);
    assert_eq!(missing[0].json()["odata.error"]["code"], "ResourceNotFound");
    // The service was recorded to number it, as it does the first of a change set.
    let text = missing[0].message();
    assert!(text.starts_with("0:The specified resource does not exist."), "{text}");
    let tables = parts(&post(&mut client, &body(&format!("{BASE}/Tables"))).await);
    assert_eq!(tables[0].status, 400);
}

/// R-S07: what is no mistake of an operation is told of the whole request, for the client to send it again; what the
/// server does not do is told of the part that asks for it.
#[tokio::test]
async fn r_s07_a_failure_of_the_server_is_that_of_the_whole_batch() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let function = part(&format!("GET {BASE}/people()?$filter=A%20eq%20B"), &[], "");
    let query = alone(&function);
    let answer = post(&mut client, &query).await;
    assert_eq!(failure(&answer).0, 501);

    let body = change_set(&[insert("1"), insert("2")]);
    assert_eq!(parts(&post(&mut client, &body).await).len(), 2);
    server.service.database().clone().close().unwrap();
    let body = change_set(&[insert("3"), insert("4")]);
    let answer = post(&mut client, &body).await;
    assert_eq!(answer.failure(), (500, "InternalError"));
}
