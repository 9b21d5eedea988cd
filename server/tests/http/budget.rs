//! The memory for bodies: answers have their share of it until they are sent (R-S12).

use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tablestone_server::auth::SigningKey;
use tablestone_server::body::AnswerBody;
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Limits};
use tablestone_server::net::Peer;

use crate::support::Server;

/// The answer, of which nobody takes anything yet.
async fn ask(server: &Server, method: &str, path: &str, body: &str) -> Response<AnswerBody> {
    let path = format!("/{DEVELOPMENT_ACCOUNT}{path}");
    let date = httpdate::fmt_http_date(SystemTime::now());
    let signed = path.split_once('?').map_or(&*path, |(path, _)| path);
    let signature = SigningKey::parse(DEVELOPMENT_KEY).unwrap().sign(|signer| {
        signer.line(&date).push("/").push(DEVELOPMENT_ACCOUNT).push(signed);
    });
    let authorization = format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}");
    let content_type =
        if path.ends_with("$batch") { "multipart/mixed; boundary=b" } else { "application/json" };
    let request = Request::builder().method(method).uri(&path);
    let request = request.header("Host", "localhost").header("x-ms-date", date);
    let request = request.header("Authorization", authorization);
    let request = request.header("Accept", "application/json;odata=fullmetadata");
    let request = request.header("Content-Type", content_type);
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    server.service.handle(request, Peer { address: None, secure: false }).await
}

/// A batch of one query.
fn batch(path: &str) -> String {
    let request = format!("GET /{DEVELOPMENT_ACCOUNT}{path} HTTP/1.1\r\n\r\n");
    format!("--b\r\nContent-Type: application/http\r\n\r\n{request}\r\n--b--\r\n")
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
