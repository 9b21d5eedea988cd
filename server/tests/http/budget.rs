//! The memory for bodies: answers have their share of it until they are sent (R-S12).

use http::Response;
use tablestone_server::body::AnswerBody;
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, Limits};

use crate::requests;
use crate::support::Server;

/// The answer, of which nobody takes anything yet.
pub(crate) async fn ask(
    server: &Server,
    method: &str,
    path: &str,
    body: &str,
) -> Response<AnswerBody> {
    let headers = [("Host", "localhost"), ("Accept", "application/json;odata=fullmetadata")];
    requests::answer(&server.service, method, path, &headers, body).await
}

/// A batch of one query.
fn batch(path: &str) -> String {
    let request = format!("GET /{DEVELOPMENT_ACCOUNT}{path} HTTP/1.1\r\n\r\n");
    format!("--b\r\nContent-Type: application/http\r\n\r\n{request}\r\n--b--\r\n")
}

const JSON: &str = "Content-Type: application/json";

/// A transaction of a hundred inserts, whose addresses are many times as long as what is sent.
fn inserts(partition: &str) -> String {
    let mut batch = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned();
    let long = "€".repeat(510);
    for row in 0..100 {
        let entity = format!(r#"{{"PartitionKey":"{partition}{long}","RowKey":"{row:02}{long}"}}"#);
        let head = format!("POST /{DEVELOPMENT_ACCOUNT}/people HTTP/1.1\r\n{JSON}\r\n\r\n");
        let request = format!("{head}{entity}");
        batch += &format!("--c\r\nContent-Type: application/http\r\n\r\n{request}\r\n");
    }
    batch + "--c--\r\n--b--\r\n"
}

/// R-S12: an answer that is longer than what was sent has a share before anything is done, and has no
/// more of it in the end than it needs.
#[tokio::test]
async fn r_s12_answers_to_transactions_have_their_own_share() {
    const MEMORY: usize = 16 << 20;
    let server = Server::with(Limits { body_memory: MEMORY, ..Limits::default() }).await;
    let table = ask(&server, "POST", "/Tables", r#"{"TableName":"people"}"#).await;
    assert_eq!(table.status(), 201);
    let (mut waiting, mut held) = (Vec::new(), 0);
    let refused = loop {
        let answer = ask(&server, "POST", "/$batch", &inserts(&waiting.len().to_string())).await;
        if answer.status() != 202 {
            break answer;
        }
        let length = answer.body().bytes().len();
        assert!(length > 3_000_000, "{length}");
        held += length;
        assert!(held <= MEMORY, "{} answers wait", waiting.len() + 1);
        waiting.push(answer);
    };
    assert_eq!(refused.status(), 503);
    assert!(waiting.len() > 2, "{} answers had a share", waiting.len());
    // What was refused was not done.
    let again = inserts(&waiting.len().to_string());
    waiting.clear();
    let answer = ask(&server, "POST", "/$batch", &again).await;
    assert!(answer.body().bytes().len() > 3_000_000);
}

/// R-S12: no answer to an insert is longer than what it had a share for, which the service asserts.
#[tokio::test]
async fn r_s12_answers_to_inserts_are_no_longer_than_foreseen() {
    let server = Server::start().await;
    let longest = "t".repeat(63);
    let table = format!(r#"{{"TableName":"{longest}"}}"#);
    assert_eq!(ask(&server, "POST", "/Tables", &table).await.status(), 201);
    let names = "ªµº".chars().cycle().take(254).collect::<String>();
    let quotes = "'".repeat(511);
    let properties = [
        String::new(),
        (0..250).map(|n| format!(r#","A{n}":"""#)).collect(),
        (0..250).map(|n| format!(r#","A{n}":1e15"#)).collect(),
        (0..250).map(|n| format!(r#","A{n}@odata.type":"Edm.Double","A{n}":"INF""#)).collect(),
        (0..9).map(|n| format!(r#","{names}{n}":1e15"#)).collect(),
        (0..9).map(|n| format!(r#","A{n}":"{}""#, r#"\""#.repeat(20_000))).collect(),
        (0..9).map(|n| format!(r#","A{n}":"{}""#, "&".repeat(20_000))).collect(),
        (0..9).map(|n| format!(r#","A{n}":"{}""#, r"\u001f".repeat(20_000))).collect(),
    ];
    let (atom, host) = (("x-ms-version", "2014-02-14"), "\"".repeat(259));
    for (at, properties) in properties.iter().enumerate() {
        for (form, headers) in [
            ("f", [("Accept", "application/json;odata=fullmetadata"), ("Host", &*host)]),
            ("n", [("Accept", "application/json;odata=nometadata"), ("Host", "h")]),
            ("a", [("Accept", "application/atom+xml"), ("Host", &*host)]),
            ("p", [("Prefer", "return-no-content"), ("Host", "h")]),
        ] {
            let headers = [headers[0], headers[1], atom];
            let headers = if form == "a" { &headers[..] } else { &headers[..2] };
            let entity = |row: &str| {
                let keys = format!(r#""PartitionKey":"{at}{quotes}","RowKey":"{row}{quotes}""#);
                format!("{{{keys}{properties}}}")
            };
            let path = format!("/{longest}");
            let (alone, batched) = (entity(form), entity(&form.to_uppercase()));
            let answer = requests::answer(&server.service, "POST", &path, headers, &alone).await;
            assert_eq!(answer.status(), if form == "p" { 204 } else { 201 }, "{at} {form}");
            let prefer = if form == "p" { "Prefer: return-no-content\r\n" } else { "" };
            let request =
                format!("POST /{DEVELOPMENT_ACCOUNT}{path} HTTP/1.1\r\n{prefer}{JSON}\r\n\r\n");
            let batch = format!(
                "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\
                 Content-Type: application/http\r\nContent-ID: {at}\r\n\r\n{request}{batched}\r\n\
                 --c--\r\n--b--\r\n"
            );
            let answer =
                requests::answer(&server.service, "POST", "/$batch", headers, &batch).await;
            let text = String::from_utf8_lossy(answer.body().bytes());
            let done = if form == "p" { "HTTP/1.1 204" } else { "HTTP/1.1 201" };
            assert!(answer.status() == 202 && text.contains(done), "{at} {form}: {text:.900}");
        }
    }
}

/// R-S12: what a body becomes once it is decoded has a share before anything is done; a small entity needs none.
#[tokio::test]
async fn r_s12_what_is_decoded_has_a_share() {
    let server = Server::with(Limits { body_memory: 64 << 10, ..Limits::default() }).await;
    let table = ask(&server, "POST", "/Tables", r#"{"TableName":"people"}"#).await;
    assert_eq!(table.status(), 201);
    let text = "x".repeat(30_000);
    let large = format!(r#"{{"PartitionKey":"p","RowKey":"large","Text":"{text}"}}"#);
    assert_eq!(ask(&server, "POST", "/people", &large).await.status(), 201);
    let members = |count: usize, value: &str| -> String {
        (0..count).map(|n| format!(r#","a{n:x}":{value}"#)).collect()
    };
    let mut numbers = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned();
    for row in 0..6 {
        let head =
            format!("POST /{DEVELOPMENT_ACCOUNT}/people HTTP/1.1\r\nPrefer: return-no-content");
        let keys = format!(r#""PartitionKey":"p","RowKey":"{row}""#);
        let entity = format!("{{{keys}{}}}", members(252, "0"));
        numbers += "--c\r\nContent-Type: application/http\r\n\r\n";
        numbers += &format!("{head}\r\n{JSON}\r\n\r\n{entity}\r\n");
    }
    numbers += "--c--\r\n--b--\r\n";
    let nulls = format!(r#"{{"A":1{}}}"#, members(1_000, "null"));
    let point = |row: &str| format!("/people(PartitionKey='p',RowKey='{row}')");
    let write = async || {
        assert!(numbers.len() < 16 << 10 && nulls.len() < 16 << 10);
        let nulls_at = point("nulls");
        tokio::join!(
            ask(&server, "POST", "/$batch", &numbers),
            ask(&server, "PUT", &nulls_at, &nulls),
        )
    };
    let held = [
        ask(&server, "GET", &point("large"), "").await,
        ask(&server, "GET", &point("large"), "").await,
    ];
    assert!(held.iter().all(|answer| answer.status() == 200));
    let (numbers, nulls) = write().await;
    assert_eq!((numbers.status().as_u16(), nulls.status().as_u16()), (503, 503));
    let small = format!(r#"{{"A":1{}}}"#, members(10, r#""text""#));
    assert_eq!(ask(&server, "PUT", &point("small"), &small).await.status(), 204);
    for row in ["0", "nulls"] {
        assert_eq!(ask(&server, "GET", &point(row), "").await.status(), 404, "{row}");
    }
    drop(held);
    let (numbers, nulls) = write().await;
    assert_eq!((numbers.status().as_u16(), nulls.status().as_u16()), (202, 204));
    assert_eq!(ask(&server, "GET", &point("0"), "").await.status(), 200);
}

/// R-S12: whatever was asked, an answer that is not taken leaves less for others.
#[tokio::test]
async fn r_s12_answers_that_wait_have_a_share() {
    let server = Server::with(Limits { body_memory: 64 << 10, ..Limits::default() }).await;
    let status = async |method: &str, path: &str, body: &str| {
        ask(&server, method, path, body).await.status().as_u16()
    };
    for number in 100..200 {
        let table = format!(r#"{{"TableName":"t{number}{}"}}"#, "x".repeat(59));
        assert_eq!(status("POST", "/Tables", &table).await, 201);
    }
    assert_eq!(status("POST", "/Tables", r#"{"TableName":"people"}"#).await, 201);
    let text = "x".repeat(30_000);
    let entity = |row: &str| format!(r#"{{"PartitionKey":"p","RowKey":"{row}","Text":"{text}"}}"#);
    assert_eq!(status("POST", "/people", &entity("1")).await, 201);
    let small = r#"{"PartitionKey":"p","RowKey":"small"}"#;
    assert_eq!(status("POST", "/people", small).await, 201);
    let (point, page) = ("/people(PartitionKey='p',RowKey='1')", "/people()?$top=1");
    for (method, path, body) in [
        ("GET", "/Tables", String::new()),
        ("GET", point, String::new()),
        ("GET", page, String::new()),
        ("POST", "/$batch", batch(point)),
        ("POST", "/$batch", batch(page)),
        ("POST", "/people", entity("2")),
    ] {
        let first = ask(&server, method, path, &body).await;
        assert!(first.status().is_success(), "{method} {path}: {first:?}");
        // A second share of 30 KiB is there, a third is not.
        let second = ask(&server, "GET", point, "").await;
        assert_eq!(second.status(), 200, "{method} {path}");
        assert_eq!(status("GET", point, "").await, 503, "{method} {path}");
        // As a whole, for clients try again only for that.
        assert_eq!(status("POST", "/$batch", &batch(point)).await, 503, "{method} {path}");
        // Those of small entities need none, however many wait.
        let small = "/people(PartitionKey='p',RowKey='small')";
        let mut waiting = Vec::new();
        for _ in 0..40 {
            waiting.push(ask(&server, "GET", small, "").await);
        }
        assert!(waiting.iter().all(|answer| answer.status() == 200), "{method} {path}");
        drop(first);
        assert_eq!(status("GET", point, "").await, 200, "{method} {path}");
    }
}
