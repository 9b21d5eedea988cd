//! The addresses of requests within a batch: what they are about, and what they ask for behind their question marks
//! (R-S01, R-S07).

use crate::batch::{BASE, alone, change_set, failure, insert, part, parts, post, rows, write};
use crate::support::{SECOND_ACCOUNT, SECOND_KEY, Server, Signing};

const UNKNOWN: (u16, &str) = (400, "InvalidQueryParameterValue");
const NOT_ALLOWED: (u16, &str) = (405, "MethodNotAllowed");
const OTHER: (u16, &str) = (400, "InvalidInput");

/// A batch of one request, which is in no change set.
fn query(request: &str) -> String {
    alone(&part(request, &[], ""))
}

async fn start() -> (Server, Signing) {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let there = r#"{"PartitionKey":"p","RowKey":"there"}"#;
    assert_eq!(client.post("/people", there).await.status, 201);
    (server, client)
}

/// R-S01, R-S07: an operation whose address asks for another one is refused as it is alone, and one that alone
/// would be something else is no write of an entity.
#[tokio::test]
async fn r_s07_an_operation_is_what_its_address_asks_for() {
    let (_server, mut client) = start().await;
    let point = "/people(PartitionKey='p',RowKey='there')";
    for (method, path, expected) in [
        ("POST", "/people?comp=acl", NOT_ALLOWED),
        ("PUT", "/people?comp=acl", OTHER),
        ("GET", "/people?comp=acl", OTHER),
        ("POST", "/people?comp=other", UNKNOWN),
        ("POST", "/people()?comp=other&timeout=5", UNKNOWN),
        ("POST", "/people?timeout=soon", UNKNOWN),
        ("PUT", &format!("{point}?comp=acl"), UNKNOWN),
        ("DELETE", &format!("{point}?comp=acl"), UNKNOWN),
        ("MERGE", &format!("{point}?comp=list"), UNKNOWN),
        ("PUT", &format!("{point}?timeout=-1"), UNKNOWN),
        ("PUT", "/?restype=service&comp=properties", OTHER),
        ("PUT", "/?comp=properties", UNKNOWN),
    ] {
        let entity = r#"{"PartitionKey":"p","RowKey":"new"}"#;
        let any = if path.starts_with(point) { "If-Match: *" } else { "Prefer: return-no-content" };
        let asked = part(&format!("{method} {BASE}{path}"), &[any], entity);
        // Also behind one that is alike but for the query string.
        let plain =
            part(&format!("POST {BASE}/people"), &[any], r#"{"PartitionKey":"p","RowKey":"1"}"#);
        for (operations, index) in [(vec![asked.clone()], "0:"), (vec![plain, asked], "1:")] {
            let (status, code, text) = failure(&post(&mut client, &change_set(&operations)).await);
            assert_eq!((status, &*code), expected, "{method} {path}");
            assert!(text.starts_with(index), "{method} {path}: {text}");
        }
        if expected != OTHER {
            let if_match = [("If-Match", "*")];
            let alone = client.send(method, path, &if_match, entity).await;
            assert_eq!(alone.failure(), expected, "{method} {path}");
        }
    }
    assert_eq!(rows(&mut client).await, ["there"]);
    // What is empty asks for nothing.
    let target = format!("POST {BASE}/people?comp=&timeout=30");
    let inserted = part(&target, &[], r#"{"PartitionKey":"p","RowKey":"new"}"#);
    let deleted = write("DELETE", "there", &["If-Match: *"], "");
    let done = parts(&post(&mut client, &change_set(&[inserted, insert("x"), deleted])).await);
    assert_eq!(done.iter().map(|part| part.status).collect::<Vec<_>>(), [201, 204, 204]);
}

/// R-S01, R-S07: a batch has a query of entities, and no other operation in its place.
#[tokio::test]
async fn r_s07_a_query_in_a_batch_is_what_its_address_asks_for() {
    let (_server, mut client) = start().await;
    let point = "/people(PartitionKey='p',RowKey='there')";
    for (method, path, expected) in [
        ("GET", "/people?comp=acl", OTHER),
        ("PUT", "/people?comp=acl", OTHER),
        ("GET", "/?restype=service&comp=properties", OTHER),
        ("GET", "/?comp=properties", UNKNOWN),
        ("GET", "/?restype=other&comp=properties", UNKNOWN),
        ("GET", "/people?comp=other", UNKNOWN),
        ("GET", "/people?timeout=soon", UNKNOWN),
        ("GET", &format!("{point}?comp=acl"), UNKNOWN),
        ("DELETE", "/people?comp=acl", NOT_ALLOWED),
    ] {
        let (status, code, text) =
            failure(&post(&mut client, &query(&format!("{method} {BASE}{path}"))).await);
        assert_eq!((status, &*code), expected, "{method} {path}");
        let other = "0:Outside of a change set a batch can have one query of entities.";
        assert!(text.starts_with("0:"), "{method} {path}: {text}");
        assert_eq!(text == other, expected == OTHER, "{method} {path}: {text}");
        if expected != OTHER {
            let alone = client.send(method, path, &[], "").await;
            assert_eq!(alone.failure(), expected, "{method} {path}");
        }
    }
    for path in ["/people?comp=&timeout=30", &format!("{point}?comp=")] {
        let found = parts(&post(&mut client, &query(&format!("GET {BASE}{path}"))).await);
        assert_eq!(found[0].status, 200, "{path}");
    }
}

/// Addresses of operations may leave out the host, or the account too.
#[tokio::test]
async fn r_s07_addresses_of_operations() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (row, target) in [
        ("a", "/devstoreaccount1/people"),
        ("b", "people"),
        ("c", "HTTP://elsewhere:1/devstoreaccount1/PEOPLE"),
        ("d", "/people"),
    ] {
        let body = change_set(&[insert(row).replace(&format!("{BASE}/people"), target)]);
        assert_eq!(parts(&post(&mut client, &body).await)[0].status, 204, "{target}");
    }
    assert_eq!(rows(&mut client).await, ["a", "b", "c", "d"]);
    // Another account's batch does not reach this one's tables.
    let mut second = server.client_of(SECOND_ACCOUNT, SECOND_KEY).await;
    let (status, code, _) = failure(&post(&mut second, &change_set(&[insert("x")])).await);
    assert_eq!((status, &*code), (400, "InvalidInput"));
    assert_eq!(rows(&mut client).await, ["a", "b", "c", "d"]);
}
